//! Facts that the compiler collects about a function before it emits code: which names nested functions
//! mention and which names are assigned. Both are sets of names, not of bindings: if a name occurs twice,
//! the stricter treatment applies to both. This may cost a cell but is always correct.

use harn_syntax::ast::*;
use harn_syntax::visit::{self, Visitor};
use rustc_hash::{FxHashMap, FxHashSet};

/// Facts about one function.
#[derive(Default)]
pub(super) struct Facts {
    /// Names mentioned anywhere in it, including nested functions.
    pub(super) mentioned: FxHashSet<Name>,
    /// Names mentioned in nested functions, with the start of the first such function.
    pub(super) nested: FxHashMap<Name, u32>,
    /// Names assigned anywhere in it, including nested functions.
    pub(super) assigned: FxHashSet<Name>,
    /// Names to whose fields or items something is assigned, nested functions included.
    pub(super) parts_assigned: FxHashSet<Name>,
    /// Whether it has blocks that run on every exit (`finally`, `defer`, `mutex`, `deadline`).
    cleanup: bool,
    /// Whether it takes locks, including nested functions: its permits hold them until it returns.
    pub(super) takes_locks: bool,
}

/// Facts of all functions of a file, by the address of their syntax node.
#[derive(Default)]
pub(super) struct FactsTable {
    table: FxHashMap<*const Function, Facts>,
    /// Facts of the file's top level.
    pub(super) top: Facts,
    /// Whether dropping a value may have visible effects: some function has `yield` and cleanup blocks
    /// (see [`crate::cleanup`]), or takes locks, which are released when their permits are dropped.
    pub(super) settles: bool,
    /// Names that are mentioned other than to call them.
    pub(super) values: FxHashSet<Name>,
}

impl FactsTable {
    pub(super) fn collect(program: &Program) -> FactsTable {
        let mut walk = Walk::new();
        walk.stmts(&program.items);
        let top = walk.stack.pop().unwrap_or_default();
        FactsTable { table: walk.table, settles: walk.settles || top.takes_locks, top, values: walk.values }
    }

    pub(super) fn of(&self, func: &Function) -> &Facts {
        self.table.get(&(&raw const *func)).unwrap_or(&self.top)
    }
}

struct Walk {
    table: FxHashMap<*const Function, Facts>,
    stack: Vec<Facts>,
    settles: bool,
    values: FxHashSet<Name>,
    /// The name that the call being walked calls.
    callee: *const Expr,
}

impl Walk {
    fn new() -> Walk {
        Walk {
            table: FxHashMap::default(),
            stack: vec![Facts::default()],
            settles: false,
            values: FxHashSet::default(),
            callee: std::ptr::null(),
        }
    }

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
}

impl<'a> Visitor<'a> for Walk {
    fn function(&mut self, func: &'a Function, _type_params: &'a [TypeParam]) {
        self.stack.push(Facts::default());
        visit::walk_function(self, func);
        let facts = self.stack.pop().unwrap_or_default();
        self.settles |= facts.cleanup && (func.has_yield || func.is_gen);
        self.top().takes_locks |= facts.takes_locks;
        let start = func.span.start;
        let outer = self.top();
        for name in &facts.mentioned {
            // A parameter's name refers to the parameter, not to an outer variable.
            if func.params.iter().any(|p| p.name.name == *name) {
                continue;
            }
            let first = outer.nested.entry(name.clone()).or_insert(start);
            *first = start.min(*first);
            outer.mentioned.insert(name.clone());
        }
        outer.assigned.extend(facts.assigned.iter().cloned());
        outer.parts_assigned.extend(facts.parts_assigned.iter().cloned());
        self.table.insert(&raw const *func, facts);
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Assign { target, .. } => {
                self.assign(&target.root.name);
                if !target.path.is_empty() {
                    self.top().parts_assigned.insert(target.root.name.clone());
                }
            }
            StmtKind::Override { name, .. } => self.mention(&name.name),
            StmtKind::Defer(_) | StmtKind::Mutex(_) => self.top().cleanup = true,
            _ => {}
        }
        visit::walk_stmt(self, stmt);
    }

    fn decl(&mut self, decl: &'a Decl) {
        if let DeclKind::Pipeline(pipeline) = &decl.kind {
            pipeline.extends.iter().for_each(|base| self.mention(&base.name));
        }
        visit::walk_decl(self, decl);
    }

    fn expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Name(name) => {
                self.top().takes_locks |= crate::sync::gives_permits(name);
                self.mention(name);
                if !std::ptr::eq(self.callee, expr) && !self.values.contains(name) {
                    self.values.insert(name.clone());
                }
            }
            ExprKind::Call { callee, .. } => self.callee = &raw const **callee,
            ExprKind::StructLit { name, .. } => self.mention(&name.name),
            ExprKind::Try { finally: Some(_), .. } | ExprKind::Deadline { .. } => self.top().cleanup = true,
            _ => {}
        }
        visit::walk_expr(self, expr);
    }

    fn match_pattern(&mut self, pattern: &'a MatchPattern) {
        match &pattern.kind {
            MatchPatternKind::Variant { enum_name, .. } => self.mention(&enum_name.name),
            // A name in an or-pattern may be a variable that is read.
            MatchPatternKind::Bind(name) => self.mention(&name.name),
            _ => {}
        }
        visit::walk_match_pattern(self, pattern);
    }
}

/// Returns whether `expr` mentions `name` (including nested functions).
pub(super) fn mentions(expr: &Expr, name: &Name) -> bool {
    let mut walk = Walk::new();
    walk.expr(expr);
    walk.top().mentioned.contains(name)
}

/// Returns the names that a block mentions (including nested functions).
pub(super) fn mentioned_in(block: &Block) -> FxHashSet<Name> {
    let mut walk = Walk::new();
    walk.block(block);
    std::mem::take(&mut walk.top().mentioned)
}

impl FactsTable {
    /// Adds the facts of a function of another file.
    pub(super) fn add(&mut self, func: &Function) {
        if self.table.contains_key(&(&raw const *func)) {
            return;
        }
        let mut walk = Walk::new();
        walk.function(func, &[]);
        self.table.extend(walk.table);
    }
}
