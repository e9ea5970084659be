//! The modules of the standard library, documented from their sources: the exports of each, with their doc comments.

use std::fmt::Write;

use harn_runtime::{std_module, std_module_names};
use harn_syntax::ast::{Decl, DeclKind, Import, StmtKind};
use harn_syntax::{Span, doc};
use harn_vm::suggest;

/// A module and its exports, in source order.
pub(super) struct Module {
    /// The import path, such as `std/math`.
    path: String,
    /// The doc comment of the module.
    doc: String,
    exports: Vec<Export>,
}

/// An exported declaration.
struct Export {
    name: String,
    /// The declaration without its body.
    head: String,
    doc: String,
}

/// Returns the modules that programs import. Modules in subdirectories are internal parts of these.
pub(super) fn public() -> Vec<Module> {
    std_module_names().into_iter().filter(|name| !name.contains('/')).filter_map(read).collect()
}

/// Returns the documentation of a module for a terminal.
///
/// # Errors
/// The module is unknown; the message suggests the nearest one.
pub(super) fn describe(path: &str) -> Result<String, String> {
    let found = read(path).ok_or_else(|| {
        let names: Vec<String> = std_module_names().iter().map(|name| format!("std/{name}")).collect();
        let hint = suggest::hint(path, names.iter().map(String::as_str));
        format!("unknown module `{path}`{hint}")
    })?;
    let mut out = format!("{}    module\n\n{}\n", found.path, found.doc);
    for export in &found.exports {
        let _ = write!(out, "\n{}\n", export.head);
        for line in export.doc.lines() {
            let _ = writeln!(out, "    {line}");
        }
    }
    Ok(out)
}

impl Module {
    /// Returns the import path.
    pub(super) fn path(&self) -> String {
        self.path.clone()
    }

    /// Returns the page of the module in the reference: file name and content.
    pub(super) fn page(&self) -> (String, String) {
        let first = self.exports.first().map_or("...", |export| export.name.as_str());
        let mut page = format!(
            "# Module {0}\n\n{1}\n\n```harn part\nimport {{ {first} }} from \"{0}\"\n```\n",
            self.path, self.doc
        );
        for export in &self.exports {
            let _ = write!(
                page,
                "\n## {}\n\n```harn part\n{}\n```\n\n{}\n",
                export.name, export.head, export.doc
            );
        }
        (self.file(), page)
    }

    /// Returns the line of the module in the index of the reference.
    pub(super) fn line(&self) -> String {
        let names: Vec<String> = self.exports.iter().map(|export| format!("`{}`", export.name)).collect();
        format!("- [{}]({}): {}\n", self.path, self.file(), names.join(", "))
    }

    fn file(&self) -> String {
        format!("{}.md", self.path.replace('/', "-"))
    }
}

fn read(path: &str) -> Option<Module> {
    let name = path.strip_prefix("std/").unwrap_or(path);
    let source = std_module(name)?;
    let program = harn_syntax::parse(source).program;
    let mut exports = Vec::new();
    for item in &program.items {
        match &item.kind {
            StmtKind::Decl(decl) if decl.is_pub => exports.push(export(source, decl)),
            StmtKind::Import(import) if import.is_pub => exports.extend(passed_on(import)),
            _ => {}
        }
    }
    Some(Module { path: format!("std/{name}"), doc: doc::head_comment(source), exports })
}

/// Returns the declarations that a `pub import` re-exports, with the documentation of their module.
fn passed_on(import: &Import) -> Vec<Export> {
    let known = read(&import.path).map_or_else(Vec::new, |module| module.exports);
    let wanted = |export: &Export| {
        import.names.as_ref().is_none_or(|names| names.iter().any(|n| n.name == export.name))
    };
    known.into_iter().filter(wanted).collect()
}

fn export(source: &str, decl: &Decl) -> Export {
    let start = decl.attrs.last().map_or(decl.span.start, |attr| attr.span.end);
    let end = match &decl.kind {
        DeclKind::Fn(function) => function.func.body.span.start,
        DeclKind::Tool(tool) => tool.func.body.span.start,
        DeclKind::Pipeline(pipeline) => pipeline.func.body.span.start,
        _ => decl.span.end,
    };
    let head = Span::new(start, end).slice(source).trim();
    Export {
        name: decl.kind.name().name.to_string(),
        head: head.strip_prefix("pub ").unwrap_or(head).to_owned(),
        doc: doc::comment_above(source, decl.span.start as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_a_module_exports_is_told() {
        for module in public() {
            assert!(!module.doc.is_empty(), "{} does not say what it is for", module.path);
            assert!(!module.exports.is_empty(), "{} exports nothing", module.path);
            for export in &module.exports {
                assert!(!export.doc.is_empty(), "{}: {} has no comment", module.path, export.name);
            }
        }
    }

    #[test]
    fn names_that_are_passed_on_are_told_by_their_module() {
        let text = describe("std/agents").expect("a module");
        assert!(text.contains("fn action_graph("), "{text}");
        let error = describe("std/mth").expect_err("no module");
        assert_eq!(error, "unknown module `std/mth` (did you mean `std/math`?)");
    }
}
