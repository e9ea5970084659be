//! `harn lsp` with invalid input. Its responses are tested elsewhere.

use crate::common::{Ran, harn_with};

fn message(text: &str) -> String {
    format!("Content-Length: {}\r\n\r\n{text}", text.len())
}

fn hello() -> String {
    message(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}"#)
        + &message(r#"{"jsonrpc":"2.0","method":"initialized","params":{}}"#)
}

fn lsp(input: &str) -> Ran {
    harn_with(&["lsp"], input)
}

#[test]
fn a_session_ends_well() {
    let bye = message(r#"{"jsonrpc":"2.0","id":2,"method":"shutdown"}"#)
        + &message(r#"{"jsonrpc":"2.0","method":"exit"}"#);
    let ran = lsp(&(hello() + &bye));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.shown());
    assert!(ran.out.contains("\"capabilities\"") && ran.out.contains("\"id\":2"), "{}", ran.out);
}

#[test]
fn a_broken_input_is_told_with_its_cause() {
    let before = [
        (
            "Content-Length: 99999999999999\r\n\r\n",
            "the Content-Length of a message is 99999999999999: at most",
        ),
        ("Content-Length: -1\r\n\r\n", "the Content-Length of a message is \"-1\""),
        ("A: b\r\n\r\n", "a message has no Content-Length"),
        ("", "the editor went away before the session had begun"),
    ];
    for (input, told) in before {
        let ran = lsp(input);
        assert_eq!(ran.code, 1, "{}", ran.shown());
        assert!(ran.err.starts_with(&format!("error: {told}")), "{}", ran.shown());
    }
    let long = lsp(&"x".repeat(3 << 20));
    assert!(
        long.code == 1 && long.err.contains("a line of its head has at most 8192 bytes"),
        "{}",
        long.shown()
    );
    for (input, told) in [
        ("Content-Length: 3\r\n\r\n{{{", "a message is neither request nor notification nor answer: "),
        ("Content-Length: 30\r\n\r\n{}", "the input ends in a message: 2 of its 30 bytes are there"),
        ("Content-Length: 99999999999999\r\n\r\n", "the Content-Length of a message is"),
    ] {
        let ran = lsp(&(hello() + input));
        assert_eq!(ran.code, 1, "{}", ran.shown());
        assert!(ran.err.starts_with(&format!("error: {told}")), "{}", ran.shown());
        // Earlier requests are answered.
        assert!(ran.out.contains("\"capabilities\""), "{}", ran.shown());
    }
    let ran = harn_with(&["dap"], "Content-Length: 99999999999999\r\n\r\n");
    assert!(ran.code == 1 && ran.err.contains("at most 67108864 bytes"), "{}", ran.shown());
}
