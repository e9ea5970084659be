//! How a submitted program is retried: `@retry` of its pipeline, and `[runs]` of the manifest.

use std::time::Duration;

use harn_syntax::Span;
use harn_syntax::ast::{AttrValue, Attribute, Program};
use harn_syntax::suggest::close;

/// How often and when a failed run is retried. `None`: not decided here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of retries.
    pub retries: Option<u64>,
    /// How the delay grows: `exponential`, `linear` or `fixed`.
    pub backoff: Option<String>,
    /// The delay before the first retry.
    pub delay: Option<Duration>,
    /// The longest delay.
    pub max_delay: Option<Duration>,
}

/// Maximum number of retries of a run.
pub(crate) const MOST_RETRIES: u64 = 1_000;

/// How a delay may grow.
pub(crate) const BACKOFFS: [&str; 3] = ["exponential", "linear", "fixed"];

/// The arguments of `@retry`.
const ARGUMENTS: [&str; 4] = ["retries", "backoff", "delay", "max_delay"];

impl RetryPolicy {
    /// Takes what this policy does not decide from another one.
    #[must_use]
    pub fn or(self, other: RetryPolicy) -> RetryPolicy {
        RetryPolicy {
            retries: self.retries.or(other.retries),
            backoff: self.backoff.or(other.backoff),
            delay: self.delay.or(other.delay),
            max_delay: self.max_delay.or(other.max_delay),
        }
    }

    /// Reads `@retry` of the pipeline that a program runs.
    ///
    /// # Errors
    /// The place and the message of the first wrong argument.
    pub fn of_program(program: &Program) -> Result<RetryPolicy, (Span, String)> {
        let entry = program.entry_pipeline();
        let attr = entry.and_then(|(decl, _)| decl.attrs.iter().find(|attr| attr.name.name == "retry"));
        attr.map_or_else(|| Ok(RetryPolicy::default()), RetryPolicy::of_attribute)
    }

    /// Reads the arguments of `@retry`.
    pub(crate) fn of_attribute(attr: &Attribute) -> Result<RetryPolicy, (Span, String)> {
        let mut policy = RetryPolicy::default();
        let mut seen: Vec<&str> = Vec::new();
        for arg in &attr.args {
            let wrong = |message: String| Err((arg.span, message));
            let Some(name) = arg.name.as_ref().map(|name| name.name.as_str()) else {
                return wrong("the arguments of `@retry` have names, such as `retries: 5`".to_owned());
            };
            if seen.contains(&name) {
                return wrong(format!("duplicate argument `{name}` of `@retry`"));
            }
            seen.push(name);
            let must = |what: &str| wrong(format!("`{name}` of `@retry` must be {what}"));
            match (name, &arg.value) {
                ("retries", AttrValue::Int(count)) if (0..=MOST_RETRIES as i64).contains(count) => {
                    policy.retries = Some(count.unsigned_abs());
                }
                ("retries", _) => return must("a number from 0 to 1000"),
                ("backoff", AttrValue::Str(kind) | AttrValue::Name(kind))
                    if BACKOFFS.contains(&kind.as_str()) =>
                {
                    policy.backoff = Some(kind.to_string());
                }
                ("backoff", _) => return must("\"exponential\", \"linear\" or \"fixed\""),
                ("delay", AttrValue::Duration(ms)) => policy.delay = Some(duration(*ms)),
                ("max_delay", AttrValue::Duration(ms)) => policy.max_delay = Some(duration(*ms)),
                ("delay" | "max_delay", _) => return must("a duration such as `2s`"),
                _ => {
                    let hint = close(name, ARGUMENTS).map_or_else(
                        || "expected `retries`, `backoff`, `delay` or `max_delay`".to_owned(),
                        |near| format!("did you mean `{near}`?"),
                    );
                    return wrong(format!("`@retry` takes no argument `{name}`; {hint}"));
                }
            }
        }
        match policy.retries {
            Some(_) => Ok(policy),
            None => Err((attr.span, "`@retry` needs `retries`, such as `@retry(retries: 5)`".to_owned())),
        }
    }
}

fn duration(ms: i64) -> Duration {
    Duration::from_millis(ms.unsigned_abs())
}
