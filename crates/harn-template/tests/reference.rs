//! The generated reference page is current.

use std::path::Path;

#[test]
fn the_page_in_docs_is_what_the_tables_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/template-reference.md");
    let page = std::fs::read_to_string(path).unwrap_or_default();
    assert!(page == harn_template::reference(), "run `cargo run -p harn-template --example reference`");
}
