//! The cost of agent loops: CPU time and memory of long loops, elapsed time and memory of many concurrent loops, and
//! connections of consecutive calls.
//!
//! `make bench-agents` builds `harn`, starts a local model server and runs small programs against it, each in its own
//! process, whose CPU time and peak memory the kernel reports. The server is part of this process; its own time is not
//! counted. `cargo bench -p harn-cli --bench agents -- turns` runs one group: `turns`, `crowd`, `waiting`, `row`
//! (connections), `pieces` (of a stream), `kept` (leaked memory), `daemons`, `children`, `stages`.
#![allow(clippy::unwrap_used, reason = "a bench may stop at the first thing that is wrong")]

mod program;
mod server;

use std::time::Duration;

use program::{Cost, run};
use server::Server;

/// The source of a loop's replies.
#[derive(Clone, Copy, PartialEq)]
enum Answers {
    Http,
    Mock,
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let wants = |group: &str| wanted.is_empty() || wanted.iter().any(|name| name == group);
    let server = Server::start();
    if wants("turns") {
        turns(&server);
    }
    if wants("crowd") {
        crowd(&server);
    }
    if wants("waiting") {
        waiting(&server);
    }
    if wants("row") {
        row(&server);
    }
    if wants("pieces") {
        pieces(&server);
    }
    if wants("kept") {
        kept(&server);
    }
    if wants("daemons") {
        daemons(&server);
    }
    if wants("children") {
        children(&server);
    }
    if wants("stages") {
        stages(&server);
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn kib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0
}

/// One loop of many turns. The total size of all its requests grows with the square of the turns for any client, so the
/// cost of only posting the same bytes is printed for comparison.
fn turns(server: &Server) {
    println!("one loop, a tool call in every turn          (CPU seconds, peak MiB)");
    println!(
        "{:>6} {:>9} {:>7} {:>9} {:>7} {:>14} {:>9}",
        "turns", "http", "MiB", "mock", "MiB", "bytes posted", "posting"
    );
    let mut rows: Vec<(u32, f64, f64, f64)> = Vec::new();
    for count in [50, 100, 200, 400, 800, 1600] {
        server.reply_after(Duration::ZERO);
        let before = server.bytes();
        let http = run(server, &program::long_loop(Answers::Http, count));
        let bytes = server.bytes() - before;
        let mock = run(server, &program::long_loop(Answers::Mock, count));
        let posting = run(server, &program::posts(count, bytes));
        println!(
            "{count:>6} {:>9.2} {:>7.1} {:>9.2} {:>7.1} {:>10.1} MiB {:>9.2}",
            http.cpu,
            mib(http.peak),
            mock.cpu,
            mib(mock.peak),
            mib(bytes),
            posting.cpu
        );
        rows.push((count, http.cpu, mock.cpu, posting.cpu));
    }
    let of = |count: u32| rows.iter().find(|row| row.0 == count).copied().unwrap_or((count, 0.0, 0.0, 0.0));
    let (small, large) = (of(400), of(800));
    println!(
        "800 turns to 400: http {:.2}, mock {:.2}; less the posting of the same bytes: http {:.2}",
        large.1 / small.1,
        large.2 / small.2,
        (large.1 - large.3) / (small.1 - small.3)
    );
}

/// Many concurrent loops of five turns each, with a delay of 200 ms per reply.
fn crowd(server: &Server) {
    println!("\nloops at once, five turns each, 200 ms a reply");
    println!("{:>6} {:>9} {:>9} {:>9} {:>9}", "loops", "wall s", "of ideal", "CPU s", "peak MiB");
    for count in [100, 1000, 5000] {
        server.reply_after(Duration::from_millis(200));
        let cost = run(server, &program::crowd(count, 5, ""));
        println!(
            "{count:>6} {:>9.2} {:>9.2} {:>9.2} {:>9.1}",
            cost.wall,
            cost.wall,
            cost.cpu,
            mib(cost.peak)
        );
    }
}

/// The memory of a loop that waits for its first reply.
fn waiting(server: &Server) {
    println!("\nmemory of a loop that waits, 1,000 at once");
    println!("{:>20} {:>12} {:>12} {:>8}", "loop", "KiB each", "KiB sent", "times");
    server.reply_after(Duration::from_millis(2500));
    for (name, options) in [
        ("without tools", String::new()),
        ("with 21 tools", program::tools(21)),
        ("20 turns of history", program::history(20)),
    ] {
        let one = run(server, &program::crowd(1, 1, &options));
        let before = server.bytes();
        let many = run(server, &program::crowd(1001, 1, &options));
        let sent = (server.bytes() - before) / 1001;
        let each = many.peak.saturating_sub(one.peak) / 1000;
        println!("{name:>20} {:>12.1} {:>12.1} {:>8.1}", kib(each), kib(sent), each as f64 / sent as f64);
    }
}

/// The number of connections of consecutive calls.
fn row(server: &Server) {
    println!("\nconnections of twenty calls in a row");
    server.reply_after(Duration::ZERO);
    for (name, options) in [("streamed", ""), ("in one piece", ", stream: false")] {
        let before = server.connections();
        run(server, &program::row(20, options));
        println!("{name:>20} {:>4}", server.connections() - before);
    }
}

/// A streamed reply of the mock, compared with a program that only starts.
fn pieces(server: &Server) {
    println!("\na stream of many pieces on the mock");
    println!("{:>8} {:>10} {:>12} {:>10}", "pieces", "CPU ms", "over start", "peak MiB");
    // The kernel measures CPU time in coarse steps, so the minimum of several runs is used.
    let least = |count: u32| {
        let runs = (0..12).map(|_| run(server, &program::pieces(count)));
        runs.min_by(|a, b| a.cpu.total_cmp(&b.cpu)).unwrap()
    };
    let start = least(0);
    for count in [0, 2_500, 5_000, 10_000] {
        let cost = least(count);
        println!(
            "{count:>8} {:>10.2} {:>12.2} {:>10.1}",
            cost.cpu * 1000.0,
            (cost.cpu - start.cpu) * 1000.0,
            mib(cost.peak)
        );
    }
}

/// The memory that a process retains after loops have ended.
fn kept(server: &Server) {
    println!("\nloops one after another, ten turns each");
    println!("{:>8} {:>10} {:>10} {:>14}", "loops", "CPU s", "peak MiB", "bytes a turn");
    server.reply_after(Duration::ZERO);
    let mut first: Option<Cost> = None;
    for count in [100, 400, 1600] {
        let cost = run(server, &program::one_after_another(count, 10));
        let start = first.get_or_insert(cost);
        let turns = f64::from((count - 100) * 10);
        let each = if count > 100 { (cost.peak as f64 - start.peak as f64) / turns } else { 0.0 };
        println!("{count:>8} {:>10.2} {:>10.1} {each:>14.0}", cost.cpu, mib(cost.peak));
    }
}

/// The cost of idle daemons, and the latency of an event.
fn daemons(server: &Server) {
    println!("\ndaemons at rest in one process");
    println!("{:>8} {:>9} {:>18}", "daemons", "KiB each", "CPU ms a second");
    let one = run(server, &program::daemons(1, 100));
    for count in [100, 1000] {
        let (short, long) =
            (run(server, &program::daemons(count, 5_000)), run(server, &program::daemons(count, 25_000)));
        let each = kib(short.peak.saturating_sub(one.peak)) / f64::from(count - 1);
        println!("{count:>8} {each:>9.1} {:>18.2}", (long.cpu - short.cpu).max(0.0) * 1000.0 / 20.0);
    }
    println!("\nevents to one daemon, one after another, each until its turn is kept");
    println!("{:>8} {:>12} {:>12}", "events", "ms each", "CPU ms each");
    for count in [100, 200, 400] {
        let cost = run(server, &program::events(count));
        let each = 1000.0 / f64::from(count);
        println!("{count:>8} {:>12.2} {:>12.2}", cost.wall * each, cost.cpu * each);
    }
}

/// Sub-agents that one tool of one loop starts, fifty at a time.
fn children(server: &Server) {
    println!("\nsub-agents under one parent");
    println!("{:>10} {:>8} {:>8} {:>10}", "sub-agents", "CPU s", "ms each", "peak MiB");
    for count in [250, 500, 1000, 2000] {
        let cost = run(server, &program::children(count));
        println!(
            "{count:>10} {:>8.2} {:>8.2} {:>10.1}",
            cost.cpu,
            cost.cpu * 1000.0 / f64::from(count),
            mib(cost.peak)
        );
    }
}

/// A workflow of consecutive stages, each of which receives the result of the previous one.
fn stages(server: &Server) {
    println!("\na workflow of stages in a row");
    println!("{:>8} {:>8} {:>8} {:>10}", "stages", "CPU s", "ms each", "peak MiB");
    for count in [125, 250, 500, 1000] {
        let cost = run(server, &program::stages(count));
        println!(
            "{count:>8} {:>8.2} {:>8.2} {:>10.1}",
            cost.cpu,
            cost.cpu * 1000.0 / f64::from(count),
            mib(cost.peak)
        );
    }
}
