//! Benchmarks the reducer on 1,000 fragments, and the whole assembly from options to the prompt. Run with `cargo bench
//! -p harn-prompt`.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::{Duration, Instant};

use harn_prompt::{CallParts, Fragment, assemble, reduce};
use harn_value::{Data as Value, json};

const FRAGMENTS: usize = 1_000;
const ROUNDS: usize = 200;

fn main() {
    let body = "A sentence of guidance that is long enough to matter, and one more. ".repeat(3);
    let fragments: Vec<Fragment> = (0..FRAGMENTS)
        .map(|i| {
            let fragment = Fragment::new(format!("tool:t{i}.guidance"), format!("tool:t{i}"), body.clone());
            if i % 2 == 0 { fragment.requiring_tool(format!("t{i}")) } else { fragment }
        })
        .collect();
    let tools: BTreeSet<String> = (0..FRAGMENTS).filter(|i| i % 4 != 0).map(|i| format!("t{i}")).collect();
    report("reduce 1,000 fragments", || reduce(&fragments, &tools, &BTreeSet::new()).as_str().len());

    let entry = |i: usize| json!({"name": format!("t{i}"), "guidance": body});
    let options = json!({"system": body, "tools": (0..FRAGMENTS).map(entry).collect::<Vec<Value>>()});
    let Value::Object(options) = options else { return };
    report("options to text, 1,000 tools", || {
        let assembly = assemble(&options, None, &CallParts::default(), None);
        assembly.map_or(0, |assembly| assembly.as_str().len())
    });
}

/// Prints the minimum and the median time of a run.
fn report(name: &str, run: impl Fn() -> usize) {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            black_box(run());
            start.elapsed()
        })
        .collect();
    times.sort();
    println!("{name}: {:?} fastest, {:?} median ({} bytes)", times[0], times[ROUNDS / 2], run());
}
