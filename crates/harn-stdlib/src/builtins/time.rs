//! Clocks, sleeping, timers, and the mock clock.

use std::time::Duration;

use harn_value::{Dict, Value};
use harn_vm::builtin::Text;
use harn_vm::{Cx, Error, Result, builtins};

use crate::args::{Given, Millis, Wait, printed};
use crate::state::{MockTime, State, monotonic_ms, now_ms};

builtins! {
    /// Clocks.
    pub(crate) static TIME: "time";

    /// Returns the wall-clock time in seconds since 1970.
    ///
    /// ```harn
    /// mock_time(1500)
    /// println(timestamp()) // -> 1.5
    /// ```
    Clock fn timestamp(cx) -> "float" {
        now_ms(cx) as f64 / 1000.0
    }

    /// Returns the wall-clock time in milliseconds since 1970.
    ///
    /// ```harn
    /// mock_time(1500)
    /// println(now_ms()) // -> 1500
    /// ```
    Clock fn now = "now_ms"(cx) -> "int" {
        now_ms(cx)
    }

    /// Returns milliseconds since an arbitrary point in time; never decreases.
    ///
    /// ```harn
    /// let start = monotonic_ms()
    /// println(monotonic_ms() >= start) // -> true
    /// ```
    Clock fn monotonic = "monotonic_ms"(cx) -> "int" {
        monotonic_ms(cx)
    }

    /// Returns milliseconds since an arbitrary point in time; an alias of `monotonic_ms`.
    ///
    /// ```harn
    /// let start = elapsed()
    /// println(elapsed() >= start) // -> true
    /// ```
    Clock fn elapsed(cx) -> "int" {
        monotonic_ms(cx)
    }

    /// Waits for a duration or a number of milliseconds.
    ///
    /// Zero or no argument returns at once. Other tasks run in the meantime.
    ///
    /// ```harn
    /// println(sleep(1ms)) // -> nil
    /// ```
    Clock async fn sleep(cx, time: Wait) -> "nil" {
        pause(&cx, time.0).await?;
    }

    /// Waits for a number of milliseconds; a mocked clock is advanced instead, without waiting.
    ///
    /// ```harn
    /// mock_time(0)
    /// sleep_ms(250)
    /// println(now_ms()) // -> 250
    /// ```
    Clock async fn sleep_ms(cx, ms: Millis as "duration | int") -> "nil" {
        let ms = ms.0.unwrap_or(0);
        if cx.state::<State>().mock_time.get().is_some() {
            advance(&cx, ms);
        } else {
            pause(&cx, ms as f64).await?;
        }
    }

    /// Freezes the wall clock at a time in milliseconds and the monotonic clock at 0.
    ///
    /// `sleep` and deadlines keep using real time.
    ///
    /// ```harn
    /// mock_time(1000)
    /// println([now_ms(), monotonic_ms()]) // -> [1000, 0]
    /// ```
    State fn mock_time(cx, ms: i64) -> "nil" {
        cx.state::<State>().mock_time.set(Some(MockTime { wall_ms: ms, monotonic_ms: 0 }));
    }

    /// Advances both mocked clocks and returns the wall-clock time.
    ///
    /// ```harn
    /// mock_time(1000)
    /// println(advance_time(500)) // -> 1500
    /// ```
    State fn advance_time(cx, ms: Millis as "duration | int") -> "int" {
        match advance(cx, ms.0.unwrap_or(0)) {
            Some(now) => now,
            None => return Err(Error::thrown("advance_time: no mock active. Call mock_time(ms) first.")),
        }
    }

    /// Restores the real clocks.
    ///
    /// ```harn
    /// mock_time(0)
    /// unmock_time()
    /// println(now_ms() > 0) // -> true
    /// ```
    State fn unmock_time(cx) -> "nil" {
        cx.state::<State>().mock_time.set(None);
    }

    /// Starts a timer: `{name, start_ms}`.
    ///
    /// ```harn
    /// println(timer_start("load").name) // -> load
    /// ```
    Clock fn timer_start(cx, name: Text = "default") -> "dict" {
        let start = cx.system().monotonic().as_millis() as i64;
        [("name", Value::str(&name)), ("start_ms", Value::int(start))].into_iter().collect::<Dict>()
    }

    /// Stops a timer: prints `[timer] NAME: Nms` and returns the milliseconds.
    ///
    /// ```harn
    /// println(try { timer_end(1) }) // -> Result.Err(timer_end: argument must be a timer dict from timer_start)
    /// ```
    Clock fn timer_end(cx, timer: Given) -> "int" {
        let timer = timer.or_nil();
        let parts = timer.as_dict().and_then(|d| Some((d.get_str("name")?, d.get_str("start_ms")?.as_int()?)));
        let Some((name, start)) = parts else {
            return Err(Error::thrown("timer_end: argument must be a timer dict from timer_start"));
        };
        let ms = cx.system().monotonic().as_millis() as i64 - start;
        cx.print(&format!("[timer] {}: {ms}ms\n", printed(name)))?;
        ms
    }
}

async fn pause(cx: &Cx, ms: f64) -> Result<()> {
    // Longer than the maximum of a tokio timer is practically forever.
    const LONGEST: f64 = 1e12;
    if ms > 0.0 { cx.sleep(Duration::from_secs_f64(ms.min(LONGEST) / 1000.0)).await } else { Ok(()) }
}

fn advance(cx: &Cx, ms: i64) -> Option<i64> {
    let state = cx.state::<State>();
    let mock = state.mock_time.get()?;
    let wall_ms = mock.wall_ms.saturating_add(ms);
    let monotonic_ms = mock.monotonic_ms.saturating_add(ms);
    state.mock_time.set(Some(MockTime { wall_ms, monotonic_ms }));
    Some(wall_ms)
}
