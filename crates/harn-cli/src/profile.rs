//! `harn run --profile`: measures the time of each stage of a run.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use harn_system::{Real, System};
use harn_value::json;
use harn_vm::Vm;

/// The stages of a run, in order.
#[derive(Clone, Copy)]
pub(crate) enum Stage {
    /// Parse the program.
    Parse,
    /// Check the program and its imported modules.
    Check,
    /// Compile the program and its imported modules.
    Compile,
    /// Execute it.
    Run,
}

/// The names of the stages.
const NAMES: [&str; 4] = ["parse", "check", "compile", "run"];

/// The durations of a run's stages.
pub(crate) struct Profile {
    times: [Cell<Duration>; NAMES.len()],
    /// Whether they are printed on standard error.
    is_shown: bool,
    /// The JSON file that they are written to.
    file: Option<PathBuf>,
}

impl Profile {
    /// Returns the profile that the options request.
    pub(crate) fn of(is_shown: bool, file: Option<PathBuf>) -> Option<Profile> {
        let file = file.filter(|path| !path.as_os_str().is_empty());
        (is_shown || file.is_some()).then(|| Profile { times: Default::default(), is_shown, file })
    }

    /// Runs `work`, and measures its duration if there is a profile.
    pub(crate) fn time<T>(profile: Option<&Profile>, stage: Stage, work: impl FnOnce() -> T) -> T {
        let Some(profile) = profile else { return work() };
        let clock = Real::new();
        let begun = clock.monotonic();
        let done = work();
        profile.add(stage, clock.monotonic().saturating_sub(begun));
        done
    }

    /// Adds to the duration of a stage.
    pub(crate) fn add(&self, stage: Stage, time: Duration) {
        let sum = &self.times[stage as usize];
        sum.set(sum.get() + time);
    }

    /// Reports the durations of a completed run.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn tell(&self, program: &str, vm: &Rc<Vm>) -> Result<(), String> {
        let models = harn_runtime::attempts_total(vm);
        let (tools, tools_ms) = harn_runtime::tools_total(vm);
        let ms: Vec<f64> = self.times.iter().map(|time| time.get().as_secs_f64() * 1000.0).collect();
        let total: f64 = ms.iter().sum();
        if self.is_shown {
            let mut text = "─── Profile ───\n".to_owned();
            for (name, ms) in NAMES.iter().zip(&ms) {
                text += &format!("  {name:<8}{ms:>10.2} ms\n");
            }
            for (name, calls, ms) in
                [("llm", models.calls as i64, models.duration_ms), ("tool", tools, tools_ms)]
            {
                if calls > 0 {
                    let word = if calls == 1 { "call" } else { "calls" };
                    text += &format!("    {name:<6}{ms:>10} ms in {calls} {word}\n");
                }
            }
            vm.system().write_err(&format!("{text}  total   {total:>10.2} ms\n"));
        }
        let Some(path) = &self.file else { return Ok(()) };
        let mut profile = json!({"file": program, "total_ms": total});
        for (name, ms) in NAMES.iter().zip(&ms) {
            profile[&format!("{name}_ms")] = (*ms).into();
        }
        profile["llm"] = json!({
            "calls": models.calls, "time_ms": models.duration_ms, "input_tokens": models.input_tokens,
            "output_tokens": models.output_tokens, "cost_usd": models.cost_usd,
        });
        profile["tools"] = json!({"calls": tools, "time_ms": tools_ms});
        let written = Real::new().replace(path, format!("{profile:#}\n").as_bytes());
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))
    }
}
