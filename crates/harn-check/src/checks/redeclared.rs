//! Names that are already declared in the same scope: the program fails when it is reached.

use harn_syntax::Diagnostic;
use harn_syntax::ast::*;
use harn_syntax::visit::Visitor;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::codes::REDECLARED;
use crate::scope::names_of;

/// Checks a file.
pub(crate) fn check(tree: &Program) -> Vec<Diagnostic> {
    let mut search = Search { params: None, out: Vec::new() };
    search.scope(&tree.items, FxHashMap::default());
    search.out
}

fn declared(stmts: &[Stmt]) -> impl Iterator<Item = &DeclKind> {
    stmts.iter().filter_map(|stmt| match &stmt.kind {
        StmtKind::Decl(decl) => Some(&decl.kind),
        _ => None,
    })
}

struct Search<'a> {
    /// The parameters of the function whose body comes next; they are in the scope of the body.
    params: Option<(*const Block, &'a [Param])>,
    out: Vec<Diagnostic>,
}

impl<'a> Search<'a> {
    /// The statements of a scope; `fixed` says of the names that are in it whether they may be declared again.
    fn scope(&mut self, stmts: &'a [Stmt], mut fixed: FxHashMap<&'a str, bool>) {
        let hoisted = self.hoisted(stmts, &mut fixed);
        for stmt in stmts {
            self.stmt(stmt);
            match &stmt.kind {
                StmtKind::Let { mutable, pattern, .. } => names_of(pattern, &mut |name| {
                    let before = fixed.insert(&name.name, !mutable);
                    if before == Some(true) && !mutable && name.name != "_" {
                        self.report(name);
                    }
                }),
                StmtKind::Decl(decl) if decl.kind.is_variable() => {
                    let name = decl.kind.name();
                    if fixed.insert(&name.name, true) == Some(true) || hoisted.contains(name.name.as_str()) {
                        self.report(name);
                    }
                }
                _ => {}
            }
        }
    }

    /// Checks declarations, which take effect at the start of the scope: names must be unique, and differ from
    /// parameters.
    fn hoisted(&mut self, stmts: &'a [Stmt], fixed: &mut FxHashMap<&'a str, bool>) -> FxHashSet<&'a str> {
        let mut seen = FxHashSet::default();
        for kind in declared(stmts).filter(|kind| kind.is_hoisted()) {
            let name = kind.name();
            if !seen.insert(name.name.as_str()) || fixed.contains_key(name.name.as_str()) {
                self.report(name);
            }
        }
        let values = declared(stmts).filter(|kind| matches!(kind, DeclKind::Fn(_) | DeclKind::Struct(_)));
        fixed.extend(values.map(|kind| (kind.name().name.as_str(), true)));
        seen
    }

    fn report(&mut self, name: &Ident) {
        let message = format!(
            "Cannot redeclare immutable variable '{}' in the same scope (use 'var' for mutable bindings)",
            name.name
        );
        self.out.push(Diagnostic::warning(message).with_code(REDECLARED).at(name.span));
    }
}

impl<'a> Visitor<'a> for Search<'a> {
    fn block(&mut self, block: &'a Block) {
        let params = match self.params.take_if(|(body, _)| std::ptr::eq(*body, block)) {
            Some((_, params)) => params.iter().map(|param| (param.name.name.as_str(), true)).collect(),
            None => FxHashMap::default(),
        };
        self.scope(&block.stmts, params);
    }

    /// The received value is in the scope of the body.
    fn select_case(&mut self, case: &'a SelectCase) {
        self.scope(&case.body.stmts, FxHashMap::from_iter([(case.name.name.as_str(), true)]));
    }

    fn function(&mut self, func: &'a Function, _: &'a [TypeParam]) {
        func.params.iter().filter_map(|param| param.default.as_ref()).for_each(|default| self.expr(default));
        self.params = Some((&raw const func.body, &func.params));
        self.block(&func.body);
    }
}
