//! Dependencies of a project: `[dependencies]` of its manifest, `harn.lock`, and the copies in `.harn/packages` that
//! imports find.
//!
//! A dependency is a local directory or file, or a commit of a git repository. All direct and transitive dependencies
//! are in `.harn/packages` without nesting, each under a unique name. An installation runs no code of a package.
//!
//! | File | Content |
//! | --- | --- |
//! | `manifest` | the dependencies of a manifest |
//! | `edit` | adding and removing entries of a manifest, with its comments preserved |
//! | `lock` | the lock file |
//! | `tree` | the files of a package: digest and copies |
//! | `address` | addresses of repositories, and names in them |
//! | `git` | repositories and the cache of their commits |
//! | `install` | from manifest to lock file to files |

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

/// An error about dependencies, as one or more sentences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble(pub String);

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Trouble {}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Trouble>;

fn trouble<T>(text: impl Into<String>) -> Result<T> {
    Err(Trouble(text.into()))
}
