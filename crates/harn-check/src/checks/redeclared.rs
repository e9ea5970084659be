//! `let` for a name that the same scope declares before: the program fails when it comes there.

use harn_syntax::Diagnostic;
use harn_syntax::ast::*;
use harn_syntax::visit::Visitor;
use rustc_hash::FxHashMap;

use crate::codes::REDECLARED;
use crate::scope::names_of;

/// Looks through a file.
pub(crate) fn check(tree: &Program) -> Vec<Diagnostic> {
    let mut search = Search { params: None, out: Vec::new() };
    let functions = tree.items.iter().filter_map(|item| match &item.kind {
        StmtKind::Decl(decl) => match &decl.kind {
            DeclKind::Fn(d) => Some(&d.name),
            DeclKind::Struct(d) => Some(&d.name),
            _ => None,
        },
        _ => None,
    });
    let fixed = functions.map(|name| (name.name.as_str(), true)).collect();
    search.scope(&tree.items, fixed);
    search.out
}

struct Search<'a> {
    /// The parameters of the function whose body comes next; they are in the scope of the body.
    params: Option<(*const Block, &'a [Param])>,
    out: Vec<Diagnostic>,
}

impl<'a> Search<'a> {
    /// The statements of a scope; `fixed` says of the names that are in it whether they may be declared again.
    fn scope(&mut self, stmts: &'a [Stmt], mut fixed: FxHashMap<&'a str, bool>) {
        for stmt in stmts {
            self.stmt(stmt);
            match &stmt.kind {
                StmtKind::Let { mutable, pattern, .. } => names_of(pattern, &mut |name| {
                    let before = fixed.insert(&name.name, !mutable);
                    if before == Some(true) && !mutable && name.name != "_" {
                        self.report(name);
                    }
                }),
                StmtKind::Decl(decl) => {
                    if let DeclKind::Tool(ToolDecl { name, .. }) = &decl.kind {
                        fixed.insert(&name.name, true);
                    }
                }
                _ => {}
            }
        }
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

    fn function(&mut self, func: &'a Function, _: &'a [TypeParam]) {
        func.params.iter().filter_map(|param| param.default.as_ref()).for_each(|default| self.expr(default));
        self.params = Some((&raw const func.body, &func.params));
        self.block(&func.body);
    }
}
