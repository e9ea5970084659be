//! Which folders the running code may touch, as the execution policies around it say.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::cx::Cx;
use crate::task_scope::TaskScope;

/// Folders, absolute; a file must lie in one of them. An empty list allows nothing.
pub type Roots = Rc<[PathBuf]>;

/// The `workspace_roots` of the policies that are active, per program ([`Cx::state`]).
#[derive(Default)]
pub struct Sandbox(TaskScope<Roots>);

impl Sandbox {
    /// The folders that the running task is limited to; `None` without a limit.
    pub fn roots(&self, cx: &Cx) -> Option<Roots> {
        self.0.current(cx)
    }
}

/// Keeps a limit in force for the running task and its children until it is dropped.
pub struct Limit {
    sandbox: Rc<Sandbox>,
    token: u64,
}

impl Limit {
    /// Limits the running task to `roots`, relative ones below the working directory. An outer limit stays
    /// in force: what is left is what both allow.
    pub fn to(cx: &Cx, roots: &[PathBuf]) -> Limit {
        let sandbox = cx.state::<Sandbox>();
        let cwd = cx.host().cwd();
        let asked = roots.iter().map(|root| normal(&cwd.join(root)));
        let allowed: Roots = match sandbox.roots(cx) {
            None => asked.collect(),
            Some(outer) => asked.flat_map(|root| narrowed(&root, &outer)).collect(),
        };
        let token = sandbox.0.open(cx, allowed);
        Limit { sandbox, token }
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        self.sandbox.0.close(self.token);
    }
}

/// The part of `root` that lies in `outer`.
fn narrowed(root: &Path, outer: &[PathBuf]) -> Vec<PathBuf> {
    if outer.iter().any(|o| root.starts_with(o)) {
        return vec![root.to_owned()];
    }
    outer.iter().filter(|o| o.starts_with(root)).cloned().collect()
}

/// A path without `.`, `..` and a slash at the end. Links are followed where a file is checked.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inner_limit_never_widens_an_outer_one() {
        let outer = [PathBuf::from("/a"), PathBuf::from("/b/c")];
        assert_eq!(narrowed(Path::new("/a/x"), &outer), [PathBuf::from("/a/x")]);
        assert_eq!(narrowed(Path::new("/b"), &outer), [PathBuf::from("/b/c")]);
        assert_eq!(narrowed(Path::new("/"), &outer), outer);
        assert_eq!(narrowed(Path::new("/ab"), &outer), [] as [PathBuf; 0]);
    }

    #[test]
    fn paths_are_compared_without_dots() {
        assert_eq!(normal(Path::new("/a/./b/../c/")), PathBuf::from("/a/c"));
        assert_eq!(normal(Path::new("/..")), PathBuf::from("/"));
    }
}
