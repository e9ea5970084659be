//! Memory and disk limits of a program: exceeding them is an error without partial results.

#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;

use crate::common::{Ran, command, every_case, finish, folder};

/// Calls that would need more than 100 MB each. `big` is a string of 20 MB, `all` a list that contains it sixty times.
const GREEDY: &str = r#"
(1 to 30000000).windows(15000000).next()
(1 to 10000000000).chunks(10000000000).next()
",".repeat(60000000).split(",").len()
"\n".repeat(60000000).lines().len()
unicode_graphemes("é".repeat(30000000)).len()
"ß".repeat(45000000).upper().len()
"ß".repeat(45000000).reverse().len()
unicode_normalize("\u{FDFA}".repeat(20000000), "NFKD").len()
format("{}{}", "x".repeat(60000000), "y".repeat(60000000)).len()
all.join("").len()
path_join("x".repeat(60000000), "y".repeat(60000000)).len()
to_string(all).len()
"${all}".len()
json_stringify(all).len()
json_pretty(all).len()
yaml_stringify(all).len()
toml_stringify({a: all}).len()
csv_stringify(all.map({ x -> [x] })).len()
json_parse("[" + "1,".repeat(9000000) + "1]").len()
yaml_parse("- 1\n".repeat(9000000)).len()
yaml_parse("[" + "1,".repeat(9000000) + "1]").len()
toml_parse("a = [" + "1,".repeat(8000000) + "1]").a.len()
csv_parse(",".repeat(60000000)).len()
parse_junit_xml("<testsuite>" + "<testcase name='a'/>".repeat(2000000) + "</testsuite>")
query_parse((1 to 3000000).map({ x -> "a${x}=1" }).to_list().join("&")).len()
regex_match("a", "a".repeat(20000000)).len()
regex_captures("(a)(a)?", "a".repeat(5000000)).len()
regex_split("a".repeat(20000000), "a").len()
regex_replace("a", big, "a".repeat(100)).len()
base64_encode("x".repeat(90000000)).len()
hex_encode("x".repeat(60000000)).len()
url_encode("é".repeat(30000000)).len()
jq(1, "(.,.)" + "|(.,.)".repeat(40)).len()
shell("head -c 1500000000 /dev/zero").stdout.len()
shell("head -c 1500000000 /dev/zero", {max_output_bytes: 4000000000}).stdout.len()
exec("head", "-c", "1500000000", "/dev/zero").stdout.len()
read_file("sparse").len()
read_file_bytes("sparse").len()
read_lines("sparse").len()
parallel 1000000000 { 1 }
(1 to 30000000).to_list().unique().len()
(1 to 30000000).to_set().len()
(1 to 30000000).to_list().sort().len()
(1 to 30000000).map({ x -> "k${x}" }).to_list().len()
render_string("{{ for a in xs }}{{ b }}{{ end }}", {xs: (1 to 60).to_list(), b: big}).len()
path_segments("a/".repeat(40000000)).len()
big.replace("x", big).len()
big.pad_left(2000000000).len()
"x".repeat(2000000000).len()
(1 to 1000000000).to_list().len()
{ -> var s = ""; while true { s = s + big } }()
{ -> for i in 1 to 1000 { event_log.emit("t", "k", "x".repeat(1000000)) } }()
to_string(shared).len()
yaml_stringify(shared).len()
big.chars().len()
(1 to 30000000).flat_map({ x -> [x, x] }).to_list().len()
(1 to 30000000).enumerate().to_list().len()
store_set("k", all)
llm_call(big + big, nil, {provider: "mock"}).text.len()
add_user(transcript(), big + big)
"#;

/// Maximum megabytes of a program's process, with a limit of 100 for its data.
const PEAK: u64 = 200;

fn attempt(scratch: &Path, call: &str) -> Result<(), String> {
    let call = call.replace("; ", "\n");
    let program = format!(
        "let big = \"x\".repeat(20000000)\nlet all = (1 to 60).map({{ x -> big }}).to_list()\nvar shared = [\"x\"]\n\
         for i in 1 to 60 {{ shared = [shared, shared] }}\nlet result = try {{ {call} }}\nprintln(is_err(result))\n\
         println(to_string(result).substring(0, 200))\n\
         println(read_lines(\"/proc/self/status\").filter({{ l -> l.starts_with(\"VmHWM\") }})[0])\n"
    );
    std::fs::write(scratch.join("main.harn"), program).unwrap();
    let mut harn = command(&["run", "--max-memory", "100M", "main.harn"]);
    harn.current_dir(scratch);
    let ran = finish(harn, b"");
    let lines: Vec<&str> = ran.out.lines().collect();
    let peak = lines.last().and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    let peak = peak.ok_or_else(|| ran.shown())? / 1024;
    if lines.first() != Some(&"true") {
        return Err("it succeeded".to_owned());
    }
    if !lines.get(1).is_some_and(|text| text.contains("memory limit")) {
        return Err(format!("another error: {}", lines[1]));
    }
    if peak > PEAK { Err(format!("it took {peak} MB")) } else { Ok(()) }
}

#[test]
fn memory_is_limited_in_every_builtin() {
    let scratch = folder(&[]);
    std::fs::File::create(scratch.path().join("sparse")).unwrap().set_len(20 << 30).unwrap();
    let calls: Vec<&str> = GREEDY.lines().filter(|line| !line.is_empty()).collect();
    assert!(calls.len() >= 60, "{}", calls.len());
    let failed = |call: &&str| attempt(scratch.path(), call).err().map(|what| format!("{call}: {what}"));
    // Neighbouring calls are similar, so the sample is one of three.
    let step = if every_case() { 1 } else { 3 };
    let wrong: Vec<String> = calls.iter().step_by(step).filter_map(failed).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs a shell command in which `$HARN` is the binary.
fn in_shell(scratch: &Path, line: &str) -> Ran {
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).current_dir(scratch);
    shell.env("HARN", env!("CARGO_BIN_EXE_harn")).env("NO_COLOR", "1");
    finish(shell, b"")
}

#[test]
fn less_memory_of_the_system_lowers_the_default() {
    let scratch = folder(&[("main.harn", "println(try { (1 to 10000000000).chunks(10000000000).next() })")]);
    let ran = in_shell(scratch.path(), "ulimit -v 4000000; exec $HARN run main.harn");
    assert!(ran.code == 0 && ran.out.contains("memory limit exceeded"), "{}", ran.shown());
}

/// Returns the names in a directory.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Files are limited to 8 KiB: larger writes fail in the middle, as on a full disk.
#[test]
fn a_write_that_breaks_off_leaves_the_old_content_and_nothing_else() {
    for call in [
        "write_file(\"kept\", big)",
        "write_file_bytes(\"kept\", bytes_from_string(big))",
        "append_file(\"kept\", big)",
        "copy_file(\"long\", \"kept\")",
        "store_set(\"k\", big)",
        "checkpoint(\"k\", big)",
        "write_file(\"new\", big)",
        "append_file(\"new\", big)",
        "copy_file(\"long\", \"new\")",
    ] {
        let program = format!("let big = \"x\".repeat(300000)\nprintln(is_err(try {{ {call} }}))");
        let long = "y".repeat(100_000);
        let scratch = folder(&[("main.harn", &program), ("kept", "ORIGINAL"), ("long", &long)]);
        let line = "ulimit -f 8; trap '' XFSZ; exec $HARN run main.harn";
        let ran = in_shell(scratch.path(), line);
        assert_eq!(ran.out, "true\n", "{call}: {}", ran.shown());
        assert_eq!(std::fs::read_to_string(scratch.path().join("kept")).unwrap(), "ORIGINAL", "{call}");
        let mut left = names(scratch.path());
        left.retain(|name| name != ".harn");
        assert_eq!(left, ["kept", "long", "main.harn"], "{call}");
        if scratch.path().join(".harn").is_dir() {
            let state = names(&scratch.path().join(".harn"));
            assert!(
                !state.iter().any(|name| name.contains("tmp") || name.contains("new")),
                "{call}: {state:?}"
            );
        }
    }
}

/// If the recording of model calls fails, the run fails and the error names the file.
#[test]
fn what_could_not_be_recorded_is_an_error() {
    let program = "let r = llm_call(\"x\".repeat(30000), nil, {provider: \"mock\"})\nprintln(\"went on\")";
    let scratch = folder(&[("main.harn", program), ("file", "")]);
    let limited = "ulimit -f 8; trap '' XFSZ; exec";
    for (line, name) in [
        ("$HARN run --llm-mock-record rec.jsonl mock.harn", "rec.jsonl"),
        ("HARN_LLM_TRANSCRIPT_DIR=log $HARN run main.harn", "log/llm_transcript.jsonl"),
    ] {
        let mock = "llm_mock({text: \"y\".repeat(30000)})\n".to_owned() + program;
        std::fs::write(scratch.path().join("mock.harn"), mock).unwrap();
        let (set, run) = match line.split_once(" $HARN") {
            Some((set, run)) => (format!("export {set};"), format!("$HARN{run}")),
            None => (String::new(), line.to_owned()),
        };
        let ran = in_shell(scratch.path(), &format!("{set} {limited} {run}"));
        assert_eq!((ran.code, ran.out.as_str()), (1, "went on\n"), "{line}: {}", ran.shown());
        assert!(
            ran.err.contains("error: cannot write ") && ran.err.contains(name),
            "{line}: {}",
            ran.shown()
        );
    }
    let no_folder = in_shell(scratch.path(), "HARN_LLM_TRANSCRIPT_DIR=file/log $HARN run main.harn");
    assert_eq!((no_folder.code, no_folder.out.as_str()), (1, "went on\n"), "{}", no_folder.shown());
    let failed = in_shell(
        scratch.path(),
        "HARN_LLM_TRANSCRIPT_DIR=file/log $HARN run -e 'llm_call(\"x\", nil, {provider: \"mock\"})\nthrow \"own\"'",
    );
    assert!(
        failed.err.contains("own") && failed.err.contains("warning: cannot write "),
        "{}",
        failed.shown()
    );
}

/// A move to another file system copies and removes. If the source cannot be removed, the copy is removed.
#[cfg(target_os = "linux")]
#[test]
fn a_move_of_what_cannot_be_removed_leaves_nothing() {
    let scratch = folder(&[(
        "work/main.harn",
        "println(is_err(try { move_file(\"/proc/self/cwd/..\", \"../moved\") }))",
    )]);
    let ran = in_shell(&scratch.path().join("work"), "$HARN run main.harn");
    assert_eq!(ran.out, "true\n", "{}", ran.shown());
    assert_eq!(names(scratch.path()), ["work"]);
    let sys = "println(try { move_file(\"/proc/self/comm\", \"../comm\") })";
    let ran = in_shell(&scratch.path().join("work"), &format!("$HARN run -e '{sys}'"));
    assert!(ran.out.starts_with("Result.Err("), "{}", ran.shown());
    assert_eq!(names(scratch.path()), ["work"]);
}

/// A program runs even if its working directory was deleted. Relative paths fail, and the directory is not created
/// again.
#[cfg(unix)]
#[test]
fn a_working_directory_that_is_gone_is_no_other_place() {
    let scratch = folder(&[("kept", "kept")]);
    std::fs::create_dir(scratch.path().join("gone")).unwrap();
    let program = r#"println(1)
for f in [{ -> write_file("a", "x") }, { -> append_file("a", "x") }, { -> mkdir("a") }, { -> cwd() }, { -> delete_file("../kept") },
  { -> delete_file("..") }, { -> move_file("../kept", "../moved") }, { -> write_file("../kept", "x") }] {
  println(try { f() })
}"#;
    std::fs::write(scratch.path().join("main.harn"), program).unwrap();
    let line = "P=$(cat main.harn); cd gone; rmdir ../gone; exec $HARN run -e \"$P\"";
    let ran = in_shell(scratch.path(), line);
    let results: Vec<&str> = ran.out.lines().collect();
    assert_eq!(results.len(), 9, "{}", ran.shown());
    assert_eq!(results[0], "1");
    for (n, result) in results[1..].iter().enumerate() {
        assert!(result.starts_with("Result.Err("), "call {n}: {}", ran.shown());
    }
    assert_eq!(names(scratch.path()), ["kept", "main.harn"], "{}", ran.shown());
    assert_eq!(std::fs::read_to_string(scratch.path().join("kept")).unwrap(), "kept");
}

#[test]
fn output_that_is_closed_is_noticed() {
    let scratch = folder(&[("main.harn", "println(\"data\")"), ("quiet.harn", "let x = 1")]);
    for (line, code) in [
        ("$HARN run main.harn >&-", 1),
        ("$HARN run --json main.harn >&-", 1),
        ("$HARN models --json >&-", 1),
        ("$HARN check main.harn >&-", 1),
        ("$HARN run quiet.harn >&-", 0),
        ("$HARN run main.harn > /dev/null", 0),
    ] {
        let ran = in_shell(scratch.path(), line);
        assert_eq!(ran.code, code, "{line}: {}", ran.shown());
        assert_eq!(ran.err.contains("cannot write to standard output"), code == 1, "{line}: {}", ran.shown());
    }
}

/// A program in a sandbox cannot read, change, run or call anything outside of its directory.
#[test]
fn a_sandbox_holds_against_a_program_that_wants_out() {
    const ATTEMPTS: &[&str] = &[
        "read_file(\"../secret\")",
        "read_file(\"SECRET\")",
        "read_file(\"out/secret\")",
        "read_file(\"/proc/self/cwd/../secret\")",
        "read_file(\"./sub/../../secret\")",
        "read_file_bytes(\"../secret\")",
        "read_lines(\"../secret\")",
        "file_lines(\"../secret\").to_list()",
        "read_file_result(\"../secret\").unwrap()",
        "copy_file(\"../secret\", \"mine\")",
        "copy_file(\"main.harn\", \"../new\")",
        "move_file(\"../secret\", \"mine\")",
        "move_file(\"main.harn\", \"out/new\")",
        "write_file(\"../new\", \"x\")",
        "write_file(\"out/new\", \"x\")",
        "write_file(\"hole\", \"x\")",
        "append_file(\"../secret\", \"x\")",
        "delete_file(\"../secret\")",
        "delete_file(\"out/secret\")",
        "mkdir(\"../new\")",
        "list_dir(\"..\")",
        "stat(\"../secret\")",
        "walk_dir(\"..\")",
        "glob(\"*\", \"..\")",
        "glob(\"../*\", \".\").find({ p -> p.contains(\"secret\") }).len()",
        "render(\"../secret\", {})",
        "render_string(\"{{ include \\\"../secret\\\" }}\", {})",
        "exec(\"cat\", \"../secret\")",
        "exec_at(\"..\", \"cat\", \"secret\")",
        "shell(\"cat ../secret\")",
        "shell_at(\"..\", \"cat secret\")",
        "http_get(\"http://127.0.0.1:1/\").status",
        "http_download(\"http://127.0.0.1:1/\", \"../new\")",
        "llm_call(\"x\", nil, {provider: \"ollama\", base_url: \"http://127.0.0.1:1\"})",
        "project_context_profile(\"..\")",
    ];
    for attempt in ATTEMPTS {
        for wrapped in [
            attempt.to_string(),
            format!("await(spawn {{ {attempt} }})"),
            format!("(parallel 1 {{ {attempt} }})[0]"),
            format!("[1].map({{ x -> {attempt} }})[0]"),
            format!("{{ -> defer {{ {attempt} }}\nthrow 1 }}()"),
        ] {
            let program =
                format!("let result = try {{ {wrapped} }}\nprintln(is_err(result))\nprintln(result)");
            let scratch = folder(&[("secret", "TREASURE"), ("work/main.harn", &program), ("work/sub/x", "")]);
            let work = scratch.path().join("work");
            std::os::unix::fs::symlink("..", work.join("out")).unwrap();
            std::os::unix::fs::symlink("../new", work.join("hole")).unwrap();
            let mut harn = command(&["run", "--sandbox", "main.harn"]);
            harn.current_dir(&work);
            let ran = finish(harn, b"");
            assert!(ran.out.starts_with("true\n"), "{wrapped}: {}", ran.shown());
            assert!(!format!("{}{}", ran.out, ran.err).contains("TREASURE"), "{wrapped}: {}", ran.shown());
            assert_eq!(names(scratch.path()), ["secret", "work"], "{wrapped}");
            assert_eq!(
                std::fs::read_to_string(scratch.path().join("secret")).unwrap(),
                "TREASURE",
                "{wrapped}"
            );
            assert!(work.join("main.harn").exists(), "{wrapped}");
        }
    }
}

/// At the lower levels, writes or even reads are rejected.
#[test]
fn levels_of_a_sandbox_hold_for_templates_and_kept_values() {
    for (level, calls) in [
        (
            "none",
            &[
                "read_file(\"t.prompt\")",
                "render(\"t.prompt\", {})",
                "render_string(\"{{ include \\\"t.prompt\\\" }}\", {})",
            ][..],
        ),
        (
            "read_only",
            &[
                "store_set(\"k\", 1)",
                "store_delete(\"k\")",
                "checkpoint(\"k\", 1)",
                "checkpoint_clear()",
                "delete_file(\"t.prompt\")",
            ],
        ),
    ] {
        for call in calls {
            let program = format!("println(is_err(try {{ {call} }}))");
            let scratch = folder(&[("main.harn", &program), ("t.prompt", "text")]);
            let mut harn = command(&["run", &format!("--sandbox={level}"), "main.harn"]);
            harn.current_dir(scratch.path());
            let ran = finish(harn, b"");
            assert_eq!(ran.out, "true\n", "{level}: {call}: {}", ran.shown());
            assert_eq!(names(scratch.path()), ["main.harn", "t.prompt"], "{level}: {call}");
        }
    }
}

#[test]
fn malformed_limits_are_refused_before_anything_runs() {
    for args in [
        &["--sandbox=moon"][..],
        &["--sandbox="],
        &["--allow", "read_fiel"],
        &["--deny", "Exec"],
        &["--max-memory", "lots"],
        &["--max-memory", "-1"],
        &["--max-memory", "100X"],
        &["--max-memory", ""],
    ] {
        let scratch = folder(&[("main.harn", "write_file(\"ran\", \"\")")]);
        let mut harn = command(&[&["run"], args, &["main.harn"]].concat());
        harn.current_dir(scratch.path());
        let ran = finish(harn, b"");
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.shown());
        assert!(!scratch.path().join("ran").exists(), "{args:?}");
    }
}

#[test]
fn what_a_terminal_would_obey_is_shown_as_text() {
    let hostile = "a\u{1b}[31mb\u{9b}c\u{202e}d\u{7}";
    let files = [
        ("main.harn", format!("let x = \"{hostile}\" + nope\n")),
        ("thrown.harn", format!("throw \"{hostile}\"\n")),
        ("name.harn", "import \"./no\u{1b}[2Jfile\"\n".to_owned()),
        ("two.harn", format!("// {hostile}\nlet x = (\n  [1, \"{hostile}\"\n")),
    ];
    let texts: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let scratch = folder(&texts);
    for (name, _) in texts {
        for verb in ["run", "check"] {
            let mut harn = command(&[verb, name]);
            harn.current_dir(scratch.path());
            let ran = finish(harn, b"");
            let bad = |c: char| c != '\n' && c.is_control() || c == '\u{202e}';
            assert!(!format!("{}{}", ran.out, ran.err).contains(bad), "{verb} {name}: {:?}", ran.err);
            assert!(verb == "check" || ran.code == 1, "{}", ran.shown());
        }
    }
    let mut harn = command(&["run", "main.harn"]);
    harn.current_dir(scratch.path());
    let ran = finish(harn, b"");
    assert!(ran.err.contains("\\u{1b}[31mb\\u{9b}c\\u{202e}d\\u{7}"), "{}", ran.err);
    let lines: Vec<&str> = ran.err.lines().collect();
    let (source, mark) = (
        lines.iter().find(|l| l.contains("nope") && l.contains("let")),
        lines.iter().find(|l| l.contains('^')),
    );
    let places = (source.and_then(|l| l.find("nope")), mark.and_then(|l| l.find('^')));
    assert!(places.0.is_some() && places.0 == places.1, "the mark stands below its word: {}", ran.err);
}

#[test]
fn a_long_name_makes_no_long_message() {
    let scratch = folder(&[("long.harn", &format!("println({})\n", "a".repeat(1_000_000)))]);
    for told_by in ["run", "check", "lint"] {
        let mut harn = command(&[told_by, "long.harn"]);
        harn.current_dir(scratch.path());
        let ran = finish(harn, b"");
        let told = ran.out.len() + ran.err.len();
        let code = i32::from(told_by != "lint");
        assert!(ran.code == code && told < 2_000, "{told_by}: {told} bytes, exit code {}", ran.code);
    }
}

#[test]
fn one_case_that_cannot_be_read_spoils_no_other() {
    let scratch = folder(&[
        ("conformance/good.harn", "println(1)"),
        ("conformance/good.expected", "1\n"),
        ("conformance/bad.harn", "println(2)"),
    ]);
    std::fs::write(scratch.path().join("conformance/bad.expected"), b"\xff\xfe").unwrap();
    let mut harn = command(&["test", "conformance"]);
    harn.current_dir(scratch.path());
    let ran = finish(harn, b"");
    assert!(ran.code == 1 && ran.out.contains("1 passed, 1 failed, 2 total"), "{}", ran.shown());
    assert!(ran.out.contains("bad.expected: stream did not contain valid UTF-8"), "{}", ran.shown());
}

/// Effects of a case on the runner: each of these cases prints, allocates or waits endlessly.
#[test]
fn cases_without_end_spoil_no_other() {
    let scratch = folder(&[
        ("conformance/good.harn", "println(1)"),
        ("conformance/good.expected", "1\n"),
        ("conformance/prints.harn", "let line = \"x\".repeat(10000)\nwhile true { println(line) }"),
        ("conformance/prints.expected", ""),
        ("conformance/takes.harn", "var s = \"x\"\nwhile true { s = s + s }"),
        ("conformance/takes.expected", ""),
        ("conformance/waits.harn", "sleep(1h)"),
        ("conformance/waits.expected", ""),
    ]);
    let line = "ulimit -v 4000000; exec $HARN test conformance --timeout 8000 --junit report.xml";
    let ran = in_shell(scratch.path(), line);
    assert!(ran.code == 1 && ran.out.contains("1 passed, 3 failed, 4 total"), "{}", ran.shown());
    for told in ["a test may print at most 16 MiB", "memory limit", "waits.harn: timed out after 8000ms"] {
        assert!(ran.out.contains(told), "{told}: {}", ran.shown());
    }
    assert!(ran.out.len() < 100_000, "{} bytes", ran.out.len());
    let report = std::fs::read_to_string(scratch.path().join("report.xml")).unwrap();
    assert!(report.contains("tests=\"4\" failures=\"3\""), "{report}");
}
