//! Diagnostics: the frame, several locations, JSON; and the source map.

use harn_syntax::{Diagnostic, FileId, Severity, SourceFile, SourceMap, Span};

fn file(text: &str) -> SourceFile {
    SourceFile::new("main.harn", text)
}

fn span_of(text: &str, part: &str) -> Span {
    let start = text.find(part).expect("the part is there") as u32;
    Span::new(start, start + part.len() as u32)
}

#[test]
fn a_runtime_error_with_callers() {
    let text = "fn total(x, n) {\n  return x + n\n}\n";
    let diagnostic = Diagnostic::error("Type error: Cannot add int and nil (line 2)")
        .with_label(span_of(text, "+"), "")
        .with_note("called from total at main.harn:6")
        .with_note("called from pipeline at main.harn:9");
    let expected = "error: Type error: Cannot add int and nil (line 2)\n  --> main.harn:2:12\n   |\n 2 |   return x + n\n   \
                    |            ^\n  = note: called from total at main.harn:6\n  = note: called from pipeline at \
                    main.harn:9\n";
    assert_eq!(diagnostic.render(&file(text), false), expected);
}

#[test]
fn a_type_error_has_no_carets() {
    let text = "pipeline p() {\n  let x: int = \"no\"\n}";
    let diagnostic = Diagnostic::error("'x' declared as int, but assigned string").at(span_of(text, "let x"));
    assert_eq!(
        diagnostic.render(&file(text), false),
        "error: 'x' declared as int, but assigned string\n  --> main.harn:2:3\n   |\n 2 |   let x: int = \"no\"\n"
    );
}

#[test]
fn a_lint_has_label_and_help() {
    let text = "let x = 1";
    let diagnostic = Diagnostic::warning("variable `x` is never used")
        .with_code("unused-variable")
        .with_label(span_of(text, "x"), "lint[unused-variable]")
        .with_help("prefix it with `_`");
    assert_eq!(
        diagnostic.render(&file(text), false),
        "warning: variable `x` is never used\n  --> main.harn:1:5\n   |\n 1 | let x = 1\n   |     ^ \
         lint[unused-variable]\n   = help: prefix it with `_`\n"
    );
}

#[test]
fn without_place_only_the_message_is_drawn() {
    let diagnostic = Diagnostic::error("unreadable").with_help("look").with_note("n");
    assert_eq!(diagnostic.render(&file("x"), false), "error: unreadable\n  = note: n\n   = help: look\n");
    assert_eq!(Diagnostic::error("unreadable").at(Span::at(0)).render_plain(false), "error: unreadable\n");
}

#[test]
fn a_span_over_lines_is_underlined_to_the_line_end() {
    let text = "f(a,\n  b)";
    let drawn =
        Diagnostic::error("m").with_label(Span::new(0, text.len() as u32), "l").render(&file(text), false);
    assert!(drawn.ends_with(" 1 | f(a,\n   | ^^^^ l\n"), "{drawn}");
}

#[test]
fn long_lines_are_cut_around_the_place() {
    let text = format!("let x = \"{}\" + bad + \"{}\"", "a".repeat(5000), "b".repeat(5000));
    let drawn = Diagnostic::error("m").with_label(span_of(&text, "bad"), "l").render(&file(&text), false);
    insta::assert_snapshot!(drawn);
}

#[test]
fn several_places_are_drawn_together() {
    let text = "fn f(a, b) {\n  a\n}\n\nf(1, 2, 3)\n";
    let diagnostic = Diagnostic::error("`f` takes 2 arguments, 3 are given")
        .with_label(span_of(text, "f(1, 2, 3)"), "called here")
        .with_label(span_of(text, "(a, b)"), "declared here")
        .with_help("remove the last argument");
    insta::assert_snapshot!(diagnostic.render(&file(text), false));
}

#[test]
fn colour_is_used_only_when_asked_for() {
    let diagnostic = Diagnostic::error("m").with_label(Span::new(0, 1), "l").with_label(Span::new(2, 3), "k");
    for labels in [1, 2] {
        let mut diagnostic = diagnostic.clone();
        diagnostic.labels.truncate(labels);
        assert!(!diagnostic.render(&file("a b"), false).contains('\u{1b}'));
        assert!(diagnostic.render(&file("a b"), true).contains("\u{1b}[1;31merror\u{1b}[0m: "));
    }
}

#[test]
fn json_has_positions_and_offsets() {
    let text = "let é = 1\nlet y = é";
    let diagnostic = Diagnostic::warning("m")
        .with_code("W1")
        .with_label(span_of(text, "y = é"), "l")
        .with_fix("rename", vec![(span_of(text, "y"), "_y".to_owned())]);
    insta::assert_snapshot!(format!("{:#}", diagnostic.to_json(&file(text))));
    assert_eq!(Diagnostic::error("m").to_json(&file(""))["span"], serde_json::Value::Null);
}

#[test]
fn severities_are_ordered_by_weight() {
    assert!(Severity::Error < Severity::Warning && Severity::Warning < Severity::Info);
}

#[test]
fn lines_and_columns_count_from_one_in_characters() {
    let file = file("aé\n\r\n日本x\r\n");
    assert_eq!(file.line_column(0), (1, 1));
    assert_eq!(file.line_column(3), (1, 3));
    assert_eq!(file.line_column(4), (2, 1));
    assert_eq!(file.line_column(12), (3, 3));
    assert_eq!(file.line_column(1000), (4, 1));
    assert_eq!(file.line_count(), 4);
    assert_eq!(file.line_text(1), Some("aé"));
    assert_eq!(file.line_text(2), Some(""));
    assert_eq!(file.line_text(3), Some("日本x"));
    assert_eq!(file.line_text(4), Some(""));
    assert_eq!(file.line_text(5), None);
    assert_eq!(file.line_text(0), None);
    for (offset, _) in file.text().char_indices() {
        let (line, column) = file.line_column(offset as u32);
        let found = file.offset(line, column).expect("a line");
        assert!(found == offset as u32 || file.text()[found as usize..].starts_with('\r'), "{offset}");
        assert_eq!(harn_syntax::source_map::line_column(file.text(), offset as u32), (line, column));
    }
}

#[test]
fn a_source_map_numbers_files() {
    let mut map = SourceMap::new();
    let a = map.add("a.harn", "1");
    let b = map.add("b.harn", "2");
    assert_eq!((a, b), (FileId(0), FileId(1)));
    assert_eq!(map.get(b).map(|file| file.text()), Some("2"));
    assert_eq!(map.find("a.harn"), Some(a));
    assert!(map.get(FileId(2)).is_none());
    assert_eq!(map.iter().count(), 2);
}

#[test]
fn spans_join_and_slice() {
    let span = Span::new(2, 4).to(Span::new(6, 9));
    assert_eq!(span, Span::new(2, 9));
    assert_eq!((span.len(), span.is_empty(), span.contains(8), span.contains(9)), (7, false, true, false));
    assert_eq!(span.slice("short"), "");
    assert_eq!(Span::new(1, 3).slice("short"), "ho");
}
