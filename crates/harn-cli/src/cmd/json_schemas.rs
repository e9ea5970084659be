//! `harn --json-schemas`: which commands write JSON, and which version of it.

use clap::CommandFactory;
use harn_value::{Data as Value, json};

use super::providers::{envelope, fail, print};
use crate::args::{Cli, JsonSchemasArgs};

/// Lists the commands; 1 if none has the name that was given.
pub(crate) fn json_schemas(args: &JsonSchemasArgs) -> u8 {
    let mut names = Vec::new();
    collect(&Cli::command(), "", &mut names);
    if let Some(wanted) = &args.command {
        let below = format!("{wanted} ");
        names.retain(|name| name == wanted || name.starts_with(&below));
        if names.is_empty() {
            let message =
                format!("no command '{wanted}' writes JSON; `harn --json-schemas` lists those that do");
            return fail("unknown_command", &message, &Value::Null, true);
        }
    }
    let rows: Vec<Value> =
        names.iter().map(|name| json!({"command": name, "schemaVersion": version(name)})).collect();
    print(&envelope(&rows.into()))
}

/// The version of what a command writes.
fn version(command: &str) -> i64 {
    if command == "test" { super::test::SCHEMA_VERSION } else { 1 }
}

/// The commands below one that write JSON, in the order of the help.
fn collect(command: &clap::Command, path: &str, names: &mut Vec<String>) {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let name = format!("{path}{}", sub.get_name());
        if sub.get_arguments().any(makes_json) {
            names.push(name.clone());
        }
        collect(sub, &format!("{name} "), names);
    }
}

/// Whether an option asks for JSON: `--json`, or one that has `json` among its words.
fn makes_json(option: &clap::Arg) -> bool {
    option.get_id() == "json" || option.get_possible_values().iter().any(|value| value.get_name() == "json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_write_json() {
        let mut names = Vec::new();
        collect(&Cli::command(), "", &mut names);
        for name in ["run", "check", "lint", "fmt", "test", "eval prompt", "runs list"] {
            assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
        }
        assert!(!names.iter().any(|name| name == "repl"), "{names:?}");
    }
}
