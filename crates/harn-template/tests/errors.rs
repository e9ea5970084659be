//! The exact messages and locations of errors, as one snapshot.

use std::fmt::Write;

/// Templates that fail to parse or to render, in the order of the reference.
const CASES: &[&str] = &[
    // lexing
    "a\nb {{ x",
    "{{ \"abc }}",
    "{{# never",
    "x {{ raw }} y",
    "{{ # }}",
    // blocks
    "{{ end }}",
    "{{ else }}",
    "{{ elif x }}",
    "{{ endsection }}",
    "{{ if a }}{{ else }}{{ else }}{{ end }}",
    "{{ if a }}{{ else }}{{ elif b }}{{ end }}",
    "{{ for x in y }}{{ elif b }}{{ end }}",
    "{{ section \"task\" }}{{ end }}",
    "{{ if a }}{{ endsection }}{{ end }}",
    "x\n {{ if a }}",
    "{{ for x in y }}",
    "{{ if a }}\n{{ else }}",
    "{{ for x in y }}\n{{ else }}",
    "{{ if a }}{{ elif b }}",
    "{{ if a }}{{ else if b }}{{ end }}",
    "{{ for x in y }}{{ if a }}{{ end }}",
    // heads
    "{{ }}",
    "{{-}}",
    "{{ if }}",
    "{{ include }}",
    "{{ if a }}{{ elif }}{{ end }}",
    "{{ for x y }}",
    "{{ for x in }}",
    "{{ for 1 in y }}",
    "{{ for x, 2 in y }}",
    "{{ for a, b, c in y }}",
    "{{ for true in y }}",
    "{{ for x in y z }}{{ end }}",
    "{{ include \"a\" with }}",
    "{{ include \"a\" with x }}",
    "{{ include \"a\" with { x } }}",
    "{{ include \"a\" with { 1: x } }}",
    "{{ include \"a\" with { x: 1 y: 2 } }}",
    "{{ include \"a\" with { x: 1 }}",
    "{{ include \"a\" with { x: } }}",
    "{{ include \"a\" \"b\" }}",
    "{{ section }}",
    "{{ section task }}",
    "{{ section \"nope\" }}",
    "{{ section \"task\" x }}",
    "{{ section \"task\" x==1 }}",
    "{{ section \"task\" a-b=1 }}",
    "{{ section \"task\" 1a=1 }}",
    "{{ section \"task\" x= }}",
    "{{ section \"task\" x=1 == 2 == 3 }}",
    "{{ section \"task\" }}",
    "{{ section \"task\" }}{{ endsection \"tools\" }}",
    "{{ section \"task\" }}{{ endsection \"task\" x }}",
    "{{ section \"task\" }}{{ endsection task }}",
    // expressions
    "{{ 1 == 2 == 3 }}",
    "{{ x y }}",
    "{{ [1] }}",
    "{{ a == }}",
    "{{ a and }}",
    "{{ and b }}",
    "{{ not }}{{ not a b }}",
    "{{ 1 + 2 }}",
    "{{ -x }}",
    "{{ @a }}",
    "{{ {a} }}",
    "{{ a & b }}",
    "{{ a = b }}",
    "{{ a | }}",
    "{{ a | 1 }}",
    "{{ a | default: }}",
    "{{ a | join: 1, }}",
    "{{ (a }}",
    "{{ (a b) }}",
    "{{ () }}",
    "{{ a[0 }}",
    "{{ a[x] }}",
    "{{ a[1.5] }}",
    "{{ a. }}",
    "{{ a.0 }}",
    "{{ a.b c }}",
    "{{ 99999999999999999999 }}",
    "{{ 1.2.3 }}",
    "{{ .5 }}",
    "{{ 1. }}",
    "{{ f(x) }}",
    "{{ a, b }}",
    "{{ a : b }}",
    "{{ 'a' 'b' }}",
    "{{ a[99999999999999999999] }}",
    "{{ if(x) }}",
    "{{ \u{1}x }}",
    // rendering
    "é{{ 1 | nope }}",
    "{{ 1 | upper: 2 }}",
    "{{ 1 | replace: 2 }}",
    "{{ 1 | length }}",
    "{{ true | join: 1 }}",
    "{{ 1 | indent: \"x\" }}",
    "{{ for x in 1 }}{{ end }}",
    "{{ include 1 }}",
    "{{ include \"nowhere.prompt\" }}",
    "{{ include \"std/none.prompt\" }}",
    "{{ if (1 | nope) }}{{ end }}",
    "{{ section \"tools\" tools=1 | nope }}{{ endsection }}",
    "{{ include \"a\" with { x: 1 | nope } }}",
];

#[test]
fn texts_and_places() {
    let mut snapshot = String::new();
    for case in CASES {
        let result = crate::common::render(case, "{}");
        let _ = writeln!(snapshot, "{case:?}\n    {result}");
    }
    insta::assert_snapshot!(snapshot);
}

#[test]
fn spans_cover_the_directive() {
    let text = "ab\n{{ x y }} c";
    let error = harn_template::Template::inline(text).unwrap_err();
    assert_eq!(&text[error.span()], "{{ x y }}");
    assert_eq!(error.position(), Some((2, 1)));
}
