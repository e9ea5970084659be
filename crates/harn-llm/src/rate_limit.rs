//! Rate limits in requests per minute, per provider: a sliding window of sixty seconds.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

const WINDOW_MS: i64 = 60_000;

/// The windows of all providers.
#[derive(Debug, Default)]
pub struct RateLimits {
    /// Limits set by the program; `None` removes the limits of the environment and the configuration.
    set: RefCell<BTreeMap<String, Option<i64>>>,
    windows: RefCell<BTreeMap<String, VecDeque<i64>>>,
}

impl RateLimits {
    /// Sets the requests per minute of a provider; zero or less removes the limit.
    pub fn set(&self, provider: &str, rpm: i64) {
        self.set.borrow_mut().insert(provider.to_string(), Some(rpm).filter(|n| *n > 0));
    }

    /// Returns the effective limit: the program's, else the environment's, else the configured one.
    pub fn get(&self, provider: &str, env: Option<i64>, configured: Option<i64>) -> Option<i64> {
        if let Some(limit) = self.set.borrow().get(provider) {
            return *limit;
        }
        env.or(configured).filter(|n| *n > 0)
    }

    /// Acquires a permit, or returns the time to wait before the next attempt.
    pub(crate) fn try_acquire(&self, provider: &str, rpm: i64, now_ms: i64) -> Result<(), Duration> {
        let mut windows = self.windows.borrow_mut();
        let window = windows.entry(provider.to_string()).or_default();
        while window.front().is_some_and(|at| now_ms - at >= WINDOW_MS) {
            window.pop_front();
        }
        let full = usize::try_from(rpm).is_ok_and(|limit| window.len() >= limit);
        match window.front() {
            Some(oldest) if full => {
                let wait = WINDOW_MS - (now_ms - oldest);
                Err(Duration::from_millis(u64::try_from(wait.max(1)).unwrap_or(1)))
            }
            _ => {
                window.push_back(now_ms);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_window_waits_for_its_oldest_entry() {
        let limits = RateLimits::default();
        assert_eq!(limits.try_acquire("p", 2, 1_000), Ok(()));
        assert_eq!(limits.try_acquire("p", 2, 2_000), Ok(()));
        assert_eq!(limits.try_acquire("p", 2, 3_000), Err(Duration::from_millis(58_000)));
        assert_eq!(limits.try_acquire("q", 2, 3_000), Ok(()));
        assert_eq!(limits.try_acquire("p", 2, 61_000), Ok(()));
    }

    #[test]
    fn the_program_outranks_environment_and_configuration() {
        let limits = RateLimits::default();
        assert_eq!(limits.get("p", None, Some(3)), Some(3));
        assert_eq!(limits.get("p", Some(0), Some(3)), None);
        limits.set("p", 9);
        assert_eq!(limits.get("p", Some(5), Some(3)), Some(9));
        limits.set("p", 0);
        assert_eq!(limits.get("p", Some(5), Some(3)), None);
    }
}
