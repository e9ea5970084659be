//! Environment variables that differ from those of the process.

use std::io;
use std::rc::Rc;

use harn_system::{Command, Finished, Layer, System, Waiting};

/// The variable with the task.
const TASK: &str = "HARN_TASK";

/// A system with additional environment variables, which its child processes inherit.
pub(crate) struct Surroundings {
    inner: Rc<dyn System>,
    env: Vec<(&'static str, String)>,
}

impl Surroundings {
    /// Adds variables to a system.
    pub(crate) fn new(inner: Rc<dyn System>, env: Vec<(&'static str, String)>) -> Surroundings {
        Surroundings { inner, env }
    }
}

/// Returns the environment variable with the task.
pub(crate) fn task_variable(task: &str) -> (&'static str, String) {
    (TASK, task.to_owned())
}

/// Returns the system of a program with this task.
pub(crate) fn with_task(system: Rc<dyn System>, task: Option<&str>) -> Rc<dyn System> {
    match task {
        Some(task) => Rc::new(Surroundings::new(system, vec![task_variable(task)])),
        None => system,
    }
}

impl Layer for Surroundings {
    fn inner(&self) -> &dyn System {
        &*self.inner
    }

    fn env(&self, name: &str) -> Option<String> {
        let own = self.env.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
        own.or_else(|| self.inner.env(name))
    }

    fn run(&self, mut command: Command) -> Waiting<'_, io::Result<Finished>> {
        if !command.clear_env {
            let given = |name: &str| command.env.iter().any(|(known, _)| known == name);
            let own = self.env.iter().filter(|(name, _)| !given(name));
            let own: Vec<_> = own.map(|(name, value)| ((*name).to_owned(), Some(value.clone()))).collect();
            command.env.extend(own);
        }
        self.inner.run(command)
    }
}

#[cfg(test)]
mod tests {
    use harn_system::Memory;

    use super::*;

    #[test]
    fn a_task_is_in_the_environment() {
        let system = with_task(Rc::new(Memory::new()), Some("abc"));
        assert_eq!(system.env("HARN_TASK").as_deref(), Some("abc"));
        assert_eq!(system.env("HARN_OTHER"), None);
        assert_eq!(with_task(Rc::new(Memory::new()), None).env("HARN_TASK"), None);
    }
}
