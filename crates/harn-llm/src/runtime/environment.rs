//! Values of environment variables. One that makes no sense is told, and has no effect unless it protects.

use std::time::Duration;

use super::LlmRuntime;
use crate::config::env;

impl LlmRuntime {
    /// A switch; `None` when the variable is not set. A word that is no switch is told, and stands for `unclear`.
    fn switch(&self, name: &str, unclear: bool) -> Option<bool> {
        let value = env(self.embedder(), name)?;
        match value.to_lowercase().as_str() {
            "1" | "true" | "yes" | "on" => Some(true),
            "0" | "false" | "no" | "off" => Some(false),
            _ => {
                let taken = if unclear { 1 } else { 0 };
                self.warn_once(&format!("{name} must be 1 or 0, got `{value}`; it counts as {taken}")); // prose-ok: diagnostic
                Some(unclear)
            }
        }
    }

    /// Whether no call may reach the network. What is unclear forbids it.
    pub(super) fn calls_disabled(&self) -> bool {
        self.switch("HARN_LLM_CALLS_DISABLED", true).unwrap_or(false)
    }

    /// Whether replies are streamed unless a call says otherwise.
    pub(super) fn streams(&self) -> bool {
        self.switch("HARN_LLM_STREAM", true).unwrap_or(true)
    }

    /// A number of seconds above 0.
    pub(super) fn env_seconds(&self, name: &str) -> Option<Duration> {
        let value = env(self.embedder(), name)?;
        let seconds = value.parse::<f64>().ok().filter(|n| *n > 0.0);
        let found = seconds.and_then(|n| Duration::try_from_secs_f64(n).ok());
        self.told(name, &value, "a number of seconds above 0", found)
    }

    /// The first of several variables that is set, as a whole number of at least `least`.
    pub(super) fn env_int(&self, names: &[&str], least: i64) -> Option<i64> {
        let (name, value) =
            names.iter().find_map(|name| env(self.embedder(), name).map(|value| (*name, value)))?;
        let found = value.parse().ok().filter(|n| *n >= least);
        self.told(name, &value, &format!("a whole number of at least {least}"), found)
    }

    /// What a value was read as; tells that it was not understood.
    fn told<T>(&self, name: &str, value: &str, expected: &str, found: Option<T>) -> Option<T> {
        if found.is_none() {
            self.warn_once(&format!("{name} must be {expected}, got `{value}`; it has no effect")); // prose-ok: diagnostic
        }
        found
    }
}
