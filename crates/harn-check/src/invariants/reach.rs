//! Walks the paths out of a handler: through its own code, the functions that it calls or passes on, and those of
//! other files.

use std::rc::Rc;

use harn_front::{Sources, SymbolKind, Unit};
use harn_syntax::Span;
use harn_syntax::ast::*;
use harn_syntax::visit::{self, Visitor};
use rustc_hash::FxHashMap;

use super::acts::{is_act, only_looks, written_paths};
use super::place::{File, Meaning, function};
use super::rules::{Rule, never_grows, normal, shrinks};
use super::{Step, Violation, code};
use crate::checks::block_exits;
use crate::imports;
use crate::world::{Source, World};

/// Maximum depth of calls with known string arguments.
const DEPTH: usize = 64;

/// Maximum depth of calls. Beyond it, the invariant is unknown.
const DEEPEST: usize = 128;

/// Maximum number of expressions that are evaluated for one string.
const EXPRESSIONS: usize = 200;

/// Maximum length of an evaluated string in bytes: no path is longer.
const LONGEST: usize = 4096;

/// Maximum number of functions that are entered with known strings; later ones are entered without. Otherwise each
/// call with two possible strings would double the work.
const ENTERED: usize = 2_000;

/// The known string parameters of a function, by the offset of their declaration.
type Texts = FxHashMap<u32, String>;

/// The state at a call: file and offset of the function, whether approval was given, and the known string arguments.
type Entry = (usize, u32, bool, Vec<Option<String>>);

/// Returns the violations of an invariant in a handler.
pub(super) fn walk(
    source: &Source<'_>,
    world: &World<'_>,
    decl: &Decl,
    invariant: String,
    rule: Rule,
) -> Vec<Violation> {
    let sources = imports::sources(world);
    let checked = Rc::new(File::checked(source.tree, source.text.len(), source.dir));
    let handler = decl.kind.name();
    let mut shared = Shared {
        sources: &sources,
        checked: checked.clone(),
        handler: decl,
        invariant,
        rule,
        files: FxHashMap::default(),
        steps: vec![Step { file: None, span: handler.span, label: format!("`{}` begins", handler.name) }],
        entered: FxHashMap::default(),
        declared: false,
        found: Vec::new(),
    };
    if let Some(func) = function(decl) {
        shared.look_for_target();
        let mut body =
            Body { shared: &mut shared, file: checked, texts: Texts::default(), approved: false, left: true };
        if let DeclKind::Pipeline(PipelineDecl { extends: Some(base), .. }) = &decl.kind {
            body.handed_on(&base.name, base.span, "extends");
        }
        visit::walk_function(&mut body, func);
    }
    shared.found
}

struct Shared<'w, 's> {
    sources: &'s Sources<'s>,
    checked: Rc<File<'w>>,
    handler: &'w Decl,
    invariant: String,
    rule: Rule,
    /// The reached files, by the address of their units.
    files: FxHashMap<usize, Rc<File<'w>>>,
    /// The path to the current place.
    steps: Vec<Step>,
    /// The entered functions, and whether approval is given when they return; `None` while they are walked.
    entered: FxHashMap<Entry, Option<bool>>,
    /// The variable of the budget was initialized.
    declared: bool,
    found: Vec<Violation>,
}

impl<'w> Shared<'w, '_> {
    fn file(&mut self, unit: &Rc<Unit>) -> Rc<File<'w>> {
        let address = Rc::as_ptr(unit) as usize;
        self.files.entry(address).or_insert_with(|| Rc::new(File::imported(unit.clone()))).clone()
    }

    fn report(&mut self, file: &File<'_>, span: Span, label: String, message: String, help: String) {
        let same = |violation: &Violation| {
            violation.message == message
                && violation.steps.last().is_some_and(|last| {
                    let name = |file: &harn_syntax::SourceFile| file.name().to_owned();
                    last.span == span && last.file.as_deref().map(name) == file.shown.as_deref().map(name)
                })
        };
        if self.found.iter().any(same) {
            return;
        }
        let mut steps = self.steps.clone();
        steps.push(Step { file: file.shown.clone(), span, label });
        self.found.push(Violation {
            invariant: self.invariant.clone(),
            handler: self.handler.kind.name().name.to_string(),
            code: code(&self.rule),
            message,
            steps,
            help,
        });
    }

    /// An unknown budget enforces nothing.
    fn look_for_target(&mut self) {
        let Rule::Budget { target } = &self.rule else { return };
        let inside = self.handler.span;
        let known = self.checked.names.symbols.iter().any(|symbol| {
            symbol.name == *target
                && matches!(symbol.kind, SymbolKind::Let | SymbolKind::Var | SymbolKind::Param)
                && (symbol.top || inside.start <= symbol.span.start && symbol.span.end <= inside.end)
        });
        if !known {
            let name = self.handler.kind.name();
            let message = format!("`{}` has no variable `{target}`", name.name);
            let help = "name the variable that holds what is left of the budget".to_owned();
            let (file, span) = (self.checked.clone(), name.span);
            self.report(&file, span, "has no such variable".to_owned(), message, help);
        }
    }
}

/// The walk through one function.
struct Body<'b, 'w, 's> {
    shared: &'b mut Shared<'w, 's>,
    file: Rc<File<'w>>,
    texts: Texts,
    /// Approval was given on every path to this place.
    approved: bool,
    /// Approval was given at every `return` so far.
    left: bool,
}

impl<'w> Body<'_, 'w, '_> {
    /// Evaluates an expression to a string, if it is known.
    fn text(&self, value: &Expr) -> Option<String> {
        self.text_within(value, &mut { EXPRESSIONS })
    }

    /// The same, with at most `left` evaluated expressions.
    fn text_within(&self, value: &Expr, left: &mut usize) -> Option<String> {
        *left = left.checked_sub(1)?;
        let text = match &value.kind {
            ExprKind::Str(text) => Some(text.to_string()),
            ExprKind::Paren(inner) => self.text_within(inner, left),
            ExprKind::Binary { op: BinaryOp::Add, lhs, rhs, .. } => {
                Some(self.text_within(lhs, left)? + &self.text_within(rhs, left)?)
            }
            ExprKind::Interp(parts) => parts
                .iter()
                .map(|part| match part {
                    StrPart::Text(text) => Some(text.to_string()),
                    StrPart::Expr(value) => self.text_within(value, left),
                })
                .collect(),
            ExprKind::Name(name) => match self.file.meaning(name, value.span, self.shared.sources) {
                Meaning::Bound(bound) => self.text_within(bound, left),
                Meaning::Param(introduced) => self.texts.get(&introduced).cloned(),
                _ => None,
            },
            _ => None,
        };
        text.filter(|text| text.len() <= LONGEST)
    }

    /// Walks a function that is called here with these strings; afterwards approval is given if the function ensures
    /// it.
    fn enter(
        &mut self,
        file: Rc<File<'w>>,
        func: &Function,
        span: Span,
        label: String,
        args: &[Option<String>],
    ) {
        let deep = self.shared.steps.len();
        let args = if self.shared.entered.len() < ENTERED && deep <= DEPTH { args } else { &[] };
        let key = (Rc::as_ptr(&file) as usize, func.span.start, self.approved, args.to_vec());
        if let Some(known) = self.shared.entered.get(&key) {
            self.approved |= known.unwrap_or(false);
            return;
        }
        if deep > DEEPEST {
            let message =
                format!("calls inside of each other are followed {DEEPEST} deep, and there are more here");
            let help = "call what acts from a function nearer to the one with the invariant".to_owned();
            let own = self.file.clone();
            self.shared.report(&own, span, label, message, help);
            return;
        }
        self.shared.entered.insert(key.clone(), None);
        self.shared.steps.push(Step { file: self.file.shown.clone(), span, label });
        // A closure sees the outer parameters.
        let mut texts = if Rc::ptr_eq(&file, &self.file) { self.texts.clone() } else { Texts::default() };
        for (at, param) in func.params.iter().enumerate() {
            let given = args.get(at).cloned().flatten().filter(|_| !param.rest);
            match given {
                Some(text) => texts.insert(param.name.span.start, text),
                None => texts.remove(&param.name.span.start),
            };
        }
        let mut inner = Body { shared: &mut *self.shared, file, texts, approved: self.approved, left: true };
        visit::walk_function(&mut inner, func);
        let after = inner.approved && inner.left;
        self.shared.steps.pop();
        self.shared.entered.insert(key, Some(after));
        self.approved |= after;
    }

    /// Enters the function with a name; returns false for builtins and variables.
    fn enter_name(&mut self, name: &str, span: Span, verb: &str, args: &[Option<String>]) -> bool {
        let file = self.file.clone();
        let label = format!("{verb} `{name}`");
        match file.meaning(name, span, self.shared.sources) {
            Meaning::Here(func) => self.enter(file.clone(), func, span, label, args),
            Meaning::There(unit, item) => {
                let Some(StmtKind::Decl(decl)) = unit.tree.items.get(item).map(|item| &item.kind) else {
                    return true;
                };
                if let Some(func) = function(decl) {
                    let there = self.shared.file(&unit);
                    self.enter(there, func, span, label, args);
                }
            }
            Meaning::Bound(Expr { kind: ExprKind::Closure { func, .. }, .. }) => {
                self.enter(file.clone(), func, span, label, args);
            }
            Meaning::Builtin => return false,
            Meaning::Bound(_) | Meaning::Param(_) | Meaning::Other => {}
        }
        true
    }

    /// Handles a function that is passed on: it may be called with any arguments.
    fn handed_on(&mut self, name: &str, span: Span, verb: &str) {
        let approved = self.approved;
        if !self.enter_name(name, span, verb, &[]) {
            self.builtin(name, span, None);
        }
        self.approved = approved;
    }

    /// Handles a call of a builtin; `args` is `None` if the builtin is only passed on.
    fn builtin(&mut self, name: &str, span: Span, args: Option<&[Arg]>) {
        let file = self.file.clone();
        match &self.shared.rule {
            Rule::Writes { globs, shown } => {
                let Some(positions) = written_paths(name) else { return };
                let allowed = match shown.as_slice() {
                    [] => "no file may be written".to_owned(),
                    globs => format!("files may be written in {}", globs.join(", ")),
                };
                let mut wrong = Vec::new();
                for at in positions {
                    let arg =
                        args.map(|args| args.get(*at).filter(|_| !args[..=*at].iter().any(|arg| arg.spread)));
                    match arg {
                        // A missing argument is not a path of the program.
                        Some(None) if args.is_some_and(|args| args.iter().all(|arg| !arg.spread)) => {}
                        Some(Some(arg)) => match self.text(&arg.value) {
                            Some(path) if globs.is_match(normal(&path)) => {}
                            Some(path) => wrong.push((
                                arg.value.span,
                                format!("`{name}` writes `{path}`, but {allowed}"),
                                "write to one of these places, or add a glob to the attribute",
                            )),
                            None => wrong.push((
                                arg.value.span,
                                format!("the path that `{name}` writes is not known here, but {allowed}"),
                                "give it a path that is a literal, also through a `let` or the arguments of a call",
                            )),
                        },
                        _ => wrong.push((
                            span,
                            format!("the path that `{name}` writes is not known here, but {allowed}"),
                            "call it with a path that is a literal",
                        )),
                    }
                }
                for (span, message, help) in wrong {
                    self.shared.report(&file, span, format!("calls `{name}`"), message, help.to_owned());
                }
            }
            Rule::Approval => {
                if self.approved || !is_act(name) || args.is_some_and(|args| only_looks(name, args)) {
                    return;
                }
                let message = format!("`{name}` is reached without an approval");
                let help =
                    "call `request_approval` on every way that leads to it, or put it into `dual_control`";
                self.shared.report(&file, span, format!("calls `{name}`"), message, help.to_owned());
            }
            Rule::Budget { .. } => {}
        }
    }

    /// Handles an assignment to a variable.
    fn assigned(&mut self, name: Span, value: &Expr, op: Option<BinaryOp>, first: bool, whole: Span) {
        let Rule::Budget { target } = &self.shared.rule else { return };
        let file = self.file.clone();
        if !Rc::ptr_eq(&file, &self.shared.checked) || !self.is_target(name, target) {
            return;
        }
        if first && !std::mem::replace(&mut self.shared.declared, true) {
            return;
        }
        let sources = self.shared.sources;
        let is_builtin = |callee: &Expr| {
            callee
                .as_name()
                .is_some_and(|name| matches!(file.meaning(name, callee.span, sources), Meaning::Builtin))
        };
        let fine = match op {
            Some(op) => shrinks(op, value),
            None => never_grows(value, target, &is_builtin),
        };
        if !fine {
            let message = format!("`{target}` may grow here");
            let help = "keep it, make it smaller, or read it anew with `llm_budget_remaining()`";
            self.shared.report(&file, whole, format!("assigns `{target}`"), message, help.to_owned());
        }
    }

    /// Whether a place introduces or mentions the variable of the budget: a parameter or variable of the handler, or one of the
    /// file.
    fn is_target(&self, place: Span, target: &str) -> bool {
        let names = &self.file.names;
        let Some(symbol) = names.symbol_at(place.start).map(|id| &names.symbols[id]) else { return false };
        let inside = self.shared.handler.span;
        symbol.name == *target
            && (symbol.top || inside.start <= symbol.span.start && symbol.span.end <= inside.end)
    }

    /// Walks code that runs any number of times.
    fn perhaps(&mut self, walk: impl FnOnce(&mut Self)) {
        let before = self.approved;
        walk(self);
        self.approved = before;
    }

    /// Walks one of several branches; returns whether approval is given at its end, or the end is unreachable.
    fn way(&mut self, from: bool, walk: impl FnOnce(&mut Self), exits: bool) -> bool {
        self.approved = from;
        walk(self);
        self.approved || exits
    }
}

impl<'a> Visitor<'a> for Body<'_, '_, '_> {
    // Nested declarations have no effect.
    fn decl(&mut self, _: &'a Decl) {}

    fn function(&mut self, func: &'a Function, _: &'a [TypeParam]) {
        let left = self.left;
        self.perhaps(|body| visit::walk_function(body, func));
        self.left = left;
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Let { pattern, value, mutable, .. } => {
                if let PatternKind::Name(name) = &pattern.kind {
                    self.assigned(name.span, value, None, true, stmt.span);
                    // A closure runs where the variable is called.
                    if !mutable && matches!(value.kind, ExprKind::Closure { .. }) {
                        return;
                    }
                }
                visit::walk_stmt(self, stmt);
            }
            StmtKind::Assign { target, op, value, .. } => {
                self.assigned(target.root.span, value, *op, false, stmt.span);
                visit::walk_stmt(self, stmt);
            }
            StmtKind::For { pattern, iter, body } => {
                self.expr(iter);
                self.perhaps(|this| this.for_body(pattern, body));
            }
            StmtKind::While { cond, body } => {
                self.expr(cond);
                self.perhaps(|this| this.block(body));
            }
            StmtKind::Guard { cond, body } => {
                self.expr(cond);
                self.perhaps(|this| this.block(body));
            }
            StmtKind::Return(_) => {
                visit::walk_stmt(self, stmt);
                self.left &= self.approved;
            }
            _ => visit::walk_stmt(self, stmt),
        }
    }

    fn expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Name(name) => self.handed_on(name, expr.span, "hands on"),
            ExprKind::Call { callee, args, .. } => {
                let Some(name) = callee.as_name() else { return visit::walk_expr(self, expr) };
                let before = self.approved;
                let is_builtin = {
                    let file = self.file.clone();
                    matches!(file.meaning(name, callee.span, self.shared.sources), Meaning::Builtin)
                };
                let controlled = is_builtin && name == "dual_control";
                self.approved |= controlled;
                args.iter().for_each(|arg| self.expr(&arg.value));
                if controlled {
                    self.approved = before;
                }
                if is_builtin {
                    self.builtin(name, callee.span, Some(args));
                    self.approved |= name == "request_approval";
                } else {
                    let texts = args.iter().map(|arg| match arg.spread {
                        true => None,
                        false => self.text(&arg.value),
                    });
                    // After a spread list, the positions of arguments are unknown.
                    let plain = args.iter().take_while(|arg| !arg.spread).count();
                    let texts: Vec<Option<String>> = texts.take(plain).collect();
                    self.enter_name(name, callee.span, "calls", &texts);
                }
            }
            ExprKind::MethodCall { name, args, .. } => {
                visit::walk_expr(self, expr);
                let file = self.file.clone();
                let texts: Vec<Option<String>> = std::iter::once(None)
                    .chain(args.iter().map(|arg| self.text(&arg.value).filter(|_| !arg.spread)))
                    .collect();
                for method in file.methods(&name.name) {
                    let label = format!("calls `{}`", name.name);
                    self.perhaps(|this| this.enter(file.clone(), method, name.span, label, &texts));
                }
            }
            ExprKind::Propagate { .. } => {
                visit::walk_expr(self, expr);
                self.left &= self.approved;
            }
            ExprKind::If { arms, else_body } => {
                let mut all = true;
                for arm in arms {
                    self.expr(&arm.cond);
                    let from = self.approved;
                    all &= self.way(from, |this| this.block(&arm.body), block_exits(&arm.body));
                    self.approved = from;
                }
                let from = self.approved;
                all &= match else_body {
                    Some(body) => self.way(from, |this| this.block(body), block_exits(body)),
                    None => from,
                };
                self.approved = all;
            }
            ExprKind::Match { value, arms } => {
                self.expr(value);
                let from = self.approved;
                let mut all = true;
                for arm in arms {
                    all &= self.way(from, |this| this.match_arm(arm), block_exits(&arm.body));
                }
                self.approved = from || (all && !arms.is_empty());
            }
            ExprKind::Try { body, catch, finally } => {
                let from = self.approved;
                let mut after = self.way(from, |this| this.block(body), false);
                match catch {
                    Some(catch) => {
                        after &= self.way(from, |this| this.catch(catch), block_exits(&catch.body));
                    }
                    // A `try` without a handler continues after any failure.
                    None if finally.is_none() => after = from,
                    None => {}
                }
                self.approved = from;
                finally.iter().for_each(|block| self.block(block));
                self.approved |= after;
            }
            ExprKind::Ternary { cond, then, other } => {
                self.expr(cond);
                let from = self.approved;
                let mut all = self.way(from, |this| this.expr(then), false);
                all &= self.way(from, |this| this.expr(other), false);
                self.approved = all;
            }
            ExprKind::Logic { lhs, rhs, .. } => {
                self.expr(lhs);
                self.perhaps(|this| this.expr(rhs));
            }
            ExprKind::Select(_) | ExprKind::Retry { .. } | ExprKind::TryStar(_) => {
                self.perhaps(|this| visit::walk_expr(this, expr));
            }
            _ => visit::walk_expr(self, expr),
        }
    }
}
