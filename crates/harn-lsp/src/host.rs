//! The interface between the server and the virtual machine.

use std::path::Path;

use harn_check::World;
use harn_fmt::Options;
use harn_syntax::Diagnostic;
use harn_system::System;

/// Documentation of a builtin, a method or a keyword.
#[derive(Clone, Debug)]
pub struct Word {
    /// Its name.
    pub name: String,
    /// The signature or syntax.
    pub form: String,
    /// The parameters, as in the signature.
    pub params: Vec<String>,
    /// The description, as Markdown.
    pub doc: String,
}

/// An option of a dict that a builtin takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionKey {
    /// Its name.
    pub name: String,
    /// Its type, if known.
    pub ty: Option<String>,
    /// The description, as Markdown; may be empty.
    pub doc: String,
}

/// The environment that the server runs in.
pub trait Host {
    /// Returns the file system.
    fn system(&self) -> &dyn System;

    /// Returns the settings of the checker, with the files of `system`.
    fn world<'a>(&'a self, system: &'a dyn System) -> World<'a>;

    /// Returns the diagnostics of `harn check` and `harn lint` for a program, without those of other files.
    fn check(&self, path: &Path, text: &str, system: &dyn System) -> Vec<Diagnostic>;

    /// Returns the findings of `harn lint` for a template.
    fn check_template(&self, path: &Path, text: &str, system: &dyn System) -> Vec<Diagnostic>;

    /// Returns the formatting options of a directory.
    fn format_options(&self, path: &Path, system: &dyn System) -> Options;

    /// Returns the documentation of a builtin.
    fn builtin(&self, name: &str) -> Option<Word>;

    /// Returns the names of all builtins and globals.
    fn builtin_names(&self) -> Vec<String>;

    /// Returns the documentation of a method of values of a type.
    fn method(&self, type_name: &str, name: &str) -> Option<Word>;

    /// Returns the types that have methods, with the method names.
    fn methods(&self) -> Vec<(String, Vec<String>)>;

    /// Returns the keywords.
    fn keywords(&self) -> Vec<Word>;

    /// Returns the embedded modules, as imports name them.
    fn modules(&self) -> Vec<String>;

    /// Returns the options of the dict in parameter `param` of a builtin.
    fn options(&self, builtin: &str, param: usize) -> Vec<OptionKey>;
}
