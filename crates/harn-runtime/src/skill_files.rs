//! Skills on disk: where they are searched, and what is read from them. The body of a skill is read on demand.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use harn_agent::loop_skill::{Candidate, LoopSkills};
use harn_agent::skill_file::{self, FILE, HOST, LAYERS, Signature, SkillFile};
use harn_agent::skills::HOST_TOO;
use harn_front::Through;
use harn_system::{Ruled, System, SystemExt};
use harn_value::Value;
use harn_value::{Data as Json, data::Map, json};
use harn_vm::{Cx, Result, Vm};

use crate::convert::{from_json, thrown, to_json};
use crate::skill_keys::{Signers, asked_key, own_key};

/// Maximum size of a `SKILL.md` that is read: 4 MiB.
const MAX_FILE: u64 = 4 << 20;

/// The directories of a layer.
struct Layer {
    name: &'static str,
    folders: Vec<PathBuf>,
}

/// A skill on disk, without its body.
#[derive(Debug, Clone)]
pub struct SkillOnDisk {
    /// Its entry in the registry.
    pub entry: Map<String, Json>,
    /// Its directory.
    pub folder: PathBuf,
    /// The layer it was found in.
    pub layer: &'static str,
    /// Whether a skill of an earlier layer with the same name hides it.
    pub hidden: bool,
    /// Unknown keys of its front matter.
    pub unknown: Vec<String>,
}

impl SkillOnDisk {
    /// Returns the name of the skill.
    pub fn name(&self) -> &str {
        self.entry.get("name").and_then(Json::as_str).unwrap_or_default()
    }

    /// Returns the allowed signers; empty if all known signers are allowed.
    pub fn trusted_signers(&self) -> Vec<String> {
        let list = self.entry.get("trusted_signers").and_then(Json::as_array);
        list.into_iter().flatten().map(Json::printed).collect()
    }
}

/// All skills on disk that a program can use.
#[derive(Debug, Default)]
pub struct SkillsOnDisk {
    /// The skills in the order of the layers.
    pub found: Vec<SkillOnDisk>,
    /// Directories with an unreadable skill, and the reason.
    pub problems: Vec<(PathBuf, String)>,
    /// The active layers in order.
    pub layers: Vec<&'static str>,
    /// Where to find public keys of signers, in addition to the home directory.
    pub signers: Signers,
}

/// Finds the skills of a program in `folder`; `given` are directories from the command line.
///
/// # Errors
/// `[skills]` of the manifest is invalid.
pub fn find_skills(
    system: &dyn System,
    folder: &Path,
    given: &[PathBuf],
) -> std::result::Result<SkillsOnDisk, String> {
    let place = harn_template::absolute_folder(folder, system);
    let root = place.and_then(|place| harn_front::project_root(&place, &Through(system)));
    let settings = match &root {
        Some(root) => read_settings(system, root)?,
        None => Settings::default(),
    };
    let mut skills = SkillsOnDisk::default();
    let mut seen = BTreeSet::new();
    for layer in layers(system, root.as_deref(), given, &settings) {
        skills.layers.push(layer.name);
        for folder in layer.folders.iter().flat_map(|folder| skills_in(system, folder)) {
            match entry_with(system, &folder, layer.name, &settings.defaults) {
                Ok((entry, unknown)) => {
                    let mut skill = SkillOnDisk { entry, folder, layer: layer.name, hidden: false, unknown };
                    skill.hidden = !seen.insert(skill.name().to_owned());
                    skills.found.push(skill);
                }
                Err(problem) => skills.problems.push((folder, problem)),
            }
        }
    }
    skills.signers = settings.signers;
    if let Some(named) = system.env("HARN_SKILL_SIGNER_REGISTRY_URL").filter(|place| !place.is_empty()) {
        skills.signers = Signers::of(&named, &system.work_dir())
            .map_err(|why| format!("HARN_SKILL_SIGNER_REGISTRY_URL: {why}"))?;
    }
    Ok(skills)
}

/// Returns the skills that a loop would choose for a task with some files, the best first.
///
/// # Errors
/// Never fails for skills that were found on disk.
pub fn rank_skills(
    skills: &SkillsOnDisk,
    task: &str,
    files: Vec<String>,
) -> std::result::Result<Vec<Candidate>, String> {
    let seen = skills.found.iter().filter(|skill| !skill.hidden);
    let entries: Vec<Json> = seen.map(|skill| Json::Object(skill.entry.clone())).collect();
    let options =
        Map::from_iter([("skills".to_owned(), entries.into()), ("working_files".to_owned(), files.into())]);
    Ok(LoopSkills::from_options(&options).map_err(|error| error.to_string())?.rank(task))
}

/// Sets the global `skills` to a registry of the skills found for a program, before it is compiled: `folder` is the
/// program's directory, `given` are directories from the command line. An invalid skill causes a warning and is left
/// out.
///
/// # Errors
/// `[skills]` of the manifest is invalid.
pub fn install_skills(vm: &Rc<Vm>, folder: &Path, given: &[PathBuf]) -> std::result::Result<(), String> {
    let system = vm.system().clone();
    let skills = find_skills(&*system, folder, given)?;
    let warn = |folder: &Path, text: &str| {
        system.write_err(&harn_syntax::notice(&format!("warning: {}: {text}", folder.join(FILE).display())));
    };
    for (folder, problem) in &skills.problems {
        warn(folder, problem);
    }
    for skill in &skills.found {
        for key in &skill.unknown {
            warn(&skill.folder, &format!("unknown frontmatter key '{key}' is ignored"));
        }
    }
    let seen = skills.found.iter().filter(|skill| !skill.hidden);
    let entries: Vec<Value> = seen.map(|skill| from_json(&Json::Object(skill.entry.clone()))).collect();
    let mut registry = harn_value::Dict::new();
    registry.insert("_type", "skill_registry");
    registry.insert("skills", entries);
    if skills.layers.contains(&HOST) {
        registry.insert(HOST_TOO, true);
    }
    vm.set_global("skills", registry);
    let found = vm.extension::<Found>();
    *found.asked.borrow_mut() = Some((folder.to_owned(), given.to_owned()));
    *found.layers.borrow_mut() = skills.layers;
    *found.signers.borrow_mut() = skills.signers;
    *found.folders.borrow_mut() = skills.found.into_iter().map(|skill| skill.folder).collect();
    Ok(())
}

/// Repeats [`install_skills`] for a VM that has skills.
///
/// # Errors
/// As [`install_skills`].
pub(crate) fn install_again(vm: &Rc<Vm>) -> std::result::Result<(), String> {
    let asked = vm.extension::<Found>().asked.borrow().clone();
    asked.map_or(Ok(()), |(folder, given)| install_skills(vm, &folder, &given))
}

/// Returns the active layers of a VM in order.
pub(crate) fn layers_of(vm: &Vm) -> Vec<&'static str> {
    vm.extension::<Found>().layers.borrow().clone()
}

/// The skills found when the program started.
#[derive(Default)]
struct Found {
    /// The directory of the program, and those of the command line.
    asked: RefCell<Option<(PathBuf, Vec<PathBuf>)>>,
    /// The active layers in order.
    layers: RefCell<Vec<&'static str>>,
    signers: RefCell<Signers>,
    /// The directories of the skills. The runtime may read them independently of the program's permissions.
    folders: RefCell<BTreeSet<PathBuf>>,
    /// Keys received from a registry, by fingerprint; `None` if the registry does not have the key.
    keys: RefCell<BTreeMap<String, Option<String>>>,
}

/// The table `[skills]` of a manifest.
#[derive(Default)]
pub(crate) struct Settings {
    folders: Vec<PathBuf>,
    disabled: Vec<String>,
    order: Vec<String>,
    defaults: Map<String, Json>,
    signers: Signers,
}

pub(crate) fn read_settings(system: &dyn System, root: &Path) -> std::result::Result<Settings, String> {
    let Ok(text) = system.read_text(&root.join("harn.toml"), harn_front::MAX_BYTES) else {
        return Ok(Settings::default());
    };
    // A syntax error in the manifest is reported when the program runs.
    let Ok(manifest) = text.parse::<toml::Table>() else { return Ok(Settings::default()) };
    let mut settings = Settings::default();
    if let Some(table) = manifest.get("skills") {
        let table = table.as_table().ok_or("[skills] must be a table")?;
        const KEYS: [&str; 5] = ["paths", "disable", "lookup_order", "defaults", "signer_registry_url"];
        if let Some(key) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(format!("[skills] has no key '{key}'; there are {}", KEYS.join(", ")));
        }
        let list = |key: &str| -> std::result::Result<Vec<String>, String> {
            let wrong = || format!("[skills] {key} must be a list of strings");
            match table.get(key) {
                None => Ok(Vec::new()),
                Some(toml::Value::Array(items)) => {
                    items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
                }
                Some(_) => Err(wrong()),
            }
        };
        for path in list("paths")? {
            settings.folders.extend(expand(system, root, &path));
        }
        (settings.disabled, settings.order) = (list("disable")?, list("lookup_order")?);
        for name in settings.disabled.iter().chain(&settings.order) {
            if !LAYERS.contains(&name.as_str()) {
                return Err(format!("[skills] unknown layer '{name}'; there are {}", LAYERS.join(", ")));
            }
        }
        if let Some(defaults) = table.get("defaults") {
            settings.defaults = defaults_of(defaults).map_err(|why| format!("[skills] defaults: {why}"))?;
        }
        if let Some(place) = table.get("signer_registry_url") {
            let place = place.as_str().ok_or("[skills] signer_registry_url must be a URL or a folder")?;
            settings.signers =
                Signers::of(place, root).map_err(|why| format!("[skills] signer_registry_url: {why}"))?;
        }
    }
    let sources = match manifest.get("skill").map(|skill| skill.get("source")) {
        None => &[][..],
        Some(Some(toml::Value::Array(sources))) => sources,
        Some(_) => return Err("[skill] has nothing but [[skill.source]]".to_owned()),
    };
    for source in sources {
        let text = |key: &str| source.get(key).and_then(toml::Value::as_str);
        match source.get("type").map(|kind| kind.as_str().unwrap_or_default()) {
            None | Some("fs") => {}
            Some(kind @ ("git" | "registry")) => {
                return Err(format!(
                    "[[skill.source]] type = \"{kind}\" is not looked at when a program begins; `harn skills install` brings its skills into the project" // prose-ok: error
                ));
            }
            Some(_) => return Err("[[skill.source]] type must be \"fs\"".to_owned()),
        }
        let unknown = source
            .as_table()
            .and_then(|table| table.keys().find(|key| !["type", "path"].contains(&key.as_str())));
        if let Some(key) = unknown {
            return Err(format!("[[skill.source]] has no key '{key}'; there are type, path"));
        }
        settings.folders.extend(expand(system, root, text("path").ok_or("[[skill.source]] needs a path")?));
    }
    Ok(settings)
}

/// Returns the defaults for keys that a skill's front matter lacks.
fn defaults_of(value: &toml::Value) -> std::result::Result<Map<String, Json>, String> {
    let front = serde_json::to_string(value).ok().and_then(|text| serde_json::from_str::<Json>(&text).ok());
    let Some(Json::Object(front)) = front else {
        return Err("it must be a table of front matter".to_owned());
    };
    let own = |key: &&String| ["name", "short"].contains(&key.as_str());
    if let Some(key) = front.keys().find(own) {
        return Err(format!("'{key}' belongs to one skill"));
    }
    // Validated like the front matter of a skill.
    let mut whole = front.clone();
    whole.insert("short".to_owned(), "-".into());
    match skill_file::entry(&Json::Object(whole), "-")?.1.first() {
        Some(key) => Err(format!("there is no '{key}' in front matter")),
        None => Ok(front.into_iter().map(|(key, value)| (key.replace('-', "_"), value)).collect()),
    }
}

/// Returns the directories that match a path; a component `*` matches every directory.
fn expand(system: &dyn System, root: &Path, path: &str) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    for part in Path::new(path).components() {
        let part = part.as_os_str();
        if part == "*" {
            let below = |folder: &PathBuf| -> Vec<PathBuf> {
                let names = system.names(folder).unwrap_or_default();
                names.iter().map(|name| folder.join(name)).filter(|path| system.is_dir(path)).collect()
            };
            found = found.iter().flat_map(below).collect();
        } else {
            found.iter_mut().for_each(|folder| folder.push(part));
        }
    }
    found
}

/// Returns the active layers in order.
fn layers(system: &dyn System, root: Option<&Path>, given: &[PathBuf], settings: &Settings) -> Vec<Layer> {
    let here = system.work_dir();
    let home = system.env("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let folders = |name: &str| -> Vec<PathBuf> {
        match name {
            "cli" => given.iter().map(|path| here.join(path)).collect(),
            "env" => {
                let paths = system.env("HARN_SKILLS_PATH").unwrap_or_default();
                paths.split(':').filter(|path| !path.is_empty()).map(|path| here.join(path)).collect()
            }
            "project" => root.iter().map(|root| root.join(".harn/skills")).collect(),
            "manifest" => settings.folders.clone(),
            "user" => home.iter().map(|home| home.join(".harn/skills")).collect(),
            "package" => root.map(|root| expand(system, root, ".harn/packages/*/skills")).unwrap_or_default(),
            "system" => vec![PathBuf::from("/etc/harn/skills")],
            _ => Vec::new(),
        }
    };
    let first = settings.order.iter().filter_map(|name| LAYERS.into_iter().find(|layer| layer == name));
    let mut order: Vec<&'static str> = first.collect();
    let rest: Vec<&'static str> = LAYERS.into_iter().filter(|layer| !order.contains(layer)).collect();
    order.extend(rest);
    order
        .into_iter()
        .filter(|name| !settings.disabled.iter().any(|disabled| disabled == name))
        .map(|name| Layer { name, folders: folders(name) })
        .collect()
}

/// Returns the skill directories in a directory, sorted; the directory itself if it is one. Names that begin with a dot
/// are skipped: they are temporary directories of installations, or belong to other tools.
pub fn skills_in(system: &dyn System, folder: &Path) -> Vec<PathBuf> {
    if system.is_file(&folder.join(FILE)) {
        return vec![folder.to_owned()];
    }
    if !system.is_dir(folder) {
        return Vec::new();
    }
    let mut names = system.names(folder).unwrap_or_default();
    names.retain(|name| !name.to_string_lossy().starts_with('.'));
    names.sort();
    names.iter().map(|name| folder.join(name)).filter(|path| system.is_file(&path.join(FILE))).collect()
}

/// Returns the entry of a skill without its body, and its unknown keys.
///
/// # Errors
/// The front matter is invalid, or a file cannot be read.
pub fn read_entry(
    system: &dyn System,
    folder: &Path,
    layer: &str,
) -> std::result::Result<(Map<String, Json>, Vec<String>), String> {
    entry_with(system, folder, layer, &Map::new())
}

fn entry_with(
    system: &dyn System,
    folder: &Path,
    layer: &str,
    defaults: &Map<String, Json>,
) -> std::result::Result<(Map<String, Json>, Vec<String>), String> {
    let path = folder.join(FILE);
    let text = system.read_text(&path, MAX_FILE).map_err(|error| error.to_string())?;
    let (front, _) = skill_file::split(&text);
    let mut front = match front {
        None => Json::Null,
        Some(front) => {
            let value = harn_stdlib::parse_yaml(front).map_err(|e| format!("invalid SKILL.md YAML: {e}"))?;
            to_json(&value)
        }
    };
    if let Json::Object(front) = &mut front {
        let written: BTreeSet<String> = front.keys().map(|key| key.replace('-', "_")).collect();
        let missing = defaults.iter().filter(|(key, _)| !written.contains(*key));
        front.extend(missing.map(|(key, value)| (key.clone(), value.clone())));
    }
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (mut entry, unknown) = skill_file::entry(&front, &name)?;
    entry.insert("source".to_owned(), layer.into());
    entry.insert("skill_dir".to_owned(), folder.display().to_string().into());
    entry.insert("provenance".to_owned(), json!({"layer": layer, "path": path.display().to_string()}));
    Ok((entry, unknown))
}

/// Reads a skill in a directory, and its signer. `trusted` is the skill's list of signers.
///
/// # Errors
/// A file cannot be read.
pub async fn read_skill(
    system: &dyn System,
    folder: &Path,
    trusted: &[String],
    signers: &Signers,
) -> std::result::Result<SkillFile, String> {
    let (bytes, signature) = read_bytes(system, folder)?;
    let key = match signature.as_deref().and_then(skill_file::signer_of) {
        None => None,
        Some(signer) => match own_key(system, &signer, signers) {
            Some(key) => Some(key),
            None => asked_key(system, &signer, signers).await?,
        },
    };
    skill_of(bytes, signature.as_deref(), key.as_deref(), trusted, folder)
}

/// Returns the content of a `SKILL.md`, and of its signature file.
fn read_bytes(system: &dyn System, folder: &Path) -> std::result::Result<(Vec<u8>, Option<String>), String> {
    let path = folder.join(FILE);
    let bytes = system.read(&path, MAX_FILE);
    let bytes = bytes.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok((bytes, system.read_text(&path.with_extension("md.sig"), MAX_FILE).ok()))
}

fn skill_of(
    bytes: Vec<u8>,
    signature: Option<&str>,
    key: Option<&str>,
    trusted: &[String],
    folder: &Path,
) -> std::result::Result<SkillFile, String> {
    let signature =
        signature.map_or_else(Signature::default, |sig| skill_file::verify(&bytes, sig, key, trusted));
    let text =
        String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8 text", folder.join(FILE).display()))?;
    let body = skill_file::split(&text).1.trim_end().to_owned();
    Ok(SkillFile { body, signature, folder: folder.display().to_string() })
}

/// Reads a skill of the program, or a directory that the program names, which is read with the permissions of the task.
///
/// # Errors
/// A file cannot be read.
pub(crate) async fn read_file(
    cx: &Cx,
    folder: &str,
    trusted: &[String],
) -> std::result::Result<SkillFile, String> {
    let found = cx.vm().extension::<Found>();
    let place = cx.system().work_dir().join(folder);
    let known = found.folders.borrow().contains(Path::new(folder));
    let (bytes, signature) =
        if known { read_bytes(&**cx.vm().system(), &place)? } else { read_bytes(&*cx.system(), &place)? };
    let mut key = None;
    if let Some(signer) = signature.as_deref().and_then(skill_file::signer_of) {
        let (system, signers) = (cx.vm().system().clone(), found.signers.borrow().clone());
        let asked = found.keys.borrow().get(&signer).cloned();
        key = match (own_key(&*system, &signer, &signers), asked) {
            (Some(key), _) => Some(key),
            (None, Some(asked)) => asked,
            (None, None) => {
                let rules = harn_stdlib::egress_rules(cx.vm()).map_err(|error| error.uncaught_text())?;
                let asker = cx.system();
                let ruled = Ruled { system: &*asker, rules };
                let key = asked_key(&ruled, &signer, &signers).await.unwrap_or_else(|problem| {
                    system.write_err(&harn_syntax::notice(&format!("warning: {problem}")));
                    None
                });
                found.keys.borrow_mut().insert(signer, key.clone());
                key
            }
        };
    }
    let mut file = skill_of(bytes, signature.as_deref(), key.as_deref(), trusted, &place)?;
    folder.clone_into(&mut file.folder);
    Ok(file)
}

/// Reads the bodies of the skills on disk in a loop's options.
///
/// # Errors
/// A file can no longer be read.
pub(crate) async fn fill(cx: &Cx, skills: &mut LoopSkills) -> Result<()> {
    for skill in skills.list.iter_mut().filter(|skill| skill.file.is_none() && skill.text("body").is_empty())
    {
        let Some(folder) = skill.folder() else { continue };
        let read = read_file(cx, folder, &skill.trusted_signers()).await;
        skill.file = Some(read.map_err(|e| thrown(format!("agent_loop: skill '{}': {e}", skill.id)))?);
    }
    Ok(())
}

/// Converts an entry to JSON for [`harn_agent::loop_skill`].
pub(crate) fn registry_options(skills: &Value) -> Map<String, Json> {
    Map::from_iter([("skills".to_owned(), to_json(skills))])
}
