//! What the compiler must know of a function before it emits code: which names nested functions
//! mention and which names are assigned. Both are sets of names, not of bindings: a name that occurs
//! twice is treated with the greater care, which costs a cell and never correctness.

use harn_syntax::ast::*;
use rustc_hash::{FxHashMap, FxHashSet};

/// Facts about one function.
#[derive(Default)]
pub(super) struct Facts {
    /// Names mentioned anywhere in it, nested functions included.
    pub(super) mentioned: FxHashSet<Name>,
    /// Names mentioned in functions nested in it, with the start of the first function that does.
    pub(super) nested: FxHashMap<Name, u32>,
    /// Names assigned anywhere in it, nested functions included.
    pub(super) assigned: FxHashSet<Name>,
}

/// Facts of all functions of a file, by the address of their node.
#[derive(Default)]
pub(super) struct FactsTable {
    table: FxHashMap<*const Function, Facts>,
    /// Facts of the file's top level.
    pub(super) top: Facts,
}

impl FactsTable {
    pub(super) fn collect(program: &Program) -> FactsTable {
        let mut walk = Walk { table: FxHashMap::default(), stack: vec![Facts::default()] };
        walk.stmts(&program.items);
        let top = walk.stack.pop().unwrap_or_default();
        FactsTable { table: walk.table, top }
    }

    pub(super) fn of(&self, func: &Function) -> &Facts {
        self.table.get(&(&raw const *func)).unwrap_or(&self.top)
    }
}

struct Walk {
    table: FxHashMap<*const Function, Facts>,
    stack: Vec<Facts>,
}

impl Walk {
    fn top(&mut self) -> &mut Facts {
        let last = self.stack.len() - 1;
        &mut self.stack[last]
    }

    fn mention(&mut self, name: &Name) {
        if !self.top().mentioned.contains(name) {
            self.top().mentioned.insert(name.clone());
        }
    }

    fn assign(&mut self, name: &Name) {
        self.mention(name);
        self.top().assigned.insert(name.clone());
    }

    fn function(&mut self, func: &Function) {
        self.stack.push(Facts::default());
        for param in &func.params {
            if let Some(default) = &param.default {
                self.expr(default);
            }
        }
        self.block(&func.body);
        let facts = self.stack.pop().unwrap_or_default();
        let start = func.span.start;
        let outer = self.top();
        for name in &facts.mentioned {
            // A mention of a parameter's name is the parameter, not a variable further out.
            if func.params.iter().any(|p| p.name.name == *name) {
                continue;
            }
            let first = outer.nested.entry(name.clone()).or_insert(start);
            *first = start.min(*first);
            outer.mentioned.insert(name.clone());
        }
        for name in &facts.assigned {
            outer.assigned.insert(name.clone());
        }
        self.table.insert(&raw const *func, facts);
    }

    fn block(&mut self, block: &Block) {
        self.stmts(&block.stmts);
    }

    fn stmts(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            self.stmt(stmt);
        }
    }

    fn pattern(&mut self, pattern: &Pattern) {
        match &pattern.kind {
            PatternKind::Dict { fields, .. } => {
                fields.iter().filter_map(|f| f.default.as_ref()).for_each(|e| self.expr(e));
            }
            PatternKind::List { elems, .. } => {
                elems.iter().filter_map(|e| e.default.as_ref()).for_each(|e| self.expr(e));
            }
            PatternKind::Name(_) | PatternKind::Pair(..) => {}
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Let { pattern, value, .. } => {
                self.pattern(pattern);
                self.expr(value);
            }
            StmtKind::Assign { target, value, .. } => {
                self.assign(&target.root.name);
                for step in &target.path {
                    if let TargetStep::Index { index, .. } = step {
                        self.expr(index);
                    }
                }
                self.expr(value);
            }
            StmtKind::For { pattern, iter, body } => {
                self.pattern(pattern);
                self.expr(iter);
                self.block(body);
            }
            StmtKind::While { cond, body } | StmtKind::Guard { cond, body } => {
                self.expr(cond);
                self.block(body);
            }
            StmtKind::Require { cond, message } => {
                self.expr(cond);
                message.iter().for_each(|e| self.expr(e));
            }
            StmtKind::Return(value) | StmtKind::Yield(value) => value.iter().for_each(|e| self.expr(e)),
            StmtKind::Throw(e) | StmtKind::Emit(e) | StmtKind::Expr(e) => self.expr(e),
            StmtKind::Defer(block) | StmtKind::Mutex(block) => self.block(block),
            StmtKind::Override { name, func } => {
                self.mention(&name.name);
                self.function(func);
            }
            StmtKind::Decl(decl) => self.decl(&decl.kind),
            StmtKind::Break | StmtKind::Continue | StmtKind::Import(_) => {}
        }
    }

    fn decl(&mut self, decl: &DeclKind) {
        match decl {
            DeclKind::Fn(d) => self.function(&d.func),
            DeclKind::Pipeline(d) => {
                d.extends.iter().for_each(|base| self.mention(&base.name));
                self.function(&d.func);
            }
            DeclKind::Tool(d) => {
                d.fields.iter().for_each(|f| self.expr(&f.value));
                self.function(&d.func);
            }
            DeclKind::Skill(d) => d.fields.iter().for_each(|f| self.expr(&f.value)),
            DeclKind::EvalPack(d) => {
                d.fields.iter().for_each(|f| self.expr(&f.value));
                self.stmts(&d.stmts);
                d.summarize.iter().for_each(|b| self.block(b));
            }
            DeclKind::Impl(d) => d.methods.iter().for_each(|m| self.function(&m.decl.func)),
            DeclKind::Enum(_) | DeclKind::Struct(_) | DeclKind::Type(_) | DeclKind::Interface(_) => {}
        }
    }

    fn args(&mut self, args: &[Arg]) {
        args.iter().for_each(|arg| self.expr(&arg.value));
    }

    fn items(&mut self, items: &[DictItem]) {
        for item in items {
            match item {
                DictItem::Entry { value, .. } | DictItem::Spread(value) => self.expr(value),
                DictItem::Computed { key, value } => {
                    self.expr(key);
                    self.expr(value);
                }
            }
        }
    }

    fn match_pattern(&mut self, pattern: &MatchPattern) {
        match &pattern.kind {
            MatchPatternKind::Value(e) => self.expr(e),
            MatchPatternKind::Dict { entries, .. } => entries.iter().for_each(|(_, p)| self.match_pattern(p)),
            MatchPatternKind::List { items, .. } => items.iter().for_each(|p| self.match_pattern(p)),
            MatchPatternKind::Variant { enum_name, fields, .. } => {
                self.mention(&enum_name.name);
                fields.iter().flatten().for_each(|p| self.match_pattern(p));
            }
            // An alternative of an or-pattern may be a variable that is read.
            MatchPatternKind::Bind(name) => self.mention(&name.name),
            MatchPatternKind::Wildcard => {}
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Name(name) => self.mention(name),
            ExprKind::Interp(parts) => {
                for part in parts {
                    if let StrPart::Expr(e) = part {
                        self.expr(e);
                    }
                }
            }
            ExprKind::Paren(e) | ExprKind::TryStar(e) => self.expr(e),
            ExprKind::List(args) => self.args(args),
            ExprKind::Dict(items) => self.items(items),
            ExprKind::StructLit { name, items } => {
                self.mention(&name.name);
                self.items(items);
            }
            ExprKind::Closure { func, .. } | ExprKind::Spawn(func) => self.function(func),
            ExprKind::If { arms, else_body } => {
                for arm in arms {
                    self.expr(&arm.cond);
                    self.block(&arm.body);
                }
                else_body.iter().for_each(|b| self.block(b));
            }
            ExprKind::Match { value, arms } => {
                self.expr(value);
                for arm in arms {
                    arm.patterns.iter().for_each(|p| self.match_pattern(p));
                    arm.guard.iter().for_each(|e| self.expr(e));
                    self.block(&arm.body);
                }
            }
            ExprKind::Try { body, catch, finally } => {
                self.block(body);
                catch.iter().for_each(|c| self.block(&c.body));
                finally.iter().for_each(|b| self.block(b));
            }
            ExprKind::Retry { count: head, body } | ExprKind::Deadline { limit: head, body } => {
                self.expr(head);
                self.block(body);
            }
            ExprKind::Parallel(p) => {
                self.expr(&p.source);
                p.max_concurrent.iter().for_each(|e| self.expr(e));
                self.function(&p.func);
            }
            ExprKind::Select(s) => {
                for case in &s.cases {
                    self.expr(&case.channel);
                    self.block(&case.body);
                }
                if let Some((limit, body)) = &s.timeout {
                    self.expr(limit);
                    self.block(body);
                }
                s.default.iter().for_each(|b| self.block(b));
            }
            ExprKind::Unary { operand, .. } | ExprKind::Propagate { operand, .. } => self.expr(operand),
            ExprKind::Binary { lhs, rhs, .. } | ExprKind::Logic { lhs, rhs, .. } => {
                self.expr(lhs);
                self.expr(rhs);
            }
            ExprKind::Ternary { cond, then, other } => {
                self.expr(cond);
                self.expr(then);
                self.expr(other);
            }
            ExprKind::Range { start: a, end: b, .. } | ExprKind::Pipe { value: a, func: b, .. } => {
                self.expr(a);
                self.expr(b);
            }
            ExprKind::Call { callee, args, .. } => {
                self.expr(callee);
                self.args(args);
            }
            ExprKind::MethodCall { object, args, .. } => {
                self.expr(object);
                self.args(args);
            }
            ExprKind::Member { object, .. } => self.expr(object),
            ExprKind::Index { object, index, .. } => {
                self.expr(object);
                self.expr(index);
            }
            ExprKind::Slice { object, start, end, .. } => {
                self.expr(object);
                start.iter().chain(end).for_each(|e| self.expr(e));
            }
            ExprKind::Nil
            | ExprKind::Bool(_)
            | ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Duration(_)
            | ExprKind::Str(_)
            | ExprKind::Error => {}
        }
    }
}

/// Whether evaluating `expr` may run statements of the same function (and so assign its variables).
pub(super) fn has_block(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::If { .. }
        | ExprKind::Match { .. }
        | ExprKind::Try { .. }
        | ExprKind::Retry { .. }
        | ExprKind::Deadline { .. }
        | ExprKind::Select(_) => true,
        ExprKind::Interp(parts) => parts.iter().any(|p| matches!(p, StrPart::Expr(e) if has_block(e))),
        ExprKind::Paren(e) | ExprKind::TryStar(e) => has_block(e),
        ExprKind::List(args) => args.iter().any(|a| has_block(&a.value)),
        ExprKind::Dict(items) | ExprKind::StructLit { items, .. } => items.iter().any(|item| match item {
            DictItem::Entry { value, .. } | DictItem::Spread(value) => has_block(value),
            DictItem::Computed { key, value } => has_block(key) || has_block(value),
        }),
        ExprKind::Parallel(p) => has_block(&p.source),
        ExprKind::Unary { operand, .. } | ExprKind::Propagate { operand, .. } => has_block(operand),
        ExprKind::Binary { lhs, rhs, .. } | ExprKind::Logic { lhs, rhs, .. } => {
            has_block(lhs) || has_block(rhs)
        }
        ExprKind::Ternary { cond, then, other } => has_block(cond) || has_block(then) || has_block(other),
        ExprKind::Range { start: a, end: b, .. } | ExprKind::Pipe { value: a, func: b, .. } => {
            has_block(a) || has_block(b)
        }
        ExprKind::Call { callee, args, .. } => has_block(callee) || args.iter().any(|a| has_block(&a.value)),
        ExprKind::MethodCall { object, args, .. } => {
            has_block(object) || args.iter().any(|a| has_block(&a.value))
        }
        ExprKind::Member { object, .. } => has_block(object),
        ExprKind::Index { object, index, .. } => has_block(object) || has_block(index),
        ExprKind::Slice { object, start, end, .. } => {
            has_block(object) || start.iter().chain(end).any(|e| has_block(e))
        }
        _ => false,
    }
}

/// Whether `expr` mentions `name` (nested functions included).
pub(super) fn mentions(expr: &Expr, name: &Name) -> bool {
    let mut walk = Walk { table: FxHashMap::default(), stack: vec![Facts::default()] };
    walk.expr(expr);
    walk.top().mentioned.contains(name)
}

impl FactsTable {
    /// Adds the facts of a function of another file.
    pub(super) fn add(&mut self, func: &Function) {
        if self.table.contains_key(&(&raw const *func)) {
            return;
        }
        let mut walk = Walk { table: FxHashMap::default(), stack: vec![Facts::default()] };
        walk.function(func);
        self.table.extend(walk.table);
    }
}
