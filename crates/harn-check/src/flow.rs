//! Narrowing of types by conditions and assignments: `if x != nil { ... }` narrows the declared type of `x`. A fact
//! holds until the end of the block, branch or function in which it was learned.

use harn_syntax::ast::*;
use harn_syntax::visit::{self, Visitor};
use rustc_hash::FxHashSet;

use crate::checks::unreachable::block_exits;
use crate::checks::{annotation, exhaustive};
use crate::facts::{End, Fact, KINDS, Mark, Place};
use crate::pass::Pass;
use crate::scope::{Kind, Lookup};
use crate::types::{Field, Ty, members, only, union_tag, without};

/// How many names stand for one another at most.
const FOLLOWED: usize = 8;

impl<'a> Pass<'a> {
    /// Returns the value that a name stands for, if it is a variable that is never assigned; any other expression itself.
    pub(crate) fn written(&self, expr: &'a Expr) -> &'a Expr {
        let mut value = expr;
        for _ in 0..FOLLOWED {
            let held = match &value.kind {
                ExprKind::Paren(inner) => Some(&**inner),
                ExprKind::Name(name)
                    if matches!(self.scopes.look_up(name, value.span.start), Lookup::Is(Kind::Let)) =>
                {
                    self.scopes.definition(name).and_then(|def| self.held_values.get(&def).copied())
                }
                _ => None,
            };
            match held {
                Some(held) => value = held,
                None => break,
            }
        }
        value
    }

    /// Returns the place of a name, or of a path of fields from a name.
    pub(crate) fn place(&self, expr: &Expr) -> Option<Place> {
        match &expr.kind {
            ExprKind::Paren(inner) => self.place(inner),
            ExprKind::Name(name) => {
                let kind = self.scopes.look_up(name, expr.span.start);
                let is_variable = matches!(kind, Lookup::Is(Kind::Let | Kind::Other));
                if !is_variable || self.typing.declared.is_assigned_from_within(name) {
                    return None;
                }
                Some(Place { def: self.scopes.definition(name)?, path: String::new() })
            }
            ExprKind::Member { object, name, optional: false } => {
                let mut place = self.place(object)?;
                place.path.push('.');
                place.path.push_str(&name.name);
                Some(place)
            }
            ExprKind::Index { object, index, optional: false, .. } => {
                let mut place = self.place(object)?;
                match &index.kind {
                    ExprKind::Str(key) => {
                        place.path.push('.');
                        place.path.push_str(key);
                    }
                    ExprKind::Int(at) => place.path.push_str(&format!("[{at}]")),
                    _ => return None,
                }
                Some(place)
            }
            _ => None,
        }
    }

    /// Returns the narrowed type of a place.
    pub(crate) fn fact(&self, expr: &Expr) -> Option<Ty> {
        if self.flow.facts.is_empty() {
            return None;
        }
        Some(self.flow.facts.get(&self.place(expr)?)?.ty.clone())
    }

    fn learn(&mut self, expr: &'a Expr, ty: Ty) {
        if let Some(place) = self.place(expr) {
            self.flow.set(place, Some(Fact { ty, ruled_out: 0 }));
        }
    }

    /// Returns the current type of a place: narrowed, or declared. It is not cached.
    pub(crate) fn now(&mut self, expr: &'a Expr) -> Ty {
        let ty = self.infer_anew(expr);
        if let ExprKind::Paren(inner) = &expr.kind { self.now(inner) } else { ty }
    }

    /// Records what holds if a condition is true, or if it is false.
    pub(crate) fn assume(&mut self, cond: &'a Expr, truth: bool) {
        match &cond.kind {
            ExprKind::Paren(inner) => self.assume(inner, truth),
            ExprKind::Unary { op: UnaryOp::Not, operand, .. } => self.assume(operand, !truth),
            ExprKind::Logic { op: LogicOp::And, lhs, rhs, .. } if truth => {
                self.assume(lhs, true);
                self.assume(rhs, true);
            }
            ExprKind::Logic { op: LogicOp::Or, lhs, rhs, .. } if !truth => {
                self.assume(lhs, false);
                self.assume(rhs, false);
            }
            ExprKind::Binary { op: BinaryOp::Eq, lhs, rhs, .. } => self.assume_equal(lhs, rhs, truth),
            ExprKind::Binary { op: BinaryOp::Ne, lhs, rhs, .. } => self.assume_equal(lhs, rhs, !truth),
            ExprKind::Name(_) | ExprKind::Member { .. } if truth && self.place(cond).is_some() => {
                let now = self.now(cond);
                if members(&now).len() > 1 {
                    self.learn(cond, without(&now, |member| *member == Ty::Nil));
                }
            }
            ExprKind::MethodCall { object, name, args, .. } if truth && name.name == "has" => {
                if let [Arg { value: Expr { kind: ExprKind::Str(key), .. }, .. }] = args.as_slice() {
                    self.assume_field(object, key);
                }
            }
            ExprKind::Call { callee, args, .. } => {
                let name = callee.as_name().map_or("", |name| name.as_str());
                if let ([value, schema], "schema_is" | "is_type") = (args.as_slice(), name)
                    && let Some(wanted) = self.schema_type(&schema.value)
                {
                    self.assume_schema(&value.value, &wanted, truth);
                }
            }
            _ => {}
        }
    }

    fn assume_equal(&mut self, lhs: &'a Expr, rhs: &'a Expr, truth: bool) {
        let is_literal =
            |expr: &Expr| matches!(expr.kind, ExprKind::Nil | ExprKind::Str(_) | ExprKind::Int(_));
        let (value, literal) = if is_literal(lhs) { (rhs, lhs) } else { (lhs, rhs) };
        match (&value.kind, &literal.kind) {
            (_, ExprKind::Nil) => self.assume_nil(value, truth),
            (ExprKind::Call { callee, args, .. }, ExprKind::Str(word)) => {
                if let ([arg], Some("type_of")) = (args.as_slice(), callee.as_name().map(|n| n.as_str())) {
                    self.assume_kind(&arg.value, word, truth);
                }
            }
            (ExprKind::Member { object, name, .. }, ExprKind::Str(_) | ExprKind::Int(_)) => {
                self.assume_tag(object, name, literal, truth);
            }
            _ => {}
        }
    }

    fn assume_nil(&mut self, value: &'a Expr, truth: bool) {
        if self.place(value).is_none() {
            return;
        }
        let now = self.now(value);
        match (truth, now) {
            (true, _) => self.learn(value, Ty::Nil),
            (false, Ty::Any | Ty::Unknown) => {}
            (false, now) => self.learn(value, without(&now, |member| *member == Ty::Nil)),
        }
    }

    /// `type_of(value) == word`.
    fn assume_kind(&mut self, value: &'a Expr, word: &str, truth: bool) {
        let Some(at) = KINDS.iter().position(|kind| *kind == word) else { return };
        let Some(place) = self.place(value) else { return };
        let now = self.now(value);
        let plain = || if word == "nil" { Ty::Nil } else { Ty::named(word) };
        let is_kind = |member: &Ty| match member {
            Ty::Fn(..) => word == "closure",
            other => other.word().or(other.plain()) == Some(word),
        };
        match (&now, truth) {
            (Ty::Unknown, true) | (Ty::Any, true) => self.learn(value, plain()),
            (Ty::Unknown, false) => {
                let before = self.flow.facts.get(&place).map_or(0, |fact| fact.ruled_out);
                self.flow.set(place, Some(Fact { ty: Ty::Unknown, ruled_out: before | (1 << at) }));
            }
            (Ty::Any, false) => {}
            // Types of unknown kind remain: an interface, an unknown type.
            (_, true) => {
                let kept = only(&now, |member| is_kind(member) || opaque(member));
                self.learn(value, if kept == Ty::Never && members(&now).len() == 1 { plain() } else { kept });
            }
            (_, false) => self.learn(value, without(&now, is_kind)),
        }
    }

    /// `object.name == literal` for a union of shapes that the field tells apart.
    fn assume_tag(&mut self, object: &'a Expr, name: &Ident, literal: &Expr, truth: bool) {
        if self.place(object).is_none() {
            return;
        }
        let now = self.now(object);
        if union_tag(&now) == Some(&name.name) {
            self.learn(object, only(&now, |member| tagged(member, &name.name, literal) == truth));
        }
    }

    /// `object.has("key")`.
    fn assume_field(&mut self, object: &'a Expr, key: &Name) {
        if self.place(object).is_none() {
            return;
        }
        if let Ty::Shape(mut fields) = self.now(object)
            && let Some(field) = fields.iter_mut().find(|field| field.name == *key)
        {
            field.optional = false;
            self.learn(object, Ty::Shape(fields));
        }
    }

    fn assume_schema(&mut self, value: &'a Expr, wanted: &Ty, truth: bool) {
        if self.place(value).is_none() {
            return;
        }
        let now = self.now(value);
        match (&now, truth) {
            (Ty::Any | Ty::Unknown, true) => self.learn(value, wanted.clone()),
            (Ty::Any | Ty::Unknown, false) => {}
            (_, true) => {
                let kept = only(&now, |member| self.typing.fits(wanted, member));
                self.learn(value, if kept == Ty::Never { wanted.clone() } else { kept });
            }
            (_, false) => {
                // A list or dict with a matching type may still fail the schema.
                let certain = |member: &Ty| {
                    !matches!(member, Ty::Named(..)) || matches!(wanted, Ty::Named(..) | Ty::Union(_))
                };
                let left = without(&now, |member| certain(member) && self.typing.fits(wanted, member));
                self.learn(value, if left == Ty::Never { now } else { left });
            }
        }
    }

    /// Records an assignment to a variable, which has this type from now on.
    pub(crate) fn assigned_type(&mut self, name: &'a Ident, ty: Option<Ty>) {
        let Some(def) = self.scopes.definition(&name.name) else { return };
        self.flow.touched.push(def);
        self.flow.forget(|place| place.def == def);
        if let Some(ty) = ty.filter(|ty| !matches!(ty, Ty::Any | Ty::Unknown | Ty::Never))
            && !self.typing.declared.is_assigned_from_within(&name.name)
        {
            self.flow.set(Place { def, path: String::new() }, Some(Fact { ty, ruled_out: 0 }));
        }
    }

    /// Discards the facts that an iteration of a loop may change.
    pub(crate) fn forget_assigned_in(&mut self, body: &'a Block) {
        if self.flow.facts.is_empty() {
            return;
        }
        struct Assigned<'a>(FxHashSet<&'a str>);
        impl<'a> Visitor<'a> for Assigned<'a> {
            fn stmt(&mut self, stmt: &'a Stmt) {
                if let StmtKind::Assign { target, .. } = &stmt.kind {
                    self.0.insert(&target.root.name);
                }
                visit::walk_stmt(self, stmt);
            }
        }
        let mut assigned = Assigned(FxHashSet::default());
        assigned.block(body);
        let defs: FxHashSet<u32> =
            assigned.0.into_iter().filter_map(|name| self.scopes.definition(name)).collect();
        self.flow.forget(|place| defs.contains(&place.def));
    }

    /// Discards the facts that do not hold in a function that runs later.
    pub(crate) fn enter_function(&mut self) -> Mark {
        let mark = self.flow.mark();
        if !self.flow.facts.is_empty() {
            let gone: Vec<Place> = self.flow.facts.keys().cloned().collect();
            let scopes = &self.scopes;
            let declared = self.typing.declared;
            let changes: FxHashSet<u32> = scopes
                .variables()
                .into_iter()
                .filter(|name| declared.is_assigned(name))
                .filter_map(|name| scopes.definition(name))
                .collect();
            for place in gone.into_iter().filter(|place| changes.contains(&place.def)) {
                self.flow.set(place, None);
            }
        }
        mark
    }

    /// Walks an `if` chain: each branch under its conditions.
    pub(crate) fn if_chain(&mut self, arms: &'a [IfArm], else_body: Option<&'a Block>) {
        let start = self.flow.mark();
        let mut ends = Vec::new();
        for arm in arms {
            self.expr(&arm.cond);
            let mark = self.flow.mark();
            self.assume(&arm.cond, true);
            self.way(start, &arm.body, &mut ends);
            self.flow.go_back(mark);
            self.assume(&arm.cond, false);
        }
        match else_body {
            Some(body) => self.way(start, body, &mut ends),
            None => ends.push(self.flow.end_since(start)),
        }
        self.join(start, &ends);
    }

    /// Walks the arms of a `match`. A value without a matching arm throws, so one of them matches.
    pub(crate) fn match_arms(&mut self, value: &'a Expr, arms: &'a [MatchArm]) {
        let start = self.flow.mark();
        let mut ends = Vec::new();
        for arm in arms {
            let mark = self.flow.mark();
            self.scoped(|pass| {
                arm.patterns.iter().for_each(|pattern| pass.scopes.bind_match_pattern(pattern));
                arm.patterns.iter().for_each(|pattern| pass.match_pattern(pattern));
                exhaustive::payload(pass, value, &arm.patterns);
                pass.assume_arm(value, &arm.patterns);
                if let Some(guard) = &arm.guard {
                    pass.expr(guard);
                    pass.assume(guard, true);
                }
                pass.way(start, &arm.body, &mut ends);
            });
            self.flow.go_back(mark);
            if arm.guard.is_none() {
                self.assume_not_arm(value, &arm.patterns);
            }
        }
        self.join(start, &ends);
    }

    /// Walks a `while` loop. After it, the condition is false, or a `break` was executed.
    pub(crate) fn while_loop(&mut self, cond: &'a Expr, body: &'a Block) {
        self.forget_assigned_in(body);
        let start = self.flow.mark();
        self.expr(cond);
        let mark = self.flow.mark();
        self.assume(cond, true);
        self.loops.push((start, Vec::new()));
        self.branch(body);
        let mut ends = self.loops.pop().map_or_else(Vec::new, |(_, ends)| ends);
        self.flow.go_back(mark);
        if !matches!(cond.kind, ExprKind::Bool(true)) {
            self.assume(cond, false);
            ends.push(self.flow.end_since(start));
        }
        self.join(start, &ends);
    }

    /// Records a `break`.
    pub(crate) fn breaks(&mut self) {
        if let Some((start, ends)) = self.loops.last_mut() {
            ends.push(self.flow.end_since(*start));
        }
    }

    /// Walks `try`: its handler may start at any point of the body, and `finally` follows both.
    pub(crate) fn attempt(&mut self, body: &'a Block, catch: Option<&'a Catch>, finally: Option<&'a Block>) {
        let start = self.flow.mark();
        let mut ends = Vec::new();
        self.way(start, body, &mut ends);
        self.flow.rewind(start);
        match catch {
            Some(catch) => self.scoped(|pass| {
                catch.name.iter().for_each(|name| pass.scopes.bind(name, Kind::Other));
                annotation::caught(pass, catch);
                pass.way(start, &catch.body, &mut ends);
            }),
            None => ends.push(self.flow.end_since(start)),
        }
        let Some(finally) = finally else { return self.join(start, &ends) };
        self.flow.rewind(start);
        let mark = self.flow.mark();
        self.branch(finally);
        let (last, touched) = (self.flow.end_since(mark), self.flow.touched_since(mark));
        self.join(start, &ends);
        for (place, fact) in last.0.into_iter().filter(|(place, _)| touched.contains(&place.def)) {
            self.flow.set(place, fact);
        }
    }

    /// Walks a `select`: one of its cases is executed.
    pub(crate) fn select(&mut self, select: &'a Select) {
        let start = self.flow.mark();
        let mut ends = Vec::new();
        for case in &select.cases {
            self.expr(&case.channel);
            self.scoped(|pass| {
                pass.scopes.bind(&case.name, Kind::Other);
                pass.way(start, &case.body, &mut ends);
            });
            self.flow.go_back(start);
        }
        if let Some((limit, body)) = &select.timeout {
            self.expr(limit);
            self.way(start, body, &mut ends);
            self.flow.go_back(start);
        }
        if let Some(body) = &select.default {
            self.way(start, body, &mut ends);
        }
        self.join(start, &ends);
    }

    /// Walks one branch that starts at a mark; its end is recorded if it can be reached.
    fn way(&mut self, start: Mark, body: &'a Block, ends: &mut Vec<End>) {
        self.branch(body);
        if !self.leaves(body) {
            ends.push(self.flow.end_since(start));
        }
    }

    /// Merges the facts of branches: the type of each place is a union of the types at their ends.
    fn join(&mut self, start: Mark, ends: &[End]) {
        self.flow.go_back(start);
        let touched: FxHashSet<u32> = self.flow.touched_since(start).into_iter().collect();
        let assigned = touched.iter().map(|&def| Place { def, path: String::new() });
        let changed = ends.iter().flat_map(|end| end.0.keys().cloned());
        let places: FxHashSet<Place> = assigned.chain(changed).collect();
        for place in places {
            let is_assigned = place.path.is_empty() && touched.contains(&place.def);
            let mut joined: Option<Fact> = None;
            for end in ends {
                let known =
                    end.0.get(&place).cloned().unwrap_or_else(|| self.flow.facts.get(&place).cloned());
                let declared =
                    || self.known.get(&place.def).map(|known| Fact { ty: known.ty.clone(), ruled_out: 0 });
                let known = known.or_else(|| if is_assigned { declared() } else { None });
                joined = match (known, joined) {
                    (Some(known), None) => Some(known),
                    (Some(known), Some(before)) => Some(Fact {
                        ty: Ty::union(vec![before.ty, known.ty]),
                        ruled_out: before.ruled_out & known.ruled_out,
                    }),
                    (None, _) => Some(Fact { ty: Ty::Any, ruled_out: 0 }),
                };
                if joined.as_ref().is_some_and(|fact| fact.ty == Ty::Any) {
                    break;
                }
            }
            self.flow.set(place, joined.filter(|fact| fact.ty != Ty::Any));
        }
    }

    /// Returns whether the end of a walked block is unreachable.
    fn leaves(&self, block: &Block) -> bool {
        block_exits(block) || self.block_type(block) == Ty::Never
    }

    /// Narrows the value of a `match` in an arm.
    pub(crate) fn assume_arm(&mut self, value: &'a Expr, patterns: &'a [MatchPattern]) {
        let literals: Option<Vec<&'a Expr>> = patterns
            .iter()
            .map(|pattern| match &pattern.kind {
                MatchPatternKind::Value(literal) if is_literal(literal) => Some(literal),
                _ => None,
            })
            .collect();
        let Some(literals) = literals else { return };
        if let ExprKind::Member { object, name, .. } = &value.kind
            && self.place(object).is_some()
        {
            let now = self.now(object);
            if union_tag(&now) == Some(&name.name) {
                let matches = |member: &Ty| literals.iter().any(|l| tagged(member, &name.name, l));
                self.learn(object, only(&now, matches));
                return;
            }
        }
        if self.place(value).is_none() {
            return;
        }
        let now = self.now(value);
        if members(&now).len() < 2 {
            return;
        }
        let takes = |member: &Ty, literal: &Expr| match (member, &literal.kind) {
            (Ty::Str(a), ExprKind::Str(b)) => a == b,
            (Ty::Int(a), ExprKind::Int(b)) => a == b,
            (Ty::Nil, ExprKind::Nil) => true,
            (Ty::Named(name, _), ExprKind::Str(_)) => name == "string",
            (Ty::Named(name, _), ExprKind::Bool(_)) => name == "bool",
            (Ty::Named(name, _), ExprKind::Int(_) | ExprKind::Float(_)) => {
                matches!(name.as_str(), "int" | "float")
            }
            (member, _) => opaque(member),
        };
        let kept = only(&now, |member| literals.iter().any(|literal| takes(member, literal)));
        if kept != Ty::Never {
            self.learn(value, kept);
        }
    }

    /// Narrows the value of a `match` after an arm: it is none of the arm's literals.
    fn assume_not_arm(&mut self, value: &'a Expr, patterns: &'a [MatchPattern]) {
        let literals = patterns.iter().filter_map(|pattern| match &pattern.kind {
            MatchPatternKind::Value(literal) if is_literal(literal) => Some(literal),
            _ => None,
        });
        for literal in literals {
            match (&value.kind, &literal.kind) {
                (_, ExprKind::Nil) => self.assume_nil(value, false),
                (ExprKind::Member { object, name, .. }, ExprKind::Str(_) | ExprKind::Int(_)) => {
                    self.assume_tag(object, name, literal, false);
                }
                (_, ExprKind::Str(_) | ExprKind::Int(_)) if self.place(value).is_some() => {
                    let is_literal = |member: &Ty| match (member, &literal.kind) {
                        (Ty::Str(a), ExprKind::Str(b)) => a == b,
                        (Ty::Int(a), ExprKind::Int(b)) => a == b,
                        _ => false,
                    };
                    let now = self.now(value);
                    let left = without(&now, is_literal);
                    if members(&now).len() > 1 && left != now {
                        self.learn(value, left);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Whether a shape has this literal in this field.
fn tagged(member: &Ty, name: &Name, literal: &Expr) -> bool {
    let Ty::Shape(fields) = member else { return true };
    let tag = fields.iter().find(|field: &&Field| field.name == *name).map(|field| &field.ty);
    match (tag, &literal.kind) {
        (Some(Ty::Str(tag)), ExprKind::Str(text)) => tag == text,
        (Some(Ty::Int(tag)), ExprKind::Int(number)) => tag == number,
        _ => true,
    }
}

/// Returns whether a value of the type may have any kind.
fn opaque(ty: &Ty) -> bool {
    matches!(ty, Ty::Any | Ty::Unknown | Ty::Var(_) | Ty::Interface(..))
}

fn is_literal(expr: &Expr) -> bool {
    matches!(
        expr.kind,
        ExprKind::Nil | ExprKind::Bool(_) | ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Str(_)
    )
}
