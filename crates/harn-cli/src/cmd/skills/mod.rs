//! `harn skills`: lists, installs and signs skills.

mod install;
mod show;
mod sign;

use std::path::{Path, PathBuf};

use harn_runtime::{SkillOnDisk, SkillsOnDisk};
use harn_system::{Real, System, SystemExt};
use harn_value::Data as Value;

use super::providers::{envelope, fail, print};
use crate::args::{LookArgs, SkillsCommand};

/// The output of a command: text, JSON data, and the exit code.
struct Shown {
    text: String,
    data: Value,
    code: u8,
}

impl Shown {
    fn text(text: impl Into<String>) -> Shown {
        Shown { text: text.into(), data: Value::Null, code: 0 }
    }
}

/// The output of a command, or an error message.
type Outcome = Result<Shown, String>;

/// Runs the command. Returns the exit code.
pub(crate) fn skills(command: SkillsCommand) -> u8 {
    let system = Real::new();
    let (shown, as_json) = match command {
        SkillsCommand::List { all, look } => (show::list(&system, all, &look), look.json),
        SkillsCommand::Inspect { name, look } => (show::inspect(&system, &name, &look), look.json),
        SkillsCommand::Match { task, files, top, look } => {
            (show::fitting(&system, &task, files, top, &look), look.json)
        }
        SkillsCommand::Install(args) => (install::install(&system, &args), false),
        SkillsCommand::New { name, short, user } => {
            (install::new(&system, &name, short.as_deref(), user), false)
        }
        SkillsCommand::Key { file } => (sign::key(&system, &file), false),
        SkillsCommand::Sign { folder, key } => (sign::sign(&system, &folder, &key), false),
        SkillsCommand::Verify { skill, look } => (sign::verify(&system, &skill, &look), look.json),
        SkillsCommand::Trust { file: Some(file), .. } => (sign::trust(&system, &file), false),
        SkillsCommand::Trust { remove: Some(fingerprint), .. } => {
            (sign::distrust(&system, &fingerprint), false)
        }
        SkillsCommand::Trust { .. } => (sign::trusted(&system), false),
    };
    match shown {
        Ok(Shown { text, data, code }) => {
            print(&if as_json { envelope(&data) } else { text });
            code
        }
        Err(problem) => fail("skills_failed", &harn_syntax::printable(&problem), &Value::Null, as_json),
    }
}

/// Finds the skills available to a program in the working directory. Unreadable ones are reported on standard error.
fn found(system: &Real, look: &LookArgs) -> Result<SkillsOnDisk, String> {
    let found = harn_runtime::find_skills(system, &system.work_dir(), &look.skill_dirs)?;
    for (folder, problem) in &found.problems {
        let text = format!("warning: {}: {problem}", folder.join(harn_runtime::SKILL_FILE).display());
        eprintln!("{}", harn_syntax::printable(&text));
    }
    Ok(found)
}

/// Returns the visible skill with a name.
fn named<'a>(found: &'a SkillsOnDisk, name: &str) -> Result<&'a SkillOnDisk, String> {
    let mut visible = found.found.iter().filter(|skill| !skill.hidden);
    visible.clone().find(|skill| skill.name() == name).ok_or_else(|| {
        let known: Vec<&str> = visible.by_ref().map(SkillOnDisk::name).collect();
        match known.as_slice() {
            [] => format!("unknown skill '{name}': no skills are installed"),
            known => format!("unknown skill '{name}'; known skills: {}", known.join(", ")),
        }
    })
}

/// Returns the directory for skills of the user, or of the project of the working directory.
///
/// # Errors
/// There is no such directory, or a link of the project leads out of it.
fn home_of_skills(system: &Real, user: bool) -> Result<PathBuf, String> {
    if user {
        let home = system.env("HOME").filter(|home| !home.is_empty());
        return home
            .map(|home| Path::new(&home).join(".harn/skills"))
            .ok_or_else(|| "HOME is not set".to_owned());
    }
    let project = harn_packages::Project::near(system, &system.work_dir());
    if let Some(project) = &project {
        project.refuse_links(&[".harn", ".harn/skills"], "skills").map_err(|error| error.to_string())?;
    }
    let manifest = project.map(|project| project.manifest());
    let root = manifest.as_deref().and_then(Path::parent);
    root.map(|root| root.join(".harn/skills")).ok_or_else(|| {
        "no harn.toml in this directory or its parents; create one with `harn init`, or use --user".to_owned()
    })
}

/// Whether a name is valid as the directory name of a skill.
fn is_folder_name(name: &str) -> bool {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-');
    name.starts_with(|c: char| c.is_alphanumeric() || c == '_') && name.chars().all(fits)
}

fn cannot(what: &str, path: &Path, why: &dyn std::fmt::Display) -> String {
    format!("cannot {what} {}: {why}", path.display())
}
