//! Rendering rules, one test each: directives, expressions, output, scopes, includes.
use crate::common::{bindings, render, with};
use harn_template::{AssetLoader, RenderContext, Template};
use harn_value::{EnumType, EnumValue, Range, Ref, Set, Str, StructType, StructValue, Value};

#[test]
fn text_is_returned_exactly() {
    for text in ["", "plain\n", "a\r\n\r\n", "{ } }} { {", "\u{feff}x", "no newline"] {
        assert_eq!(render(text, "{}"), text);
    }
}

#[test]
fn missing_bare_names_write_their_source() {
    assert_eq!(render("a {{ name }} {{name}} {{\tname\n}}", "{}"), "a {{ name }} {{name}} {{\tname\n}}");
    assert_eq!(render("a  {{- name -}}  b", "{}"), "a{{ name }}b");
    assert_eq!(render("[{{ name }}]", r#"{"name": null}"#), "[]");
    assert_eq!(render("[{{ a.x }}{{ (a) }}{{ a | upper }}{{ a[0] }}]", "{}"), "[]");
}

#[test]
fn literals_stand_alone() {
    assert_eq!(
        render("{{ true }}{{ false }}{{ nil }}{{ 12 }}{{ -3 }}{{ 1.5 }}{{ 'a' }}", "{}"),
        "truefalse12-31.5a"
    );
    assert_eq!(render(r#"{{ "é\n\t\"\q\\" }}"#, "{}"), "é\n\t\"q\\");
    assert_eq!(render("{{-5}}", "{}"), "5");
    assert_eq!(render("{{ and }}{{ not }}", "{}"), "{{ and }}{{ not }}");
}

#[test]
fn paths_never_fail() {
    let data = r#"{"u": {"tags": ["a", "b"], "k-e y": {"z": 1}, "true": 2}, "s": "añb", "n": 5}"#;
    assert_eq!(render("{{ u.tags[0] }}{{ u.tags[-1] }}{{ u.tags[9] }}{{ u.tags[-9] }}", data), "ab");
    assert_eq!(render(r#"{{ u["k-e y"].z }}{{ u['tags'][1] }}{{ u.true }}"#, data), "1b2");
    assert_eq!(render("{{ s[1] }}{{ s[-1] }}{{ s[3] }}{{ s[0].x }}{{ s[0][0] }}", data), "ñba");
    assert_eq!(render("[{{ n.x }}{{ n[0] }}{{ u[0] }}{{ u.tags.x }}]", data), "[]");
    assert_eq!(render("{{ u . tags [ 0 ] }}", data), "a");
}

#[test]
fn structs_are_read_like_dicts() {
    let ty = StructType::new(Str::new("P"), vec![Str::new("y"), Str::new("x")]);
    let point = StructValue {
        ty: Ref::new(ty),
        slots: [Value::int(2), Value::int(1)].into_iter().collect(),
        extra: None,
    };
    let point = Value::from(point);
    assert_eq!(with("{{ v.x }}{{ v[\"y\"] }}{{ v.z }} {{ v }}", point.clone()), "12 P {x: 1, y: 2}");
    assert_eq!(
        with("{{ for k, f in v }}{{ k }}={{ f }};{{ end }}{{ for f in v }}{{ f }}{{ end }}", point.clone()),
        "x=1;y=2;12"
    );
    let template = Template::inline("{{ x }}{{ y }}").unwrap();
    assert_eq!(template.render(&point, &RenderContext::default()).unwrap(), "12");
}

#[test]
fn values_write_their_printed_form() {
    let list =
        Value::list(vec![Value::int(1), Value::str("a"), Value::NIL, Value::list(vec![Value::float(2.5)])]);
    assert_eq!(with("{{ v }}", list), "[1, a, nil, [2.5]]");
    assert_eq!(render("{{ v }}", r#"{"v": {"b": "x", "a": null}}"#), "{a: nil, b: x}");
    assert_eq!(with("{{ v }}", Value::from(Set::from_iter([Value::int(1), Value::int(2)]))), "set(1, 2)");
    assert_eq!(with("{{ v }}", Value::range(Range { start: 1, end: 4, exclusive: false })), "1 to 4");
    assert_eq!(with("{{ v }}", Value::duration(5000)), "5s");
    assert_eq!(with("{{ v }}", Value::float(2.0)), "2.0");
    let ty = Ref::new(EnumType { name: Str::new("Color"), variants: vec![Str::new("Rgb")] });
    let color = EnumValue { ty, variant: 0, fields: [Value::int(1), Value::int(2)].into_iter().collect() };
    assert_eq!(with("{{ v }}{{ v.x }}", color.into()), "Color.Rgb(1, 2)");
}

#[test]
fn operators() {
    let check = |expr: &str, expected: &str| {
        let data = r#"{"a": 1, "s": "x", "l": [1, 2], "m": [1, 2.0], "z": 0, "e": ""}"#;
        assert_eq!(render(&format!("{{{{ {expr} }}}}"), data), expected, "{expr}");
    };
    for (expr, expected) in [
        ("1 == 1.0", "true"),
        ("\"1\" == 1", "false"),
        ("nil == missing", "true"),
        ("l == m", "true"),
        ("l != m", "false"),
        ("1 < 1.5", "true"),
        ("\"a\" < \"b\"", "true"),
        ("\"a\" < 1", "false"),
        ("nil < 1", "false"),
        ("nil >= nil", "false"),
        ("2 >= 2", "true"),
        ("2 <= 1", "false"),
        ("2 > 1", "true"),
        ("true < false", "false"),
        ("1 and \"x\"", "x"),
        ("nil or \"d\"", "d"),
        ("0 and (1 | nope)", "0"),
        ("1 or (1 | nope)", "1"),
        ("e or z or nil", ""),
        ("a && s || e", "x"),
        ("nil or 0 and 1", "0"),
        ("not a", "false"),
        ("!e", "true"),
        ("not not a", "true"),
        ("not a == 2", "true"),
        ("a == not e", "false"),
        ("true == not e", "true"),
        ("true == !!a", "true"),
        ("e or s | upper", "X"),
        ("(e or s) | upper", "X"),
        ("e | default: s | upper", "X"),
        ("(s | upper) == \"X\"", "true"),
        ("((a))", "1"),
        ("l | join: e or \"-\"", "1-2"),
    ] {
        check(expr, expected);
    }
}

#[test]
fn conditions_take_the_first_true_branch() {
    let template = "{{ if a }}A{{ elif b }}B{{ elif c }}C{{ else }}D{{ end if }}";
    assert_eq!(render(template, r#"{"a": 1, "b": 1}"#), "A");
    assert_eq!(render(template, r#"{"b": "x", "c": 1}"#), "B");
    assert_eq!(render(template, r#"{"c": [0]}"#), "C");
    assert_eq!(render(template, r#"{"a": " \n", "b": {}, "c": 0.0}"#), "D");
    assert_eq!(render("[{{ if a }}A{{ elif b }}B{{ end }}]", "{}"), "[]");
    assert_eq!(render("{{ if a }}{{ if b }}1{{ else }}2{{ end }}{{ else }}3{{ end }}", r#"{"a": 1}"#), "2");
}

#[test]
fn loops_over_everything_iterable() {
    assert_eq!(render("{{ for x in v }}{{ x }},{{ end }}", r#"{"v": [1, "b", null]}"#), "1,b,,");
    assert_eq!(render("{{ for i, x in v }}{{ i }}{{ x }},{{ end }}", r#"{"v": ["a", "b"]}"#), "0a,1b,");
    assert_eq!(render("{{ for k, x in v }}{{ k }}{{ x }},{{ end }}", r#"{"v": {"b": 2, "a": 1}}"#), "a1,b2,");
    assert_eq!(render("{{ for x in v }}{{ x }},{{ end }}", r#"{"v": {"b": 2, "a": 1}}"#), "1,2,");
    let range = |exclusive| Value::range(Range { start: 3, end: 5, exclusive });
    assert_eq!(with("{{ for i, x in v }}{{ i }}{{ x }} {{ end }}", range(false)), "03 14 25 ");
    assert_eq!(with("{{ for x in v }}{{ x }}{{ end }}", range(true)), "34");
    let set = Value::from(Set::from_iter([Value::str("b"), Value::str("a")]));
    assert_eq!(with("{{ for i, x in v }}{{ i }}{{ x }}{{ end }}", set), "0b1a");
    assert_eq!(render("{{ for x in v }}x{{ else }}none{{ end }}", "{}"), "none");
    assert_eq!(render("{{ for x in v }}x{{ else }}none{{ end }}", r#"{"v": []}"#), "none");
    assert_eq!(render("{{ for x in v }}{{ x }}{{ else }}none{{ end }}!", r#"{"v": [1, 2]}"#), "12!");
    assert_eq!(
        render("{{ for x in v }}{{ end }}", r#"{"v": "text"}"#),
        "at 1:1: cannot iterate over string — expected list, dict, set, or range"
    );
    assert_eq!(render("{{ for\tx\nin v }}{{ x }}{{ end }}", r#"{"v": [1]}"#), "1");
    assert_eq!(render(r#"{{ for x in v[" in "] }}{{ x }}{{ end }}"#, r#"{"v": {" in ": [7]}}"#), "7");
}

#[test]
fn the_loop_dict() {
    let template = "{{ for x in v }}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {{ end }}";
    assert_eq!(render(template, r#"{"v": [9, 9]}"#), "10truefalse2 21falsetrue2 ");
    let whole = "{first: true, index: 1, index0: 0, last: true, length: 1}";
    assert_eq!(
        render(
            "{{ for x in v }}{{ loop }}{{ (loop) }}{{ loop.none }}{{ loop[\"index\"] }}{{ end }}",
            r#"{"v": [1]}"#
        ),
        format!("{whole}{whole}1")
    );
    assert_eq!(
        render(
            "{{ for a in v }}{{ for b in a }}{{ loop.index }}{{ end }}-{{ loop.index }} {{ end }}",
            r#"{"v": [[1, 2], [3]]}"#
        ),
        "12-1 1-2 "
    );
    assert_eq!(
        render("{{ for loop in v }}{{ loop.index }}{{ end }}{{ loop }}", r#"{"v": [7]}"#),
        "1{{ loop }}"
    );
}

#[test]
fn loop_scopes_end_with_the_loop() {
    assert_eq!(render("{{ for x in v }}{{ x }}{{ end }}{{ x }}", r#"{"v": [1], "x": "out"}"#), "1out");
    assert_eq!(render("{{ for x in v }}{{ else }}{{ x }}{{ end }}", r#"{"x": "out"}"#), "out");
    assert_eq!(
        render("{{ for x in x }}{{ for y in x }}{{ y }}{{ end }}{{ end }}", r#"{"x": [[1], [2]]}"#),
        "12"
    );
    assert_eq!(render("{{ for x, x in v }}{{ x }}{{ end }}", r#"{"v": ["a"]}"#), "a");
}

#[test]
fn trim_markers_and_loops() {
    let three = r#"{"xs": ["a", "b", "c"]}"#;
    assert_eq!(
        render("Items:\n{{- for x in xs -}}\n {{ x }},\n{{- end -}}\nDONE", three),
        "Items: a, b, c,DONE"
    );
    assert_eq!(
        render("Items:\n{{- for x in xs -}}\n  {{ x }},\n{{- end -}}\nDONE", three),
        "Items:  a,  b,  c,DONE"
    );
    assert_eq!(render("Items:\n{{- for x in xs -}}\n{{ x }},\n{{- end -}}\nDONE", three), "Items:a,b,c,DONE");
    assert_eq!(render("a\n{{ if xs }}\nb\n{{ end }}\nc", three), "a\n\nb\n\nc");
}

#[test]
fn includes_see_the_scope_and_give_nothing_back() {
    assert_eq!(
        render("{{ include \"std/row.prompt\" with { x: v | upper, y: 1 + } }}", "{}"),
        "at 1:1: unexpected character `+` in expression"
    );
    assert_eq!(
        render("{{ include \"std/row.prompt\" with { x: v | upper, y: 1, } }}{{ x }}", r#"{"v": "a"}"#),
        "A=1;{{ x }}"
    );
    assert_eq!(render("{{ include \"std/row.prompt\" with { y: x } }}", r#"{"x": 1}"#), "1=1;");
    assert_eq!(render("{{ include \"std/row.prompt\" }}", "{}"), "{{ x }}={{ y }};");
    assert_eq!(render("{{ include p }}", r#"{"p": "std/row.prompt", "x": 1, "y": null}"#), "1=;");
    assert_eq!(render("[{{ include \"std/line.prompt\" }}]", "{}"), "[line\n]");
    assert_eq!(
        render("{{ for item in v }}{{ include \"std/loop.prompt\" }}{{ end }}", r#"{"v": ["a", "b"]}"#),
        "1/2:a 2/2:b "
    );
    assert_eq!(
        render(
            "{{ for item in v }}{{ include \"std/loop.prompt\" with { item: 9, loop: item } }}{{ end }}",
            r#"{"v": [{"index": 7}]}"#
        ),
        "7/:9 "
    );
    assert_eq!(render("{{ include p with{ x: 1 } }}", r#"{"p": "std/row.prompt"}"#), "1={{ y }};");
    assert_eq!(
        render("{{ include with with { x: 1, x: 2 } }}", r#"{"with": "std/row.prompt"}"#),
        "2={{ y }};"
    );
    let arguments =
        "{{ include \"std/row.prompt\" with { x: v | replace: \"a\", \"b\", y: v | default: 1 } }}";
    assert_eq!(render(arguments, r#"{"v": "a"}"#), "b=a;");
}

#[test]
fn errors_name_the_file_that_holds_the_directive() {
    assert_eq!(
        render("\n{{ include \"std/bad.prompt\" }}", "{}"),
        "std://bad.prompt at 2:3: expected expression"
    );
    assert_eq!(
        render("\n{{ include \"std/fails.prompt\" }}", "{}"),
        "std://fails.prompt at 2:3: unknown filter `nope`"
    );
    assert_eq!(
        render("é {{ include \"std/none.prompt\" }}", "{}"),
        "at 1:3: unknown stdlib prompt asset 'std/none.prompt'"
    );
    assert_eq!(render("{{ include 1 }}", "{}"), "at 1:1: include path must be a string (got int)");
    assert_eq!(render("{{ if false }}{{ include \"std/bad.prompt\" }}{{ end }}", "{}"), "");
}

#[test]
fn circles_show_every_member() {
    assert_eq!(
        render("{{ include \"std/cycle/a.prompt\" }}", "{}"),
        "std://cycle/b.prompt at 1:1: circular include detected: std://cycle/a.prompt → std://cycle/b.prompt → std://cycle/a.prompt"
    );
    let loader = AssetLoader(crate::common::asset);
    let entry = Template::load("std/cycle/b.prompt", &loader).unwrap();
    let context = RenderContext { loader: &loader, ..RenderContext::default() };
    assert_eq!(
        entry.render(&Value::NIL, &context).unwrap_err().to_string(),
        "std://cycle/a.prompt at 1:1: circular include detected: std://cycle/b.prompt → std://cycle/a.prompt → std://cycle/b.prompt"
    );
}

#[test]
fn thirty_two_includes_may_nest() {
    let chain = |path: &str| -> Option<&'static str> {
        let n: usize = path.strip_suffix(".prompt")?.parse().ok()?;
        // Leaked once per level and test.
        (n > 0)
            .then(|| &*Box::leak(format!("{n} {{{{ include \"{}.prompt\" }}}}", n - 1).into_boxed_str()))
            .or(Some("0"))
    };
    let loader = AssetLoader(chain);
    let context = RenderContext { loader: &loader, ..RenderContext::default() };
    let render = |n: usize| {
        Template::inline(&format!("{{{{ include \"std/{n}.prompt\" }}}}"))
            .unwrap()
            .render(&Value::NIL, &context)
    };
    assert!(render(31).unwrap().ends_with(" 1 0"));
    assert_eq!(
        render(32).unwrap_err().to_string(),
        "std://1.prompt at 1:3: include depth exceeded (32 levels)"
    );
}

#[test]
fn llm_is_nil_outside_a_context_and_a_binding_wins() {
    let template =
        Template::inline("{{ if llm }}{{ llm.provider }}{{ else }}none{{ end }}{{ llm }}").unwrap();
    assert_eq!(template.render(&bindings("{}"), &RenderContext::default()).unwrap(), "none");
    let llm = bindings(r#"{"provider": "p"}"#);
    let context = RenderContext { llm: &llm, ..RenderContext::default() };
    assert_eq!(template.render(&Value::NIL, &context).unwrap(), "p{provider: p}");
    assert_eq!(
        template.render(&bindings(r#"{"llm": {"provider": "mine"}}"#), &context).unwrap(),
        "mine{provider: mine}"
    );
    let section = Template::inline("{{ section \"task\" }}x{{ endsection \"task\" }}").unwrap();
    let xml = bindings(r#"{"llm": {"capabilities": {"prefers_xml_scaffolding": true}}}"#);
    assert_eq!(section.render(&xml, &context).unwrap(), "<task>\nx\n</task>");
    assert_eq!(section.render(&Value::NIL, &context).unwrap(), "Task:\nx");
}

#[test]
fn sections_nest_and_hold_directives() {
    let template = "a\n{{ section \"system_framing\" }}\n{{ section \"examples\" extra=1, }}\n{{ for x in xs }}- {{ x }}\n{{ end }}{{ endsection }}\n{{ endsection }}\nb";
    assert_eq!(render(template, r#"{"xs": [1, 2]}"#), "a\nSystem Instructions:\nExamples:\n- 1\n- 2\nb");
    let arguments = "{{ section 'tools' other=a | default: 1, 2, tools=v | default: x }}{{ endsection }}";
    assert_eq!(render(arguments, r#"{"v": ["t"]}"#), "Tools:\n[\n  \"t\"\n]");
}

#[test]
fn bindings_must_be_a_dict() {
    let template = Template::inline("x").unwrap();
    let error = template.render(&Value::int(1), &RenderContext::default()).unwrap_err();
    assert_eq!(error.to_string(), "bindings must be a dict, got int");
    assert_eq!(error.position(), None);
}

#[test]
fn the_same_template_renders_again_and_again() {
    let template = Template::inline("{{ for x in v }}{{ x }}{{ end }}").unwrap();
    for _ in 0..3 {
        assert_eq!(template.render(&bindings(r#"{"v": [1, 2]}"#), &RenderContext::default()).unwrap(), "12");
    }
    assert_eq!(template.revision_hash().len(), 64);
    let empty = Template::inline("").unwrap();
    assert_eq!(empty.revision_hash(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}
