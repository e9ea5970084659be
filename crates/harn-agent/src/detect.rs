//! Loop detection: counts consecutive repetitions of the same call with the same result.

use harn_value::Data as Json;
use serde::{Deserialize, Serialize};

/// The repetitions at which loop detection acts; `warn` 0 disables it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// A hint is appended to the result.
    pub warn: u32,
    /// The result is replaced.
    pub block: u32,
    /// The call is not executed.
    pub skip: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { warn: 2, block: 3, skip: 4 }
    }
}

/// The last call and its number of consecutive repetitions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Detector {
    last: Option<(String, Json)>,
    result: String,
    count: u32,
}

/// How to handle a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Return it unchanged: it is not a repetition.
    Fresh,
    /// Append a hint.
    Warned(u32),
    /// Replace it.
    Blocked(u32),
}

impl Detector {
    fn repeats(&self, tool: &str, arguments: &Json) -> bool {
        self.last.as_ref().is_some_and(|(name, args)| name == tool && args == arguments)
    }

    /// Returns the repetition count if the call must not be executed any more.
    pub fn skips(&mut self, limits: Limits, tool: &str, arguments: &Json) -> Option<u32> {
        let count = self.count + 1;
        if limits.warn == 0 || !self.repeats(tool, arguments) || count < limits.skip {
            return None;
        }
        self.count = count;
        Some(count)
    }

    /// Records a result and returns how to handle it.
    pub fn record(&mut self, limits: Limits, tool: &str, arguments: &Json, result: &str) -> Verdict {
        if self.repeats(tool, arguments) && self.result == result {
            self.count += 1;
        } else {
            *self = Detector {
                last: Some((tool.to_owned(), arguments.clone())),
                result: result.to_owned(),
                count: 1,
            };
        }
        let count = self.count;
        if limits.warn == 0 || count < limits.warn.min(limits.block) {
            return Verdict::Fresh;
        }
        if count >= limits.block { Verdict::Blocked(count) } else { Verdict::Warned(count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    #[test]
    fn repetition_is_warned_blocked_and_skipped() {
        let (mut d, limits, args) = (Detector::default(), Limits::default(), json!({"a": 1}));
        assert_eq!(d.skips(limits, "t", &args), None);
        assert_eq!(d.record(limits, "t", &args, "same"), Verdict::Fresh);
        assert_eq!(d.skips(limits, "t", &args), None);
        assert_eq!(d.record(limits, "t", &args, "same"), Verdict::Warned(2));
        assert_eq!(d.skips(limits, "t", &args), None);
        assert_eq!(d.record(limits, "t", &args, "same"), Verdict::Blocked(3));
        assert_eq!(d.skips(limits, "t", &args), Some(4));
        assert_eq!(d.skips(limits, "t", &args), Some(5));
    }

    #[test]
    fn another_result_call_or_argument_starts_over() {
        let (mut d, limits) = (Detector::default(), Limits::default());
        let mut one = |tool: &str, args: Json, text: &str| d.record(limits, tool, &args, text);
        assert_eq!(one("t", json!({}), "a"), Verdict::Fresh);
        assert_eq!(one("t", json!({}), "b"), Verdict::Fresh);
        assert_eq!(one("t", json!({"x": 1}), "b"), Verdict::Fresh);
        assert_eq!(one("u", json!({"x": 1}), "b"), Verdict::Fresh);
        assert_eq!(one("u", json!({"x": 1}), "b"), Verdict::Warned(2));
    }

    #[test]
    fn zero_turns_it_off() {
        let (mut d, limits) = (Detector::default(), Limits { warn: 0, block: 1, skip: 1 });
        for _ in 0..9 {
            assert_eq!(d.record(limits, "t", &json!({}), "r"), Verdict::Fresh);
            assert_eq!(d.skips(limits, "t", &json!({})), None);
        }
    }
}
