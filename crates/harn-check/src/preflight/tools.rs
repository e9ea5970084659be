//! The tools that a file defines, to check their mentions in its prompts.

use harn_prompt::mentions::{looks_like_a_tool, mentions, outside_fences};
use harn_syntax::Span;
use harn_syntax::ast::*;
use harn_syntax::visit::{self, Visitor};
use rustc_hash::FxHashSet;

use harn_syntax::suggest::close;

/// The tools of a file, if it defines all of its tools.
#[derive(Default)]
pub(crate) struct Tools<'a> {
    /// The names of tools.
    names: Vec<&'a str>,
    /// Names of deferred tools.
    deferred: FxHashSet<&'a str>,
    /// All strings and names of functions: tools may be described in other ways.
    words: FxHashSet<&'a str>,
    /// Tools may come from elsewhere.
    others: bool,
    searches: bool,
}

/// A tool that a prompt mentions and that does not exist.
pub(crate) struct Mention {
    pub(crate) message: String,
    pub(crate) help: Option<String>,
    pub(crate) span: Span,
}

impl<'a> Tools<'a> {
    /// Returns the tools of a file; `None` if it defines none, or tools may come from elsewhere.
    pub(crate) fn of(tree: &'a Program) -> Option<Tools<'a>> {
        let mut tools = Tools::default();
        tools.stmts(&tree.items);
        (!tools.others && !tools.names.is_empty()).then_some(tools)
    }

    /// Returns the invalid mentions of tools in a template.
    pub(crate) fn wrong_in(&self, text: &str) -> Vec<Mention> {
        let mut found = Vec::new();
        for name in mentions(&outside_fences(&outside_braces(text))) {
            let deferred = self.searches && self.deferred.contains(name.as_str());
            let unknown = looks_like_a_tool(&name)
                && !self.words.contains(name.as_str())
                && !self.names.contains(&name.as_str());
            let (code, what) = match (deferred, unknown) {
                (true, _) => ("DEFERRED_TOOL_PROMPT_REFERENCE", "which is deferred"),
                (_, true) => ("UNKNOWN_PROMPT_TOOL", "which is no tool"),
                _ => continue,
            };
            let at = text.find(&name).unwrap_or_default();
            let near = close(&name, self.names.iter().copied()).filter(|_| unknown);
            found.push(Mention {
                message: format!("TOOL_SURFACE_{code}: the prompt mentions '{name}', {what}"),
                help: near.map(|near| format!("did you mean `{near}`?")),
                span: Span::new(at as u32, (at + name.len()) as u32),
            });
        }
        found
    }
}

/// Returns the source of a template outside of its `{{ }}`.
fn outside_braces(text: &str) -> String {
    let mut parts = text.split("{{");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push(' ');
        out.push_str(part.split_once("}}").map_or("", |(_, behind)| behind));
    }
    out
}

impl<'a> Visitor<'a> for Tools<'a> {
    fn stmt(&mut self, stmt: &'a Stmt) {
        if let StmtKind::Import(import) = &stmt.kind {
            self.others |= !import.path.starts_with("std/") || import.path.starts_with("std/agent");
        }
        visit::walk_stmt(self, stmt);
    }

    fn decl(&mut self, decl: &'a Decl) {
        let name = decl.kind.name().name.as_str();
        self.words.insert(name);
        let made = decl.attrs.iter().any(|attr| attr.name.name == "acp_tool");
        if made || matches!(decl.kind, DeclKind::Tool(_)) {
            self.names.push(name);
        }
        for arg in decl.attrs.iter().flat_map(|attr| &attr.args) {
            if let AttrValue::Str(text) = &arg.value {
                self.words.insert(text);
            }
        }
        visit::walk_decl(self, decl);
    }

    fn expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Str(text) => {
                self.words.insert(text);
            }
            ExprKind::Call { callee, args, .. } => match callee.as_name().map(Name::as_str) {
                Some("tool_define") => self.defined(args),
                Some(name) => {
                    self.others |=
                        name.starts_with("mcp_") || name.starts_with("tool_synth") || name.contains("skill");
                }
                None => {}
            },
            ExprKind::Dict(items) => {
                let has = |wanted: &str| {
                    let is_it =
                        |item: &DictItem| matches!(item, DictItem::Entry { key, .. } if key.name == wanted);
                    items.iter().any(is_it)
                };
                self.searches |= has("tool_search");
                self.others |= has("skills") || has("mcp_servers");
            }
            _ => {}
        }
        visit::walk_expr(self, expr);
    }
}

impl<'a> Tools<'a> {
    /// Records the tool of a `tool_define`. In a pipe the registry precedes it.
    fn defined(&mut self, args: &'a [Arg]) {
        let text = |arg: Option<&'a Arg>| match arg.map(|arg| &arg.value.kind) {
            Some(ExprKind::Str(text)) => Some(text.as_str()),
            _ => None,
        };
        let Some(name) = text(args.first()).or_else(|| text(args.get(1))) else {
            self.others = true;
            return;
        };
        self.names.push(name);
        let Some(ExprKind::Dict(items)) = args.last().map(|arg| &arg.value.kind) else { return };
        for item in items {
            if let DictItem::Entry { key, value } = item
                && key.name == "defer_loading"
                && matches!(value.kind, ExprKind::Bool(true))
            {
                self.deferred.insert(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::outside_braces;

    #[test]
    fn expressions_of_a_template_are_no_text() {
        assert_eq!(outside_braces("a {{ if f_(x) }}b{{ end }} c"), "a  b  c");
        assert_eq!(outside_braces("a {{ open_(x)"), "a  ");
    }
}
