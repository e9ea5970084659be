//! The lint rules for templates.

use std::ops::Range;

use crate::FILTERS;
use crate::expr::{Comparison, Expr, FilterProblem, Name, Path, Step};
use crate::loader::Origin;
use crate::program::{Op, Section, Site};
use crate::template::Template;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The template cannot be rendered.
    Error,
    /// The template works, but probably not as intended.
    Warning,
}

/// A lint rule.
#[derive(Debug)]
pub struct RuleDoc {
    /// The name, as used in `[lint] disabled`.
    pub name: &'static str,
    /// The severity of its findings.
    pub severity: Severity,
    /// The detected problem and the fix.
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
    doc: "A condition compares `llm.provider`, `llm.model` or `llm.family` with a string. Such conditions become \
          outdated with new models; test a capability instead.",
};
const EXPLOSION: RuleDoc = RuleDoc {
    name: "template-variant-explosion",
    severity: Severity::Warning,
    doc: "More conditions on `llm.capabilities` than the threshold, so that the variants are hard to review. Use a section: \
          it selects the envelope.",
};
const FILTER: RuleDoc = RuleDoc {
    name: "template-unknown-filter",
    severity: Severity::Warning,
    doc: "An unknown filter: rendering fails when it reaches the filter.",
};

const NAME: RuleDoc = RuleDoc {
    name: "template-unknown-name",
    severity: Severity::Warning,
    doc: "An unknown field of `llm`, `llm.capabilities` or `loop`, which is always nil, or an unknown argument of a section, \
          which has no effect.",
};
const LOST: RuleDoc = RuleDoc {
    name: "template-lost-format",
    severity: Severity::Warning,
    doc: "A section `output_format` with a body. Models whose `structured_output_mode` is `native_json` receive the schema in \
          the request and do not see the body. Move instructions for all models to another section.",
};

/// All rules.
pub const RULES: &[RuleDoc] = &[PARSE, IDENTITY, EXPLOSION, FILTER, NAME, LOST];

/// The fields of `llm`.
const LLM_FIELDS: &[&str] = &["provider", "model", "family", "capabilities"];

/// The fields of `loop`.
const LOOP_FIELDS: &[&str] = &["first", "index", "index0", "last", "length"];

/// The keys of `llm.capabilities`, which are those of `provider_capabilities`.
pub const CAPABILITIES: &[&str] = &[
    "provider",
    "model",
    "native_tools",
    "defer_loading",
    "tool_search",
    "max_tools",
    "prompt_caching",
    "thinking_modes",
    "thinking",
    "thinking_budget",
    "reasoning_efforts",
    "interleaved_thinking_supported",
    "anthropic_beta_features",
    "vision_supported",
    "audio",
    "pdf",
    "structured_output",
    "preserve_thinking",
    "server_parser",
    "honors_chat_template_kwargs",
    "requires_completion_tokens",
    "reasoning_effort_supported",
    "recommended_endpoint",
    "streams_tools",
    "streams_schema",
    "text_tool_wire_format_supported",
    "preferred_tool_format",
    "prefers_xml_scaffolding",
    "prefers_markdown_scaffolding",
    "structured_output_mode",
    "supports_assistant_prefill",
    "prefers_role_developer",
    "prefers_xml_tools",
    "thinking_block_style",
    "tools",
];

/// The settings from the manifest.
#[derive(Clone, Copy, Debug)]
pub struct LintSettings {
    /// `[lint] template_variant_branch_threshold`: the number of capability-aware conditions that is accepted.
    pub variant_branch_threshold: usize,
}

impl Default for LintSettings {
    fn default() -> LintSettings {
        LintSettings { variant_branch_threshold: 3 }
    }
}

/// A finding of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the rule.
    pub rule: &'static str,
    /// The severity.
    pub severity: Severity,
    /// The problem and the fix.
    pub message: String,
    /// Byte range: the directive, or the name of the filter.
    pub span: Range<usize>,
    /// Line of its start, 1-based.
    pub line: u32,
    /// Column of its start in characters, 1-based.
    pub col: u32,
}

/// Runs all rules on a template. Returns findings in source order; the caller filters disabled rules.
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
    linter.names(&mut findings);
    linter.lost_formats(&mut findings);
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

    /// Returns the field of `llm` that `path` starts with.
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

    /// Returns the field and the literal if `expr` compares an identity of the model with a string.
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

    /// Calls `look` for every expression of the template with its directive.
    fn expressions(&self, look: &mut dyn FnMut(&Expr, Site)) {
        let program = &self.template.program;
        for op in &program.ops {
            match *op {
                Op::Write(i) => look(&program.writes[i as usize].expr, program.writes[i as usize].site),
                Op::Test { test, .. } => {
                    look(&program.tests[test as usize].expr, program.tests[test as usize].site)
                }
                Op::For { info, .. } => {
                    look(&program.loops[info as usize].iterable, program.loops[info as usize].site);
                }
                Op::SectionStart(i) => {
                    let section = &program.sections[i as usize];
                    section.argument.iter().for_each(|argument| look(argument, section.site));
                }
                Op::Include(i) => {
                    let include = &program.includes[i as usize];
                    look(&include.path, include.site);
                    include.with.iter().for_each(|(_, value)| look(value, include.site));
                }
                _ => {}
            }
        }
    }

    fn filters(&self, findings: &mut Vec<Finding>) {
        self.expressions(&mut |expr, _| {
            expr.walk(&mut |expr| {
                let Expr::Pipeline(parts) = expr else { return };
                for call in parts.1.iter().filter(|call| matches!(call.filter, Err(FilterProblem::Unknown))) {
                    let name = self.template.text(call.name.0, call.name.1);
                    let names: Vec<&str> = FILTERS.iter().map(|filter| filter.name).collect();
                    let text = format!("unknown filter `{name}`; {}", meant(name, &names));
                    findings.push(self.finding(&FILTER, call.name, text));
                }
            });
        });
    }

    /// Checks names in closed sets only; other names may be bound by the caller of `render`.
    fn names(&self, findings: &mut Vec<Finding>) {
        self.expressions(&mut |expr, site| {
            expr.walk(&mut |expr| {
                let Expr::Path(path) = expr else { return };
                if let Some((holder, name, known)) = self.unknown_field(path) {
                    let message = format!("`{holder}` has no `{name}`; {}", meant(name, known));
                    findings.push(self.finding(&NAME, (site.start, site.end), message));
                }
            });
        });
        for section in &self.template.program.sections {
            for place in &section.others {
                let name = self.template.text(place.0, place.1);
                let reads = match section.spec.argument {
                    Some(argument) => format!("it reads `{argument}`"),
                    None => "it reads none".to_owned(),
                };
                let message = format!("section `{}` has no argument `{name}`; {reads}", section.spec.name);
                findings.push(self.finding(&NAME, *place, message));
            }
        }
    }

    /// Returns the container, the name and the existing names if a path accesses a field that does not exist.
    fn unknown_field<'p>(&self, path: &'p Path) -> Option<(&'static str, &'p str, &'static [&'static str])> {
        let (holder, name, known) = match (path.root, self.llm_field(path)) {
            (Name::Loop(_), _) => match path.steps.first()? {
                Step::Field(name) => ("loop", name.as_str(), LOOP_FIELDS),
                Step::Index(_) => return None,
            },
            (_, Some(("capabilities", [Step::Field(name), ..]))) => {
                ("llm.capabilities", name.as_str(), CAPABILITIES)
            }
            (_, Some((name, _))) => ("llm", name, LLM_FIELDS),
            _ => return None,
        };
        (!known.contains(&name)).then_some((holder, name, known))
    }

    /// Checks `output_format` sections with their own content.
    fn lost_formats(&self, findings: &mut Vec<Finding>) {
        let program = &self.template.program;
        let mut open: Vec<(&Section, bool)> = Vec::new();
        for op in &program.ops {
            match *op {
                Op::SectionStart(i) => open.push((&program.sections[i as usize], false)),
                Op::SectionEnd(_) => {
                    if let Some((section, true)) = open.pop()
                        && section.spec.name == "output_format"
                    {
                        let message = "models with `native_json` are not shown this text: the section `output_format` is left out \
                                       for them"
                            .to_owned();
                        findings.push(self.finding(&LOST, (section.site.start, section.site.end), message));
                    }
                }
                Op::Text { start, end } if self.template.text(start, end).trim().is_empty() => {}
                Op::Text { .. } | Op::Write(_) | Op::WriteLocal { .. } | Op::Bare { .. } | Op::Include(_) => {
                    open.iter_mut().for_each(|(_, has_body)| *has_body = true);
                }
                _ => {}
            }
        }
    }
}

/// Returns a suggestion: the similar name, or all existing ones.
fn meant(name: &str, known: &[&str]) -> String {
    let near = known.iter().map(|known| (strsim::damerau_levenshtein(name, known), known)).min();
    match near.filter(|(distance, _)| *distance <= 2) {
        Some((_, near)) => format!("did you mean `{near}`?"),
        None if known.len() == FILTERS.len() => "the template reference lists all filters".to_owned(),
        None if known.len() > 8 => "its keys are those of `provider_capabilities`".to_owned(),
        None => format!("it has {}", known.join(", ")),
    }
}

/// Returns the expression without filters: `(llm.provider | lower)` also refers to the provider.
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
        let found = |text: &str| -> Vec<(String, String)> {
            let found = found(text).into_iter().filter(|(rule, _)| rule != "template-unknown-name");
            found.map(|(rule, place)| (rule, place.to_owned())).collect()
        };
        let branch = "{{ if not llm.capabilities.native_tools }}{{ end }}";
        assert_eq!(found(&branch.repeat(3)), []);
        let text = format!("x{}", branch.repeat(4));
        assert_eq!(
            found(&text),
            [(
                "template-variant-explosion".to_owned(),
                "{{ if not llm.capabilities.native_tools }}".to_owned()
            )]
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
    fn names_of_closed_sets_are_known() {
        for (text, place, told) in [
            (
                "{{ if llm.capabilities.native_tool }}{{ end }}",
                "{{ if llm.capabilities.native_tool }}",
                "did you mean `native_tools`?",
            ),
            ("{{ llm.capabilities.zzz }}", "{{ llm.capabilities.zzz }}", "those of `provider_capabilities`"),
            (
                "{{ for x in xs }}{{ loop.idx }}{{ end }}",
                "{{ loop.idx }}",
                "`loop` has no `idx`; did you mean `index`?",
            ),
            (
                "{{ for x in xs }}{{ loop.counter }}{{ end }}",
                "{{ loop.counter }}",
                "`loop` has no `counter`; it has first, index, ",
            ),
            ("{{ llm.modle }}", "{{ llm.modle }}", "did you mean `model`?"),
            (
                "{{ section \"task\" foo=1 }}x{{ endsection }}",
                "foo",
                "section `task` has no argument `foo`; it reads none",
            ),
            ("{{ section \"tools\" tols=t }}{{ endsection }}", "tols", "it reads `tools`"),
        ] {
            assert_eq!(found(text), [("template-unknown-name".to_owned(), place)]);
            assert!(message(text).contains(told), "{}", message(text));
        }
        for fine in [
            "{{ for x in xs }}{{ loop.index }}{{ loop.last }}{{ x.idx }}{{ end }}",
            "{{ llm.family }}{{ llm.capabilities.tools }}{{ other.capabilities.zzz }}",
            "{{ for llm in xs }}{{ llm.zzz }}{{ end }}",
        ] {
            assert_eq!(found(fine), [], "{fine}");
        }
    }

    #[test]
    fn a_body_that_some_models_are_not_shown_is_told() {
        let text = "{{ section \"output_format\" schema=s }}Answer in JSON.{{ endsection }}";
        let directive = "{{ section \"output_format\" schema=s }}".to_owned();
        assert_eq!(found(text), [("template-lost-format".to_owned(), directive.as_str())]);
        let written = "{{ section \"output_format\" }}{{ if a }}{{ x }}{{ end }}{{ endsection }}";
        assert_eq!(found(written).len(), 1);
        assert_eq!(
            found(
                "{{ section \"output_format\" schema=s }}\n{{ endsection }}{{ section \"task\" }}x{{ endsection }}"
            ),
            []
        );
    }

    #[test]
    fn parse_errors_stand_alone() {
        let text = "é\n {{ if llm.model == 'x' }}";
        assert_eq!(found(text), [("template-parse".to_owned(), "{{ if llm.model == 'x' }}")]);
        assert_eq!(message(text), "template did not parse: at 2:2: `{{ if }}` missing matching `{{ end }}`");
    }
}
