//! Names, calls and templates checked before a program runs.
