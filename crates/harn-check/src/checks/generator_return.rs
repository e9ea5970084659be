//! `return value` in a generator: it ends the generator, and the value is lost.

use harn_syntax::Diagnostic;
use harn_syntax::ast::*;
use harn_syntax::visit::{self, Visitor};

use crate::codes::RETURN_DROPPED;

/// Checks a file.
pub(crate) fn check(tree: &Program) -> Vec<Diagnostic> {
    let mut search = Search { words: Vec::new(), out: Vec::new() };
    tree.items.iter().for_each(|item| search.stmt(item));
    search.out
}

struct Search {
    /// For each enclosing function, the keyword that yields a value, if it is a generator.
    words: Vec<Option<&'static str>>,
    out: Vec<Diagnostic>,
}

impl Search {
    fn inside(&mut self, word: Option<&'static str>, func: &Function) {
        self.words.push(word);
        visit::walk_function(self, func);
        self.words.pop();
    }
}

impl<'a> Visitor<'a> for Search {
    fn stmt(&mut self, stmt: &'a Stmt) {
        if let StmtKind::Return(Some(value)) = &stmt.kind
            && !matches!(value.kind, ExprKind::Nil)
            && let Some(Some(word)) = self.words.last()
        {
            let message = "a generator returns no value: what `return` gives is dropped";
            let help = format!("hand the value out with `{word}`, and write `return` alone");
            let found = Diagnostic::warning(message).with_code(RETURN_DROPPED).with_help(help);
            self.out.push(found.at(value.span));
        }
        visit::walk_stmt(self, stmt);
    }

    fn decl(&mut self, decl: &'a Decl) {
        match &decl.kind {
            // A `yield` in a pipeline continues at once.
            DeclKind::Pipeline(d) => self.inside(None, &d.func),
            _ => visit::walk_decl(self, decl),
        }
    }

    fn function(&mut self, func: &'a Function, _: &'a [TypeParam]) {
        let word = match (func.is_gen, func.has_yield) {
            (true, _) => Some("emit"),
            (false, true) => Some("yield"),
            (false, false) => None,
        };
        self.inside(word, func);
    }
}
