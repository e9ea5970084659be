//! Test reports in the JUnit XML format.

use crate::args::room_for_bytes;
use harn_value::{Dict, Value};
use harn_vm::{Error, builtins};
use roxmltree::{Document, Node};

builtins! {
    /// Test reports.
    pub(crate) static JUNIT: "test_reports";

    /// Lists the cases of a JUnit report: `{name, status, duration_ms, message, stdout, stderr}`.
    ///
    /// `status` is `passed`, `failed`, `skipped` or `errored`. Malformed input has no cases.
    ///
    /// ```harn
    /// let xml = "<testsuite><testcase classname='m' name='t' time='0.5'><failure message='no'/></testcase></testsuite>"
    /// let c = parse_junit_xml(xml)[0]
    /// println([c.name, c.status, c.duration_ms, c.message]) // -> [m::t, failed, 500, no]
    /// ```
    Pure fn parse_junit_xml(cx, report: Value) -> "list" {
        let text = match (report.as_str(), report.as_bytes()) {
            (Some(text), _) => text.to_string(),
            (_, Some(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
            _ if report.is_nil() => String::new(),
            _ => {
                let got = report.type_name();
                return Err(Error::thrown(format!("parse_junit_xml: expected string or bytes, got {got}")));
            }
        };
        // The parsed document needs several times the memory of the XML; parsing cannot be interrupted.
        room_for_bytes(text.len().saturating_mul(16))?;
        match Document::parse(&text) {
            Ok(document) => {
                let cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
                cases.map(|node| Value::from(case(node))).collect::<Vec<_>>()
            }
            Err(_) => Vec::new(),
        }
    }
}

fn case(node: Node<'_, '_>) -> Dict {
    let child = |name: &str| node.children().find(|child| child.has_tag_name(name));
    let name = node.attribute("name").unwrap_or_default();
    let problem = child("failure").or_else(|| child("error"));
    let status = match (child("failure"), child("error"), child("skipped")) {
        (Some(_), ..) => "failed",
        (_, Some(_), _) => "errored",
        (.., Some(_)) => "skipped",
        _ => "passed",
    };
    let seconds = node.attribute("time").and_then(|time| time.parse::<f64>().ok()).unwrap_or(0.0);
    let mut dict = Dict::new();
    dict.insert(
        "name",
        match node.attribute("classname").filter(|class| !class.is_empty()) {
            Some(class) => format!("{class}::{name}"),
            None => name.to_owned(),
        },
    );
    dict.insert("status", status);
    dict.insert("duration_ms", (seconds * 1000.0) as i64);
    dict.insert("message", problem.and_then(message));
    dict.insert("stdout", child("system-out").and_then(content));
    dict.insert("stderr", child("system-err").and_then(content));
    dict
}

/// Returns the trimmed text of an element, if any.
fn content(node: Node<'_, '_>) -> Option<String> {
    let text: String = node.descendants().filter(Node::is_text).filter_map(|part| part.text()).collect();
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn message(problem: Node<'_, '_>) -> Option<String> {
    let attribute = problem.attribute("message").map(str::trim).filter(|m| !m.is_empty());
    let parts: Vec<String> = attribute.map(str::to_owned).into_iter().chain(content(problem)).collect();
    (!parts.is_empty()).then(|| parts.join("\n"))
}
