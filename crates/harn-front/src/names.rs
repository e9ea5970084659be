//! What the names of a file stand for: every place that introduces one, and for every place that mentions one where it was
//! introduced. Works on trees with errors, too.
//!
//! The rules are those of a run: a declaration holds in all of its block, a variable from its statement on and in the
//! functions before it; a variable that is declared twice is the later one from its statement on, and what no scope knows
//! is imported or built in.

mod compare;
mod walk;

pub use compare::NameChanges;
use harn_syntax::Span;
use harn_syntax::ast::{Name, Program};
use rustc_hash::FxHashMap;

/// What a name is introduced as.
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
    /// `let`, and whatever else binds a value once.
    Let,
    /// `var`.
    Var,
    /// A parameter.
    Param,
    /// A name in the list of an import.
    Import,
}

impl SymbolKind {
    /// Whether it is declared by a word of its own, and so may be called, imported or named as a type.
    #[must_use]
    pub fn is_declaration(self) -> bool {
        use SymbolKind::{Enum, EvalPack, Function, Interface, Pipeline, Skill, Struct, Tool, Type};
        matches!(self, Function | Pipeline | Tool | Skill | EvalPack | Enum | Struct | Type | Interface)
    }

    /// Whether it is a part of another symbol, which is reached through that one only.
    #[must_use]
    pub fn is_member(self) -> bool {
        matches!(self, SymbolKind::Variant | SymbolKind::Field | SymbolKind::Method)
    }
}

/// The number of a symbol of a file.
pub type SymbolId = usize;

/// A name that a file introduces.
#[derive(Clone, Debug)]
pub struct Symbol {
    /// The name.
    pub name: Name,
    /// Where it stands.
    pub span: Span,
    /// What introduces it: the declaration, the statement, the parameter.
    pub whole: Span,
    /// What it is.
    pub kind: SymbolKind,
    /// The struct, enum or interface that it belongs to.
    pub owner: Option<SymbolId>,
    /// Written as the key of a pattern, too, as in `let {name} = user`.
    pub shorthand: bool,
    /// Where its type is written.
    pub ty: Option<Span>,
    /// Introduced at the level of the file.
    pub top: bool,
    /// From where on it holds in its scope; 0 for what holds in all of it.
    from: u32,
    scope: usize,
}

/// A place that mentions a name.
#[derive(Clone, Debug)]
pub struct Use {
    /// The name.
    pub name: Name,
    /// Where.
    pub span: Span,
    /// What it stands for; `None` for builtins, what a whole file brings, and unknown names.
    pub symbol: Option<SymbolId>,
    /// It is assigned.
    pub write: bool,
}

/// A place that mentions a member of a value: `object.name`.
#[derive(Clone, Debug)]
pub struct MemberUse {
    /// The name of the member; empty while it is missing.
    pub name: Name,
    /// Where it stands.
    pub span: Span,
    /// Where the object stands.
    pub object: Span,
    /// It is called.
    pub call: bool,
}

/// A place that mentions a part of a declaration through its name: `Shape.Dot`, the key of a struct literal.
#[derive(Clone, Debug)]
pub struct Qualified {
    /// The name of the declaration.
    pub owner: Name,
    /// What that stands for; an import when it is declared elsewhere.
    pub owner_symbol: Option<SymbolId>,
    /// The name of the part.
    pub name: Name,
    /// Where it stands.
    pub span: Span,
}

/// A stretch of text in which names hold.
#[derive(Clone, Debug)]
struct Scope {
    span: Span,
    parent: Option<usize>,
    /// It is that of a function, whose body may run when later variables around it are set.
    function: bool,
}

/// The names of one file.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// What is introduced, in order of the walk.
    pub symbols: Vec<Symbol>,
    /// What is mentioned, in order of the text.
    pub uses: Vec<Use>,
    /// Members that are mentioned, in order of the text.
    pub members: Vec<MemberUse>,
    /// Parts of declarations that are mentioned through their names.
    pub qualified: Vec<Qualified>,
    scopes: Vec<Scope>,
    /// By their scopes, those of one scope as they were introduced.
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

    /// The names of a file.
    #[must_use]
    pub fn of(tree: &Program, text_len: u32) -> Names {
        walk::walk(tree, text_len)
    }

    /// The symbol whose name stands at a place: introduced there, or mentioned.
    #[must_use]
    pub fn symbol_at(&self, offset: u32) -> Option<SymbolId> {
        self.use_at(offset).and_then(|used| used.symbol).or_else(|| {
            self.symbols.iter().position(|symbol| touches(symbol.span, offset) && !symbol.span.is_empty())
        })
    }

    /// The mention at a place.
    #[must_use]
    pub fn use_at(&self, offset: u32) -> Option<&Use> {
        // A name that begins here wins over one that ends here.
        let end = self.uses.partition_point(|used| used.span.start <= offset);
        self.uses[..end].iter().rev().take(2).find(|used| touches(used.span, offset))
    }

    /// The member at a place.
    #[must_use]
    pub fn member_at(&self, offset: u32) -> Option<&MemberUse> {
        self.members.iter().find(|member| touches(member.span, offset) && !member.span.is_empty())
    }

    /// The mentions of a symbol.
    pub fn uses_of(&self, symbol: SymbolId) -> impl Iterator<Item = &Use> {
        self.uses.iter().filter(move |used| used.symbol == Some(symbol))
    }

    /// Whether the file mentions something of this name that an import brings, or may bring; the lists of imports aside.
    #[must_use]
    pub fn mentions_imported(&self, name: &str) -> bool {
        let is_imported = |id: SymbolId| self.symbols[id].kind == SymbolKind::Import;
        self.uses.iter().any(|used| used.name == name && used.symbol.is_none_or(is_imported))
    }

    /// The declaration of this name at the level of the file.
    #[must_use]
    pub fn top(&self, name: &str) -> Option<SymbolId> {
        let found = self.by_name.get(name)?;
        found.iter().copied().find(|&id| self.symbols[id].top && !self.symbols[id].kind.is_member())
    }

    /// What holds at a place, the innermost first, each name once.
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

    /// The innermost scope around a place.
    fn scope_at(&self, offset: u32) -> usize {
        let inside = |scope: &Scope| scope.span.start <= offset && offset <= scope.span.end;
        // Inner scopes come behind outer ones.
        self.scopes.iter().rposition(inside).unwrap_or(0)
    }

    /// What a name means in a scope, at a place.
    fn resolve(&self, name: &str, mut scope: usize, offset: u32) -> Option<SymbolId> {
        let candidates = self.by_name.get(name)?;
        let (mut later, mut in_function) = (None, false);
        loop {
            // A file may use a name in each of its functions.
            let start = candidates.partition_point(|&id| self.symbols[id].scope < scope);
            let here =
                || candidates[start..].iter().copied().take_while(|&id| self.symbols[id].scope == scope);
            if let Some(set) = here().filter(|&id| self.symbols[id].from <= offset).last() {
                return Some(set);
            }
            // A variable that is declared later hides an outer one only in functions before it.
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

    /// The variables that one scope declares with the name of a symbol, which may share a value.
    #[must_use]
    pub fn redeclared(&self, id: SymbolId) -> Vec<SymbolId> {
        let symbol = &self.symbols[id];
        let all = self.by_name.get(&symbol.name).map_or(&[][..], Vec::as_slice);
        let same = |other: &SymbolId| self.symbols[*other].scope == symbol.scope;
        if symbol.kind.is_member() { vec![id] } else { all.iter().copied().filter(same).collect() }
    }
}

/// Whether a place is in a span or at its end, where a cursor stands behind a word.
fn touches(span: Span, offset: u32) -> bool {
    span.start <= offset && offset <= span.end
}
