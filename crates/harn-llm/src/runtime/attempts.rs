//! The trace of `harn run --trace`: one line per attempt at a model call, and the totals.

use std::fmt::Write;

/// The maximum number of retained lines, so that memory use of long-running programs is bounded.
const KEPT: usize = 1000;

/// A finished attempt at a model call.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Attempt {
    /// The model that was called.
    pub(crate) model: String,
    /// Prompt tokens.
    pub(crate) input_tokens: i64,
    /// Reply tokens.
    pub(crate) output_tokens: i64,
    /// Duration in milliseconds.
    pub(crate) duration_ms: i64,
    /// Cost in USD by the price list.
    pub(crate) cost_usd: f64,
    /// The failure, if the attempt failed.
    pub(crate) failure: Option<String>,
}

/// The attempts of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attempts {
    first: Vec<Attempt>,
    total: Attempt,
    answered: usize,
    failed: usize,
}

/// The totals of all attempts of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct AttemptsTotal {
    /// The number of attempts, including failed ones.
    pub calls: usize,
    /// Prompt tokens.
    pub input_tokens: i64,
    /// Reply tokens.
    pub output_tokens: i64,
    /// Total duration in milliseconds.
    pub duration_ms: i64,
    /// Total cost in USD by the price list.
    pub cost_usd: f64,
}

impl Attempts {
    /// Returns the totals.
    pub(crate) fn total(&self) -> AttemptsTotal {
        let Attempt { input_tokens, output_tokens, duration_ms, cost_usd, .. } = self.total;
        AttemptsTotal {
            calls: self.answered + self.failed,
            input_tokens,
            output_tokens,
            duration_ms,
            cost_usd,
        }
    }

    /// Adds an attempt.
    pub(crate) fn add(&mut self, attempt: Attempt) {
        let total = &mut self.total;
        total.input_tokens = total.input_tokens.saturating_add(attempt.input_tokens);
        total.output_tokens = total.output_tokens.saturating_add(attempt.output_tokens);
        total.duration_ms = total.duration_ms.saturating_add(attempt.duration_ms);
        total.cost_usd += attempt.cost_usd;
        *(if attempt.failure.is_none() { &mut self.answered } else { &mut self.failed }) += 1;
        if self.first.len() < KEPT {
            self.first.push(attempt);
        }
    }

    /// Returns the summary; `None` when no model was called.
    pub(crate) fn summary(&self) -> Option<String> {
        let made = self.answered + self.failed;
        if made == 0 {
            return None;
        }
        let mut out = "─── LLM trace ───\n".to_owned();
        // Writing to a string cannot fail.
        for (n, a) in self.first.iter().enumerate() {
            let _ = match &a.failure {
                None => {
                    let (input, output) = (a.input_tokens, a.output_tokens);
                    writeln!(
                        out,
                        "  #{}: {} | {input} in + {output} out tokens | {} ms",
                        n + 1,
                        a.model,
                        a.duration_ms
                    )
                }
                Some(reason) => {
                    writeln!(out, "  #{}: {} | failed: {reason} | {} ms", n + 1, a.model, a.duration_ms)
                }
            };
        }
        if made > self.first.len() {
            let _ = writeln!(out, "  … and {} more", made - self.first.len());
        }
        let t = &self.total;
        let calls = if self.answered == 1 { "call" } else { "calls" };
        let failed = if self.failed > 0 { format!(" ({} failed)", self.failed) } else { String::new() };
        let _ = writeln!(
            out,
            "  {} {calls}{failed}, {} tokens ({}in + {}out), {} ms, ~${:.4}",
            self.answered,
            t.input_tokens.saturating_add(t.output_tokens),
            t.input_tokens,
            t.output_tokens,
            t.duration_ms,
            t.cost_usd
        );
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(model: &str) -> Attempt {
        Attempt {
            model: model.into(),
            input_tokens: 6,
            output_tokens: 30,
            duration_ms: 12,
            cost_usd: 0.00052,
            failure: None,
        }
    }

    #[test]
    fn one_call_reads_as_the_contract_says() {
        let mut all = Attempts::default();
        assert_eq!(all.summary(), None);
        all.add(answered("m"));
        assert_eq!(
            all.summary().unwrap(),
            "─── LLM trace ───\n  #1: m | 6 in + 30 out tokens | 12 ms\n  1 call, 36 tokens (6in + 30out), 12 ms, ~$0.0005\n"
        );
    }

    #[test]
    fn failures_and_long_runs_are_told() {
        let mut all = Attempts::default();
        all.add(Attempt { failure: Some("rate_limit".into()), ..answered("m") });
        for _ in 0..KEPT {
            all.add(answered("n"));
        }
        let text = all.summary().unwrap();
        assert!(text.contains("  #1: m | failed: rate_limit | 12 ms\n"), "{text}");
        assert!(text.contains("\n  … and 1 more\n  1000 calls (1 failed), "), "{text}");
    }
}
