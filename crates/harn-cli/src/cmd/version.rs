//! `harn version`: prints a banner.

/// Prints the banner.
pub(crate) fn version() -> u8 {
    use std::io::Write;
    let title = format!("harn v{}", env!("CARGO_PKG_VERSION"));
    let rule = "─".repeat(title.len() + 2);
    let _ = writeln!(
        crate::out::Out,
        "╭{rule}╮\n│ {title} │\n╰{rule}╯\na scripting language and runtime for AI agents"
    );
    0
}
