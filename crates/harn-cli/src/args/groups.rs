//! The command list of `harn --help`, in groups.

use std::fmt::Write as _;

use clap::CommandFactory;

use super::Cli;

/// The groups and their commands, in the order of the help.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Run", &["run", "repl", "watch", "playground", "demo"]),
    ("Develop", &["check", "lint", "fmt", "test", "eval", "bench", "viz"]),
    (
        "Projects",
        &[
            "new", "init", "add", "remove", "install", "update", "lock", "trust", "mcp", "skills", "doctor",
            "config",
        ],
    ),
    ("Models", &["providers", "models", "model-info", "provider-catalog", "provider-ready"]),
    (
        "Runs and workers",
        &["resume", "answer", "replay", "fork", "runs", "sessions", "store", "submit", "worker"],
    ),
    ("Servers", &["serve", "portal", "lsp", "dap"]),
    ("Help", &["explain", "completions", "version", HELP]),
];

/// The command that the parser adds itself.
const HELP: &str = "help";

/// The complete parser.
pub(super) fn cli() -> clap::Command {
    let cli = Cli::command();
    let template = template(&cli);
    cli.help_template(template)
}

/// The help of `harn`, with the commands in groups.
fn template(cli: &clap::Command) -> String {
    let (heading, literal) = (cli.get_styles().get_header(), cli.get_styles().get_literal());
    let width = cli.get_subcommands().map(|command| command.get_name().len()).max().unwrap_or_default();
    let mut list = String::new();
    for (group, commands) in GROUPS {
        let _ = writeln!(list, "\n{heading}{group}:{heading:#}");
        for name in commands {
            let about = match cli.find_subcommand(name) {
                Some(command) => command.get_about().map(ToString::to_string).unwrap_or_default(),
                None => "Show the help of a command".to_owned(),
            };
            let _ = writeln!(list, "  {literal}{name:<width$}{literal:#}  {about}");
        }
    }
    format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{list}\n{heading}Options:{heading:#}\n{{options}}{{after-help}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_exactly_one_group() {
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, commands)| commands.iter().copied()).collect();
        let cli = Cli::command();
        let visible =
            cli.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name);
        for command in visible.chain([HELP]) {
            assert_eq!(grouped.iter().filter(|name| **name == command).count(), 1, "{command}");
        }
        for name in grouped {
            assert!(name == HELP || cli.find_subcommand(name).is_some(), "{name}");
        }
    }

    /// Every command, option and argument with a short help, by its path.
    fn described(command: &clap::Command, path: &str, all: &mut Vec<(String, String)>) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        all.push((path.to_owned(), about));
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            all.push((format!("{path} {}", arg.get_id()), help));
            for value in arg.get_possible_values() {
                // The shells of `completions` have no help.
                if let Some(help) = value.get_help() {
                    all.push((format!("{path} {} {}", arg.get_id(), value.get_name()), help.to_string()));
                }
            }
        }
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            described(sub, &format!("{path} {}", sub.get_name()), all);
        }
    }

    #[test]
    fn every_help_has_at_most_eight_words() {
        let mut all = Vec::new();
        described(&Cli::command(), "harn", &mut all);
        assert!(all.len() > 200, "{}", all.len());
        for (path, help) in all {
            let words = help.split_whitespace().count();
            assert!((1..=8).contains(&words), "{path}: {help}");
            assert!(help.starts_with(char::is_uppercase) && !help.ends_with('.'), "{path}: {help}");
        }
    }
}
