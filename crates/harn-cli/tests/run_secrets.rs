//! Values of secret variables are never in the store of a durable run, whether its program reads the variables or not.

use std::path::Path;

use crate::common::{Ran, command, finish, folder};

const PROGRAM: &str = r#"
println(read_file("settings.txt").len())
println(shell("printenv TRIAL_API_KEY").stdout.trim().len())
println(shell("printenv TRIAL_API_KEY >&2; exit 3").stderr.trim().len())
println(exec("sh", "-c", "echo got $TRIAL_API_KEY | tr a-z a-z").stdout.trim())
println(try { read_file("missing-${read_file("settings.txt").trim()}") } catch e { "no such file" })
sleep(20ms)
println(env("TRIAL_API_KEY").len())
println(ask_user("Go on?"))
println(shell("printenv TRIAL_API_KEY").stdout.trim().len())
"#;

const KEY: &str = "sk-trial-0123456789";

fn with_key(folder: &Path, args: &[&str], key: Option<&str>) -> Ran {
    let mut harn = command(args);
    harn.current_dir(folder);
    match key {
        Some(key) => harn.env("TRIAL_API_KEY", key),
        None => harn.env_remove("TRIAL_API_KEY"),
    };
    finish(harn, b"")
}

/// Returns the files of the store that contain a string.
fn holding(folder: &Path, text: &str) -> Vec<String> {
    let files = std::fs::read_dir(folder.join(".harn")).expect("the store is there").flatten();
    let holds = |path: &Path| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(text.len()).any(|piece| piece == text.as_bytes())
    };
    let paths = files.map(|file| file.path()).filter(|path| path.is_file() && holds(path));
    paths.map(|path| path.display().to_string()).collect()
}

#[test]
fn no_key_of_the_environment_enters_the_store() {
    let dir = folder(&[("main.harn", PROGRAM), ("settings.txt", KEY)]);
    let path = dir.path();
    let asked = with_key(path, &["run", "--durable", "--run-id", "r", "main.harn"], Some(KEY));
    assert_eq!(asked.code, 75, "{}", asked.shown());
    assert_eq!(asked.out, format!("19\n19\n19\ngot {KEY}\nno such file\n19\n"), "{}", asked.shown());
    assert_eq!(holding(path, "0123456789"), Vec::<String>::new());
    let request = crate::common::shown(path)["pending"][0]["request_id"].as_str().unwrap().to_owned();
    assert_eq!(with_key(path, &["answer", "r", &request, "yes"], None).code, 0);
    // The sources of the run contain the key, so the run cannot continue with another one. Without a key it stops.
    let stopped = with_key(path, &["resume", "r"], None);
    assert_eq!(stopped.code, 75, "{}", stopped.shown());
    assert!(stopped.err.contains("TRIAL_API_KEY is not set"), "{}", stopped.shown());
    let ended = with_key(path, &["resume", "r"], Some(KEY));
    assert_eq!((ended.code, ended.out.as_str()), (0, "yes\n19\n"), "{}", ended.shown());
    assert_eq!(holding(path, "0123456789"), Vec::<String>::new());
    // A replay needs no key.
    let replayed = with_key(path, &["replay", "r"], None);
    assert_eq!(replayed.code, 0, "{}", replayed.shown());
    assert!(!replayed.out.contains("0123456789"), "{}", replayed.shown());
    let same = with_key(path, &["replay", "r"], Some(KEY));
    assert_eq!(same.out, format!("{}{}", asked.out, ended.out), "{}", same.shown());
}

#[test]
fn a_renewed_key_takes_the_place_of_the_old_one() {
    let program = "let key = shell(\"printenv TRIAL_API_KEY\").stdout.trim()\nprintln(ask_user(\"Go on?\"))\nprintln(key)\n";
    let dir = folder(&[("main.harn", program)]);
    let path = dir.path();
    let asked = with_key(path, &["run", "--durable", "--run-id", "r", "main.harn"], Some(KEY));
    assert_eq!(asked.code, 75, "{}", asked.shown());
    let request = crate::common::shown(path)["pending"][0]["request_id"].as_str().unwrap().to_owned();
    assert_eq!(with_key(path, &["answer", "r", &request, "yes"], None).code, 0);
    let ended = with_key(path, &["resume", "r"], Some("sk-renewed-9876543210"));
    assert_eq!((ended.code, ended.out.as_str()), (0, "yes\nsk-renewed-9876543210\n"), "{}", ended.shown());
    assert_eq!(holding(path, "0123456789"), Vec::<String>::new());
    assert_eq!(holding(path, "9876543210"), Vec::<String>::new());
}

#[test]
fn a_reply_that_looks_like_the_name_of_a_key_is_not_one() {
    let program = "println(read_file(\"page.txt\").len())\nprintln(read_file(\"page.txt\").contains(env(\"TRIAL_API_KEY\")))\n";
    let forged = "\u{1}harn:secret:TRIAL_API_KEY\u{1}";
    let dir = folder(&[("main.harn", program), ("page.txt", forged)]);
    let ran = with_key(dir.path(), &["run", "--durable", "--run-id", "r", "main.harn"], Some(KEY));
    assert_eq!((ran.code, ran.out.as_str()), (0, "27\nfalse\n"), "{}", ran.shown());
    let replayed = with_key(dir.path(), &["replay", "r"], Some(KEY));
    assert_eq!(replayed.out, ran.out, "{}", replayed.shown());
}
