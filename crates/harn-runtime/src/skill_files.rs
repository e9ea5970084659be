//! Skills on disk: where they are looked for, and what is read of them. The body of a skill is read when it is wanted.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use harn_agent::LoopConfig;
use harn_agent::skill_file::{self, FILE, LAYERS, Signature, SkillFile};
use harn_front::Through;
use harn_system::{System, SystemExt};
use harn_value::Value;
use harn_value::{Data as Json, data::Map, json};
use harn_vm::{Cx, Result, Vm};

use crate::convert::{from_json, thrown, to_json};

/// The largest `SKILL.md` that is read: 4 MiB.
const MAX_FILE: u64 = 4 << 20;

/// The folders of a layer.
struct Layer {
    name: &'static str,
    folders: Vec<PathBuf>,
}

/// Makes the global `skills` a registry of what is found for a program, before it is compiled: `folder` is that of the program, `given` are folders
/// of the command line. What is wrong with a skill is a warning, and that skill is not there.
///
/// # Errors
/// `[skills]` of the manifest is wrong.
pub fn install_skills(vm: &Rc<Vm>, folder: &Path, given: &[PathBuf]) -> std::result::Result<(), String> {
    let system = vm.system().clone();
    let system = &*system;
    let place = harn_template::absolute_folder(folder, system);
    let root = place.and_then(|place| harn_front::project_root(&place, &Through(system)));
    let settings = match &root {
        Some(root) => read_settings(system, root)?,
        None => Settings::default(),
    };
    let mut entries: Vec<Value> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut folders = BTreeSet::new();
    for layer in layers(system, root.as_deref(), given, &settings) {
        for folder in &layer.folders {
            for skill in skills_in(system, folder) {
                match read_entry(system, &skill, layer.name) {
                    Ok(entry) => {
                        folders.insert(skill.clone());
                        if seen.insert(entry["name"].as_str().unwrap_or_default().to_owned()) {
                            entries.push(from_json(&entry));
                        }
                    }
                    Err(problem) => {
                        let path = skill.join(FILE);
                        system.write_err(&format!("[harn] warning: {}: {problem}\n", path.display()));
                    }
                }
            }
        }
    }
    if entries.is_empty() {
        return Ok(());
    }
    let mut registry = harn_value::Dict::new();
    registry.insert("_type", "skill_registry");
    registry.insert("skills", entries);
    vm.set_global("skills", registry);
    let found = vm.extension::<Found>();
    *found.signers.borrow_mut() = settings.signers;
    *found.folders.borrow_mut() = folders;
    Ok(())
}

/// What was found when the program began.
#[derive(Default)]
struct Found {
    /// Where public keys of signers lie besides the home folder.
    signers: RefCell<Option<PathBuf>>,
    /// The folders of the skills. They are the runtime's to read, wherever they lie.
    folders: RefCell<BTreeSet<PathBuf>>,
}

/// `[skills]` of a manifest.
#[derive(Default)]
struct Settings {
    folders: Vec<PathBuf>,
    disabled: Vec<String>,
    order: Vec<String>,
    signers: Option<PathBuf>,
}

fn read_settings(system: &dyn System, root: &Path) -> std::result::Result<Settings, String> {
    let Ok(text) = system.read_text(&root.join("harn.toml"), harn_front::MAX_BYTES) else {
        return Ok(Settings::default());
    };
    // A manifest that does not parse is reported by whoever runs the program.
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
        settings.signers = match table.get("signer_registry_url") {
            None => None,
            Some(toml::Value::String(place)) if !place.contains("://") => Some(root.join(place)),
            Some(_) => return Err("[skills] signer_registry_url must be a folder in this version".to_owned()),
        };
    }
    let sources = manifest.get("skill").and_then(|skill| skill.get("source"));
    for source in sources.and_then(toml::Value::as_array).into_iter().flatten() {
        let path = source.get("path").and_then(toml::Value::as_str);
        let path = path.ok_or("[[skill.source]] needs a path")?;
        settings.folders.extend(expand(system, root, path));
    }
    Ok(settings)
}

/// The folders that a path means; a component `*` stands for every folder there.
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

/// The layers in order, without those that are switched off.
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

/// The folders of skills in a folder, sorted; the folder itself when it is one.
fn skills_in(system: &dyn System, folder: &Path) -> Vec<PathBuf> {
    if system.is_file(&folder.join(FILE)) {
        return vec![folder.to_owned()];
    }
    if !system.is_dir(folder) {
        return Vec::new();
    }
    let mut names = system.names(folder).unwrap_or_default();
    names.sort();
    names.iter().map(|name| folder.join(name)).filter(|path| system.is_file(&path.join(FILE))).collect()
}

/// The entry of a skill, without its body.
fn read_entry(system: &dyn System, folder: &Path, layer: &str) -> std::result::Result<Json, String> {
    let path = folder.join(FILE);
    let text = system.read_text(&path, MAX_FILE).map_err(|error| error.to_string())?;
    let (front, _) = skill_file::split(&text);
    let front = match front {
        None => Json::Null,
        Some(front) => {
            let value = harn_stdlib::parse_yaml(front).map_err(|e| format!("invalid SKILL.md YAML: {e}"))?;
            to_json(&value)
        }
    };
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (mut entry, unknown) = skill_file::entry(&front, &name)?;
    for key in unknown {
        system.write_err(&format!(
            "[harn] warning: {}: unknown frontmatter key '{key}' is ignored\n",
            path.display()
        ));
    }
    entry.insert("source".to_owned(), layer.into());
    entry.insert("skill_dir".to_owned(), folder.display().to_string().into());
    entry.insert("provenance".to_owned(), json!({"layer": layer, "path": path.display().to_string()}));
    Ok(Json::Object(entry))
}

/// Reads the body of a skill on disk, and who signed it. A folder that the program names itself is read with what the task may do.
pub(crate) fn read_file(cx: &Cx, folder: &str, trusted: &[String]) -> std::result::Result<SkillFile, String> {
    let vm = cx.vm();
    let known = vm.extension::<Found>().folders.borrow().contains(Path::new(folder));
    let system = if known { vm.system().clone() } else { cx.system() };
    let path = system.work_dir().join(folder).join(FILE);
    let bytes =
        system.read(&path, MAX_FILE).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let signature = match system.read_text(&path.with_extension("md.sig"), MAX_FILE) {
        Ok(sig) => {
            let key = skill_file::signer_of(&sig).and_then(|signer| public_key(vm, &signer));
            skill_file::verify(&bytes, &sig, key.as_deref(), trusted)
        }
        Err(_) => Signature::default(),
    };
    let text = String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8 text", path.display()))?;
    Ok(SkillFile {
        body: skill_file::split(&text).1.trim_end().to_owned(),
        signature,
        folder: folder.to_owned(),
    })
}

/// The public key of a signer: in the home folder, else in the registry of signers.
fn public_key(vm: &Vm, fingerprint: &str) -> Option<String> {
    let system = vm.system();
    let home = system.env("HOME").map(|home| Path::new(&home).join(".harn/trusted-signers"));
    let named = system.env("HARN_SKILL_SIGNER_REGISTRY_URL").filter(|place| !place.is_empty());
    if let Some(url) = named.as_ref().filter(|place| place.contains("://")) {
        system.write_err(&format!(
            "[harn] warning: HARN_SKILL_SIGNER_REGISTRY_URL: {url}: only folders are read in this version\n"
        ));
    }
    let registry = named
        .filter(|place| !place.contains("://"))
        .map(|place| system.work_dir().join(place))
        .or_else(|| vm.extension::<Found>().signers.borrow().clone());
    let file = format!("{fingerprint}.pub");
    home.into_iter().chain(registry).find_map(|folder| system.read_text(&folder.join(&file), 64 << 10).ok())
}

/// Reads the bodies of the skills on disk that a loop is given.
///
/// # Errors
/// A file that cannot be read any more.
pub(crate) fn fill(cx: &Cx, config: &mut LoopConfig) -> Result<()> {
    for skill in
        config.skills.list.iter_mut().filter(|skill| skill.file.is_none() && skill.text("body").is_empty())
    {
        let Some(folder) = skill.folder() else { continue };
        let read = read_file(cx, folder, &skill.trusted_signers());
        skill.file = Some(read.map_err(|e| thrown(format!("agent_loop: skill '{}': {e}", skill.id)))?);
    }
    Ok(())
}

/// An entry as JSON for [`harn_agent::loop_skill`].
pub(crate) fn registry_options(skills: &Value) -> Map<String, Json> {
    Map::from_iter([("skills".to_owned(), to_json(skills))])
}
