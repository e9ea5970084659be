//! Bytecode, compiler, interpreter and fibers: the virtual machine that runs Harn programs.
//!
//! A program is [loaded](load) (parsed and compiled with its imports) and [run](Program::run) as a fiber: a future that
//! executes instructions in a synchronous loop and leaves it only to wait. Native functions come in tables (see
//! [`builtins!`]) that the owner of the [`Vm`] chooses.
//!
//! ```
//! use harn_system::Memory;
//! use harn_vm::{Source, VmBuilder, block_on, load};
//!
//! let vm = VmBuilder::new(std::rc::Rc::new(Memory::new())).build();
//! let source = Source { name: "demo".into(), text: "return 6 * 7".into(), dir: ".".into() };
//! let program = load(&vm, &source).unwrap_or_else(|_| panic!("valid source"));
//! let outcome = block_on(program.run(&vm, None, &[])).unwrap();
//! assert_eq!(outcome.result.unwrap().to_string(), "42");
//! ```
//!
//! Reading order: `bytecode.rs` (instructions), `compile/mod.rs`, `fiber.rs`, `interp.rs`. Most `unsafe`
//! code is in `arena.rs`, `interp.rs`, `calls.rs`, `iteration.rs`, `fiber.rs`, `coroutine.rs`, `closure.rs`,
//! `cycles.rs`, `observe.rs` and `vm.rs`; `verify.rs` proves the invariants that the interpreter relies on.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod access;
mod arena;
pub mod builtin;
pub mod bytecode;
pub mod call_loop;
mod calls;
pub mod channel;
mod cleanup;
pub mod closure;
mod compile;
pub mod concurrency;
mod coroutine;
pub mod cx;
pub mod cycles;
pub mod error;
pub mod evaluate;
pub mod failures;
mod fiber;
pub mod generator;
mod held;
pub mod identity;
mod instance;
mod interp;
mod isolate;
pub mod iter;
mod iteration;
mod modules;
mod native;
mod native_function;
pub mod observe;
mod ops;
mod outside;
mod params;
mod patterns;
mod program;
mod runtime_context;
mod scheduler;
mod schema;
mod spans;
pub mod suggest;
mod sync;
pub mod task;
pub mod task_scope;
mod tracing;
mod types;
mod uncaught;
mod verify;
pub mod vm;
mod vm_id;

pub use access::{Limit, Names};
pub use builtin::{Builtin, Effect, MethodTable};
pub use call_loop::CallLoop;
pub use compile::CompileError;
pub use cx::Cx;
pub use error::{Error, ErrorKind, Result};
pub use failures::TaskFaults;
pub use harn_syntax::{notice, shapes, signature};
pub use harn_value::{NativeHeader, Value};
pub use identity::{Supervised, TaskFacts};
pub use instance::{Call, Instance};
pub use modules::{ExportedFunction, LoadError, Program, Source, load, load_tree};
pub use native::{Calm, MAX_NESTING, Place, check_nesting, quiet_panics, running_place, stop};
pub use native_function::NativeFunction;
pub use observe::{Level, Observer, Scene};
pub use program::{EvalError, MAX_SOURCE, Outcome, Session, read_source};
pub use scheduler::{among_tasks, block_on, block_on_with, spawn};
pub use spans::{FinishedSpan, OpenSpan, SpanKind};
pub use uncaught::{drawn, uncaught};
pub use vm::{BuildError, Interrupt, Vm, VmBuilder};

/// Returns the builtin tables that belong to the language itself.
pub fn tables() -> Vec<&'static [Builtin]> {
    concurrency::tables()
}

/// The README, included so that its example is tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
