//! The VM as the host of the language server.

use std::path::Path;
use std::rc::Rc;

use harn_check::{Quiet, Settings, World};
use harn_fmt::{LINE_WIDTH, Options, SEPARATOR_WIDTH};
use harn_lsp::{Host, OptionKey, Word};
use harn_syntax::Diagnostic;
use harn_syntax::signature::{CALL_OPTIONS, LOOP_OPTIONS, WORKFLOW_OPTIONS};
use harn_system::{Real, System};
use harn_vm::builtin::OptionField;
use harn_vm::{Builtin, Vm};

use crate::keywords::{KEYWORDS, Keyword};
use crate::program::{self, Names, Program};
use crate::report::Problem;

/// A VM that is only queried and runs no program.
pub(crate) struct MachineHost {
    vm: Rc<Vm>,
    names: Names<'static>,
    real: Real,
}

impl MachineHost {
    pub(crate) fn new() -> MachineHost {
        let vm = program::bare_vm();
        // The names live as long as the process, like the server.
        let kept: &'static Vm = Box::leak(Box::new(vm.clone()));
        MachineHost { vm, names: Names(kept), real: Real::new() }
    }
}

fn word(builtin: &Builtin) -> Word {
    // The receiver of a method is written before the dot.
    let own = || builtin.params.iter().filter(|param| param.name != "this");
    let form = builtin.signature();
    let form = match builtin.params.first().filter(|param| param.name == "this") {
        Some(_) => {
            let (name, rest) = form.split_once('(').unwrap_or((&form, ""));
            let behind = rest
                .find(", ")
                .filter(|at| !rest[..*at].contains(')'))
                .map_or_else(|| rest.find(')').map_or("", |at| &rest[at..]), |at| &rest[at + 2..]);
            format!("{name}({behind}")
        }
        None => form,
    };
    Word {
        name: builtin.name().to_owned(),
        form,
        params: own()
            .map(|param| {
                let dots = if param.rest { "..." } else { "" };
                let mark = if param.optional && param.default.is_none() && !param.rest { "?" } else { "" };
                let default = param.default.map_or(String::new(), |value| format!(" = {value}"));
                format!("{dots}{}{mark}: {}{default}", param.name, param.ty.trim_end_matches('?'))
            })
            .collect(),
        doc: builtin.doc_text(),
    }
}

fn keyword(keyword: &Keyword) -> Word {
    Word {
        name: keyword.name.to_owned(),
        form: keyword.form.to_owned(),
        params: Vec::new(),
        doc: keyword.text.to_owned(),
    }
}

/// Returns the findings about this file. Findings about other files are shown there.
fn own(problems: Vec<Problem>, path: &Path) -> Vec<Diagnostic> {
    let is_own = |problem: &Problem| problem.file.as_ref().is_none_or(|file| Path::new(file.name()) == path);
    problems.into_iter().filter(is_own).map(|problem| problem.diagnostic).collect()
}

impl Host for MachineHost {
    fn system(&self) -> &dyn System {
        &self.real
    }

    fn world<'a>(&'a self, system: &'a dyn System) -> World<'a> {
        program::world(&self.names, system)
    }

    fn check(&self, path: &Path, text: &str, system: &dyn System) -> Vec<Diagnostic> {
        let program = Program::of(path, text.to_owned());
        let settings = Settings::find(system, program.dir()).0;
        let mut found = own(program.check_on(&self.vm, &settings, system, &Quiet::default()), path);
        found.sort_by_key(|found| found.span.map_or(0, |span| span.start));
        found.dedup();
        found
    }

    fn check_template(&self, path: &Path, text: &str, system: &dyn System) -> Vec<Diagnostic> {
        let settings = Settings::find(system, path.parent().unwrap_or(Path::new(""))).0;
        harn_check::lint_template_file(path, text, &settings)
    }

    fn format_options(&self, path: &Path, system: &dyn System) -> Options {
        let settings = Settings::find(system, path.parent().unwrap_or(Path::new(""))).0;
        Options {
            line_width: settings.line_width.unwrap_or(LINE_WIDTH),
            separator_width: settings.separator_width.unwrap_or(SEPARATOR_WIDTH),
        }
    }

    fn builtin(&self, name: &str) -> Option<Word> {
        let global = || {
            self.vm.global(name).map(|value| Word {
                name: name.to_owned(),
                form: format!("{name}: {}", value.type_name()),
                params: Vec::new(),
                doc: "A value that every program finds.".to_owned(),
            })
        };
        self.vm.builtin(name).map(word).or_else(global)
    }

    fn builtin_names(&self) -> Vec<String> {
        self.vm.builtin_names().map(str::to_owned).chain(self.vm.global_names()).collect()
    }

    fn method(&self, type_name: &str, name: &str) -> Option<Word> {
        let mut tables = self.vm.method_tables().iter().filter(|table| table.type_name == type_name);
        tables.find_map(|table| table.methods.iter().find(|method| method.name() == name)).map(word)
    }

    fn methods(&self) -> Vec<(String, Vec<String>)> {
        let tables = self.vm.method_tables().iter();
        let names =
            |table: &harn_vm::MethodTable| table.methods.iter().map(|m| m.name().to_owned()).collect();
        tables.map(|table| (table.type_name.to_owned(), names(table))).collect()
    }

    fn keywords(&self) -> Vec<Word> {
        KEYWORDS.iter().map(keyword).collect()
    }

    fn modules(&self) -> Vec<String> {
        harn_runtime::std_module_names().iter().map(|name| format!("std/{name}")).collect()
    }

    fn options(&self, builtin: &str, param: usize) -> Vec<OptionKey> {
        let Some(entry) = self.vm.builtin(builtin) else { return Vec::new() };
        let Some(param) = entry.params.get(param) else { return Vec::new() };
        let key = |option: &OptionField| OptionKey {
            name: option.name.to_owned(),
            ty: Some(option.ty.trim_end_matches('?').to_owned()),
            doc: option.doc.to_owned(),
        };
        // The options of model calls and loops are sets with a name.
        let (own, calls) = match param.ty.trim_start_matches('!').trim_end_matches('?') {
            LOOP_OPTIONS => (harn_runtime::loop_options(), harn_runtime::call_options()),
            CALL_OPTIONS => (&[][..], harn_runtime::call_options()),
            WORKFLOW_OPTIONS => return harn_runtime::workflow_options().map(key).collect(),
            ty if param.options.is_empty() => return shape_keys(ty).into_iter().map(named).collect(),
            _ => return param.options.iter().map(key).collect(),
        };
        let mut options: Vec<OptionKey> = own.iter().chain(calls).map(key).collect();
        options.extend(harn_runtime::own_options(builtin).into_iter().map(named));
        options.sort_by(|a, b| a.name.cmp(&b.name));
        options.dedup_by(|a, b| a.name == b.name);
        options
    }
}

/// Returns an option of which only the name is known.
fn named(name: impl Into<String>) -> OptionKey {
    OptionKey { name: name.into(), ..OptionKey::default() }
}

/// Returns the keys of a type such as `{width?: int, height?: int}`.
fn shape_keys(ty: &str) -> Vec<String> {
    let Some(start) = ty.find('{') else { return Vec::new() };
    let mut keys = Vec::new();
    let mut depth = 0usize;
    let mut piece = String::new();
    for c in ty[start..].chars() {
        match c {
            // The head of an arrow.
            '>' if piece.ends_with('-') => {}
            '{' | '(' | '<' | '[' => depth += 1,
            '}' | ')' | '>' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match c {
            '{' if depth == 1 => {}
            ',' if depth == 1 => keys.push(std::mem::take(&mut piece)),
            _ if depth == 0 => break,
            c => piece.push(c),
        }
    }
    keys.push(piece);
    let key =
        |piece: String| piece.split_once(':').map(|(key, _)| key.trim().trim_end_matches('?').to_owned());
    keys.into_iter().filter_map(key).filter(|key| !key.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_shapes() {
        assert_eq!(
            shape_keys("{width?: int, on: fn(int, int) -> {a: int}, z?: {b: int}}?"),
            ["width", "on", "z"]
        );
        assert_eq!(shape_keys("dict"), Vec::<String>::new());
    }

    #[test]
    fn methods_are_shown_without_their_receiver() {
        let host = MachineHost::new();
        let word = host.method("list", "map").expect("list.map");
        assert!(!word.form.contains("this") && word.form.starts_with("map("), "{}", word.form);
        let word = host.method("string", "trim").expect("string.trim");
        assert!(word.form.starts_with("trim()"), "{}", word.form);
    }

    #[test]
    fn options_of_model_calls_are_known() {
        let host = MachineHost::new();
        let param = host.builtin("llm_call").expect("llm_call").params.len() - 1;
        assert!(host.options("llm_call", param).iter().any(|option| option.name == "model"));
    }
}
