//! Generates docs/template-reference.md from the tables of the engine.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/template-reference.md");
    std::fs::write(page, harn_template::reference())
}
