//! The command line: every command and option. Help and shell completions are generated from these.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use harn_system::{Real, SystemExt};
use serde::{Deserialize, Serialize};

mod develop;
mod groups;
mod runs;
mod serve;
mod sessions;
mod skills;

pub(crate) use develop::{
    BenchArgs, DoctorArgs, EvalArgs, EvalCommand, EvalMode, EvalOutput, EvalPromptArgs, PlaygroundArgs,
    TestArgs, VizArgs, WatchArgs,
};
pub(crate) use runs::{Filter, RunsChangeArgs, RunsCommand, RunsEventsArgs, RunsListArgs};
pub(crate) use serve::{AcpArgs, McpArgs, Serve, Transport};
pub(crate) use sessions::SessionsCommand;
pub(crate) use skills::{LookArgs, SkillInstallArgs, SkillsCommand};

/// A scripting language and runtime for AI agents.
#[derive(Debug, Parser)]
#[command(name = "harn", version, max_term_width = 100)]
#[command(after_help = "`harn FILE.harn ARGS...` is short for `harn run FILE.harn -- ARGS...`.\n\
                  `harn --json-schemas` lists the commands that write a JSON envelope.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program.
    Run(RunArgs),
    /// Resume an interrupted or suspended run.
    Resume(ResumeArgs),
    /// Answer a request of a suspended run.
    Answer(AnswerArgs),
    /// Queue a program for a worker.
    Submit(Box<SubmitArgs>),
    /// Execute queued, interrupted and waiting runs.
    ///
    /// The worker takes runs from the project's store until it is stopped.
    Worker(WorkerArgs),
    /// Replay a run from its journal.
    ///
    /// The results of model calls, tools, files and network requests come from the journal; no effect happens again. For a
    /// run record, such as run.json, the command instead prints the recorded stages, if any, and checks the record.
    Replay(ReplayArgs),
    /// Start a new run from a journal entry.
    ///
    /// The new run replays the entries before N, and executes the effects from entry N on.
    Fork(ForkArgs),
    /// Serve a program over MCP or ACP.
    #[command(subcommand)]
    Serve(Serve),
    /// Alias of `harn serve mcp`.
    #[command(hide = true)]
    McpServe(McpArgs),
    /// Run a program with a simulated host application.
    ///
    /// A second program stands in for the application that embeds Harn: `host_call("notes.list", {})` calls its exported function
    /// `notes_list`. Agent loops also get its functions as tools.
    Playground(PlaygroundArgs),
    /// Run a program again after each change.
    ///
    /// Watches every `.harn` file below the program's directory.
    Watch(WatchArgs),
    /// Draw a program as a Mermaid flowchart.
    ///
    /// The chart shows the program's pipelines and functions.
    Viz(VizArgs),
    /// Measure how long a program takes.
    Bench(BenchArgs),
    /// Check the installation and the project.
    Doctor(DoctorArgs),
    /// Show the configuration and its sources.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Back up the store of runs and sessions.
    #[command(subcommand)]
    Store(StoreCommand),
    /// List and manage stored agent conversations.
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// List, inspect and manage stored runs.
    #[command(subcommand)]
    Runs(RunsCommand),
    /// List, install, sign and verify skills.
    #[command(subcommand, visible_alias = "skill")]
    Skills(SkillsCommand),
    /// Start an interactive session.
    Repl,
    /// Sign in or out of MCP servers.
    ///
    /// To offer the functions of a program, use `harn serve mcp`.
    #[command(subcommand)]
    Mcp(McpCommand),
    /// Trust a directory that another user owns.
    ///
    /// If another user owns or can change a harn.toml in a parent directory, Harn ignores its servers, hooks, models, stores
    /// and sandbox settings until you trust that directory. Without a path, the command lists the trusted directories.
    Trust(TrustArgs),
    /// Create a project in a new directory.
    #[command(override_usage = "harn new [OPTIONS] <NAME>\n       harn new <TEMPLATE> <NAME>")]
    New(NewArgs),
    /// Create a project in this or another directory.
    ///
    /// Existing files are not changed.
    Init(InitArgs),
    /// Install the dependencies of the project.
    Install(InstallArgs),
    /// Add a dependency and install it.
    Add(AddArgs),
    /// Remove a dependency.
    Remove(RemoveArgs),
    /// Update dependencies to their newest versions.
    ///
    /// Fetches the newest commits of branches and the commits that tags point to now.
    Update(UpdateArgs),
    /// Update harn.lock without installing dependencies.
    Lock(LockArgs),
    /// Run tests.
    Test(TestArgs),
    /// Evaluate run records, suites and prompts.
    Eval(Box<EvalArgs>),
    /// Check programs without running them.
    Check(CheckArgs),
    /// Report likely bugs and style problems.
    ///
    /// `harn check` includes these findings.
    Lint(LintArgs),
    /// Format source files.
    Fmt(FmtArgs),
    /// Start the language server for editors.
    ///
    /// The server uses standard input and output.
    Lsp,
    /// Start the debug adapter for editors.
    ///
    /// The adapter uses standard input and output.
    Dap,
    /// Explain a name, finding or prompt.
    Explain(ExplainArgs),
    /// List model providers and their configuration.
    Providers(ListArgs),
    /// List known models and their prices.
    Models(ModelsArgs),
    /// Show one model as JSON.
    ModelInfo(ModelInfoArgs),
    /// Show all providers and models as JSON.
    ProviderCatalog {
        /// Show only providers that can be used now
        ///
        /// These are providers that need no key and providers whose key is set.
        #[arg(long)]
        available_only: bool,
    },
    /// Check whether a provider answers.
    ProviderReady(ReadyArgs),
    /// Run a built-in scenario without keys or network.
    Demo(DemoArgs),
    /// Browse and launch runs in the browser.
    ///
    /// Shows the run records of launched programs, workflows and `harn demo`: stages, model calls with their prompts, template
    /// branches and costs. Compares records and launches programs. For durable runs, use `harn runs`.
    Portal(PortalArgs),
    /// Print a shell completion script.
    #[command(visible_alias = "completion")]
    Completions {
        /// Shell to print the script for
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Print the version.
    Version,
    /// List the commands that write JSON.
    #[command(hide = true, override_usage = "harn --json-schemas [--command <NAME>]")]
    JsonSchemas(JsonSchemasArgs),
}

/// Arguments of `harn --json-schemas`.
#[derive(Debug, Args)]
pub(crate) struct JsonSchemasArgs {
    /// Show only this command and its subcommands
    ///
    /// For example `eval prompt`.
    #[arg(long, value_name = "NAME")]
    pub(crate) command: Option<String>,
}

/// Arguments of `harn run`.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[command(
    override_usage = "harn run [OPTIONS] <FILE.harn | -> [-- ARGS...]\n       harn run [OPTIONS] -e <CODE> [-- ARGS...]"
)]
pub(crate) struct RunArgs {
    /// Program to run; `-` reads standard input
    pub(crate) file: Option<PathBuf>,
    /// Run this code instead of a file
    #[arg(short = 'e', value_name = "CODE", allow_hyphen_values = true)]
    pub(crate) eval: Option<String>,
    /// Set the task of the entry pipeline
    ///
    /// The task is the first parameter of the entry pipeline.
    #[arg(long, value_name = "TEXT", env = "HARN_TASK")]
    pub(crate) task: Option<String>,
    /// Limit the memory of the program's data
    ///
    /// For example 512M or 2G.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_memory: Option<usize>,
    /// Allow only these builtins, separated by commas
    ///
    /// Builtins that print or inspect values, such as `println` and `type_of`, are always allowed.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "deny")]
    pub(crate) allow: Option<Vec<String>>,
    /// Forbid these builtins, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) deny: Option<Vec<String>>,
    /// Restrict what the program can access
    ///
    /// The program can use only files in the working directory and the project; at level `none`, no files at all. The levels,
    /// from strict to permissive; each also permits what the previous ones permit:
    ///   none             no files, processes or network
    ///   read_only        read files
    ///   workspace_write  write files (the default for `--sandbox` without LEVEL)
    ///   process_exec     start programs
    ///   network          use the network and call models
    #[arg(long, value_name = "LEVEL", verbatim_doc_comment, num_args = 0..=1, require_equals = true, default_missing_value = "workspace_write")]
    pub(crate) sandbox: Option<String>,
    /// Search this directory for skills first; repeatable
    #[arg(long = "skill-dir", value_name = "DIR")]
    pub(crate) skill_dirs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) models: TrafficArgs,
    /// Print model calls with tokens and cost
    ///
    /// The list is written to standard error after the run.
    #[arg(long, env = "HARN_TRACE", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) trace: bool,
    /// Print where the time was spent
    ///
    /// The profile is written to standard error after the run.
    #[arg(long, env = "HARN_PROFILE", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) profile: bool,
    /// Write the profile to a JSON file
    #[arg(long, value_name = "FILE", env = "HARN_PROFILE_JSON")]
    pub(crate) profile_json: Option<PathBuf>,
    /// Estimate the cost of model calls; run nothing
    ///
    /// Covers the model calls in the source. `?` marks a value that is known only at run time, and `>` marks a lower bound.
    #[arg(long, conflicts_with_all = ["json", "durable"])]
    pub(crate) explain_cost: bool,
    /// Write output, result and errors as JSON
    ///
    /// One event per line, on standard output.
    #[arg(long)]
    pub(crate) json: bool,
    /// Omit the program's output; requires --json
    #[arg(long, requires = "json")]
    pub(crate) quiet: bool,
    /// Record a journal for `harn resume`
    #[arg(long)]
    pub(crate) durable: bool,
    /// Name the durable run
    ///
    /// Default: a generated ID.
    #[arg(long, value_name = "ID")]
    pub(crate) run_id: Option<String>,
    /// Suspend when no timer is due within TIME
    ///
    /// If a durable run only waits, and no timer is due within TIME, Harn stores the run and stops executing it; `harn resume`
    /// continues it. TIME is a duration such as 500ms, 30s, 5m or 2h, or `never`. Default: 10s if the run waits for an answer, 5m if it
    /// waits only for timers; 20s under a worker.
    #[arg(long, value_name = "TIME", value_parser = parse_pause)]
    #[serde(with = "pause")]
    pub(crate) suspend_after: Option<std::time::Duration>,
    /// Arguments of the program, available as `argv`
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) args: Vec<String>,
}

/// Arguments of `harn resume`.
#[derive(Debug, Args)]
#[command(override_usage = "harn resume [OPTIONS] <ID>\n       harn resume [OPTIONS] --all")]
pub(crate) struct ResumeArgs {
    /// ID of the run
    #[arg(required_unless_present_any = ["all", "jobs"], conflicts_with = "all")]
    pub(crate) id: Option<String>,
    /// Resume all runs that can continue
    ///
    /// Resumes interrupted runs and suspended runs whose timer expired or whose answer arrived, one after the other.
    #[arg(long)]
    pub(crate) all: bool,
    /// Repeat effects with unknown outcome
    #[arg(long)]
    pub(crate) retry_in_doubt: bool,
    /// Use this result for effects with unknown outcome
    ///
    /// RESULT is parsed as JSON. A value that is not JSON is used as a string.
    #[arg(long, value_name = "RESULT", conflicts_with_all = ["retry_in_doubt", "all"])]
    pub(crate) skip_in_doubt: Option<String>,
    /// Lease of the worker: epoch and milliseconds
    #[arg(long, hide = true, conflicts_with = "all", value_parser = parse_lease)]
    pub(crate) lease: Option<(u64, i64)>,
    /// Execute the runs that a worker names
    #[arg(long, hide = true, value_name = "TOKEN", conflicts_with_all = ["id", "all", "lease"])]
    pub(crate) jobs: Option<String>,
}

/// Arguments of `harn submit`.
#[derive(Debug, Args)]
#[command(
    override_usage = "harn submit [OPTIONS] <FILE.harn | -> [-- ARGS...]\n       harn submit [OPTIONS] -e <CODE> [-- ARGS...]",
    mut_arg("durable", |arg| arg.hide(true)),
    mut_arg("explain_cost", |arg| arg.hide(true)),
    mut_arg("quiet", |arg| arg.hide(true)),
    mut_arg("json", |arg| arg.help("Write the ID and start time as JSON").long_help(None))
)]
pub(crate) struct SubmitArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// Start at this time
    ///
    /// An absolute time such as 2026-11-30T08:00:00Z or 2026-11-30T08:00 (UTC), or a delay such as 30s, 10m or 2h.
    #[arg(long, visible_alias = "delay", value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// Repeat at this interval or cron schedule
    ///
    /// An interval such as 30s, 5m or 1h; or minute, hour, day, month and weekday in UTC, such as "0 3 * * mon-fri"; or @hourly,
    /// @daily, @weekly, @monthly.
    #[arg(long, value_name = "SCHEDULE", conflicts_with = "key")]
    pub(crate) every: Option<String>,
    /// Choose the queue
    ///
    /// The section `[queues.NAME]` of harn.toml declares a queue and its limits. Default: the queue `default`.
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// Set the priority within the queue
    ///
    /// A number from -1000 to 1000. Runs with a higher priority start first. Default: 0.
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(i32).range(-1000..=1000)
    )]
    pub(crate) priority: Option<i32>,
    /// Set a unique key
    ///
    /// If a run with this key in the same queue has not ended, queues nothing and prints the ID of that run.
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Set the group for limits per group
    ///
    /// `group_concurrency` and `group_rate` of the queue apply to each group, such as a customer.
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: Option<String>,
    /// Submit one run per line
    ///
    /// Each line is a JSON object with any of the keys id, args, queue, priority, key, group and at. An option such as
    /// --queue applies to each line that does not set the same value itself.
    #[arg(long, value_name = "FILE.jsonl", conflicts_with_all = ["run_id", "every", "key"])]
    pub(crate) input_file: Option<PathBuf>,
    /// Set the number of retries
    ///
    /// A retry continues at the effect that failed. Effects that succeeded are not repeated. Default: `@retry` of the
    /// program, `retries` in the section `[runs]` of harn.toml, or 0.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(crate) retries: Option<u32>,
    /// Choose how the retry delay grows
    ///
    /// Default: `@retry` of the program, `backoff` in the section `[runs]` of harn.toml, or exponential.
    #[arg(long, value_name = "KIND", value_enum, requires = "retries")]
    pub(crate) backoff: Option<Backoff>,
    /// Set the delay before the first retry
    ///
    /// Default: `@retry` of the program, `retry_delay` in the section `[runs]` of harn.toml, or 1s.
    #[arg(long, value_name = "TIME", value_parser = parse_time, requires = "retries")]
    pub(crate) retry_delay: Option<std::time::Duration>,
    /// Limit the delay before a retry
    ///
    /// Default: `@retry` of the program, `max_retry_delay` in the section `[runs]` of harn.toml, or 1h.
    #[arg(long, value_name = "TIME", value_parser = parse_time, requires = "retries")]
    pub(crate) max_retry_delay: Option<std::time::Duration>,
}

/// How the delay between retries grows.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Backoff {
    /// Always the same delay.
    Fixed,
    /// Increase by the first delay each time.
    Linear,
    /// Double the delay each time.
    Exponential,
}

impl Backoff {
    /// Its name.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Backoff::Fixed => "fixed",
            Backoff::Linear => "linear",
            Backoff::Exponential => "exponential",
        }
    }
}

/// Arguments of `harn worker`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    mut_arg("log_format", |arg| arg.long_help(
        "Set the format of log messages\n\nWith `json`, each line of standard error is an object with time, level, message and the ID of \
         the run. The output of the runs is written in this form, too."
    ))
)]
pub(crate) struct WorkerArgs {
    #[command(subcommand)]
    pub(crate) command: Option<WorkerCommand>,
    /// Set how many runs execute at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = parse_count)]
    pub(crate) concurrency: usize,
    /// Take runs of these queues only
    ///
    /// May be repeated. Default: all queues of the store.
    #[arg(long = "queue", value_name = "NAME", value_delimiter = ',')]
    pub(crate) queues: Vec<String>,
    /// Exit when no run is ready to execute
    #[arg(long)]
    pub(crate) drain: bool,
    /// Set the lease time of a run
    ///
    /// If a worker does not renew its lease in this time, another worker takes over the run.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = parse_lease_time)]
    pub(crate) lease: std::time::Duration,
    /// Limit the duration of the shutdown
    ///
    /// After SIGTERM or Ctrl-C, the worker accepts no new runs. For the first half of TIME, its runs continue. Then each run is
    /// suspended as soon as it has no request or command in progress. After TIME, or on a second signal, the worker interrupts
    /// the remaining runs.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_time)]
    pub(crate) drain_timeout: std::time::Duration,
    #[command(flatten)]
    pub(crate) operation: OperationArgs,
}

/// Subcommands of `harn config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print each effective value with its source.
    ///
    /// `--json` prints long values in full. The source is `default`, `harn.toml`, the user's configuration file, or an
    /// environment variable. Secrets are
    /// not printed.
    Show {
        /// Write JSON to standard output
        #[arg(long)]
        json: bool,
    },
}

/// Subcommands of `harn store`.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Copy the store while it is in use.
    ///
    /// The copy is a consistent snapshot in one file. To use it, set HARN_STATE_FILE to its path.
    Backup {
        /// File to write; must not exist
        file: PathBuf,
        /// Write JSON to standard output
        #[arg(long)]
        json: bool,
    },
}

/// Subcommands of `harn worker`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum WorkerCommand {
    /// List workers and their runs.
    ///
    /// Shows the workers of the store on all machines. A worker that ended or died is listed for a day, or until another worker
    /// on the same machine takes its name, such as `host/0`.
    List {
        /// Write JSON to standard output
        #[arg(long)]
        json: bool,
    },
}

/// Options of commands that run for a long time.
#[derive(Debug, Clone, Args)]
pub(crate) struct OperationArgs {
    /// Serve probes and metrics on IP:PORT
    ///
    /// Answers /healthz, /readyz and /metrics (Prometheus). Port 0 chooses a free port.
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    pub(crate) health: Option<std::net::SocketAddr>,
    /// Set the format of log messages
    ///
    /// With `json`, each line of standard error is an object with time, level and message.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) log_format: crate::logs::LogFormat,
}

impl OperationArgs {
    /// Creates the health state of a server without a store, and starts the listener if an address is set.
    pub(crate) fn serve(&self) -> Result<std::sync::Arc<crate::health::Health>, String> {
        let health = crate::health::Health::new(None);
        if let Some(address) = self.health {
            self.announce(health.listen(address)?);
        }
        Ok(health)
    }

    /// Prints the address of the probes.
    pub(crate) fn announce(&self, address: std::net::SocketAddr) {
        let text = format!("health: http://{address}/healthz");
        self.log_format.tell(crate::logs::Level::Info, None, &text);
    }
}

/// Parses an address to listen on.
fn parse_address(text: &str) -> Result<std::net::SocketAddr, String> {
    text.parse().map_err(|_| format!("expected IP:PORT such as 127.0.0.1:9464, got '{text}'"))
}

/// Arguments of `harn answer`.
#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// ID of the run
    pub(crate) id: String,
    /// Request to answer, from `harn runs show`
    pub(crate) request: String,
    /// Answer, as JSON or plain text
    #[arg(conflicts_with_all = ["approve", "reject"], required_unless_present_any = ["approve", "reject"])]
    pub(crate) value: Option<String>,
    /// Approve the request
    #[arg(long, conflicts_with = "reject")]
    pub(crate) approve: bool,
    /// Reject the request
    #[arg(long)]
    pub(crate) reject: bool,
    /// Give a reason; requires --approve or --reject
    #[arg(long, value_name = "TEXT", conflicts_with = "value")]
    pub(crate) reason: Option<String>,
    /// Set the name of the reviewer
    ///
    /// Default: the name of the user.
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    /// Write JSON to standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `harn replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// ID of a run, or a run record
    pub(crate) id: String,
    /// Stop before the first effect from entry N
    #[arg(long, value_name = "N", conflicts_with = "check")]
    pub(crate) until: Option<u64>,
    /// Compare the journal with the current sources
    ///
    /// Prints the first difference in effects or output.
    #[arg(long, conflicts_with = "json")]
    pub(crate) check: bool,
    /// Step through the effects interactively
    ///
    /// Steps forwards and backwards and shows variables, calls and source. Commands are read from standard input.
    #[arg(long, conflicts_with_all = ["check", "until", "json"])]
    pub(crate) debug: bool,
    /// Write output, result and errors as JSON
    ///
    /// One event per line, on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `harn fork`.
#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// ID of the run
    pub(crate) id: String,
    /// First entry that is not replayed
    #[arg(long, value_name = "N")]
    pub(crate) at: u64,
    /// Name the new run
    ///
    /// Default: a generated ID.
    #[arg(long, value_name = "ID")]
    pub(crate) run_id: Option<String>,
    /// Use the current sources
    ///
    /// Default: the sources that the original run started with.
    #[arg(long)]
    pub(crate) changed: bool,
}

/// Where model calls are answered from, and what is recorded.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TrafficArgs {
    /// Answer model calls from recorded replies
    ///
    /// The file is written by --llm-mock-record (JSON Lines).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["llm_mock_record", "llm_cassette", "llm_cassette_record"])]
    pub(crate) llm_mock: Option<PathBuf>,
    /// Record model replies for --llm-mock
    #[arg(long, value_name = "FILE")]
    pub(crate) llm_mock_record: Option<PathBuf>,
    /// Answer provider requests from recorded HTTP exchanges
    ///
    /// Unlike with --llm-mock, Harn builds each request and compares it with the recording. It sends nothing.
    #[arg(long, value_name = "FILE", conflicts_with = "llm_cassette_record")]
    pub(crate) llm_cassette: Option<PathBuf>,
    /// Record HTTP exchanges with providers for --llm-cassette
    #[arg(long, value_name = "FILE")]
    pub(crate) llm_cassette_record: Option<PathBuf>,
}

impl TrafficArgs {
    /// Converts the options for the machine.
    pub(crate) fn traffic(self) -> harn_runtime::ModelTraffic {
        harn_runtime::ModelTraffic {
            replies: self.llm_mock,
            record_replies: self.llm_mock_record,
            cassette: self.llm_cassette,
            record_cassette: self.llm_cassette_record,
            ..harn_runtime::ModelTraffic::default()
        }
    }
}

/// Arguments of `harn models`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ModelsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ModelsCommand>,
    #[command(flatten)]
    pub(crate) list: ListArgs,
}

/// Commands of `harn models`.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// Show a model's properties and their sources.
    Show(ShowModelArgs),
    /// Install a newer table of models.
    ///
    /// The source is a model table in the format of Harn, or the model list of LiteLLM (model_prices_and_context_window.json).
    Update(UpdateModelsArgs),
}

/// Arguments of `harn models show`.
#[derive(Debug, Args)]
pub(crate) struct ShowModelArgs {
    /// Model ID or alias
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) name: String,
    /// Write JSON to standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `harn models update`.
#[derive(Debug, Args)]
pub(crate) struct UpdateModelsArgs {
    /// File or address of the table
    #[arg(value_name = "FILE|URL", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) source: String,
    /// Write to this file
    ///
    /// Default: `models.tsv` in the state directory.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Set the source shown by `harn models show`
    #[arg(long, value_name = "TEXT")]
    pub(crate) origin: Option<String>,
}

/// Arguments of `harn providers`, and of `harn models` without a command.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Name to show (default: list all)
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) name: Option<String>,
    /// Write JSON to standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `harn model-info`.
#[derive(Debug, Args)]
pub(crate) struct ModelInfoArgs {
    /// Model ID or alias
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) model: String,
    /// Ask the provider whether it serves the model
    ///
    /// The exit code is 1 if it does not.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Load the model in Ollama
    ///
    /// Same as --verify for other providers.
    #[arg(long)]
    pub(crate) warm: bool,
    /// Keep the model loaded for this time
    ///
    /// For Ollama: 10m, a number of seconds, or forever.
    #[arg(long, value_name = "TIME", requires = "warm", allow_hyphen_values = true)]
    pub(crate) keep_alive: Option<String>,
}

/// Arguments of `harn provider-ready`.
#[derive(Debug, Args)]
pub(crate) struct ReadyArgs {
    /// Name of the provider
    pub(crate) provider: String,
    /// Check that the provider serves this model
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Use this address instead of the configured one
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Write JSON to standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// The templates of new projects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Template {
    /// A program with a module and a test
    Basic,
    /// An agent with a tool and a test
    Agent,
    /// An evaluation over a set of cases
    Eval,
    /// A package for other projects
    Package,
    /// An MCP server: one tool, one resource
    McpServer,
    /// A pipeline and a host to run it
    PipelineLab,
}

/// Arguments of `harn new`.
#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// Directory to create
    ///
    /// The last part of the path is the name of the project.
    pub(crate) name: String,
    /// The name, after a template.
    #[arg(hide = true, conflicts_with = "template")]
    pub(crate) second: Option<String>,
    /// Choose a template (default: basic)
    #[arg(long, value_enum)]
    pub(crate) template: Option<Template>,
}

/// Subcommands of `harn mcp`.
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Sign in to a server.
    ///
    /// Opens a sign-in page of the server's authorization server (OAuth with PKCE), and stores the tokens in a file that only
    /// the user can read. Programs then use the server without `auth_token`.
    Login(McpLoginArgs),
    /// Remove the stored tokens of a server.
    Logout {
        /// Server in harn.toml, or its address
        server: String,
    },
}

/// Arguments of `harn mcp login`.
#[derive(Debug, Args)]
pub(crate) struct McpLoginArgs {
    /// Server in harn.toml, or its address
    pub(crate) server: String,
    /// Show a code for another device
    ///
    /// Sign in with the code in a browser on any device.
    #[arg(long, conflicts_with = "port")]
    pub(crate) device: bool,
    /// Set the OAuth client ID (default: register one)
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Request this OAuth scope (default: the server's)
    ///
    /// Can be repeated.
    #[arg(long)]
    pub(crate) scope: Vec<String>,
    /// Set the redirect port (default: any free)
    #[arg(long)]
    pub(crate) port: Option<u16>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TrustArgs {
    /// Directory to trust (default: list trusted directories)
    pub(crate) path: Option<PathBuf>,
    /// Stop trusting the directory
    #[arg(long, requires = "path")]
    pub(crate) remove: bool,
}

/// Arguments of `harn init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Directory of the project (default: the current one)
    #[arg(value_name = "DIR")]
    pub(crate) name: Option<String>,
    /// Choose a template (default: basic)
    #[arg(long, value_enum)]
    pub(crate) template: Option<Template>,
}

/// Arguments of `harn install`.
#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// Fail if harn.lock is out of date
    #[arg(long, visible_alias = "frozen")]
    pub(crate) locked: bool,
    /// Use cached packages only
    #[arg(long)]
    pub(crate) offline: bool,
    /// Fetch this dependency again (`all`: every one)
    ///
    /// Uses the version in the lock file.
    #[arg(long, value_name = "NAME", conflicts_with = "offline")]
    pub(crate) refetch: Option<String>,
}

/// Arguments of `harn lock`.
#[derive(Debug, Args)]
pub(crate) struct LockArgs {
    /// Fail if harn.lock is out of date
    #[arg(long, visible_alias = "frozen")]
    pub(crate) locked: bool,
    /// Use cached packages only
    #[arg(long)]
    pub(crate) offline: bool,
}

/// Arguments of `harn add`.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Directory, file or git URL of the package
    ///
    /// For example `./lib`, `https://example.com/lib.git` or `github.com/OWNER/NAME@TAG`. With --git or --path, this argument is
    /// the import name.
    #[arg(required_unless_present_any = ["git", "path", "registry"])]
    pub(crate) source: Option<String>,
    /// Fetch the package from a git repository
    #[arg(long, value_name = "URL", conflicts_with = "path")]
    pub(crate) git: Option<String>,
    /// Use a local directory or `.harn` file
    #[arg(long, value_name = "PATH", conflicts_with_all = ["rev", "branch"])]
    pub(crate) path: Option<PathBuf>,
    /// Unsupported: the error names the alternatives
    #[arg(long, value_name = "URL", hide = true)]
    pub(crate) registry: Option<String>,
    /// Name to import it by
    ///
    /// Default: the last part of the source.
    #[arg(long, value_name = "NAME")]
    pub(crate) alias: Option<String>,
    /// Use this tag or commit
    #[arg(long, visible_alias = "tag", value_name = "REV", conflicts_with = "branch")]
    pub(crate) rev: Option<String>,
    /// Use this branch (default: the main branch)
    #[arg(long, value_name = "NAME")]
    pub(crate) branch: Option<String>,
    /// Fail if the package has another name
    #[arg(long, value_name = "NAME")]
    pub(crate) package: Option<String>,
}

/// Arguments of `harn remove`.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// Name of the dependency
    pub(crate) alias: String,
}

/// Arguments of `harn update`.
#[derive(Debug, Args)]
pub(crate) struct UpdateArgs {
    /// Dependency to update (default: all)
    pub(crate) alias: Option<String>,
    /// Update all dependencies (default)
    #[arg(long, conflicts_with = "alias")]
    pub(crate) all: bool,
}

/// Arguments of `harn check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Programs, or directories with programs
    #[arg(value_name = "FILE")]
    pub(crate) targets: Vec<PathBuf>,
    /// Also check the pipelines of the workspace
    ///
    /// `[workspace] pipelines` of the nearest harn.toml lists them.
    #[arg(long)]
    pub(crate) workspace: bool,
    /// Set the severity of import and template findings
    ///
    /// One of error, warning or off.
    #[arg(long, value_name = "LEVEL", value_parser = parse_preflight)]
    pub(crate) preflight: Option<harn_check::PreflightSeverity>,
    /// Read the operations of the host from FILE
    ///
    /// A JSON or TOML file with the operations that `host_call` can name: `{capability: [operations]}`.
    #[arg(long, value_name = "FILE")]
    pub(crate) host_capabilities: Option<PathBuf>,
    /// Search this directory for templates first
    #[arg(long, value_name = "DIR")]
    pub(crate) bundle_root: Option<PathBuf>,
    /// List imported files and templates as JSON
    #[arg(long, conflicts_with_all = ["json", "fix", "provider_matrix"])]
    pub(crate) bundle: bool,
    /// Report unvalidated external values
    ///
    /// JSON, HTTP responses, model replies and host results must be validated before the program reads a field of them. Reports
    /// each read of a value that is not validated.
    #[arg(long)]
    pub(crate) strict_types: bool,
    /// Verify `@invariant` attributes on all code paths
    #[arg(long)]
    pub(crate) invariants: bool,
    /// Show the features of all models
    ///
    /// Tools, thinking, images and so on. Does not check programs.
    #[arg(long)]
    pub(crate) provider_matrix: bool,
    /// Set the format; requires --provider-matrix
    #[arg(long, value_name = "FORMAT", requires = "provider_matrix", value_parser = ["text", "json"])]
    pub(crate) format: Option<String>,
    /// Show models with this feature; requires --provider-matrix
    #[arg(long, value_name = "FEATURE", requires = "provider_matrix")]
    pub(crate) filter: Option<String>,
    /// Apply safe fixes, then report the rest
    #[arg(long)]
    pub(crate) fix: bool,
    /// Write the findings as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `harn lint`.
#[derive(Debug, Args)]
pub(crate) struct LintArgs {
    /// Programs and templates, or directories with them
    #[arg(required = true, value_name = "FILE")]
    pub(crate) targets: Vec<PathBuf>,
    /// Require a comment at the top of programs
    #[arg(long)]
    pub(crate) require_file_header: bool,
    /// Apply safe fixes, then report the rest
    #[arg(long)]
    pub(crate) fix: bool,
    /// Write the findings as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `harn fmt`.
#[derive(Debug, Args)]
pub(crate) struct FmtArgs {
    /// Programs, or directories with programs
    ///
    /// `-` formats standard input to standard output.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) targets: Vec<PathBuf>,
    /// Write nothing; fail if a file would change
    #[arg(long)]
    pub(crate) check: bool,
    /// Set the maximum line width
    ///
    /// Default: `[fmt]` in harn.toml, or 100.
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(20..=1000))]
    pub(crate) line_width: Option<u16>,
    /// Set the width of `// ---` lines
    ///
    /// Default: `[fmt]` in harn.toml, or 80.
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(20..=1000))]
    pub(crate) separator_width: Option<u16>,
    /// Write the results as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `harn explain`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(crate) struct ExplainArgs {
    /// A subcommand of `harn explain`.
    #[command(subcommand)]
    pub(crate) what: Option<Explain>,
    /// Builtin, method, keyword, module or finding
    ///
    /// For example `split`, `list.map`, `match` or `std/math`. Without a name: all names by topic.
    pub(crate) name: Option<String>,
    /// Arguments after a misspelt subcommand.
    #[arg(hide = true)]
    pub(crate) surplus: Vec<String>,
    /// Show the path that violates an invariant
    ///
    /// HANDLER is a function, tool or pipeline of FILE.
    #[arg(long, num_args = 3, value_names = ["INVARIANT", "HANDLER", "FILE"], conflicts_with_all = ["name", "surplus", "reference"])]
    pub(crate) invariant: Option<Vec<String>>,
    /// Write the reference pages into this directory
    #[arg(long, value_name = "DIR", conflicts_with = "name")]
    pub(crate) reference: Option<PathBuf>,
    /// Fail if a page is outdated; requires --reference
    #[arg(long, requires = "reference")]
    pub(crate) check: bool,
    /// Write JSON; requires a name
    #[arg(long, requires = "name")]
    pub(crate) json: bool,
}

/// Subcommands of `harn explain`.
#[derive(Debug, Subcommand)]
pub(crate) enum Explain {
    /// Show the prompts that a program sends.
    ///
    /// Shows every model call fragment by fragment. Runs the program and its tools, but calls no model:
    /// replies come from `llm_mock` or a built-in mock, which calls the first tool in every turn. Needs no key or network. The program's output
    /// goes to standard error.
    Prompt(ExplainPromptArgs),
}

/// Arguments of `harn explain prompt`.
#[derive(Debug, Args)]
pub(crate) struct ExplainPromptArgs {
    /// Program to run; `-` reads standard input
    pub(crate) file: PathBuf,
    /// Answer model calls from recorded replies
    ///
    /// The file is written by `harn run --llm-mock-record` (JSON Lines).
    #[arg(long, value_name = "FILE")]
    pub(crate) llm_mock: Option<PathBuf>,
    /// Set the task of the entry pipeline
    ///
    /// The task is the first parameter of the entry pipeline.
    #[arg(long, value_name = "TEXT", env = "HARN_TASK")]
    pub(crate) task: Option<String>,
    /// Write all calls as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    /// Arguments of the program, available as `argv`
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) args: Vec<String>,
}

/// Arguments of `harn demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Name of the scenario
    ///
    /// Default: show a menu in a terminal, otherwise the list.
    pub(crate) scenario: Option<String>,
    /// List the scenarios
    #[arg(long, conflicts_with = "scenario")]
    pub(crate) list: bool,
    /// Write JSON to standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Call real models instead of recorded replies
    #[arg(long, conflicts_with = "list")]
    pub(crate) live: bool,
    /// Do not write a run record to .harn-runs
    #[arg(long, conflicts_with = "list")]
    pub(crate) no_record: bool,
}

/// Arguments of `harn portal`.
#[derive(Debug, Args)]
pub(crate) struct PortalArgs {
    /// Directory of the run records
    #[arg(long, value_name = "DIR", default_value = ".harn-runs", env = "HARN_RUN_DIR")]
    pub(crate) dir: PathBuf,
    /// Address to listen on
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// Port to listen on
    ///
    /// 0 chooses a free port.
    #[arg(long, value_name = "PORT", default_value_t = 4721)]
    pub(crate) port: u16,
    /// Open the page in the browser
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) open: bool,
    /// Allow remote users to launch programs
    ///
    /// By default, launching is disabled when other machines can reach the page.
    #[arg(long)]
    pub(crate) allow_remote_launch: bool,
    /// Require no token (loopback addresses only)
    ///
    /// Every user and process on this machine can then launch programs.
    #[arg(long)]
    pub(crate) no_token: bool,
}

/// Inserts `run` before a program, and `--` before its arguments: `harn FILE ARGS...`, which is also how the system starts
/// a file that begins with `#!/usr/bin/env harn`. A program ends in `.harn` or has a directory in its path.
///
/// Turns `--json-schemas`, which belongs to no command, into a hidden one.
pub(crate) fn with_run(mut args: Vec<OsString>) -> Vec<OsString> {
    let begins = |start: &str| args.get(1).is_some_and(|arg| arg.to_string_lossy().starts_with(start));
    if (begins("--json-schemas") || begins("--command"))
        && let Some(at) = args.iter().position(|arg| arg == "--json-schemas")
    {
        args.remove(at);
        args.insert(1, "json-schemas".into());
        return args;
    }
    let Some(first) = args.get(1).map(|arg| arg.to_string_lossy().into_owned()) else { return args };
    let is_path = first.ends_with(".harn") || first.contains(std::path::is_separator);
    if !is_path || first.starts_with('-') {
        return args;
    }
    args.insert(1, "run".into());
    if args.get(3).is_some_and(|next| next != "--") {
        args.insert(3, "--".into());
    }
    args
}

/// Options of `harn run` whose absence goes unnoticed: the run is not stored, or has too many rights.
const UNNOTICED: [&str; 6] = ["--durable", "--run-id", "--suspend-after", "--sandbox", "--allow", "--deny"];

/// Returns the first argument in `harn FILE ARGS...` that is one of [`UNNOTICED`]. It is passed to the program, which
/// may not be the intention. `args` is the command line before [`with_run`]; a `--` after the file confirms the
/// intention.
pub(crate) fn option_for_program(args: &[OsString]) -> Option<String> {
    let mut given = args.iter().skip(2).map(|arg| arg.to_string_lossy()).take_while(|arg| arg != "--");
    given.find(|arg| arg.split('=').next().is_some_and(|name| UNNOTICED.contains(&name))).map(Into::into)
}

/// Parses the command line.
///
/// Building the parsers of all commands takes as long as a short program, so `run` has a fast path. The complete parser
/// reports the errors.
///
/// # Errors
/// When the arguments are invalid, or when help or the version was requested.
pub(crate) fn read(args: &[OsString]) -> Result<Cli, clap::Error> {
    if args.get(1).is_some_and(|command| command == "run") {
        let run = RunArgs::augment_args(clap::Command::new("run"));
        let matches = run.try_get_matches_from(&args[1..]);
        if let Ok(run) = matches.and_then(|matches| RunArgs::from_arg_matches(&matches)) {
            return Ok(Cli { command: Command::Run(run) });
        }
    }
    // The parser would treat the argument of its `help` command as a command.
    let of_help =
        |at: usize, arg: &OsString| at == 2 && args[1] == "help" && (arg == "--help" || arg == "-h");
    let args = args.iter().enumerate().filter(|(at, arg)| !of_help(*at, arg)).map(|(_, arg)| arg);
    groups::cli().try_get_matches_from(args).and_then(|matches| Cli::from_arg_matches(&matches))
}

/// Ends the process with a usage error.
pub(crate) fn usage_error(command: &str, text: &str) -> ! {
    let mut cli = Cli::command();
    cli.build();
    match cli.find_subcommand_mut(command) {
        Some(command) => command.error(ErrorKind::ArgumentConflict, text).exit(),
        None => cli.error(ErrorKind::ArgumentConflict, text).exit(),
    }
}

/// Ends the process with a usage error if a directory that an option names does not exist.
pub(crate) fn need_folders<'a>(command: &str, option: &str, folders: impl IntoIterator<Item = &'a PathBuf>) {
    if let Some(folder) = folders.into_iter().find(|folder| !Real::new().is_dir(folder)) {
        usage_error(command, &format!("{option}: directory not found: {}", folder.display()));
    }
}

/// Parses the severity of preflight findings.
fn parse_preflight(text: &str) -> Result<harn_check::PreflightSeverity, String> {
    harn_check::PreflightSeverity::parse(text)
        .ok_or_else(|| format!("expected error, warning or off, got '{text}'"))
}

/// Parses the status of a run.
fn parse_status(text: &str) -> Result<harn_store::RunStatus, String> {
    let known: Vec<_> = harn_store::RunStatus::ALL.into_iter().map(harn_store::RunStatus::word).collect();
    harn_store::RunStatus::named(text)
        .ok_or_else(|| format!("expected one of {}, got '{text}'", known.join(", ")))
}

/// Parses a concurrency, from 1 to 1000.
pub(crate) fn parse_count(text: &str) -> Result<usize, String> {
    let wrong = || format!("expected a number from 1 to 1000, got '{text}'");
    text.parse().ok().filter(|n| (1..=1000).contains(n)).ok_or_else(wrong)
}

/// Parses a limit of at least 1: an empty list would look like an empty store.
fn at_least_one() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..)
}

/// Parses the duration of a lease, from 500ms to 24h.
fn parse_lease_time(text: &str) -> Result<std::time::Duration, String> {
    let time = parse_time(text)?;
    let fits = (500..=86_400_000).contains(&time.as_millis());
    fits.then_some(time).ok_or_else(|| format!("expected a time from 500ms to 24h, got '{text}'"))
}

/// Parses a lease: its epoch and its milliseconds.
fn parse_lease(text: &str) -> Result<(u64, i64), String> {
    let parts = text.split_once(':').and_then(|(epoch, ms)| Some((epoch.parse().ok()?, ms.parse().ok()?)));
    parts.ok_or_else(|| format!("expected EPOCH:MILLISECONDS, got '{text}'"))
}

/// Returns the command line of this process.
pub(crate) fn given_command() -> Vec<String> {
    with_run(std::env::args_os().collect()).iter().map(|arg| arg.to_string_lossy().into_owned()).collect()
}

/// A pause as milliseconds; the longest is `never`.
mod pause {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(pause: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        pause.map(|pause| i64::try_from(pause.as_millis()).unwrap_or(i64::MAX)).serialize(to)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Option<Duration>, D::Error> {
        let ms = Option::<i64>::deserialize(from)?;
        Ok(ms.map(|ms| match ms {
            i64::MAX => Duration::MAX,
            ms => Duration::from_millis(ms.unsigned_abs()),
        }))
    }
}

/// Parses the time after which a waiting run is suspended, or `never`.
fn parse_pause(text: &str) -> Result<std::time::Duration, String> {
    if text == "never" {
        return Ok(std::time::Duration::MAX);
    }
    parse_time(text)
        .map_err(|_| format!("expected a time such as 500ms, 30s, 5m or 2h, or never, got '{text}'"))
}

/// Parses a duration: a number with a unit.
pub(crate) fn parse_time(text: &str) -> Result<std::time::Duration, String> {
    let wrong = || format!("expected a time such as 500ms, 30s, 5m or 2h, got '{text}'");
    let at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let number: u64 = text[..at].parse().map_err(|_| wrong())?;
    let unit = match &text[at..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).map(std::time::Duration::from_millis).ok_or_else(wrong)
}

/// Parses an age: a duration, usually in days.
fn parse_age(text: &str) -> Result<std::time::Duration, String> {
    parse_time(text).map_err(|_| format!("expected a time such as 90m, 12h or 30d, got '{text}'"))
}

/// Parses a size in bytes, with an optional K, M or G.
fn parse_size(text: &str) -> Result<usize, String> {
    let upper = text.trim().to_ascii_uppercase();
    let upper = upper.strip_suffix("IB").or_else(|| upper.strip_suffix('B')).unwrap_or(&upper);
    let (digits, shift) = match upper.chars().last() {
        Some('K') => (&upper[..upper.len() - 1], 10),
        Some('M') => (&upper[..upper.len() - 1], 20),
        Some('G') => (&upper[..upper.len() - 1], 30),
        _ => (upper, 0),
    };
    let number: usize =
        digits.trim().parse().map_err(|_| format!("expected a size such as 512M or 2G, got '{text}'"))?;
    number
        .checked_mul(1 << shift)
        .filter(|n| *n > 0)
        .ok_or_else(|| format!("expected a size such as 512M or 2G, got '{text}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("512M"), Ok(512 << 20));
        assert_eq!(parse_size("2GiB"), Ok(2 << 30));
        assert_eq!(parse_size("1000"), Ok(1000));
        assert!(parse_size("much").unwrap_err().contains("512M"));
        assert!(parse_size("99999999999G").is_err());
        assert!(parse_size("0").is_err());
    }

    #[test]
    fn times() {
        assert_eq!(parse_time("500ms"), Ok(std::time::Duration::from_millis(500)));
        assert_eq!(parse_time("2h"), Ok(std::time::Duration::from_secs(7200)));
        assert_eq!(parse_time("2d"), Ok(std::time::Duration::from_secs(172_800)));
        for wrong in ["", "5", "s", "5 s", "-5s", "5y", "99999999999999999999s", "9999999999999999999h"] {
            assert!(parse_time(wrong).unwrap_err().contains("such as 500ms"), "{wrong}");
        }
    }

    #[test]
    fn options_behind_a_program_are_its_arguments() {
        let found = |list: &[&str]| option_for_program(&list.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(found(&["harn", "a.harn", "--durable"]).as_deref(), Some("--durable"));
        assert_eq!(found(&["harn", "a.harn", "x", "--run-id=7"]).as_deref(), Some("--run-id=7"));
        assert_eq!(found(&["harn", "a.harn", "--", "--durable"]), None);
        assert_eq!(found(&["harn", "a.harn", "--verbose", "durable"]), None);
        assert_eq!(found(&["harn", "a.harn"]), None);
    }

    #[test]
    fn a_single_program_is_run() {
        let args = |list: &[&str]| with_run(list.iter().map(OsString::from).collect());
        assert_eq!(args(&["harn", "a.harn"]), ["harn", "run", "a.harn"]);
        assert_eq!(args(&["harn", "repl"]), ["harn", "repl"]);
        assert_eq!(args(&["harn", "run", "a.harn"]), ["harn", "run", "a.harn"]);
        assert_eq!(args(&["harn", "./tool", "x", "--y"]), ["harn", "run", "./tool", "--", "x", "--y"]);
        assert_eq!(args(&["harn", "a.harn", "--", "x"]), ["harn", "run", "a.harn", "--", "x"]);
        assert_eq!(args(&["harn", "--help"]), ["harn", "--help"]);
        assert_eq!(args(&["harn", "--json-schemas"]), ["harn", "json-schemas"]);
        let schemas = ["harn", "json-schemas", "--command", "lint"];
        assert_eq!(args(&["harn", "--json-schemas", "--command", "lint"]), schemas);
        assert_eq!(args(&["harn", "--command", "lint", "--json-schemas"]), schemas);
        assert_eq!(args(&["harn"]), ["harn"]);
    }
}
