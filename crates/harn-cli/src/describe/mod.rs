//! Documentation of a name: a builtin, a method of a value type, a module or a keyword. All of it comes from the tables
//! that the VM uses and from the sources of modules, except for keywords, which are documented in `keywords.rs`.

mod modules;

use std::collections::BTreeMap;
use std::fmt::Write;

use harn_syntax::shapes::SHAPES;
use harn_syntax::signature::{self, CALL_OPTIONS, LOOP_OPTIONS, WORKFLOW_OPTIONS};
use harn_vm::builtin::OptionField;
use harn_vm::{Builtin, Vm, suggest};

use crate::keywords::KEYWORDS;

/// Returns the documentation of a name for a terminal.
///
/// # Errors
/// The name is unknown; the message suggests the nearest one.
pub(crate) fn describe(vm: &Vm, name: &str) -> Result<String, String> {
    if name.starts_with("std/") {
        return modules::describe(name);
    }
    let mut found = Vec::new();
    if let Some(code) = harn_check::CODES.iter().find(|entry| entry.code.eq_ignore_ascii_case(name)) {
        let mut text = format!("{}    finding\n\n{}\n\n{}\n", code.code, code.doc, code.fix);
        if let Some(example) = harn_check::example(code.code) {
            let _ = write!(text, "\nFound in {}:\n\n{}", example.file, indented(example.wrong));
            let _ = write!(text, "\nMended:\n\n{}", indented(example.right));
        }
        found.push(text);
    }
    if let Some(keyword) = KEYWORDS.iter().find(|k| k.name == name) {
        found.push(format!("{}    keyword\n\n{}\n", keyword.form, keyword.text));
    }
    if let Some(builtin) = vm.builtin(name) {
        found.push(builtin_text(builtin, builtin.name(), builtin.topic));
    }
    let (wanted_type, method) = name.split_once('.').map_or((None, name), |(ty, method)| (Some(ty), method));
    for (type_name, methods) in methods_by_type(vm) {
        if wanted_type.is_none_or(|wanted| wanted == type_name)
            && let Some(entry) = methods.get(method)
        {
            found.push(builtin_text(entry, &format!("{type_name}.{method}"), "method"));
        }
    }
    if found.is_empty() {
        let methods = methods_by_type(vm);
        let qualified: Vec<String> = methods
            .iter()
            .flat_map(|(ty, names)| names.keys().map(move |name| format!("{ty}.{name}")))
            .collect();
        let mut names: Vec<&str> = vm.builtin_names().collect();
        names.extend(KEYWORDS.iter().map(|k| k.name));
        names.extend(harn_check::CODES.iter().map(|entry| entry.code));
        if wanted_type.is_some() {
            names.extend(qualified.iter().map(String::as_str));
        } else {
            names.extend(methods.values().flat_map(|of_type| of_type.keys().copied()));
        }
        let hint = suggest::hint(name, names.into_iter());
        return Err(format!("unknown name `{name}`{hint}; `harn explain` lists all names"));
    }
    Ok(found.join("\n"))
}

/// Indents a program by four spaces.
fn indented(program: &str) -> String {
    program.lines().map(|line| format!("    {line}\n")).collect()
}

/// Lists all names by topic.
pub(crate) fn overview(vm: &Vm) -> String {
    let mut out = String::from(
        "`harn explain NAME` describes a builtin, `harn explain list.map` a method,\n`harn explain std/math` a module.\n",
    );
    let mut section = |title: &str, names: Vec<&str>| {
        let _ = write!(out, "\n{title}\n{}", columns(&names));
    };
    for (topic, builtins) in builtins_by_topic(vm) {
        section(topic, builtins.iter().map(|b| b.name()).collect());
    }
    for (type_name, methods) in methods_by_type(vm) {
        section(&format!("methods of {type_name}"), methods.keys().copied().collect());
    }
    let modules: Vec<String> = modules::public().iter().map(modules::Module::path).collect();
    section("modules", modules.iter().map(String::as_str).collect());
    section("keywords", KEYWORDS.iter().map(|k| k.name).collect());
    out
}

/// Returns the pages of the reference: file name and content.
pub(crate) fn reference(vm: &Vm) -> Vec<(String, String)> {
    let mut pages = Vec::new();
    let mut index = String::from(
        "# Reference\n\nEvery builtin, method, module and keyword. These pages are generated from the tables in the \
         binary (`make docs`);\n`harn explain NAME` prints the same on a terminal.\n\n## Builtins\n\n",
    );
    for (topic, builtins) in builtins_by_topic(vm) {
        let file = format!("{}.md", topic.replace([' ', '/'], "-"));
        let names: Vec<String> = builtins.iter().map(|b| format!("`{}`", b.name())).collect();
        let _ = writeln!(index, "- [{topic}]({file}): {}", names.join(", "));
        let mut page = format!("# Builtins: {topic}\n");
        for builtin in builtins {
            let _ = write!(page, "\n## {}\n\n{}", builtin.name(), markdown(builtin));
        }
        pages.push((file, page));
    }
    index.push_str("\n## Options\n\n");
    for (title, file, options) in [
        ("Options of a model call", "options-llm_call.md", harn_runtime::call_options()),
        ("Options of a loop", "options-agent_loop.md", harn_runtime::loop_options()),
    ] {
        let _ = writeln!(index, "- [{title}]({file})");
        pages.push((file.to_owned(), format!("# {title}{}\n", option_table(options.iter().copied()))));
    }
    index.push_str("\n## Methods\n\n");
    for (type_name, methods) in methods_by_type(vm) {
        let file = format!("methods-{type_name}.md");
        let names: Vec<String> = methods.keys().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(index, "- [{type_name}]({file}): {}", names.join(", "));
        let mut page = format!("# Methods of {type_name}\n");
        for (name, method) in &methods {
            let _ = write!(page, "\n## {name}\n\n{}", markdown(method));
        }
        pages.push((file, page));
    }
    index.push_str("\n## Modules\n\nWhat `import { name } from \"std/...\"` brings.\n\n");
    for module in modules::public() {
        index.push_str(&module.line());
        pages.push(module.page());
    }
    index.push_str("\n## Keywords\n\n| Keyword | Form | Meaning |\n|---|---|---|\n");
    for keyword in KEYWORDS {
        let form = keyword.form.replace('|', "\\|");
        let _ = writeln!(index, "| `{}` | `{form}` | {} |", keyword.name, keyword.text.replace('\n', " "));
    }
    pages.push(("README.md".to_owned(), index));
    pages
}

/// Formats a builtin for a terminal.
fn builtin_text(builtin: &Builtin, name: &str, topic: &str) -> String {
    let signature = builtin.signature().replacen(builtin.name(), name, 1);
    let doc: String = builtin
        .doc_text()
        .lines()
        .filter(|line| !line.starts_with("```harn") || line.contains(' '))
        .map(|line| if line.starts_with("```") { "" } else { line })
        .fold(String::new(), |text, line| text + line + "\n");
    let own = harn_runtime::own_options(builtin.name()).join(", ");
    let own = if own.is_empty() { own } else { format!("\noptions of its own: {own}\n") };
    let options = option_set(builtin).map(|set| own + &options_text(set)).unwrap_or_default();
    let shapes: String = shapes(builtin).iter().map(|(name, shape)| format!("\n{name}: {shape}\n")).collect();
    let rows: String = self::options(builtin).map(|option| terminal_row(&option)).collect();
    let rows = if rows.is_empty() { rows } else { format!("\noptions\n{rows}") };
    format!(
        "{signature}    {topic}, {}\n\n{}\n{options}{rows}{shapes}",
        builtin.effect.word(),
        doc.trim_end()
    )
}

/// Returns the options of the parameters that are described by structs.
fn options(builtin: &Builtin) -> impl Iterator<Item = OptionField> {
    builtin.params.iter().flat_map(|param| param.options).copied()
}

/// Formats an option for a terminal.
fn terminal_row(option: &OptionField) -> String {
    let default = option.default.map(|default| format!(" = {default}")).unwrap_or_default();
    format!("  {}: {}{default}\n      {}\n", option.name, option.takes(), option.doc)
}

/// Formats a table of options for a page.
fn option_table(options: impl Iterator<Item = OptionField>) -> String {
    let cell = |text: &str| text.replace('|', "\\|");
    let mut table = String::new();
    for option in options {
        if table.is_empty() {
            table.push_str("\n\n| Option | Type | Default | Meaning |\n|---|---|---|---|\n");
        }
        let default =
            option.default.map_or_else(|| "none".to_owned(), |default| format!("`{}`", cell(default)));
        let ty = cell(option.ty.trim_end_matches('?'));
        let _ = writeln!(table, "| `{}` | `{ty}` | {default} | {} |", option.name, cell(option.doc));
    }
    table.trim_end().to_owned()
}

/// Returns the named dict types of the parameters, and the dict types nested in them.
fn shapes(builtin: &Builtin) -> Vec<(&'static str, &'static str)> {
    let mut found = Vec::new();
    let mut types: Vec<&str> = builtin.params.iter().map(|param| param.ty).collect();
    while let Some(ty) = types.pop() {
        for &(name, shape) in SHAPES {
            let is_part = ty.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name);
            if is_part && !found.contains(&(name, shape)) {
                found.push((name, shape));
                types.push(shape);
            }
        }
    }
    found
}

/// Returns the type of a parameter whose options are in the tables of model calls and loops.
fn option_set(builtin: &Builtin) -> Option<&'static str> {
    let types = builtin.params.iter().map(|param| param.ty.trim_start_matches('!').trim_end_matches('?'));
    types.into_iter().find(|ty| signature::is_option_set(ty))
}

/// The options of a set.
fn options_text(set: &str) -> String {
    let rows = |options: &[OptionField]| options.iter().map(terminal_row).collect::<String>();
    if set == WORKFLOW_OPTIONS {
        return harn_runtime::workflow_options()
            .map(terminal_row)
            .fold("\nworkflow_options\n".to_owned(), |text, row| text + &row);
    }
    let mut text = format!("\ncall_options\n{}", rows(harn_runtime::call_options()));
    if set == LOOP_OPTIONS {
        text = text + "\nloop_options, besides these\n" + &rows(harn_runtime::loop_options());
    }
    text
}

/// Formats a builtin for a page.
fn markdown(builtin: &Builtin) -> String {
    let options = match option_set(builtin) {
        Some(CALL_OPTIONS) => "\n\n[All options of a model call](options-llm_call.md)",
        Some(WORKFLOW_OPTIONS) => "\n\n[All options of a run](../agents/workflows.md)",
        Some(_) => {
            "\n\n[All options of a loop](options-agent_loop.md), and [those of its calls](options-llm_call.md)"
        }
        None => "",
    };
    let shapes: String =
        shapes(builtin).iter().map(|(name, shape)| format!("\n\n`{name}`: `{shape}`")).collect();
    let table = option_table(self::options(builtin));
    format!(
        "`{}` (effect: {}){options}{shapes}\n\n{}{table}\n",
        builtin.signature(),
        builtin.effect.word(),
        builtin.doc_text()
    )
}

fn builtins_by_topic(vm: &Vm) -> BTreeMap<&'static str, Vec<&'static Builtin>> {
    let mut topics: BTreeMap<&str, Vec<&Builtin>> = BTreeMap::new();
    for builtin in vm.builtins() {
        topics.entry(builtin.topic).or_default().push(builtin);
    }
    topics
}

fn methods_by_type(vm: &Vm) -> BTreeMap<&'static str, BTreeMap<&'static str, &'static Builtin>> {
    let mut types: BTreeMap<&str, BTreeMap<&str, &Builtin>> = BTreeMap::new();
    for table in vm.method_tables() {
        let methods = types.entry(table.type_name).or_default();
        for method in table.methods {
            methods.entry(method.name()).or_insert(method);
        }
    }
    types
}

/// Formats names in columns, indented by four spaces, at most 100 columns wide.
fn columns(names: &[&str]) -> String {
    let mut out = String::new();
    let mut line = String::new();
    for name in names {
        if line.len() + name.len() > 96 {
            let _ = writeln!(out, "   {line}");
            line.clear();
        }
        line.push(' ');
        line.push_str(name);
    }
    if !line.is_empty() {
        let _ = writeln!(out, "   {line}");
    }
    out
}
