//! The interface of the checker to everything outside of the file.

use std::path::Path;

use harn_front::Through;
use harn_syntax::ast::Program;
use harn_syntax::signature::{GivenOption, OptionProblem, Record, Signature};

/// Names that need no declaration.
pub trait Signatures {
    /// Whether `name` is a builtin function or a global such as `argv`.
    fn is_builtin(&self, name: &str) -> bool;

    /// All such names, for suggestions. Called only after a mistake was found.
    fn builtin_names(&self) -> Vec<&str>;

    /// Returns the signature of a builtin.
    fn builtin(&self, _name: &str) -> Option<Signature> {
        None
    }

    /// Returns the signature of a method of a type.
    fn method(&self, _type_name: &'static str, _name: &str) -> Option<Signature> {
        None
    }

    /// Checks the options of a model call or a loop, or a dict with keys that a builtin defines; `set` is the type of
    /// the parameter. For options in another dict, `builtin` includes the place. `complete`: there are no other
    /// options, and all values are known. For `tool_define`, `parameter` is the name of the tool.
    fn wrong_options(
        &self,
        _builtin: &str,
        _parameter: &str,
        _set: &str,
        _given: &[GivenOption],
        _complete: bool,
    ) -> Vec<OptionProblem> {
        Vec::new()
    }

    /// Returns the fields of the dict that a builtin returns, where they are known.
    fn record(&self, _builtin: &str) -> Option<&'static Record> {
        None
    }

    /// Returns why a regular expression with these flags is invalid, if it is.
    fn wrong_pattern(&self, _pattern: &str, _flags: &str) -> Option<String> {
        None
    }

    /// The methods of values of a type, for suggestions.
    fn method_names(&self, _type_name: &'static str) -> Vec<&str> {
        Vec::new()
    }
}

/// The environment of a check: builtins and embedded sources.
#[derive(Clone, Copy)]
pub struct World<'a> {
    /// Names of builtins and globals.
    pub signatures: &'a dyn Signatures,
    /// The system that imports, templates and manifests are read from.
    pub files: Through<'a>,
    /// The source of `std/<name>`.
    pub std_module: fn(&str) -> Option<&'static str>,
    /// Returns an embedded prompt by its path after `std/`.
    pub prompt_asset: fn(&str) -> Option<&'static str>,
}

/// The file that is checked.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// Its name as shown in diagnostics.
    pub name: &'a str,
    /// The directory that imports and templates are relative to; empty for the current one.
    pub dir: &'a Path,
    /// The source.
    pub text: &'a str,
    /// The tree of the source, parsed without errors.
    pub tree: &'a Program,
}
