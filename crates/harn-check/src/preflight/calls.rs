//! Finds the calls that render a template with a literal path, and their known bindings.

use harn_syntax::Span;
use harn_syntax::ast::*;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::scope::{names_of, names_of_match};
use harn_syntax::visit::{self, Visitor};

/// A call that renders a template.
pub(crate) struct RenderCall<'a> {
    /// How messages name the target of this kind of call.
    pub(crate) what: &'static str,
    /// The path as written; the template itself if it is given as text.
    pub(crate) path: &'a Name,
    /// Whether the call has the text of the template in place of a path.
    pub(crate) is_text: bool,
    pub(crate) path_span: Span,
    /// The bindings, when all their names are known.
    pub(crate) bindings: Option<Bindings<'a>>,
}

/// Bindings whose names are all known.
#[derive(Clone)]
pub(crate) struct Bindings<'a> {
    /// The names.
    pub(crate) keys: Vec<&'a Ident>,
    /// The dict literal, which tells bindings of several calls apart.
    pub(crate) literal: Span,
    /// The span of the bindings in the call.
    pub(crate) place: Span,
    /// Whether only rendering calls receive them: then a name that no template uses is useless.
    pub(crate) only_rendered: bool,
}

/// All such calls of a file, in source order.
pub(crate) fn collect(tree: &Program) -> Vec<RenderCall<'_>> {
    let mut found = Finder::default();
    found.stmts(&tree.items);
    let own: FxHashSet<&str> = found.bound.keys().copied().collect();
    let imported = tree.imports().flat_map(|import| import.names.iter().flatten());
    let own: FxHashSet<&str> = own.into_iter().chain(imported.map(|name| name.name.as_str())).collect();
    let mut calls = Vec::new();
    for site in &found.sites {
        if own.contains(site.function) {
            continue;
        }
        if let Some(call) = site.target() {
            let bindings = call.bindings.and_then(|value| found.bindings(value));
            let is_text = site.function == "render_string";
            let (what, path, path_span) = (call.what, call.path, call.path_span);
            calls.push(RenderCall { what, path, is_text, path_span, bindings });
        }
    }
    calls
}

/// A call of one of the functions that render.
struct Site<'a> {
    function: &'a str,
    args: &'a [Arg],
}

/// The arguments of such a call.
struct Target<'a> {
    what: &'static str,
    path: &'a Name,
    path_span: Span,
    bindings: Option<&'a Expr>,
}

impl<'a> Site<'a> {
    fn target(&self) -> Option<Target<'a>> {
        if self.args.iter().any(|arg| arg.spread) {
            return None;
        }
        let first = literal(&self.args.first()?.value)?;
        let second = self.args.get(1).map(|arg| &arg.value);
        let what = match self.function {
            "render" => "render target",
            "render_string" => "template",
            "render_prompt" => "render_prompt target",
            "render_with_provenance" => "render_with_provenance target",
            _ => {
                let ExprKind::Dict(items) = &second?.kind else { return None };
                let (path, path_span) = literal(entry(items, "path")?)?;
                let bindings = entry(items, "bindings");
                let what = "host template render target";
                return (first.0 == "template.render").then_some(Target { what, path, path_span, bindings });
            }
        };
        Some(Target { what, path: first.0, path_span: first.1, bindings: second })
    }
}

fn literal(expr: &Expr) -> Option<(&Name, Span)> {
    match &expr.kind {
        ExprKind::Str(text) => Some((text, expr.span)),
        ExprKind::Paren(inner) => literal(inner),
        _ => None,
    }
}

/// The value of a key; the last entry wins.
fn entry<'a>(items: &'a [DictItem], name: &str) -> Option<&'a Expr> {
    items.iter().rev().find_map(|item| match item {
        DictItem::Entry { key, value } if key.name == name => Some(value),
        _ => None,
    })
}

/// The names of a dict literal without computed keys and spreads.
fn keys<'a>(expr: &'a Expr) -> Option<Vec<&'a Ident>> {
    let ExprKind::Dict(items) = &expr.kind else { return None };
    let key = |item: &'a DictItem| match item {
        DictItem::Entry { key, .. } => Some(key),
        DictItem::Computed { .. } | DictItem::Spread(_) => None,
    };
    items.iter().map(key).collect()
}

/// A walk over a file. Names are counted without regard to scopes: a name that is bound twice is not followed.
#[derive(Default)]
struct Finder<'a> {
    sites: Vec<Site<'a>>,
    /// How often each name is bound.
    bound: FxHashMap<&'a str, u32>,
    /// The values of `let` variables.
    lets: FxHashMap<&'a str, &'a Expr>,
    /// How often each name is mentioned.
    mentioned: FxHashMap<&'a str, u32>,
    /// How often each name is the bindings of a call that was found.
    rendered: FxHashMap<&'a str, u32>,
}

impl<'a> Finder<'a> {
    fn bind(&mut self, name: &'a Ident) {
        *self.bound.entry(&name.name).or_default() += 1;
    }

    /// Returns the known bindings of a call.
    fn bindings(&self, value: &'a Expr) -> Option<Bindings<'a>> {
        if let Some(keys) = keys(value) {
            return Some(Bindings { keys, literal: value.span, place: value.span, only_rendered: true });
        }
        let name = value.as_name()?.as_str();
        let literal = self.lets.get(name).filter(|_| self.bound.get(name) == Some(&1))?;
        let only_rendered = self.mentioned.get(name) == self.rendered.get(name);
        Some(Bindings { keys: keys(literal)?, literal: literal.span, place: value.span, only_rendered })
    }
}

impl<'a> Visitor<'a> for Finder<'a> {
    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Let { mutable, pattern, value, .. } => {
                names_of(pattern, &mut |name| self.bind(name));
                if let (false, PatternKind::Name(name)) = (mutable, &pattern.kind) {
                    self.lets.insert(&name.name, value);
                }
            }
            // An assignment is treated as a binding: its value is not followed.
            StmtKind::Assign { target, .. } => self.bind(&target.root),
            StmtKind::Override { name, .. } => self.bind(name),
            _ => {}
        }
        visit::walk_stmt(self, stmt);
    }

    fn expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Name(name) => *self.mentioned.entry(name).or_default() += 1,
            ExprKind::Call { callee, args, .. } => {
                let function = callee.as_name().map(Name::as_str).unwrap_or_default();
                if matches!(
                    function,
                    "render" | "render_prompt" | "render_string" | "render_with_provenance" | "host_call"
                ) {
                    let site = Site { function, args };
                    let variable = site.target().and_then(|target| target.bindings).and_then(Expr::as_name);
                    variable.into_iter().for_each(|name| *self.rendered.entry(name).or_default() += 1);
                    self.sites.push(site);
                }
            }
            _ => {}
        }
        visit::walk_expr(self, expr);
    }

    fn decl(&mut self, decl: &'a Decl) {
        if !matches!(decl.kind, DeclKind::Impl(_)) {
            self.bind(decl.kind.name());
        }
        visit::walk_decl(self, decl);
    }

    fn function(&mut self, func: &'a Function, _: &'a [TypeParam]) {
        func.params.iter().for_each(|param| self.bind(&param.name));
        visit::walk_function(self, func);
    }

    fn for_body(&mut self, pattern: &'a Pattern, body: &'a Block) {
        names_of(pattern, &mut |name| self.bind(name));
        self.pattern(pattern);
        self.block(body);
    }

    fn match_arm(&mut self, arm: &'a MatchArm) {
        arm.patterns.iter().for_each(|pattern| names_of_match(pattern, &mut |name| self.bind(name)));
        visit::walk_match_arm(self, arm);
    }

    fn catch(&mut self, catch: &'a Catch) {
        catch.name.iter().for_each(|name| self.bind(name));
        self.block(&catch.body);
    }

    fn select_case(&mut self, case: &'a SelectCase) {
        self.bind(&case.name);
        self.block(&case.body);
    }
}
