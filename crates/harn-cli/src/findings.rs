//! Shared parts of `harn check` and `harn lint`: selection of files, and output of findings.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use harn_check::{Located, Settings};
use harn_syntax::{Diagnostic, Severity, Span};
use harn_system::{Kind, Real, Stream, System, SystemExt};
use harn_value::{Data as Value, json};

use crate::program;
use crate::report::Problem;
use crate::style::Colour;

/// Directories that are not searched.
const SKIPPED: &[&str] = &["node_modules", "target"];

/// A directory of generated templates, which lint skips.
const BUILT: &str = "build";

/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = harn_vm::MAX_SOURCE;

/// Number of files that a thread takes at once.
const FILES_AT_ONCE: usize = 16;

/// Stack size of the threads that check files: that of the main thread.
const STACK: usize = 8 << 20;

/// The findings in one file.
pub(crate) struct Findings {
    /// The path as the user named it.
    pub(crate) path: PathBuf,
    /// The findings, in output order.
    pub(crate) problems: Vec<Problem>,
    /// Whether warnings are treated as errors.
    pub(crate) strict: bool,
    /// Number of findings that were omitted because they are reported for another file.
    pub(crate) repeated: usize,
    /// Number of fixed findings.
    pub(crate) fixed: usize,
}

impl Findings {
    /// Returns the findings of an unreadable file.
    pub(crate) fn unreadable(path: PathBuf, text: String) -> Findings {
        Findings { path, problems: vec![Problem::general(text)], strict: false, repeated: 0, fixed: 0 }
    }

    fn has_error(&self) -> bool {
        self.problems.iter().any(|problem| problem.diagnostic.severity == Severity::Error)
    }

    fn fails(&self) -> bool {
        self.has_error() || (self.strict && !self.problems.is_empty())
    }
}

/// Whether a path names a prompt template.
pub(crate) fn is_template(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "prompt")
}

/// Whether a path names a program.
pub(crate) fn is_program(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "harn")
}

/// Reads a file to check, or standard input for `-`. Files that could block or are endless are not opened.
///
/// # Errors
/// A message with the path.
pub(crate) fn read_text(path: &Path) -> Result<String, String> {
    if path.as_os_str() != "-"
        && let Ok(facts) = Real::new().facts(path)
    {
        let name = path.display();
        if facts.kind == Kind::Other {
            return Err(format!(
                "cannot read {name}: not a regular file; `-` takes the text from standard input"
            ));
        }
        if facts.size > MAX_BYTES {
            return Err(format!("cannot read {name}: {} bytes, the limit is {MAX_BYTES}", facts.size));
        }
    }
    // The report already marks it as an error.
    program::read_text(path).map_err(|text| match text.strip_prefix("Error reading ") {
        Some(rest) => format!("cannot read {rest}"),
        None => text,
    })
}

/// Removes duplicate findings. A finding about an imported file is reported for that file if it is a target, otherwise
/// for the first target that imports it.
pub(crate) fn once(files: &mut [Findings]) {
    let real = |path: &Path| Real::new().canonical(path).unwrap_or_else(|_| path.to_owned());
    let targets: BTreeSet<PathBuf> = files.iter().map(|file| real(&file.path)).collect();
    // Targets may refer to a file by different paths; a location in it is still the same.
    let mut told = BTreeSet::new();
    for file in files {
        let own = real(&file.path);
        let before = file.problems.len();
        let mut places = Vec::new();
        file.problems.retain(|problem| {
            let Some(place) = problem.file.as_ref().map(|file| real(Path::new(file.name()))) else {
                return true;
            };
            if place == own {
                return true;
            }
            // Findings in included templates are only visible from the call that renders them.
            let is_target = targets.contains(&place) && problem.diagnostic.code != "P0104";
            let key = (place, problem.start(), problem.diagnostic.code);
            let is_new = !is_target && !told.contains(&key);
            places.push(key);
            is_new
        });
        told.extend(places);
        file.repeated = before - file.problems.len();
    }
}

/// Resolves targets to files. A file is itself; a directory is searched for `wanted` files, ordered by path. Hidden and
/// build directories are skipped. With `ignoring`, so is everything excluded by `.gitignore` and `.ignore`.
///
/// # Errors
/// A message if a directory cannot be read or there are no files.
#[expect(clippy::disallowed_methods, reason = "ignore files are read by the library that knows their rules")]
pub(crate) fn collect(
    targets: &[PathBuf],
    wanted: fn(&Path) -> bool,
    ignoring: bool,
) -> Result<Vec<PathBuf>, String> {
    let mut paths = Vec::new();
    for target in targets {
        if !Real::new().is_dir(target) {
            paths.push(target.clone());
            continue;
        }
        let strange: Arc<Mutex<Option<String>>> = Arc::default();
        if ignoring {
            let real = Real::new().canonical(target).unwrap_or_else(|_| target.clone());
            real.ancestors().try_for_each(ignore_files)?;
        }
        let found = strange.clone();
        let walk = ignore::WalkBuilder::new(target)
            .standard_filters(false)
            .hidden(true)
            .parents(ignoring)
            .ignore(ignoring)
            .git_ignore(ignoring)
            .require_git(false)
            .sort_by_file_path(Path::cmp)
            .filter_entry(move |entry| {
                let skipped = SKIPPED.iter().any(|skipped| entry.file_name() == *skipped)
                    || (ignoring && entry.file_name() == BUILT);
                // A file may have any name.
                if entry.depth() == 0 || entry.file_type().is_none_or(|kind| !kind.is_dir()) {
                    return true;
                }
                if let Err(problem) = if ignoring && !skipped { ignore_files(entry.path()) } else { Ok(()) } {
                    found.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(problem);
                    return false;
                }
                !skipped
            })
            .build();
        for entry in walk {
            let entry = entry.map_err(|e| format!("cannot search {}: {e}", target.display()))?;
            if entry.file_type().is_none_or(|kind| !kind.is_dir()) && wanted(entry.path()) {
                paths.push(entry.into_path());
            }
        }
        if let Some(problem) = strange.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(problem);
        }
    }
    if paths.is_empty() {
        Err("no .harn files found under the given target(s)".to_owned())
    } else {
        Ok(paths)
    }
}

/// The largest ignore file: 1 MiB.
const MAX_IGNORE: u64 = 1 << 20;

/// Checks the ignore files of a directory before they are opened.
///
/// # Errors
/// A message about a file that could block or is endless.
fn ignore_files(folder: &Path) -> Result<(), String> {
    for name in [".gitignore", ".ignore"] {
        let path = folder.join(name);
        let Ok(facts) = Real::new().facts(&path) else { continue };
        if facts.kind == Kind::Other {
            return Err(format!("cannot read {}: not a regular file", path.display()));
        }
        if facts.is_file() && facts.size > MAX_IGNORE {
            return Err(format!("cannot read {}: larger than {MAX_IGNORE} bytes", path.display()));
        }
    }
    Ok(())
}

/// The manifests of the checked files. Problems of each manifest are reported once.
pub(crate) struct Manifests {
    /// The severity of a manifest that cannot be parsed.
    unparsable: Severity,
    /// The settings by manifest path.
    known: BTreeMap<PathBuf, Settings>,
    /// The findings in manifests.
    complaints: Vec<Findings>,
}

impl Manifests {
    /// Creates an empty cache.
    pub(crate) fn new(unparsable: Severity) -> Manifests {
        Manifests { unparsable, known: BTreeMap::new(), complaints: Vec::new() }
    }

    /// Returns the settings for the files of a directory.
    pub(crate) fn settings(&mut self, dir: &Path) -> Settings {
        let Some(path) = Settings::manifest(&Real::new(), dir) else { return Settings::default() };
        if let Some(settings) = self.known.get(&path) {
            return settings.clone();
        }
        let (settings, located) = Settings::find(&Real::new(), dir);
        let mut problems: Vec<Problem> = located.into_iter().map(Problem::located).collect();
        problems.extend(about_models(&path));
        let unread = about_readers(&path, &problems);
        problems.extend(unread);
        for problem in problems.iter_mut().filter(|problem| problem.diagnostic.code == "P0107") {
            problem.diagnostic.severity = self.unparsable;
        }
        if !problems.is_empty() {
            problems.sort_by_key(Problem::start);
            self.complaints.push(Findings {
                path: path.clone(),
                problems,
                strict: settings.strict,
                repeated: 0,
                fixed: 0,
            });
        }
        self.known.insert(path, settings.clone());
        settings
    }
}

/// Returns the problems of one table of a manifest, for the command that uses the table, so that ignored settings are
/// reported. Contains errors and warnings, in file order.
pub(crate) fn about_table(located: Vec<Located>, table: &str) -> Vec<Problem> {
    let (value, itself) = (format!("[{table}] "), format!("`{table}` must be "));
    let key = format!(" in [{table}]: it has no effect");
    let is_meant = |found: &Located| {
        let message = &found.diagnostic.message;
        message.starts_with(&value) || message.starts_with(&itself) || message.ends_with(&key)
    };
    let mut problems: Vec<Problem> = located.into_iter().filter(is_meant).map(Problem::located).collect();
    problems.sort_by_key(Problem::start);
    problems
}

/// Checks files independently. Returns the findings in file order, preceded by those of the manifests. The files are
/// distributed to threads, each with its own state. With `alone`, there is one thread, for commands that write files
/// that others import.
pub(crate) fn look_at<S>(
    paths: Vec<PathBuf>,
    alone: bool,
    begin: impl Fn() -> (Manifests, S) + Sync,
    look: impl Fn(PathBuf, &mut (Manifests, S)) -> Findings + Sync,
) -> Vec<Findings> {
    let threads = if alone { 1 } else { std::thread::available_parallelism().map_or(1, usize::from) };
    let threads = threads.min(paths.len().div_ceil(FILES_AT_ONCE)).max(1);
    let count = paths.len();
    // Neighbouring files import the same modules, so a thread takes several at once.
    let todo = Mutex::new(paths.into_iter().enumerate());
    let work = || {
        let mut state = begin();
        let mut done = Vec::new();
        loop {
            let taken: Vec<(usize, PathBuf)> =
                todo.lock().unwrap_or_else(PoisonError::into_inner).by_ref().take(FILES_AT_ONCE).collect();
            if taken.is_empty() {
                return (state.0.complaints, done);
            }
            done.extend(taken.into_iter().map(|(place, path)| (place, look(path, &mut state))));
        }
    };
    let parts = std::thread::scope(|scope| {
        let thread = |_| std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        // If no further thread can be started, this one does all the work.
        let others: Vec<_> = (1..threads).map_while(|number| thread(number).ok()).collect();
        let mut parts = vec![work()];
        for other in others {
            parts.push(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        parts
    });
    let mut complaints: BTreeMap<PathBuf, Findings> = BTreeMap::new();
    let mut files: Vec<Option<Findings>> = std::iter::repeat_with(|| None).take(count).collect();
    for (about_manifests, done) in parts {
        complaints.extend(about_manifests.into_iter().map(|found| (found.path.clone(), found)));
        done.into_iter().for_each(|(place, found)| files[place] = Some(found));
    }
    complaints.into_values().chain(files.into_iter().flatten()).collect()
}

/// Returns the problems in the model settings of a manifest.
fn about_models(path: &Path) -> Vec<Problem> {
    let Ok(text) = Real::new().read_text(path, MAX_BYTES) else { return Vec::new() };
    let found = harn_runtime::llm_config_problems(&text);
    let slips = harn_runtime::llm_config_slips(&text);
    let file = harn_check::manifest_file(&Real::new(), path, text);
    let slip = |text: String| {
        let diagnostic = Diagnostic::warning(text).with_code("P0108");
        Problem::located(Located { file: Some(file.clone()), diagnostic })
    };
    let problem = |found: harn_runtime::LlmConfigProblem| {
        let span = Span::new(found.span.start as u32, found.span.end as u32);
        let diagnostic = Diagnostic::error(found.message).with_code("P0108").with_label(span, "");
        Problem::located(Located { file: Some(file.clone()), diagnostic })
    };
    found.into_iter().map(problem).chain(slips.into_iter().map(slip)).collect()
}

/// Returns the manifest problems that the project's programs would hit at run time and that are not reported yet.
fn about_readers(path: &Path, told: &[Problem]) -> Vec<Problem> {
    let Some(root) = path.parent() else { return Vec::new() };
    let is_told = |table: &str| {
        told.iter().any(|problem| {
            let diagnostic = &problem.diagnostic;
            diagnostic.severity == Severity::Error && diagnostic.message.contains(&format!("[{table}]"))
        })
    };
    let found = harn_runtime::manifest_problems(&Real::new(), root).into_iter();
    let problem = |(table, text): (&str, String)| {
        let text = text.strip_prefix(&format!("{}: ", path.display())).unwrap_or(&text);
        let text = if text.starts_with('[') { text.to_owned() } else { format!("[{table}]: {text}") };
        let file = harn_check::manifest_file(&Real::new(), path, "");
        let diagnostic = Diagnostic::error(text).with_code("P0108");
        Problem::located(Located { file: Some(file), diagnostic })
    };
    found.filter(|(table, _)| !is_told(table)).map(problem).collect()
}

/// The wording of a command's report.
pub(crate) struct Wording {
    /// The suffix for a file without findings.
    pub(crate) clean: &'static str,
    /// The error code of a failed report.
    pub(crate) failed: &'static str,
    /// Additional counts in the summary.
    pub(crate) counts: &'static [&'static str],
}

/// Prints the findings. Returns 1 if the command failed.
pub(crate) fn report(files: &[Findings], wording: &Wording, json: bool) -> u8 {
    let failed = files.iter().any(Findings::fails);
    if json {
        // The reader may close the pipe; the exit code still reports the result.
        let _ = writeln!(crate::out::Out, "{}", document(files, wording, !failed));
    } else {
        print_text(files, wording);
    }
    u8::from(failed)
}

/// Prints only the findings, for commands that use standard output for other data. Returns 1 if one of them fails the
/// command.
pub(crate) fn report_aside(files: &[Findings]) -> u8 {
    let colour = Colour::of(Stream::Error).on();
    for problem in files.iter().flat_map(|file| &file.problems) {
        let _ = writeln!(std::io::stderr(), "{}", problem.draw(colour));
    }
    u8::from(files.iter().any(Findings::fails))
}

fn print_text(files: &[Findings], wording: &Wording) {
    let colour = Colour::of(Stream::Error).on();
    for file in files {
        if file.problems.is_empty() {
            let said = if file.repeated == 0 { wording.clean } else { "see the findings in what it uses" };
            let _ = writeln!(
                crate::out::Out,
                "{}: {said}",
                harn_syntax::printable_name(&file.path.display().to_string())
            );
        }
        for problem in &file.problems {
            let _ = writeln!(std::io::stderr(), "{}", problem.draw(colour));
        }
    }
}

fn document(files: &[Findings], wording: &Wording, ok: bool) -> Value {
    let count = |severity: Severity| {
        files.iter().flat_map(|f| &f.problems).filter(|p| p.diagnostic.severity == severity).count()
    };
    let rows: Vec<_> = files
        .iter()
        .map(|file| {
            let status = match (file.has_error(), file.problems.is_empty()) {
                (true, _) => "error",
                (false, false) => "warning",
                (false, true) if file.repeated > 0 => "warning",
                (false, true) => "ok",
            };
            let diagnostics: Vec<_> = file.problems.iter().map(Problem::finding).collect();
            json!({"path": file.path.display().to_string(), "status": status, "diagnostics": diagnostics})
        })
        .collect();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let mut summary = json!({"files": files.len(), "errors": errors, "warnings": warnings});
    for name in wording.counts {
        let fixable =
            || files.iter().flat_map(|file| &file.problems).filter(|p| p.diagnostic.fix.is_some()).count();
        summary[*name] =
            if *name == "fixed" { files.iter().map(|file| file.fixed).sum() } else { fixable() }.into();
    }
    let message = format!("{errors} errors, {warnings} warnings");
    let error = (!ok).then(|| json!({"code": wording.failed, "message": message, "details": null}));
    json!({
        "schemaVersion": 1, "ok": ok, "data": {"files": rows, "summary": summary}, "error": error, "warnings": [],
    })
}
