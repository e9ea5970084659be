//! The options of a daemon loop.

use harn_value::{Data as Json, data::Map};
use serde::{Deserialize, Serialize};

use crate::error::ConfigError;

/// Poll intervals of an idle daemon without a timer; the last one repeats.
pub(crate) const IDLE_WAITS_MS: [u64; 4] = [100, 500, 1000, 2000];

/// The options that only daemons have.
const OPTIONS: [&str; 7] = [
    "continue_as_new_after",
    "persist_path",
    "resume_path",
    "wake_interval_ms",
    "watch_paths",
    "consolidate_on_idle",
    "idle_watchdog_attempts",
];

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
    /// An option has a wrong type, or a loop that is not a daemon has a daemon option.
    pub fn from_options(options: &Map<String, Json>) -> Result<Option<DaemonConfig>, ConfigError> {
        let given = |key: &str| options.get(key).filter(|value| !value.is_null());
        if given("daemon") != Some(&Json::Bool(true)) {
            let stray = OPTIONS.into_iter().find(|key| {
                let off = |value: &&Json| {
                    **value != Json::Bool(false) && value.as_array().is_none_or(|l| !l.is_empty())
                };
                given(key).filter(off).is_some()
            });
            return match stray {
                None => Ok(None),
                Some(key) => Err(ConfigError(format!("agent_loop: {key} needs daemon: true"))),
            };
        }
        let text = |key: &str| given(key).and_then(Json::as_str).map(str::to_owned);
        let number = |key: &str| given(key).and_then(Json::as_u64);
        let watch_paths = match given("watch_paths") {
            Some(Json::String(one)) => vec![one.clone()],
            Some(Json::Array(many)) => many.iter().filter_map(Json::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        if given("continue_as_new_after").is_some() && text("persist_path").is_none() {
            return Err(ConfigError("agent_loop: continue_as_new_after needs persist_path".to_owned()));
        }
        Ok(Some(DaemonConfig {
            persist_path: text("persist_path"),
            resume_path: text("resume_path"),
            wake_interval_ms: number("wake_interval_ms"),
            watch_paths,
            consolidate: given("consolidate_on_idle") == Some(&Json::Bool(true)),
            watchdog: number("idle_watchdog_attempts"),
            anew_after: number("continue_as_new_after"),
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
    use harn_value::json;

    fn read(options: Json) -> Result<Option<DaemonConfig>, String> {
        DaemonConfig::from_options(options.as_object().unwrap()).map_err(|e| e.0)
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
