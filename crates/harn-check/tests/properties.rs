//! Whatever the program, the checks end, and twice give the same.

use std::path::Path;

use harn_check::{Quiet, Settings, Source, check_program, check_templates};
use proptest::prelude::*;

/// Pieces of programs; joined at random they often parse, and what does not parse leaves the rest of the tree.
const PIECES: [&str; 40] = [
    "fn f(a, b = 1, ...c) {",
    "gen fn s() {",
    "pipeline p() {",
    "pipeline q() extends p {",
    "if x {",
    "} else {",
    "}",
    "}\n",
    "for (a, b) in xs {",
    "match x {",
    "[a, ...r] ->  {",
    "E.V(n) if n -> {",
    "try {",
    "} catch (e) {",
    "select {",
    "m from ch {",
    "let x = ",
    "var {a, b: c} = ",
    "x = ",
    "x.y[0] += ",
    "return ",
    "emit ",
    "yield ",
    "throw ",
    "break\n",
    "f(1, ...xs)\n",
    "P {a: 1}\n",
    "{ x -> x() }\n",
    "render(\"a.prompt\", {a: 1})\n",
    "\"${f(x)}\"\n",
    "x |> f(_)\n",
    "import \"lib\"\n",
    "struct P { a: int }\n",
    "override f(a) {",
    "impl P {",
    "tool t(q) {",
    "@deprecated fn g() {",
    "eval_pack \"k\" { a: 1\n",
    "spawn {",
    "1\n",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn checks_never_panic_and_are_deterministic(picks in prop::collection::vec(0..PIECES.len(), 0..40)) {
        let text: String = picks.into_iter().map(|at| PIECES[at]).collect();
        let parsed = harn_syntax::parse(&text);
        let source = Source { name: "main.harn", dir: Path::new("/nonexistent"), text: &text, tree: &parsed.program };
        let world = crate::common::world();
        let first = check_program(&source, &world);
        prop_assert_eq!(&first, &check_program(&source, &world));
        let starts: Vec<_> = first.iter().map(|diagnostic| diagnostic.span.map(|span| span.start)).collect();
        prop_assert!(starts.is_sorted());
        prop_assert!(first.iter().all(|d| d.span.is_some_and(|span| text.get(span.range()).is_some())));
        let settings = Settings::default();
        let second = check_templates(&source, &world, &settings, &Quiet::default());
        prop_assert_eq!(second.len(), check_templates(&source, &world, &settings, &Quiet::default()).len());
    }

    #[test]
    fn templates_of_any_text_are_linted(text in "(\\{\\{ ?(if|for x in|include|end|x)? ?[a-z.\"=|]{0,8} ?\\}\\}|[a-zé\n]){0,12}") {
        for diagnostic in harn_check::lint_template_file(Path::new("a.prompt"), &text, &Settings::default()) {
            prop_assert!(diagnostic.span.is_some_and(|span| text.get(span.range()).is_some()));
        }
    }
}
