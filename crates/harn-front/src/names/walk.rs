//! The tree walk that collects the names of a file: first the declarations of each scope, then the uses in it.

use harn_syntax::Span;
use harn_syntax::ast::*;
use harn_syntax::visit::{self, Visitor};
use rustc_hash::FxHashMap;

use super::{MemberUse, Names, Qualified, Scope, Symbol, SymbolId, SymbolKind, Use};

/// A use that is resolved after all definitions are known.
struct Pending {
    name: Name,
    span: Span,
    scope: usize,
    write: bool,
}

/// A use of a variant or field, resolved through the name of its type.
struct PendingMember {
    owner: Name,
    name: Ident,
    scope: usize,
}

struct Walk {
    names: Names,
    scope: usize,
    pending: Vec<Pending>,
    members: Vec<PendingMember>,
    /// The `where` clause of the next function.
    bounds: Vec<WhereBound>,
}

pub(super) fn walk(tree: &Program, text_len: u32) -> Names {
    let mut names = Names::default();
    names.scopes.push(Scope { span: Span::new(0, text_len), parent: None, function: false });
    let mut walk = Walk { names, scope: 0, pending: Vec::new(), members: Vec::new(), bounds: Vec::new() };
    for import in tree.imports() {
        for name in import.names.iter().flatten() {
            walk.bind(name, import.span, SymbolKind::Import, 0);
        }
    }
    walk.hoist(&tree.items);
    walk.stmts(&tree.items);
    walk.finish()
}

impl Walk {
    fn finish(mut self) -> Names {
        let mut uses: Vec<Use> = std::mem::take(&mut self.pending)
            .into_iter()
            .map(|pending| {
                let symbol = self.names.resolve(&pending.name, pending.scope, pending.span.start);
                Use { name: pending.name, span: pending.span, symbol, write: pending.write }
            })
            .collect();
        let mut owned: FxHashMap<(SymbolId, &str), SymbolId> = FxHashMap::default();
        for (id, symbol) in self.names.symbols.iter().enumerate() {
            if let Some(owner) = symbol.owner {
                owned.entry((owner, symbol.name.as_str())).or_insert(id);
            }
        }
        for member in std::mem::take(&mut self.members) {
            let owner = self.names.resolve(&member.owner, member.scope, member.name.span.start);
            let symbol = owner.and_then(|owner| owned.get(&(owner, member.name.name.as_str())).copied());
            self.names.qualified.push(Qualified {
                owner: member.owner,
                owner_symbol: owner,
                name: member.name.name.clone(),
                span: member.name.span,
            });
            if symbol.is_some() {
                uses.push(Use { name: member.name.name, span: member.name.span, symbol, write: false });
            }
        }
        uses.sort_by_key(|used| (used.span.start, used.span.end));
        uses.dedup_by_key(|used| used.span);
        self.names.uses = uses;
        self.names.members.sort_by_key(|member| member.span.start);
        self.names.qualified.sort_by_key(|part| part.span.start);
        self.names
    }

    fn bind(&mut self, name: &Ident, whole: Span, kind: SymbolKind, from: u32) -> Option<SymbolId> {
        if name.name == "_" || name.name.is_empty() {
            return None;
        }
        let id = self.names.symbols.len();
        self.names.symbols.push(Symbol {
            name: name.name.clone(),
            span: name.span,
            whole,
            kind,
            owner: None,
            shorthand: false,
            ty: None,
            top: self.scope == 0,
            from,
            scope: self.scope,
        });
        if !kind.is_member() {
            let (symbols, scope) = (&self.names.symbols, self.scope);
            let known = self.names.by_name.entry(name.name.clone()).or_default();
            known.insert(known.partition_point(|&other| symbols[other].scope <= scope), id);
        }
        Some(id)
    }

    fn bind_member(&mut self, owner: Option<SymbolId>, name: &Ident, whole: Span, kind: SymbolKind) {
        if let Some(id) = self.bind(name, whole, kind, 0) {
            self.names.symbols[id].owner = owner;
        }
    }

    fn mention(&mut self, name: &Ident) {
        self.mention_at(&name.name, name.span, false);
    }

    fn mention_at(&mut self, name: &Name, span: Span, write: bool) {
        if !name.is_empty() && name != "_" {
            self.pending.push(Pending { name: name.clone(), span, scope: self.scope, write });
        }
    }

    fn scoped(&mut self, span: Span, body: impl FnOnce(&mut Self)) {
        let outer = self.scope;
        self.scope = self.names.scopes.len();
        self.names.scopes.push(Scope { span, parent: Some(outer), function: false });
        body(self);
        self.scope = outer;
    }

    fn bind_pattern(&mut self, pattern: &Pattern, whole: Span, kind: SymbolKind, from: u32) {
        let rest = match &pattern.kind {
            PatternKind::Name(name) => {
                self.bind(name, whole, kind, from);
                return;
            }
            PatternKind::Pair(first, second) => {
                self.bind(first, whole, kind, from);
                self.bind(second, whole, kind, from);
                return;
            }
            PatternKind::Dict { fields, rest } => {
                for field in fields {
                    if let Some(id) = self.bind(&field.name, whole, kind, from) {
                        self.names.symbols[id].shorthand = field.key.span == field.name.span;
                    }
                }
                rest
            }
            PatternKind::List { elems, rest } => {
                elems.iter().for_each(|elem| {
                    self.bind(&elem.name, whole, kind, from);
                });
                rest
            }
        };
        rest.iter().for_each(|name| {
            self.bind(name, whole, kind, from);
        });
    }

    fn bind_match_pattern(&mut self, pattern: &MatchPattern) {
        match &pattern.kind {
            MatchPatternKind::Bind(name) => {
                self.bind(name, pattern.span, SymbolKind::Let, 0);
            }
            MatchPatternKind::Dict { entries, rest } => {
                entries.iter().for_each(|(_, inner)| self.bind_match_pattern(inner));
                rest.iter().for_each(|name| {
                    self.bind(name, pattern.span, SymbolKind::Let, 0);
                });
            }
            MatchPatternKind::List { items, rest } => {
                items.iter().for_each(|inner| self.bind_match_pattern(inner));
                rest.iter().for_each(|name| {
                    self.bind(name, pattern.span, SymbolKind::Let, 0);
                });
            }
            MatchPatternKind::Variant { fields, .. } => {
                fields.iter().flatten().for_each(|inner| self.bind_match_pattern(inner));
            }
            MatchPatternKind::Wildcard | MatchPatternKind::Value(_) => {}
        }
    }

    /// Binds the declarations of a scope.
    fn hoist(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            match &stmt.kind {
                StmtKind::Let { mutable, pattern, ty, .. } => {
                    let kind = if *mutable { SymbolKind::Var } else { SymbolKind::Let };
                    let first = self.names.symbols.len();
                    self.bind_pattern(pattern, stmt.span, kind, stmt.span.end);
                    if let (Some(ty), Some(symbol)) = (ty, self.names.symbols.get_mut(first)) {
                        symbol.ty = Some(ty.span);
                    }
                }
                StmtKind::Decl(decl) => self.declare(decl),
                _ => {}
            }
        }
    }

    fn declare(&mut self, decl: &Decl) {
        let kind = match &decl.kind {
            DeclKind::Fn(_) => SymbolKind::Function,
            DeclKind::Pipeline(_) => SymbolKind::Pipeline,
            DeclKind::Tool(_) => SymbolKind::Tool,
            DeclKind::Skill(_) => SymbolKind::Skill,
            DeclKind::EvalPack(_) => SymbolKind::EvalPack,
            DeclKind::Enum(_) => SymbolKind::Enum,
            DeclKind::Struct(_) => SymbolKind::Struct,
            DeclKind::Type(_) => SymbolKind::Type,
            DeclKind::Interface(_) => SymbolKind::Interface,
            DeclKind::Impl(_) => return,
        };
        let id = self.bind(decl.kind.name(), decl.span, kind, 0);
        match &decl.kind {
            DeclKind::Enum(d) => {
                d.variants.iter().for_each(|v| self.bind_member(id, &v.name, v.span, SymbolKind::Variant));
            }
            DeclKind::Struct(d) => {
                for field in &d.fields {
                    let first = self.names.symbols.len();
                    let end = field.ty.as_ref().map_or(field.name.span, |ty| ty.span);
                    self.bind_member(id, &field.name, field.name.span.to(end), SymbolKind::Field);
                    if let (Some(ty), Some(symbol)) = (&field.ty, self.names.symbols.get_mut(first)) {
                        symbol.ty = Some(ty.span);
                    }
                }
            }
            DeclKind::Interface(d) => {
                d.methods.iter().for_each(|m| self.bind_member(id, &m.name, m.span, SymbolKind::Method));
            }
            _ => {}
        }
    }

    fn ty(&mut self, ty: &TypeExpr) {
        match &ty.kind {
            TypeKind::Named { name, args } => {
                // The name `list` of `[T]` is not in the source.
                if name.span.len() as usize == name.name.len() {
                    self.mention(name);
                }
                args.iter().for_each(|arg| self.ty(arg));
            }
            TypeKind::Union(members) => members.iter().for_each(|member| self.ty(member)),
            TypeKind::Shape(fields) => fields.iter().for_each(|field| self.ty(&field.ty)),
            TypeKind::Fn { params, ret } => {
                params.iter().for_each(|param| self.ty(param));
                self.ty(ret);
            }
            TypeKind::Str(_) | TypeKind::Int(_) | TypeKind::Nil => {}
        }
    }

    fn type_params(&mut self, params: &[TypeParam]) {
        for param in params {
            self.bind(&param.name, param.name.span, SymbolKind::TypeParam, 0);
        }
    }

    fn params(&mut self, params: &[Param]) {
        for param in params {
            if let Some(id) = self.bind(&param.name, param.span, SymbolKind::Param, 0) {
                self.names.symbols[id].ty = param.ty.as_ref().map(|ty| ty.span);
            }
            param.ty.iter().for_each(|ty| self.ty(ty));
        }
    }

    fn items(&mut self, owner: &Ident, items: &[DictItem]) {
        for item in items {
            if let DictItem::Entry { key, .. } = item {
                self.members.push(PendingMember {
                    owner: owner.name.clone(),
                    name: key.clone(),
                    scope: self.scope,
                });
            }
        }
    }

    fn member_use(&mut self, object: &Expr, name: &Ident, call: bool) {
        if let ExprKind::Name(owner) = &object.kind {
            self.members.push(PendingMember { owner: owner.clone(), name: name.clone(), scope: self.scope });
        }
        self.names.members.push(MemberUse {
            name: name.name.clone(),
            span: name.span,
            object: object.span,
            call,
        });
    }
}

impl<'a> Visitor<'a> for Walk {
    fn block(&mut self, block: &'a Block) {
        self.scoped(block.span, |walk| {
            walk.hoist(&block.stmts);
            walk.stmts(&block.stmts);
        });
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Let { ty, .. } => ty.iter().for_each(|ty| self.ty(ty)),
            StmtKind::Assign { target, .. } => {
                self.mention_at(&target.root.name, target.root.span, target.path.is_empty());
                let mut object = target.root.span;
                for step in &target.path {
                    if let TargetStep::Member(name) = step {
                        self.names.members.push(MemberUse {
                            name: name.name.clone(),
                            span: name.span,
                            object,
                            call: false,
                        });
                    }
                    object = object.to(step.span());
                }
            }
            StmtKind::Override { name, .. } => self.mention(name),
            _ => {}
        }
        visit::walk_stmt(self, stmt);
    }

    fn expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Name(name) => self.mention_at(name, expr.span, false),
            ExprKind::StructLit { name, items } => {
                self.mention(name);
                self.items(name, items);
            }
            ExprKind::Call { type_args, .. } => type_args.iter().for_each(|ty| self.ty(ty)),
            ExprKind::Member { object, name, .. } => self.member_use(object, name, false),
            ExprKind::MethodCall { object, name, .. } => self.member_use(object, name, true),
            _ => {}
        }
        visit::walk_expr(self, expr);
    }

    fn match_pattern(&mut self, pattern: &'a MatchPattern) {
        if let MatchPatternKind::Variant { enum_name, variant, .. } = &pattern.kind
            && enum_name.span != variant.span
        {
            self.mention(enum_name);
            self.members.push(PendingMember {
                owner: enum_name.name.clone(),
                name: variant.clone(),
                scope: self.scope,
            });
        }
        visit::walk_match_pattern(self, pattern);
    }

    fn decl(&mut self, decl: &'a Decl) {
        let scope = self.scope;
        match &decl.kind {
            DeclKind::Enum(d) => self.scoped(decl.span, |walk| {
                walk.type_params(&d.type_params);
                d.variants
                    .iter()
                    .flat_map(|v| &v.fields)
                    .filter_map(|f| f.ty.as_ref())
                    .for_each(|ty| walk.ty(ty));
            }),
            DeclKind::Struct(d) => self.scoped(decl.span, |walk| {
                walk.type_params(&d.type_params);
                d.fields.iter().filter_map(|field| field.ty.as_ref()).for_each(|ty| walk.ty(ty));
            }),
            DeclKind::Type(d) => self.scoped(decl.span, |walk| {
                walk.type_params(&d.type_params);
                walk.ty(&d.ty);
            }),
            DeclKind::Interface(d) => self.scoped(decl.span, |walk| {
                walk.type_params(&d.type_params);
                for assoc in &d.assoc_types {
                    walk.bind(&assoc.name, assoc.name.span, SymbolKind::TypeParam, 0);
                    assoc.default.iter().for_each(|ty| walk.ty(ty));
                }
                for method in &d.methods {
                    walk.scoped(method.span, |walk| {
                        walk.type_params(&method.type_params);
                        walk.params(&method.params);
                        method.ret.iter().for_each(|ty| walk.ty(ty));
                    });
                }
            }),
            DeclKind::Impl(d) => {
                self.mention(&d.name);
                let owner = self.names.resolve(&d.name.name, scope, d.name.span.start);
                for method in &d.methods {
                    let whole = method.decl.name.span.to(method.decl.func.span);
                    self.bind_member(owner, &method.decl.name, whole, SymbolKind::Method);
                }
                for Method { decl, .. } in &d.methods {
                    self.bounds.clone_from(&decl.bounds);
                    self.function(&decl.func, &decl.type_params);
                }
                return;
            }
            DeclKind::Fn(d) => self.bounds.clone_from(&d.bounds),
            DeclKind::Pipeline(d) => d.extends.iter().for_each(|name| self.mention(name)),
            DeclKind::Tool(_) | DeclKind::Skill(_) | DeclKind::EvalPack(_) => {}
        }
        visit::walk_decl(self, decl);
    }

    fn function(&mut self, func: &'a Function, type_params: &'a [TypeParam]) {
        let bounds = std::mem::take(&mut self.bounds);
        self.scoped(func.span, |walk| {
            walk.names.scopes[walk.scope].function = true;
            walk.type_params(type_params);
            for bound in &bounds {
                walk.mention(&bound.param);
                walk.mention(&bound.bound);
            }
            walk.params(&func.params);
            func.ret.iter().for_each(|ty| walk.ty(ty));
            visit::walk_function(walk, func);
        });
    }

    fn for_body(&mut self, pattern: &'a Pattern, body: &'a Block) {
        self.scoped(pattern.span.to(body.span), |walk| {
            walk.bind_pattern(pattern, pattern.span, SymbolKind::Let, 0);
            walk.pattern(pattern);
            walk.block(body);
        });
    }

    fn match_arm(&mut self, arm: &'a MatchArm) {
        self.scoped(arm.span, |walk| {
            arm.patterns.iter().for_each(|pattern| walk.bind_match_pattern(pattern));
            visit::walk_match_arm(walk, arm);
        });
    }

    fn catch(&mut self, catch: &'a Catch) {
        let span = catch.name.as_ref().map_or(catch.body.span, |name| name.span.to(catch.body.span));
        self.scoped(span, |walk| {
            catch.name.iter().for_each(|name| {
                walk.bind(name, name.span, SymbolKind::Let, 0);
            });
            catch.ty.iter().for_each(|ty| walk.ty(ty));
            walk.block(&catch.body);
        });
    }

    fn select_case(&mut self, case: &'a SelectCase) {
        self.scoped(case.name.span.to(case.body.span), |walk| {
            walk.bind(&case.name, case.name.span, SymbolKind::Let, 0);
            walk.block(&case.body);
        });
    }

    fn eval_pack_body(&mut self, pack: &'a EvalPackDecl) {
        self.scoped(pack.body_span, |walk| {
            pack.fields.iter().for_each(|field| {
                walk.bind(&field.key, field.key.span, SymbolKind::Let, 0);
            });
            walk.hoist(&pack.stmts);
            walk.stmts(&pack.stmts);
            pack.summarize.iter().for_each(|block| walk.block(block));
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::names::Names;

    /// Returns the offset of the definition of the name that begins at the nth `word`.
    fn meant(text: &str, word: &str, nth: usize) -> Option<usize> {
        let at = text.match_indices(word).nth(nth).map(|(at, _)| at as u32).expect("the word is there");
        let parsed = harn_syntax::parse_for_tools(text);
        let names = Names::of(&parsed.program, text.len() as u32);
        let used = names.uses.iter().find(|used| used.span.start == at).expect("the word is a mention");
        used.symbol.map(|id| names.symbols[id].span.start as usize)
    }

    #[test]
    fn the_innermost_name_is_meant() {
        let text = "let a = 1\nfn f(a) { return a }\nprintln(a)";
        assert_eq!(meant(text, "a }", 0), text.find("a)"));
        assert_eq!(meant(text, "a)", 1), Some(4));
    }

    #[test]
    fn a_later_variable_of_the_same_name_holds_from_its_statement_on() {
        let text = "let a = 1\nlet b = a\nlet a = a + 1\nlet c = a";
        assert_eq!(meant(text, "a\nlet a", 0), Some(4));
        assert_eq!(meant(text, "a + 1", 0), Some(4));
        assert_eq!(meant(text, "a", text.matches('a').count() - 1), text.find("a = a + 1"));
    }

    #[test]
    fn declarations_hold_before_they_stand() {
        let text = "fn f() { return g() }\nfn g() { return 1 }";
        assert_eq!(meant(text, "g()", 0), text.find("g() { return 1"));
    }

    #[test]
    fn variants_and_fields_are_found_through_their_type() {
        let text = "enum E { One, Two }\nstruct P { x: int }\nlet a = E.Two\nlet p = P {x: 1}";
        assert_eq!(meant(text, "Two\nlet", 0), text.find("Two }"));
        assert_eq!(meant(text, "x: 1", 0), text.find("x: int"));
    }

    #[test]
    fn types_are_mentions() {
        let text = "struct P { x: int }\nfn f<T>(a: P, b: T) -> list<P> { return [a] }";
        assert_eq!(meant(text, "P, b", 0), Some(7));
        assert_eq!(meant(text, "T) ->", 0), text.find("T>"));
        assert_eq!(meant(text, "P> {", 0), Some(7));
    }

    #[test]
    fn a_later_variable_hides_an_outer_one_only_in_functions() {
        let text =
            "fn q() {\n  use(x)\n  let x = 5\n}\nfn w() {\n  let g = { -> x + 1 }\n  let x = 6\n}\nlet x = 1";
        assert_eq!(meant(text, "x)", 0), text.find("x = 1"));
        assert_eq!(meant(text, "x + 1", 0), text.find("x = 6"));
    }

    #[test]
    fn where_clauses_mention_type_parameters() {
        let text = "interface I { fn m(self) }\nfn f<T>(a: T) where T: I { a.m() }";
        assert_eq!(meant(text, "T: I", 0), text.find("T>"));
        assert_eq!(meant(text, "I { a", 0), text.find("I { fn"));
    }

    #[test]
    fn what_is_visible_is_what_holds_here() {
        let text = "let a = 1\nfn f(p) {\n  let q = 1\n  \n  let r = 2\n}\nlet z = 3";
        let parsed = harn_syntax::parse_for_tools(text);
        let names = Names::of(&parsed.program, text.len() as u32);
        let at = text.find("\n  \n").expect("a place") as u32 + 3;
        let mut seen: Vec<&str> =
            names.visible(at).into_iter().map(|id| names.symbols[id].name.as_str()).collect();
        seen.sort_unstable();
        assert_eq!(seen, ["a", "f", "p", "q"]);
    }
}
