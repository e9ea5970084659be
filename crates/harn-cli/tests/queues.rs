//! Queues of runs: priorities, unique keys, limits across workers, recurring runs and bulk submission.

use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::background::{silent, start, submit};
use crate::common::{folder, harn_in, shown_of};

fn json(folder: &Path, args: &[&str]) -> Value {
    let ran = harn_in(folder, &[args, &["--json"]].concat());
    let data: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{args:?}: {}", ran.shown()));
    data["data"].clone()
}

fn worker(folder: &Path, args: &[&str]) -> Child {
    start(folder, &[&["worker", "--drain"], args].concat())
}

#[test]
fn a_queue_runs_by_priority_and_a_worker_serves_the_queues_that_it_names() {
    let toml = "[queues.mail]\n[queues.slow]\nconcurrency = 1\n";
    let dir = folder(&[("main.harn", "println(argv[0])\n"), ("harn.toml", toml)]);
    let path = dir.path();
    for (name, priority, queue) in
        [("a", "0", "mail"), ("b", "-5", "mail"), ("c", "7", "mail"), ("d", "0", "slow")]
    {
        submit(path, &["--queue", queue, "--priority", priority, "main.harn", "--", name]);
    }
    submit(path, &["main.harn", "--", "e"]);
    let ran = harn_in(path, &["worker", "--drain", "--concurrency", "1", "--queue", "mail"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "c\na\nb\n"), "{}", ran.shown());
    let queues = json(path, &["runs", "queues"]);
    let slow = &queues["queues"][2];
    assert_eq!((&slow["name"], &slow["ready"]), (&"slow".into(), &1.into()), "{queues}");
    assert_eq!(slow["limits"]["concurrency"], 1);
    let shown = harn_in(path, &["runs", "queues"]).out;
    assert!(shown.contains("CONCURRENCY") && shown.contains("slow"), "{shown}");
    let listed = harn_in(path, &["runs", "list", "--filter", "queue=mail"]).out;
    assert!(listed.contains("QUEUE") && listed.contains("mail") && !listed.contains("slow"), "{listed}");
    let listed = json(path, &["runs", "list", "--filter", "queue=mail"]);
    let priorities = listed["runs"].as_array().unwrap().iter().map(|run| run["priority"].as_i64().unwrap());
    assert_eq!(priorities.collect::<Vec<_>>(), [7, -5, 0], "{listed}");
    let ran = harn_in(path, &["worker", "--drain", "--concurrency", "1"]);
    assert_eq!(
        ran.out.lines().collect::<std::collections::BTreeSet<_>>(),
        ["d", "e"].into(),
        "{}",
        ran.shown()
    );
    let shown = harn_in(path, &["config", "show"]).out;
    assert!(shown.contains("queues.slow.concurrency"), "{shown}");
}

#[test]
fn wrong_queues_priorities_and_lines_are_errors() {
    let dir = folder(&[("main.harn", "println(1)\n"), ("harn.toml", "[queues.mail]\nrate = \"5/1m\"\n")]);
    let path = dir.path();
    for (args, code, why) in [
        (&["--queue", "mial"][..], 1, "unknown queue 'mial'; did you mean 'mail'?"),
        (&["--priority", "1001"], 2, "-1000..=1000"),
        (&["--priority", "high"], 2, "invalid value 'high'"),
        (&["--key", ""], 1, "invalid key: expected 1 to 512 bytes"),
        (&["--key", "k", "--every", "5m"], 2, "cannot be used with"),
        (&["--every", "500ms"], 1, "expected an interval of whole seconds"),
        (&["--input-file", "none.jsonl"], 1, "cannot read none.jsonl"),
    ] {
        let ran = harn_in(path, &[&["submit"], args, &["main.harn"]].concat());
        assert!(ran.code == code && ran.err.contains(why), "{args:?}: {}", ran.shown());
    }
    for (line, why) in [
        ("[1]", "lines.jsonl:2: expected a JSON object"),
        ("{", "lines.jsonl:2: invalid JSON"),
        ("{\"arg\": []}", "lines.jsonl:2: unknown key `arg`: expected id, args, queue,"),
        ("{\"args\": [1]}", "lines.jsonl:2: `args` must be a list of strings"),
        ("{\"priority\": 5000}", "lines.jsonl:2: `priority` must be a number from -1000 to 1000"),
        ("{\"queue\": \"mial\"}", "lines.jsonl:2: unknown queue 'mial'"),
        ("{\"at\": \"soon\"}", "lines.jsonl:2: expected a time such as"),
        ("{\"id\": \"a b\"}", "lines.jsonl:2: invalid run ID 'a b'"),
    ] {
        std::fs::write(path.join("lines.jsonl"), format!("{{}}\n{line}\n")).unwrap();
        let ran = harn_in(path, &["submit", "--input-file", "lines.jsonl", "main.harn"]);
        assert!(ran.code == 1 && ran.err.contains(why), "{line}: {}", ran.shown());
    }
    assert_eq!(json(path, &["runs", "list"])["runs"], Value::Array(Vec::new()), "nothing was queued");
    let ran = harn_in(path, &["worker", "--drain", "--queue", "mial"]);
    assert!(
        ran.code == 1 && ran.err.contains("unknown queue 'mial'; did you mean 'mail'?"),
        "{}",
        ran.shown()
    );
    std::fs::write(path.join("harn.toml"), "[queues.mail]\nrat = \"5/1m\"\n").unwrap();
    for args in [&["submit", "main.harn"][..], &["worker", "--drain"]] {
        let ran = harn_in(path, args);
        assert!(ran.code == 1 && ran.err.contains("unknown key `rat` in [queues.mail]"), "{}", ran.shown());
        let advice = "; did you mean `rate`? known keys: concurrency, rate, group_concurrency, group_rate\n";
        assert!(ran.err.contains(advice), "{}", ran.shown());
    }
}

#[test]
fn limits_of_a_queue_that_the_manifest_does_not_name_remain() {
    default_limits_remain("");
}

#[cfg(feature = "postgres")]
#[test]
fn limits_of_a_queue_that_the_manifest_does_not_name_remain_on_a_database() {
    let Some(url) = crate::server::database() else { return };
    default_limits_remain(&format!("[store]\nurl = \"{url}\"\n"));
}

fn default_limits_remain(manifest: &str) {
    let dir = folder(&[("main.harn", "println(1)\n")]);
    let path = dir.path();
    let change = |queues: &str| {
        std::fs::write(path.join("harn.toml"), format!("{manifest}{queues}")).unwrap();
        submit(path, &["main.harn"]);
        let ran = harn_in(path, &["worker", "--drain"]);
        assert_eq!(ran.code, 0, "{}", ran.shown());
    };
    let limit = || {
        let queues = json(path, &["runs", "queues"]);
        let of_default = queues["queues"].as_array().unwrap().iter().find(|queue| queue["name"] == "default");
        of_default.unwrap()["limits"]["concurrency"].clone()
    };
    change("[queues.default]\nconcurrency = 2\n");
    assert_eq!(limit(), 2);
    change("[queues.mail]\n");
    assert_eq!(limit(), 2, "neither `submit` nor `worker` of another project changes them");
    change("[queues.default]\n");
    assert_eq!(limit(), Value::Null, "an empty table removes them");
}

#[test]
fn a_key_queues_one_run_until_that_has_ended() {
    let dir = folder(&[("main.harn", "println(1)\n")]);
    let path = dir.path();
    let first = submit(path, &["--run-id", "one", "--key", "k", "--group", "g", "main.harn"]);
    assert_eq!(first.out, "run one queued; `harn worker` runs it\n");
    let second = submit(path, &["--key", "k", "main.harn"]);
    assert_eq!(second.out, "run one has the key 'k', and has not ended; no run was queued\n");
    let third = json(path, &["submit", "--key", "k", "main.harn"]);
    assert_eq!((&third["id"], &third["created"]), (&"one".into(), &false.into()));
    let shown = harn_in(path, &["runs", "show", "one"]).out;
    assert!(shown.contains("queue     default, priority 0, key k, group g"), "{shown}");
    assert_eq!((&shown_of(path, "one")["key"], &shown_of(path, "one")["group"]), (&"k".into(), &"g".into()));
    assert_eq!(harn_in(path, &["worker", "--drain"]).code, 0);
    submit(path, &["--run-id", "two", "--key", "k", "main.harn"]);
    let retried = harn_in(path, &["runs", "requeue", "one"]);
    assert!(
        retried.code == 1 && retried.err.contains("run 'two' of queue 'default' has the key 'k'"),
        "{}",
        retried.shown()
    );
    assert_eq!(shown_of(path, "one")["status"], "completed");
}

#[test]
fn limits_hold_over_workers() {
    limits_hold("");
}

#[cfg(feature = "postgres")]
#[test]
fn limits_hold_over_workers_on_a_database() {
    let Some(url) = crate::server::database() else { return };
    limits_hold(&format!("[store]\nurl = \"{url}\"\n"));
}

/// Two workers with spare capacity execute only what a queue allows.
fn limits_hold(manifest: &str) {
    let toml = format!(
        "{manifest}[queues.few]\nconcurrency = 3\ngroup_concurrency = 2\n[queues.rare]\nrate = \"2/2s\"\n"
    );
    let program = r#"
        let mine = "${argv[0]}-${argv[1]}"
        mkdir("now")
        write_file("now/${mine}", "")
        sleep(150ms)
        let names = list_dir("now")
        append_file("seen-${mine}.txt", names.join(" "))
        delete_file("now/${mine}")
    "#;
    let dir = folder(&[("main.harn", program), ("rare.harn", "sleep(1ms)\n"), ("harn.toml", &toml)]);
    let path = dir.path();
    for n in 0..12 {
        let group = ["x", "x", "y"][n % 3];
        submit(path, &["--queue", "few", "--group", group, "main.harn", "--", group, &n.to_string()]);
    }
    std::fs::write(path.join("rare.jsonl"), "{}\n".repeat(6)).unwrap();
    submit(path, &["--queue", "rare", "--input-file", "rare.jsonl", "rare.harn"]);
    let begun = Instant::now();
    let two = [worker(path, &["--concurrency", "6"]), worker(path, &["--concurrency", "6"])];
    for mut one in two {
        assert!(one.wait().unwrap().success());
    }
    assert!(begun.elapsed() >= Duration::from_secs(4), "{:?}", begun.elapsed());
    let runs = json(path, &["runs", "list", "--limit", "99"]);
    let runs = runs["runs"].as_array().unwrap();
    assert!(runs.len() == 18 && runs.iter().all(|run| run["status"] == "completed"), "{runs:?}");
    let mut seen = 0;
    for file in std::fs::read_dir(path).unwrap().flatten() {
        if file.file_name().to_string_lossy().starts_with("seen-") {
            let text = std::fs::read_to_string(file.path()).unwrap();
            let names: Vec<&str> = text.split_whitespace().collect();
            let of_x = names.iter().filter(|name| name.contains("x-")).count();
            assert!(names.len() <= 3 && of_x <= 2, "{text}");
            seen += 1;
        }
    }
    assert_eq!(seen, 12);
}

#[test]
fn a_recurring_run_runs_once_per_tick_over_workers() {
    let dir = folder(&[("main.harn", "append_file(\"${env(\"NAME\") ?? \"log\"}.txt\", \"tick\\n\")\n")]);
    let path = dir.path();
    submit(path, &["--run-id", "s", "--every", "1s", "main.harn"]);
    let mut workers: Vec<Child> =
        (0..3).map(|n| silent(path, &["worker"]).env("NAME", format!("w{n}")).spawn().unwrap()).collect();
    let ended = || {
        let runs = json(path, &["runs", "list", "--limit", "99"]);
        let runs = runs["runs"].as_array().cloned().unwrap_or_default();
        runs.into_iter().filter(|run| run["status"] == "completed").collect::<Vec<_>>()
    };
    let begun = Instant::now();
    while ended().len() < 4 {
        assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", ended());
        std::thread::sleep(Duration::from_millis(200));
    }
    for worker in &mut workers {
        worker.kill().unwrap();
        worker.wait().unwrap();
    }
    let queued = json(path, &["runs", "list", "--filter", "status=queued"]);
    assert_eq!(queued["runs"].as_array().map(Vec::len), Some(1), "one successor: {queued}");
    let runs = ended();
    let ids: std::collections::BTreeSet<&str> = runs.iter().filter_map(|run| run["id"].as_str()).collect();
    assert_eq!(ids.len(), runs.len(), "each tick once");
    assert!(runs.iter().all(|run| run["starts"] == 1 && run["effects"].as_u64() > Some(0)), "{runs:?}");
}

#[test]
fn many_runs_are_submitted_at_once() {
    many("");
}

#[cfg(feature = "postgres")]
#[test]
fn many_runs_are_submitted_at_once_to_a_database() {
    let Some(url) = crate::server::database() else { return };
    many(&format!("[store]\nurl = \"{url}\"\n"));
}

fn many(manifest: &str) {
    let dir = folder(&[("main.harn", "println(argv[0])\n"), ("harn.toml", manifest)]);
    let path = dir.path();
    let lines: String = (0..10_000)
        .map(|n| {
            format!(
                "{{\"id\": \"r{n}\", \"args\": [\"{n}\"], \"key\": \"k{}\", \"at\": \"1h\"}}\n",
                n % 9_000
            )
        })
        .collect();
    std::fs::write(path.join("jobs.jsonl"), lines).unwrap();
    let begun = Instant::now();
    let told = submit(path, &["--input-file", "jobs.jsonl", "main.harn"]);
    let took = begun.elapsed();
    println!("10,000 runs are submitted in {took:?}");
    assert_eq!(
        told.out,
        "9000 runs queued, 1000 not queued because another run has their key; `harn worker` runs them\n"
    );
    assert!(took < Duration::from_secs(60), "{took:?}");
    let run = shown_of(path, "r8999");
    assert_eq!(
        (&run["args"][0], &run["status"], &run["key"]),
        (&"8999".into(), &"queued".into(), &"k8999".into())
    );
    let again = harn_in(path, &["submit", "--input-file", "jobs.jsonl", "main.harn"]);
    assert!(again.code == 1 && again.err.contains("run 'r0' already exists"), "{}", again.shown());
}
