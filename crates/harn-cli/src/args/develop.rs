//! The arguments of what is used while programs are written: watching, drawing, testing, measuring, looking for what is
//! missing.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Arguments of `harn watch`.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// The program.
    pub(crate) file: PathBuf,
    /// Only these builtins may be called, besides output and looking at values: names with commas between.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "deny")]
    pub(crate) allow: Option<Vec<String>>,
    /// These builtins may not be called.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) deny: Option<Vec<String>>,
}

/// Arguments of `harn playground`.
#[derive(Debug, Clone, Args)]
pub(crate) struct PlaygroundArgs {
    /// The program whose exported functions are the host's.
    #[arg(long, value_name = "FILE", default_value = "host.harn")]
    pub(crate) host: PathBuf,
    /// The program to run.
    #[arg(long, value_name = "FILE", default_value = "pipeline.harn")]
    pub(crate) script: PathBuf,
    /// The task of the program; it is in the environment variable HARN_TASK, too.
    #[arg(long, value_name = "TEXT")]
    pub(crate) task: Option<String>,
    /// The model that calls go to which name none.
    #[arg(long, value_name = "PROVIDER:MODEL")]
    pub(crate) llm: Option<String>,
    /// Answer model calls from this file of recorded replies (JSON Lines).
    #[arg(long, value_name = "FILE", conflicts_with = "llm_mock_record")]
    pub(crate) llm_mock: Option<PathBuf>,
    /// Record the replies of this run into a file for --llm-mock.
    #[arg(long, value_name = "FILE")]
    pub(crate) llm_mock_record: Option<PathBuf>,
    /// Run again whenever a program below the folder of the script changes.
    #[arg(long)]
    pub(crate) watch: bool,
}

/// Arguments of `harn viz`.
#[derive(Debug, Args)]
pub(crate) struct VizArgs {
    /// The program; `-` takes standard input.
    pub(crate) file: PathBuf,
    /// Write the chart to this file.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Arguments of `harn test`.
#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// What to test: a file or folder with tests (default: ./tests); `conformance`, the suite in ./conformance; or `package`, the
    /// eval packs of the package.
    #[arg(value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// With `conformance`: a file or folder of the suite.
    pub(crate) selection: Option<PathBuf>,
    /// With `package`: evaluate the packs that `[package] evals` in harn.toml lists, else harn.eval.toml.
    #[arg(long)]
    pub(crate) evals: bool,
    /// Run the tests whose name or path has this part; also `a*b`, `a|b` and `re:REGEX`.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) filter: Option<String>,
    /// Run several tests at a time: as many as there are processors, at most 8. That is the default.
    #[arg(long)]
    pub(crate) parallel: bool,
    /// How many tests run at a time.
    #[arg(long, short, value_name = "N", env = "HARN_TEST_JOBS", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Milliseconds that a test may take.
    #[arg(long, value_name = "MS", default_value_t = 30_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: u64,
    /// Show the time of each test, and what passing tests print.
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Show times and a summary of them.
    #[arg(long)]
    pub(crate) timing: bool,
    /// With `conformance`: run the cases in a system in memory, which has their files but neither network nor processes.
    #[arg(long)]
    pub(crate) in_memory: bool,
    /// With `conformance`: run each case with a journal, again from that journal alone, both also with random delays, and again
    /// killed and resumed; all must end the same, with the same effects outside.
    #[arg(long, conflicts_with = "in_memory")]
    pub(crate) journal: bool,
    /// With `--journal`: how often each case is killed.
    #[arg(long, value_name = "N", default_value_t = 3, requires = "journal")]
    pub(crate) kills: u64,
    /// Run the tests again whenever a `.harn` file below the target or its project changes.
    #[arg(long, conflicts_with_all = ["json", "junit", "json_out", "coverage_out"])]
    pub(crate) watch: bool,
    /// Let tests ask models, and keep each reply in .harn-fixtures.
    #[arg(long, conflicts_with_all = ["replay", "in_memory", "journal"])]
    pub(crate) record: bool,
    /// Take the replies of models from .harn-fixtures; what was not recorded is an error.
    #[arg(long, conflicts_with_all = ["in_memory", "journal"])]
    pub(crate) replay: bool,
    /// Run each test twice, the second time on the model replies of the first; both must end the same.
    #[arg(long, conflicts_with_all = ["watch", "record", "replay", "in_memory", "journal"])]
    pub(crate) determinism: bool,
    /// Show which lines of the modules under test were run.
    #[arg(long)]
    pub(crate) coverage: bool,
    /// Also write the coverage to a file, in the format of LCOV; implies `--coverage`.
    #[arg(long, value_name = "FILE")]
    pub(crate) coverage_out: Option<PathBuf>,
    /// Write the snapshots of `assert_snapshot` anew instead of comparing with them.
    #[arg(long)]
    pub(crate) update_snapshots: bool,
    /// Look for skills in this folder first. Can be given several times.
    #[arg(long = "skill-dir", value_name = "DIR")]
    pub(crate) skill_dirs: Vec<PathBuf>,
    /// Also write a JUnit report.
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Write the report to standard output as JSON instead.
    #[arg(long)]
    pub(crate) json: bool,
    /// Also write the report as JSON to a file.
    #[arg(long, value_name = "FILE")]
    pub(crate) json_out: Option<PathBuf>,
}

/// Arguments of `harn bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// The program.
    pub(crate) file: PathBuf,
    /// How many times it runs, each time in a machine of its own.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub(crate) iterations: u32,
    /// Also write all figures to a file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) profile_json: Option<PathBuf>,
    /// Answer the model calls of each run from this file of recorded replies (JSON Lines).
    #[arg(long, value_name = "FILE")]
    pub(crate) llm_mock: Option<PathBuf>,
    /// Arguments for the program, its list `argv`.
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
    /// The record of a run, a folder of records, the manifest of a suite (JSON), a pack (TOML), or a program.
    #[arg(required = true)]
    pub(crate) path: Option<PathBuf>,
    /// Compare with this record, or records of a folder with those of the same names in another one; a difference fails.
    #[arg(long, value_name = "BASELINE", conflicts_with = "structural_experiment")]
    pub(crate) compare: Option<PathBuf>,
    /// Run a program as it is and with this experiment in its model calls, and compare.
    #[arg(long, value_name = "SPEC")]
    pub(crate) structural_experiment: Option<String>,
    /// Answer the model calls of both runs from this file of recorded replies; the experiment's from NAME.experiment.jsonl, if
    /// there is one.
    #[arg(long, value_name = "FILE", requires = "structural_experiment", conflicts_with = "llm_mock_record")]
    pub(crate) llm_mock: Option<PathBuf>,
    /// Record the replies of the plain run into a file for --llm-mock, and those of the experiment into NAME.experiment.jsonl.
    #[arg(long, value_name = "FILE", requires = "structural_experiment")]
    pub(crate) llm_mock_record: Option<PathBuf>,
    /// Write the report to standard output as JSON instead.
    #[arg(long)]
    pub(crate) json: bool,
    /// Arguments for the program, its list `argv`.
    #[arg(last = true, value_name = "ARGS", requires = "structural_experiment")]
    pub(crate) args: Vec<String>,
}

/// What can be evaluated besides runs.
#[derive(Debug, Subcommand)]
pub(crate) enum EvalCommand {
    /// Render one template for several models, and show the variants side by side.
    Prompt(EvalPromptArgs),
}

/// Arguments of `harn eval prompt`.
#[derive(Debug, Args)]
pub(crate) struct EvalPromptArgs {
    /// The template: a path, or an embedded one (`std/…`).
    pub(crate) template: String,
    /// The models, with commas between; also fleets, which `[eval.fleets.NAME] models` in harn.toml lists.
    #[arg(long, value_name = "MODELS", value_delimiter = ',', required = true)]
    pub(crate) fleet: Vec<String>,
    /// The bindings of the template: a JSON object, or the path of a file with one.
    #[arg(long, value_name = "JSON")]
    pub(crate) bindings: Option<String>,
    /// What is done with the texts: nothing, each model answers its own, or a model judges the answers, too.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) mode: EvalMode,
    /// With `--mode judge`: the model that judges; without one, that of calls which name none.
    #[arg(long, value_name = "MODEL")]
    pub(crate) judge: Option<String>,
    /// The form of the report.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: EvalOutput,
    /// Write the report to this file.
    #[arg(short = 'o', value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Answer the model calls from this file of recorded replies (JSON Lines).
    #[arg(long, value_name = "FILE")]
    pub(crate) llm_mock: Option<PathBuf>,
}

/// What `harn eval prompt` does with the texts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EvalMode {
    /// They are shown; no model is called.
    #[default]
    Render,
    /// Each model answers its text.
    Run,
    /// A model judges the answers.
    Judge,
}

/// The form of a report of `harn eval prompt`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EvalOutput {
    /// Text of 80 columns.
    #[default]
    Terminal,
    /// JSON in the envelope of all commands.
    Json,
    /// A page.
    Html,
}

/// Arguments of `harn doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Do not ask the provider of models whether it answers.
    #[arg(long)]
    pub(crate) no_network: bool,
    /// Write the findings to standard output as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
