//! The arguments of `harn skills`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Subcommands of `harn skills`.
#[derive(Debug, Subcommand)]
pub(crate) enum SkillsCommand {
    /// List available skills.
    List {
        /// Include skills that another directory overrides
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        look: LookArgs,
    },
    /// Show a skill: location, signature and content.
    Inspect {
        /// Name of the skill
        name: String,
        #[command(flatten)]
        look: LookArgs,
    },
    /// Rank skills for a task.
    ///
    /// Lists skills in the order in which an agent loop selects them, with reasons.
    Match {
        /// Task to match
        task: String,
        /// File that the task mentions; repeatable
        #[arg(long = "file", value_name = "PATH")]
        files: Vec<String>,
        /// Limit the number of skills
        #[arg(long, value_name = "N", value_parser = super::parse_count)]
        top: Option<usize>,
        #[command(flatten)]
        look: LookArgs,
    },
    /// Install skills into the project.
    ///
    /// Copies skills from a directory or a git repository to .harn/skills.
    Install(SkillInstallArgs),
    /// Create a skill in the project.
    ///
    /// The skill is created in .harn/skills.
    New {
        /// Name of the skill
        name: String,
        /// Describe the skill in one line
        #[arg(long, value_name = "TEXT")]
        short: Option<String>,
        /// Create it in ~/.harn/skills for all projects
        #[arg(long)]
        user: bool,
    },
    /// Create a signing key.
    ///
    /// Writes the private key to FILE and the public key to FINGERPRINT.pub in the same directory.
    Key {
        /// File of the private key
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Sign a skill.
    ///
    /// Writes SKILL.md.sig next to SKILL.md.
    Sign {
        /// Directory of the skill
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// File of the private key
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
    },
    /// Verify the signature of a skill.
    ///
    /// The exit code is 1 if no trusted key signed the skill.
    Verify {
        /// Directory or name of the skill
        skill: String,
        #[command(flatten)]
        look: LookArgs,
    },
    /// Manage trusted signers.
    ///
    /// Trusts the signer with this public key, or lists or removes trusted signers.
    Trust {
        /// File of the public key
        #[arg(value_name = "FILE.pub", required_unless_present_any = ["list", "remove"])]
        file: Option<PathBuf>,
        /// List the fingerprints of trusted signers
        #[arg(long, conflicts_with_all = ["file", "remove"])]
        list: bool,
        /// Remove this signer
        #[arg(long, value_name = "FINGERPRINT", conflicts_with = "file")]
        remove: Option<String>,
    },
}

/// Where skills are searched, and how they are printed.
#[derive(Debug, Args)]
pub(crate) struct LookArgs {
    /// Search this directory for skills first; repeatable
    #[arg(long = "skill-dir", value_name = "DIR")]
    pub(crate) skill_dirs: Vec<PathBuf>,
    /// Write JSON to standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `harn skills install`.
#[derive(Debug, Args)]
pub(crate) struct SkillInstallArgs {
    /// Directory or git URL of the skills
    pub(crate) source: String,
    /// Directory of the skills inside the source
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,
    /// Use this tag or commit
    #[arg(long, value_name = "TAG|COMMIT", conflicts_with = "branch")]
    pub(crate) rev: Option<String>,
    /// Use this branch
    #[arg(long)]
    pub(crate) branch: Option<String>,
    /// Replace installed skills
    #[arg(long)]
    pub(crate) replace: bool,
    /// Install into ~/.harn/skills for all projects
    #[arg(long)]
    pub(crate) user: bool,
}
