//! Declarations: unused ones, the form of names, the complexity of functions.

use harn_syntax::ast::*;
use harn_syntax::visit::{self, Visitor};
use harn_syntax::{Diagnostic, Span};
use rustc_hash::FxHashSet;

use crate::codes::{COMPLEXITY, NAMING, UNUSED_FUNCTION, UNUSED_TYPE};

/// The default threshold of complexity, if no manifest sets another one.
const MAX_COMPLEXITY: usize = 25;

/// Runs the rules of this file.
pub(super) fn run(text: &str, tree: &Program, most: Option<usize>) -> Vec<Diagnostic> {
    let mut rules = Rules { most: most.unwrap_or(MAX_COMPLEXITY), out: Vec::new() };
    rules.stmts(&tree.items);
    rules.unused(text, tree);
    rules.out
}

struct Rules {
    /// The threshold of complexity.
    most: usize,
    out: Vec<Diagnostic>,
}

impl Rules {
    fn report(&mut self, rule: &'static str, span: Span, message: String) -> &mut Diagnostic {
        let found = Diagnostic::warning(message).with_code(rule).with_label(span, format!("lint[{rule}]"));
        self.out.push(found);
        let last = self.out.len() - 1;
        &mut self.out[last]
    }

    /// Reports declarations that are never mentioned. In a file that has neither pipelines nor statements every
    /// function may be used by other files.
    fn unused(&mut self, text: &str, tree: &Program) {
        let runs = tree.items.iter().any(|item| match &item.kind {
            StmtKind::Decl(decl) => matches!(decl.kind, DeclKind::Pipeline(_)),
            StmtKind::Import(_) | StmtKind::Let { .. } => false,
            _ => true,
        });
        let exports = tree.items.iter().any(|item| matches!(&item.kind, StmtKind::Decl(decl) if decl.is_pub));
        if !runs && !exports {
            return;
        }
        let declared: FxHashSet<Span> = tree
            .items
            .iter()
            .filter_map(|item| match &item.kind {
                StmtKind::Decl(decl) => Some(decl.kind.name().span),
                _ => None,
            })
            .collect();
        let mut mentioned: FxHashSet<&str> = FxHashSet::default();
        for token in &harn_syntax::lexer::lex(text).tokens {
            if !declared.contains(&token.span) {
                let word = token.span.slice(text);
                // Names in an interpolation are inside of the token of their string.
                if word.starts_with('"') {
                    mentioned.extend(word.split(|c: char| !c.is_alphanumeric() && c != '_'));
                } else {
                    mentioned.insert(word);
                }
            }
        }
        for item in &tree.items {
            let StmtKind::Decl(decl) = &item.kind else { continue };
            let name = decl.kind.name();
            let free = name.name.starts_with('_') || decl.is_pub || !decl.attrs.is_empty();
            if free || mentioned.contains(name.name.as_str()) {
                continue;
            }
            match &decl.kind {
                DeclKind::Fn(_) => {
                    let message = format!("function `{}` is declared but never used", name.name);
                    self.report(UNUSED_FUNCTION, name.span, message);
                }
                DeclKind::Struct(_) | DeclKind::Enum(_) | DeclKind::Interface(_) | DeclKind::Type(_) => {
                    let message =
                        format!("{} `{}` is declared but never referenced", decl.kind.keyword(), name.name);
                    self.report(UNUSED_TYPE, name.span, message);
                }
                _ => {}
            }
        }
    }

    fn naming(&mut self, decl: &Decl) {
        let name = decl.kind.name();
        let (form, wanted) = match &decl.kind {
            DeclKind::Fn(_) | DeclKind::Tool(_) => ("snake_case", snake(&name.name)),
            DeclKind::Struct(_) | DeclKind::Enum(_) | DeclKind::Interface(_) | DeclKind::Type(_) => {
                ("PascalCase", pascal(&name.name))
            }
            _ => return,
        };
        if wanted != name.name.as_str() {
            let message = format!("{} `{}` is not in {form}", decl.kind.keyword(), name.name);
            self.report(NAMING, name.span, message).help = Some(format!("the usual form is `{wanted}`"));
        }
    }

    fn complexity(&mut self, name: &Ident, attrs: &[Attribute], func: &Function) {
        let allowed = |attr: &Attribute| {
            attr.name.name == "complexity"
                && attr.args.iter().any(|arg| matches!(&arg.value, AttrValue::Name(word) if word == "allow"))
        };
        if attrs.iter().any(allowed) {
            return;
        }
        let mut count = Count(0);
        count.block(&func.body);
        if count.0 > self.most {
            let message =
                format!("function `{}` has cyclomatic complexity {} (> {})", name.name, count.0, self.most);
            self.report(COMPLEXITY, name.span, message).help =
                Some("split it, or say `@complexity(allow)` before it".to_owned());
        }
    }
}

impl<'a> Visitor<'a> for Rules {
    fn decl(&mut self, decl: &'a Decl) {
        self.naming(decl);
        match &decl.kind {
            DeclKind::Fn(d) => self.complexity(&d.name, &decl.attrs, &d.func),
            DeclKind::Tool(d) => self.complexity(&d.name, &decl.attrs, &d.func),
            DeclKind::Impl(d) => {
                d.methods.iter().for_each(|m| self.complexity(&m.decl.name, &[], &m.decl.func));
            }
            _ => {}
        }
        visit::walk_decl(self, decl);
    }
}

/// Counts the branches of a function.
struct Count(usize);

impl<'a> Visitor<'a> for Count {
    fn stmt(&mut self, stmt: &'a Stmt) {
        let here =
            matches!(stmt.kind, StmtKind::For { .. } | StmtKind::While { .. } | StmtKind::Guard { .. });
        self.0 += usize::from(here);
        visit::walk_stmt(self, stmt);
    }

    fn expr(&mut self, expr: &'a Expr) {
        self.0 += match &expr.kind {
            ExprKind::If { arms, .. } => arms.len(),
            ExprKind::Match { .. } | ExprKind::Retry { .. } | ExprKind::Ternary { .. } => 1,
            ExprKind::Try { catch: Some(_), .. } => 1,
            ExprKind::Select(select) => select.cases.len(),
            ExprKind::Logic { op: LogicOp::And | LogicOp::Or, .. } => 1,
            _ => 0,
        };
        visit::walk_expr(self, expr);
    }

    // Nested functions are counted separately.
    fn function(&mut self, _: &'a Function, _: &'a [TypeParam]) {}
}

fn snake(name: &str) -> String {
    let mut out = String::new();
    let mut before = '_';
    for c in name.chars() {
        if c.is_uppercase() && before != '_' && !before.is_uppercase() {
            out.push('_');
        }
        out.extend(c.to_lowercase());
        before = c;
    }
    out
}

fn pascal(name: &str) -> String {
    let lead: String = name.chars().take_while(|c| *c == '_').collect();
    let words = name.split('_').filter(|word| !word.is_empty());
    let upper = |word: &str| {
        let mut chars = word.chars();
        chars.next().map(|c| c.to_uppercase().chain(chars).collect::<String>()).unwrap_or_default()
    };
    lead + &words.map(upper).collect::<String>()
}
