//! Loading: from source code to compiled files, including imports.
//!
//! All files are read, parsed and declared before any is compiled, so that names can be resolved across files and
//! import cycles work. A failed import becomes a step of the program that fails at the import, after earlier imports
//! have run.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use harn_front::{Files, Names, Sources, Target, Through};
use harn_syntax::ast::{DeclKind, Import, Name, Param, Program as Tree, StmtKind, TypeExpr};
use harn_syntax::{Diagnostic, SourceFile, Span, SyntaxError};
use harn_system::SystemExt;
use harn_value::{Dict, Value};
use rustc_hash::FxHashMap;

use crate::bytecode::Proto;
use crate::compile::{self, Binding, CompileError, CompiledModule, Mode, ModuleScope, Pipelines};
use crate::types::Types;
use crate::vm::Vm;
use crate::vm_id::{VmId, of_another_vm};

/// Source code and its origin.
pub struct Source {
    /// The name shown in messages.
    pub name: String,
    /// The source code.
    pub text: String,
    /// Directory against which relative imports are resolved.
    pub dir: PathBuf,
}

/// One step of running a program.
pub(crate) enum Step {
    /// Run the top level of a file.
    Run(Rc<Proto>),
    /// Fail with this runtime error at a location in a module.
    Fail { text: String, module: u32, span: Span },
}

/// A program ready to run.
pub struct Program {
    /// The VM that loaded it.
    pub(crate) vm: Rc<VmId>,
    pub(crate) steps: Vec<Step>,
    /// Pipelines of the entry file in order of declaration.
    pub(crate) pipelines: Vec<(Name, Rc<Proto>)>,
    /// Exports of the entry file.
    pub(crate) exports: Vec<(Name, Binding)>,
    /// Definitions of the named types.
    pub(crate) types: Rc<Types>,
    /// The entry file.
    pub(crate) file: u32,
    /// The entry file's syntax tree.
    pub tree: Rc<Tree>,
}

impl Program {
    /// Names of the pipelines in order of declaration.
    pub fn pipelines(&self) -> impl Iterator<Item = &str> {
        self.pipelines.iter().map(|(name, _)| name.as_str())
    }

    /// Checks that `vm` is the VM that loaded the program.
    ///
    /// # Errors
    /// A type error if it is not.
    pub(crate) fn check_vm(&self, vm: &Vm) -> crate::Result<()> {
        if Rc::ptr_eq(&self.vm, &vm.id) { Ok(()) } else { Err(of_another_vm("program")) }
    }

    /// Returns a readable listing of the bytecode.
    pub fn listing(&self) -> String {
        let steps = self.steps.iter().filter_map(|s| match s {
            Step::Run(proto) => Some(proto.listing()),
            Step::Fail { .. } => None,
        });
        steps.chain(self.pipelines.iter().map(|(_, p)| p.listing())).collect()
    }
}

/// Signature of an exported function, for callers that pass arguments by name.
pub struct ExportedFunction {
    /// Its name.
    pub name: String,
    /// Byte offset of its declaration, to find the comment above it.
    pub start: usize,
    /// JSON Schemas of its parameters by name, in order; parameters with a default have `required: false`.
    pub parameters: Dict,
    /// JSON Schema of the result, if declared.
    pub returns: Option<Value>,
}

impl Program {
    /// Returns the functions that the entry file declares with `pub`, in order, except generators and functions with a
    /// rest parameter.
    pub fn functions(&self) -> Vec<ExportedFunction> {
        let declared = self.tree.items.iter().filter_map(|item| match &item.kind {
            StmtKind::Decl(decl) if decl.is_pub => Some(decl),
            _ => None,
        });
        let schema = |ty: &TypeExpr| crate::schema::json_schema(ty, &self.types.of(self.file));
        declared
            .filter_map(|decl| {
                let DeclKind::Fn(function) = &decl.kind else { return None };
                let f = &function.func;
                if f.is_gen || f.has_yield || f.params.iter().any(|param| param.rest) {
                    return None;
                }
                let entry = |param: &Param| {
                    let own = param.ty.as_ref().map(schema);
                    let own = own.map(|own| crate::schema::annotate(own, param.note.as_deref(), true));
                    let own = own.and_then(|schema| schema.to_dict());
                    let mut own = own.map_or_else(Dict::new, |own| (*own).clone());
                    if own.is_empty() {
                        own.insert("type", "any");
                    }
                    if param.default.is_some() {
                        own.insert("required", false);
                    }
                    (param.name.name.to_string(), Value::from(own))
                };
                Some(ExportedFunction {
                    name: function.name.name.to_string(),
                    start: decl.span.start as usize,
                    parameters: f.params.iter().map(entry).collect(),
                    returns: f.ret.as_ref().map(schema),
                })
            })
            .collect()
    }
}

/// Why a program cannot be run.
#[derive(Debug, Clone)]
pub enum LoadError {
    /// The source has syntax errors.
    Syntax(Vec<SyntaxError>),
    /// It cannot be compiled.
    Compile(Vec<CompileError>),
}

impl LoadError {
    /// Returns all errors as diagnostics of `file`.
    pub fn diagnostics(&self, file: &SourceFile) -> Vec<Diagnostic> {
        match self {
            LoadError::Syntax(errors) => errors.iter().map(|e| e.diagnostic(file.text())).collect(),
            LoadError::Compile(errors) => errors
                .iter()
                .map(|e| {
                    let line = file.line(e.span.start);
                    Diagnostic::error(format!("compile error: Compile error at line {line}: {}", e.text))
                        .at(e.span)
                })
                .collect(),
        }
    }

    /// Returns the canonical message of the first error, which the conformance runner compares.
    pub fn canonical(&self, source: &str) -> String {
        match self {
            LoadError::Syntax(errors) => errors.first().map(|e| e.canonical(source)).unwrap_or_default(),
            LoadError::Compile(errors) => errors.first().map_or_else(String::new, |e| {
                let (line, _) = harn_syntax::source_map::line_column(source, e.span.start);
                format!("compile error: Compile error at line {line}: {}", e.text)
            }),
        }
    }
}

impl std::fmt::Display for LoadError {
    /// Writes the first error with its byte offset, and the number of the others. With the source,
    /// [`LoadError::canonical`] and [`LoadError::diagnostics`] return line and column.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (first, count) = match self {
            LoadError::Syntax(errors) => (errors.first().map(ToString::to_string), errors.len()),
            LoadError::Compile(errors) => (errors.first().map(ToString::to_string), errors.len()),
        };
        f.write_str(&first.unwrap_or_default())?;
        if count > 1 { write!(f, " (and {} more)", count - 1) } else { Ok(()) }
    }
}

impl std::error::Error for LoadError {}

/// A file that is loaded but not yet compiled.
struct Loaded {
    scope: ModuleScope,
    tree: Rc<Tree>,
    /// For each import: the module, or the error.
    imports: Vec<(Import, Result<usize, String>)>,
    /// Errors of the file itself (the message of the importer's error).
    broken: Option<String>,
    /// Names that the file mentions, computed on demand.
    mentioned: OnceCell<Names>,
}

impl Loaded {
    /// Returns whether the bindings that two imports define for one name are compatible. Importing a file brings in
    /// all its types, selected or not, so different types conflict only if this file mentions the name, or re-exports
    /// it by name.
    fn bears(&self, import: &Import, name: &str, known: &Binding, other: &Binding) -> bool {
        let is_type = |binding: &Binding| matches!(binding, Binding::Alias(_) | Binding::Interface(_));
        let mentions =
            || self.mentioned.get_or_init(|| Names::of(&self.tree, u32::MAX)).mentions_imported(name);
        let passes_on = import.is_pub && import.names.is_some();
        same_binding(known, other) || is_type(known) && is_type(other) && !passes_on && !mentions()
    }
}

struct Loader<'a> {
    vm: &'a Vm,
    sources: Sources<'a>,
    files: Vec<Loaded>,
    by_path: FxHashMap<PathBuf, usize>,
}

/// Loads a program and everything it imports.
///
/// # Errors
/// Syntax and compile errors of the entry file. Errors of imported files are runtime errors at the import.
pub fn load(vm: &Vm, source: &Source) -> Result<Program, LoadError> {
    let parsed = harn_syntax::parse(&source.text);
    if parsed.errors.is_empty() {
        load_tree(vm, source, Rc::new(parsed.program))
    } else {
        Err(LoadError::Syntax(parsed.errors))
    }
}

/// Like [`load`], for a program that is already parsed: `tree` is that of `source`.
///
/// # Errors
/// Compile errors of the entry file.
pub fn load_tree(vm: &Vm, source: &Source, tree: Rc<Tree>) -> Result<Program, LoadError> {
    let files = Through(&*vm.system);
    let mut loader = Loader::new(vm, &files);
    let path = files.canonical(Path::new(&source.name)).ok();
    loader.add(&source.name, &source.text, tree.clone(), &source.dir, path);
    loader.declare_all();
    let mut failures = loader.link_all();
    let mut compiled = loader.compile_all(&mut failures).map_err(LoadError::Compile)?;
    let mut steps = Vec::new();
    let mut done = vec![false; loader.files.len()];
    loader.order(0, &mut done, &failures, &compiled, &mut steps);
    let entry = compiled[0].take();
    let exports = loader.exports(0, &mut Vec::new());
    let pipelines = entry.map(|c| c.pipelines).unwrap_or_default();
    let file = loader.files[0].scope.id;
    Ok(Program { vm: vm.id.clone(), steps, pipelines, exports, types: vm.types.clone(), file, tree })
}

impl<'a> Loader<'a> {
    fn new(vm: &'a Vm, files: &'a dyn Files) -> Loader<'a> {
        let sources = Sources::new(files, vm.std_modules);
        Loader { vm, sources, files: Vec::new(), by_path: FxHashMap::default() }
    }

    fn add(&mut self, name: &str, text: &str, tree: Rc<Tree>, dir: &Path, path: Option<PathBuf>) -> usize {
        let id = self.vm.new_module(name, text);
        let index = self.files.len();
        if let Some(path) = path {
            self.by_path.insert(path, index);
        }
        let imports: Vec<Import> = tree.imports().cloned().collect();
        let scope = ModuleScope {
            id,
            source: id,
            file: name.into(),
            names: FxHashMap::default(),
            has_pipelines: false,
        };
        self.files.push(Loaded {
            scope,
            tree,
            imports: Vec::new(),
            broken: None,
            mentioned: OnceCell::new(),
        });
        for import in imports {
            let target = self.import(&import.path, dir);
            self.files[index].imports.push((import, target));
        }
        index
    }

    /// Resolves and loads the file of an import; returns the number of the module, which may be loaded already.
    fn import(&mut self, path: &str, dir: &Path) -> Result<usize, String> {
        let target = self.sources.resolve(path, dir).map_err(|error| error.to_string())?;
        let key = target.key(self.sources.files());
        if let Some(&known) = self.by_path.get(&key) {
            return Ok(known);
        }
        let unit = self.sources.load(&target)?;
        let (name, text) = (unit.file.name(), unit.file.text());
        if let Some(error) = unit.errors.first() {
            let canonical = error.canonical(text);
            let lexical =
                canonical.starts_with("Unterminated") || canonical.starts_with("Unexpected character");
            let stage = if lexical { "lex" } else { "parse" };
            return Err(match target {
                Target::Std(_) => format!("Import {stage} error in {name}: {canonical}"),
                Target::File(_) => format!("Import {stage} error: {canonical} in {name}"),
            });
        }
        Ok(self.add(name, text, unit.tree.clone(), &unit.dir, Some(key)))
    }

    fn declare_all(&mut self) {
        for file in &mut self.files {
            compile::declare(self.vm, &file.tree, &mut file.scope, false);
        }
    }

    /// Adds imported names to every file. Returns the errors, by file and import.
    fn link_all(&mut self) -> FxHashMap<(usize, usize), String> {
        let mut failures = FxHashMap::default();
        let mut additions: Vec<(usize, Vec<(Name, Binding)>)> = Vec::new();
        for (index, file) in self.files.iter().enumerate() {
            let mut brought: Vec<(Name, Binding, String)> = Vec::new();
            for (number, (import, target)) in file.imports.iter().enumerate() {
                let outcome = match target {
                    Err(text) => Err(text.clone()),
                    // A file that imports itself adds no names.
                    Ok(module) if *module == index => Ok(()),
                    Ok(module) => self.bring(file, *module, import, &mut brought),
                };
                if let Err(text) = outcome {
                    failures.insert((index, number), text);
                }
            }
            additions.push((index, brought.into_iter().map(|(n, b, _)| (n, b)).collect()));
        }
        for (index, names) in additions {
            for (name, binding) in names {
                self.files[index].scope.names.entry(name).or_insert(binding);
            }
        }
        self.files.iter().for_each(|file| file.scope.know_types(self.vm));
        failures
    }

    fn bring(
        &self,
        file: &Loaded,
        module: usize,
        import: &Import,
        brought: &mut Vec<(Name, Binding, String)>,
    ) -> Result<(), String> {
        let path = import.path.to_string();
        let names: Vec<(Name, Binding)> = match &import.names {
            None => self.exports(module, &mut Vec::new()),
            Some(wanted) => {
                let exported = self.exports(module, &mut Vec::new());
                let mut out = Vec::new();
                for name in wanted {
                    if harn_front::is_hidden(&self.files[module].tree, &name.name)
                        && !exported.iter().any(|(n, _)| *n == name.name)
                    {
                        return Err(format!(
                            "Import error: '{}' is not public in {path}: mark it `pub` there",
                            name.name
                        ));
                    }
                    let own = self.files[module]
                        .scope
                        .names
                        .get(&name.name)
                        .filter(|b| self.may_select(module, &name.name, b));
                    let before = out.len();
                    match own {
                        Some(binding) => out.push((name.name.clone(), binding.clone())),
                        None => out.extend(exported.iter().filter(|(n, _)| *n == name.name).cloned()),
                    }
                    if out.len() == before {
                        let name = &name.name;
                        return Err(if import.is_pub {
                            format!("Re-export error: '{name}' is not exported by '{path}'")
                        } else {
                            format!("Import error: '{name}' is not defined in {path}")
                        });
                    }
                }
                out
            }
        };
        for (name, binding) in names {
            if file.scope.names.contains_key(&name) {
                if import.is_pub {
                    return Err(format!(
                        "Re-export collision: '{name}' is defined here and also re-exported from '{path}'"
                    ));
                }
                if matches!(binding, Binding::Alias(_) | Binding::Interface(_) | Binding::Pipeline) {
                    continue;
                }
                return Err(format!(
                    "Cannot redeclare immutable variable '{name}' in the same scope (use 'var' for mutable bindings)"
                ));
            }
            match brought.iter().find(|(n, _, _)| *n == name) {
                Some((_, known, _)) if file.bears(import, &name, known, &binding) => {}
                Some(_) => {
                    return Err(format!(
                        "Import collision: '{name}' is already defined when importing {path}. Use selective imports to disambiguate: import {{ {name} }} from \"...\""
                    ));
                }
                None => brought.push((name, binding, path.clone())),
            }
        }
        Ok(())
    }

    /// Returns whether a selective import may name this top-level name of a module.
    fn may_select(&self, module: usize, name: &Name, binding: &Binding) -> bool {
        match binding {
            Binding::Global { .. } => self.is_declaration(module, name),
            _ => true,
        }
    }

    /// Returns whether a global of a module comes from a `tool`, `skill` or `eval_pack` declaration.
    fn is_declaration(&self, module: usize, name: &Name) -> bool {
        self.files[module].tree.items.iter().any(|item| match &item.kind {
            StmtKind::Decl(d) => {
                matches!(d.kind, DeclKind::Tool(_) | DeclKind::Skill(_) | DeclKind::EvalPack(_))
                    && d.kind.name().name == *name
            }
            _ => false,
        })
    }

    /// Returns the names that a module exports, including re-exports.
    fn exports(&self, module: usize, visiting: &mut Vec<usize>) -> Vec<(Name, Binding)> {
        if visiting.contains(&module) {
            return Vec::new();
        }
        visiting.push(module);
        let file = &self.files[module];
        let mut out: Vec<(Name, Binding)> = Vec::new();
        for (import, target) in &file.imports {
            let (true, Ok(target)) = (import.is_pub, target) else { continue };
            let names = self.exports(*target, visiting);
            for (name, binding) in names {
                if import.names.as_ref().is_some_and(|wanted| !wanted.iter().any(|w| w.name == name)) {
                    continue;
                }
                // A duplicate name is an error in the file that imports both, or in the one that imports the name.
                if !out.iter().any(|(n, known)| *n == name && same_binding(known, &binding)) {
                    out.push((name, binding));
                }
            }
        }
        for decl in harn_front::exports(&file.tree) {
            let name = &decl.kind.name().name;
            if let Some(binding) = file.scope.names.get(name) {
                out.push((name.clone(), binding.clone()));
            }
        }
        visiting.pop();
        out
    }

    fn compile_all(
        &mut self,
        failures: &mut FxHashMap<(usize, usize), String>,
    ) -> Result<Vec<Option<CompiledModule>>, Vec<CompileError>> {
        let mut out = Vec::new();
        let mut broken = Vec::new();
        for (index, file) in self.files.iter().enumerate() {
            let mode = if index == 0 { Mode::Entry } else { Mode::Imported };
            let pipelines = self.pipelines_of(index);
            let is_whole = file.imports.iter().all(|(_, target)| target.is_ok());
            match compile::compile(self.vm, &file.tree, &file.scope, &pipelines, mode, is_whole) {
                Ok(compiled) => out.push(Some(compiled)),
                Err(errors) if index == 0 => return Err(errors),
                Err(errors) => {
                    let first = errors.into_iter().next();
                    let text = first.map_or_else(String::new, |e| {
                        let source =
                            self.vm.source(file.scope.source).map(|(_, s)| s).unwrap_or_else(|| "".into());
                        let (line, _) = harn_syntax::source_map::line_column(&source, e.span.start);
                        format!("Import compile error: Compile error at line {line}: {}", e.text)
                    });
                    broken.push((index, text));
                    out.push(None);
                }
            }
        }
        for (index, text) in broken {
            self.files[index].broken = Some(text);
        }
        for (index, file) in self.files.iter().enumerate() {
            for (number, (_, target)) in file.imports.iter().enumerate() {
                if let Ok(target) = target
                    && let Some(text) = &self.files[*target].broken
                {
                    failures.insert((index, number), text.clone());
                }
            }
        }
        Ok(out)
    }

    /// Returns the pipelines that those of a file may extend: its own and imported ones.
    fn pipelines_of(&self, index: usize) -> Pipelines<'_> {
        let mut out: Pipelines<'_> = FxHashMap::default();
        let file = &self.files[index];
        let imported = file.imports.iter().filter_map(|(_, t)| t.as_ref().ok());
        for module in imported.copied().chain([index]) {
            let source = &self.files[module];
            for (_, pipeline) in source.tree.pipelines() {
                out.insert(pipeline.name.name.clone(), (pipeline, &source.scope));
            }
        }
        out
    }

    /// Appends the steps of a file: its imports first, then its own top level.
    fn order(
        &self,
        index: usize,
        done: &mut [bool],
        failures: &FxHashMap<(usize, usize), String>,
        compiled: &[Option<CompiledModule>],
        steps: &mut Vec<Step>,
    ) {
        if std::mem::replace(&mut done[index], true) {
            return;
        }
        let file = &self.files[index];
        for (number, (import, target)) in file.imports.iter().enumerate() {
            if let Ok(target) = target {
                self.order(*target, done, failures, compiled, steps);
            }
            if let Some(text) = failures.get(&(index, number)) {
                steps.push(Step::Fail {
                    text: text.clone(),
                    module: file.scope.source,
                    span: import.path_span,
                });
                return;
            }
        }
        if let Some(compiled) = &compiled[index] {
            steps.push(Step::Run(compiled.main.clone()));
        }
    }
}

fn same_binding(a: &Binding, b: &Binding) -> bool {
    match (a, b) {
        (Binding::Function { index: x, .. }, Binding::Function { index: y, .. }) => x == y,
        (Binding::Global { module: m, index: x, .. }, Binding::Global { module: n, index: y, .. }) => {
            (m, x) == (n, y)
        }
        (Binding::Struct(x, _), Binding::Struct(y, _)) => harn_value::Ref::same(x, y),
        (Binding::Enum(x), Binding::Enum(y)) => harn_value::Ref::same(x, y),
        (Binding::Alias(x), Binding::Alias(y)) => Rc::ptr_eq(x, y),
        // A file declares a name only once.
        (Binding::Interface(x), Binding::Interface(y)) => x == y,
        (Binding::Pipeline, Binding::Pipeline) => true,
        _ => false,
    }
}

/// Loads the imports in `text`, a REPL input, and adds the names to `scope`.
///
/// # Errors
/// As for [`load`].
pub(crate) fn load_imports(vm: &Vm, text: &str, scope: &mut ModuleScope) -> Result<Vec<Step>, LoadError> {
    let dir = vm.system.work_dir();
    let source = Source { name: "<repl imports>".to_owned(), text: text.to_owned(), dir };
    let parsed = harn_syntax::parse(&source.text);
    let files = Through(&*vm.system);
    let mut loader = Loader::new(vm, &files);
    loader.add(&source.name, &source.text, Rc::new(parsed.program), &source.dir, None);
    loader.declare_all();
    let mut failures = loader.link_all();
    let compiled = loader.compile_all(&mut failures).map_err(LoadError::Compile)?;
    let mut steps = Vec::new();
    let mut done = vec![false; loader.files.len()];
    loader.order(0, &mut done, &failures, &compiled, &mut steps);
    let file = loader.files.swap_remove(0);
    scope.names.extend(file.scope.names);
    scope.know_types(vm);
    Ok(steps)
}
