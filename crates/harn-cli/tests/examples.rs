//! Every example runs as its README says: from the top of the repository, without a key.

use crate::common::{harn_in, repository};

#[test]
fn all_examples_run() {
    let root = repository();
    let mut names: Vec<String> = std::fs::read_dir(root.join("examples"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".harn"))
        .collect();
    names.sort();
    assert!(names.len() >= 10, "only {} examples", names.len());
    let readme = std::fs::read_to_string(root.join("examples/README.md")).unwrap();
    for name in names {
        let ran = harn_in(&root, &["run", &format!("examples/{name}")]);
        // Retries of model calls are told on standard error; errors and warnings of Harn itself are not welcome.
        let complaint =
            ran.err.lines().any(|line| line.starts_with("error: ") || line.starts_with("warning: "));
        assert!(ran.code == 0 && !complaint, "{name}\n{}", ran.shown());
        assert!(!ran.out.is_empty(), "{name} prints nothing");
        assert!(readme.contains(&format!("({name})")), "examples/README.md does not mention {name}");
    }
}

#[test]
fn the_reviewer_reads_the_folder_and_reports() {
    let root = repository();
    let first = harn_in(&root, &["run", "examples/review_folder.harn"]);
    assert_eq!((first.code, first.err.as_str()), (0, ""), "{}", first.shown());
    assert!(first.out.contains("orders.py"), "{}", first.out);
    // Recorded replies and real tools: the same every time.
    assert_eq!(harn_in(&root, &["run", "examples/review_folder.harn"]).out, first.out);
}
