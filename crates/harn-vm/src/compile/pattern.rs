//! Destructuring and `match`.

use harn_syntax::ast::*;
use harn_value::Value;

use super::Compiler;
use super::effects::Effects;
use super::scope::{Binding, Reg};
use super::stmt::Target;
use crate::bytecode::{FailKind, Op};

/// Names of a pattern's variables with their storage, in order.
pub(super) type Targets<'a> = Vec<(&'a Ident, Option<Target>)>;

impl<'a> Compiler<'a> {
    pub(super) fn pattern_names(pattern: &'a Pattern) -> Vec<&'a Ident> {
        match &pattern.kind {
            PatternKind::Name(name) => vec![name],
            PatternKind::Dict { fields, rest } => fields.iter().map(|f| &f.name).chain(rest).collect(),
            PatternKind::List { elems, rest } => elems.iter().map(|e| &e.name).chain(rest).collect(),
            PatternKind::Pair(a, b) => vec![a, b],
        }
    }

    /// Reserves storage for all names of a pattern; they become visible when [`Self::destructure`] stores
    /// them.
    pub(super) fn pattern_targets(&mut self, pattern: &'a Pattern, mutable: bool) -> Targets<'a> {
        let mut targets = Vec::new();
        for name in Self::pattern_names(pattern) {
            let discard = name.name == "_";
            let repeats = |(earlier, _): &(&Ident, _)| !mutable && !discard && earlier.name == name.name;
            if self.redeclares(name, mutable) || targets.iter().any(repeats) {
                self.fail_redeclared(name);
            }
            let target = (!discard).then(|| self.target_of(name, mutable));
            targets.push((name, target));
        }
        targets
    }

    fn store_item(
        &mut self,
        target: &(&'a Ident, Option<Target>),
        value: Reg,
        default: Option<&'a Expr>,
        mutable: bool,
    ) {
        if let Some(default) = default {
            let given = self.f().jump(Op::JumpIfNotNil, value, 0);
            self.expr(default, value);
            self.f().land(given);
        }
        if let (name, Some(place)) = target {
            self.store(name, *place, value, mutable);
        }
    }

    /// Destructures the value in `from`.
    pub(super) fn destructure(
        &mut self,
        pattern: &'a Pattern,
        from: Reg,
        targets: Targets<'a>,
        mutable: bool,
    ) {
        let mark = self.f().next;
        self.f().at(pattern.span);
        let item = self.f().temp();
        let mut places = targets.iter();
        match &pattern.kind {
            PatternKind::Name(_) => {
                self.f().emit(Op::Move, item, from, 0);
                if let Some(place) = places.next() {
                    self.store_item(place, item, None, mutable);
                }
            }
            PatternKind::Dict { fields, rest } => {
                self.f().emit(Op::ExpectDict, from, 0, 0);
                for (field, place) in fields.iter().zip(&mut places) {
                    self.f().at(field.key.span);
                    let k = self.text_constant(&field.key.name);
                    self.f().emit(Op::PatternField, item, from, k);
                    self.store_item(place, item, field.default.as_ref(), mutable);
                }
                if rest.is_some()
                    && let Some(place) = places.next()
                {
                    let keys = fields.iter().map(|f| Value::from(self.vm.intern(&f.key.name))).collect();
                    let k = self.f().constant(Value::list(keys));
                    self.f().emit(Op::RestDict, item, from, k);
                    self.store_item(place, item, None, mutable);
                }
            }
            PatternKind::List { elems, rest } => {
                self.f().emit(Op::ExpectList, from, 0, 0);
                for (i, (elem, place)) in elems.iter().zip(&mut places).enumerate() {
                    self.f().at(elem.name.span);
                    self.f().emit(Op::PatternItem, item, from, i as u32);
                    self.store_item(place, item, elem.default.as_ref(), mutable);
                }
                if rest.is_some()
                    && let Some(place) = places.next()
                {
                    self.f().emit(Op::RestList, item, from, elems.len() as u32);
                    self.store_item(place, item, None, mutable);
                }
            }
            PatternKind::Pair(..) => {
                let second = self.f().temp();
                self.f().emit(Op::SplitPair, item, from, 0);
                for reg in [item, second] {
                    if let Some(place) = places.next() {
                        self.store_item(place, reg, None, mutable);
                    }
                }
            }
        }
        self.f().next = mark;
    }

    // ---- match ----

    /// Compiles a `match`. With `tail`, every arm returns its value from the function.
    pub(super) fn match_expr(&mut self, value: &'a Expr, arms: &'a [MatchArm], dst: Option<Reg>, tail: bool) {
        let span = value.span;
        let operand = self.operand(value);
        let subject = self.settled(value, operand, || Effects::of_choice(arms));
        let mut done = Vec::new();
        for arm in arms {
            self.f().at(arm.span);
            self.f().open_scope();
            let mut fails = Vec::new();
            match &arm.patterns[..] {
                [only] => self.test_pattern(only, subject, false, &mut fails),
                alternatives => {
                    let mut hits = Vec::new();
                    for (i, pattern) in alternatives.iter().enumerate() {
                        let mut misses = Vec::new();
                        self.test_pattern(pattern, subject, true, &mut misses);
                        if i + 1 < alternatives.len() {
                            hits.push(self.f().jump(Op::Jump, 0, 0));
                            self.f().land_all(misses);
                        } else {
                            fails = misses;
                        }
                    }
                    self.f().land_all(hits);
                }
            }
            if let Some(guard) = &arm.guard {
                self.jump_unless(guard, &mut fails);
            }
            if tail {
                self.tail_block(&arm.body);
            } else {
                self.block(&arm.body, dst);
                done.push(self.f().jump(Op::Jump, 0, 0));
            }
            self.f().close_scope();
            self.f().land_all(fails);
        }
        self.f().at(span);
        self.fail(FailKind::Thrown, "No match arm matched the value");
        self.f().land_all(done);
    }

    fn bind_match(&mut self, name: &Ident, value: Reg) {
        if name.name == "_" {
            return;
        }
        // A variable bound by a match is immutable, so it shares the value's register unless it is captured.
        let cell = self.needs_cell(&name.name);
        if !cell && !self.f().is_variable(value) {
            self.f().declare(
                &name.name,
                Binding::Local { reg: value, mutable: false, cell: false },
                true,
                true,
            );
            return;
        }
        self.bind(name, false, value);
    }

    /// Falls through if the value in `from` matches; otherwise jumps to `fails`. Registers of bound parts stay
    /// reserved until the arm's scope closes.
    fn test_pattern(
        &mut self,
        pattern: &'a MatchPattern,
        from: Reg,
        alternative: bool,
        fails: &mut Vec<usize>,
    ) {
        self.f().at(pattern.span);
        match &pattern.kind {
            MatchPatternKind::Wildcard => {}
            MatchPatternKind::Bind(name) if alternative => {
                let t = self.f().temp();
                match self.resolve(&name.name) {
                    Some(binding) => self.load_binding(&name.name, &binding, t),
                    None => {
                        let text = format!("Undefined variable: {}{}", name.name, self.hint(&name.name));
                        self.fail(FailKind::Plain, &text);
                    }
                }
                fails.push(self.f().jump(Op::JumpNe, from, t));
            }
            MatchPatternKind::Bind(name) => self.bind_match(name, from),
            MatchPatternKind::Value(Expr { kind: ExprKind::Range { start, end, exclusive, .. }, .. }) => {
                let mark = self.f().next;
                let base = self.f().temp();
                let subject = self.f().temp();
                self.f().emit(Op::Move, subject, from, 0);
                for bound in [start, end] {
                    let t = self.f().temp();
                    self.expr(bound, t);
                }
                let open = self.f().temp();
                self.load_const(Value::bool(*exclusive), open);
                self.f().at(pattern.span);
                self.call_builtin("__in_range", base, 4, base);
                self.f().next = mark;
                fails.push(self.f().jump(Op::JumpIfNot, base, 0));
            }
            MatchPatternKind::Value(e) => {
                let literal = match &e.kind {
                    ExprKind::Int(i) => Some(self.f().constant(Value::int(*i))),
                    ExprKind::Str(text) => Some(self.text_constant(text)),
                    ExprKind::Bool(b) => Some(self.f().constant(Value::bool(*b))),
                    _ => None,
                };
                let jump = match literal.and_then(|k| u16::try_from(k).ok()) {
                    Some(k) => self.f().jump(Op::JumpNeK, from, k),
                    None => {
                        let mark = self.f().next;
                        let t = self.f().temp();
                        self.expr(e, t);
                        self.f().next = mark;
                        self.f().jump(Op::JumpNe, from, t)
                    }
                };
                fails.push(jump);
            }
            MatchPatternKind::Dict { entries, rest } => {
                fails.push(self.f().jump(Op::JumpNotDict, from, 0));
                for (key, sub) in entries {
                    let part = self.f().temp();
                    let k = self.text_constant(&key.name);
                    self.f().emit(Op::PatternField, part, from, k);
                    self.test_pattern(sub, part, alternative, fails);
                }
                if let Some(rest) = rest {
                    let keys =
                        entries.iter().map(|(key, _)| Value::from(self.vm.intern(&key.name))).collect();
                    let k = self.f().constant(Value::list(keys));
                    let part = self.f().temp();
                    self.f().emit(Op::RestDict, part, from, k);
                    self.bind_match(rest, part);
                }
            }
            MatchPatternKind::List { items, rest } => {
                fails.push(self.f().jump(Op::JumpNotList, from, items.len() as u16));
                for (i, sub) in items.iter().enumerate() {
                    let part = self.f().temp();
                    self.f().emit(Op::PatternItem, part, from, i as u32);
                    self.test_pattern(sub, part, alternative, fails);
                }
                if let Some(rest) = rest {
                    let part = self.f().temp();
                    self.f().emit(Op::RestList, part, from, items.len() as u32);
                    self.bind_match(rest, part);
                }
            }
            MatchPatternKind::Variant { enum_name, variant, fields } => {
                let Some(Binding::Enum(ty)) = self.resolve_type(&enum_name.name) else {
                    self.variant_of_value(enum_name, variant, fields.as_deref(), from, fails);
                    return;
                };
                let Some(index) = ty.variant(&variant.name) else {
                    self.f().at(variant.span);
                    let text = format!("enum {} has no variant '{}'", ty.name, variant.name);
                    self.fail(FailKind::Runtime, &text);
                    return;
                };
                let prototype = harn_value::EnumValue { ty, variant: index, fields: Default::default() };
                let k = self.f().constant(prototype.into());
                let jump = match u16::try_from(k) {
                    Ok(k) => self.f().jump(Op::JumpNotVariant, from, k),
                    Err(_) => {
                        let t = self.f().temp();
                        self.f().emit(Op::LoadK, t, 0, k);
                        self.f().jump(Op::JumpNotVariantOf, from, t)
                    }
                };
                fails.push(jump);
                for (i, sub) in fields.iter().flatten().enumerate() {
                    if matches!(sub.kind, MatchPatternKind::Wildcard) {
                        continue;
                    }
                    let part = self.f().temp();
                    self.f().emit(Op::EnumField, part, from, i as u32);
                    self.test_pattern(sub, part, alternative, fails);
                }
            }
        }
    }

    /// Compiles `name.field` where `name` is not an enum: compares with an ordinary value.
    fn variant_of_value(
        &mut self,
        object: &'a Ident,
        field: &'a Ident,
        payload: Option<&'a [MatchPattern]>,
        from: Reg,
        fails: &mut Vec<usize>,
    ) {
        let t = self.f().temp();
        match self.resolve(&object.name) {
            Some(binding) if payload.is_none() => {
                self.load_binding(&object.name, &binding, t);
                let k = self.text_constant(&field.name);
                self.f().emit(Op::GetField, t, t, k);
                fails.push(self.f().jump(Op::JumpNe, from, t));
            }
            _ => {
                self.f().at(object.span);
                let text = format!("Undefined variable: {}{}", object.name, self.hint(&object.name));
                self.fail(FailKind::Plain, &text);
            }
        }
    }
}
