//! The `harn` command: parses the command line and calls one file per command in `cmd/`.
//!
//! Nothing here knows how programs run; `program.rs` is the only module that drives the crates below. Exit codes: 0
//! success, 1 failure, 2 usage error, 130 stopped by Ctrl-C, 143 by SIGTERM, or the program's own exit code.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

#[macro_use]
mod tell;

mod acp;
mod alloc;
mod args;
mod at_once;
mod cmd;
mod conformance;
mod dap;
mod describe;
mod editor_host;
#[cfg(test)]
mod editor_tests;
mod events;
mod findings;
mod health;
mod json_rpc;
mod keywords;
mod limits;
mod logs;
mod mcp;
#[cfg(test)]
mod memory_tests;
mod out;
mod profile;
mod program;
mod repl;
mod report;
mod signal;
mod start;
mod style;
mod surroundings;
mod table;
mod variables;

use args::{Command, Serve};

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

#[cfg(not(windows))]
fn main() {
    harn();
}

/// The main thread has a stack of one or two MiB on Windows. The command runs on a thread with the stack size of other
/// systems.
#[cfg(windows)]
fn main() {
    let main = std::thread::Builder::new().name("harn".to_owned()).stack_size(8 << 20).spawn(harn);
    // A panic has already been reported.
    let _ = main.expect("a thread can be started").join();
    leave(1)
}

fn harn() {
    harn_vm::quiet_panics();
    limits::raise_open_files();
    limits::report_file_size_limit();
    limits::limit_memory();
    let given: Vec<_> = std::env::args_os().collect();
    let args = args::with_run(given.clone());
    if args.len() > given.len()
        && let Some(option) = args::option_for_program(&given)
    {
        let file = given[1].to_string_lossy();
        eprintln!(
            "[harn] warning: {option} goes to the program; for an option of Harn: `harn run {option} {file}`; to pass it to the program: `harn {file} -- {option}`"
        );
    }
    if args.len() < 2 {
        start::greet();
        leave(2);
    }
    let cli = args::read(&args).unwrap_or_else(|error| start::refuse(&error, &args));
    variables::warn();
    let code = match cli.command {
        Command::Run(args) if cmd::durable::is_wanted(&args) => cmd::durable::begin(args),
        Command::Run(args) => cmd::run::run(args),
        Command::Submit(args) => cmd::submit::submit(&args),
        Command::Worker(args) => cmd::worker::worker(args),
        Command::Resume(args) => match &args.jobs {
            Some(token) => cmd::jobs::serve(token),
            None => cmd::durable::resume(&args),
        },
        Command::Answer(args) => cmd::runs::answer(&args),
        Command::Replay(args) if cmd::runs::is_record(&args.id) => cmd::runs::replay(&args),
        Command::Replay(args) if args.debug => cmd::replay_debug::debug(&args),
        Command::Replay(args) => cmd::durable::replay(&args),
        Command::Fork(args) => cmd::durable::fork(args),
        Command::Serve(Serve::Acp(args)) => acp::serve(args),
        Command::Serve(Serve::Mcp(args)) | Command::McpServe(args) => mcp::serve(&args),
        Command::Playground(args) => cmd::playground::playground(&args),
        Command::Watch(args) => cmd::watch::watch(&args),
        Command::Viz(args) => cmd::viz::viz(&args),
        Command::Bench(args) => cmd::bench::bench(&args),
        Command::Doctor(args) => cmd::doctor::doctor(&args),
        Command::Runs(command) => cmd::runs::runs(command),
        Command::Config(command) => cmd::config::config(&command),
        Command::Store(command) => cmd::store::store(&command),
        Command::Sessions(command) => cmd::sessions::sessions(command),
        Command::Skills(command) => cmd::skills::skills(command),
        Command::Repl => cmd::repl::repl(),
        Command::New(args) => cmd::new::new(&args),
        Command::Init(args) => cmd::new::init(&args),
        Command::Install(args) => cmd::packages::install(&args),
        Command::Add(args) => cmd::packages::add(&args),
        Command::Remove(args) => cmd::packages::remove(&args),
        Command::Update(args) => cmd::packages::update(&args),
        Command::Lock(args) => cmd::packages::lock(&args),
        Command::Test(args) => cmd::test::test(&args),
        Command::Eval(args) => cmd::eval::eval(&args),
        Command::Check(args) => cmd::check::check(&args),
        Command::Lint(args) => cmd::lint::lint(&args),
        Command::Fmt(args) => cmd::fmt::fmt(&args),
        Command::Lsp => cmd::lsp::lsp(),
        Command::Dap => dap::dap(),
        Command::Explain(args) => cmd::explain::explain(args),
        Command::Providers(args) => cmd::providers::providers(&args),
        Command::Models(args) => cmd::models::models(&args),
        Command::ModelInfo(args) => cmd::models::model_info(args),
        Command::ProviderCatalog { available_only } => cmd::providers::provider_catalog(available_only),
        Command::ProviderReady(args) => cmd::ready::provider_ready(args),
        Command::Demo(args) => cmd::demo::demo(&args),
        Command::Portal(args) => cmd::portal::portal(&args),
        Command::Completions { shell } => cmd::completions::completions(shell),
        Command::Mcp(command) => cmd::mcp_login::mcp(&command),
        Command::Trust(args) => cmd::trust::trust(&args),
        Command::Version => cmd::version::version(),
        Command::JsonSchemas(args) => cmd::json_schemas::json_schemas(&args),
    };
    leave(out::settle(code))
}

/// Ends the process without freeing its memory first.
#[cfg(unix)]
fn leave(code: u8) -> ! {
    // SAFETY: nothing is read or written after this point: standard output is flushed, and standard error is not
    // buffered.
    unsafe { libc::_exit(i32::from(code)) }
}

/// Ends the process.
#[cfg(not(unix))]
fn leave(code: u8) -> ! {
    std::process::exit(i32::from(code))
}
