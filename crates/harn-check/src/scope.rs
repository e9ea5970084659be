//! Visibility of names (language guide, "Variables and scope").
//!
//! The names of a block are entered when the walk enters it, declarations and variables alike: a function may be
//! called before it is declared, and a closure may mention a variable that is set later. So a lookup knows
//! whether a name exists, but knows its meaning only if there is a single declaration.

use harn_syntax::ast::*;
use rustc_hash::FxHashMap;

/// The kind of definition of a name, as far as checks distinguish it.
#[derive(Clone, Copy)]
pub(crate) enum Kind<'a> {
    /// A function, with its attributes.
    Fn(&'a FnDecl, &'a [Attribute]),
    Tool(&'a ToolDecl),
    Struct(&'a StructDecl),
    Enum(&'a EnumDecl),
    /// A type alias or an interface, which is not a value.
    Type,
    /// A variable declared with `let`.
    Let,
    /// A variable that holds a closure.
    Closure,
    /// An imported name.
    Imported,
    /// Anything else.
    Other,
}

impl Kind<'_> {
    /// Returns whether the name is a useful suggestion for a call.
    fn is_callable(self) -> bool {
        matches!(self, Kind::Fn(..) | Kind::Tool(_) | Kind::Struct(_) | Kind::Closure | Kind::Imported)
    }
}

/// A name in a scope.
struct Binding<'a> {
    name: &'a str,
    kind: Kind<'a>,
    /// The offset from which on it is defined; 0 for definitions that hold in the whole block.
    from: u32,
    /// The binding of the name before this one, if there is one.
    before: Option<u32>,
    /// The offset of the definition, which distinguishes variables with one name.
    def: u32,
}

/// The result of a lookup.
pub(crate) enum Lookup<'a> {
    /// The name does not exist.
    Missing,
    /// It exists, but its meaning depends on the time.
    Unsure,
    /// It has this meaning.
    Is(Kind<'a>),
}

/// The scopes around the current node, that of the file first.
pub(crate) struct Scopes<'a> {
    bindings: Vec<Binding<'a>>,
    /// The start of each scope, except that of the file.
    frames: Vec<usize>,
    /// The last binding of each name.
    last: FxHashMap<&'a str, u32>,
    /// The names of the file: the first binding, and whether it is the only one.
    file: FxHashMap<&'a str, (u32, bool)>,
}

impl<'a> Scopes<'a> {
    /// Creates the scope of the file.
    pub(crate) fn new(program: &'a Program) -> Self {
        let mut scopes = Self {
            bindings: Vec::new(),
            frames: Vec::new(),
            last: FxHashMap::default(),
            file: FxHashMap::default(),
        };
        scopes.hoist(&program.items);
        for name in program.imports().flat_map(|import| import.names.iter().flatten()) {
            scopes.bind(name, Kind::Imported);
        }
        for (at, binding) in scopes.bindings.iter().enumerate() {
            scopes.file.entry(binding.name).and_modify(|entry| entry.1 = false).or_insert((at as u32, true));
        }
        scopes
    }

    /// Enters a scope.
    pub(crate) fn enter(&mut self) {
        self.frames.push(self.bindings.len());
    }

    /// Leaves the innermost scope.
    pub(crate) fn leave(&mut self) {
        if let Some(start) = self.frames.pop() {
            for binding in self.bindings.drain(start..).rev() {
                match binding.before {
                    Some(before) => self.last.insert(binding.name, before),
                    None => self.last.remove(binding.name),
                };
            }
        }
    }

    /// Binds a name in the innermost scope, for all of it.
    pub(crate) fn bind(&mut self, name: &'a Ident, kind: Kind<'a>) {
        self.bind_from(name, kind, 0);
    }

    fn bind_from(&mut self, ident: &'a Ident, kind: Kind<'a>, from: u32) {
        let name = ident.name.as_str();
        if name != "_" {
            let before = self.last.insert(name, self.bindings.len() as u32);
            self.bindings.push(Binding { name, kind, from, before, def: ident.span.start });
        }
    }

    /// Binds the names of a pattern, for all of the scope.
    pub(crate) fn bind_pattern(&mut self, pattern: &'a Pattern) {
        names_of(pattern, &mut |name| self.bind(name, Kind::Other));
    }

    /// Binds the names of a match pattern.
    pub(crate) fn bind_match_pattern(&mut self, pattern: &'a MatchPattern) {
        names_of_match(pattern, &mut |name| self.bind(name, Kind::Other));
    }

    /// Binds what the statements of the innermost scope declare.
    pub(crate) fn hoist(&mut self, stmts: &'a [Stmt]) {
        for stmt in stmts {
            match &stmt.kind {
                StmtKind::Let { mutable, pattern, value, .. } => {
                    let kind = match &value.kind {
                        ExprKind::Closure { .. } if !mutable => Kind::Closure,
                        _ if !mutable => Kind::Let,
                        _ => Kind::Other,
                    };
                    names_of(pattern, &mut |name| self.bind_from(name, kind, stmt.span.end));
                }
                StmtKind::Decl(decl) => match &decl.kind {
                    DeclKind::Impl(_) => {}
                    DeclKind::Fn(d) => self.bind(&d.name, Kind::Fn(d, &decl.attrs)),
                    DeclKind::Tool(d) => self.bind(&d.name, Kind::Tool(d)),
                    DeclKind::Struct(d) => self.bind(&d.name, Kind::Struct(d)),
                    DeclKind::Enum(d) => self.bind(&d.name, Kind::Enum(d)),
                    DeclKind::Type(_) | DeclKind::Interface(_) => self.bind(decl.kind.name(), Kind::Type),
                    other => self.bind(other.name(), Kind::Other),
                },
                _ => {}
            }
        }
    }

    /// Looks up a name that is mentioned at `offset`.
    pub(crate) fn look_up(&self, name: &str, offset: u32) -> Lookup<'a> {
        let Some(&last) = self.last.get(name) else { return Lookup::Missing };
        // The start of its scope; none for the scope of the file.
        let inside = self.frames.partition_point(|&start| start <= last as usize).checked_sub(1);
        if let Some(start) = inside.map(|at| self.frames[at]) {
            let binding = &self.bindings[last as usize];
            let only = binding.before.is_none_or(|before| (before as usize) < start);
            return Self::judge(binding, only, offset);
        }
        match self.file.get(name) {
            Some(&(at, only)) => Self::judge(&self.bindings[at as usize], only, offset),
            None => Lookup::Missing,
        }
    }

    /// Returns the offset of the binding that [`Scopes::look_up`] finds for a name.
    pub(crate) fn definition(&self, name: &str) -> Option<u32> {
        let last = *self.last.get(name)?;
        Some(self.bindings[last as usize].def)
    }

    /// Returns the name of the variable that is defined at an offset.
    pub(crate) fn name_of(&self, def: u32) -> Option<&'a str> {
        self.bindings.iter().rev().find(|binding| binding.def == def).map(|binding| binding.name)
    }

    /// The variables of all scopes, for suggestions.
    pub(crate) fn variables(&self) -> Vec<&'a str> {
        self.bindings.iter().map(|binding| binding.name).collect()
    }

    fn judge(binding: &Binding<'a>, only: bool, offset: u32) -> Lookup<'a> {
        if only && binding.from <= offset { Lookup::Is(binding.kind) } else { Lookup::Unsure }
    }

    /// Returns the functions of inner scopes.
    pub(crate) fn local_functions(&self) -> Vec<&'a str> {
        let start = self.frames.first().copied().unwrap_or(self.bindings.len());
        Self::functions(&self.bindings[start..])
    }

    /// The functions of the file, imported ones included.
    pub(crate) fn file_functions(&self) -> Vec<&'a str> {
        let end = self.frames.first().copied().unwrap_or(self.bindings.len());
        Self::functions(&self.bindings[..end])
    }

    fn functions(bindings: &[Binding<'a>]) -> Vec<&'a str> {
        bindings.iter().filter(|binding| binding.kind.is_callable()).map(|binding| binding.name).collect()
    }
}

/// Calls `visit` with every name that a pattern binds.
pub(crate) fn names_of<'a>(pattern: &'a Pattern, visit: &mut dyn FnMut(&'a Ident)) {
    let rest = match &pattern.kind {
        PatternKind::Name(name) => return visit(name),
        PatternKind::Pair(first, second) => {
            visit(first);
            return visit(second);
        }
        PatternKind::Dict { fields, rest } => {
            fields.iter().for_each(|field| visit(&field.name));
            rest
        }
        PatternKind::List { elems, rest } => {
            elems.iter().for_each(|elem| visit(&elem.name));
            rest
        }
    };
    rest.iter().for_each(visit);
}

/// The names that a match pattern binds.
pub(crate) fn names_of_match<'a>(pattern: &'a MatchPattern, visit: &mut dyn FnMut(&'a Ident)) {
    let rest = match &pattern.kind {
        MatchPatternKind::Bind(name) => return visit(name),
        MatchPatternKind::Dict { entries, rest } => {
            entries.iter().for_each(|(_, inner)| names_of_match(inner, visit));
            rest
        }
        MatchPatternKind::List { items, rest } => {
            items.iter().for_each(|inner| names_of_match(inner, visit));
            rest
        }
        MatchPatternKind::Variant { fields, .. } => {
            return fields.iter().flatten().for_each(|inner| names_of_match(inner, visit));
        }
        MatchPatternKind::Wildcard | MatchPatternKind::Value(_) => return,
    };
    rest.iter().for_each(visit);
}
