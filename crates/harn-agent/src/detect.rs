//! Loop detection: how often in succession one call gave one result.

use harn_value::Data as Json;
use serde::{Deserialize, Serialize};

/// From which repetition on something is done about it; `warn` 0 turns detection off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The result gets a hint.
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

/// The last call and how often it repeated itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Detector {
    last: Option<(String, Json)>,
    result: String,
    count: u32,
}

/// What became of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing repeats.
    Fresh,
    /// The hint is appended.
    Warned(u32),
    /// The result was replaced.
    Blocked(u32),
}

impl Detector {
    fn repeats(&self, tool: &str, arguments: &Json) -> bool {
        self.last.as_ref().is_some_and(|(name, args)| name == tool && args == arguments)
    }

    /// Returns the repetition count of a call that is not to be executed any more, and the text that
    /// stands for its result.
    pub fn skips(&mut self, limits: Limits, tool: &str, arguments: &Json) -> Option<(u32, String)> {
        let count = self.count + 1;
        if limits.warn == 0 || !self.repeats(tool, arguments) || count < limits.skip {
            return None;
        }
        self.count = count;
        Some((
            count,
            format!(
                "BLOCKED: {tool}() was NOT executed (repeated {count} times identically). This call will not be executed again with these arguments. You MUST change your approach NOW." // prose-ok: contract text
            ),
        ))
    }

    /// Takes a result, and changes it when it repeats too often.
    pub fn record(&mut self, limits: Limits, tool: &str, arguments: &Json, result: &mut String) -> Verdict {
        if self.repeats(tool, arguments) && self.result == *result {
            self.count += 1;
        } else {
            *self = Detector {
                last: Some((tool.to_owned(), arguments.clone())),
                result: result.clone(),
                count: 1,
            };
        }
        let count = self.count;
        if limits.warn == 0 || count < limits.warn.min(limits.block) {
            return Verdict::Fresh;
        }
        if count >= limits.block {
            *result = format!(
                "BLOCKED: {tool}() has failed {count} times identically. You MUST use a different approach. Pick a different available tool or change your parameters." // prose-ok: contract text
            );
            return Verdict::Blocked(count);
        }
        let first = result.lines().next().unwrap_or_default();
        *result = format!(
            "{result}\n[LOOP DETECTED] This exact {tool}() call has produced the same result {count} times. The result says: \"{first}\". Try a DIFFERENT tool or DIFFERENT parameters." // prose-ok: contract text
        );
        Verdict::Warned(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    #[test]
    fn repetition_is_warned_blocked_and_skipped() {
        let (mut d, limits, args) = (Detector::default(), Limits::default(), json!({"a": 1}));
        let run = |d: &mut Detector, text: &str| {
            if let Some((_, text)) = d.skips(limits, "t", &args) {
                return text;
            }
            let mut result = text.to_owned();
            d.record(limits, "t", &args, &mut result);
            result
        };
        assert_eq!(run(&mut d, "same\nmore"), "same\nmore");
        assert!(
            run(&mut d, "same\nmore")
                .ends_with("The result says: \"same\". Try a DIFFERENT tool or DIFFERENT parameters.")
        );
        assert!(run(&mut d, "same\nmore").starts_with("BLOCKED: t() has failed 3 times identically."));
        assert!(
            run(&mut d, "never run")
                .starts_with("BLOCKED: t() was NOT executed (repeated 4 times identically).")
        );
        assert!(run(&mut d, "never run").contains("repeated 5 times"));
    }

    #[test]
    fn another_result_call_or_argument_starts_over() {
        let (mut d, limits) = (Detector::default(), Limits::default());
        let mut one = |tool: &str, args: Json, text: &str| {
            let mut result = text.to_owned();
            d.record(limits, tool, &args, &mut result)
        };
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
            let mut result = "r".to_owned();
            assert_eq!(d.record(limits, "t", &json!({}), &mut result), Verdict::Fresh);
            assert_eq!(d.skips(limits, "t", &json!({})), None);
        }
    }
}
