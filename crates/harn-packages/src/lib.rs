//! Dependencies of a project: what `[dependencies]` of its manifest asks for, what `harn.lock` holds, and the copies below
//! `.harn/packages` that imports find.
//!
//! A dependency is a folder or file of this machine, or a commit of a git repository. Everything that is needed,
//! directly or by what is needed, lies flat in `.harn/packages`, each under one name. Nothing of a package runs when it is
//! installed.
//!
//! | File | What it holds |
//! | --- | --- |
//! | `manifest` | what a manifest asks for |
//! | `edit` | adding to a manifest and taking away, with its comments kept |
//! | `lock` | the lock file |
//! | `tree` | the files of a package: their digest, and copies |
//! | `address` | addresses of repositories, and names in them |
//! | `git` | repositories and the cache of their commits |
//! | `install` | from manifest to lock to files |

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod address;
mod edit;
mod git;
mod install;
mod lock;
mod manifest;
mod tree;

pub use address::{looks_like_a_repository, short_form};
pub use edit::{add, remove};
pub use git::{default_branch, fetch_wanted};
pub use install::{Done, Mode, Project, Renew};
pub use lock::{Lock, Locked};
pub use manifest::{Dependency, Origin, Want, alias_for, dependencies, eager_servers};
pub use tree::copy;

/// Why something about dependencies did not work, in one sentence or a few.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble(pub String);

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Trouble {}

/// What this crate gives.
pub type Result<T> = std::result::Result<T, Trouble>;

fn trouble<T>(text: impl Into<String>) -> Result<T> {
    Err(Trouble(text.into()))
}
