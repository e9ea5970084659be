//! The HTML report of `harn eval prompt`. All untrusted content is escaped.

use std::fmt::Write as _;

use harn_value::Data as Value;

use super::list;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2em;color:#1c1e21;background:#fff}\
    table{border-collapse:collapse}td,th{padding:.25em .8em;border-bottom:1px solid #d8dbe0;text-align:left}\
    .row{display:flex;gap:1em;flex-wrap:wrap;align-items:flex-start}\
    section{flex:1 1 24em;min-width:0;border:1px solid #d8dbe0;border-radius:6px;padding:0 1em 1em}\
    pre{white-space:pre-wrap;overflow-wrap:anywhere;font:13px/1.45 ui-monospace,monospace;margin:0}\
    .error{color:#a4161a}\
    @media(prefers-color-scheme:dark){body{color:#e4e6eb;background:#16181b}td,th,section{border-color:#3a3d42}.error{color:#ff7b72}}";

fn escaped(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.printed(), str::to_owned);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => {
                let _ = write!(out, "\\u{{{:x}}}", c as u32);
            }
            c => out.push(c),
        }
    }
    out
}

/// Renders the page.
pub(super) fn page(report: &Value) -> String {
    let title = escaped(&report["template"]);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <h1>{title}</h1>\n<p>Revision {}</p>\n<table>\n<tr><th>Model</th><th>Provider</th><th>Family</th><th>Variant</th><th>Bytes</th></tr>\n",
        escaped(&report["revision_hash"])
    );
    for model in list(report, "models") {
        let cells = ["model", "provider", "family", "variant", "bytes"]
            .map(|key| format!("<td>{}</td>", escaped(&model[key])));
        let _ = writeln!(out, "<tr>{}</tr>", cells.concat());
    }
    out.push_str("</table>\n<h2>Variants</h2>\n<div class=\"row\">\n");
    for variant in list(report, "variants") {
        let models: Vec<String> = list(variant, "models").iter().map(escaped).collect();
        let _ = writeln!(
            out,
            "<section>\n<h3>{}: {}</h3>\n<pre>{}</pre>\n</section>",
            escaped(&variant["variant"]),
            models.join(", "),
            escaped(&variant["text"])
        );
    }
    out.push_str("</div>\n");
    if report["mode"] != "render" {
        out.push_str("<h2>Answers</h2>\n<div class=\"row\">\n");
        for model in list(report, "models") {
            let _ = writeln!(out, "<section>\n<h3>{}</h3>", escaped(&model["model"]));
            if !model["answer"].is_null() {
                let _ = writeln!(out, "<pre>{}</pre>", escaped(&model["answer"]));
            }
            if !model["error"].is_null() {
                let _ = writeln!(out, "<p class=\"error\">{}</p>", escaped(&model["error"]["message"]));
            }
            if !model["verdict"].is_null() {
                let (score, reason) = (&model["verdict"]["score"], &model["verdict"]["reason"]);
                let _ = writeln!(out, "<p>Score {} of 10: {}</p>", escaped(score), escaped(reason));
            }
            out.push_str("</section>\n");
        }
        out.push_str("</div>\n");
    }
    out.push_str("</body>\n</html>\n");
    out
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::page;

    #[test]
    fn text_of_others_is_no_markup() {
        let report = json!({
            "template": "<a>", "mode": "run", "models": [{"model": "m", "answer": "<script>x</script>"}],
            "variants": [{"variant": "A", "models": ["m"], "text": "</pre><b onclick='x'>\u{1b}"}],
        });
        let page = page(&report);
        assert!(!page.contains("<script") && !page.contains("<b ") && !page.contains('\u{1b}'), "{page}");
        assert!(page.contains("&lt;script&gt;x&lt;/script&gt;"));
        assert!(page.contains("&lt;/pre&gt;&lt;b onclick=&#39;x&#39;&gt;\\u{1b}"));
    }
}
