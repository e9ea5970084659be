//! Bytecode, compiler, interpreter and fibers.
