//! Standard output and structured log lines.

use harn_value::{Value, View};
use harn_vm::builtin::{Rest, Text};
use harn_vm::{Cx, Error, Result, builtins};

use crate::args::spaced;
use crate::state::State;

builtins! {
    /// Program output.
    pub(crate) static OUTPUT: "output";

    /// Writes the printed forms of all arguments, separated by spaces, without a newline.
    ///
    /// ```harn
    /// print("a")
    /// print(1.0)
    /// println("!") // -> a1.0!
    /// ```
    Output fn print(cx, values: Rest) -> "nil" {
        match &values.0[..] {
            [value] => write_value(cx, value)?,
            values => cx.print(&spaced(values))?,
        }
    }

    /// Writes the printed forms of all arguments, separated by spaces, and a newline.
    ///
    /// ```harn
    /// println([1, "a", nil]) // -> [1, a, nil]
    /// println("a", 1) // -> a 1
    /// ```
    Output fn println(cx, values: Rest) -> "nil" {
        match &values.0[..] {
            [value] if value.as_str().is_some() => {
                write_value(cx, value)?;
                cx.print("\n")?;
            }
            values => {
                let mut line = spaced(values);
                line.push('\n');
                cx.print(&line)?;
            }
        }
    }

    /// Writes `[harn] `, the printed forms of all arguments, separated by spaces, and a newline.
    ///
    /// Only the first line of a multi-line message gets the prefix. The logarithm functions are `ln`, `log2`
    /// and `log10`.
    ///
    /// ```harn
    /// log("ready") // -> [harn] ready
    /// ```
    Output fn log(cx, values: Rest) -> "nil" {
        cx.print(&format!("[harn] {}\n", spaced(&values.0)))?;
    }

    /// Asks a question on standard output and reads one line of input.
    ///
    /// Returns the line without trailing whitespace, or nil at the end of standard input. Input that is not UTF-8 is an
    /// error.
    ///
    /// ```harn
    /// mock_stdin("Ada\n")
    /// println(prompt_user("name? ")) // -> name? Ada
    /// ```
    Human async fn prompt_user(cx, message: Text) -> "string | nil" {
        cx.print(&message)?;
        let _ = cx.system().flush();
        super::terminal::next_line(&cx, "prompt_user").await?.map(|line| line.trim_end().to_owned())
    }
}

fn write_value(cx: &Cx, value: &Value) -> Result<()> {
    match value.as_str() {
        Some(text) => cx.print(text),
        None => {
            let mut text = String::new();
            harn_value::print(value, &mut text);
            cx.print(&text)
        }
    }
}

const LEVELS: [&str; 4] = ["debug", "info", "warn", "error"];

builtins! {
    /// Structured log lines and progress.
    pub(crate) static LOGGING: "logging";

    /// Writes a log line of level `debug` as one JSON object.
    ///
    /// Its keys are `ts`, `level`, `msg` and then the fields in key order.
    ///
    /// ```harn
    /// log_set_level("info")
    /// log_debug("hidden")
    /// println("done") // -> done
    /// ```
    Output fn log_debug(cx, message: Text, fields: Value as "dict?") -> "nil" {
        log_line(cx, 0, &message, &fields)?;
    }

    /// Writes a log line of level `info` as one JSON object.
    ///
    /// Its keys are `ts`, `level`, `msg` and then the fields in key order.
    ///
    /// ```harn
    /// log_set_level("warn")
    /// log_info("saved", {count: 3})
    /// println("done") // -> done
    /// ```
    Output fn log_info(cx, message: Text, fields: Value as "dict?") -> "nil" {
        log_line(cx, 1, &message, &fields)?;
    }

    /// Writes a log line of level `warn` as one JSON object.
    ///
    /// Its keys are `ts`, `level`, `msg` and then the fields in key order.
    ///
    /// ```harn
    /// log_set_level("error")
    /// log_warn("slow", {ms: 1200})
    /// println("done") // -> done
    /// ```
    Output fn log_warn(cx, message: Text, fields: Value as "dict?") -> "nil" {
        log_line(cx, 2, &message, &fields)?;
    }

    /// Writes a log line of level `error` as one JSON object.
    ///
    /// Its keys are `ts`, `level`, `msg` and then the fields in key order. It is written at every
    /// log level.
    ///
    /// ```harn
    /// fn save(ok) { if !ok { log_error("not saved", {file: "a.txt"}) } }
    /// save(true)
    /// println("done") // -> done
    /// ```
    Output fn log_error(cx, message: Text, fields: Value as "dict?") -> "nil" {
        log_line(cx, 3, &message, &fields)?;
    }

    /// Sets the minimum level of log lines.
    ///
    /// The levels are `debug` (the default), `info`, `warn` and `error`.
    ///
    /// ```harn
    /// println(try { log_set_level("loud") }) // -> Result.Err(log_set_level: invalid level 'loud'. Expected debug, info, warn, or error)
    /// ```
    State fn log_set_level(cx, level: Text) -> "nil" {
        let Some(index) = LEVELS.iter().position(|l| *l == &*level) else {
            return Err(Error::thrown(format!(
                "log_set_level: invalid level '{}'. Expected debug, info, warn, or error",
                &*level
            )));
        };
        cx.state::<State>().log_level.set(index);
    }

    /// Writes the JSON object `{ts, key, value}` as a line, regardless of the log level.
    ///
    /// ```harn
    /// fn trace(on, v) { if on { log_json("step", v) } }
    /// trace(false, 1)
    /// println("done") // -> done
    /// ```
    Output fn log_json(cx, key: Text, value: Value) -> "nil" {
        let mut line = String::from("{\"ts\":");
        harn_value::json::write_string(&super::dates::iso_millis(cx.system().now_ms()), &mut line);
        line.push_str(",\"key\":");
        harn_value::json::write_string(&key, &mut line);
        line.push_str(",\"value\":");
        write_field(&value, &mut line);
        line.push_str("}\n");
        cx.print(&line)?;
    }

    /// Writes one line with the progress of a phase: `[phase] message (3/10)`.
    ///
    /// The arguments after the message are a percentage, current and total, a dict `{mode: "spinner", step}`
    /// or `{mode: "bar", current, total, width}`, or missing. Only ints count as numbers.
    ///
    /// ```harn
    /// progress("load", "files", 3, 10) // -> [load] files (3/10)
    /// progress("load", "files", {mode: "bar", current: 3, total: 10}) // -> [load] [###-------] files (3/10)
    /// ```
    Output fn progress(cx, phase: Text, message: Text, numbers: Rest) -> "nil" {
        cx.print(&progress_line(&phase, &message, &numbers.0))?;
    }
}

/// Writes a log line, unless its level is disabled.
pub(super) fn log_line(cx: &Cx, level: usize, message: &str, fields: &Value) -> Result<()> {
    if level < cx.state::<State>().log_level.get() {
        return Ok(());
    }
    let mut line = String::from("{\"ts\":");
    harn_value::json::write_string(&super::dates::iso_millis(cx.system().now_ms()), &mut line);
    line.push_str(",\"level\":");
    harn_value::json::write_string(LEVELS[level], &mut line);
    line.push_str(",\"msg\":");
    harn_value::json::write_string(message, &mut line);
    if let Some((trace_id, span_id)) = cx.state::<State>().open_span() {
        line.push_str(&format!(",\"trace_id\":\"{trace_id}\",\"span_id\":\"{span_id}\""));
    }
    if let Some(fields) = fields.as_dict() {
        for (key, value) in fields.iter() {
            line.push(',');
            harn_value::json::write_string(key, &mut line);
            line.push(':');
            write_field(value, &mut line);
        }
    }
    line.push_str("}\n");
    cx.print(&line)
}

/// Writes a field of a log line: scalars as JSON, other values in printed form.
fn write_field(value: &Value, line: &mut String) {
    match value.view() {
        View::Nil | View::Bool(_) | View::Int(_) | View::Float(_) | View::Str(_) => {
            harn_value::json::write(value, line);
        }
        _ => harn_value::json::write_string(&value.to_string(), line),
    }
}

fn progress_line(phase: &str, message: &str, extra: &[Value]) -> String {
    let plain = format!("[{phase}] {message}\n");
    let Some(first) = extra.first() else { return plain };
    if let Some(current) = first.as_int() {
        return match extra.get(1).and_then(Value::as_int) {
            Some(total) => format!("[{phase}] {message} ({current}/{total})\n"),
            None => format!("[{phase}] {message} ({current}%)\n"),
        };
    }
    let Some(options) = first.as_dict() else { return plain };
    let int = |name: &str| options.get_str(name).and_then(Value::as_int);
    match options.get_str("mode").and_then(Value::as_str).map(|mode| mode.as_str()) {
        Some("spinner") => {
            let step = int("step").or_else(|| int("current")).unwrap_or(0);
            let frame = ['|', '/', '-', '\\'][step.rem_euclid(4) as usize];
            format!("[{phase}] {frame} {message}\n")
        }
        Some("bar") => {
            let width = int("width").unwrap_or(10).clamp(3, 40);
            let total = int("total").unwrap_or(0).max(0);
            let current = int("current").unwrap_or(0);
            let share = if total == 0 { 0.0 } else { current.clamp(0, total) as f64 / total as f64 };
            let filled = (share * width as f64).round() as usize;
            let bar = "#".repeat(filled) + &"-".repeat(width as usize - filled);
            format!("[{phase}] [{bar}] {message} ({current}/{total})\n")
        }
        _ => plain,
    }
}
