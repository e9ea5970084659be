//! Restrictions by environment variables: the targets of requests, and the sandbox of programs.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::common::{Ran, command, finish, folder};

fn run(program: &str, variables: &[(&str, &str)]) -> Ran {
    let mut command = command(&["run", "-e", program]);
    command.envs(variables.iter().copied());
    finish(command, b"")
}

/// Starts a server that redirects each request. Returns its port.
fn sends_elsewhere(place: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4096]);
            let reply = format!(
                "HTTP/1.1 302 Found\r\nlocation: {place}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            );
            let _ = stream.write_all(reply.as_bytes());
        }
    });
    port
}

#[test]
fn requests_and_redirects_are_held_to_the_rules_of_the_environment() {
    let port = sends_elsewhere("http://169.254.169.254/latest?token=x".to_owned());
    let program = format!(
        "println(unwrap_err(try {{ http_get(\"http://127.0.0.1:{port}/\") }}).message)\n\
         println(unwrap_err(try {{ http_get(\"http://a.test/\") }}).reason)\n\
         println(unwrap_err(try {{ egress_policy({{}}) }}))"
    );
    let rules = [("HARN_EGRESS_ALLOW", "127.0.0.0/8; *.b.test"), ("HARN_EGRESS_DEFAULT", "deny")];
    let ran = run(&program, &rules);
    let wanted = "EgressBlocked: http_request blocked 169.254.169.254:80 for http://169.254.169.254/latest \
                  (no allow rule matched)\nno allow rule matched\n\
                  egress_policy: policy already configured from environment\n";
    assert_eq!(ran.out, wanted, "{}", ran.err);
}

#[test]
fn rules_that_are_none_let_nothing_pass() {
    let program = "http_mock(\"*\", \"*\", {})\nprintln(unwrap_err(try { http_get(\"http://a.test/\") }))";
    for (name, value, wanted) in [
        ("HARN_EGRESS_DEFAULT", "no", "HARN_EGRESS_DEFAULT must be `allow` or `deny`, got `no`\n"),
        ("HARN_EGRESS_DENY", "a.test:x", "HARN_EGRESS_DENY: `a.test:x` is no rule: `x` is no port\n"),
        (
            "HARN_EGRESS_ALLOW",
            "b.test,*",
            "HARN_EGRESS_ALLOW: `*` is no rule: `*` stands only at the beginning, as in `*.example.com`\n",
        ),
    ] {
        let ran = run(program, &[(name, value)]);
        assert_eq!(ran.out, wanted, "{}", ran.err);
    }
}

#[test]
fn the_sandbox_of_handlers_holds_or_stops_the_run() {
    let folder = folder(&[]);
    let out = folder.path().join("escaped");
    let program =
        format!("println(unwrap_err(try {{ write_file({:?}, \"x\") }}))", out.display().to_string());
    let ran = run(&program, &[("HARN_HANDLER_SANDBOX", "enforce")]);
    assert!(ran.out.contains("sandbox violation"), "{} {}", ran.out, ran.err);
    assert!(!out.exists());
    let net = "println(try { http_get(\"http://127.0.0.1:1/\") })";
    assert!(run(net, &[("HARN_HANDLER_SANDBOX", "enforce")]).out.contains("ceiling"));
    let ran = run("println(1)", &[("HARN_HANDLER_SANDBOX", "bogus")]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.contains("HARN_HANDLER_SANDBOX must be `enforce` or `off`, got `bogus`"), "{}", ran.err);
    assert_eq!(run("println(1)", &[("HARN_HANDLER_SANDBOX", "off")]).out, "1\n");
}
