//! Reads repositories with the `git` command, and caches their commits.
//!
//! Git runs no other programs: no hooks, no filters, no helpers of a repository, no submodules, no prompts on the
//! terminal. Links in a commit become small files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use harn_system::{Command, System, SystemExt};
use sha2::{Digest, Sha256};

use crate::address::{PROTOCOLS, check, check_name};
use crate::manifest::Want;
use crate::{Result, Trouble, tree, trouble};

/// Timeout of one command: a large repository over a slow connection.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Returns the default branch of a repository.
///
/// # Errors
/// An invalid address, or an error of git.
pub async fn default_branch(system: &dyn System, url: &str) -> Result<String> {
    check(url, url)?;
    let text = git(system, None, &["ls-remote", "--symref", "--", url, "HEAD"]).await?;
    let branch = text.lines().find_map(|line| line.strip_prefix("ref: refs/heads/")?.split('\t').next());
    match branch {
        Some(branch) => Ok(branch.to_owned()),
        None => trouble(format!(
            "{url} does not say which branch is its main one; choose one with --rev or --branch"
        )),
    }
}

/// The files of a repository as a tag, commit or branch has them today, in the cache; without one, as its main branch
/// has them. Also returns the commit.
///
/// # Errors
/// An invalid address or name, or an error of git.
pub async fn fetch_wanted(system: &dyn System, url: &str, want: Option<&Want>) -> Result<(PathBuf, String)> {
    check(url, url)?;
    let main;
    let want = match want {
        Some(want) => want,
        None => {
            main = Want::Branch(default_branch(system, url).await?);
            &main
        }
    };
    let what = if matches!(want, Want::Branch(_)) { "a branch" } else { "a tag or commit" };
    check_name(url, want.name(), what)?;
    let commit = commit_of(system, url, want).await?;
    Ok((fetch(system, &crate::install::cache(system)?, url, &commit, false).await?, commit))
}

/// Resolves a tag, commit or branch to its current commit.
pub(crate) async fn commit_of(system: &dyn System, url: &str, want: &Want) -> Result<String> {
    let name = want.name();
    let lines = match want {
        Want::Rev(rev) if is_commit(rev) => return Ok(rev.to_ascii_lowercase()),
        Want::Rev(tag) => {
            let (plain, peeled) = (format!("refs/tags/{tag}"), format!("refs/tags/{tag}^{{}}"));
            git(system, None, &["ls-remote", "--", url, &plain, &peeled]).await?
        }
        Want::Branch(branch) => {
            git(system, None, &["ls-remote", "--", url, &format!("refs/heads/{branch}")]).await?
        }
    };
    // An annotated tag is a separate object; the commit that it points to follows it.
    let found =
        lines.lines().last().and_then(|line| line.split('\t').next()).filter(|commit| is_commit(commit));
    match (found, want) {
        (Some(commit), _) => Ok(commit.to_owned()),
        (None, Want::Branch(_)) => trouble(format!("there is no branch '{name}' in {url}")),
        (None, Want::Rev(_)) => {
            trouble(format!("there is no tag '{name}' in {url} (a commit is written with all of its digits)"))
        }
    }
}

fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the directory of a commit in the cache; it may not exist yet.
pub(crate) fn cached(cache: &Path, url: &str, commit: &str) -> PathBuf {
    cache.join("git").join(tree::hex(&Sha256::digest(url))).join(commit)
}

/// Returns the files of a commit, from the cache or from the repository.
pub(crate) async fn fetch(
    system: &dyn System,
    cache: &Path,
    url: &str,
    commit: &str,
    offline: bool,
) -> Result<PathBuf> {
    let place = cached(cache, url, commit);
    if system.is_dir(&place) {
        return Ok(place);
    }
    if offline {
        return trouble(format!("{url} at {commit} is not in the cache, and `--offline` was given"));
    }
    take_to(system, &place, url, commit, false).await.map(|()| place)
}

/// Fetches the files of a commit again, and replaces those in the cache.
pub(crate) async fn refetch(system: &dyn System, cache: &Path, url: &str, commit: &str) -> Result<()> {
    take_to(system, &cached(cache, url, commit), url, commit, true).await
}

/// Checks out the files of a commit into the cache. An existing directory may come from another process; it is
/// removed only if `replaces` is set.
async fn take_to(system: &dyn System, place: &Path, url: &str, commit: &str, replaces: bool) -> Result<()> {
    let parent = place.parent().unwrap_or(place).to_owned();
    system.make_dirs(&parent).map_err(|e| Trouble(format!("cannot make {}: {e}", parent.display())))?;
    let draft = parent.join(format!(".{commit}.{}", system.pid()));
    let _ = system.remove(&draft);
    let taken = take(system, &draft, url, commit).await;
    let moved = taken.and_then(|()| {
        if replaces && system.is_dir(place) {
            system.remove(place).map_err(|e| Trouble(format!("cannot remove {}: {e}", place.display())))?;
        }
        Ok(())
    });
    let moved = moved.and_then(|()| match system.rename(&draft, place) {
        Ok(()) => Ok(()),
        // Another process was faster, with the same commit.
        Err(_) if system.is_dir(place) => Ok(()),
        Err(harn_system::MoveError::NotMoved(e) | harn_system::MoveError::NotRemoved(e)) => {
            trouble(format!("cannot write {}: {e}", place.display()))
        }
    });
    let _ = system.remove(&draft);
    moved
}

async fn take(system: &dyn System, draft: &Path, url: &str, commit: &str) -> Result<()> {
    git(system, None, &["init", "--quiet", "--", &draft.display().to_string()]).await?;
    let inside = Some(draft);
    // Some servers do not serve single commits; then all branches and tags are fetched.
    let alone =
        git(system, inside, &["fetch", "--quiet", "--depth", "1", "--no-tags", "--", url, commit]).await;
    if alone.is_err() {
        let all =
            ["fetch", "--quiet", "--", url, "+refs/heads/*:refs/all/heads/*", "+refs/tags/*:refs/all/tags/*"];
        git(system, inside, &all).await?;
    }
    let there = git(system, inside, &["checkout", "--quiet", "--force", "--detach", commit]).await;
    there.map_err(|e| Trouble(format!("there is no commit {commit} in {url}: {e}")))?;
    let own = draft.join(".git");
    system.remove(&own).map_err(|e| Trouble(format!("cannot remove {}: {e}", own.display())))
}

/// Runs git; returns its output.
async fn git(system: &dyn System, dir: Option<&Path>, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    let settings = [
        "core.hooksPath=/dev/null",
        "core.symlinks=false",
        "core.autocrlf=false",
        "core.fsmonitor=false",
        "filter.lfs.smudge=",
        "filter.lfs.process=",
        "filter.lfs.required=false",
        "submodule.recurse=false",
        "advice.detachedHead=false",
        "init.defaultBranch=main",
    ];
    command.arguments = settings.iter().flat_map(|setting| ["-c", setting]).map(str::to_owned).collect();
    command.arguments.extend(arguments.iter().map(|&argument| argument.to_owned()));
    command.dir = dir.map(Path::to_owned);
    command.timeout = Some(TIMEOUT);
    let set = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
    command.env = vec![
        set("GIT_TERMINAL_PROMPT", "0"),
        set("GIT_ALLOW_PROTOCOL", &PROTOCOLS.join(":")),
        set("LC_ALL", "C"),
    ];
    // If a git hook calls Harn, these are set for its repository.
    let own = ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"];
    command.env.extend(own.map(|name| (name.to_owned(), None)));
    let what = arguments.first().copied().unwrap_or_default();
    let finished = system.run(command).await.map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Trouble(
            "git is needed for dependencies from repositories, and there is no `git` in PATH".to_owned(),
        ),
        _ => Trouble(format!("git {what}: {e}")),
    })?;
    if finished.timed_out {
        return trouble(format!("git {what} did not end within {} minutes", TIMEOUT.as_secs() / 60));
    }
    if finished.code == Some(0) {
        return Ok(String::from_utf8_lossy(&finished.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&finished.stderr);
    let said: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).take(4).collect();
    trouble(format!("git {what} failed: {}", said.join("; ")))
}
