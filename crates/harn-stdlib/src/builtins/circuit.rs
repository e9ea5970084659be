//! Circuit breakers: named counters that block calls after repeated failures.

use std::cell::RefCell;

use harn_vm::builtin::Text;
use harn_vm::{Cx, Error, builtins};
use rustc_hash::FxHashMap;

use crate::args::{Int, Millis};

builtins! {
    /// Circuit breakers.
    pub(crate) static CIRCUITS: "circuits";

    /// Creates or resets a circuit breaker and returns its name.
    ///
    /// It opens after `threshold` (5) failures and becomes half-open after `reset_ms` (30000), a duration or
    /// milliseconds.
    ///
    /// ```harn
    /// circuit_breaker("api", 1)
    /// println([circuit_record_failure("api"), circuit_check("api")]) // -> [true, open]
    /// ```
    State fn circuit_breaker(cx, name: Text = "default", threshold: Int, reset_ms: Millis) -> "string" {
        if threshold.or(5) < 1 {
            return Err(Error::runtime("circuit_breaker: threshold must be at least 1"));
        }
        let breaker = Breaker { threshold: threshold.or(5), reset_ms: reset_ms.0.unwrap_or(30_000), failures: 0, opened: None };
        cx.state::<Breakers>().0.borrow_mut().insert(name.to_string(), breaker);
        name.0
    }

    /// Returns the state of a breaker: `closed`, `open` or `half_open`.
    ///
    /// ```harn
    /// println(circuit_check("unknown")) // -> closed
    /// ```
    State fn circuit_check(cx, name: Text) -> "string" {
        let now = now(cx);
        let breakers = cx.state::<Breakers>();
        let breakers = breakers.0.borrow();
        breakers.get(&*name).map_or("closed", |breaker| breaker.state(now))
    }

    /// Records a failure; returns true only if this failure opens the breaker.
    ///
    /// ```harn
    /// circuit_breaker("api", 2)
    /// println([circuit_record_failure("api"), circuit_record_failure("api")]) // -> [false, true]
    /// ```
    State fn circuit_record_failure(cx, name: Text) -> "bool" {
        let now = now(cx);
        let breakers = cx.state::<Breakers>();
        let mut breakers = breakers.0.borrow_mut();
        breakers.get_mut(&*name).is_some_and(|breaker| breaker.fail(now))
    }

    /// Records a success: closes the breaker and resets its failure counter.
    ///
    /// ```harn
    /// circuit_breaker("api", 1)
    /// circuit_record_failure("api")
    /// circuit_record_success("api")
    /// println(circuit_check("api")) // -> closed
    /// ```
    State fn circuit_record_success(cx, name: Text) -> "nil" {
        close(cx, &name);
    }

    /// Closes a breaker and resets its failure counter.
    ///
    /// ```harn
    /// circuit_breaker("api", 1)
    /// circuit_record_failure("api")
    /// circuit_reset("api")
    /// println(circuit_check("api")) // -> closed
    /// ```
    State fn circuit_reset(cx, name: Text) -> "nil" {
        close(cx, &name);
    }
}

/// The circuit breakers of a program.
#[derive(Default)]
struct Breakers(RefCell<FxHashMap<String, Breaker>>);

struct Breaker {
    threshold: i64,
    reset_ms: i64,
    failures: i64,
    /// The time when it opened, in milliseconds of the monotonic clock.
    opened: Option<i64>,
}

impl Breaker {
    fn state(&self, now: i64) -> &'static str {
        match self.opened {
            None => "closed",
            Some(at) if now - at >= self.reset_ms => "half_open",
            Some(_) => "open",
        }
    }

    fn fail(&mut self, now: i64) -> bool {
        self.failures = self.failures.saturating_add(1);
        let opens = match self.state(now) {
            "closed" => self.failures >= self.threshold,
            state => state == "half_open",
        };
        if opens {
            self.opened = Some(now);
        }
        opens
    }
}

fn now(cx: &Cx) -> i64 {
    crate::state::monotonic_ms(cx)
}

fn close(cx: &Cx, name: &str) {
    if let Some(breaker) = cx.state::<Breakers>().0.borrow_mut().get_mut(name) {
        breaker.failures = 0;
        breaker.opened = None;
    }
}
