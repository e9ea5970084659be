//! `harn skills`: lists, installs and signs skills.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;

use serde_json::Value;

use crate::common::{Ran, command, finish, folder, text};

const DEPLOY: &str = "---\nshort: Ship a release\nwhen-to-use: shipping to production\nallowed-tools: ship, rollback\npaths: deploy/**\n---\n\nRun the checks.\n";
const TEA: &str = "---\nname: tea\nshort: Make tea\n---\nBoil water.\n";

/// Runs the command in a directory with a separate home directory.
fn skills(folder: &Path, args: &[&str]) -> Ran {
    skills_with(folder, args, &[])
}

fn skills_with(folder: &Path, args: &[&str], env: &[(&str, &str)]) -> Ran {
    let mut command = command(&[&["skills"], args].concat());
    command.current_dir(folder).env("HOME", folder.join("home")).envs(env.iter().copied());
    finish(command, b"")
}

fn data(ran: &Ran) -> Value {
    serde_json::from_str::<Value>(&ran.out).unwrap_or_else(|_| panic!("{}", ran.shown()))["data"].clone()
}

/// Returns the error of a failed command.
fn refused(ran: &Ran) -> &str {
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{}", ran.shown());
    ran.err.trim_end()
}

#[test]
fn skills_are_listed_shown_and_matched() {
    let dir = folder(&[
        ("harn.toml", ""),
        (".harn/skills/deploy/SKILL.md", DEPLOY),
        (".harn/skills/deploy/run.sh", "echo"),
        (".harn/skills/.half/SKILL.md", TEA),
        (".harn/skills/broken/SKILL.md", "---\nname: broken\n---\n"),
        ("home/.harn/skills/deploy/SKILL.md", "---\nshort: Another\n---\nNo.\n"),
        ("more/tea/SKILL.md", TEA),
    ]);
    let path = dir.path();
    let ran = skills(path, &["list", "--skill-dir", "more"]);
    assert_eq!(
        ran.out,
        "SKILL   LAYER    WHAT FOR\ntea     cli      Make tea\ndeploy  project  Ship a release\n"
    );
    assert!(
        ran.err.contains("broken/SKILL.md: SKILL.md frontmatter requires a non-empty `short` field"),
        "{}",
        ran.err
    );
    let all = data(&skills(path, &["list", "--all", "--json"]));
    let all: Vec<String> = all["skills"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| format!("{} {} {}", s["name"], s["layer"], s["hidden"]))
        .collect();
    assert_eq!(all, ["\"deploy\" \"project\" false", "\"deploy\" \"user\" true"]);

    let shown = skills(path, &["inspect", "deploy"]);
    for part in [
        "layer:       project\n",
        "signature:   none that fits the file\n",
        "when_to_use: shipping to production\n",
        "allowed_tools: ship, rollback\n",
        "files:       SKILL.md, run.sh\n",
        "\n\nRun the checks.\n",
    ] {
        assert!(shown.out.contains(part), "{part:?} in {}", shown.shown());
    }
    let shown = data(&skills(path, &["inspect", "deploy", "--json"]));
    assert_eq!(
        (&shown["signed"], &shown["front_matter"]["allowed_tools"][1], &shown["body"]),
        (&false.into(), &"rollback".into(), &"Run the checks.".into())
    );
    assert_eq!(
        refused(&skills(path, &["inspect", "deply"])).lines().last(),
        Some("error: unknown skill 'deply'; known skills: deploy")
    );

    let fits = skills(
        path,
        &["match", "Deploy the release to production", "--file", "deploy/a.yaml", "--skill-dir", "more"],
    );
    assert_eq!(
        fits.out,
        "SKILL  SCORE WHY\ndeploy 4.07  2 keyword hit(s); prompt mentions 'deploy'; 1 path glob(s) matched\n"
    );
    assert_eq!(skills(path, &["match", "xyz"]).out, "No skill fits.\n");
    let top =
        data(&skills(path, &["match", "deploy and tea", "--top", "1", "--json", "--skill-dir", "more"]));
    assert_eq!(top["candidates"].as_array().map(Vec::len), Some(1));
    // `harn skill` is the same command.
    let mut alias = command(&["skill", "list"]);
    alias.current_dir(path).env("HOME", path.join("home"));
    assert!(finish(alias, b"").out.contains("deploy"));
}

#[test]
fn a_loop_takes_what_match_shows() {
    let dir = folder(&[
        ("harn.toml", ""),
        (".harn/skills/deploy/SKILL.md", DEPLOY),
        (
            "main.harn",
            "let r = agent_loop(argv[0], nil, {provider: \"mock\", skills: skills, working_files: \"deploy/a.yaml\"})\nlet e = transcript_events_by_kind(r.transcript, \"skill_matched\")[0]\nprintln(json_stringify(e.metadata.candidates))\n",
        ),
    ]);
    let task = "Deploy the release";
    let shown = data(&skills(dir.path(), &["match", task, "--file", "deploy/a.yaml", "--json"]));
    let mut run = command(&["run", "main.harn", "--", task]);
    run.current_dir(dir.path()).env("HOME", dir.path().join("home"));
    let ran = finish(run, b"");
    assert_eq!(serde_json::from_str::<Value>(&ran.out).unwrap(), shown["candidates"], "{}", ran.shown());
}

#[test]
fn skills_are_installed_as_a_whole_or_not_at_all() {
    let dir = folder(&[
        ("p/harn.toml", ""),
        ("p/a.harn", ""),
        ("from/deploy/SKILL.md", DEPLOY),
        ("from/deploy/sub/run.sh", "echo"),
        ("from/deploy/.git/config", "[x]"),
        ("from/tea/SKILL.md", TEA),
        ("wrong/a/SKILL.md", TEA),
        ("wrong/b/SKILL.md", "no front matter"),
        ("twice/a/SKILL.md", TEA),
        ("twice/b/SKILL.md", TEA),
        ("odd/a/SKILL.md", "---\nname: ../x\nshort: x\n---\n"),
        ("newer/deploy/SKILL.md", "---\nshort: Newer\n---\nNew.\n"),
        ("none/readme.md", ""),
    ]);
    let (path, own) = (dir.path().join("p"), dir.path().join("p/.harn/skills"));
    let path = path.as_path();
    let ran = skills(path, &["install", "../from"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert!(ran.out.starts_with("installed deploy in ") && ran.out.lines().count() == 2, "{}", ran.out);
    assert_eq!(text(&own.join("deploy/sub/run.sh")), "echo");
    assert!(!own.join("deploy/.git").exists());

    assert!(
        refused(&skills(path, &["install", "../newer"]))
            .ends_with("deploy is there already; --replace replaces it")
    );
    assert_eq!(text(&own.join("deploy/SKILL.md")), DEPLOY);
    assert_eq!(skills(path, &["install", "--replace", "../newer/deploy"]).code, 0);
    assert!(text(&own.join("deploy/SKILL.md")).contains("Newer") && !own.join("deploy/sub").exists());

    // If one skill of a source is invalid, none is installed.
    std::fs::remove_dir_all(own.join("tea")).unwrap();
    for (source, why) in [
        ("../wrong", "b/SKILL.md: SKILL.md frontmatter requires a non-empty `short` field"),
        ("../twice", "is called 'tea', too"),
        ("../odd", "invalid directory name '../x': use letters, digits, '.', '_' and '-'"),
        ("../none", "name the directory with --path"),
        ("../missing", "No such file or directory (os error 2)"),
    ] {
        let ran = skills(path, &["install", source]);
        assert!(refused(&ran).ends_with(why), "{source}: {}", ran.err);
        assert!(!own.join("tea").exists(), "{source}");
    }
    // A skill cannot replace itself, or a directory that contains it.
    let ran = skills(path, &["install", "--replace", ".harn/skills/deploy"]);
    assert!(refused(&ran).ends_with("is what is to be installed"), "{}", ran.err);
    std::fs::create_dir_all(own.join("deploy/inner")).unwrap();
    std::fs::write(own.join("deploy/inner/SKILL.md"), "---\nname: deploy\nshort: Inner\n---\n").unwrap();
    let ran = skills(path, &["install", "--replace", ".harn/skills/deploy/inner"]);
    assert!(refused(&ran).ends_with("deploy holds what is to be installed"), "{}", ran.err);
    std::fs::write(path.join("SKILL.md"), "---\nname: whole\nshort: The project\n---\n").unwrap();
    let ran = skills(path, &["install", "."]);
    assert!(refused(&ran).ends_with("whole lies in what is to be installed"), "{}", ran.err);
    assert!(!own.join("whole").exists());

    let names: Vec<String> = std::fs::read_dir(&own)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names, ["deploy"], "nothing half is left");
    // Outside of a project, only the user's directory is available.
    let ran = skills(dir.path(), &["install", "from/tea"]);
    assert!(refused(&ran).contains("or use --user"), "{}", ran.err);
    assert_eq!(skills(dir.path(), &["install", "from/tea", "--user"]).code, 0);
    assert_eq!(text(&dir.path().join("home/.harn/skills/tea/SKILL.md")), TEA);
}

/// A third-party repository may contain such a link.
#[cfg(unix)]
#[test]
fn skills_go_nowhere_through_links() {
    for (link, outside) in [(".harn", "victim"), (".harn/skills", "victim/skills")] {
        let dir = folder(&[("p/harn.toml", ""), ("victim/skills/keep.md", ""), ("from/tea/SKILL.md", TEA)]);
        let place = dir.path().join("p");
        if link != ".harn" {
            std::fs::create_dir(place.join(".harn")).unwrap();
        }
        std::os::unix::fs::symlink(dir.path().join(outside), place.join(link)).unwrap();
        for args in [&["install", "../from"][..], &["new", "tea"]] {
            let ran = skills(&place, args);
            let told = format!("{link} is a link, and what it leads to is not touched for skills; remove it");
            assert!(refused(&ran).contains(&told), "{}", ran.shown());
        }
        let names: Vec<_> = std::fs::read_dir(dir.path().join("victim/skills")).unwrap().collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }
}

#[test]
fn skills_come_from_a_repository() {
    let dir = folder(&[("p/harn.toml", ""), ("repo/skills/tea/SKILL.md", TEA), ("repo/README.md", "x")]);
    let repo = dir.path().join("repo");
    for args in [
        &["init", "--quiet", "--initial-branch=main"][..],
        &["add", "."],
        &["-c", "user.name=Test", "-c", "user.email=test@example.com", "commit", "--quiet", "-m", "First"],
        &["tag", "v1"],
    ] {
        assert!(std::process::Command::new("git").args(args).current_dir(&repo).status().unwrap().success());
    }
    let (path, url) = (dir.path().join("p"), format!("file://{}", repo.display()));
    let cache = dir.path().join("cache").display().to_string();
    let env = [("HARN_CACHE_DIR", cache.as_str())];
    let ran = skills_with(&path, &["install", &url, "--path", "skills", "--rev", "v1"], &env);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert_eq!(text(&path.join(".harn/skills/tea/SKILL.md")), TEA);
    assert_eq!(skills_with(&path, &["install", &url, "--path", "skills", "--replace"], &env).code, 0);
    let ran = skills_with(&path, &["install", &url, "--path", "skills", "--rev", "v2"], &env);
    assert!(refused(&ran).contains("there is no tag 'v2'"), "{}", ran.err);
    let ran = skills_with(&path, &["install", &url, "--path", "../.."], &env);
    assert!(refused(&ran).contains("leads out of"), "{}", ran.err);
}

#[test]
fn a_new_skill_is_one() {
    let dir = folder(&[("harn.toml", "")]);
    let path = dir.path();
    assert_eq!(skills(path, &["new", "notes", "--short", "Take: \"notes\" # of it"]).code, 0);
    assert_eq!(skills(path, &["new", "other", "--user"]).code, 0);
    let shown = data(&skills(path, &["inspect", "notes", "--json"]));
    assert_eq!(
        (&shown["front_matter"]["short"], &shown["ignored"]),
        (&"Take: \"notes\" # of it".into(), &serde_json::json!([]))
    );
    assert_eq!(skills(path, &["list"]).out.lines().count(), 3);
    assert!(refused(&skills(path, &["new", "notes"])).ends_with("notes is there already"));
    assert!(refused(&skills(path, &["new", "a/b"])).contains("invalid skill name"));
    assert!(refused(&skills(path, &["new", "x", "--short", "a\nb"])).contains("must be one line"));
}

/// Creates a project with a signed skill. Returns its directory and the fingerprint.
fn signed() -> (tempfile::TempDir, String) {
    let dir = folder(&[
        ("harn.toml", ""),
        (".harn/skills/deploy/SKILL.md", &DEPLOY.replace("short:", "require-signature: true\nshort:")),
        ("main.harn", "println(try { load_skill(\"deploy\") })\n"),
    ]);
    let made = skills(dir.path(), &["key", "keys/own.pem"]);
    assert_eq!(made.code, 0, "{}", made.shown());
    let fingerprint = made.out.lines().next().unwrap().to_owned();
    assert_eq!(fingerprint.len(), 64);
    (dir, fingerprint)
}

fn load(path: &Path, env: &[(&str, &str)]) -> String {
    let mut run = command(&["run", "main.harn"]);
    run.current_dir(path).env("HOME", path.join("home")).envs(env.iter().copied());
    finish(run, b"").out.trim_end().to_owned()
}

#[test]
fn a_signed_skill_of_somebody_who_is_trusted_is_loaded() {
    let (dir, signer) = signed();
    let path = dir.path();
    let public = format!("keys/{signer}.pub");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(path.join("keys/own.pem")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "nobody else reads the private key");
    }
    assert!(
        refused(&skills(path, &["key", "keys/own.pem"])).contains("cannot write keys/own.pem"),
        "no key is replaced"
    );
    let verified = |code: i32, word: &str| {
        let ran = skills(path, &["verify", "deploy"]);
        assert!(ran.code == code && ran.out.contains(word), "{word}: {}", ran.shown());
    };
    verified(1, "signature none that fits the file");
    assert!(load(path, &[]).contains("UnsignedSkillError"));
    assert_eq!(skills(path, &["sign", ".harn/skills/deploy", "--key", "keys/own.pem"]).code, 0);
    verified(1, "who is not trusted");
    assert!(load(path, &[]).contains("UntrustedSignerError"));
    assert!(refused(&skills(path, &["trust", "keys/own.pem"])).contains("it holds a private key"));
    assert_eq!(skills(path, &["trust", &public]).out, format!("{signer} is trusted\n"));
    assert_eq!(skills(path, &["trust", "--list"]).out, format!("{signer}\n"));
    verified(0, &format!("by {signer}, who is trusted"));
    assert_eq!(load(path, &[]), "Result.Ok(Run the checks.)");
    // A changed byte invalidates the signature.
    let file = path.join(".harn/skills/deploy/SKILL.md");
    let written = text(&file);
    std::fs::write(&file, written.replace("checks", "cheques")).unwrap();
    verified(1, "signature none that fits the file");
    std::fs::write(&file, written).unwrap();
    assert_eq!(skills(path, &["trust", "--remove", &signer.to_uppercase()]).code, 0);
    verified(1, "who is not trusted");
    assert!(
        refused(&skills(path, &["trust", "--remove", &signer]))
            .contains("is not among those who are trusted")
    );
    assert_eq!(skills(path, &["trust", "--list"]).out, "Nobody is trusted.\n");
    assert!(
        refused(&skills(path, &["sign", "keys", "--key", "keys/own.pem"]))
            .contains("cannot sign keys/SKILL.md")
    );
    assert!(
        refused(&skills(path, &["sign", ".harn/skills/deploy", "--key", &public]))
            .contains("it holds no private Ed25519 key")
    );
}

#[test]
fn a_registry_of_signers_is_a_folder_or_an_address() {
    let (dir, signer) = signed();
    let path = dir.path();
    assert_eq!(skills(path, &["sign", ".harn/skills/deploy", "--key", "keys/own.pem"]).code, 0);
    std::fs::write(path.join("harn.toml"), "[skills]\nsigner_registry_url = \"keys\"\n").unwrap();
    assert_eq!(skills(path, &["verify", ".harn/skills/deploy"]).code, 0);
    assert_eq!(load(path, &[]), "Result.Ok(Run the checks.)");
    std::fs::write(path.join("harn.toml"), "[skills]\nsigner_registry_url = \"ftp://x\"\n").unwrap();
    assert!(
        refused(&skills(path, &["list"])).contains("[skills] signer_registry_url: 'ftp' is no way to keys")
    );
    std::fs::write(path.join("harn.toml"), "").unwrap();

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/keys/", listener.local_addr().unwrap());
    let key = text(&path.join(format!("keys/{signer}.pub")));
    let wanted = format!("GET /keys/{signer}.pub ");
    std::thread::spawn(move || {
        for (nth, mut stream) in listener.incoming().flatten().enumerate() {
            let mut line = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let _ = reader.read_line(&mut line);
            while {
                let mut rest = String::new();
                reader.read_line(&mut rest).is_ok() && rest.trim() != ""
            } {}
            let status = match nth {
                0 => "404 Not Found",
                1 => "500 Internal Server Error",
                _ if line.starts_with(&wanted) => "200 OK",
                _ => "404 Not Found",
            };
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{key}",
                key.len()
            );
        }
    });
    let env = [("HARN_SKILL_SIGNER_REGISTRY_URL", url.as_str())];
    let verify = || skills_with(path, &["verify", "deploy"], &env);
    let unknown = verify();
    assert!(unknown.code == 1 && unknown.out.contains("who is not trusted"), "{}", unknown.shown());
    let failing = verify();
    assert!(refused(&failing).contains("cannot be asked: it answers with status 500"), "{}", failing.err);
    assert_eq!(verify().code, 0);
    assert_eq!(load(path, &env), "Result.Ok(Run the checks.)");
    // The egress rules also apply to requests that the runtime sends for a program.
    let denied = [env[0], ("HARN_EGRESS_DENY", "127.0.0.1")];
    assert!(load(path, &denied).contains("UntrustedSignerError"));
}

#[test]
fn where_signatures_are_required_nothing_else_is_installed() {
    let dir = folder(&[("harn.toml", ""), ("from/tea/SKILL.md", TEA)]);
    let path = dir.path();
    let env = [("HARN_REQUIRE_SIGNED_SKILLS", "1")];
    let ran = skills_with(path, &["install", "from"], &env);
    assert!(
        refused(&ran).ends_with("a trusted signature is required; its signature: none that fits the file"),
        "{}",
        ran.err
    );
    assert_eq!(skills(path, &["key", "own.pem"]).code, 0);
    assert_eq!(skills(path, &["sign", "from/tea", "--key", "own.pem"]).code, 0);
    let public = std::fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|e| e == "pub"));
    assert_eq!(skills(path, &["trust", public.unwrap().to_str().unwrap()]).code, 0);
    assert_eq!(skills_with(path, &["install", "from"], &env).code, 0);
    assert!(path.join(".harn/skills/tea/SKILL.md.sig").exists());
}

#[test]
fn settings_of_the_manifest_are_looked_at() {
    let list = |manifest: &str| {
        let dir = folder(&[("harn.toml", manifest), ("mine/tea/SKILL.md", TEA)]);
        let ran = skills(dir.path(), &["inspect", "tea", "--json"]);
        if ran.code == 0 { data(&ran)["front_matter"].to_string() } else { ran.shown() }
    };
    assert!(list("[skills]\npaths = [\"mine\"]\n").contains("Make tea"));
    assert!(list("[[skill.source]]\ntype = \"fs\"\npath = \"mine\"\n").contains("Make tea"));
    let with = list(
        "[skills]\npaths = [\"mine\"]\ndefaults = { effort = \"low\", allowed-tools = \"read\", model = \"m\" }\n",
    );
    assert!(with.contains("\"effort\":\"low\"") && with.contains("\"allowed_tools\":[\"read\"]"), "{with}");
    for (manifest, why) in [
        ("[skills]\ndefaults = { name = \"x\" }\n", "[skills] defaults: 'name' belongs to one skill"),
        (
            "[skills]\ndefaults = { colour = \"x\" }\n",
            "[skills] defaults: there is no 'colour' in front matter",
        ),
        (
            "[skills]\ndefaults = { require_signature = 1 }\n",
            "[skills] defaults: 'require_signature' must be true or false",
        ),
        (
            "[[skill.source]]\ntype = \"git\"\nurl = \"x\"\n",
            "`harn skills install` brings its skills into the project",
        ),
        (
            "[[skill.source]]\ntype = \"fs\"\npaht = \"x\"\n",
            "[[skill.source]] has no key 'paht'; there are type, path",
        ),
        ("[skills]\npath = [\"mine\"]\n", "[skills] has no key 'path'"),
    ] {
        assert!(list(manifest).contains(why), "{manifest}: {}", list(manifest));
    }
}
