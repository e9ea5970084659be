//! The proof that a fix keeps the meaning of a program. All fixes of rules pass it before `harn lint`, `harn check` or an
//! editor offers them; see [`withdraw_unproven`].
//!
//! A fix passes if the fixed text parses, every name that remains means the same declaration, a call that the fix removes
//! is one of a builtin, the syntax tree around the edits, the comments and the descriptions in schemas are the same, the imports run the same code, and
//! the checker reports nothing new.

use std::cell::Cell;
use std::mem::{Discriminant, discriminant};

use harn_front::{Names, Target, apply_edits, edited_spans};
use harn_syntax::ast::*;
use harn_syntax::diagnostic::Fix;
use harn_syntax::token::Comment;
use harn_syntax::visit::{self, Visitor};
use harn_syntax::{Diagnostic, Span};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::codes::{BOOL_OPERAND, EAGER, OPERAND_TYPE};
use crate::imports::{Imports, sources};
use crate::walk::check_program;
use crate::world::{Source, World};

/// How many bytes of fixed programs are checked: a proof takes time in proportion to the text, and each fix needs one.
const MAX_CHECKED: usize = 2 << 20;

/// Returns whether the fixes of a code preserve the behavior of the program, so that `--fix` applies them: those of rules,
/// and of an operator that fails on its operands. The author must choose a fix that replaces an unknown name, or an
/// iterator by a list.
fn keeps_meaning(code: &str) -> bool {
    code.starts_with(|c: char| c.is_ascii_lowercase()) && code != EAGER || code == OPERAND_TYPE
}

/// Adapts the fixes to the line ends of the file, and removes those that are not proven to keep the meaning. Their findings
/// get a help line with the reason.
pub fn withdraw_unproven<'d>(
    source: &Source<'_>,
    world: &World<'_>,
    found: impl Iterator<Item = &'d mut Diagnostic>,
) {
    let mut proof = None;
    for found in found {
        let Some(fix) = &mut found.fix else { continue };
        with_line_ends(source.text, fix);
        if !keeps_meaning(found.code) {
            continue;
        }
        let proof = proof.get_or_insert_with(|| Proof::of(source, world));
        let fails = [BOOL_OPERAND, OPERAND_TYPE].contains(&found.code);
        let caught = |edit: &(Span, String)| proof.shape.tries.iter().any(|span| overlap(*span, edit.0));
        let result = if fails && fix.edits.iter().any(caught) {
            Err("the error is caught, and may be expected".to_owned())
        } else if proof.has_time() {
            proof.check(&fix.edits)
        } else {
            Err("the file has more fixes than are checked at once; apply some, and run it again".to_owned())
        };
        if let Err(reason) = result {
            found.fix = None;
            let text = format!("no automatic fix: {reason}");
            match &found.help {
                None => found.help = Some(text),
                Some(_) => found.notes.push(text),
            }
        }
    }
}

/// Returns the proven fixes of `found` that can be applied together; of two that exclude each other, the first.
pub fn compatible_fixes<'d>(
    source: &Source<'_>,
    world: &World<'_>,
    found: impl Iterator<Item = &'d Diagnostic>,
) -> Vec<&'d Fix> {
    let mut fixes: Vec<&Fix> =
        found.filter(|found| keeps_meaning(found.code)).filter_map(|found| found.fix.as_ref()).collect();
    fixes.sort_by_key(|fix| fix.edits.iter().map(|(span, _)| span.start).min());
    let mut end = 0;
    fixes.retain(|fix| {
        let fits = fix.edits.iter().all(|(span, _)| span.start >= end);
        if fits {
            end = fix.edits.iter().map(|(span, _)| span.end).max().unwrap_or(end);
        }
        fits
    });
    let all = |fixes: &[&Fix]| fixes.iter().flat_map(|fix| fix.edits.clone()).collect::<Vec<_>>();
    if fixes.is_empty() {
        return fixes;
    }
    let proof = Proof::of(source, world);
    if proof.check(&all(&fixes)).is_ok() {
        return fixes;
    }
    let mut chosen = Vec::new();
    for fix in fixes {
        if !proof.has_time() {
            break;
        }
        chosen.push(fix);
        if proof.check(&all(&chosen)).is_err() {
            chosen.pop();
        }
    }
    chosen
}

fn with_line_ends(text: &str, fix: &mut Fix) {
    if text.find('\n').is_some_and(|at| text[..at].ends_with('\r')) {
        for (_, new) in &mut fix.edits {
            *new = new.replace("\r\n", "\n").replace('\n', "\r\n");
        }
    }
}

/// What is compared: a program before its fixes.
struct Proof<'a> {
    source: &'a Source<'a>,
    world: &'a World<'a>,
    names: Names,
    shape: Shape,
    findings: FxHashMap<(&'static str, String), usize>,
    /// The bytes that were checked.
    checked: Cell<usize>,
}

impl<'a> Proof<'a> {
    fn of(source: &'a Source<'a>, world: &'a World<'a>) -> Proof<'a> {
        let mut shape = Shape::default();
        shape.stmts(&source.tree.items);
        Proof {
            source,
            world,
            names: Names::of(source.tree, source.text.len() as u32),
            shape,
            findings: findings(source, world),
            checked: Cell::new(0),
        }
    }

    /// Returns whether another proof is allowed.
    fn has_time(&self) -> bool {
        self.checked.get() < MAX_CHECKED
    }

    /// Checks that the edits keep the meaning.
    ///
    /// # Errors
    /// The reason why they may not.
    fn check(&self, edits: &[(Span, String)]) -> Result<(), String> {
        let Source { name, dir, text, tree } = *self.source;
        self.checked.set(self.checked.get() + text.len());
        let after = apply_edits(text, edits);
        let parsed = harn_syntax::parse(&after);
        if !parsed.errors.is_empty() {
            return Err("the fixed program does not parse".to_owned());
        }
        let regions = edited_spans(edits);
        self.same_names(&Names::of(&parsed.program, after.len() as u32), edits)?;
        let mut shape = Shape::default();
        shape.stmts(&parsed.program.items);
        if !self.shape.is_same(&shape, &regions) {
            return Err("the code around it would be read differently".to_owned());
        }
        if self.shape.docs != shape.docs {
            return Err("a comment would become a description in schemas".to_owned());
        }
        let (before, rest) =
            (inside(text, &tree.comments, &regions, |(old, _)| *old), &parsed.program.comments);
        let kept = inside(&after, rest, &regions, |(_, new)| *new);
        if !before.is_empty() && !kept.windows(before.len()).any(|words| words == before.as_slice()) {
            return Err("a comment would be lost".to_owned());
        }
        self.same_imports(&parsed.program)?;
        let fixed = Source { name, dir, text: &after, tree: &parsed.program };
        let known = |key: &(&'static str, String)| self.findings.get(key).copied().unwrap_or(0);
        match findings(&fixed, self.world).into_iter().find(|(key, count)| *count > known(key)) {
            Some(((_, message), _)) => Err(format!("the fixed program has another mistake: {message}")),
            None => Ok(()),
        }
    }

    fn same_names(&self, after: &Names, edits: &[(Span, String)]) -> Result<(), String> {
        let changes = self.names.changes(after, edits);
        if let Some((name, _)) = changes.rebound {
            return Err(format!("`{name}` would mean another declaration"));
        }
        let calls = changes.removed.iter().filter(|span| self.shape.called.contains(*span));
        for span in calls {
            let name = span.slice(self.source.text);
            let own = self.names.uses.iter().any(|used| used.span == *span && used.symbol.is_some());
            let imports = Imports::default();
            let imported =
                || imports.get(self.source, self.world).is_none_or(|names| names.contains_key(name));
            if own || self.shape.overridden.contains(name) || imported() {
                return Err(format!("`{name}` is not the builtin of this name"));
            }
        }
        Ok(())
    }

    /// Imported files run the initial values of their variables, in the order of the imports.
    fn same_imports(&self, after: &Program) -> Result<(), String> {
        let paths = |tree: &Program| tree.imports().map(|import| import.path.to_string()).collect::<Vec<_>>();
        let (before, after) = (paths(self.source.tree), paths(after));
        if before == after {
            return Ok(());
        }
        let effects = |path: &&String| self.has_effects(path);
        let removed = before.iter().filter(|path| !after.contains(path));
        if let Some(path) = removed.into_iter().find(effects) {
            return Err(format!("importing \"{path}\" runs code"));
        }
        if after.iter().filter(effects).count() > 1 {
            return Err("the imported files run code in the order of the imports".to_owned());
        }
        Ok(())
    }

    fn has_effects(&self, path: &str) -> bool {
        let sources = sources(self.world);
        let Ok(first) = sources.resolve(path, self.source.dir) else { return true };
        let mut waiting = vec![first];
        let mut seen = FxHashSet::default();
        while let Some(target) = waiting.pop() {
            // Embedded modules only define.
            if matches!(target, Target::Std(_)) || !seen.insert(target.key(sources.files())) {
                continue;
            }
            let Some(unit) = sources.load(&target).ok().filter(|unit| unit.errors.is_empty()) else {
                return true;
            };
            if unit.tree.items.iter().any(may_act) {
                return true;
            }
            for import in unit.tree.imports() {
                let Ok(target) = sources.resolve(&import.path, &unit.dir) else { return true };
                waiting.push(target);
            }
        }
        false
    }
}

/// Returns whether an item of an imported file may do more than define a constant.
fn may_act(item: &Stmt) -> bool {
    let acts = |value: &Expr| !is_constant(value);
    match &item.kind {
        StmtKind::Let { pattern, value, .. } => !matches!(pattern.kind, PatternKind::Name(_)) || acts(value),
        StmtKind::Decl(decl) => match &decl.kind {
            DeclKind::Tool(d) => d.fields.iter().any(|field| acts(&field.value)),
            DeclKind::Skill(d) => d.fields.iter().any(|field| acts(&field.value)),
            DeclKind::EvalPack(_) => true,
            _ => false,
        },
        _ => false,
    }
}

/// Returns whether the evaluation of an expression cannot fail and has no effects.
fn is_constant(value: &Expr) -> bool {
    match &value.kind {
        ExprKind::Nil
        | ExprKind::Bool(_)
        | ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Duration(_)
        | ExprKind::Str(_)
        | ExprKind::Name(_)
        | ExprKind::Closure { .. } => true,
        ExprKind::Paren(inner) => is_constant(inner),
        ExprKind::Interp(parts) => parts.iter().all(|part| match part {
            StrPart::Text(_) => true,
            StrPart::Expr(inner) => is_constant(inner),
        }),
        ExprKind::List(items) => items.iter().all(|item| !item.spread && is_constant(&item.value)),
        ExprKind::Dict(items) => {
            items.iter().all(|item| matches!(item, DictItem::Entry { value, .. } if is_constant(value)))
        }
        _ => false,
    }
}

fn findings(source: &Source<'_>, world: &World<'_>) -> FxHashMap<(&'static str, String), usize> {
    let mut out = FxHashMap::default();
    for found in check_program(source, world) {
        // What it suggests may change.
        let message = found.message.split(" (did you mean").next().unwrap_or_default();
        *out.entry((found.code, message.to_owned())).or_insert(0) += 1;
    }
    out
}

fn overlap(a: Span, b: Span) -> bool {
    a.start < b.end && b.start < a.end
}

/// Returns the words of the comments in the edited spans.
fn inside(
    text: &str,
    comments: &[Comment],
    regions: &[(Span, Span)],
    side: impl Fn(&(Span, Span)) -> Span,
) -> Vec<String> {
    let edited = |comment: &&Comment| regions.iter().any(|region| overlap(side(region), comment.span));
    let words = comments.iter().filter(edited).flat_map(|comment| {
        comment.span.slice(text).split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
    });
    words.map(str::to_owned).collect()
}

/// The nodes of a syntax tree with their kinds and spans.
#[derive(Default)]
struct Shape {
    exprs: FxHashSet<(Discriminant<ExprKind>, Span)>,
    stmts: FxHashSet<(Discriminant<StmtKind>, Span)>,
    /// The names in the place of a called function.
    called: FxHashSet<Span>,
    /// The builtins that the program replaces.
    overridden: FxHashSet<Name>,
    /// What catches the errors of its content.
    tries: Vec<Span>,
    /// The comments that are values: descriptions of types and tools.
    docs: Vec<Option<Name>>,
}

impl Shape {
    /// Compares the nodes that contain no edit or a whole one.
    fn is_same(&self, after: &Shape, regions: &[(Span, Span)]) -> bool {
        are_same(&self.exprs, &after.exprs, regions) && are_same(&self.stmts, &after.stmts, regions)
    }

    fn callee(&mut self, callee: &Expr) {
        if let ExprKind::Name(_) = callee.kind {
            self.called.insert(callee.span);
        }
    }
}

fn are_same<K: Copy + Eq + std::hash::Hash>(
    before: &FxHashSet<(K, Span)>,
    after: &FxHashSet<(K, Span)>,
    regions: &[(Span, Span)],
) -> bool {
    let shift = |offset: u32, is_end: bool| {
        let passed = |(old, _): &&(Span, Span)| {
            if is_end {
                old.end <= offset && (old.start < offset || !old.is_empty())
            } else {
                old.end <= offset
            }
        };
        regions.iter().rev().find(passed).map_or(offset, |(old, new)| offset - old.end + new.end)
    };
    // Text that is inserted at the end of a node may become a part of it.
    let grown = |offset: u32| regions.iter().rev().find(|(old, _)| old.end == offset).map(|(_, new)| new.end);
    // A node may end before text that is replaced at its end.
    let shrunk = |offset: u32| regions.iter().find(|(old, _)| old.end == offset).map(|(_, new)| new.start);
    let mut found = 0;
    for (kind, span) in before {
        let cut = |(old, _): &(Span, Span)| {
            overlap(*old, *span) && !(span.start <= old.start && old.end <= span.end && *old != *span)
        };
        if regions.iter().any(cut) {
            continue;
        }
        let start = shift(span.start, false);
        let ends = [Some(shift(span.end, true)), grown(span.end), shrunk(span.end)];
        if !ends
            .into_iter()
            .flatten()
            .any(|end| end >= start && after.contains(&(*kind, Span::new(start, end))))
        {
            return false;
        }
        found += 1;
    }
    // Nodes that no edit reaches existed before.
    let reached = |span: Span| regions.iter().any(|(_, new)| new.start <= span.end && span.start <= new.end);
    after.iter().filter(|(_, span)| !reached(*span)).count() <= found
}

impl<'a> Visitor<'a> for Shape {
    fn decl(&mut self, decl: &'a Decl) {
        match &decl.kind {
            DeclKind::Struct(d) => self.docs.push(d.doc.clone()),
            DeclKind::Type(d) => self.docs.push(d.doc.clone()),
            DeclKind::Tool(d) => self.docs.push(d.doc.clone()),
            _ => {}
        }
        visit::walk_decl(self, decl);
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        self.stmts.insert((discriminant(&stmt.kind), stmt.span));
        if let StmtKind::Override { name, .. } = &stmt.kind {
            self.overridden.insert(name.name.clone());
        }
        visit::walk_stmt(self, stmt);
    }

    fn expr(&mut self, expr: &'a Expr) {
        self.exprs.insert((discriminant(&expr.kind), expr.span));
        match &expr.kind {
            ExprKind::Call { callee, .. } => self.callee(callee),
            ExprKind::Pipe { func, .. } => self.callee(func),
            ExprKind::Try { .. } | ExprKind::TryStar(_) | ExprKind::Retry { .. } => {
                self.tries.push(expr.span)
            }
            ExprKind::Parallel(_) | ExprKind::Spawn(_) => self.tries.push(expr.span),
            _ => {}
        }
        visit::walk_expr(self, expr);
    }
}
