//! The preflight of `harn check`: the resources that a program needs, as far as literals show. All direct and
//! transitive imports must resolve. The templates of literal `render(...)` calls must exist, parse, include existing
//! templates, match their bindings, and mention existing tools.
//!
//! A run does not do this: a program may catch the error of a missing template.

mod bindings;
mod bundle;
mod calls;
mod folders;
mod host;
mod parsed;
mod templates;
mod tools;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use harn_front::{ImportError, Sources, Target, Unit};
use harn_syntax::ast::{Import, Program, StmtKind};
use harn_syntax::{Diagnostic, Severity, SourceFile};
use harn_system::System;

use crate::codes::{IMPORT_COLLISION, UNKNOWN_IMPORT, UNRESOLVED_IMPORT};
use crate::imports::{self, Collision};
use crate::settings::{PreflightSeverity, Settings};
use crate::world::{Source, World};
pub use bundle::{Bundle, BundledAsset};
use harn_syntax::suggest::close;
use templates::Templates;
use tools::Tools;

/// A diagnostic and its file.
#[derive(Clone, Debug)]
pub struct Located {
    /// The file; `None` for the checked program itself.
    pub file: Option<Arc<SourceFile>>,
    /// The diagnostic.
    pub diagnostic: Diagnostic,
}

impl Located {
    /// Returns the message, and the advice after it: for errors that are printed without their source.
    #[must_use]
    pub fn message_with_help(&self) -> String {
        let Diagnostic { message, help, .. } = &self.diagnostic;
        help.as_ref().map_or_else(|| message.clone(), |help| format!("{message}; {help}"))
    }
}

/// Files for which a preflight found that neither they nor their imports have findings or render templates. The
/// programs of one command share it, so that a common import is checked once.
#[derive(Debug, Default)]
pub struct Quiet(RefCell<BTreeSet<PathBuf>>);

impl Quiet {
    /// Records the walked files: for each its imports, and whether it has findings.
    fn learn(&self, walked: &BTreeMap<PathBuf, (Vec<PathBuf>, bool)>) {
        let mut importers: BTreeMap<&PathBuf, Vec<&PathBuf>> = BTreeMap::new();
        for (file, (imports, _)) in walked {
            imports.iter().for_each(|import| importers.entry(import).or_default().push(file));
        }
        // A file that imports one with findings is not quiet.
        let mut loud: BTreeSet<&PathBuf> = BTreeSet::new();
        let mut waiting: Vec<&PathBuf> =
            walked.iter().filter(|(_, (_, says))| *says).map(|(file, _)| file).collect();
        while let Some(file) = waiting.pop() {
            if loud.insert(file) {
                waiting.extend(importers.get(file).into_iter().flatten());
            }
        }
        let quiet = walked.keys().filter(|file| !loud.contains(file)).cloned();
        self.0.borrow_mut().extend(quiet);
    }

    fn contains(&self, file: &Path) -> bool {
        self.0.borrow().contains(file)
    }
}

/// Runs the preflight on a program and its imports. Findings are ordered by file, the program first, each with the
/// templates that it renders; every template is reported once. Quiet files are skipped.
pub fn check_templates(
    source: &Source<'_>,
    world: &World<'_>,
    settings: &Settings,
    quiet: &Quiet,
) -> Vec<Located> {
    if settings.preflight == PreflightSeverity::Off {
        return Vec::new();
    }
    let mut found = walk(source, world, settings, quiet).finish();
    if settings.preflight == PreflightSeverity::Warning {
        for located in &mut found {
            if located.diagnostic.severity == Severity::Error {
                located.diagnostic.severity = Severity::Warning;
            }
        }
    }
    found
}

/// Lists the files of a program that literals name.
pub fn bundle_of(source: &Source<'_>, world: &World<'_>, settings: &Settings) -> Bundle {
    walk(source, world, settings, &Quiet::default()).bundle
}

/// Checks a program and its imports.
fn walk<'a>(source: &Source<'_>, world: &World<'a>, settings: &'a Settings, quiet: &Quiet) -> Templates<'a> {
    let sources = imports::sources(world);
    let mut templates = Templates::new(world, settings);
    let entry =
        File { tree: source.tree, dir: source.dir, name: source.name, text: source.text, shown: None };
    let mut seen: BTreeSet<PathBuf> = world.files.0.canonical(Path::new(source.name)).into_iter().collect();
    let keys = |targets: &[Target]| targets.iter().map(|target| target.key(sources.files())).collect();
    let (mut waiting, says) = entry.check(&sources, &mut templates);
    let mut walked: BTreeMap<PathBuf, (Vec<PathBuf>, bool)> =
        seen.iter().map(|own| (own.clone(), (keys(&waiting), says))).collect();
    let mut next = 0;
    while let Some(target) = waiting.get(next).cloned() {
        next += 1;
        // Embedded modules belong to the runtime.
        if matches!(target, Target::Std(_)) {
            continue;
        }
        let key = target.key(sources.files());
        if quiet.contains(&key) || !seen.insert(key.clone()) {
            continue;
        }
        let Some(unit) = sources.load(&target).ok().filter(|unit| unit.errors.is_empty()) else {
            walked.insert(key, (Vec::new(), true));
            continue;
        };
        templates.bundle.modules.push(unit.file.name().to_owned());
        let shown = Arc::new(SourceFile::clone(&unit.file));
        let file = File {
            tree: &unit.tree,
            dir: &unit.dir,
            name: unit.file.name(),
            text: unit.file.text(),
            shown: Some(shown),
        };
        let (targets, says) = file.check(&sources, &mut templates);
        walked.insert(key, (keys(&targets), says));
        waiting.extend(targets);
    }
    quiet.learn(&walked);
    templates
}

/// A program file during the preflight.
pub(crate) struct File<'a> {
    tree: &'a Program,
    dir: &'a Path,
    name: &'a str,
    text: &'a str,
    /// Its name in diagnostics; `None` for the checked program.
    shown: Option<Arc<SourceFile>>,
}

impl File<'_> {
    /// Checks imports and templates of one file; returns the files that it imports, and whether it renders templates or has
    /// findings.
    fn check(&self, sources: &Sources<'_>, templates: &mut Templates<'_>) -> (Vec<Target>, bool) {
        let before = templates.count();
        let mut targets = Vec::new();
        for import in self.tree.imports() {
            match sources.resolve(&import.path, self.dir) {
                Ok(target) => {
                    match sources.load(&target) {
                        Ok(unit) if !unit.errors.is_empty() => self.broken(import, &unit, templates),
                        Ok(unit) => self.check_names(sources, import, &unit, templates),
                        Err(why) => self.unresolved(import, Some(why), templates),
                    }
                    targets.push(target);
                }
                Err(ImportError::UnknownStd { .. } | ImportError::NotFound { .. }) => {
                    self.unresolved(import, None, templates);
                }
                Err(error) => self.unresolved(import, Some(error.to_string()), templates),
            }
        }
        for collision in imports::collisions(sources, self.tree, self.dir) {
            self.collides(&collision, templates);
        }
        let calls = calls::collect(self.tree);
        let tools = Tools::of(self.tree).filter(|_| !calls.is_empty());
        for call in &calls {
            templates.call(self, call, tools.as_ref());
        }
        let folders = folders::check(self.tree, templates.system);
        for wrong in host::check(self.tree, templates.settings).into_iter().chain(folders) {
            templates.report(self.shown.clone(), wrong);
        }
        (targets, !calls.is_empty() || templates.count() > before)
    }

    /// Reports an unresolved import; `why` if the reason is not a missing file.
    fn unresolved(&self, import: &Import, why: Option<String>, templates: &mut Templates<'_>) {
        let message = format!("preflight: unresolved import '{}'", import.path);
        let mut diagnostic =
            Diagnostic::error(message).with_code(UNRESOLVED_IMPORT).with_label(import.path_span, "preflight");
        match why {
            Some(why) => {
                diagnostic.notes.push(why.trim_start_matches("Import error: ").to_owned());
            }
            None => diagnostic.help = self.import_help(&import.path, templates.system),
        }
        templates.report(self.shown.clone(), diagnostic);
    }

    /// Reports an import whose file does not parse: it fails with the first of the errors.
    fn broken(&self, import: &Import, unit: &Unit, templates: &mut Templates<'_>) {
        let Some(first) = unit.errors.first() else { return };
        let (name, text) = (unit.file.name(), unit.file.text());
        let what = first.canonical(text);
        let message = format!("preflight: import '{}' has a syntax error: {name}: {what}", import.path);
        let told = first.diagnostic(text);
        let diagnostic = Diagnostic::error(message)
            .with_code(UNRESOLVED_IMPORT)
            .with_label(import.path_span, "preflight")
            .with_label_in(unit.file.clone(), first.span, told.message);
        templates.report(self.shown.clone(), diagnostic);
    }

    /// Reports a name with two definitions.
    fn collides(&self, collision: &Collision<'_>, templates: &mut Templates<'_>) {
        let Collision { import, name, first, second, passed_on } = collision;
        let first_file = first.as_ref().map_or(self.name, |(unit, _)| unit.file.name());
        let second_file = second.0.file.name();
        let listed = import.names.iter().flatten().find(|listed| listed.name == *name);
        let (message, help) = match first {
            _ if *passed_on => (
                format!(
                    "re-export conflict — '{name}' is re-exported (or locally defined) by multiple sources: {first_file}, {second_file}"
                ),
                "export only the names that you need: `pub import { ... } from \"...\"`".to_owned(),
            ),
            Some(_) => (
                format!("import collision — '{name}' is exported by both '{first_file}' and '{second_file}'"),
                "import only the names that you need: `import { ... } from \"...\"`".to_owned(),
            ),
            None => (
                format!("import collision — '{name}' is declared here and exported by '{second_file}'"),
                format!(
                    "rename it here, or import only the names that you need: `import {{ ... }} from \"{}\"`",
                    import.path
                ),
            ),
        };
        let mut diagnostic = Diagnostic::error(format!("preflight: {message}"))
            .with_code(IMPORT_COLLISION)
            .with_label(listed.map_or(import.path_span, |name| name.span), "conflicting import");
        diagnostic.help = Some(help);
        for (unit, item) in first.iter().chain([second]) {
            if let Some(StmtKind::Decl(decl)) = unit.tree.items.get(*item).map(|item| &item.kind) {
                diagnostic =
                    diagnostic.with_label_in(unit.file.clone(), decl.kind.name().span, "declared here");
            }
        }
        templates.report(self.shown.clone(), diagnostic);
    }

    /// Reports the listed names of an import that its file does not declare.
    fn check_names(
        &self,
        sources: &Sources<'_>,
        import: &Import,
        unit: &Unit,
        templates: &mut Templates<'_>,
    ) {
        let Some(listed) = &import.names else { return };
        let Some(known) = imports::listable(sources, &unit.target) else { return };
        for name in listed.iter().filter(|name| !known.contains(name.name.as_str())) {
            let hidden = harn_front::is_hidden(&unit.tree, &name.name);
            let what = if hidden { "not public" } else { "not defined" };
            let message = format!("preflight: '{}' is {what} in {}", name.name, import.path);
            let mut diagnostic = Diagnostic::error(message)
                .with_code(UNKNOWN_IMPORT)
                .with_label(name.span, if hidden { "mark it `pub` there" } else { "not found" });
            if hidden {
                let declared = unit.tree.items.iter().find_map(|item| match &item.kind {
                    StmtKind::Decl(decl) if decl.kind.name().name == name.name => Some(decl.kind.name().span),
                    _ => None,
                });
                if let Some(span) = declared {
                    diagnostic = diagnostic.with_label_in(unit.file.clone(), span, "declared here");
                }
            } else if let Some(near) = close(&name.name, known.iter().map(String::as_str)) {
                diagnostic.help = Some(format!("did you mean `{near}`?"));
                let here = harn_front::selectable(&unit.tree).find(|decl| decl.kind.name().name == near);
                if let Some(decl) = here {
                    let span = decl.kind.name().span;
                    diagnostic = diagnostic.with_label_in(
                        unit.file.clone(),
                        span,
                        format!("`{near}` is declared here"),
                    );
                }
            }
            templates.report(self.shown.clone(), diagnostic);
        }
    }

    /// Suggests a file next to the importer with a name similar to the missing one.
    fn import_help(&self, path: &str, files: &dyn System) -> Option<String> {
        if path.starts_with("std/") {
            return None;
        }
        let wanted = self.dir.join(path);
        let stem = wanted.file_stem()?.to_str()?;
        let folder =
            wanted.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let entries = files.names(folder).ok()?.into_iter();
        let stems: Vec<String> = entries
            .filter(|file| file.extension().is_some_and(|extension| extension == "harn"))
            .filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned()))
            .collect();
        let near = close(stem, stems.iter().map(String::as_str))?;
        let import = match path.rsplit_once('/') {
            Some((folder, _)) => format!("{folder}/{near}"),
            None => near.to_owned(),
        };
        Some(format!("did you mean `{import}`?"))
    }
}
