//! `harn --json-schemas`: lists the commands with JSON output, and the version of that output.

use clap::CommandFactory;
use harn_value::{Data as Value, json};

use super::providers::{envelope, fail, print};
use crate::args::{Cli, JsonSchemasArgs};

/// Lists the commands. Returns 1 for an unknown name.
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

/// Returns the version of a command's JSON output.
fn version(command: &str) -> i64 {
    if command == "test" { super::test::SCHEMA_VERSION } else { 1 }
}

/// Collects the subcommands with JSON output, in the order of the help.
fn collect(command: &clap::Command, path: &str, names: &mut Vec<String>) {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let name = format!("{path}{}", sub.get_name());
        if sub.get_arguments().any(makes_json) {
            names.push(name.clone());
        }
        collect(sub, &format!("{name} "), names);
    }
}

/// Whether an option selects JSON: `--json`, or an option with `json` among its values.
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
