//! What the checker is told about everything outside of the file it looks at.

use std::path::Path;

use harn_front::Through;
use harn_syntax::ast::Program;
use harn_syntax::signature::{GivenOption, OptionProblem, Signature};

/// The names that exist without declaration.
pub trait Signatures {
    /// Whether `name` is a builtin function or a global such as `argv`.
    fn is_builtin(&self, name: &str) -> bool;

    /// All such names, for suggestions. Called only after something is wrong.
    fn builtin_names(&self) -> Vec<&str>;

    /// What is known of calls of a builtin.
    fn builtin(&self, _name: &str) -> Option<Signature> {
        None
    }

    /// What is known of calls of a method of values of a type.
    fn method(&self, _type_name: &'static str, _name: &str) -> Option<Signature> {
        None
    }

    /// What is wrong with the options of a model call or a loop, or with a dict that a builtin reads by itself; `set` is the type
    /// of the parameter. Of options inside of another dict, `builtin` says the place as well. `complete` says that nothing is given besides these, and all values are known.
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

    /// What is wrong with a regular expression with these flags, if anything is.
    fn wrong_pattern(&self, _pattern: &str, _flags: &str) -> Option<String> {
        None
    }

    /// The methods of values of a type, for suggestions.
    fn method_names(&self, _type_name: &'static str) -> Vec<&str> {
        Vec::new()
    }
}

/// The surroundings of a check: names of builtins, and what is embedded.
#[derive(Clone, Copy)]
pub struct World<'a> {
    /// Names of builtins and globals.
    pub signatures: &'a dyn Signatures,
    /// The system that imports, templates and manifests are read from.
    pub files: Through<'a>,
    /// The source of `std/<name>`.
    pub std_module: fn(&str) -> Option<&'static str>,
    /// The text of an embedded prompt, by its path behind `std/`.
    pub prompt_asset: fn(&str) -> Option<&'static str>,
}

/// The file that is checked.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// Its name as shown in diagnostics.
    pub name: &'a str,
    /// The folder that its imports and templates start from; empty for the current one.
    pub dir: &'a Path,
    /// Its text.
    pub text: &'a str,
    /// The tree of that text, parsed without errors.
    pub tree: &'a Program,
}
