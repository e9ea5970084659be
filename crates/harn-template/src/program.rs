//! The compiled form of a template. A flat list of instructions over the source text; names are slots, jumps are indices,
//! static text stays a range of the source.

use harn_value::Str;

use crate::expr::{Expr, Name};
use crate::sections::SectionSpec;

/// The largest template that is accepted, in bytes.
pub const MAX_TEMPLATE_BYTES: usize = 64 << 20;

/// What the compiler makes of the source.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub(crate) ops: Vec<Op>,
    pub(crate) writes: Vec<Write>,
    pub(crate) tests: Vec<Test>,
    pub(crate) loops: Vec<Loop>,
    pub(crate) includes: Vec<Include>,
    pub(crate) sections: Vec<Section>,
    /// Names that are bound outside the template.
    pub(crate) free: Vec<Str>,
    /// How many loop variables are alive at once, at most.
    pub(crate) locals: usize,
}

/// The bytes of a directive, from `{{` to behind `}}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// An instruction. Targets are indices into the list.
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
    /// `{{ name }}` with a name from outside. `start..end` is the source between the braces, written
    /// back when the name is bound nowhere.
    Bare {
        free: u32,
        start: u32,
        end: u32,
    },
    /// Goes on if the condition holds, else jumps.
    Test {
        test: u32,
        otherwise: u32,
    },
    /// The end of a branch of an `if`.
    EndBranch {
        target: u32,
    },
    /// Starts a loop, or jumps to `empty` (the `else` body, or behind the loop).
    For {
        info: u32,
        empty: u32,
    },
    /// The next round, or on to `exit`.
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
    /// Where the condition is written.
    pub(crate) condition: (u32, u32),
    /// 0 for the `if`, then the number of the `elif`.
    pub(crate) branch: u32,
    /// The `{{` of the `if` that this belongs to.
    pub(crate) opened_at: u32,
    pub(crate) otherwise: Otherwise,
}

/// What a failed test means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Otherwise {
    /// Another condition is tried.
    Elif,
    /// The `else` at this place is taken.
    Else(u32),
    /// Nothing is taken.
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
    /// Loop variables that the included template sees, innermost first.
    pub(crate) scope: Box<[(Str, Name)]>,
    pub(crate) site: Site,
}

#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) spec: &'static SectionSpec,
    pub(crate) argument: Option<Expr>,
    /// Where the names of arguments stand that the section does not read.
    pub(crate) others: Vec<(u32, u32)>,
    /// Where `llm` is found.
    pub(crate) llm: Name,
    pub(crate) site: Site,
}
