//! Visits the tree in evaluation order. Passes override the methods of the nodes that they process.

use crate::ast::*;

/// A pass over the tree. Unless overridden, every method walks the children of its node.
pub trait Visitor<'a>: Sized {
    /// Visits a block with its own scope.
    fn block(&mut self, block: &'a Block) {
        self.stmts(&block.stmts);
    }

    /// Visits the statements of a block or of the file.
    fn stmts(&mut self, stmts: &'a [Stmt]) {
        stmts.iter().for_each(|stmt| self.stmt(stmt));
    }

    /// Visits a statement.
    fn stmt(&mut self, stmt: &'a Stmt) {
        walk_stmt(self, stmt);
    }

    /// Visits an expression.
    fn expr(&mut self, expr: &'a Expr) {
        walk_expr(self, expr);
    }

    /// Visits a declaration.
    fn decl(&mut self, decl: &'a Decl) {
        walk_decl(self, decl);
    }

    /// Visits a function of any kind, with the generic parameters of its declaration.
    fn function(&mut self, func: &'a Function, type_params: &'a [TypeParam]) {
        let _ = type_params;
        walk_function(self, func);
    }

    /// Visits the pattern and the body of a `for` loop, after the iterated expression.
    fn for_body(&mut self, pattern: &'a Pattern, body: &'a Block) {
        self.pattern(pattern);
        self.block(body);
    }

    /// Visits a binding pattern: only its defaults are evaluated.
    fn pattern(&mut self, pattern: &'a Pattern) {
        match &pattern.kind {
            PatternKind::Dict { fields, .. } => {
                fields
                    .iter()
                    .filter_map(|field| field.default.as_ref())
                    .for_each(|default| self.expr(default));
            }
            PatternKind::List { elems, .. } => {
                elems.iter().filter_map(|elem| elem.default.as_ref()).for_each(|default| self.expr(default));
            }
            PatternKind::Name(_) | PatternKind::Pair(..) => {}
        }
    }

    /// Visits a `match` pattern: the values in it are evaluated.
    fn match_pattern(&mut self, pattern: &'a MatchPattern) {
        walk_match_pattern(self, pattern);
    }

    /// Visits an arm of a `match`.
    fn match_arm(&mut self, arm: &'a MatchArm) {
        walk_match_arm(self, arm);
    }

    /// Visits an error handler.
    fn catch(&mut self, catch: &'a Catch) {
        self.block(&catch.body);
    }

    /// Visits a case of a `select`, after its channel.
    fn select_case(&mut self, case: &'a SelectCase) {
        self.block(&case.body);
    }

    /// Visits the statements of an `eval_pack`, which can access its fields.
    fn eval_pack_body(&mut self, pack: &'a EvalPackDecl) {
        self.stmts(&pack.stmts);
        pack.summarize.iter().for_each(|block| self.block(block));
    }
}

/// Walks the children of a statement.
pub fn walk_stmt<'a>(v: &mut impl Visitor<'a>, stmt: &'a Stmt) {
    match &stmt.kind {
        StmtKind::Let { pattern, value, .. } => {
            v.expr(value);
            v.pattern(pattern);
        }
        StmtKind::Assign { target, value, .. } => {
            for step in &target.path {
                if let TargetStep::Index { index, .. } = step {
                    v.expr(index);
                }
            }
            v.expr(value);
        }
        StmtKind::For { pattern, iter, body } => {
            v.expr(iter);
            v.for_body(pattern, body);
        }
        StmtKind::While { cond, body } | StmtKind::Guard { cond, body } => {
            v.expr(cond);
            v.block(body);
        }
        StmtKind::Require { cond, message } => {
            v.expr(cond);
            message.iter().for_each(|message| v.expr(message));
        }
        StmtKind::Return(value) | StmtKind::Yield(value) => value.iter().for_each(|value| v.expr(value)),
        StmtKind::Throw(value) | StmtKind::Emit(value) | StmtKind::Expr(value) => v.expr(value),
        StmtKind::Defer(block) | StmtKind::Mutex(block) => v.block(block),
        StmtKind::Override { func, .. } => v.function(func, &[]),
        StmtKind::Decl(decl) => v.decl(decl),
        StmtKind::Import(_) | StmtKind::Break | StmtKind::Continue => {}
    }
}

/// Walks the children of a declaration.
pub fn walk_decl<'a>(v: &mut impl Visitor<'a>, decl: &'a Decl) {
    match &decl.kind {
        DeclKind::Fn(d) => v.function(&d.func, &d.type_params),
        DeclKind::Pipeline(d) => v.function(&d.func, &[]),
        DeclKind::Tool(d) => {
            d.fields.iter().for_each(|field| v.expr(&field.value));
            v.function(&d.func, &[]);
        }
        DeclKind::Skill(d) => d.fields.iter().for_each(|field| v.expr(&field.value)),
        DeclKind::EvalPack(d) => {
            d.fields.iter().for_each(|field| v.expr(&field.value));
            v.eval_pack_body(d);
        }
        DeclKind::Impl(d) => {
            d.methods.iter().for_each(|method| v.function(&method.decl.func, &method.decl.type_params));
        }
        DeclKind::Interface(d) => {
            let defaults =
                d.methods.iter().flat_map(|m| &m.params).filter_map(|param| param.default.as_ref());
            defaults.for_each(|default| v.expr(default));
        }
        DeclKind::Enum(_) | DeclKind::Struct(_) | DeclKind::Type(_) => {}
    }
}

/// Walks the defaults of the parameters and the body.
pub fn walk_function<'a>(v: &mut impl Visitor<'a>, func: &'a Function) {
    func.params.iter().filter_map(|param| param.default.as_ref()).for_each(|default| v.expr(default));
    v.block(&func.body);
}

/// Walks patterns, guard and body.
pub fn walk_match_arm<'a>(v: &mut impl Visitor<'a>, arm: &'a MatchArm) {
    arm.patterns.iter().for_each(|pattern| v.match_pattern(pattern));
    arm.guard.iter().for_each(|guard| v.expr(guard));
    v.block(&arm.body);
}

/// Walks the values in a pattern.
pub fn walk_match_pattern<'a>(v: &mut impl Visitor<'a>, pattern: &'a MatchPattern) {
    match &pattern.kind {
        MatchPatternKind::Value(value) => v.expr(value),
        MatchPatternKind::Dict { entries, .. } => {
            entries.iter().for_each(|(_, pattern)| v.match_pattern(pattern));
        }
        MatchPatternKind::List { items, .. } => items.iter().for_each(|item| v.match_pattern(item)),
        MatchPatternKind::Variant { fields, .. } => {
            fields.iter().flatten().for_each(|field| v.match_pattern(field));
        }
        MatchPatternKind::Wildcard | MatchPatternKind::Bind(_) => {}
    }
}

/// Walks the entries of a dict or struct literal.
fn walk_items<'a>(v: &mut impl Visitor<'a>, items: &'a [DictItem]) {
    for item in items {
        match item {
            DictItem::Entry { value, .. } | DictItem::Spread(value) => v.expr(value),
            DictItem::Computed { key, value } => {
                v.expr(key);
                v.expr(value);
            }
        }
    }
}

/// Walks the children of an expression.
pub fn walk_expr<'a>(v: &mut impl Visitor<'a>, expr: &'a Expr) {
    match &expr.kind {
        ExprKind::Nil
        | ExprKind::Bool(_)
        | ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Duration(_)
        | ExprKind::Str(_)
        | ExprKind::Name(_)
        | ExprKind::Error => {}
        ExprKind::Interp(parts) => {
            for part in parts {
                if let StrPart::Expr(inner) = part {
                    v.expr(inner);
                }
            }
        }
        ExprKind::List(args) => args.iter().for_each(|arg| v.expr(&arg.value)),
        ExprKind::Dict(items) | ExprKind::StructLit { items, .. } => walk_items(v, items),
        ExprKind::Closure { func, .. } | ExprKind::Spawn(func) => v.function(func, &[]),
        ExprKind::If { arms, else_body } => {
            for arm in arms {
                v.expr(&arm.cond);
                v.block(&arm.body);
            }
            else_body.iter().for_each(|body| v.block(body));
        }
        ExprKind::Match { value, arms } => {
            v.expr(value);
            arms.iter().for_each(|arm| v.match_arm(arm));
        }
        ExprKind::Try { body, catch, finally } => {
            v.block(body);
            catch.iter().for_each(|catch| v.catch(catch));
            finally.iter().for_each(|finally| v.block(finally));
        }
        ExprKind::Retry { count: head, body } | ExprKind::Deadline { limit: head, body } => {
            v.expr(head);
            v.block(body);
        }
        ExprKind::Parallel(parallel) => {
            v.expr(&parallel.source);
            parallel.max_concurrent.iter().for_each(|max| v.expr(max));
            v.function(&parallel.func, &[]);
        }
        ExprKind::Select(select) => {
            for case in &select.cases {
                v.expr(&case.channel);
                v.select_case(case);
            }
            if let Some((limit, body)) = &select.timeout {
                v.expr(limit);
                v.block(body);
            }
            select.default.iter().for_each(|body| v.block(body));
        }
        ExprKind::Paren(inner)
        | ExprKind::TryStar(inner)
        | ExprKind::Unary { operand: inner, .. }
        | ExprKind::Propagate { operand: inner, .. } => v.expr(inner),
        ExprKind::Binary { lhs: a, rhs: b, .. }
        | ExprKind::Logic { lhs: a, rhs: b, .. }
        | ExprKind::Range { start: a, end: b, .. }
        | ExprKind::Pipe { value: a, func: b, .. }
        | ExprKind::Index { object: a, index: b, .. } => {
            v.expr(a);
            v.expr(b);
        }
        ExprKind::Ternary { cond, then, other } => {
            v.expr(cond);
            v.expr(then);
            v.expr(other);
        }
        ExprKind::Call { callee, args, .. } => {
            v.expr(callee);
            args.iter().for_each(|arg| v.expr(&arg.value));
        }
        ExprKind::MethodCall { object, args, .. } => {
            v.expr(object);
            args.iter().for_each(|arg| v.expr(&arg.value));
        }
        ExprKind::Member { object, .. } => v.expr(object),
        ExprKind::Slice { object, start, end, .. } => {
            v.expr(object);
            start.iter().for_each(|start| v.expr(start));
            end.iter().for_each(|end| v.expr(end));
        }
    }
}
