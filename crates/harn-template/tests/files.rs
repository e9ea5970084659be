//! Templates on disk: path forms, containment, the sandbox, unreadable files.
use std::fs;
use std::path::Path;

use harn_system::Real;
use harn_template::{FsLoader, RenderContext, Template, TemplateCache};
use harn_value::Value;
use tempfile::TempDir;

/// Creates a directory with files, passed as path and content.
fn tree(files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new().unwrap();
    for (path, text) in files {
        let file = dir.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    dir
}

/// Returns the real system.
fn real() -> &'static Real {
    Box::leak(Box::new(Real::new()))
}

fn asset(path: &str) -> Option<&'static str> {
    (path == "agent/hello.prompt").then_some("hello from std")
}

/// Renders `path` for a module in `module` below `dir`. The directory is shown as `DIR`.
fn render(dir: &TempDir, module: &str, path: &str) -> String {
    render_in(dir, FsLoader::new(real(), &asset, dir.path().join(module)), path)
}

fn render_in(dir: &TempDir, loader: FsLoader<'_>, path: &str) -> String {
    let context = RenderContext { loader: &loader, ..RenderContext::default() };
    let result = Template::load(path, &loader).and_then(|template| template.render(&Value::NIL, &context));
    let shown = result.unwrap_or_else(|error| error.to_string());
    let real = fs::canonicalize(dir.path()).unwrap();
    shown.replace(real.to_str().unwrap(), "DIR").replace(dir.path().to_str().unwrap(), "DIR")
}

#[test]
fn paths_start_at_the_module_or_the_including_file() {
    let dir = tree(&[
        ("src/a.prompt", "a {{ include \"parts/b.prompt\" }}"),
        ("src/parts/b.prompt", "b {{ include \"./c.prompt\" }} {{ include \"std/agent/hello.prompt\" }}"),
        ("src/parts/c.prompt", "c"),
    ]);
    assert_eq!(render(&dir, "src", "a.prompt"), "a b c hello from std");
    assert_eq!(render(&dir, "src", "./parts/c.prompt"), "c");
    assert_eq!(render(&dir, "src/parts", "../a.prompt"), "a b c hello from std");
    let absolute = dir.path().join("src/parts/c.prompt");
    assert_eq!(render(&dir, "", absolute.to_str().unwrap()), "c");
    assert_eq!(render(&dir, "", "std/agent/hello.prompt"), "hello from std");
    assert_eq!(
        render(&dir, "", "std/agent/none.prompt"),
        "unknown stdlib prompt asset 'std/agent/none.prompt'"
    );
}

#[test]
fn inline_templates_include_from_the_module() {
    let dir = tree(&[("src/c.prompt", "c")]);
    let loader = FsLoader::new(real(), &asset, dir.path().join("src"));
    let context = RenderContext { loader: &loader, ..RenderContext::default() };
    let template = Template::inline("{{ include \"c.prompt\" }}!").unwrap();
    assert_eq!(template.render(&Value::NIL, &context).unwrap(), "c!");
    let outside = Template::inline("\n{{ include \"../c.prompt\" }}").unwrap();
    let error = outside.render(&Value::NIL, &context).unwrap_err().to_string();
    assert!(
        error.starts_with("at 2:1: include path ") && error.contains(" escapes template root "),
        "{error}"
    );
}

#[test]
fn missing_files_say_so() {
    let dir = tree(&[("a.prompt", "x\n {{ include \"parts/none.prompt\" }}")]);
    assert_eq!(
        render(&dir, "", "b.prompt"),
        "Failed to read template DIR/b.prompt: No such file or directory (os error 2)"
    );
    assert_eq!(
        render(&dir, "", "a.prompt"),
        "DIR/a.prompt at 2:2: failed to read included template DIR/parts/none.prompt: No such file or directory (os error 2)"
    );
}

#[test]
fn project_paths() {
    let manifest = "[asset_roots]\nparts = \"src/parts\"\nbad = \"../out\"\nnumber = 5\n";
    let dir = tree(&[
        ("harn.toml", manifest),
        ("src/parts/b.prompt", "b"),
        (
            "deep/er/a.prompt",
            "{{ include \"@/src/parts/b.prompt\" }}{{ include \"@parts/b.prompt\" }}{{ include \"../../src/parts/b.prompt\" }}",
        ),
        ("@strange", "odd"),
    ]);
    let at = |path: &str| render(&dir, "deep/er", path);
    assert_eq!(at("a.prompt"), "bbb");
    assert_eq!(at("@/src/parts/b.prompt"), "b");
    assert_eq!(at("@parts/./b.prompt"), "b");
    for rel in ["", "../x", "/etc/passwd", "a\\b", "a/../b"] {
        assert_eq!(at(&format!("@/{rel}")), format!("invalid project-root asset path '@/{rel}'"));
        assert_eq!(at(&format!("@parts/{rel}")), format!("invalid asset path '@parts/{rel}'"));
    }
    for alias in ["none", "number"] {
        let expected = format!("asset alias '{alias}' is not defined in [asset_roots] of DIR/harn.toml");
        assert_eq!(at(&format!("@{alias}/x")), expected);
    }
    assert_eq!(
        at("@bad/x"),
        "asset alias 'bad' resolves to an unsafe path '../out' (must be a project-relative directory without `..` segments)"
    );
    assert_eq!(render(&dir, "", "@strange"), "odd");
}

#[test]
fn project_paths_need_a_project() {
    let dir = tree(&[("a.prompt", "{{ include \"@parts/x\" }}")]);
    let expected = "package-root prompt path '@/x' has no project root: no harn.toml found above DIR";
    assert_eq!(render(&dir, "", "@/x"), expected);
    assert_eq!(
        render(&dir, "", "a.prompt"),
        format!("DIR/a.prompt at 1:1: {}", expected.replace("@/x", "@parts/x"))
    );
    // A manifest above a repository does not apply to the files in it.
    let dir = tree(&[("harn.toml", ""), ("x", "text"), ("repo/.git/HEAD", ""), ("repo/src/a", "")]);
    assert_eq!(render(&dir, "", "@/x"), "text");
    assert_eq!(render(&dir, "repo/src", "@/x"), format!("{expected}/repo/src"));
}

#[test]
fn a_broken_manifest_defines_no_alias() {
    let dir = tree(&[("harn.toml", "not toml")]);
    assert_eq!(render(&dir, "", "@a/x"), "asset alias 'a' is not defined in [asset_roots] of DIR/harn.toml");
}

#[test]
fn a_path_with_parents_is_in_the_project_that_it_leads_to() {
    let dir = tree(&[
        ("project/harn.toml", ""),
        ("project/x.prompt", "of the caller's project"),
        ("alone/a.prompt", "{{ include \"d/in.prompt\" }}"),
        ("alone/d/in.prompt", "inside"),
        ("alone/out.prompt", "{{ include \"../secret.prompt\" }}"),
        ("alone/root.prompt", "{{ include \"@/x.prompt\" }}"),
        ("secret.prompt", "secret"),
        ("project/deep/c1.prompt", "{{ include \"../deep/c2.prompt\" }}"),
        ("project/deep/c2.prompt", "{{ include \"./../deep/c1.prompt\" }}"),
    ]);
    assert_eq!(render(&dir, "project", "../alone/a.prompt"), "inside");
    assert_eq!(
        render(&dir, "project", "../alone/out.prompt"),
        "DIR/alone/out.prompt at 1:1: include path DIR/secret.prompt escapes template root DIR/alone"
    );
    assert_eq!(
        render(&dir, "project", "../alone/root.prompt"),
        "DIR/alone/root.prompt at 1:1: package-root prompt path '@/x.prompt' has no project root: no harn.toml found above DIR/alone"
    );
    assert_eq!(
        render(&dir, "", "project/deep/../deep/c1.prompt"),
        "DIR/project/deep/c2.prompt at 1:1: circular include detected: DIR/project/deep/c1.prompt → DIR/project/deep/c2.prompt → DIR/project/deep/c1.prompt"
    );
    // A missing file is reported as written, because its normalized path is unknown.
    assert_eq!(
        render(&dir, "alone", "none/../a.prompt"),
        "Failed to read template DIR/alone/none/../a.prompt: No such file or directory (os error 2)"
    );
}

#[cfg(unix)]
#[test]
fn a_parent_of_a_link_is_that_of_its_target() {
    let dir =
        tree(&[("away/deep/b.prompt", "b"), ("away/a.prompt", "a of away"), ("here/a.prompt", "a of here")]);
    std::os::unix::fs::symlink(dir.path().join("away/deep"), dir.path().join("here/link")).unwrap();
    assert_eq!(render(&dir, "here", "link/../a.prompt"), "a of away");
}

#[test]
fn includes_stay_in_the_template_root() {
    let dir = tree(&[
        ("secret.prompt", "secret"),
        ("alone/a.prompt", "{{ include \"../secret.prompt\" }}"),
        ("project/harn.toml", ""),
        ("project/src/a.prompt", "{{ include \"../parts/b.prompt\" }}"),
        ("project/parts/b.prompt", "b {{ include \"../../secret.prompt\" }}"),
        ("project/parts/ok.prompt", "ok"),
        ("project/src/ok.prompt", "{{ include \"../parts/ok.prompt\" }}"),
        ("project/src/gone.prompt", "{{ include \"../../gone.prompt\" }}"),
    ]);
    assert_eq!(
        render(&dir, "alone", "a.prompt"),
        "DIR/alone/a.prompt at 1:1: include path DIR/secret.prompt escapes template root DIR/alone"
    );
    assert_eq!(render(&dir, "project/src", "ok.prompt"), "ok");
    let expected =
        "DIR/project/parts/b.prompt at 1:3: include path DIR/secret.prompt escapes template root DIR/project";
    assert_eq!(render(&dir, "project/src", "a.prompt"), expected);
    let expected =
        "DIR/project/src/gone.prompt at 1:1: include path DIR/gone.prompt escapes template root DIR/project";
    assert_eq!(render(&dir, "project/src", "gone.prompt"), expected);
}

#[cfg(unix)]
#[test]
fn links_are_followed_before_the_check() {
    let dir = tree(&[
        ("secret.prompt", "secret"),
        ("project/harn.toml", ""),
        ("project/a.prompt", "{{ include \"link.prompt\" }}"),
        ("project/b.prompt", "{{ include \"@/link.prompt\" }}"),
        ("project/c.prompt", "{{ include \"inside.prompt\" }}"),
        ("project/real.prompt", "real"),
    ]);
    let link = |from: &str, to: &str| {
        std::os::unix::fs::symlink(dir.path().join(to), dir.path().join(from)).unwrap()
    };
    link("project/link.prompt", "secret.prompt");
    link("project/inside.prompt", "project/real.prompt");
    let escapes =
        "DIR/project/a.prompt at 1:1: include path DIR/secret.prompt escapes template root DIR/project";
    assert_eq!(render(&dir, "project", "a.prompt"), escapes);
    assert_eq!(
        render(&dir, "project", "b.prompt"),
        "DIR/project/b.prompt at 1:1: invalid project-root asset path '@/link.prompt'"
    );
    assert_eq!(render(&dir, "project", "c.prompt"), "real");
}

#[test]
fn circles_between_files() {
    let dir =
        tree(&[("a.prompt", "{{ include \"b.prompt\" }}"), ("b.prompt", " {{ include \"./a.prompt\" }}")]);
    let expected =
        "DIR/b.prompt at 1:2: circular include detected: DIR/a.prompt → DIR/b.prompt → DIR/a.prompt";
    assert_eq!(render(&dir, "", "a.prompt"), expected);
    let own = tree(&[("s.prompt", "{{ include \"s.prompt\" }}")]);
    assert_eq!(
        render(&own, "", "s.prompt"),
        "DIR/s.prompt at 1:1: circular include detected: DIR/s.prompt → DIR/s.prompt"
    );
}

#[test]
fn the_sandbox_covers_renders_and_includes() {
    let dir = tree(&[
        ("ok/a.prompt", "{{ include \"b.prompt\" }}{{ include \"std/agent/hello.prompt\" }}"),
        ("ok/b.prompt", "b "),
        ("ok/out.prompt", "\n{{ include \"@/other/c.prompt\" }}"),
        ("harn.toml", ""),
        ("other/c.prompt", "c"),
    ]);
    let sandboxed = |path: &str| {
        let mut loader = FsLoader::new(real(), &asset, dir.path().join("ok"));
        loader.workspace_roots = Some(vec![dir.path().join("ok"), dir.path().join("too")]);
        render_in(&dir, loader, path)
    };
    assert_eq!(sandboxed("a.prompt"), "b hello from std");
    let violation = "sandbox violation: builtin 'template.render' attempted to read 'DIR/other/c.prompt' outside workspace_roots [DIR/ok, DIR/too]";
    assert_eq!(sandboxed("@/other/c.prompt"), violation);
    assert_eq!(sandboxed("out.prompt"), violation);
    assert_eq!(
        sandboxed("../other/none.prompt"),
        violation.replace("DIR/other/c.prompt", "DIR/ok/../other/none.prompt"),
        "whether a file outside exists is not told"
    );
    let loader = FsLoader {
        workspace_roots: Some(vec![dir.path().join("ok")]),
        ..FsLoader::new(real(), &asset, dir.path().join("ok"))
    };
    assert!(Template::load("../other/c.prompt", &loader).unwrap_err().is_sandbox_violation());
}

#[test]
fn folders_devices_and_bytes_that_are_no_text() {
    let dir = tree(&[("harn.toml", ""), ("folder/x", ""), ("a.prompt", "{{ include \"folder\" }}")]);
    fs::write(dir.path().join("bytes.prompt"), b"a\xff\xfeb").unwrap();
    assert_eq!(
        render(&dir, "", "folder"),
        "Failed to read template DIR/folder: Is a directory (os error 21)"
    );
    assert_eq!(
        render(&dir, "", "a.prompt"),
        "DIR/a.prompt at 1:1: failed to read included template DIR/folder: Is a directory (os error 21)"
    );
    assert_eq!(
        render(&dir, "", "bytes.prompt"),
        "Failed to read template DIR/bytes.prompt: stream did not contain valid UTF-8"
    );
    if Path::new("/dev/zero").exists() {
        assert_eq!(render(&dir, "", "/dev/zero"), "Failed to read template /dev/zero: not a regular file");
    }
    assert!(render(&dir, "", "a\0b").starts_with("Failed to read template "));
}

#[cfg(unix)]
#[test]
fn includes_of_devices_and_pipes_do_not_block() {
    let dir = tree(&[
        ("harn.toml", ""),
        ("a.prompt", "{{ include \"zero\" }}"),
        ("b.prompt", "{{ include \"pipe\" }}"),
    ]);
    std::os::unix::fs::symlink("/dev/zero", dir.path().join("zero")).unwrap();
    // A link to a device points outside the project.
    assert_eq!(
        render(&dir, "", "a.prompt"),
        "DIR/a.prompt at 1:1: include path /dev/zero escapes template root DIR"
    );
    let made = std::process::Command::new("mkfifo").arg(dir.path().join("pipe")).status();
    if made.is_ok_and(|status| status.success()) {
        assert_eq!(
            render(&dir, "", "b.prompt"),
            "DIR/b.prompt at 1:1: failed to read included template DIR/pipe: not a regular file"
        );
    }
}

#[cfg(unix)]
#[test]
fn files_without_read_permission_say_so() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tree(&[("closed.prompt", "secret"), ("a.prompt", " {{ include \"closed.prompt\" }}")]);
    let closed = dir.path().join("closed.prompt");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    // The superuser can read the file anyway.
    if fs::File::open(&closed).is_err() {
        assert_eq!(
            render(&dir, "", "closed.prompt"),
            "Failed to read template DIR/closed.prompt: Permission denied (os error 13)"
        );
        assert_eq!(
            render(&dir, "", "a.prompt"),
            "DIR/a.prompt at 1:2: failed to read included template DIR/closed.prompt: Permission denied (os error 13)"
        );
    }
}

#[test]
fn files_beyond_the_limit_are_not_read() {
    let dir = tree(&[]);
    let file = fs::File::create(dir.path().join("big.prompt")).unwrap();
    // A sparse file needs no disk space.
    file.set_len(harn_template::MAX_TEMPLATE_BYTES as u64 + 1).unwrap();
    assert_eq!(
        render(&dir, "", "big.prompt"),
        "Failed to read template DIR/big.prompt: template is too large (67108865 bytes, the limit is 67108864)"
    );
}

#[test]
fn parse_errors_show_the_path_as_resolved() {
    let dir = tree(&[("src/bad.prompt", "\n  {{ for x }}")]);
    assert_eq!(render(&dir, "src", "./bad.prompt"), "DIR/src/bad.prompt at 2:3: expected `in` in for-loop");
}

#[test]
fn an_edited_file_renders_its_new_text() {
    let dir = tree(&[("a.prompt", "{{ include \"b.prompt\" }}"), ("b.prompt", "old")]);
    let loader = FsLoader::new(real(), &asset, dir.path());
    let cache = TemplateCache::new();
    let context = RenderContext { loader: &loader, cache: Some(&cache), ..RenderContext::default() };
    let template = Template::load("a.prompt", &loader).unwrap();
    assert_eq!(template.render(&Value::NIL, &context).unwrap(), "old");
    fs::write(dir.path().join("b.prompt"), "new").unwrap();
    assert_eq!(template.render(&Value::NIL, &context).unwrap(), "new");
}
