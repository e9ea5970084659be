//! Hostile input: large, deep, unusual, malicious. It never causes a panic, a hang or a stack overflow.
use crate::common::{render, with};
use harn_template::{Origin, RenderContext, Template};
use harn_value::{Dict, Foreign, Range, Value};
use proptest::prelude::*;

#[test]
fn large_templates_render() {
    let row = "some text {{ x }} and { braces } and {{# comments #}}\n";
    let text = row.repeat((10 << 20) / row.len());
    let template = Template::parse(Origin::Inline, text).unwrap();
    let rendered =
        template.render(&crate::common::bindings(r#"{"x": 1}"#), &RenderContext::default()).unwrap();
    assert_eq!(rendered.matches("some text 1 and { braces } and \n").count(), (10 << 20) / row.len());
}

#[test]
fn templates_beyond_the_limit_are_refused() {
    let text = " ".repeat(harn_template::MAX_TEMPLATE_BYTES + 1);
    let error = Template::parse(Origin::Inline, text).unwrap_err();
    assert_eq!(error.to_string(), "at 1:1: template is too large (67108865 bytes, the limit is 67108864)");
}

#[test]
fn blocks_nest_to_a_limit() {
    let nest = |n: usize| format!("{}x{}", "{{ if true }}".repeat(n), "{{ end }}".repeat(n));
    assert_eq!(render(&nest(128), "{}"), "x");
    assert_eq!(render(&nest(129), "{}"), "at 1:1665: template nesting depth exceeded (128 levels)");
    assert_eq!(render(&nest(10_000), "{}"), "at 1:1665: template nesting depth exceeded (128 levels)");
    let mixed = format!("{}x", "{{ for a in b }}{{ section \"task\" }}".repeat(5_000));
    assert!(render(&mixed, "{}").ends_with("template nesting depth exceeded (128 levels)"));
}

#[test]
fn expressions_nest_to_a_limit() {
    let parens = |n: usize| format!("{{{{ {}1{} }}}}", "(".repeat(n), ")".repeat(n));
    assert_eq!(render(&parens(128), "{}"), "1");
    assert_eq!(render(&parens(129), "{}"), "at 1:1: template nesting depth exceeded (128 levels)");
    assert_eq!(render(&parens(100_000), "{}"), "at 1:1: template nesting depth exceeded (128 levels)");
    assert!(
        render(&format!("{{{{ {}1 }}}}", "not ".repeat(100_000)), "{}").contains("nesting depth exceeded")
    );
    assert!(
        render(&format!("{{{{ 1 == {}1 }}}}", "!".repeat(100_000)), "{}").contains("nesting depth exceeded")
    );
}

#[test]
fn long_chains_are_not_deep() {
    assert_eq!(render(&format!("{{{{ nil{} or 7 }}}}", " or nil".repeat(50_000)), "{}"), "7");
    assert_eq!(render(&format!("{{{{ 'a'{} }}}}", " | trim".repeat(50_000)), "{}"), "a");
    let elifs = format!("{{{{ if nil }}}}{}{{{{ else }}}}z{{{{ end }}}}", "{{ elif nil }}y".repeat(20_000));
    assert_eq!(render(&elifs, "{}"), "z");
    assert_eq!(render(&format!("{{{{ a{} }}}}", ".b".repeat(50_000)), "{}"), "");
}

#[test]
fn endless_loops_stop_at_the_output_limit_or_on_request() {
    let huge = Value::range(Range { start: i64::MIN, end: i64::MAX, exclusive: false });
    assert_eq!(with("{{ v | length }}", huge.clone()), i64::MAX.to_string());
    let bindings = Value::dict([("v", huge)].into_iter().collect());
    let template = Template::inline("{{ for x in v }}{{ x }}{{ end }}").unwrap();
    let small = RenderContext { max_output: 1 << 20, ..RenderContext::default() };
    assert_eq!(
        template.render(&bindings, &small).unwrap_err().to_string(),
        "at 1:1: template output exceeds 1048576 bytes"
    );
    let quiet = Template::inline("{{ for x in v }}{{ end }}").unwrap();
    let stopped = RenderContext { interrupted: Some(&|| true), ..RenderContext::default() };
    assert_eq!(
        quiet.render(&bindings, &stopped).unwrap_err().to_string(),
        "at 1:1: rendering was interrupted"
    );
}

#[test]
fn includes_that_double_stop_on_request() {
    let doubling = |path: &str| -> Option<&'static str> {
        let n: usize = path.strip_suffix(".prompt")?.parse().ok()?;
        let next = format!("{{{{ include \"{0}.prompt\" }}}}{{{{ include \"{0}.prompt\" }}}}", n + 1);
        Some(if n == 31 { "" } else { Box::leak(next.into_boxed_str()) })
    };
    let loader = harn_template::AssetLoader(doubling);
    let asked = std::cell::Cell::new(0);
    let interrupted = || {
        asked.set(asked.get() + 1);
        asked.get() > 3
    };
    let context =
        RenderContext { loader: &loader, interrupted: Some(&interrupted), ..RenderContext::default() };
    let error = Template::inline("{{ include \"std/0.prompt\" }}")
        .unwrap()
        .render(&Value::NIL, &context)
        .unwrap_err();
    assert!(error.to_string().ends_with("rendering was interrupted"), "{error}");
}

#[test]
fn deep_values_print_and_serialize() {
    let deep = (0..100_000).fold(Value::NIL, |inner, _| Value::list(vec![inner]));
    assert_eq!(with("{{ v }}", deep.clone()).len(), 200_003);
    assert_eq!(with("{{ v | json }}", deep).len(), 200_004);
}

/// A stand-in for the VM's closures.
struct Closure;

impl Foreign for Closure {
    fn type_name(&self) -> &'static str {
        "closure"
    }

    fn print(&self, out: &mut String) {
        out.push_str("<fn(x)>");
    }

    fn equals(&self, _other: &dyn Foreign) -> bool {
        false
    }
}

#[test]
fn closures_are_values_like_any_other() {
    let closure = || Value::foreign(Closure);
    assert_eq!(with("{{ v }}{{ if v }}!{{ end }}{{ v.x }}{{ v[0] }}", closure()), "<fn(x)>!");
    assert_eq!(with("{{ v | upper }}{{ v | json }}{{ v | first }}", closure()), "<FN(X)>null");
    assert!(with("{{ for x in v }}{{ end }}", closure()).contains("cannot iterate over closure"));
    assert!(with("{{ include v }}", closure()).contains("include path must be a string (got closure)"));
    assert_eq!(with("{{ if v < v or v == v }}1{{ else }}0{{ end }}", closure()), "0");
    let tool = Value::dict([("name", Value::str("t")), ("handler", closure())].into_iter().collect());
    let registry: Dict =
        [("_type", Value::str("tool_registry")), ("tools", Value::list(vec![tool]))].into_iter().collect();
    let tools = with("{{ section \"tools\" tools=v }}{{ endsection }}", Value::dict(registry));
    assert_eq!(tools, "Tools:\n[\n  {\n    \"name\": \"t\"\n  }\n]");
}

const SOUP: &str = r#"(\{\{|\}\}|\{\{-|-\}\}|\{\{#|#\}\}|[a-c{}|.,:()\[\]'"\\=<>!& \n-]|if |elif |else|end|for x in |include |section "task"|endsection|raw|endraw| with |é|not |and | or |1|"s"|upper|join: |default: ){0,40}"#;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_text_panics(text in SOUP) {
        render(&text, r#"{"a": [1, 2], "b": {"c": "x"}, "c": null}"#);
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        render(&String::from_utf8_lossy(&bytes), "{}");
    }

    #[test]
    fn recording_does_not_change_the_text(text in SOUP) {
        let data = crate::common::bindings(r#"{"a": [1, 2], "b": {"c": "x"}, "c": null}"#);
        if let Ok(template) = Template::inline(&text) {
            let context = RenderContext::default();
            let plain = template.render(&data, &context).map_err(|e| e.to_string());
            let recorded = template.render_with_provenance(&data, &context).map_err(|e| e.to_string());
            if let Ok(recorded) = &recorded {
                for span in &recorded.spans {
                    prop_assert!(span.output_start <= span.output_end && span.output_end <= recorded.text.len());
                    prop_assert!(recorded.text.is_char_boundary(span.output_start) && recorded.text.is_char_boundary(span.output_end));
                }
            }
            prop_assert_eq!(plain, recorded.map(|r| r.text));
        }
    }

    #[test]
    fn text_without_directives_is_untouched(text in r"([a-z \n\r\t}]|\{ )*") {
        prop_assert_eq!(render(&text, "{}"), text);
    }
}
