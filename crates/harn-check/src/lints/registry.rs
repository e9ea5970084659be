//! Registries with more tools than the used models accept.

use harn_syntax::ast::*;
use harn_syntax::visit::{self, Visitor};
use harn_syntax::{Diagnostic, Span};
use rustc_hash::FxHashMap;

use crate::codes::REGISTRY_SIZE;

/// The route that a provider and a model lead to, as `provider/model`, and how many tools it accepts; `None` without a limit.
/// Without both it is the route of calls that name neither.
pub type MaxTools<'a> = dyn Fn(Option<&str>, Option<&str>) -> Option<(String, u64)> + 'a;

/// Runs the rule of this file.
pub(super) fn run(tree: &Program, max_tools: &MaxTools<'_>) -> Vec<Diagnostic> {
    let mut search = Search::default();
    search.stmts(&tree.items);
    let known = std::mem::take(&mut search.sizes);
    search.found.extend(grown(known, &FxHashMap::default()));
    let Some(largest) = search.found.iter().map(|(size, _)| *size).max() else { return Vec::new() };
    if search.routes.is_empty() {
        search.routes.push((None, None));
    }
    let limits = search.routes.iter().filter_map(|(provider, model)| max_tools(*provider, *model));
    let Some((route, most)) = limits.min_by_key(|(_, most)| *most).filter(|(_, most)| *most < largest) else {
        return Vec::new();
    };
    let too_large = search.found.into_iter().filter(|(size, _)| *size > most);
    too_large
        .map(|(size, span)| {
            let message =
                format!("tool registry has {size} tools, more than the {most} that {route} accepts");
            Diagnostic::warning(message)
                .with_code(REGISTRY_SIZE)
                .with_label(span, format!("lint[{REGISTRY_SIZE}]"))
                .with_help("give the model fewer tools, or let it look for them with `tool_search`")
        })
        .collect()
}

/// The known size of the registry in a variable.
#[derive(Clone, Copy, PartialEq)]
struct Size {
    tools: u64,
    /// Where it reached that size.
    span: Span,
    /// Another variable extends it; that one is reported instead.
    handed_on: bool,
}

#[derive(Default)]
struct Search<'a> {
    /// The known sizes of variables in scope.
    sizes: FxHashMap<&'a str, Size>,
    /// Complete registries.
    found: Vec<(u64, Span)>,
    /// Provider and model in dict literals.
    routes: Vec<(Option<&'a str>, Option<&'a str>)>,
}

/// Returns the registries that a block created or extended, compared with those before it.
fn grown(after: FxHashMap<&str, Size>, before: &FxHashMap<&str, Size>) -> Vec<(u64, Span)> {
    let new = after.into_iter().filter(|(name, size)| !size.handed_on && before.get(name) != Some(size));
    let mut new: Vec<_> = new.map(|(_, size)| (size.tools, size.span)).collect();
    new.sort_by_key(|(_, span)| span.start);
    new
}

impl<'a> Search<'a> {
    /// Returns the number of tools of a registry that calls of `tool_define` build, and the variable that the first
    /// of them extends.
    fn size(&self, expr: &'a Expr) -> Option<(u64, Option<&'a str>)> {
        match &expr.kind {
            ExprKind::Paren(inner) => self.size(inner),
            ExprKind::Name(name) => Some((self.sizes.get(name.as_str())?.tools, Some(name))),
            ExprKind::Call { callee, args, .. } => match (callee.as_name()?.as_str(), args.first()) {
                ("tool_registry", None) => Some((0, None)),
                ("tool_define", Some(first)) if !first.spread => {
                    let (tools, from) = self.size(&first.value)?;
                    Some((tools + 1, from))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Handles an assignment.
    fn set(&mut self, name: &'a str, value: &'a Expr) {
        match self.size(value) {
            Some((tools, from)) => {
                if let Some(from) =
                    from.filter(|from| *from != name).and_then(|from| self.sizes.get_mut(from))
                {
                    from.handed_on = true;
                }
                self.sizes.insert(name, Size { tools, span: value.span, handed_on: false });
            }
            None => {
                self.sizes.remove(name);
            }
        }
    }

    /// Records the provider, model and tools of a dict literal.
    fn options(&mut self, items: &'a [DictItem]) {
        let entry = |wanted: &str| {
            items.iter().find_map(|item| match item {
                DictItem::Entry { key, value } if key.name == wanted => Some(value),
                _ => None,
            })
        };
        let text = |wanted: &str| match entry(wanted).map(|value| &value.kind) {
            Some(ExprKind::Str(text)) => Some(text.as_str()),
            _ => None,
        };
        let route = (text("provider"), text("model"));
        if route != (None, None) && !self.routes.contains(&route) {
            self.routes.push(route);
        }
        match entry("tools") {
            Some(Expr { kind: ExprKind::List(tools), span }) => {
                self.found.push((tools.iter().filter(|tool| !tool.spread).count() as u64, *span));
            }
            Some(tools) if tools.as_name().is_none() => {
                if let Some((size, from)) = self.size(tools) {
                    if let Some(from) = from.and_then(|from| self.sizes.get_mut(from)) {
                        from.handed_on = true;
                    }
                    self.found.push((size, tools.span));
                }
            }
            _ => {}
        }
    }
}

impl<'a> Visitor<'a> for Search<'a> {
    fn stmt(&mut self, stmt: &'a Stmt) {
        visit::walk_stmt(self, stmt);
        match &stmt.kind {
            StmtKind::Let { pattern: Pattern { kind: PatternKind::Name(name), .. }, value, .. } => {
                self.set(&name.name, value);
            }
            StmtKind::Assign { target, op: None, value, .. } if target.path.is_empty() => {
                self.set(&target.root.name, value);
            }
            _ => {}
        }
    }

    fn decl(&mut self, decl: &'a Decl) {
        // The effect of a function on an outer variable happens when it is called, if at all.
        let around = self.sizes.clone();
        visit::walk_decl(self, decl);
        let inside = std::mem::replace(&mut self.sizes, around);
        self.found.extend(grown(inside, &self.sizes));
    }

    fn function(&mut self, func: &'a Function, _: &'a [TypeParam]) {
        for param in &func.params {
            self.sizes.remove(param.name.name.as_str());
        }
        visit::walk_function(self, func);
    }

    fn expr(&mut self, expr: &'a Expr) {
        visit::walk_expr(self, expr);
        if let ExprKind::Dict(items) = &expr.kind {
            self.options(items);
        }
    }
}
