//! `harn install`, `add`, `remove`, `update` and `lock`: manage the dependencies of a project. Commands that read
//! programs call [`ready`] first.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use harn_packages::{Dependency, Done, Mode, Origin, Project, Renew, Trouble, Want};
use harn_system::{Real, System, SystemExt};
use harn_vm::block_on;

use crate::args::{AddArgs, InstallArgs, LockArgs, RemoveArgs, UpdateArgs};

/// Installs the dependencies of the manifest. Returns the exit code.
pub(crate) fn install(args: &InstallArgs) -> u8 {
    let mode = Mode { locked: args.locked, offline: args.offline };
    with_project(|project| {
        match args.refetch.as_deref() {
            Some("all") => wait(project.refetch(Renew::All))?,
            Some(name) => wait(project.refetch(Renew::One(name)))?,
            None => {}
        }
        Ok(told(&wait(project.install(mode, Renew::Nothing))?))
    })
}

/// Writes the lock file. Returns the exit code.
pub(crate) fn lock(args: &LockArgs) -> u8 {
    let mode = Mode { locked: args.locked, offline: args.offline };
    with_project(|project| {
        let written = wait(project.write_lock_only(mode, Renew::Nothing))?;
        Ok(if written { "harn.lock is written\n" } else { "harn.lock is up to date\n" }.to_owned())
    })
}

/// Resolves dependencies again. Returns the exit code.
pub(crate) fn update(args: &UpdateArgs) -> u8 {
    let renew = args.alias.as_deref().map_or(Renew::All, Renew::One);
    with_project(|project| Ok(told(&wait(project.install(Mode::default(), renew))?)))
}

/// Adds a dependency to the manifest and installs it. Returns the exit code.
pub(crate) fn add(args: &AddArgs) -> u8 {
    with_project(|project| {
        let dependency = wanted(args, project)?;
        let change = |text: &str| harn_packages::add(text, &project.manifest(), &dependency);
        Ok(told(&wait(project.edit(change))?))
    })
}

/// Removes a dependency from the manifest and the project. Returns the exit code.
pub(crate) fn remove(args: &RemoveArgs) -> u8 {
    with_project(|project| {
        let change = |text: &str| harn_packages::remove(text, &project.manifest(), &args.alias);
        Ok(told(&wait(project.edit(change))?))
    })
}

/// Ensures that the packages of the projects of these directories are installed.
///
/// # Errors
/// The lock file or a package is invalid.
pub(crate) fn ready<'a>(folders: impl Iterator<Item = &'a Path>) -> Result<(), String> {
    let system = Real::new();
    let mut seen = BTreeSet::new();
    for folder in folders {
        let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let Ok(folder) = system.canonical(here) else { continue };
        let Some(project) = Project::near(&system, &folder) else { continue };
        if seen.insert(project.manifest()) {
            wait(project.ready()).map_err(|error| error.0)?;
        }
    }
    Ok(())
}

/// Blocks until a git operation has finished.
fn wait<T>(work: impl Future<Output = Result<T, Trouble>>) -> Result<T, Trouble> {
    block_on(work).map_err(|error| Trouble(format!("cannot wait for anything: {error}")))?
}

/// Runs `work` with the project of the working directory.
fn with_project(work: impl FnOnce(&Project<'_>) -> Result<String, Trouble>) -> u8 {
    let system = Real::new();
    let Some(project) = Project::near(&system, &system.work_dir()) else {
        eprintln!("error: no harn.toml in this directory or its parents; create one with `harn init`");
        return 1;
    };
    match work(&project) {
        Ok(text) => {
            crate::out::write(&text);
            0
        }
        Err(error) => {
            eprintln!("{}", harn_syntax::error_line(&error.0));
            1
        }
    }
}

/// Returns the dependency that `harn add` describes.
fn wanted(args: &AddArgs, project: &Project<'_>) -> Result<Dependency, Trouble> {
    let (source, tag) = source(args)?;
    let named = args.source.as_ref().filter(|_| args.git.is_some() || args.path.is_some());
    let alias = match (&args.alias, named, &source) {
        (Some(alias), ..) | (None, Some(alias), _) => alias.clone(),
        (None, None, Source::Repository(url)) => harn_packages::alias_for(url)?,
        (None, None, Source::Path(path)) => harn_packages::alias_for(&path.to_string_lossy())?,
    };
    let asked = match (&args.rev, &args.branch, tag) {
        (None, None, tag) => tag.map(Want::Rev),
        (.., Some(tag)) => {
            return Err(Trouble(format!(
                "the source asks for '{tag}' already; leave out --rev and --branch"
            )));
        }
        (Some(rev), ..) => Some(Want::Rev(rev.clone())),
        (_, Some(branch), _) => Some(Want::Branch(branch.clone())),
    };
    let origin = match source {
        Source::Path(path) => Origin::Path(seen_from(project, &path)),
        Source::Repository(url) => {
            let want = match asked {
                Some(want) => want,
                None => Want::Branch(wait(harn_packages::default_branch(&Real::new(), &url))?),
            };
            Origin::Git { url, want }
        }
    };
    Ok(Dependency { alias, origin, package: args.package.clone() })
}

/// The source of an added dependency.
enum Source {
    Repository(String),
    Path(PathBuf),
}

/// Returns the source of the added dependency and its tag.
fn source(args: &AddArgs) -> Result<(Source, Option<String>), Trouble> {
    let given = args.source.as_deref().unwrap_or_default();
    if args.registry.is_some() || given.starts_with('@') {
        return Err(Trouble(
            "package registries are not supported; use --git URL --tag TAG or --path PATH".to_owned(),
        ));
    }
    Ok(match (&args.git, &args.path) {
        (Some(url), _) => (Source::Repository(url.clone()), None),
        (None, Some(path)) => (Source::Path(path.clone()), None),
        (None, None) => match harn_packages::short_form(given) {
            // An existing local path takes precedence over the short form of a repository.
            Some((url, tag)) if !Real::new().exists(Path::new(given)) => (Source::Repository(url), tag),
            _ if harn_packages::looks_like_a_repository(given)
                || args.rev.is_some()
                || args.branch.is_some() =>
            {
                (Source::Repository(given.to_owned()), None)
            }
            _ => (Source::Path(PathBuf::from(given)), None),
        },
    })
}

/// Converts a path relative to the working directory to one relative to the project's manifest.
fn seen_from(project: &Project<'_>, path: &Path) -> PathBuf {
    let system = Real::new();
    let manifest = project.manifest();
    let root = manifest.parent().unwrap_or(Path::new(""));
    let here = system.work_dir();
    match here.strip_prefix(root) {
        Ok(below) if path.is_relative() && below.as_os_str().is_empty() => path.to_owned(),
        Ok(below) if path.is_relative() => {
            let mut out = below.to_owned();
            for part in path.components() {
                match part {
                    std::path::Component::ParentDir if out.file_name().is_some() => drop(out.pop()),
                    std::path::Component::CurDir => {}
                    part => out.push(part),
                }
            }
            out
        }
        _ => path.to_owned(),
    }
}

/// Summarizes an installation in a few lines.
fn told(done: &Done) -> String {
    let mut out = String::new();
    for name in &done.copied {
        let commit = done.lock.get(name).and_then(|locked| locked.commit.as_deref());
        let at = commit.map_or(String::new(), |commit| format!(" at {}", &commit[..12.min(commit.len())]));
        out += &format!("  installed {name}{at}\n");
    }
    for name in &done.removed {
        out += &format!("  removed {name}\n");
    }
    let count = done.lock.packages.len();
    let packages = if count == 1 { "1 package".to_owned() } else { format!("{count} packages") };
    let lock = if done.written { ", harn.lock is written" } else { "" };
    out + &format!("{packages}{lock}\n")
}
