//! `harn explain --invariant INVARIANT HANDLER FILE`: shows the path on which a handler violates an invariant.

use std::fmt::Write;
use std::path::Path;

use harn_check::{INVARIANTS, Step, Violation};
use harn_system::Stream;
use harn_vm::suggest;

use crate::args::usage_error;
use crate::program::Program;
use crate::style::Colour;

/// Prints the path. Returns 1 if there is a violation, or if the arguments are invalid.
pub(super) fn explain_invariant(invariant: &str, handler: &str, file: &Path) -> u8 {
    if !INVARIANTS.contains(&invariant) {
        let hint = match INVARIANTS.iter().min_by_key(|known| suggest::distance(known, invariant)) {
            Some(near) if suggest::distance(near, invariant) <= 3 => format!("did you mean `{near}`?"),
            _ => format!("the invariants are {}", INVARIANTS.join(", ")),
        };
        usage_error("explain", &format!("there is no invariant `{invariant}`; {hint}"));
    }
    let program = match Program::read(file) {
        Ok(program) => program,
        Err(text) => return fail(&text),
    };
    let violations = match program.violations() {
        Ok(violations) => violations,
        Err(problems) => {
            let colour = Colour::of(Stream::Error).on();
            problems.iter().for_each(|problem| eprint!("{}", problem.draw(colour)));
            return 1;
        }
    };
    if !program.has_handler(handler) {
        return fail(&format!("handler `{handler}` was not found"));
    }
    let broken: Vec<&Violation> =
        violations.iter().filter(|v| v.invariant == invariant && v.handler == handler).collect();
    if broken.is_empty() {
        let file = file.display();
        crate::out::write(&format!("No `{invariant}` violations found for `{handler}` in {file}.\n"));
        return 0;
    }
    let ways: Vec<String> = broken.iter().map(|violation| drawn(violation, &program)).collect();
    crate::out::write(&ways.join("\n"));
    1
}

fn fail(text: &str) -> u8 {
    eprintln!("{}", harn_syntax::error_line(text));
    1
}

/// Formats the steps of a violation with their locations.
fn drawn(violation: &Violation, program: &Program) -> String {
    let mut text = format!("{}: {} ({})\n", violation.invariant, violation.message, violation.handler);
    for (at, step) in violation.steps.iter().enumerate() {
        let _ = writeln!(text, "  {}. {} {}", at + 1, place(step, program), step.label);
    }
    let _ = writeln!(text, "  help: {}", violation.help);
    text
}

fn place(step: &Step, program: &Program) -> String {
    let (name, (line, column)) = match &step.file {
        Some(file) => (file.name(), file.line_column(step.span.start)),
        None => (program.name(), program.line_column(step.span)),
    };
    format!("{name}:{line}:{column}")
}
