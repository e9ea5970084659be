//! The warning `template.llm_scope`: a binding of the program hides the model that a template would see.

use crate::common::{folder, harn_in, run_text};

#[test]
fn a_binding_named_llm_wins_and_is_told_once_per_template() {
    let program = r#"
println(render_string("{{ llm.model }}", {llm: {model: "outside"}}))
__push_llm_render_context("mock", "mock")
println(render_string("{{ llm.model }}", {}))
for i in 0 to 3 exclusive { println(render("a.prompt", {llm: {model: "mine"}})) }
__pop_llm_render_context()
"#;
    let folder = folder(&[("main.harn", program), ("a.prompt", "{{ llm.model }}")]);
    let ran = harn_in(folder.path(), &["run", "main.harn"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "outside\nmock\nmine\nmine\nmine\n"), "{}", ran.shown());
    let lines: Vec<&str> = ran.err.lines().collect();
    assert_eq!(lines.len(), 1, "{}", ran.err);
    for part in ["warning: template.llm_scope: ", "rename it", "a.prompt", "reason=user_binding_shadowed"] {
        assert!(lines[0].contains(part), "{part}: {}", lines[0]);
    }
}

#[test]
fn other_bindings_are_not_warned_about() {
    let ran = run_text(
        "__push_llm_render_context(\"mock\", \"mock\")\nprintln(render_string(\"{{ x }}\", {x: 1}))\n",
    );
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "1\n", ""));
}

#[test]
fn unbound_names_of_templates_are_told_once() {
    let project = folder(&[
        (
            "main.harn",
            r#"
let bindings = {name: "Ada", extra: 1}
for _ in 1 to 2 { println(render_string("Hi {{ nme }} {{ user.name }}{{ tone | upper }}!", bindings)) }
println(render("a.prompt", bindings))
println(render("a.prompt"))
println(render_string("{{ x | default: \"\" }}{{ if y }}{{ y }}{{ end }}{{ name }}", bindings))
"#,
        ),
        ("a.prompt", "A {{ include \"b.prompt\" }}"),
        ("b.prompt", "B {{ other }}"),
    ]);
    let ran = harn_in(project.path(), &["run", "main.harn"]);
    assert_eq!(
        ran.out, "Hi {{ nme }} !\nHi {{ nme }} !\nA B {{ other }}\nA B {{ other }}\nAda\n",
        "{}",
        ran.err
    );
    let told: Vec<&str> =
        ran.err.lines().filter_map(|line| line.strip_prefix("[harn] warning: template: ")).collect();
    let file = project.path().join("b.prompt").display().to_string();
    assert_eq!(
        told,
        [
            "`nme` is not bound in the template at 1:4, so it stays as written; did you mean `name`?",
            "`user` is not bound in the template at 1:14, so nothing is written for it",
            "`tone` is not bound in the template at 1:29, so nothing is written for it",
            &format!("`other` is not bound in {file} at 1:3, so it stays as written"),
        ]
    );
}
