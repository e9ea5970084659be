//! Snapshots: approved results of tests, stored in files next to the test.

use std::path::PathBuf;

use harn_system::SystemExt;
use harn_value::{Str, Value, json};
use harn_vm::{Cx, Error, Result, builtins};

use crate::failures;

/// The directory of the snapshots, next to the file of the test.
const FOLDER: &str = "snapshots";

/// The variable that updates snapshots instead of comparing them, as set by `harn test --update-snapshots`.
const UPDATE: &str = "HARN_UPDATE_SNAPSHOTS";

/// Maximum number of differing lines in a message.
const SHOWN: usize = 5;

builtins! {
    /// Snapshot tests.
    pub(crate) static SNAPSHOTS: "snapshots";

    /// Throws unless a value matches the stored snapshot with this name.
    ///
    /// The snapshot is the file `snapshots/FILE.NAME.snap` next to the calling program. Strings are stored unchanged,
    /// other values as JSON with sorted keys. `harn test --update-snapshots` writes the file; otherwise, a missing
    /// snapshot is an error, so that no value is approved without a review.
    ///
    /// ```harn
    /// println(try { assert_snapshot("hello", "greeting") }) // -> Result.Err(there is no snapshot "greeting" yet: look at the value and write it with `harn test --update-snapshots`)
    /// ```
    Fs fn assert_snapshot(cx, value: Value, name: Str) -> "nil" {
        compare(cx, &value, &name)?;
    }
}

fn compare(cx: &Cx, value: &Value, name: &Str) -> Result<()> {
    let path = place(cx, name)?;
    let shown = path.display().to_string();
    let mut text = match value.as_str() {
        Some(text) => text.as_str().to_owned(),
        None => json::pretty(value),
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let system = cx.system();
    let failed = |what: &str, e: &std::io::Error| {
        failures::of_io(cx, e, Some(&path), || format!("assert_snapshot: cannot {what} {shown}: {e}"))
    };
    if system.env(UPDATE).is_some_and(|set| set == "1") {
        if let Some(folder) = path.parent() {
            system.make_dirs(folder).map_err(|e| failed("create the folder of", &e))?;
        }
        return system.replace(&path, text.as_bytes()).map_err(|e| failed("write", &e));
    }
    let known = match system.read_text(&path, harn_value::memory::left() as u64) {
        Ok(known) => known,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let error = Error::thrown(format!(
                "there is no snapshot \"{name}\" yet: look at the value and write it with `harn test --update-snapshots`"
            ));
            return Err(error.with_note(format!("it would be {shown}")));
        }
        Err(e) => return Err(failed("read", &e)),
    };
    if known == text {
        return Ok(());
    }
    let error = Error::thrown(format!("Assertion failed: the value differs from the snapshot \"{name}\""));
    let error = differences(&known, &text).into_iter().fold(error, Error::with_note);
    let way = "if the new value is right, write it with `harn test --update-snapshots`";
    Err(error.with_note(format!("the snapshot is {shown}")).with_note(way))
}

/// Returns the path of a snapshot.
fn place(cx: &Cx, name: &Str) -> Result<PathBuf> {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ');
    if name.trim().is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        return Err(Error::runtime(format!(
            "assert_snapshot: name must have letters, digits, blanks, `_`, `-` and `.` only, got \"{name}\""
        )));
    }
    let file = cx.caller_file();
    let stem = std::path::Path::new(&*file).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let file = format!("{}.{name}.snap", stem.unwrap_or_default());
    Ok(cx.caller_dir().join(FOLDER).join(file))
}

/// Describes the first differing lines.
fn differences(known: &str, now: &str) -> Vec<String> {
    let (known, now): (Vec<&str>, Vec<&str>) = (known.lines().collect(), now.lines().collect());
    let longest = known.len().max(now.len());
    let differing: Vec<usize> = (0..longest).filter(|&at| known.get(at) != now.get(at)).collect();
    let line = |lines: &[&str], at: usize| match lines.get(at) {
        Some(text) => format!("`{text}`"),
        None => "the end".to_owned(),
    };
    let mut notes: Vec<String> = differing
        .iter()
        .take(SHOWN)
        .map(|&at| format!("line {}: expected {}, got {}", at + 1, line(&known, at), line(&now, at)))
        .collect();
    if differing.len() > SHOWN {
        notes.push(format!("{} more lines differ", differing.len() - SHOWN));
    }
    notes
}
