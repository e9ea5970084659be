//! The lint rules for templates.

use std::ops::Range;

use crate::expr::{Comparison, Expr, FilterProblem, Name, Path, Step};
use crate::loader::Origin;
use crate::program::{Op, Site};
use crate::template::Template;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The template cannot be rendered.
    Error,
    /// The template works, but something about it is likely to hurt.
    Warning,
}

/// A rule.
#[derive(Debug)]
pub struct RuleDoc {
    /// The name, as `[lint] disabled` takes it.
    pub name: &'static str,
    /// How bad its findings are.
    pub severity: Severity,
    /// What it catches and what to do instead.
    pub doc: &'static str,
}

const PARSE: RuleDoc = RuleDoc {
    name: "template-parse",
    severity: Severity::Error,
    doc: "The template does not parse. The other rules are skipped.",
};
const IDENTITY: RuleDoc = RuleDoc {
    name: "template-provider-identity-branch",
    severity: Severity::Warning,
    doc: "A condition compares `llm.provider`, `llm.model` or `llm.family` with a string: such branches go stale with \
          every new model. Ask for the capability instead.",
};
const EXPLOSION: RuleDoc = RuleDoc {
    name: "template-variant-explosion",
    severity: Severity::Warning,
    doc: "More conditions than the threshold look at `llm.capabilities`: nobody can read all variants. Let a logical \
          section choose the envelope.",
};
const FILTER: RuleDoc = RuleDoc {
    name: "template-unknown-filter",
    severity: Severity::Warning,
    doc: "A filter that does not exist: rendering fails when it is reached.",
};

/// All rules.
pub const RULES: &[RuleDoc] = &[PARSE, IDENTITY, EXPLOSION, FILTER];

/// What a manifest can set.
#[derive(Clone, Copy, Debug)]
pub struct LintSettings {
    /// `[lint] template_variant_branch_threshold`: this many capability-aware conditions are fine.
    pub variant_branch_threshold: usize,
}

impl Default for LintSettings {
    fn default() -> LintSettings {
        LintSettings { variant_branch_threshold: 3 }
    }
}

/// Something a rule found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the rule.
    pub rule: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong and what to do.
    pub message: String,
    /// Byte range: the directive, or the name of the filter.
    pub span: Range<usize>,
    /// Line of its start, from 1.
    pub line: u32,
    /// Column of its start in characters, from 1.
    pub col: u32,
}

/// Runs all rules on a template. Findings are in order of the text; which rules are disabled is for the
/// caller to filter.
pub fn lint(origin: Origin, text: &str, settings: &LintSettings) -> Vec<Finding> {
    let template = match Template::parse(origin, text.to_owned()) {
        Ok(template) => template,
        Err(error) => {
            let (line, col) = error.position().unwrap_or((1, 1));
            let message = format!("template did not parse: {error}");
            return vec![Finding {
                rule: PARSE.name,
                severity: PARSE.severity,
                message,
                span: error.span(),
                line,
                col,
            }];
        }
    };
    let linter = Linter { template: &template };
    let mut findings = Vec::new();
    linter.conditions(settings, &mut findings);
    linter.filters(&mut findings);
    findings.sort_by_key(|finding| finding.span.start);
    findings
}

struct Linter<'t> {
    template: &'t Template,
}

impl Linter<'_> {
    fn finding(&self, rule: &RuleDoc, span: (u32, u32), message: String) -> Finding {
        let span = span.0 as usize..span.1 as usize;
        let (line, col) = self.template.position(span.start);
        Finding { rule: rule.name, severity: rule.severity, message, span, line, col }
    }

    fn conditions(&self, settings: &LintSettings, findings: &mut Vec<Finding>) {
        let mut aware: Vec<Site> = Vec::new();
        for test in &self.template.program.tests {
            let mut identity = None;
            let mut mentions = false;
            test.expr.walk(&mut |expr| {
                identity = identity.or_else(|| self.identity_test(expr));
                mentions |= matches!(expr, Expr::Path(path) if self.is_capability(path));
            });
            let span = (test.site.start, test.site.end);
            match identity {
                Some((field, literal)) => {
                    findings.push(self.finding(&IDENTITY, span, identity_message(field, literal)))
                }
                None if mentions => aware.push(test.site),
                None => {}
            }
        }
        let threshold = settings.variant_branch_threshold;
        if let [first, ..] = aware[..]
            && aware.len() > threshold
        {
            let message = format!(
                "template has {} capability-aware branches (threshold is {threshold}); use logical sections, whose envelopes \
                 adapt in one shared place",
                aware.len()
            );
            findings.push(self.finding(&EXPLOSION, (first.start, first.end), message));
        }
    }

    /// The name of a field of `llm` that `path` starts with.
    fn llm_field<'p>(&self, path: &'p Path) -> Option<(&'p str, &'p [Step])> {
        let Name::Free(free) = path.root else { return None };
        if self.template.program.free[free as usize] != "llm" {
            return None;
        }
        match path.steps.split_first()? {
            (Step::Field(name), rest) => Some((name.as_str(), rest)),
            _ => None,
        }
    }

    fn is_capability(&self, path: &Path) -> bool {
        self.llm_field(path).is_some_and(|(name, rest)| name == "capabilities" && !rest.is_empty())
    }

    /// The field and the literal, when `expr` compares an identity of the model with a string.
    fn identity_test<'e>(&self, expr: &'e Expr) -> Option<(&'e str, &'e str)> {
        let Expr::Compare(parts) = expr else { return None };
        let (operator, left, right) = &**parts;
        if !matches!(operator, Comparison::Equal | Comparison::NotEqual) {
            return None;
        }
        let pair = |path: &'e Expr, literal: &'e Expr| {
            let (Expr::Path(path), Expr::Literal(literal)) = (unfiltered(path), unfiltered(literal)) else {
                return None;
            };
            let (field, rest) = self.llm_field(path)?;
            let literal = literal.as_str()?.as_str();
            (rest.is_empty() && matches!(field, "provider" | "model" | "family")).then_some((field, literal))
        };
        pair(left, right).or_else(|| pair(right, left))
    }

    fn filters(&self, findings: &mut Vec<Finding>) {
        let program = &self.template.program;
        let mut check = |expr: &Expr| {
            expr.walk(&mut |expr| {
                let Expr::Pipeline(parts) = expr else { return };
                for call in parts.1.iter().filter(|call| matches!(call.filter, Err(FilterProblem::Unknown))) {
                    let name = self.template.text(call.name.0, call.name.1);
                    findings.push(self.finding(&FILTER, call.name, format!("unknown filter `{name}`")));
                }
            });
        };
        for op in &program.ops {
            match *op {
                Op::Write(i) => check(&program.writes[i as usize].expr),
                Op::Test { test, .. } => check(&program.tests[test as usize].expr),
                Op::For { info, .. } => check(&program.loops[info as usize].iterable),
                Op::SectionStart(i) => program.sections[i as usize].argument.iter().for_each(&mut check),
                Op::Include(i) => {
                    let include = &program.includes[i as usize];
                    check(&include.path);
                    include.with.iter().for_each(|(_, value)| check(value));
                }
                _ => {}
            }
        }
    }
}

/// What filters are applied to: `(llm.provider | lower)` is about the provider, too.
fn unfiltered(expr: &Expr) -> &Expr {
    match expr {
        Expr::Pipeline(parts) => unfiltered(&parts.0),
        other => other,
    }
}

fn identity_message(field: &str, literal: &str) -> String {
    const XML: &str = "`llm.capabilities.prefers_xml_scaffolding`";
    const MARKDOWN: &str =
        "`llm.capabilities.prefers_markdown_scaffolding` or `llm.capabilities.prefers_role_developer`";
    const LOCAL: &str =
        "`llm.capabilities.text_tool_wire_format_supported` or `llm.capabilities.native_tools`";
    let advice = match (field, literal) {
        ("provider", "anthropic") => format!("branch on {XML}"),
        ("provider", "openai") => format!("branch on {MARKDOWN}"),
        ("provider", "local" | "qwen" | "ollama" | "llamacpp" | "vllm" | "mlx") => {
            format!("branch on {LOCAL}")
        }
        ("provider", _) => {
            format!("branch on a capability (anthropic: {XML}; openai: {MARKDOWN}; local models: {LOCAL})")
        }
        _ => "branch on the specific `llm.capabilities.<flag>`".to_owned(),
    };
    format!("condition tests the identity of the model through `llm.{field}`; {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, &str)> {
        let findings = lint(Origin::Inline, text, &LintSettings::default());
        findings.iter().map(|f| (f.rule.to_owned(), &text[f.span.clone()])).collect()
    }

    fn message(text: &str) -> String {
        lint(Origin::Inline, text, &LintSettings::default()).remove(0).message
    }

    #[test]
    fn identity_tests_are_found_at_any_depth() {
        for condition in [
            "llm.provider == \"anthropic\"",
            "'x' != llm[\"model\"]",
            "not (a and (llm.family == 'qwen' | default: x))",
            "(x | default: (llm.model == \"m\"))",
            "(llm.provider | lower) == 'anthropic'",
            "('Qwen' | lower) != (llm.family | default: '' | lower)",
        ] {
            let text = format!("{{{{ if {condition} }}}}{{{{ end }}}}");
            let directive = format!("{{{{ if {condition} }}}}");
            assert_eq!(found(&text), [("template-provider-identity-branch".to_owned(), directive.as_str())]);
        }
        for fine in [
            "llm.provider == other",
            "llm.provider",
            "llm.provider < 'x'",
            "x.provider == 'a'",
            "llm.capabilities.model == 'x'",
        ] {
            assert_eq!(found(&format!("{{{{ if {fine} }}}}{{{{ end }}}}")), [], "{fine}");
        }
        assert_eq!(found("{{ for llm in xs }}{{ if llm.model == 'a' }}{{ end }}{{ end }}"), []);
    }

    #[test]
    fn identity_messages_name_the_field_and_the_flag() {
        let provider = message("{{ if llm.provider == \"anthropic\" }}{{ end }}");
        assert!(
            provider.contains("`llm.provider`")
                && provider.contains("llm.capabilities.prefers_xml_scaffolding"),
            "{provider}"
        );
        assert!(message("{{ if llm.provider == \"openai\" }}{{ end }}").contains("prefers_role_developer"));
        assert!(
            message("{{ if llm.provider == \"qwen\" }}{{ end }}").contains("text_tool_wire_format_supported")
        );
        assert!(message("{{ if llm.family == \"x\" }}{{ end }}").contains("`llm.capabilities.<flag>`"));
    }

    #[test]
    fn variant_explosion_counts_conditions() {
        let branch = "{{ if not llm.capabilities.native_tools }}{{ end }}";
        assert_eq!(found(&branch.repeat(3)), []);
        let text = format!("x{}", branch.repeat(4));
        assert_eq!(
            found(&text),
            [("template-variant-explosion".to_owned(), "{{ if not llm.capabilities.native_tools }}")]
        );
        let shown = message(&text);
        assert!(shown.contains("4 capability-aware branches") && shown.contains("threshold is 3"), "{shown}");
        let elifs = "{{ if llm.capabilities.a | default: b }}{{ elif llm.capabilities.b == 1 }}{{ elif (llm.capabilities.c) }}{{ elif llm.capabilities[\"d\"] }}{{ end }}";
        assert_eq!(found(elifs).len(), 1);
        let identity =
            format!("{}{{{{ if llm.model == 'x' and llm.capabilities.a }}}}{{{{ end }}}}", branch.repeat(3));
        assert_eq!(found(&identity).len(), 1);
        let strict = LintSettings { variant_branch_threshold: 0 };
        assert_eq!(lint(Origin::Inline, branch, &strict).len(), 1);
    }

    #[test]
    fn unknown_filters_are_found_everywhere() {
        let text = "{{ x | nope: (y | nada) }}{{ include p | huh with { a: b | hm } }}{{ section \"tools\" tools=t | oh }}{{ endsection }}";
        let names: Vec<&str> = found(text).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["nope", "nada", "huh", "hm", "oh"]);
    }

    #[test]
    fn parse_errors_stand_alone() {
        let text = "é\n {{ if llm.model == 'x' }}";
        assert_eq!(found(text), [("template-parse".to_owned(), "{{ if llm.model == 'x' }}")]);
        assert_eq!(message(text), "template did not parse: at 2:2: `{{ if }}` missing matching `{{ end }}`");
    }
}
