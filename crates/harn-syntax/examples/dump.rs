//! Parses files and prints their syntax trees, or their errors. `--time` prints the parsing time.

use std::time::Instant;

fn main() -> std::io::Result<()> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let time = args.first().is_some_and(|arg| arg == "--time");
    if time {
        args.remove(0);
    }
    for path in args {
        let source = std::fs::read_to_string(&path)?;
        let start = Instant::now();
        let parsed = harn_syntax::parse(&source);
        let took = start.elapsed();
        let file = harn_syntax::SourceFile::new(&path, &source[..]);
        for error in &parsed.errors {
            println!("{path}: {}", error.canonical(&source));
            if !time {
                print!("{}", error.diagnostic(&source).render(&file, false));
            }
        }
        if time {
            println!("{path}: {} bytes, {} errors, {took:?}", source.len(), parsed.errors.len());
        } else if parsed.errors.is_empty() {
            println!("{:#?}", parsed.program.items);
        }
    }
    Ok(())
}
