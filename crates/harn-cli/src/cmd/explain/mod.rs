//! `harn explain NAME`: documentation from the tables in the binary, and the reference pages made of it. `prompt.rs` has
//! `harn explain prompt FILE`.

mod prompt;

use std::io::Write;
use std::path::Path;

use harn_vm::suggest;

use crate::args::{Explain, ExplainArgs, usage_error};
use crate::{describe, program};

/// Prints or writes documentation; 1 if there is nothing of that name or a page is not up to date.
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
    let vm = program::bare_vm();
    let outcome = match (&args.name, &args.reference) {
        (_, Some(folder)) => write_reference(&describe::reference(&vm), folder, args.check),
        (Some(name), None) => describe::describe(&vm, name),
        (None, None) => Ok(describe::overview(&vm)),
    };
    match outcome {
        Ok(text) => {
            // A closed pipe is the reader's choice, not an error.
            let _ = std::io::stdout().write_all(text.as_bytes());
            0
        }
        Err(text) => {
            eprintln!("error: {text}");
            1
        }
    }
}

/// Writes the pages into a folder and removes others that were generated; with `check` only compares.
fn write_reference(pages: &[(String, String)], folder: &Path, check: bool) -> Result<String, String> {
    let cannot =
        |what: &str, path: &Path, e: std::io::Error| format!("cannot {what} {}: {e}", path.display());
    let mut stale = Vec::new();
    for (name, text) in pages {
        let path = folder.join(name);
        if std::fs::read_to_string(&path).is_ok_and(|known| known == *text) {
            continue;
        }
        stale.push(path.display().to_string());
        if !check {
            std::fs::create_dir_all(folder).map_err(|e| cannot("make", folder, e))?;
            std::fs::write(&path, text).map_err(|e| cannot("write", &path, e))?;
        }
    }
    let mut known: Vec<_> = std::fs::read_dir(folder)
        .map_err(|e| cannot("read", folder, e))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "md"))
        .filter(|path| !pages.iter().any(|(name, _)| path.ends_with(name)))
        .collect();
    known.sort();
    for path in known {
        stale.push(path.display().to_string());
        if !check {
            std::fs::remove_file(&path).map_err(|e| cannot("remove", &path, e))?;
        }
    }
    match (check, stale.is_empty()) {
        (true, false) => Err(format!("not up to date, run `make docs`: {}", stale.join(", "))),
        (true, true) => Ok(format!("{} pages are up to date\n", pages.len())),
        (false, _) => Ok(format!("{} pages, {} changed\n", pages.len(), stale.len())),
    }
}
