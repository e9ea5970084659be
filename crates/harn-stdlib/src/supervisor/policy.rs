//! Restart policies: when the task of a child is restarted, and after which delay.

/// The outcomes after which a child is restarted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    Never,
    OnFailure,
    Always,
}

impl Mode {
    /// Parses a mode.
    pub(super) fn named(word: &str) -> Option<Mode> {
        match &*normal(word) {
            "never" => Some(Mode::Never),
            "on_failure" | "failure" => Some(Mode::OnFailure),
            "always" => Some(Mode::Always),
            _ => None,
        }
    }
}

/// The children that are affected when one fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Strategy {
    OneForOne,
    OneForAll,
    RestForOne,
    EscalateToParent,
}

impl Strategy {
    /// Parses a strategy.
    pub(super) fn named(word: &str) -> Option<Strategy> {
        match &*normal(word) {
            "one_for_one" | "oneforone" => Some(Strategy::OneForOne),
            "one_for_all" | "oneforall" => Some(Strategy::OneForAll),
            "rest_for_one" | "restforone" => Some(Strategy::RestForOne),
            "escalate_to_parent" | "escalate" => Some(Strategy::EscalateToParent),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Strategy::OneForOne => "one_for_one",
            Strategy::OneForAll => "one_for_all",
            Strategy::RestForOne => "rest_for_one",
            Strategy::EscalateToParent => "escalate_to_parent",
        }
    }

    /// Returns whether a child is also restarted when another one has failed.
    pub(super) fn takes_along(self, failed: usize, other: usize) -> bool {
        match self {
            Strategy::OneForOne | Strategy::EscalateToParent => false,
            Strategy::OneForAll => other != failed,
            Strategy::RestForOne => other > failed,
        }
    }
}

/// Normalizes a name: lower case, with `_` for spaces and `-`.
fn normal(word: &str) -> String {
    word.trim().replace(['-', ' '], "_").to_lowercase()
}

/// Limits and delays of restarts. Times are in milliseconds.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Policy {
    pub(super) mode: Mode,
    /// Maximum number of failures within the window that are followed by a restart.
    pub(super) max_restarts: Option<u64>,
    /// 0: all failures are counted, regardless of their age.
    pub(super) window: u64,
    pub(super) backoff: u64,
    pub(super) max_backoff: u64,
    pub(super) factor: f64,
    pub(super) jitter: u64,
    /// Delay until a child that has failed too often is tried again.
    pub(super) circuit_open: Option<u64>,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            mode: Mode::OnFailure,
            max_restarts: None,
            window: 60_000,
            backoff: 0,
            max_backoff: 30_000,
            factor: 2.0,
            jitter: 0,
            circuit_open: None,
        }
    }
}

impl Policy {
    /// Returns the delay before the next start of the child with this index, which has been restarted `restarts` times:
    /// `min(round(backoff * factor^restarts), max(max_backoff, backoff))`, plus a deterministic jitter.
    pub(super) fn delay(&self, index: usize, restarts: u64) -> u64 {
        let grown = (self.backoff as f64 * self.factor.powf(restarts as f64)).round();
        // 0 times an infinite factor is NaN.
        let grown = if self.backoff == 0 { 0 } else { grown as u64 };
        let wait = grown.min(self.max_backoff.max(self.backoff));
        let spread = (index as u128 + 1) * 1103 + u128::from(restarts) * 9176;
        let jitter = spread % (u128::from(self.jitter) + 1);
        wait.saturating_add(u64::try_from(jitter).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_grows_up_to_its_limit() {
        let policy = Policy { backoff: 5, max_backoff: 30, ..Policy::default() };
        let waits: Vec<u64> = (0..5).map(|restarts| policy.delay(0, restarts)).collect();
        assert_eq!(waits, [5, 10, 20, 30, 30]);
        // If the first delay exceeds the limit, it is the limit.
        let policy = Policy { backoff: 50, max_backoff: 30, ..Policy::default() };
        assert_eq!([policy.delay(0, 0), policy.delay(0, 9)], [50, 50]);
    }

    #[test]
    fn waits_are_numbers_at_the_limits() {
        let endless = Policy { backoff: 5, factor: f64::MAX, ..Policy::default() };
        assert_eq!(endless.delay(0, u64::MAX), 30_000);
        assert_eq!(Policy { factor: f64::MAX, ..Policy::default() }.delay(0, 3), 0);
        let most = Policy { backoff: u64::MAX, jitter: u64::MAX, ..Policy::default() };
        assert_eq!(most.delay(usize::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn jitter_is_within_its_limit_and_differs_by_child() {
        let policy = Policy { jitter: 10, ..Policy::default() };
        let spread: Vec<u64> = (0..3).map(|index| policy.delay(index, 0)).collect();
        assert_eq!(spread, [1103 % 11, 2206 % 11, 3309 % 11]);
        assert_eq!(policy.delay(0, 2), (1103 + 2 * 9176) % 11);
    }

    #[test]
    fn words_are_read_in_any_spelling() {
        assert_eq!(Mode::named("On-Failure"), Some(Mode::OnFailure));
        assert_eq!(Mode::named("on failure"), Some(Mode::OnFailure));
        assert_eq!(Mode::named("sometimes"), None);
        assert_eq!(Strategy::named("OneForAll"), Some(Strategy::OneForAll));
        assert_eq!(Strategy::named("rest-for-one"), Some(Strategy::RestForOne));
        assert_eq!(Strategy::named("all"), None);
    }
}
