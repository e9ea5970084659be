//! The command line: every command and option, once. Help texts and shell completions are made from these.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use harn_system::{Real, SystemExt};

mod develop;
mod runs;
mod serve;
mod skills;

pub(crate) use develop::{
    BenchArgs, DoctorArgs, EvalArgs, EvalCommand, EvalMode, EvalOutput, EvalPromptArgs, PlaygroundArgs,
    TestArgs, VizArgs, WatchArgs,
};
pub(crate) use runs::{RunsCommand, RunsEventsArgs, RunsListArgs};
pub(crate) use serve::{AcpArgs, McpArgs, Serve, Transport};
pub(crate) use skills::{LookArgs, SkillInstallArgs, SkillsCommand};

/// A scripting language for programs that work with language models.
#[derive(Debug, Parser)]
#[command(name = "harn", version, max_term_width = 100)]
#[command(after_help = "`harn FILE.harn ARGS...` is short for `harn run FILE.harn -- ARGS...`.\n\
                  `harn --json-schemas [--command NAME]` lists the commands that write JSON, with its version.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program.
    Run(RunArgs),
    /// Go on with a run that was interrupted.
    Resume(ResumeArgs),
    /// Answer what a run asks.
    Answer(AnswerArgs),
    /// Put a program into the store, for a worker to run.
    Submit(Box<SubmitArgs>),
    /// Run what is queued, due or abandoned in the store, until it is stopped.
    Worker(WorkerArgs),
    /// Show a run again from its journal; nothing happens outside.
    Replay(ReplayArgs),
    /// Begin a new run with the journal of another one, and go on live from there.
    Fork(ForkArgs),
    /// Let other programs talk to a program.
    #[command(subcommand)]
    Serve(Serve),
    /// The same as `harn serve mcp`.
    #[command(hide = true)]
    McpServe(McpArgs),
    /// Run a program with another program as its host.
    ///
    /// The exported functions of the host program answer `host_call` (`host_call("notes.list", {})` calls `notes_list`) and are
    /// the host's tools.
    Playground(PlaygroundArgs),
    /// Run a program, and again whenever a program below its folder changes.
    Watch(WatchArgs),
    /// Draw the pipelines and functions of a program as a Mermaid flowchart.
    Viz(VizArgs),
    /// Run a program several times and show how long it takes.
    Bench(BenchArgs),
    /// Look whether everything that programs of this project need is there.
    Doctor(DoctorArgs),
    /// Look at the runs that are kept, and manage them.
    #[command(subcommand)]
    Runs(RunsCommand),
    /// Look for skills on disk, bring them in, and sign them.
    #[command(subcommand, visible_alias = "skill")]
    Skills(SkillsCommand),
    /// Evaluate what you type, line by line.
    Repl,
    /// Trust the manifest of a directory
    ///
    /// A harn.toml above the working directory that another user owns or can change starts no servers and hooks, names no models and
    /// stores, and does not widen a sandbox, unless its directory is trusted. Without a path the trusted directories are listed.
    Trust(TrustArgs),
    /// Make a folder with a new project.
    #[command(override_usage = "harn new [OPTIONS] <NAME>\n       harn new <TEMPLATE> <NAME>")]
    New(NewArgs),
    /// Make the current folder, or one with a name, a project; what is there stays.
    Init(InitArgs),
    /// Install the dependencies that the manifest asks for.
    Install(InstallArgs),
    /// Add a dependency to the manifest and install it.
    Add(AddArgs),
    /// Take a dependency out of the manifest.
    Remove(RemoveArgs),
    /// Look dependencies up anew: the newest commits of branches, and where tags point now.
    Update(UpdateArgs),
    /// Write harn.lock without installing anything.
    Lock(LockArgs),
    /// Run a test suite.
    Test(TestArgs),
    /// Hold records of runs to what is expected of them; also compare models, or ways to ask them.
    Eval(Box<EvalArgs>),
    /// Look for errors without running anything.
    Check(CheckArgs),
    /// Look for what is legal but unwise, in programs and prompt templates.
    Lint(LintArgs),
    /// Give programs the one layout.
    Fmt(FmtArgs),
    /// Answer an editor: the language server, on standard input and output.
    Lsp,
    /// Let an editor debug a program: the debug adapter, on standard input and output.
    Dap,
    /// Show what a builtin, method or keyword does, or the prompts that a program sends.
    Explain(ExplainArgs),
    /// List the providers of models: whether a key is set, and their default models.
    Providers(ListArgs),
    /// List the models that have a name or a price here, or show what one can do.
    Models(ListArgs),
    /// Show a model as one JSON object; on demand, ask whether its provider serves it.
    ModelInfo(ModelInfoArgs),
    /// Show providers, models and aliases as one JSON object.
    ProviderCatalog {
        /// Only those that can be used now: no key is needed, or it is set.
        #[arg(long)]
        available_only: bool,
    },
    /// Ask a provider whether it answers, and whether it serves a model.
    ProviderReady(ReadyArgs),
    /// Run a built-in scenario that needs neither keys nor network.
    Demo(DemoArgs),
    /// Look at recorded runs in the browser: a local web page
    ///
    /// Shows the records of runs below a folder: stages, calls of models with their prompts, which branches templates took,
    /// costs; compares runs, and launches programs. The page asks no other host for anything.
    Portal(PortalArgs),
    /// Print a completion script for a shell.
    #[command(visible_alias = "completion")]
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Print a banner with the version.
    Version,
    /// List the commands that write JSON.
    #[command(hide = true, override_usage = "harn --json-schemas [--command <NAME>]")]
    JsonSchemas(JsonSchemasArgs),
}

/// Arguments of `harn --json-schemas`.
#[derive(Debug, Args)]
pub(crate) struct JsonSchemasArgs {
    /// Only this command and those below it, such as `eval prompt`.
    #[arg(long, value_name = "NAME")]
    pub(crate) command: Option<String>,
}

/// Arguments of `harn run`.
#[derive(Debug, Clone, Args)]
#[command(
    override_usage = "harn run [OPTIONS] <FILE.harn | -> [-- ARGS...]\n       harn run [OPTIONS] -e <CODE> [-- ARGS...]"
)]
pub(crate) struct RunArgs {
    /// The program; `-` reads it from standard input.
    pub(crate) file: Option<PathBuf>,
    /// Run this code.
    #[arg(short = 'e', value_name = "CODE", allow_hyphen_values = true)]
    pub(crate) eval: Option<String>,
    /// Text of the task: the first parameter of the program's pipeline.
    #[arg(long, value_name = "TEXT", env = "HARN_TASK")]
    pub(crate) task: Option<String>,
    /// Most memory that the program's data may take, as in 512M or 2G.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_memory: Option<usize>,
    /// Only these builtins may be called, besides output and looking at values: names with commas between.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "deny")]
    pub(crate) allow: Option<Vec<String>>,
    /// These builtins may not be called.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) deny: Option<Vec<String>>,
    /// The program may use files below the working directory and its project only, and do no more than this: none,
    /// read_only, workspace_write (the default), process_exec or network.
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "workspace_write")]
    pub(crate) sandbox: Option<String>,
    /// Look for skills in this folder before all others; may be given more than once.
    #[arg(long = "skill-dir", value_name = "DIR")]
    pub(crate) skill_dirs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) models: TrafficArgs,
    /// After the run, list the model calls with their tokens, times and cost on standard error.
    #[arg(long, env = "HARN_TRACE", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) trace: bool,
    /// After the run, show on standard error where the time went.
    #[arg(long, env = "HARN_PROFILE", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) profile: bool,
    /// Write that to a file as JSON.
    #[arg(long, value_name = "FILE", env = "HARN_PROFILE_JSON")]
    pub(crate) profile_json: Option<PathBuf>,
    /// Run nothing; show what the model calls that stand in the program may cost.
    #[arg(long, conflicts_with_all = ["json", "durable"])]
    pub(crate) explain_cost: bool,
    /// Write output, result and errors to standard output as JSON, one event per line.
    #[arg(long)]
    pub(crate) json: bool,
    /// With --json: leave out what the program prints.
    #[arg(long, requires = "json")]
    pub(crate) quiet: bool,
    /// Keep a journal: when the run is interrupted, `harn resume` goes on with it.
    #[arg(long)]
    pub(crate) durable: bool,
    /// With --durable: the name of the run. Without it, one is drawn.
    #[arg(long, value_name = "ID")]
    pub(crate) run_id: Option<String>,
    /// With --durable: end the process when the program does nothing but wait for longer than this, as in 500ms, 30s, 5m, 2h
    /// or never; `harn resume` goes on then. Without it, a run that waits for a person ends at once, and one that sleeps
    /// after 5m.
    #[arg(long, value_name = "TIME", value_parser = parse_pause)]
    pub(crate) suspend_after: Option<std::time::Duration>,
    /// Arguments for the program, its list `argv`.
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) args: Vec<String>,
}

/// Arguments of `harn resume`.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The run.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(crate) id: Option<String>,
    /// All runs of the project that were interrupted, or were suspended and are due, one after the other.
    #[arg(long)]
    pub(crate) all: bool,
    /// Do effects again of which nobody knows whether they happened.
    #[arg(long)]
    pub(crate) retry_in_doubt: bool,
    /// The right to write the run, as a worker hands it on: its epoch, and for how many milliseconds it holds.
    #[arg(long, hide = true, conflicts_with = "all", value_parser = parse_lease)]
    pub(crate) lease: Option<(u64, i64)>,
}

/// Arguments of `harn submit`.
#[derive(Debug, Args)]
#[command(
    override_usage = "harn submit [OPTIONS] <FILE.harn | -> [-- ARGS...]\n       harn submit [OPTIONS] -e <CODE> [-- ARGS...]"
)]
pub(crate) struct SubmitArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// Not before this time: 2026-11-30T08:00:00Z, 2026-11-30T08:00 (UTC), or 30s, 10m, 2h from now.
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// Again and again: minute, hour, day, month and weekday as in cron, in UTC, such as "0 3 * * mon-fri"; or @hourly,
    /// @daily, @weekly, @monthly.
    #[arg(long, value_name = "CRON")]
    pub(crate) every: Option<String>,
}

/// Arguments of `harn worker`.
#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// How many runs at once.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = parse_count)]
    pub(crate) concurrency: usize,
    /// End when nothing is left to do.
    #[arg(long)]
    pub(crate) drain: bool,
    /// How long a run is held back when nothing is heard of who works on it.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = parse_lease_time)]
    pub(crate) lease: std::time::Duration,
}

/// Arguments of `harn answer`.
#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// The run.
    pub(crate) id: String,
    /// What it asks, as `harn runs show` names it.
    pub(crate) request: String,
    /// The answer: JSON, or text.
    #[arg(conflicts_with_all = ["approve", "reject"], required_unless_present_any = ["approve", "reject"])]
    pub(crate) value: Option<String>,
    /// Say yes.
    #[arg(long, conflicts_with = "reject")]
    pub(crate) approve: bool,
    /// Say no.
    #[arg(long)]
    pub(crate) reject: bool,
    /// With --approve or --reject: why.
    #[arg(long, value_name = "TEXT", conflicts_with = "value")]
    pub(crate) reason: Option<String>,
    /// Who answers. Without it, the name of the user.
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    /// Write to standard output as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `harn replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The run, or a file with the record of one, such as run.json: what it says is shown and held against its fixture.
    pub(crate) id: String,
    /// Stop before this entry of the journal.
    #[arg(long, value_name = "N", conflicts_with = "check")]
    pub(crate) until: Option<u64>,
    /// Compare the journal with the sources of today; the first difference is shown, and nothing else.
    #[arg(long, conflicts_with = "json")]
    pub(crate) check: bool,
    /// Step from effect to effect, forwards and back, and look at variables, calls and source; commands are read from standard input.
    #[arg(long, conflicts_with_all = ["check", "until", "json"])]
    pub(crate) debug: bool,
    /// Write output, result and errors to standard output as JSON, one event per line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `harn fork`.
#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// The run.
    pub(crate) id: String,
    /// Go on live before this entry of its journal.
    #[arg(long, value_name = "N")]
    pub(crate) at: u64,
    /// The name of the new run. Without it, one is drawn.
    #[arg(long, value_name = "ID")]
    pub(crate) run_id: Option<String>,
    /// Use the sources of today in place of those that the run began with.
    #[arg(long)]
    pub(crate) changed: bool,
}

/// Where model calls are answered from, and what of them is kept.
#[derive(Debug, Clone, Args)]
pub(crate) struct TrafficArgs {
    /// Answer model calls from this file of recorded replies (JSON Lines).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["llm_mock_record", "llm_cassette", "llm_cassette_record"])]
    pub(crate) llm_mock: Option<PathBuf>,
    /// Record the replies of this run into a file for --llm-mock.
    #[arg(long, value_name = "FILE")]
    pub(crate) llm_mock_record: Option<PathBuf>,
    /// Take the HTTP exchanges with providers from this cassette instead of the network.
    #[arg(long, value_name = "FILE", conflicts_with = "llm_cassette_record")]
    pub(crate) llm_cassette: Option<PathBuf>,
    /// Record the HTTP exchanges with providers into a file for --llm-cassette.
    #[arg(long, value_name = "FILE")]
    pub(crate) llm_cassette_record: Option<PathBuf>,
}

impl TrafficArgs {
    /// As the machine takes it.
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

/// Arguments of `harn providers` and `harn models`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Show what is known about this one.
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) name: Option<String>,
    /// Write to standard output as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `harn model-info`.
#[derive(Debug, Args)]
pub(crate) struct ModelInfoArgs {
    /// An alias or a model id.
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) model: String,
    /// Ask the provider; the exit code is 1 unless it serves the model.
    #[arg(long)]
    pub(crate) verify: bool,
    /// With Ollama, load the model as well; elsewhere the same as --verify.
    #[arg(long)]
    pub(crate) warm: bool,
    /// How long Ollama keeps the model: `10m`, a number of seconds, `forever`.
    #[arg(long, value_name = "TIME", requires = "warm", allow_hyphen_values = true)]
    pub(crate) keep_alive: Option<String>,
}

/// Arguments of `harn provider-ready`.
#[derive(Debug, Args)]
pub(crate) struct ReadyArgs {
    /// The provider.
    pub(crate) provider: String,
    /// An alias or a model id that it shall serve.
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Ask this address instead of the configured one.
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Write to standard output as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a new project begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Template {
    /// A program with a module of its own and a test.
    Basic,
    /// An agent with one tool, and a test without a model.
    Agent,
    /// A measurement over cases.
    Eval,
    /// A package for other projects.
    Package,
    /// A server of the Model Context Protocol with a tool and a resource.
    McpServer,
    /// A pipeline and a host to try it with.
    PipelineLab,
}

/// Arguments of `harn new`.
#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// The folder that is made; its last part is the project's name.
    pub(crate) name: String,
    /// Behind a template: the name.
    #[arg(hide = true, conflicts_with = "template")]
    pub(crate) second: Option<String>,
    /// What it begins with (default: basic).
    #[arg(long, value_enum)]
    pub(crate) template: Option<Template>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TrustArgs {
    /// The directory that holds the harn.toml.
    pub(crate) path: Option<PathBuf>,
    /// Take the directory out of the list.
    #[arg(long, requires = "path")]
    pub(crate) remove: bool,
}

/// Arguments of `harn init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// The folder that is made; without it, the current one.
    pub(crate) name: Option<String>,
    /// What it begins with (default: basic).
    #[arg(long, value_enum)]
    pub(crate) template: Option<Template>,
}

/// Arguments of `harn install`.
#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// Fail if harn.lock would have to change.
    #[arg(long, visible_alias = "frozen")]
    pub(crate) locked: bool,
    /// Ask no repository: everything comes from the cache.
    #[arg(long)]
    pub(crate) offline: bool,
    /// Take this dependency, or `all`, from its repository once more, as the lock file has it.
    #[arg(long, value_name = "NAME", conflicts_with = "offline")]
    pub(crate) refetch: Option<String>,
}

/// Arguments of `harn lock`.
#[derive(Debug, Args)]
pub(crate) struct LockArgs {
    /// Fail if harn.lock would have to change.
    #[arg(long, visible_alias = "frozen")]
    pub(crate) locked: bool,
    /// Ask no repository: everything comes from the cache.
    #[arg(long)]
    pub(crate) offline: bool,
}

/// Arguments of `harn add`.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// A folder, a `.harn` file, or the address of a git repository, also as `github.com/OWNER/NAME@TAG`. With --git or --path:
    /// the name that imports use.
    #[arg(required_unless_present_any = ["git", "path", "registry"])]
    pub(crate) source: Option<String>,
    /// The address of a git repository.
    #[arg(long, value_name = "URL", conflicts_with = "path")]
    pub(crate) git: Option<String>,
    /// A folder or a `.harn` file.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["rev", "branch"])]
    pub(crate) path: Option<PathBuf>,
    /// There is none: the answer says what to give instead.
    #[arg(long, value_name = "URL", hide = true)]
    pub(crate) registry: Option<String>,
    /// The name that imports use (default: the last part of the source).
    #[arg(long, value_name = "NAME")]
    pub(crate) alias: Option<String>,
    /// The tag or commit of the repository.
    #[arg(long, visible_alias = "tag", value_name = "REV", conflicts_with = "branch")]
    pub(crate) rev: Option<String>,
    /// The branch of the repository (default: its main one).
    #[arg(long, value_name = "NAME")]
    pub(crate) branch: Option<String>,
    /// The name that the package itself must have.
    #[arg(long, value_name = "NAME")]
    pub(crate) package: Option<String>,
}

/// Arguments of `harn remove`.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The name of the dependency.
    pub(crate) alias: String,
}

/// Arguments of `harn update`.
#[derive(Debug, Args)]
pub(crate) struct UpdateArgs {
    /// The dependency to look up (default: all).
    pub(crate) alias: Option<String>,
    /// All of them.
    #[arg(long, conflicts_with = "alias")]
    pub(crate) all: bool,
}

/// Arguments of `harn check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Programs, or folders with programs.
    #[arg(value_name = "FILE")]
    pub(crate) targets: Vec<PathBuf>,
    /// Also what `[workspace] pipelines` of the nearest harn.toml names.
    #[arg(long)]
    pub(crate) workspace: bool,
    /// How serious findings about imports and templates are: `error`, `warning` or `off`.
    #[arg(long, value_name = "LEVEL", value_parser = parse_preflight)]
    pub(crate) preflight: Option<harn_check::PreflightSeverity>,
    /// A JSON or TOML file with operations of the host that calls may name: `{capability: [operations]}`.
    #[arg(long, value_name = "FILE")]
    pub(crate) host_capabilities: Option<PathBuf>,
    /// Look for templates in this folder first.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) bundle_root: Option<PathBuf>,
    /// Write to standard output as JSON what the programs are made of: the files they import and the templates they render.
    #[arg(long, conflicts_with_all = ["json", "fix", "provider_matrix"])]
    pub(crate) bundle: bool,
    /// Also tell where parts of values from outside are used before anything has looked at the whole.
    #[arg(long)]
    pub(crate) strict_types: bool,
    /// Also look whether what `@invariant("NAME", ...)` promises of a function holds on all ways that lead out of it.
    #[arg(long)]
    pub(crate) invariants: bool,
    /// Show what the models can do in place of checking anything: tools, thinking, pictures and so on.
    #[arg(long)]
    pub(crate) provider_matrix: bool,
    /// With --provider-matrix: `text` or `json`.
    #[arg(long, value_name = "FORMAT", requires = "provider_matrix", value_parser = ["text", "json"])]
    pub(crate) format: Option<String>,
    /// With --provider-matrix: only the models that have this feature.
    #[arg(long, value_name = "FEATURE", requires = "provider_matrix")]
    pub(crate) filter: Option<String>,
    /// Apply the mends that keep what was meant, then report what is left.
    #[arg(long)]
    pub(crate) fix: bool,
    /// Write the findings to standard output as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `harn lint`.
#[derive(Debug, Args)]
pub(crate) struct LintArgs {
    /// Programs and prompt templates, or folders with them.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) targets: Vec<PathBuf>,
    /// Every program must say at its head what it is for.
    #[arg(long)]
    pub(crate) require_file_header: bool,
    /// Apply the mends that keep the meaning, then report what is left.
    #[arg(long)]
    pub(crate) fix: bool,
    /// Write the findings to standard output as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `harn fmt`.
#[derive(Debug, Args)]
pub(crate) struct FmtArgs {
    /// Programs, or folders with programs; `-` takes standard input and writes to standard output.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) targets: Vec<PathBuf>,
    /// Write nothing; fail if a file would change.
    #[arg(long)]
    pub(crate) check: bool,
    /// How many columns a line has; 100 if the manifest says nothing.
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(20..=1000))]
    pub(crate) line_width: Option<u16>,
    /// How many columns a line of dashes has; 80 if the manifest says nothing.
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(20..=1000))]
    pub(crate) separator_width: Option<u16>,
    /// Write what was done to standard output as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `harn explain`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(crate) struct ExplainArgs {
    /// What else can be explained.
    #[command(subcommand)]
    pub(crate) what: Option<Explain>,
    /// A name as in `split`, `list.map` or `match`; without one, all names by topic.
    pub(crate) name: Option<String>,
    /// What follows a misspelt subcommand.
    #[arg(hide = true)]
    pub(crate) surplus: Vec<String>,
    /// Show the way on which a function, tool or pipeline of a file breaks an invariant.
    #[arg(long, num_args = 3, value_names = ["INVARIANT", "HANDLER", "FILE"], conflicts_with_all = ["name", "surplus", "reference"])]
    pub(crate) invariant: Option<Vec<String>>,
    /// Write the reference pages of the book into this folder.
    #[arg(long, value_name = "FOLDER", conflicts_with = "name")]
    pub(crate) reference: Option<PathBuf>,
    /// With --reference: write nothing, fail if a page is not up to date.
    #[arg(long, requires = "reference")]
    pub(crate) check: bool,
    /// With a name: write what is told of it as JSON, of a code also its cause, its mend and its example.
    #[arg(long, requires = "name")]
    pub(crate) json: bool,
}

/// What `harn explain` explains besides names.
#[derive(Debug, Subcommand)]
pub(crate) enum Explain {
    /// Show the prompt of every model call that a program makes, fragment by fragment.
    ///
    /// The program runs without models: calls need no key, reach no network, and are answered by what the program gives
    /// `llm_mock`, else by the mock's default reply. What it prints goes to standard error.
    Prompt(ExplainPromptArgs),
}

/// Arguments of `harn explain prompt`.
#[derive(Debug, Args)]
pub(crate) struct ExplainPromptArgs {
    /// The program; `-` reads it from standard input.
    pub(crate) file: PathBuf,
    /// Answer model calls from this file of recorded replies (JSON Lines).
    #[arg(long, value_name = "FILE")]
    pub(crate) llm_mock: Option<PathBuf>,
    /// Text of the task: the first parameter of the program's pipeline.
    #[arg(long, value_name = "TEXT", env = "HARN_TASK")]
    pub(crate) task: Option<String>,
    /// Write all calls to standard output as one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
    /// Arguments for the program, its list `argv`.
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) args: Vec<String>,
}

/// Arguments of `harn demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// The scenario; without one there is a menu, or the list.
    pub(crate) scenario: Option<String>,
    /// List the scenarios.
    #[arg(long, conflicts_with = "scenario")]
    pub(crate) list: bool,
    /// Write the list, or the run and what it printed, to standard output as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Ask real models instead of replaying replies.
    #[arg(long, conflicts_with = "list")]
    pub(crate) live: bool,
    /// Keep no record in .harn-runs.
    #[arg(long, conflicts_with = "list")]
    pub(crate) no_record: bool,
}

/// Arguments of `harn portal`.
#[derive(Debug, Args)]
pub(crate) struct PortalArgs {
    /// The folder of the records.
    #[arg(long, value_name = "DIR", default_value = ".harn-runs", env = "HARN_RUN_DIR")]
    pub(crate) dir: PathBuf,
    /// The address to listen on.
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// The port to listen on; 0 is any free one.
    #[arg(long, value_name = "PORT", default_value_t = 4721)]
    pub(crate) port: u16,
    /// Open the page in the browser.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) open: bool,
    /// Allow launches although other machines can reach the page: whoever reaches it can run programs here.
    #[arg(long)]
    pub(crate) allow_remote_launch: bool,
    /// Ask for no token. Only on a loopback address: every user and page of this machine can then launch programs.
    #[arg(long)]
    pub(crate) no_token: bool,
}

/// Puts `run` in front of a program, and `--` in front of its arguments: `harn FILE ARGS...`, which is also what the
/// system makes of a file that begins with `#!/usr/bin/env harn`. A program ends in `.harn` or has a folder in its name.
///
/// `--json-schemas` belongs to no command, and is one here.
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

/// Reads the command line.
///
/// Who runs a program waits for it: building the parsers of all other commands takes as long as a short program, so `run`
/// is read by its own. What that one refuses, the whole parser refuses, in its words.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn read(args: &[OsString]) -> Result<Cli, clap::Error> {
    if args.get(1).is_some_and(|command| command == "run") {
        let run = RunArgs::augment_args(clap::Command::new("run"));
        let matches = run.try_get_matches_from(&args[1..]);
        if let Ok(run) = matches.and_then(|matches| RunArgs::from_arg_matches(&matches)) {
            return Ok(Cli { command: Command::Run(run) });
        }
    }
    Cli::try_parse_from(args)
}

/// Ends the process with a usage error of a command.
pub(crate) fn usage_error(command: &str, text: &str) -> ! {
    let mut cli = Cli::command();
    cli.build();
    match cli.find_subcommand_mut(command) {
        Some(command) => command.error(ErrorKind::ArgumentConflict, text).exit(),
        None => cli.error(ErrorKind::ArgumentConflict, text).exit(),
    }
}

/// Ends the process with a usage error where an option names a folder that is not there.
pub(crate) fn need_folders<'a>(command: &str, option: &str, folders: impl IntoIterator<Item = &'a PathBuf>) {
    if let Some(folder) = folders.into_iter().find(|folder| !Real::new().is_dir(folder)) {
        usage_error(command, &format!("{option}: there is no folder {}", folder.display()));
    }
}

/// Reads the level of the preflight.
fn parse_preflight(text: &str) -> Result<harn_check::PreflightSeverity, String> {
    harn_check::PreflightSeverity::parse(text).ok_or_else(|| "expected error, warning or off".to_owned())
}

/// Reads how a run stands.
fn parse_status(text: &str) -> Result<harn_store::RunStatus, String> {
    let known: Vec<_> = harn_store::RunStatus::ALL.into_iter().map(harn_store::RunStatus::word).collect();
    harn_store::RunStatus::named(text).ok_or_else(|| format!("expected one of {}", known.join(", ")))
}

/// Reads how many things are done at once.
pub(crate) fn parse_count(text: &str) -> Result<usize, String> {
    let wrong = || format!("expected a number from 1 to 1000, got '{text}'");
    text.parse().ok().filter(|n| (1..=1000).contains(n)).ok_or_else(wrong)
}

/// Reads how many are shown at most: none would look as if there were none.
fn at_least_one() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..)
}

/// Reads for how long a lease holds.
fn parse_lease_time(text: &str) -> Result<std::time::Duration, String> {
    let time = parse_time(text)?;
    let fits = (500..=86_400_000).contains(&time.as_millis());
    fits.then_some(time).ok_or_else(|| format!("expected a time from 500ms to 24h, got '{text}'"))
}

/// Reads a lease that is handed on.
fn parse_lease(text: &str) -> Result<(u64, i64), String> {
    let parts = text.split_once(':').and_then(|(epoch, ms)| Some((epoch.parse().ok()?, ms.parse().ok()?)));
    parts.ok_or_else(|| format!("expected EPOCH:MILLISECONDS, got '{text}'"))
}

/// The command line of this process, in full.
pub(crate) fn given_command() -> Vec<String> {
    with_run(std::env::args_os().collect()).iter().map(|arg| arg.to_string_lossy().into_owned()).collect()
}

/// Reads a time after which a run is ended that waits.
fn parse_pause(text: &str) -> Result<std::time::Duration, String> {
    if text == "never" {
        return Ok(std::time::Duration::MAX);
    }
    parse_time(text).map_err(|error| format!("{error}; `never` is possible, too"))
}

/// Reads a length of time: a number with its unit behind it.
pub(crate) fn parse_time(text: &str) -> Result<std::time::Duration, String> {
    let wrong = || format!("expected a time such as 500ms, 30s, 5m or 2h, got '{text}'");
    let at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let number: u64 = text[..at].parse().map_err(|_| wrong())?;
    let unit = match &text[at..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).map(std::time::Duration::from_millis).ok_or_else(wrong)
}

/// Reads a size: a number of bytes, or one with K, M or G behind it.
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
        .ok_or_else(|| format!("'{text}' is not a possible size"))
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
        for wrong in ["", "5", "s", "5 s", "-5s", "5d", "99999999999999999999s", "9999999999999999999h"] {
            assert!(parse_time(wrong).unwrap_err().contains("such as 500ms"), "{wrong}");
        }
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
