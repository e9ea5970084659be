//! Installation and creation of skills.

use std::path::{Path, PathBuf};

use harn_packages::Want;
use harn_runtime::{SKILL_FILE, Signers, read_entry, read_skill, skills_in};
use harn_system::{Real, System, SystemExt};
use harn_vm::block_on;

use super::{Outcome, Shown, cannot, home_of_skills, is_folder_name};
use crate::args::{LookArgs, SkillInstallArgs};

/// A skill to copy.
struct Copy {
    name: String,
    from: PathBuf,
    to: PathBuf,
}

/// Copies skills. Validates all of them before the first write.
pub(super) fn install(system: &Real, args: &SkillInstallArgs) -> Outcome {
    let target = home_of_skills(system, args.user)?;
    let source = source(system, args)?;
    let folders = skills_in(system, &source);
    if folders.is_empty() {
        return Err(format!(
            "{} has no {SKILL_FILE} and no directories with one; name the directory with --path",
            source.display()
        ));
    }
    let mut copies: Vec<Copy> = Vec::new();
    for from in folders {
        let wrong = |why: &str| format!("{}: {why}", from.join(SKILL_FILE).display());
        let (entry, _) = read_entry(system, &from, "cli").map_err(|e| wrong(&e))?;
        let name = entry.get("name").and_then(harn_value::Data::as_str).unwrap_or_default().to_owned();
        if !is_folder_name(&name) {
            return Err(wrong(&format!(
                "invalid directory name '{name}': use letters, digits, '.', '_' and '-'"
            )));
        }
        if let Some(other) = copies.iter().find(|copy| copy.name == name) {
            return Err(wrong(&format!("the skill in {} is called '{name}', too", other.from.display())));
        }
        signed_as_it_must_be(system, &from, &entry).map_err(|e| wrong(&e))?;
        let to = target.join(&name);
        apart(system, &from, &to)?;
        if system.link_facts(&to).is_ok() && !args.replace {
            return Err(format!("{} is there already; --replace replaces it", to.display()));
        }
        copies.push(Copy { name, from, to });
    }
    let mut text = String::new();
    for Copy { name, from, to } in &copies {
        harn_packages::copy(system, from, to).map_err(|e| e.to_string())?;
        text.push_str(&format!("installed {name} in {}\n", to.display()));
    }
    Ok(Shown::text(text))
}

/// Returns the directory to search: a local one, or a commit in the cache.
fn source(system: &Real, args: &SkillInstallArgs) -> Result<PathBuf, String> {
    let want = match (&args.rev, &args.branch) {
        (Some(rev), _) => Some(Want::Rev(rev.clone())),
        (_, Some(branch)) => Some(Want::Branch(branch.clone())),
        _ => None,
    };
    let root = if harn_packages::looks_like_a_repository(&args.source) || want.is_some() {
        let fetched = block_on(harn_packages::fetch_wanted(system, &args.source, want.as_ref()));
        fetched.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?.0
    } else {
        system.work_dir().join(&args.source)
    };
    let root = system.canonical(&root).map_err(|e| cannot("read", &root, &e))?;
    let Some(path) = &args.path else { return Ok(root) };
    let inside = system.canonical(&root.join(path)).map_err(|e| cannot("read", &root.join(path), &e))?;
    if !inside.starts_with(&root) {
        return Err(format!("--path {} leads out of {}", path.display(), args.source));
    }
    Ok(inside)
}

/// Rejects a skill without the signature that the skill or this machine's settings require.
fn signed_as_it_must_be(
    system: &Real,
    folder: &Path,
    entry: &harn_value::data::Map<String, harn_value::Data>,
) -> Result<(), String> {
    let signers: Vec<String> = entry
        .get("trusted_signers")
        .and_then(harn_value::Data::as_array)
        .into_iter()
        .flatten()
        .map(harn_value::Data::printed)
        .collect();
    let asked = entry.get("require_signature").and_then(harn_value::Data::as_bool).unwrap_or_default();
    let everywhere = system.env(harn_runtime::REQUIRE_SIGNED_SKILLS).unwrap_or_default();
    if !asked && signers.is_empty() && !matches!(&*everywhere, "1" | "true" | "yes") {
        return Ok(());
    }
    let look = LookArgs { skill_dirs: Vec::new(), json: false };
    let registry = super::found(system, &look).map_or_else(|_| Signers::default(), |found| found.signers);
    let read = block_on(read_skill(system, folder, &signers, &registry)).map_err(|e| e.to_string())??;
    if read.signature.trusted {
        return Ok(());
    }
    Err(format!("a trusted signature is required; its signature: {}", super::sign::told(&read.signature)))
}

/// Rejects a target that contains the source or is inside of it, because the copy would overwrite its own source.
fn apart(system: &Real, from: &Path, to: &Path) -> Result<(), String> {
    // If the target does not exist yet, its nearest existing ancestor decides.
    let mut place = to.to_owned();
    let mut behind = PathBuf::new();
    let to = loop {
        if let Ok(true_place) = system.canonical(&place) {
            break if behind.as_os_str().is_empty() { true_place } else { true_place.join(&behind) };
        }
        let name = place.file_name().map(PathBuf::from).unwrap_or_default();
        behind = if behind.as_os_str().is_empty() { name } else { name.join(&behind) };
        if !place.pop() {
            break to.to_owned();
        }
    };
    let from = system.canonical(from).map_err(|e| cannot("read", from, &e))?;
    let problem = if from == to {
        "is what is to be installed"
    } else if to.starts_with(&from) {
        "lies in what is to be installed"
    } else if from.starts_with(&to) {
        "holds what is to be installed"
    } else {
        return Ok(());
    };
    Err(format!("{} {problem}", to.display()))
}

/// Creates a skill.
pub(super) fn new(system: &Real, name: &str, short: Option<&str>, user: bool) -> Outcome {
    if !is_folder_name(name) {
        return Err(format!("invalid skill name '{name}': use letters, digits, '.', '_' and '-'"));
    }
    let folder = home_of_skills(system, user)?.join(name);
    if system.link_facts(&folder).is_ok() {
        return Err(format!("{} is there already", folder.display()));
    }
    let short = short.unwrap_or("What this skill is for, in one line").trim();
    if short.is_empty() || short.contains(char::is_control) {
        return Err("--short must be one line of text".to_owned());
    }
    // A quoted string is valid YAML whatever it contains.
    let text = format!(
        "---\nname: {name}\nshort: {}\nwhen-to-use: {}\n---\n\n# {name}\n\nWhat the model is to do, step by step. `$1` and `$ARGUMENTS` are what it is \
         given; files beside\nthis one are in `${{HARN_SKILL_DIR}}`.\n",
        harn_value::Data::from(short),
        harn_value::Data::from("words of the tasks that it fits"),
    );
    let file = folder.join(SKILL_FILE);
    system.make_dirs(&folder).map_err(|e| cannot("make", &folder, &e))?;
    system.replace(&file, text.as_bytes()).map_err(|e| cannot("write", &file, &e))?;
    Ok(Shown::text(format!("created {}\n", file.display())))
}
