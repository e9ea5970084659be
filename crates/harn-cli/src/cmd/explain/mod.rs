//! `harn explain NAME`: documentation from the tables in the binary, and the reference pages made of it. `prompt.rs` has
//! `harn explain prompt FILE`.

mod prompt;

use std::path::Path;

use harn_system::{Real, System, SystemExt};
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
            crate::out::write(&text);
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
