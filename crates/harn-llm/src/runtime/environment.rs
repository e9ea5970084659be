//! Parses environment variables. An invalid value is reported and ignored, unless ignoring it would be unsafe.

use std::time::Duration;

use super::LlmRuntime;
use crate::config::env;

impl LlmRuntime {
    /// Returns a boolean variable; `None` when it is not set. An invalid value is reported and treated as `unclear`.
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

    /// Returns whether network calls are disabled. An invalid value disables them.
    pub(super) fn calls_disabled(&self) -> bool {
        self.switch("HARN_LLM_CALLS_DISABLED", true).unwrap_or(false)
    }

    /// Returns whether replies are streamed by default.
    pub(super) fn streams(&self) -> bool {
        self.switch("HARN_LLM_STREAM", true).unwrap_or(true)
    }

    /// Returns a time limit: a duration in Harn syntax (`500ms`), or a number of seconds.
    pub(super) fn env_time(&self, name: &str) -> Option<Duration> {
        let value = env(self.embedder(), name)?;
        self.told(name, &value, "a duration such as 500ms or a number of seconds above 0", time(&value))
    }

    /// Returns the first variable that is set, as an integer of at least `least`.
    pub(super) fn env_int(&self, names: &[&str], least: i64) -> Option<i64> {
        let (name, value) =
            names.iter().find_map(|name| env(self.embedder(), name).map(|value| (*name, value)))?;
        let found = value.parse().ok().filter(|n| *n >= least);
        self.told(name, &value, &format!("a whole number of at least {least}"), found)
    }

    /// Returns `found`, and warns if the value was invalid.
    fn told<T>(&self, name: &str, value: &str, expected: &str, found: Option<T>) -> Option<T> {
        if found.is_none() {
            self.warn_once(&format!("{name} must be {expected}, got `{value}`; it has no effect")); // prose-ok: diagnostic
        }
        found
    }
}

/// Parses a duration greater than zero.
fn time(text: &str) -> Option<Duration> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0), ("w", 604_800.0)];
    let in_units = units.iter().find_map(|(unit, seconds)| {
        let digits = text.strip_suffix(unit).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))?;
        digits.parse::<u32>().ok().map(|n| f64::from(n) * seconds)
    });
    let seconds = in_units.or_else(|| text.parse().ok()).filter(|seconds| *seconds > 0.0)?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_time_are_durations_or_seconds() {
        let ms = |text: &str| time(text).map(|time| time.as_millis());
        assert_eq!(
            [ms("500ms"), ms("30s"), ms("5m"), ms("2h")].map(Option::unwrap),
            [500, 30_000, 300_000, 7_200_000]
        );
        assert_eq!([ms("1.5"), ms("20")].map(Option::unwrap), [1500, 20_000]);
        for wrong in ["", "ms", "0", "0s", "-1", "-5s", "1.5s", "inf", "NaN", "5 s", "abc"] {
            assert_eq!(ms(wrong), None, "{wrong}");
        }
    }
}
