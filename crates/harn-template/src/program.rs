//! The compiled form of a template: a flat list of instructions over the source. Names are slots, jumps are
//! indices, and static text is a range of the source.

use harn_value::Str;

use crate::expr::{Expr, Name};
use crate::sections::SectionSpec;

/// Maximum size of a template in bytes.
pub const MAX_TEMPLATE_BYTES: usize = 64 << 20;

/// The output of the compiler.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub(crate) ops: Vec<Op>,
    pub(crate) writes: Vec<Write>,
    pub(crate) tests: Vec<Test>,
    pub(crate) loops: Vec<Loop>,
    pub(crate) includes: Vec<Include>,
    pub(crate) sections: Vec<Section>,
    /// Names bound outside the template.
    pub(crate) free: Vec<Str>,
    /// Maximum number of loop variables that are live at the same time.
    pub(crate) locals: usize,
}

/// The byte range of a directive, from `{{` to after `}}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// An instruction. Jump targets are indices into the list.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    /// Copies a range of the source.
    Text {
        start: u32,
        end: u32,
    },
    /// Writes an expression.
    Write(u32),
    /// `{{ name }}` with a loop variable.
    WriteLocal {
        slot: u16,
        at: u32,
    },
    /// `{{ name }}` with a free name. `start..end` is the source between the braces, which is copied to the output
    /// if the name is unbound.
    Bare {
        free: u32,
        start: u32,
        end: u32,
    },
    /// Continues if the condition holds, otherwise jumps.
    Test {
        test: u32,
        otherwise: u32,
    },
    /// The end of a branch of an `if`.
    EndBranch {
        target: u32,
    },
    /// Starts a loop, or jumps to `empty` (the `else` body, or after the loop).
    For {
        info: u32,
        empty: u32,
    },
    /// Starts the next iteration, or continues at `exit`.
    Next {
        body: u32,
        exit: u32,
    },
    Include(u32),
    SectionStart(u32),
    SectionEnd(u32),
}

#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) expr: Expr,
    pub(crate) site: Site,
}

/// A condition of an `if` or `elif`.
#[derive(Debug)]
pub(crate) struct Test {
    pub(crate) expr: Expr,
    pub(crate) site: Site,
    /// Source range of the condition.
    pub(crate) condition: (u32, u32),
    /// 0 for the `if`, then the number of the `elif`.
    pub(crate) branch: u32,
    /// The `{{` of the `if` that this belongs to.
    pub(crate) opened_at: u32,
    pub(crate) otherwise: Otherwise,
}

/// The effect of a failed test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Otherwise {
    /// The next condition is tested.
    Elif,
    /// The `else` at this offset is executed.
    Else(u32),
    /// No branch is executed.
    Nothing,
}

#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) iterable: Expr,
    pub(crate) site: Site,
    pub(crate) key: Option<u16>,
    pub(crate) value: u16,
}

#[derive(Debug)]
pub(crate) struct Include {
    pub(crate) path: Expr,
    pub(crate) with: Vec<(Str, Expr)>,
    /// Loop variables visible to the included template, innermost first.
    pub(crate) scope: Box<[(Str, Name)]>,
    pub(crate) site: Site,
}

#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) spec: &'static SectionSpec,
    pub(crate) argument: Option<Expr>,
    /// Locations of the names of ignored arguments.
    pub(crate) others: Vec<(u32, u32)>,
    /// The name that `llm` resolves to.
    pub(crate) llm: Name,
    pub(crate) site: Site,
}
