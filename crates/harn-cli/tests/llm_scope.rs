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
