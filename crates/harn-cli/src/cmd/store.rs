//! `harn store`: commands for the project's whole store.

use std::path::{Path, PathBuf};

use harn_store::Place;
use harn_system::{Real, System, SystemExt};
use harn_value::json;

use super::runs::{Failure, Outcome, Shown, show};
use crate::args::StoreCommand;
use crate::program;

/// Runs the command. Returns the exit code.
pub(crate) fn store(command: &StoreCommand) -> u8 {
    match command {
        StoreCommand::Backup { file, json } => show(backup(file), *json),
    }
}

fn backup(file: &Path) -> Outcome<Shown> {
    let real = Real::new();
    let place = program::store_place(&real).map_err(|text| Failure::new("store_failed", text))?;
    let failed = |text: String| Failure::new("backup_failed", text);
    let to = real.work_dir().join(file);
    if let Place::File(path) = &place {
        if !real.is_file(path) {
            return Err(failed(format!("no store found at {place}")));
        }
        if real.exists(&to) {
            return Err(failed(format!("{} exists; name a new file", file.display())));
        }
        if to.to_str().is_none() {
            return Err(failed(format!("{} is not valid UTF-8; choose another name", file.display())));
        }
    }
    // An incomplete copy has a temporary name.
    let mut part = to.as_os_str().to_owned();
    part.push(format!(".part-{}", real.pid()));
    let part = PathBuf::from(part);
    let copied = place.backup(&part).map_err(|error| error.to_string());
    let moved = copied.and_then(|()| {
        real.rename(&part, &to).map_err(|error| format!("cannot write {}: {error}", file.display()))
    });
    if let Err(text) = moved {
        let _ = real.remove(&part);
        return Err(failed(text));
    }
    let bytes = real.facts(&to).map_or(0, |facts| facts.size);
    let text = format!("{place} is backed up to {} ({bytes} bytes)\n", file.display());
    Ok(Shown::new(text, json!({"file": file.display().to_string(), "bytes": bytes})))
}
