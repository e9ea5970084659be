//! Name resolution in a file: all definitions of names, and the definition of each use. Also works on trees with
//! errors.
//!
//! The rules are those of the runtime: a declaration is visible in its whole block; a variable is visible after its
//! statement and in functions before it; a redeclared variable refers to the later declaration after its statement;
//! names that no scope defines are imported or built in.

mod compare;
mod walk;

pub use compare::NameChanges;
use harn_syntax::Span;
use harn_syntax::ast::{Name, Program};
use rustc_hash::FxHashMap;

/// The kind of a definition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SymbolKind {
    /// `fn`, `gen fn`.
    Function,
    /// `pipeline`.
    Pipeline,
    /// `tool`.
    Tool,
    /// `skill`.
    Skill,
    /// `eval_pack`.
    EvalPack,
    /// `enum`.
    Enum,
    /// A variant of an enum.
    Variant,
    /// `struct`.
    Struct,
    /// A field of a struct.
    Field,
    /// A method of an `impl` or an `interface`.
    Method,
    /// `type`.
    Type,
    /// `interface`.
    Interface,
    /// A parameter of a generic declaration, an associated type.
    TypeParam,
    /// `let`, or any other construct that binds a value once.
    Let,
    /// `var`.
    Var,
    /// A parameter.
    Param,
    /// A name in an import list.
    Import,
}

impl SymbolKind {
    /// Returns whether it is declared by a keyword and can be called, imported or used as a type.
    #[must_use]
    pub fn is_declaration(self) -> bool {
        use SymbolKind::{Enum, EvalPack, Function, Interface, Pipeline, Skill, Struct, Tool, Type};
        matches!(self, Function | Pipeline | Tool | Skill | EvalPack | Enum | Struct | Type | Interface)
    }

    /// Returns whether it is a member of another symbol and only accessible through it.
    #[must_use]
    pub fn is_member(self) -> bool {
        matches!(self, SymbolKind::Variant | SymbolKind::Field | SymbolKind::Method)
    }
}

/// The index of a symbol in its file.
pub type SymbolId = usize;

/// A name defined by a file.
#[derive(Clone, Debug)]
pub struct Symbol {
    /// The name.
    pub name: Name,
    /// Location of the name.
    pub span: Span,
    /// Source range of the construct that defines it: the declaration, the statement or the parameter.
    pub whole: Span,
    /// The kind.
    pub kind: SymbolKind,
    /// The struct, enum or interface that contains it.
    pub owner: Option<SymbolId>,
    /// Whether the name is also the key of a pattern, as in `let {name} = user`.
    pub shorthand: bool,
    /// Source range of its type annotation.
    pub ty: Option<Span>,
    /// Whether it is defined at file level.
    pub top: bool,
    /// Offset from which it is visible in its scope; 0 if it is visible in the whole scope.
    from: u32,
    scope: usize,
}

/// A use of a name.
#[derive(Clone, Debug)]
pub struct Use {
    /// The name.
    pub name: Name,
    /// Location of the name.
    pub span: Span,
    /// The symbol that it resolves to; `None` for builtins, names imported by whole-file imports, and unknown
    /// names.
    pub symbol: Option<SymbolId>,
    /// Whether it is assigned.
    pub write: bool,
}

/// A use of a member of a value: `object.name`.
#[derive(Clone, Debug)]
pub struct MemberUse {
    /// The name of the member; empty if it is missing in an incomplete source.
    pub name: Name,
    /// Location of the name.
    pub span: Span,
    /// Location of the object.
    pub object: Span,
    /// Whether it is called.
    pub call: bool,
}

/// A use of a part of a declaration, qualified by its name: `Shape.Dot`, or a key of a struct literal.
#[derive(Clone, Debug)]
pub struct Qualified {
    /// The name of the declaration.
    pub owner: Name,
    /// The symbol of the declaration; an import if it is declared in another file.
    pub owner_symbol: Option<SymbolId>,
    /// The name of the part.
    pub name: Name,
    /// Location of the name.
    pub span: Span,
}

/// A source range in which names are visible.
#[derive(Clone, Debug)]
struct Scope {
    span: Span,
    parent: Option<usize>,
    /// Whether it is the scope of a function, whose body may run after later variables of the enclosing scope are
    /// set.
    function: bool,
}

/// The names of a file.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// The definitions, in traversal order.
    pub symbols: Vec<Symbol>,
    /// The uses, in source order.
    pub uses: Vec<Use>,
    /// The uses of members, in source order.
    pub members: Vec<MemberUse>,
    /// The qualified uses of parts of declarations.
    pub qualified: Vec<Qualified>,
    scopes: Vec<Scope>,
    /// The symbols by name, sorted by scope and then by order of definition.
    by_name: FxHashMap<Name, Vec<SymbolId>>,
}

impl Names {
    /// Returns whether the scope of a symbol declares another symbol with this name.
    #[must_use]
    pub fn declares_beside(&self, id: SymbolId, name: &str) -> bool {
        let scope = self.symbols[id].scope;
        self.symbols.iter().enumerate().any(|(other, symbol)| {
            other != id && symbol.scope == scope && symbol.owner.is_none() && symbol.name == name
        })
    }

    /// Resolves the names of a file.
    #[must_use]
    pub fn of(tree: &Program, text_len: u32) -> Names {
        walk::walk(tree, text_len)
    }

    /// Returns the symbol that is defined or used at an offset.
    #[must_use]
    pub fn symbol_at(&self, offset: u32) -> Option<SymbolId> {
        self.use_at(offset).and_then(|used| used.symbol).or_else(|| {
            self.symbols.iter().position(|symbol| touches(symbol.span, offset) && !symbol.span.is_empty())
        })
    }

    /// Returns the use at an offset.
    #[must_use]
    pub fn use_at(&self, offset: u32) -> Option<&Use> {
        // A name that begins here takes precedence over one that ends here.
        let end = self.uses.partition_point(|used| used.span.start <= offset);
        self.uses[..end].iter().rev().take(2).find(|used| touches(used.span, offset))
    }

    /// Returns the member use at an offset.
    #[must_use]
    pub fn member_at(&self, offset: u32) -> Option<&MemberUse> {
        self.members.iter().find(|member| touches(member.span, offset) && !member.span.is_empty())
    }

    /// Returns the uses of a symbol.
    pub fn uses_of(&self, symbol: SymbolId) -> impl Iterator<Item = &Use> {
        self.uses.iter().filter(move |used| used.symbol == Some(symbol))
    }

    /// Returns whether the file uses an imported or possibly imported name, apart from import lists.
    #[must_use]
    pub fn mentions_imported(&self, name: &str) -> bool {
        let is_imported = |id: SymbolId| self.symbols[id].kind == SymbolKind::Import;
        self.uses.iter().any(|used| used.name == name && used.symbol.is_none_or(is_imported))
    }

    /// Returns the declaration with this name at file level.
    #[must_use]
    pub fn top(&self, name: &str) -> Option<SymbolId> {
        let found = self.by_name.get(name)?;
        found.iter().copied().find(|&id| self.symbols[id].top && !self.symbols[id].kind.is_member())
    }

    /// Returns the symbols visible at an offset, innermost first, without shadowed ones.
    #[must_use]
    pub fn visible(&self, offset: u32) -> Vec<SymbolId> {
        let mut found: Vec<(usize, SymbolId)> = Vec::new();
        let mut seen: FxHashMap<&str, ()> = FxHashMap::default();
        let mut scope = Some(self.scope_at(offset));
        while let Some(at) = scope {
            let mut here: Vec<SymbolId> = (0..self.symbols.len())
                .filter(|&id| {
                    let symbol = &self.symbols[id];
                    symbol.scope == at && !symbol.kind.is_member() && symbol.from <= offset
                })
                .collect();
            here.reverse();
            for id in here {
                if seen.insert(self.symbols[id].name.as_str(), ()).is_none() {
                    found.push((at, id));
                }
            }
            scope = self.scopes[at].parent;
        }
        found.into_iter().map(|(_, id)| id).collect()
    }

    /// Returns the innermost scope at an offset.
    fn scope_at(&self, offset: u32) -> usize {
        let inside = |scope: &Scope| scope.span.start <= offset && offset <= scope.span.end;
        // Inner scopes follow outer ones.
        self.scopes.iter().rposition(inside).unwrap_or(0)
    }

    /// Resolves a name in a scope at an offset.
    fn resolve(&self, name: &str, mut scope: usize, offset: u32) -> Option<SymbolId> {
        let candidates = self.by_name.get(name)?;
        let (mut later, mut in_function) = (None, false);
        loop {
            // Binary search, because a file may define a name in many functions.
            let start = candidates.partition_point(|&id| self.symbols[id].scope < scope);
            let here =
                || candidates[start..].iter().copied().take_while(|&id| self.symbols[id].scope == scope);
            if let Some(set) = here().filter(|&id| self.symbols[id].from <= offset).last() {
                return Some(set);
            }
            // A variable that is declared later shadows an outer one only in functions before its declaration.
            let first = here().next();
            if in_function && first.is_some() {
                return first;
            }
            later = later.or(first);
            in_function |= self.scopes[scope].function;
            let Some(parent) = self.scopes[scope].parent else { return later };
            scope = parent;
        }
    }

    /// Returns the variables that the same scope declares with the name of a symbol; they may share a value.
    #[must_use]
    pub fn redeclared(&self, id: SymbolId) -> Vec<SymbolId> {
        let symbol = &self.symbols[id];
        let all = self.by_name.get(&symbol.name).map_or(&[][..], Vec::as_slice);
        let same = |other: &SymbolId| self.symbols[*other].scope == symbol.scope;
        if symbol.kind.is_member() { vec![id] } else { all.iter().copied().filter(same).collect() }
    }
}

/// Returns whether an offset is in a span or at its end, where the cursor is after a name has been typed.
fn touches(span: Span, offset: u32) -> bool {
    span.start <= offset && offset <= span.end
}
