//! `harn explain NAME`: documentation from the tables in the binary, and the generated reference pages. `prompt.rs` has
//! `harn explain prompt FILE`, `invariant.rs` has `harn explain --invariant`.

mod invariant;
mod prompt;

use std::path::Path;

use harn_system::{Real, System, SystemExt};
use harn_value::{Data as Value, json};
use harn_vm::suggest;

use crate::args::{Explain, ExplainArgs, usage_error};
use crate::{describe, program};

/// Prints or writes documentation. Returns 1 if a page is not up to date, and 2 for an unknown name.
pub(crate) fn explain(args: ExplainArgs) -> u8 {
    if let Some(Explain::Prompt(args)) = args.what {
        return prompt::explain_prompt(args);
    }
    if let Some(surplus) = args.surplus.first() {
        let name = args.name.as_deref().unwrap_or_default();
        let hint = match suggest::distance(name, "prompt") {
            1..=3 => format!("; did you mean `harn explain prompt {surplus}`?"),
            _ => String::new(),
        };
        usage_error("explain", &format!("`harn explain` takes one name, got `{name}` and `{surplus}`{hint}"));
    }
    if let Some([invariant, handler, file]) = args.invariant.as_deref() {
        return invariant::explain_invariant(invariant, handler, Path::new(file));
    }
    let vm = program::bare_vm();
    // An unknown name is a usage error.
    let (outcome, failed) = match (&args.name, &args.reference) {
        (_, Some(folder)) => (write_reference(&describe::reference(&vm), folder, args.check), 1),
        (Some(name), None) => (describe::describe(&vm, name), 2),
        (None, None) => (Ok(describe::overview(&vm)), 1),
    };
    // The reader may close the pipe; that is not an error.
    match outcome {
        Ok(text) if args.json => {
            let data = in_parts(args.name.as_deref().unwrap_or_default(), &text);
            prompt::print(&prompt::document(data, None));
            0
        }
        Ok(text) => {
            crate::out::write(&text);
            0
        }
        Err(text) => {
            if args.json {
                let error = ("unknown_name", text.clone(), Value::Null);
                prompt::print(&prompt::document(Value::Null, Some(error)));
            }
            eprintln!("{}", harn_syntax::error_line(&text));
            failed
        }
    }
}

/// Returns the documentation of a name as JSON, and for a diagnostic code also its parts.
fn in_parts(name: &str, text: &str) -> Value {
    let mut data = json!({"name": name, "text": text});
    if let Some(entry) = harn_check::CODES.iter().find(|entry| entry.code.eq_ignore_ascii_case(name)) {
        data["code"] = entry.code.into();
        data["cause"] = entry.doc.into();
        data["fix"] = entry.fix.into();
        if let Some(example) = harn_check::example(entry.code) {
            data["example"] =
                json!({"file": example.file, "found_in": example.wrong, "fixed": example.right});
        }
    }
    data
}

/// Writes the pages into a directory and removes obsolete generated pages. With `check`, only compares.
fn write_reference(pages: &[(String, String)], folder: &Path, check: bool) -> Result<String, String> {
    let cannot =
        |what: &str, path: &Path, e: std::io::Error| format!("cannot {what} {}: {e}", path.display());
    let system = Real::new();
    let mut stale = Vec::new();
    for (name, text) in pages {
        let path = folder.join(name);
        if system.read_text(&path, u64::MAX).is_ok_and(|known| known == *text) {
            continue;
        }
        stale.push(path.display().to_string());
        if !check {
            system.make_dirs(folder).map_err(|e| cannot("make", folder, e))?;
            system.replace(&path, text.as_bytes()).map_err(|e| cannot("write", &path, e))?;
        }
    }
    let known = system.names(folder).map_err(|e| cannot("read", folder, e))?;
    let known: Vec<_> = known
        .iter()
        .map(|name| folder.join(name))
        .filter(|path| path.extension().is_some_and(|e| e == "md"))
        .filter(|path| !pages.iter().any(|(name, _)| path.ends_with(name)))
        .collect();
    for path in known {
        stale.push(path.display().to_string());
        if !check {
            system.remove(&path).map_err(|e| cannot("remove", &path, e))?;
        }
    }
    match (check, stale.is_empty()) {
        (true, false) => Err(format!("not up to date, run `make docs`: {}", stale.join(", "))),
        (true, true) => Ok(format!("{} pages are up to date\n", pages.len())),
        (false, _) => Ok(format!("{} pages, {} changed\n", pages.len(), stale.len())),
    }
}
