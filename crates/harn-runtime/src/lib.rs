//! Puts the native functions of every crate into one VM.
