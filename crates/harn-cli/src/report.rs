//! Run-time errors as diagnostics: the message, the location, and the stack trace as notes.

use std::sync::Arc;

use harn_check::Located;
use harn_syntax::{Diagnostic, SourceFile, Span};
use harn_vm::{Error, Vm};

/// A diagnostic and its file.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    /// The diagnostic.
    pub(crate) diagnostic: Diagnostic,
    /// The file, if its content is known.
    pub(crate) file: Option<Arc<SourceFile>>,
    /// The plain message that the test runner compares.
    pub(crate) plain: String,
    /// The stack frames, innermost first.
    pub(crate) calls: Vec<Call>,
    /// The category of an uncaught error.
    pub(crate) category: Option<String>,
}

/// A stack frame.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// Name of the calling function, `<closure>` or `pipeline`.
    pub(crate) function: String,
    /// Display name of its file.
    pub(crate) file: String,
    /// Line of the call.
    pub(crate) line: usize,
}

/// Adds the existing modules to the error about an unknown module.
pub(crate) fn add_neighbours(diagnostic: &mut Diagnostic) {
    let Some((_, rest)) = diagnostic.message.split_once("Unknown stdlib module: std/") else { return };
    if diagnostic.help.is_some() {
        return;
    }
    let name = rest.split([' ', '\n']).next().unwrap_or_default();
    let names = harn_runtime::std_module_names();
    let near = harn_vm::suggest::nearest(name, names.iter().copied());
    diagnostic.help = Some(match near {
        Some(near) => format!("did you mean `std/{near}`?"),
        None => {
            let all: Vec<String> = names.iter().map(|name| format!("std/{name}")).collect();
            format!("there are {}", all.join(", "))
        }
    });
}

impl Problem {
    /// Creates a problem from a finding in one of the program's files.
    pub(crate) fn located(found: Located) -> Problem {
        let plain = found.diagnostic.message.clone();
        Problem { diagnostic: found.diagnostic, file: found.file, plain, calls: Vec::new(), category: None }
    }

    /// Creates a problem without a location.
    pub(crate) fn general(text: String) -> Problem {
        let diagnostic = Diagnostic::error(text.clone());
        Problem { diagnostic, file: None, plain: text, calls: Vec::new(), category: None }
    }

    /// Creates a problem from an uncaught error.
    pub(crate) fn of_error(vm: &Vm, error: &Error) -> Problem {
        let (mut diagnostic, file) = harn_vm::uncaught(vm, error);
        if let (Some(file), Some(span)) = (&file, diagnostic.span) {
            let span = token_span(file.text(), span);
            let declared = !diagnostic.labels.is_empty() || !diagnostic.elsewhere.is_empty();
            let text = if declared { "the call" } else { "" };
            diagnostic.labels.insert(0, (span, text.to_owned()));
        }
        let line = |module: u32, span: Span| {
            vm.source(module).map_or(0, |(_, text)| harn_syntax::source_map::line_column(&text, span.start).0)
        };
        let calls = error
            .places()
            .2
            .iter()
            .map(|entry| Call {
                function: entry.function.clone(),
                file: entry.file.to_string(),
                line: line(entry.module, entry.span),
            })
            .collect();
        let plain = diagnostic.message.clone();
        // The rendered diagnostic already shows the location.
        if let (Some(_), Some(at)) = (diagnostic.span, plain.rfind(" (line "))
            && plain.ends_with(')')
            && error.shows_line()
        {
            diagnostic.message.truncate(at);
        }
        add_neighbours(&mut diagnostic);
        let category = Some(harn_runtime::error_category(error));
        Problem { diagnostic, file: file.map(Arc::new), plain, calls, category }
    }

    /// Returns the start offset.
    pub(crate) fn start(&self) -> Option<u32> {
        self.diagnostic.span.map(|span| span.start)
    }

    /// Formats the problem for a terminal.
    pub(crate) fn draw(&self, colour: bool) -> String {
        match &self.file {
            Some(file) => self.diagnostic.render(file, colour),
            None => self.diagnostic.render_plain(colour),
        }
    }

    /// Returns the problem as JSON.
    pub(crate) fn json(&self) -> harn_value::Data {
        let mut json: harn_value::Data = match &self.file {
            Some(file) => self.diagnostic.to_json(file).into(),
            None => harn_value::json!({
                "severity": self.diagnostic.severity.word(), "message": self.diagnostic.message, "file": null,
            }),
        };
        if let Some(object) = json.as_object_mut().filter(|_| !self.calls.is_empty()) {
            let calls: Vec<_> = self
                .calls
                .iter()
                .map(|call| harn_value::json!({"function": call.function, "file": call.file, "line": call.line}))
                .collect();
            object.insert("calls".to_owned(), calls.into());
            // The notes contain the same as text.
            object.insert("notes".to_owned(), harn_value::json!([]));
        }
        json
    }

    /// Returns the entry in the reports of `harn check` and `harn lint`: [`Problem::json`] with the category, the rule
    /// and a flat location.
    pub(crate) fn finding(&self) -> harn_value::Data {
        let mut json = self.json();
        let code = self.diagnostic.code;
        json["category"] = category(code).into();
        json["rule"] = (!code.is_empty()).then_some(code).into();
        for key in ["line", "column", "end_line", "end_column"] {
            json[key] = json["span"][key].clone();
        }
        json["fixable"] = self.diagnostic.fix.is_some().into();
        json
    }
}

/// Returns the category of a code. Findings without a code prevent the file from being read or compiled.
fn category(code: &str) -> &'static str {
    match code.as_bytes() {
        [] | [b'E', b'0', b'0', ..] => "syntax",
        [b'P', b'0'..=b'9', ..] => "preflight",
        [b'I', b'0'..=b'9', ..] => "invariant",
        [b'A'..=b'Z', b'0'..=b'9', ..] => "type",
        _ => "lint",
    }
}

/// Returns the span to underline for a run-time error: a whole name or number, otherwise one character.
fn token_span(source: &str, span: Span) -> Span {
    let rest = source.get(span.start as usize..).unwrap_or_default();
    let word: usize = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').map(char::len_utf8).sum();
    let one = rest.chars().next().map_or(0, char::len_utf8);
    Span::new(span.start, span.start + word.max(one) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_word_is_underlined() {
        assert_eq!(token_span("total + 1", Span::new(0, 9)), Span::new(0, 5));
        assert_eq!(token_span("total + 1", Span::new(6, 9)), Span::new(6, 7));
    }
}
