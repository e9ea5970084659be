//! The arguments of `harn skills`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What `harn skills` does.
#[derive(Debug, Subcommand)]
pub(crate) enum SkillsCommand {
    /// List the skills that programs in this folder have.
    List {
        /// Also those that an earlier layer hides by one of the same name.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        look: LookArgs,
    },
    /// Show a skill: where it lies, who signed it, its front matter, files and text.
    Inspect {
        /// Its name.
        name: String,
        #[command(flatten)]
        look: LookArgs,
    },
    /// Show which skills a loop would take for a task, the best first, and why.
    Match {
        /// The task.
        task: String,
        /// A file that the task is about; may be given more than once.
        #[arg(long = "file", value_name = "PATH")]
        files: Vec<String>,
        /// At most so many.
        #[arg(long, value_name = "N", value_parser = super::parse_count)]
        top: Option<usize>,
        #[command(flatten)]
        look: LookArgs,
    },
    /// Copy skills into the project (.harn/skills), from a folder or a git repository.
    Install(SkillInstallArgs),
    /// Make a skill to begin with, in the project (.harn/skills).
    New {
        /// Its name.
        name: String,
        /// What it is for, in one line.
        #[arg(long, value_name = "TEXT")]
        short: Option<String>,
        /// For all projects of the user: in ~/.harn/skills.
        #[arg(long)]
        user: bool,
    },
    /// Make a key to sign skills with: FILE, for you alone, and beside it FINGERPRINT.pub, for everybody.
    Key {
        /// The file of the private key.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Sign a skill: writes SKILL.md.sig beside its SKILL.md.
    Sign {
        /// Its folder.
        folder: PathBuf,
        /// The file of the private key.
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
    },
    /// Look whether a skill is signed by somebody whom you trust; the exit code is 1 if not.
    Verify {
        /// Its folder, or its name.
        skill: String,
        #[command(flatten)]
        look: LookArgs,
    },
    /// Trust a signer, or show whom you trust.
    Trust {
        /// The file of the public key.
        #[arg(value_name = "FILE.pub", required_unless_present_any = ["list", "remove"])]
        file: Option<PathBuf>,
        /// List the fingerprints of those whom you trust.
        #[arg(long, conflicts_with_all = ["file", "remove"])]
        list: bool,
        /// Trust this one no longer.
        #[arg(long, value_name = "FINGERPRINT", conflicts_with = "file")]
        remove: Option<String>,
    },
}

/// Where skills are looked for, and how they are shown.
#[derive(Debug, Args)]
pub(crate) struct LookArgs {
    /// Look for skills in this folder before all others; may be given more than once.
    #[arg(long = "skill-dir", value_name = "DIR")]
    pub(crate) skill_dirs: Vec<PathBuf>,
    /// Write to standard output as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `harn skills install`.
#[derive(Debug, Args)]
pub(crate) struct SkillInstallArgs {
    /// The folder of a skill or of several, or the address of a git repository.
    pub(crate) source: String,
    /// The folder in SOURCE that holds the skills.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) path: Option<PathBuf>,
    /// A tag or commit of the repository.
    #[arg(long, value_name = "TAG|COMMIT", conflicts_with = "branch")]
    pub(crate) rev: Option<String>,
    /// A branch of the repository.
    #[arg(long)]
    pub(crate) branch: Option<String>,
    /// Replace skills that are there.
    #[arg(long)]
    pub(crate) replace: bool,
    /// For all projects of the user: in ~/.harn/skills.
    #[arg(long)]
    pub(crate) user: bool,
}
