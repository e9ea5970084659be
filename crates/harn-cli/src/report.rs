//! Runtime errors as diagnostics: the message, the place, and the calls that led there as notes.

use std::collections::HashMap;
use std::rc::Rc;

use harn_syntax::{Diagnostic, SourceFile, Span};
use harn_vm::{Error, Vm};

/// More calls than this are cut in the middle.
const MAX_CALLS: usize = 30;

/// How many calls of a longer stack are shown from its inner and its outer end.
const INNER_CALLS: usize = 20;
const OUTER_CALLS: usize = 10;

/// A diagnostic, and the file it is about.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    /// What to tell.
    pub(crate) diagnostic: Diagnostic,
    /// The file, when its text is known.
    pub(crate) file: Option<Rc<SourceFile>>,
    /// The plain message that the test runner compares.
    pub(crate) plain: String,
    /// The callers, innermost first.
    pub(crate) calls: Vec<Call>,
}

/// A call that an error passed.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// Name of the function that made the call, `<closure>` or `pipeline`.
    pub(crate) function: String,
    /// Its file as it is shown.
    pub(crate) file: String,
    /// The line of the call.
    pub(crate) line: usize,
}

impl Problem {
    /// A problem of a source text that was found before it ran.
    pub(crate) fn of_text(diagnostic: Diagnostic, file: &Rc<SourceFile>, plain: String) -> Problem {
        Problem { diagnostic, file: Some(file.clone()), plain, calls: Vec::new() }
    }

    /// An uncaught error.
    pub(crate) fn of_error(vm: &Vm, error: &Error) -> Problem {
        let mut files: HashMap<u32, Option<Rc<SourceFile>>> = HashMap::new();
        let mut file_of = |module: u32| {
            let known = files.entry(module).or_insert_with(|| {
                let (name, text) = vm.source(module)?;
                Some(Rc::new(SourceFile::new(&*name, &*text)))
            });
            known.clone()
        };
        let trace = error.trace();
        let place = trace.first().and_then(|entry| Some((file_of(entry.module)?, entry.span)));
        let line = place.as_ref().map(|(file, span)| file.line(span.start));
        let plain = error.settled_text(line);
        let calls: Vec<Call> = trace
            .iter()
            .skip(1)
            .map(|entry| Call {
                function: entry.function.clone(),
                file: entry.file.to_string(),
                line: file_of(entry.module).map_or(0, |file| file.line(entry.span.start)),
            })
            .collect();
        let mut diagnostic = Diagnostic::error(plain.clone());
        if let Some((file, span)) = &place {
            diagnostic = diagnostic.with_label(token_span(file.text(), *span), "");
        }
        diagnostic.notes = notes(&calls);
        Problem { diagnostic, file: place.map(|(file, _)| file), plain, calls }
    }

    /// The drawn form.
    pub(crate) fn draw(&self, colour: bool) -> String {
        match &self.file {
            Some(file) => self.diagnostic.render(file, colour),
            None => self.diagnostic.render_plain(colour),
        }
    }

    /// The form for tools.
    pub(crate) fn json(&self) -> serde_json::Value {
        let mut json = match &self.file {
            Some(file) => self.diagnostic.to_json(file),
            None => serde_json::json!({
                "severity": self.diagnostic.severity.word(), "message": self.diagnostic.message, "file": null,
            }),
        };
        if let Some(object) = json.as_object_mut().filter(|_| !self.calls.is_empty()) {
            let calls: Vec<_> = self
                .calls
                .iter()
                .map(|call| serde_json::json!({"function": call.function, "file": call.file, "line": call.line}))
                .collect();
            object.insert("calls".to_owned(), calls.into());
            // The notes say the same in words.
            object.insert("notes".to_owned(), serde_json::json!([]));
        }
        json
    }
}

/// One line per call; of a long stack both ends.
fn notes(calls: &[Call]) -> Vec<String> {
    let hidden = if calls.len() > MAX_CALLS { calls.len() - INNER_CALLS - OUTER_CALLS } else { 0 };
    let mut notes = Vec::new();
    for (i, call) in calls.iter().enumerate() {
        if hidden > 0 && i == INNER_CALLS {
            notes.push(format!("... {hidden} more frames"));
        }
        if hidden == 0 || i < INNER_CALLS || i >= INNER_CALLS + hidden {
            notes.push(format!("called from {} at {}:{}", call.function, call.file, call.line));
        }
    }
    notes
}

/// What is underlined for a runtime error: a whole name or number, one character of anything else.
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
    fn a_long_stack_is_cut_in_the_middle() {
        let call = |i: usize| Call { function: format!("f{i}"), file: "a.harn".to_owned(), line: i };
        let notes_of = |n: usize| notes(&(1..=n).map(call).collect::<Vec<_>>());
        assert_eq!(notes_of(30).len(), 30);
        let long = notes_of(45);
        assert_eq!(long.len(), 31);
        assert_eq!(long[19], "called from f20 at a.harn:20");
        assert_eq!(long[20], "... 15 more frames");
        assert_eq!(long[21], "called from f36 at a.harn:36");
    }

    #[test]
    fn a_whole_word_is_underlined() {
        assert_eq!(token_span("total + 1", Span::new(0, 9)), Span::new(0, 5));
        assert_eq!(token_span("total + 1", Span::new(6, 9)), Span::new(6, 7));
    }
}
