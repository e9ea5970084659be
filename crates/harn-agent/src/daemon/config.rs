//! The options of a daemon loop.

use harn_llm::options::Shape;
use harn_schema::options::Options;
use serde::{Deserialize, Serialize};

use crate::error::ConfigError;

/// Poll intervals of an idle daemon without a timer; the last one repeats.
pub(crate) const IDLE_WAITS_MS: [u64; 4] = [100, 500, 1000, 2000];

/// The options of a loop that waits.
#[derive(Options)]
#[options(data)]
pub struct DaemonOptions {
    /// The loop becomes idle instead of ending.
    #[option(shown = "false", dependent)]
    daemon: bool,
    /// After this many waits, the program continues as new from the snapshot. Requires `persist_path`.
    #[option(range = 1.., dependent)]
    continue_as_new_after: Option<u64>,
    /// File in which the daemon is stored.
    #[option(shape = Shape::Text, dependent)]
    persist_path: Option<String>,
    /// File from which the daemon is restored.
    #[option(shape = Shape::Text, dependent)]
    resume_path: Option<String>,
    /// Wake the daemon at this interval, in milliseconds.
    #[option(ty = "int | duration", dependent)]
    wake_interval_ms: Option<u64>,
    /// Wake the daemon when one of these paths changes.
    #[option(dependent)]
    watch_paths: Vec<String>,
    /// Compact the conversation when the daemon becomes idle.
    #[option(shown = "false", dependent)]
    consolidate_on_idle: bool,
    /// End the daemon after this many checks in a row without a reason to continue.
    #[option(dependent)]
    idle_watchdog_attempts: Option<u64>,
}

/// The settings of a daemon.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonConfig {
    /// The snapshot file.
    pub persist_path: Option<String>,
    /// The snapshot from which the daemon resumes.
    pub resume_path: Option<String>,
    /// The timer interval.
    pub wake_interval_ms: Option<u64>,
    /// Files whose changes wake the daemon.
    pub watch_paths: Vec<String>,
    /// Whether to compact older messages before the daemon becomes idle.
    pub consolidate: bool,
    /// Maximum number of consecutive idle polls; the daemon then ends.
    pub watchdog: Option<u64>,
    /// Number of waits after which the program continues as new.
    pub anew_after: Option<u64>,
}

impl DaemonConfig {
    /// Reads the options of a loop; returns `None` if the loop is not a daemon.
    ///
    /// # Errors
    /// A loop that is not a daemon has a daemon option, or `continue_as_new_after` is set without `persist_path`.
    pub(crate) fn new(given: DaemonOptions) -> Result<Option<DaemonConfig>, ConfigError> {
        if !given.daemon {
            let stray = [
                ("continue_as_new_after", given.continue_as_new_after.is_some()),
                ("persist_path", given.persist_path.is_some()),
                ("resume_path", given.resume_path.is_some()),
                ("wake_interval_ms", given.wake_interval_ms.is_some()),
                ("watch_paths", !given.watch_paths.is_empty()),
                ("consolidate_on_idle", given.consolidate_on_idle),
                ("idle_watchdog_attempts", given.idle_watchdog_attempts.is_some()),
            ];
            return match stray.iter().find(|(_, is_given)| *is_given) {
                None => Ok(None),
                Some((key, _)) => Err(ConfigError(format!("agent_loop: {key} needs daemon: true"))),
            };
        }
        if given.continue_as_new_after.is_some() && given.persist_path.is_none() {
            return Err(ConfigError("agent_loop: continue_as_new_after needs persist_path".to_owned()));
        }
        Ok(Some(DaemonConfig {
            persist_path: given.persist_path,
            resume_path: given.resume_path,
            wake_interval_ms: given.wake_interval_ms,
            watch_paths: given.watch_paths,
            consolidate: given.consolidate_on_idle,
            watchdog: given.idle_watchdog_attempts,
            anew_after: given.continue_as_new_after,
        }))
    }

    /// Returns the path for new snapshots.
    pub fn snapshot_path(&self) -> Option<&str> {
        self.persist_path.as_deref().or(self.resume_path.as_deref())
    }

    /// Returns whether a timer or a file change can wake the loop.
    pub(crate) fn wakes_itself(&self) -> bool {
        self.wake_interval_ms.is_some() || !self.watch_paths.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_schema::options::DataOptions;
    use harn_value::{Data as Json, json};

    fn read(options: Json) -> Result<Option<DaemonConfig>, String> {
        DaemonConfig::new(DaemonOptions::read(options.as_object().unwrap())?).map_err(|e| e.0)
    }

    #[test]
    fn options_of_daemons_are_no_options_of_other_loops() {
        assert_eq!(read(json!({})), Ok(None));
        assert_eq!(read(json!({"daemon": false, "watch_paths": [], "consolidate_on_idle": false})), Ok(None));
        for (key, value) in [
            ("continue_as_new_after", json!(5)),
            ("persist_path", json!("d.json")),
            ("resume_path", json!("d.json")),
            ("wake_interval_ms", json!(5)),
            ("watch_paths", json!("a")),
            ("consolidate_on_idle", json!(true)),
            ("idle_watchdog_attempts", json!(1)),
        ] {
            assert_eq!(read(json!({key: value})), Err(format!("agent_loop: {key} needs daemon: true")));
        }
    }

    #[test]
    fn a_program_begins_anew_from_a_snapshot_only() {
        let alone = read(json!({"daemon": true, "continue_as_new_after": 5}));
        assert_eq!(alone, Err("agent_loop: continue_as_new_after needs persist_path".to_owned()));
        let config = read(json!({"daemon": true, "continue_as_new_after": 5, "persist_path": "d.json"}));
        assert_eq!(config.unwrap().unwrap().anew_after, Some(5));
    }

    #[test]
    fn they_are_read() {
        let config =
            read(json!({"daemon": true, "watch_paths": "a", "wake_interval_ms": 5, "resume_path": "r"}));
        let config = config.unwrap().unwrap();
        assert_eq!(
            (config.watch_paths.as_slice(), config.wake_interval_ms),
            (["a".to_owned()].as_slice(), Some(5))
        );
        assert_eq!(config.snapshot_path(), Some("r"));
    }
}
