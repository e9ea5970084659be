//! Output on standard error.

/// Replaces the macro of the standard library, but ignores errors: a closed standard error does not end the process.
macro_rules! eprint {
    ($($said:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(std::io::stderr(), $($said)*);
    }};
}

/// Replaces the macro of the standard library, but ignores errors.
macro_rules! eprintln {
    ($($said:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($said)*);
    }};
}
