//! What the commands say on standard error.

/// As that of the standard library, but where standard error is closed there is nobody to tell, and that is no reason to end.
macro_rules! eprint {
    ($($said:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(std::io::stderr(), $($said)*);
    }};
}

/// As that of the standard library, with the same difference.
macro_rules! eprintln {
    ($($said:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($said)*);
    }};
}
