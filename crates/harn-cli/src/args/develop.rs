//! The arguments of the commands for development.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Arguments of `harn watch`.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Program to run
    pub(crate) file: PathBuf,
    /// Allow only these builtins, separated by commas
    ///
    /// Builtins that print or inspect values, such as `println` and `type_of`, are always allowed.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "deny")]
    pub(crate) allow: Option<Vec<String>>,
    /// Forbid these builtins, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) deny: Option<Vec<String>>,
}

/// Arguments of `harn playground`.
#[derive(Debug, Clone, Args)]
pub(crate) struct PlaygroundArgs {
    /// Host program; its exported functions answer `host_call`
    #[arg(long, value_name = "FILE", default_value = "host.harn")]
    pub(crate) host: PathBuf,
    /// Program to run
    #[arg(long, value_name = "FILE", default_value = "pipeline.harn")]
    pub(crate) script: PathBuf,
    /// Set the task of the entry pipeline
    ///
    /// Default: HARN_TASK. Also sets HARN_TASK for both programs.
    #[arg(long, value_name = "TEXT")]
    pub(crate) task: Option<String>,
    /// Set the default model
    #[arg(long, value_name = "PROVIDER:MODEL")]
    pub(crate) llm: Option<String>,
    /// Answer model calls from recorded replies
    ///
    /// The file is written by --llm-mock-record (JSON Lines).
    #[arg(long, value_name = "FILE", conflicts_with = "llm_mock_record")]
    pub(crate) llm_mock: Option<PathBuf>,
    /// Record model replies for --llm-mock
    #[arg(long, value_name = "FILE")]
    pub(crate) llm_mock_record: Option<PathBuf>,
    /// Run again after each change
    ///
    /// Watches every `.harn` file below the script's directory.
    #[arg(long)]
    pub(crate) watch: bool,
}

/// Arguments of `harn viz`.
#[derive(Debug, Args)]
pub(crate) struct VizArgs {
    /// Program to draw; `-` reads standard input
    pub(crate) file: PathBuf,
    /// Write the chart to this file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Arguments of `harn test`.
#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// Tests to run (default: ./tests)
    ///
    /// A file or directory with tests; `conformance` for the suite in ./conformance; or `package` with --evals for the eval
    /// packs of the package.
    #[arg(value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// File or directory; with TARGET `conformance` only
    pub(crate) selection: Option<PathBuf>,
    /// Run the package's eval packs (TARGET `package`)
    ///
    /// `[package] evals` in harn.toml lists the packs. Default: harn.eval.toml.
    #[arg(long)]
    pub(crate) evals: bool,
    /// Run only matching tests
    ///
    /// Matches the name or path: a part of it, `a*b`, `a|b` or `re:REGEX`.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) filter: Option<String>,
    /// Run tests in parallel (default)
    ///
    /// Runs as many tests at once as there are processors, at most 8.
    #[arg(long)]
    pub(crate) parallel: bool,
    /// Set the number of concurrent tests
    #[arg(long, short, value_name = "N", env = "HARN_TEST_JOBS", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Set the time limit per test, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 30_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: u64,
    /// Show the output of passing tests
    ///
    /// Also shows the time of failed tests.
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Show time percentiles and the slowest tests
    #[arg(long)]
    pub(crate) timing: bool,
    /// Use no real files (TARGET `conformance`)
    ///
    /// Tests see only their own files. There is no network, and no process is started.
    #[arg(long)]
    pub(crate) in_memory: bool,
    /// Verify journals and recovery (TARGET `conformance`)
    ///
    /// Runs each case with a journal, replays it from the journal, repeats both with random delays, and kills and resumes
    /// it. Results and effects must be the same each time.
    #[arg(long, conflicts_with = "in_memory")]
    pub(crate) journal: bool,
    /// Set the number of kills; requires --journal
    #[arg(long, value_name = "N", default_value_t = 3, requires = "journal")]
    pub(crate) kills: u64,
    /// Run again after each change
    ///
    /// Watches every `.harn` file below the target and its project.
    #[arg(long, conflicts_with_all = ["json", "junit", "json_out", "coverage_out"])]
    pub(crate) watch: bool,
    /// Record model replies in .harn-fixtures
    #[arg(long, conflicts_with_all = ["replay", "in_memory", "journal"])]
    pub(crate) record: bool,
    /// Answer model calls from .harn-fixtures
    ///
    /// A call without a recorded reply is an error.
    #[arg(long, conflicts_with_all = ["in_memory", "journal"])]
    pub(crate) replay: bool,
    /// Run each test twice; fail on differences
    ///
    /// The first run calls models where no reply is scripted; the second run uses these replies. Output and results must be the
    /// same.
    #[arg(long, conflicts_with_all = ["watch", "record", "replay", "in_memory", "journal"])]
    pub(crate) determinism: bool,
    /// Show line coverage of the tested modules
    #[arg(long)]
    pub(crate) coverage: bool,
    /// Write line coverage to an LCOV file
    ///
    /// Implies --coverage.
    #[arg(long, value_name = "FILE")]
    pub(crate) coverage_out: Option<PathBuf>,
    /// Rewrite the snapshots of `assert_snapshot`
    #[arg(long)]
    pub(crate) update_snapshots: bool,
    /// Search this directory for skills first; repeatable
    #[arg(long = "skill-dir", value_name = "DIR")]
    pub(crate) skill_dirs: Vec<PathBuf>,
    /// Write a JUnit report to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Write the report as JSON to standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the report as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json_out: Option<PathBuf>,
}

/// Arguments of `harn bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Program to measure
    pub(crate) file: PathBuf,
    /// Set the number of runs
    ///
    /// Each run starts with fresh state.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub(crate) iterations: u32,
    /// Write all measurements to a JSON file
    #[arg(long, value_name = "FILE")]
    pub(crate) profile_json: Option<PathBuf>,
    /// Answer model calls from recorded replies
    ///
    /// The file is written by `harn run --llm-mock-record` (JSON Lines).
    #[arg(long, value_name = "FILE")]
    pub(crate) llm_mock: Option<PathBuf>,
    /// Arguments of the program, available as `argv`
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) args: Vec<String>,
}

/// Arguments of `harn eval`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    override_usage = "harn eval [OPTIONS] <PATH>\n       harn eval --structural-experiment <SPEC> [OPTIONS] <FILE.harn> [-- ARGS...]\n       harn eval prompt [OPTIONS] --fleet <MODELS> <TEMPLATE>"
)]
pub(crate) struct EvalArgs {
    #[command(subcommand)]
    pub(crate) command: Option<EvalCommand>,
    /// Run record, suite, eval pack or program
    ///
    /// A run record or a directory of records (JSON), the manifest of a suite (JSON), an eval pack (TOML), or a program with
    /// --structural-experiment.
    #[arg(required = true)]
    pub(crate) path: Option<PathBuf>,
    /// Compare with a baseline; fail on differences
    ///
    /// BASELINE is a run record, or a directory whose records have the same names.
    #[arg(long, value_name = "BASELINE", conflicts_with = "structural_experiment")]
    pub(crate) compare: Option<PathBuf>,
    /// Compare runs without and with an experiment
    ///
    /// SPEC is an experiment on the prompt, such as `doubled_prompt` or `prompt_order_permutation(seed: 3)`. `harn explain
    /// std/experiments` lists the experiments.
    #[arg(long, value_name = "SPEC")]
    pub(crate) structural_experiment: Option<String>,
    /// Answer model calls from recorded replies
    ///
    /// For `replies.jsonl`, the run with the experiment uses `replies.experiment.jsonl` if that file exists.
    #[arg(long, value_name = "FILE", requires = "structural_experiment", conflicts_with = "llm_mock_record")]
    pub(crate) llm_mock: Option<PathBuf>,
    /// Record model replies for --llm-mock
    ///
    /// For `replies.jsonl`, the replies of the run with the experiment are written to `replies.experiment.jsonl`.
    #[arg(long, value_name = "FILE", requires = "structural_experiment")]
    pub(crate) llm_mock_record: Option<PathBuf>,
    /// Write the report as JSON to standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Arguments of the program, available as `argv`
    #[arg(last = true, value_name = "ARGS", requires = "structural_experiment")]
    pub(crate) args: Vec<String>,
}

/// Subcommands of `harn eval`.
#[derive(Debug, Subcommand)]
pub(crate) enum EvalCommand {
    /// Compare one prompt template across models.
    Prompt(EvalPromptArgs),
}

/// Arguments of `harn eval prompt`.
#[derive(Debug, Args)]
pub(crate) struct EvalPromptArgs {
    /// Path of a template, or `std/…`
    pub(crate) template: String,
    /// Compare these models, separated by commas
    ///
    /// A name can also be a fleet: `[eval.fleets.NAME] models` in harn.toml.
    #[arg(long, value_name = "MODELS", value_delimiter = ',', required = true)]
    pub(crate) fleet: Vec<String>,
    /// Set the template bindings
    ///
    /// A JSON object, or the path of a file with one.
    #[arg(long, value_name = "JSON")]
    pub(crate) bindings: Option<String>,
    /// Choose what to do with the prompts
    #[arg(long, value_enum, default_value_t)]
    pub(crate) mode: EvalMode,
    /// Set the judge model; requires `--mode judge`
    ///
    /// Default: the default model.
    #[arg(long, value_name = "MODEL")]
    pub(crate) judge: Option<String>,
    /// Set the format of the report
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: EvalOutput,
    /// Write the report to this file
    #[arg(short = 'o', value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Answer model calls from recorded replies
    ///
    /// The file is written by `harn run --llm-mock-record` (JSON Lines).
    #[arg(long, value_name = "FILE")]
    pub(crate) llm_mock: Option<PathBuf>,
}

/// How `harn eval prompt` uses the prompts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EvalMode {
    /// Show them without calling models
    #[default]
    Render,
    /// Send each prompt to its model
    Run,
    /// Let a judge model score the replies
    Judge,
}

/// The report formats of `harn eval prompt`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EvalOutput {
    /// Plain text, 80 columns wide
    #[default]
    Terminal,
    /// JSON
    Json,
    /// A web page
    Html,
}

/// Arguments of `harn doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Do not contact the model provider
    #[arg(long)]
    pub(crate) no_network: bool,
    /// Write the findings as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
