//! Durations from numbers and back.

use harn_value::Value;
use harn_vm::{Error, Result, builtins};

use crate::args::Given;

builtins! {
    /// Durations.
    pub(crate) static DURATIONS: "durations";

    /// Returns a duration of `n` milliseconds.
    ///
    /// ```harn
    /// println(duration_ms(1500)) // -> 1500ms
    /// ```
    Pure fn duration_ms(cx, n: Given as "int | float") -> "duration" {
        of("duration_ms", n, 1)?
    }

    /// Returns a duration of `n` seconds, rounded to milliseconds.
    ///
    /// ```harn
    /// println(duration_seconds(1.5)) // -> 1500ms
    /// ```
    Pure fn duration_seconds(cx, n: Given as "int | float") -> "duration" {
        of("duration_seconds", n, 1000)?
    }

    /// Returns a duration of `n` minutes.
    ///
    /// ```harn
    /// println(duration_minutes(2)) // -> 2m
    /// ```
    Pure fn duration_minutes(cx, n: Given as "int | float") -> "duration" {
        of("duration_minutes", n, 60_000)?
    }

    /// Returns a duration of `n` hours.
    ///
    /// ```harn
    /// println(duration_hours(1.5)) // -> 90m
    /// ```
    Pure fn duration_hours(cx, n: Given as "int | float") -> "duration" {
        of("duration_hours", n, 3_600_000)?
    }

    /// Returns a duration of `n` days.
    ///
    /// ```harn
    /// println(duration_days(1)) // -> 24h
    /// ```
    Pure fn duration_days(cx, n: Given as "int | float") -> "duration" {
        of("duration_days", n, 86_400_000)?
    }

    /// Returns the whole seconds of a duration, truncated toward zero.
    ///
    /// ```harn
    /// println([duration_to_seconds(2500ms), duration_to_seconds(1h)]) // -> [2, 3600]
    /// ```
    Pure fn duration_to_seconds(cx, d: Given as "duration") -> "int" {
        millis("duration_to_seconds", d)? / 1000
    }

    /// Formats a duration in its largest units, at most three.
    ///
    /// ```harn
    /// println(duration_to_human(194m)) // -> 3h 14m
    /// println(duration_to_human(duration_seconds(90061.5))) // -> 1d 1h 1m
    /// ```
    Pure fn duration_to_human(cx, d: Given as "duration") -> "string" {
        human(millis("duration_to_human", d)?)
    }
}

fn missing(name: &str) -> Error {
    Error::thrown(format!("{name}: missing value argument"))
}

fn of(name: &str, n: Given, unit: i64) -> Result<Value> {
    let n = n.0.ok_or_else(|| missing(name))?;
    let overflow = || Error::thrown(format!("{name}: duration overflow"));
    if let Some(n) = n.as_int() {
        return n.checked_mul(unit).map(Value::duration).ok_or_else(overflow);
    }
    let Some(n) = n.as_float() else {
        return Err(Error::thrown(format!("{name}: expected number, got {}", n.type_name())));
    };
    let ms = (n * unit as f64).round();
    if ms.abs() < 9.2e18 { Ok(Value::duration(ms as i64)) } else { Err(overflow()) }
}

fn millis(name: &str, d: Given) -> Result<i64> {
    let d = d.0.ok_or_else(|| missing(name))?;
    let wrong = || Error::thrown(format!("{name}: expected duration, got {}", d.type_name()));
    d.as_duration().ok_or_else(wrong)
}

fn human(ms: i64) -> String {
    const UNITS: [(u64, &str); 5] =
        [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms")];
    let mut rest = ms.unsigned_abs();
    let mut parts = Vec::new();
    for (unit, name) in UNITS {
        if rest >= unit && parts.len() < 3 {
            parts.push(format!("{}{name}", rest / unit));
        }
        rest %= unit;
    }
    if parts.is_empty() {
        return "0s".to_owned();
    }
    format!("{}{}", if ms < 0 { "-" } else { "" }, parts.join(" "))
}
