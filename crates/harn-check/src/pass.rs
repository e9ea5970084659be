//! The shared state of the checks of a file.

use harn_syntax::ast::*;
use harn_syntax::signature::Record;
use harn_syntax::{Diagnostic, Span};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::facts::{End, Flow, Mark};
use crate::imports::Imported;
use crate::scope::{Kind, Lookup, Scopes};
use crate::told::Told;
use crate::types::{Ty, Typing};
use crate::world::{Source, World};

/// The declared result of a function.
#[derive(Clone)]
pub(crate) struct Result<'a> {
    pub(crate) ty: Ty,
    pub(crate) written: &'a TypeExpr,
    /// The body, whose last expression is also a result.
    pub(crate) body: *const Block,
    /// The function is a stream, and this is the type of its items.
    pub(crate) emits: bool,
}

/// A parameter whose type is a type parameter with a bound.
pub(crate) struct Bounded<'a> {
    pub(crate) name: &'a str,
    pub(crate) param: &'a str,
    pub(crate) interface: &'a str,
}

/// A name without a definition in scope.
pub(crate) struct Unknown<'a> {
    pub(crate) name: &'a str,
    pub(crate) span: Span,
    pub(crate) what: What<'a>,
}

/// The expected kind of a name.
pub(crate) enum What<'a> {
    /// A function; with the functions in scope of the call.
    Function(Vec<&'a str>),
    /// A variable or another value; with the names in scope.
    Variable(Vec<&'a str>),
    Struct,
}

/// Facts about the values of a variable.
pub(crate) struct Known {
    pub(crate) ty: Ty,
    /// The annotation as written, if there is one.
    pub(crate) written: Option<String>,
    /// Only nil was assigned so far, without an annotation.
    pub(crate) is_open: bool,
}

/// The shared state of the checks.
pub(crate) struct Pass<'a> {
    pub(crate) source: &'a Source<'a>,
    pub(crate) world: &'a World<'a>,
    pub(crate) scopes: Scopes<'a>,
    /// The types of this file.
    pub(crate) typing: Typing<'a>,
    /// The variables of known type, by the offset of their declaration.
    pub(crate) known: FxHashMap<u32, Known>,
    /// Narrowed types.
    pub(crate) flow: Flow,
    /// For each enclosing loop, innermost last: its start, and the facts at each `break`.
    pub(crate) loops: Vec<(Mark, Vec<End>)>,
    /// The known types of walked blocks.
    pub(crate) block_types: FxHashMap<*const Block, Ty>,
    /// Cached types, by the address of the expression.
    pub(crate) inferred: FxHashMap<*const Expr, Ty>,
    /// The declared result of each enclosing function, innermost last.
    pub(crate) results: Vec<Option<Result<'a>>>,
    /// For each enclosing function, innermost last, the parameters of a bounded type.
    pub(crate) bounds: Vec<Vec<Bounded<'a>>>,
    /// Bounded parameters of the function that is walked next.
    pub(crate) next_bounds: Vec<Bounded<'a>>,
    /// For each enclosing function, innermost last, whether it is a `gen fn`.
    pub(crate) streams: Vec<bool>,
    /// All declared names of the file, at any depth.
    pub(crate) declared: FxHashSet<&'a str>,
    /// The declared structs, in order.
    pub(crate) structs: Vec<&'a str>,
    /// Names whose body a pipeline overrides.
    pub(crate) overridden: FxHashSet<&'a str>,
    /// Calls and literals with names that are not in scope; resolved at the end.
    pub(crate) unknown: Vec<Unknown<'a>>,
    /// Findings about the arguments of functions that a pipeline may still override.
    pub(crate) arguments: Vec<(&'a str, Diagnostic)>,
    /// Findings about calls of builtins, by name: an imported file may declare a function with that name.
    pub(crate) wrong_calls: Vec<(String, Diagnostic)>,
    /// Spans of unknown types that are reported together with the value that does not match them.
    pub(crate) misnamed: FxHashSet<u32>,
    /// The schemas in variables that are never assigned, by the offset of their declaration.
    pub(crate) held_schemas: FxHashMap<u32, Ty>,
    /// The results of builtins in variables that are never assigned, by the offset of their declaration.
    pub(crate) held_records: FxHashMap<u32, &'static Record>,
    /// The values of variables that are never assigned, by the offset of their declaration.
    pub(crate) held_values: FxHashMap<u32, &'a Expr>,
    /// Expressions in the position of a schema, where the name of a type means its schema.
    pub(crate) schemas: FxHashSet<*const Expr>,
    /// More than zero in pipelines whose parent is unknown: its names are visible there.
    pub(crate) opaque: u32,
    /// Types for editors, if requested.
    pub(crate) told: Option<Told>,
    pub(crate) out: Vec<Diagnostic>,
}

impl<'a> Pass<'a> {
    pub(crate) fn new(typing: Typing<'a>) -> Self {
        let Typing { source, world, .. } = typing;
        Self {
            source,
            world,
            scopes: Scopes::new(source.tree),
            typing,
            known: FxHashMap::default(),
            flow: Flow::default(),
            loops: Vec::new(),
            block_types: FxHashMap::default(),
            inferred: FxHashMap::default(),
            results: Vec::new(),
            bounds: Vec::new(),
            next_bounds: Vec::new(),
            streams: Vec::new(),
            declared: FxHashSet::default(),
            structs: Vec::new(),
            overridden: FxHashSet::default(),
            unknown: Vec::new(),
            arguments: Vec::new(),
            wrong_calls: Vec::new(),
            misnamed: FxHashSet::default(),
            held_schemas: FxHashMap::default(),
            held_records: FxHashMap::default(),
            held_values: FxHashMap::default(),
            schemas: FxHashSet::default(),
            opaque: 0,
            told: None,
            out: Vec::new(),
        }
    }

    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        self.out.push(diagnostic);
    }

    /// Returns whether unknown names may exist.
    pub(crate) fn is_opaque(&self) -> bool {
        self.opaque > 0
    }

    /// Returns whether an undeclared name is a builtin that no import shadows.
    pub(crate) fn is_builtin(&self, name: &str) -> bool {
        self.world.signatures.is_builtin(name)
            && !self.declared.contains(name)
            && !self.is_opaque()
            && self.imported_names().is_some_and(|names| !names.contains_key(name))
    }

    /// Returns the meaning of an imported name.
    pub(crate) fn imported(&self, name: &str) -> Option<&'a Imported> {
        self.imported_names()?.get(name)
    }

    /// Returns the imported names, if all of them are known.
    pub(crate) fn imported_names(&self) -> Option<&'a FxHashMap<Name, Imported>> {
        self.typing.imports.get(self.source, self.world)
    }

    /// Returns the facts about the variable with this name in the current scope.
    pub(crate) fn known_at(&self, name: &str) -> Option<&Known> {
        self.known.get(&self.scopes.definition(name)?)
    }

    /// Returns the enum that an expression names.
    pub(crate) fn enum_named(&self, object: &Expr) -> Option<&'a EnumDecl> {
        let ExprKind::Name(name) = &object.kind else { return None };
        self.enum_of(name, object.span.start)
    }

    /// Resolves a name at an offset to an enum.
    pub(crate) fn enum_of(&self, name: &str, offset: u32) -> Option<&'a EnumDecl> {
        match self.scopes.look_up(name, offset) {
            Lookup::Is(Kind::Enum(decl)) => Some(decl),
            Lookup::Missing | Lookup::Is(Kind::Imported)
                if !self.is_opaque() && !self.declared.contains(name) =>
            {
                match &self.imported(name)?.decl()?.kind {
                    DeclKind::Enum(decl) => Some(decl),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}
