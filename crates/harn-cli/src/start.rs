//! Help for new users: the output without arguments, and hints for invalid arguments.

use std::ffi::OsString;
use std::io::Write as _;

use std::path::Path;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

use harn_syntax::printable;
use harn_system::{Real, Stream, System, SystemExt};
use harn_vm::suggest;

use crate::args::Cli;
use crate::out::Out;
use crate::style::Colour;

/// First steps: purpose and command.
const FIRST_STEPS: [(&str, &str); 6] = [
    ("run an example agent, no key needed", "harn demo agent-loop"),
    ("run one line of code", "harn run -e 'println(1 + 2)'"),
    ("start an interactive session", "harn repl"),
    ("run a program with arguments", "harn FILE.harn ARGS..."),
    ("look up a builtin, method or keyword", "harn explain split"),
    ("list all commands", "harn --help"),
];

/// Prints an introduction when `harn` has no arguments.
pub(crate) fn greet() {
    let colour = Colour::of(Stream::Error);
    let mut out = format!(
        "Harn {}: a scripting language and runtime for AI agents.\n\nUsage: harn <COMMAND>\n\n",
        env!("CARGO_PKG_VERSION")
    );
    for (what, command) in FIRST_STEPS {
        out += &format!("  {}  {what}\n", colour.strong(&format!("{command:<29}")));
    }
    eprint!("{out}");
}

/// Ends the process with a usage error, and a hint if there is one.
pub(crate) fn refuse(error: &Error, args: &[OsString]) -> ! {
    let Some(tip) = tip(error, args) else { show(error) };
    let text = error.render().to_string();
    // The hint replaces the parser's own tips, which do not apply, between the error and the usage.
    let (head, rest) = text.split_once("\n\n").unwrap_or((text.trim_end(), ""));
    let rest: Vec<&str> = rest.split("\n\n").filter(|part| !part.trim_start().starts_with("tip:")).collect();
    let rest = rest.join("\n\n");
    eprint!("{head}\n\n  tip: {tip}\n\n{rest}");
    std::process::exit(error.exit_code());
}

/// Ends the process with the parser's output. If help cannot be written, that is an error.
fn show(error: &Error) -> ! {
    match error.print().and_then(|()| Out.flush()) {
        Err(lost) if !error.use_stderr() && lost.kind() != std::io::ErrorKind::BrokenPipe => {
            eprintln!("error: cannot write to standard output: {lost}");
            std::process::exit(1);
        }
        _ => std::process::exit(error.exit_code()),
    }
}

/// Returns a hint that the parser cannot give: about files, and about arguments of the program.
fn tip(error: &Error, args: &[OsString]) -> Option<String> {
    let given = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let name = given(ContextKind::InvalidSubcommand)?;
            let cli = Cli::command();
            // `harn serve NAME`: only the subcommands of `serve` are possible.
            let parent =
                args.get(1).filter(|first| *first != name).and_then(|first| cli.find_subcommand(first));
            let file = [name.to_owned(), format!("{name}.harn")]
                .into_iter()
                .find(|f| parent.is_none() && Real::new().is_file(Path::new(f)));
            let commands =
                || parent.unwrap_or(&cli).get_subcommands().filter(|command| !command.is_hide_set());
            // The name of a subcommand without its parent: `mcp` for `serve mcp`.
            let below = || {
                let command = commands().find(|command| command.find_subcommand(name).is_some())?;
                Some(format!("did you mean '{} {name}'?", command.get_name()))
            };
            // The parser's own suggestions do not cover transposed letters.
            let meant = || {
                let names = commands().map(|command| command.get_name());
                let near = suggest::nearest(name, names)?;
                let sorted = |name: &str| {
                    let mut letters: Vec<char> = name.chars().collect();
                    letters.sort_unstable();
                    letters
                };
                let silent = error.get(ContextKind::SuggestedSubcommand).is_none();
                (silent || sorted(name) == sorted(near)).then(|| format!("did you mean '{near}'?"))
            };
            file.map(|file| format!("to run the file: harn run {file}")).or_else(below).or_else(meant)
        }
        ErrorKind::MissingRequiredArgument => match args.get(1)?.to_str()? {
            command @ ("check" | "lint" | "fmt") => {
                Some(format!("to use all programs in this directory: harn {command} ."))
            }
            "answer" => Some("to list the open requests of a run: harn runs show RUN".to_owned()),
            _ => None,
        },
        ErrorKind::UnknownArgument if args.get(1).is_some_and(|command| command == "run") => {
            let surplus = given(ContextKind::InvalidArg)?;
            let file =
                args.iter().skip(2).map(|arg| arg.to_string_lossy()).find(|arg| arg.ends_with(".harn"))?;
            // The sandbox level is optional, so without `=` the next argument is the program.
            let level = args.iter().skip_while(|arg| *arg != "--sandbox").nth(1);
            if let Some(level) =
                level.map(|level| level.to_string_lossy()).filter(|level| !level.ends_with(".harn"))
            {
                return Some(format!("write the level after `=`: harn run --sandbox={level} {file}"));
            }
            (!surplus.starts_with('-')).then(|| {
                let quote = if surplus.contains(' ') { "\"" } else { "" };
                format!(
                    "write arguments of the program after `--`: harn run {file} -- {quote}{surplus}{quote}"
                )
            })
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            variable(given(ContextKind::InvalidArg)?, args)
        }
        // `harn --trace FILE.harn`: an option of `run` before the file.
        ErrorKind::UnknownArgument
            if args.get(1).is_some_and(|first| first.to_string_lossy().starts_with('-')) =>
        {
            let rest: Vec<_> = args.iter().skip(1).map(|arg| arg.to_string_lossy()).collect();
            let has_file = rest.iter().any(|arg| arg.ends_with(".harn"));
            has_file.then(|| format!("write options of `harn run` after `run`: harn run {}", rest.join(" ")))
        }
        _ => None,
    }
}

/// Returns the environment variable that an invalid option value came from, if the option is not on the command line.
fn variable(option: &str, args: &[OsString]) -> Option<String> {
    let mut cli = Cli::command();
    // Options have their display form only after `build`.
    cli.build();
    let command = cli.find_subcommand(args.get(1)?)?;
    let option = command.get_arguments().find(|known| known.to_string() == option)?;
    let (long, short) = (option.get_long()?, option.get_short());
    let is_typed = args.iter().skip(2).map(|arg| arg.to_string_lossy()).any(|arg| {
        let is_long = arg.strip_prefix("--").is_some_and(|name| name.split('=').next() == Some(long));
        is_long
            || short.is_some_and(|short| arg.strip_prefix('-').is_some_and(|name| name.starts_with(short)))
    });
    let name = option.get_env()?.to_string_lossy().into_owned();
    let set = Real::new().env(&name)?;
    (!is_typed).then(|| format!("the environment variable {name} sets --{long} to '{}'", printable(&set)))
}
