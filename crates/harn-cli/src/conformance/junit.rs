//! The report in JUnit XML format.

use std::fmt::Write;
use std::time::Duration;

/// A case of the report: name, duration and failure message.
pub(crate) type Row<'a> = (&'a str, Duration, Option<&'a str>);

/// Writes the report.
pub(crate) fn report(rows: &[Row]) -> String {
    let failures = rows.iter().filter(|(_, _, failure)| failure.is_some()).count();
    let total: Duration = rows.iter().map(|(_, time, _)| *time).sum();
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"harn\" tests=\"{}\" failures=\"{failures}\" \
         time=\"{:.3}\">\n",
        rows.len(),
        total.as_secs_f64()
    );
    for (name, time, failure) in rows {
        let _ = write!(out, "  <testcase name=\"{}\" time=\"{:.3}\"", escape(name), time.as_secs_f64());
        match failure {
            None => out.push_str("/>\n"),
            Some(text) => {
                let _ = writeln!(
                    out,
                    ">\n    <failure message=\"test failed\">{}</failure>\n  </testcase>",
                    escape(text)
                );
            }
        }
    }
    out.push_str("</testsuite>\n");
    out
}

/// Escapes a string for XML, and replaces characters that XML cannot represent.
fn escape(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '&' => "&amp;".to_owned(),
            '<' => "&lt;".to_owned(),
            '>' => "&gt;".to_owned(),
            '"' => "&quot;".to_owned(),
            '\n' | '\t' => c.to_string(),
            c if c.is_control() => "\u{fffd}".to_owned(),
            c => c.to_string(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_escaped() {
        let rows = [
            ("a.harn", Duration::from_millis(5), None),
            ("b.harn", Duration::from_millis(7), Some("<\"&\u{1}>")),
        ];
        let xml = report(&rows);
        assert!(xml.contains("tests=\"2\" failures=\"1\" time=\"0.012\""), "{xml}");
        assert!(xml.contains("<testcase name=\"a.harn\" time=\"0.005\"/>"), "{xml}");
        assert!(xml.contains("&lt;&quot;&amp;\u{fffd}&gt;</failure>"), "{xml}");
    }
}
