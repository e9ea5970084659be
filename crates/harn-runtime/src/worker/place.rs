//! The execution context of work: directory, environment and working tree.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use harn_agent::lifecycle::{Cleanup, Execution, Worktree};
use harn_stdlib::state_place;
use harn_system::{Command, Finished, Layer, PeerRequest, Refusal, System, SystemExt, Waiting};
use harn_vm::{Cx, Error};

/// A system layer with a different working directory and environment.
struct Place {
    inner: Rc<dyn System>,
    cwd: Option<PathBuf>,
    env: BTreeMap<String, String>,
}

impl Layer for Place {
    fn inner(&self) -> &dyn System {
        &*self.inner
    }

    fn cwd(&self) -> io::Result<PathBuf> {
        self.cwd.clone().map_or_else(|| self.inner.cwd(), Ok)
    }

    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned().or_else(|| self.inner.env(name))
    }

    fn run(&self, mut command: Command) -> Waiting<'_, io::Result<Finished>> {
        self.settle(&mut command);
        self.inner.run(command)
    }

    fn ask_peer(&self, mut request: PeerRequest) -> Waiting<'_, io::Result<Vec<u8>>> {
        self.settle(&mut request.peer.command);
        self.inner.ask_peer(request)
    }
}

impl Place {
    /// Applies the directory and environment to a command.
    fn settle(&self, command: &mut Command) {
        if command.dir.is_none() {
            command.dir.clone_from(&self.cwd);
        }
        if !command.clear_env {
            // Variables of the command itself come last and take precedence.
            let own = self.env.iter().map(|(name, value)| (name.clone(), Some(value.clone())));
            command.env = own.chain(std::mem::take(&mut command.env)).collect();
        }
    }
}

/// Returns the system layer of an execution.
pub(crate) fn layer(inner: Rc<dyn System>, execution: &Execution) -> Rc<dyn System> {
    let tree = execution.worktree.as_ref().and_then(|tree| tree.path.clone());
    let cwd = tree.or_else(|| execution.cwd.clone()).map(PathBuf::from);
    Rc::new(Place { inner, cwd, env: execution.env.clone() })
}

/// Makes relative paths absolute, and checks that the directories exist. Assigns a path to a working tree.
///
/// # Errors
/// A path is not a directory.
pub(crate) fn settle(cx: &Cx, execution: &mut Execution, id: &str) -> Result<(), String> {
    let system = cx.system();
    let work = system.work_dir();
    let absolute = |path: &str| work.join(path).to_string_lossy().into_owned();
    if let Some(cwd) = &mut execution.cwd {
        *cwd = absolute(cwd);
        match system.facts(Path::new(cwd)) {
            Ok(facts) if facts.is_dir() => {}
            Ok(_) => return Err(format!("execution.cwd is no folder: {cwd}")),
            Err(error) => match Refusal::of(&error) {
                Some(refusal) => return Err(format!("execution.cwd {refusal}")),
                None => return Err(format!("execution.cwd is no folder: {cwd}")),
            },
        }
    }
    if let Some(tree) = &mut execution.worktree {
        tree.repo = absolute(&tree.repo);
        let chosen = || state_place(cx, "HARN_WORKTREE_DIR", "worktrees").join(id);
        tree.path = Some(match &tree.path {
            Some(path) => absolute(path),
            None => work.join(chosen()).to_string_lossy().into_owned(),
        });
    }
    Ok(())
}

/// Creates the working tree if it does not exist, with the rights of the running task.
///
/// # Errors
/// The error message of git.
pub(crate) async fn prepare(cx: &Cx, execution: &Execution) -> Result<(), String> {
    let Some(tree) = &execution.worktree else { return Ok(()) };
    let Some(path) = &tree.path else { return Ok(()) };
    let system = cx.system();
    // The git process is not subject to the task's permissions, so check them here.
    system.check_write(Path::new(path)).map_err(|error| format!("execution.worktree: {error}"))?;
    if system.exists(&Path::new(path).join(".git")) {
        return Ok(());
    }
    let named = format!("refs/heads/{}", tree.branch);
    let there = git(cx, tree, &["show-ref", "--verify", "--quiet", &named]).await.is_ok();
    let made = if there {
        git(cx, tree, &["worktree", "add", "--force", path, &tree.branch]).await
    } else {
        git(cx, tree, &["worktree", "add", "-b", &tree.branch, path, &tree.base_ref]).await
    };
    made.map_err(|why| format!("execution.worktree: {why}"))
}

/// The working tree of running work. If it is temporary, it is removed when the work ends: with git if there is time,
/// or else directly, when the task is stopped. It remains if the process ends, for a process that resumes the work.
pub(crate) struct Tree {
    cx: Cx,
    execution: Execution,
    /// The number of active deadlines when the work began.
    deadlines: usize,
    /// Whether a stop removes it.
    armed: bool,
    made: Option<Made>,
}

/// An existing working tree: its directory, and its metadata in the repository. It is determined before the work
/// begins, because git may leave either of them if it is stopped while it removes a tree.
pub(crate) struct Made {
    folder: PathBuf,
    entry: PathBuf,
}

impl Tree {
    /// Creates the tree if it does not exist; see [`prepare`].
    ///
    /// # Errors
    /// The error message of git.
    pub(crate) async fn make(cx: &Cx, execution: &Execution) -> Result<Tree, String> {
        let path = removed_later(execution);
        let there = path.is_some_and(|path| cx.system().exists(path));
        let (cx, deadlines) = (cx.clone(), cx.task().deadline_count());
        let mut tree = Tree { cx, execution: execution.clone(), deadlines, armed: !there, made: None };
        if let Err(why) = prepare(&tree.cx, execution).await {
            // Remove what git has left unfinished, but not a directory that existed before.
            if tree.armed {
                remove_now(&tree.cx, made(&tree.cx, execution));
            }
            tree.armed = false;
            return Err(why);
        }
        tree.armed = true;
        tree.made = made(&tree.cx, execution);
        Ok(tree)
    }

    /// Ends the work and removes a temporary tree. An error of the work takes precedence over one of git.
    ///
    /// # Errors
    /// The error of the work, or else the error message of git.
    pub(crate) async fn close<T>(
        mut self,
        ended: harn_vm::Result<T>,
        told: impl Fn(String) -> Error,
    ) -> harn_vm::Result<T> {
        let cleaned = clean_up(&self.cx, &self.execution).await;
        self.armed = cleaned.is_err();
        match (ended, cleaned) {
            (ended, Ok(())) => ended,
            (Ok(_), Err(why)) => Err(told(why)),
            (Err(error), Err(why)) => {
                warn(&self.cx, &why);
                Err(error)
            }
        }
    }

    /// Leaves the tree to work that continues elsewhere.
    pub(crate) fn hand_on(mut self) {
        self.armed = false;
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let task = self.cx.task();
        if self.armed && (task.is_aborted() || task.interrupted_since(self.deadlines)) {
            remove_now(&self.cx, self.made.take().or_else(|| made(&self.cx, &self.execution)));
        }
    }
}

/// Warns that the cleanup failed.
pub(crate) fn warn(cx: &Cx, why: &str) {
    cx.system().write_err(&harn_syntax::notice(&format!("warning: execution.worktree: {why}")));
}

/// Returns the directory of a temporary working tree.
fn removed_later(execution: &Execution) -> Option<&Path> {
    let tree = execution.worktree.as_ref().filter(|tree| tree.cleanup == Cleanup::Remove)?;
    tree.path.as_deref().map(Path::new)
}

/// Removes a temporary working tree. Its branch remains, so that commits are not lost.
///
/// # Errors
/// The error message of git.
pub(crate) async fn clean_up(cx: &Cx, execution: &Execution) -> Result<(), String> {
    let (Some(path), Some(tree)) = (removed_later(execution), &execution.worktree) else { return Ok(()) };
    if !cx.system().exists(path) {
        return Ok(());
    }
    git(cx, tree, &["worktree", "remove", "--force", &path.to_string_lossy()]).await
}

/// Finds the temporary working tree of an execution. Only a directory that git itself registers as a working tree is
/// accepted.
pub(crate) fn made(cx: &Cx, execution: &Execution) -> Option<Made> {
    let folder = removed_later(execution)?;
    let system = cx.system();
    let link = folder.join(".git");
    if !system.is_file(&link) {
        return None;
    }
    let text = system.read_text(&link, MAX_LINK).ok()?;
    let entry = PathBuf::from(text.strip_prefix("gitdir: ")?.trim_end());
    let parent = entry.parent().and_then(Path::file_name)?;
    (parent == "worktrees").then(|| Made { folder: folder.to_owned(), entry })
}

/// Like [`clean_up`], without waiting: a stopped task cannot start programs.
pub(crate) fn remove_now(cx: &Cx, made: Option<Made>) {
    let system = cx.system();
    for gone in made.iter().flat_map(|made| [&made.folder, &made.entry]) {
        // Programs that were stopped with the work may still be writing, so try twice.
        let removed = system.remove(gone).or_else(|_| system.remove(gone));
        if let Err(error) = removed
            && error.kind() != io::ErrorKind::NotFound
        {
            warn(cx, &format!("{} cannot be removed: {error}", gone.display()));
        }
    }
}

/// Maximum size of the file that contains the path of a working tree's repository.
const MAX_LINK: u64 = 16 << 10;

async fn git(cx: &Cx, tree: &Worktree, arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new("git");
    command.arguments = ["-C", &tree.repo].iter().chain(arguments).map(|part| (*part).to_owned()).collect();
    command.dir = Some(cx.system().work_dir());
    let ran = cx.system().run(command).await;
    let ran = ran.map_err(|e| format!("cannot run git: {e}"))?;
    if ran.code == Some(0) {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    let said = said.trim();
    let word = arguments.iter().take(2).copied().collect::<Vec<_>>().join(" ");
    Err(format!("git {word}: {}", if said.is_empty() { "failed" } else { said }))
}
