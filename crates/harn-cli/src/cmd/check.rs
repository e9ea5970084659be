//! `harn check FILE...`: checks syntax, names and types without running programs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use harn_check::{Quiet, Settings};
use harn_syntax::Severity;
use harn_system::{Real, SystemExt};
use harn_value::{Data as Value, json};

use crate::args::{self, CheckArgs};
use crate::findings::{self, Findings, Manifests, Wording};
use crate::program::Program;

/// Checks files. Returns 1 if there is an error.
pub(crate) fn check(args: &CheckArgs) -> u8 {
    if args.provider_matrix {
        if !args.targets.is_empty() || args.workspace || args.fix {
            args::usage_error(
                "check",
                "--provider-matrix checks nothing: it takes no files, no --workspace and no --fix",
            );
        }
        let json = args.json || args.format.as_deref() == Some("json");
        return super::models::matrix(args.filter.as_deref(), json);
    }
    args::need_folders("check", "--bundle-root", &args.bundle_root);
    let operations = args.host_capabilities.as_ref().map(|file| {
        harn_check::read_operations(&Real::new(), file).unwrap_or_else(|wrong| {
            args::usage_error(
                "check",
                &format!("--host-capabilities: cannot read {}: {wrong}", file.display()),
            )
        })
    });
    let operations = operations.unwrap_or_default();
    let targets = targets(args).unwrap_or_else(|wrong| args::usage_error("check", wrong));
    let paths = match findings::collect(&targets, findings::is_program, false) {
        Ok(paths) => paths,
        Err(text) => {
            eprintln!("{}", harn_syntax::error_line(&text));
            return 1;
        }
    };
    if let Err(text) = super::packages::ready(paths.iter().filter_map(|path| path.parent())) {
        eprintln!("{}", harn_syntax::error_line(&text));
        return 1;
    }
    let programs = paths.clone();
    let begin = || (Manifests::new(Severity::Error), Quiet::default());
    let mut files = findings::look_at(paths, args.fix, begin, |path, (manifests, quiet)| {
        check_file(path, args, &operations, manifests, quiet)
    });
    findings::once(&mut files);
    if args.bundle {
        let code = findings::report_aside(&files);
        return if code == 0 { bundles(&programs, args) } else { code };
    }
    let counts: &[&str] = if args.fix { &["fixable", "fixed"] } else { &[] };
    let wording = Wording { clean: "ok", failed: "check_failed", counts };
    findings::report(&files, &wording, args.json)
}

/// Writes the bundles of programs without errors.
fn bundles(paths: &[PathBuf], args: &CheckArgs) -> u8 {
    let mut manifests = Manifests::new(Severity::Error);
    let mut rows = Vec::new();
    for path in paths.iter().filter(|path| !findings::is_template(path)) {
        // Unreadable files and syntax errors are already among the findings.
        let Ok(text) = findings::read_text(path) else { continue };
        let program = Program::of(path, text);
        let settings = settings_of(&program, args, &mut manifests);
        let Ok(bundle) = program.bundle(&settings) else { continue };
        let asset = |(place, asset): (&String, &harn_check::BundledAsset)| {
            let kind = if asset.is_prompt { "prompt_asset" } else { "template_asset" };
            json!({"kind": kind, "target": asset.target, "path": place, "used_by": asset.used_by})
        };
        let assets: Vec<Value> = bundle.assets.iter().map(asset).collect();
        let entry = path.display().to_string();
        rows.push(json!({"entry": entry, "modules": bundle.modules, "assets": assets}));
    }
    super::providers::print(&super::providers::envelope(&json!({"bundles": rows})))
}

/// Combines the check settings of the manifest and the command line.
fn settings_of(program: &Program, args: &CheckArgs, manifests: &mut Manifests) -> Settings {
    let mut settings = manifests.settings(program.dir());
    settings.preflight = args.preflight.unwrap_or(settings.preflight);
    if args.bundle_root.is_some() {
        settings.bundle_root.clone_from(&args.bundle_root);
    }
    settings.strict_types |= args.strict_types;
    settings
}

/// Returns the targets on the command line and those of the workspace.
///
/// # Errors
/// There are no targets.
fn targets(args: &CheckArgs) -> Result<Vec<PathBuf>, &'static str> {
    let mut targets = args.targets.clone();
    if args.workspace {
        let first = targets.first().map_or(Path::new("."), PathBuf::as_path);
        let dir = if Real::new().is_dir(first) { first } else { first.parent().unwrap_or(Path::new("")) };
        if Settings::manifest(&Real::new(), dir).is_none() {
            return Err("--workspace could not find a harn.toml walking up from the target(s)");
        }
        // Manifest errors are reported with the files.
        let (settings, _) = Settings::find(&Real::new(), dir);
        if settings.pipelines.is_empty() {
            return Err("--workspace requires `[workspace].pipelines` in the nearest harn.toml");
        }
        let here = settings.cwd;
        let short = |path: PathBuf| path.strip_prefix(&here).map(Path::to_owned).unwrap_or(path);
        targets.extend(settings.pipelines.into_iter().map(short));
    }
    if targets.is_empty() {
        return Err(
            "`harn check` requires at least one target path, or `--workspace` with `[workspace].pipelines`\n\n  tip: to use all programs in this directory: harn check .",
        );
    }
    Ok(targets)
}

fn check_file(
    path: PathBuf,
    args: &CheckArgs,
    operations: &BTreeSet<String>,
    manifests: &mut Manifests,
    quiet: &Quiet,
) -> Findings {
    if findings::is_template(&path) {
        return super::lint::lint_template(path, manifests);
    }
    if path.extension().is_some_and(|extension| extension == "toml") {
        return Findings::unreadable(path, "not a program; `harn doctor` checks harn.toml".to_owned());
    }
    match findings::read_text(&path) {
        Ok(text) => {
            let program = Program::of(&path, text.clone());
            let mut settings = settings_of(&program, args, manifests);
            settings.host_operations.extend(operations.iter().cloned());
            let check = |program: &Program| {
                let mut problems = program.check(&settings, quiet);
                // Unreadable files are already reported.
                let violations =
                    if args.invariants { program.violations().unwrap_or_default() } else { Vec::new() };
                problems.extend(violations.iter().map(|violation| program.of_located(violation.located())));
                problems
            };
            let mut problems = check(&program);
            let mut fixed = 0;
            if args.fix && path.as_os_str() != "-" {
                // Fixes of lint rules are applied by `harn lint`.
                let operators = |program: &Program| {
                    let mut found = check(program);
                    found.retain(|problem| problem.diagnostic.code == "E0203");
                    found
                };
                match super::lint::fix_file(&path, &text, operators, args.json) {
                    Ok(None) => {}
                    Ok(Some((new, count))) => {
                        problems = check(&Program::of(&path, new));
                        fixed = count;
                    }
                    Err(finding) => return *finding,
                }
            }
            Findings { path, problems, strict: settings.strict, repeated: 0, fixed }
        }
        Err(text) => Findings::unreadable(path, text),
    }
}
