//! `harn fmt FILE...`: formats source files.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use harn_check::Settings;
use harn_fmt::{LINE_WIDTH, Options, SEPARATOR_WIDTH};
use harn_syntax::{MARGIN, Severity, printable_name, with_margin};
use harn_system::{Real, Stream, System};
use harn_value::json;

use crate::args::FmtArgs;
use crate::findings;
use crate::report::Problem;
use crate::style::Colour;

/// The result for one file.
enum Fate {
    Unchanged,
    Formatted,
    /// With `--check`.
    WouldChange,
    /// The file was not changed.
    Failed(String),
}

impl Fate {
    const fn word(&self) -> &'static str {
        match self {
            Fate::Unchanged => "unchanged",
            Fate::Formatted => "formatted",
            Fate::WouldChange => "would_format",
            Fate::Failed(_) => "error",
        }
    }
}

/// Formats files. Returns 1 if one fails, or with `--check` if one would change.
pub(crate) fn fmt(args: &FmtArgs) -> u8 {
    let paths = match findings::collect(&args.targets, findings::is_program, false) {
        Ok(paths) => paths,
        Err(text) if text.starts_with("no .harn files") => {
            eprintln!("No .harn files found");
            return 1;
        }
        Err(text) => {
            eprintln!("{}", harn_syntax::error_line(&text));
            return 1;
        }
    };
    let (settings, told) = settings(&paths);
    for problem in told.iter().filter(|_| !args.json) {
        eprint!("{}", problem.draw(Colour::of(Stream::Error).on()));
    }
    let (errors, warnings): (Vec<Problem>, Vec<Problem>) =
        told.into_iter().partition(|problem| problem.diagnostic.severity == Severity::Error);
    if let Some(first) = errors.first() {
        // With the wrong line width, every line would change.
        if args.json {
            let error = json!({"code": "manifest", "message": first.plain.as_str(), "details": null});
            let _ = writeln!(crate::out::Out, "{}", document(&[], error, &warnings));
        }
        return 1;
    }
    let fates: Vec<(PathBuf, Fate)> = paths
        .into_iter()
        .map(|path| {
            let fate = format_file(&path, args, &settings);
            if !args.json {
                tell(&path, &fate);
            }
            (path, fate)
        })
        .collect();
    let failed = fates.iter().any(|(_, fate)| matches!(fate, Fate::Failed(_) | Fate::WouldChange));
    if args.json {
        let count = |word: &str| fates.iter().filter(|(_, fate)| fate.word() == word).count();
        let message = format!("{} files would change, {} failed", count("would_format"), count("error"));
        let error = failed.then(|| json!({"code": "fmt_failed", "message": message, "details": null}));
        let _ = writeln!(crate::out::Out, "{}", document(&fates, error.into(), &warnings));
    }
    u8::from(failed)
}

/// The manifest settings of each directory that contains files.
type OfFolders = BTreeMap<PathBuf, Settings>;

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// Reads the manifests of all files, and collects each problem once.
fn settings(paths: &[PathBuf]) -> (OfFolders, Vec<Problem>) {
    let (mut read, mut seen, mut told) = (OfFolders::new(), BTreeSet::new(), Vec::new());
    for folder in paths.iter().map(|path| folder_of(path)) {
        if read.contains_key(folder) {
            continue;
        }
        let (settings, located) = Settings::find(&Real::new(), folder);
        if seen.insert(settings.root.clone()) {
            told.extend(Settings::unparsable(&Real::new(), folder).map(Problem::located));
            told.extend(findings::about_table(located, "fmt"));
        }
        read.insert(folder.to_owned(), settings);
    }
    (read, told)
}

fn format_file(path: &Path, args: &FmtArgs, settings: &OfFolders) -> Fate {
    let is_input = path.as_os_str() == "-";
    let text = match findings::read_text(path) {
        Ok(text) => text,
        Err(text) => return Fate::Failed(text),
    };
    let formatted = match harn_fmt::format(&text, &options(settings.get(folder_of(path)), args)) {
        Ok(formatted) => formatted,
        Err(refusal) => return Fate::Failed(refusal.to_string()),
    };
    let same = formatted == text;
    if is_input && !args.check && !args.json {
        crate::out::write(&formatted);
        return Fate::Unchanged;
    }
    match (same, args.check || is_input) {
        (true, _) => Fate::Unchanged,
        (false, true) => Fate::WouldChange,
        (false, false) => match Real::new().replace(path, formatted.as_bytes()) {
            Ok(()) => Fate::Formatted,
            Err(error) => Fate::Failed(format!("cannot write: {error}")),
        },
    }
}

/// Returns the options of the command line or, as a default, of the nearest manifest.
fn options(settings: Option<&Settings>, args: &FmtArgs) -> Options {
    let given = |flag: Option<u16>, setting: Option<usize>, default: usize| {
        flag.map(usize::from).or(setting).unwrap_or(default)
    };
    Options {
        line_width: given(args.line_width, settings.and_then(|s| s.line_width), LINE_WIDTH),
        separator_width: given(
            args.separator_width,
            settings.and_then(|s| s.separator_width),
            SEPARATOR_WIDTH,
        ),
    }
}

fn tell(path: &Path, fate: &Fate) {
    let name = printable_name(&path.display().to_string());
    match fate {
        Fate::Unchanged => {}
        Fate::Formatted => crate::out::write(&format!("formatted {name}\n")),
        Fate::WouldChange => eprintln!("{name}: would be reformatted"),
        // This message already includes the file name.
        Fate::Failed(why) if why.starts_with("cannot read ") => eprintln!("{}", harn_syntax::error_line(why)),
        Fate::Failed(why) => eprintln!("{name}: {}", with_margin(why, MARGIN)),
    }
}

fn document(fates: &[(PathBuf, Fate)], error: harn_value::Data, warnings: &[Problem]) -> harn_value::Data {
    let rows: Vec<_> = fates
        .iter()
        .map(|(path, fate)| {
            let mut row = json!({"path": path.display().to_string(), "status": fate.word()});
            if let Fate::Failed(why) = fate {
                row["message"] = why.as_str().into();
            }
            row
        })
        .collect();
    let count = |word: &str| fates.iter().filter(|(_, fate)| fate.word() == word).count();
    let summary = json!({
        "files": fates.len(),
        "unchanged": count("unchanged"),
        "formatted": count("formatted"),
        "would_format": count("would_format"),
        "errors": count("error"),
    });
    let warnings: Vec<_> = warnings
        .iter()
        .map(|problem| json!({"code": problem.diagnostic.code, "message": problem.plain.as_str()}))
        .collect();
    json!({
        "schemaVersion": 1,
        "ok": error.is_null(),
        "data": {"files": rows, "summary": summary},
        "error": error,
        "warnings": warnings,
    })
}
