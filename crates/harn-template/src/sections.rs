//! Logical sections: the purpose of each of the seven, and the envelope selected by the capabilities of the model.
//! docs/template-reference.md is generated from the table [`SECTIONS`].

use harn_value::{Dict, Set, Value, View, json};

/// A section.
pub struct SectionSpec {
    /// The name in `{{ section "name" }}`.
    pub name: &'static str,
    /// Its purpose.
    pub purpose: &'static str,
    /// The argument that it uses, if any; others are allowed and ignored.
    pub argument: Option<&'static str>,
    /// The default content that replaces an empty body, by envelope.
    pub defaults: &'static [(&'static str, &'static str)],
    /// The possible envelopes: label in traces, condition, output. The first one whose condition holds is used.
    pub envelopes: &'static [EnvelopeDoc],
    select: fn(&Capabilities<'_>) -> Envelope,
}

/// A row of the envelope reference.
pub struct EnvelopeDoc {
    /// The label in traces.
    pub label: &'static str,
    /// The condition for its use.
    pub when: &'static str,
    /// The output; `BODY` denotes the stripped body (and the argument).
    pub output: &'static str,
}

impl std::fmt::Debug for SectionSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The prefix and suffix of the body.
struct Envelope {
    label: &'static str,
    before: &'static str,
    after: &'static str,
    /// Whether nothing is written.
    suppressed: bool,
}

impl Envelope {
    const fn new(label: &'static str, before: &'static str, after: &'static str) -> Envelope {
        Envelope { label, before, after, suppressed: false }
    }

    const fn nothing(label: &'static str) -> Envelope {
        Envelope { label, before: "", after: "", suppressed: true }
    }
}

/// Returns the section with this name.
pub(crate) fn find(name: &str) -> Option<&'static SectionSpec> {
    SECTIONS.iter().find(|spec| spec.name == name)
}

/// `llm.capabilities`, with defaults for missing and invalid values.
struct Capabilities<'a>(Option<&'a Dict>);

enum Scaffold {
    Xml,
    Markdown,
    Plain,
}

impl<'a> Capabilities<'a> {
    fn of(llm: Option<&'a Value>) -> Capabilities<'a> {
        let dict = |value: Option<&'a Value>| value.and_then(Value::as_dict).map(|dict| &**dict);
        Capabilities(dict(dict(llm).and_then(|llm| llm.get_str("capabilities"))))
    }

    /// Returns whether a flag is exactly `true`.
    fn has(&self, flag: &str) -> bool {
        self.0.and_then(|caps| caps.get_str(flag)).and_then(Value::as_bool) == Some(true)
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        self.0.and_then(|caps| caps.get_str(key)).and_then(Value::as_str).map(|s| s.as_str())
    }

    fn scaffold(&self) -> Scaffold {
        if self.has("prefers_xml_scaffolding") {
            Scaffold::Xml
        } else if self.has("prefers_markdown_scaffolding") {
            Scaffold::Markdown
        } else {
            Scaffold::Plain
        }
    }

    fn scaffolded(&self, xml: Envelope, markdown: Envelope, plain: Envelope) -> Envelope {
        match self.scaffold() {
            Scaffold::Xml => xml,
            Scaffold::Markdown => markdown,
            Scaffold::Plain => plain,
        }
    }

    fn output_mode(&self) -> &'a str {
        let fallback = || match self.text("structured_output") {
            Some("native" | "format_kw") => "native_json",
            Some("tool_use") => "xml_tagged",
            Some(other) => other,
            None => "none",
        };
        self.text("structured_output_mode").unwrap_or_else(fallback)
    }
}

const SCAFFOLD_XML: &str = "`prefers_xml_scaffolding`";
const SCAFFOLD_MARKDOWN: &str = "`prefers_markdown_scaffolding`";
const REACT: &str = "Tools:\nUse this ReAct-style envelope when calling a tool:\nAction: <tool name>\nAction Input: <json arguments>";
const REACT_TOOLS: &str = "\n\nAvailable tools:\n";

const fn envelope(label: &'static str, when: &'static str, output: &'static str) -> EnvelopeDoc {
    EnvelopeDoc { label, when, output }
}

/// All sections, in the order of the reference.
pub const SECTIONS: &[SectionSpec] = &[
    SectionSpec {
        name: "task",
        purpose: "The task or instruction of the user.",
        argument: None,
        defaults: &[],
        envelopes: &[
            envelope("xml", SCAFFOLD_XML, "<task>\nBODY\n</task>"),
            envelope("markdown", SCAFFOLD_MARKDOWN, "## Task\nBODY"),
            envelope("plain", "else", "Task:\nBODY"),
        ],
        select: |caps| {
            caps.scaffolded(
                Envelope::new("xml", "<task>\n", "\n</task>"),
                Envelope::new("markdown", "## Task\n", ""),
                Envelope::new("plain", "Task:\n", ""),
            )
        },
    },
    SectionSpec {
        name: "examples",
        purpose: "Examples or demonstrations.",
        argument: None,
        defaults: &[],
        envelopes: &[
            envelope("xml", SCAFFOLD_XML, "<examples>\nBODY\n</examples>"),
            envelope("markdown", SCAFFOLD_MARKDOWN, "## Examples\nBODY"),
            envelope("plain", "else", "Examples:\nBODY"),
        ],
        select: |caps| {
            caps.scaffolded(
                Envelope::new("xml", "<examples>\n", "\n</examples>"),
                Envelope::new("markdown", "## Examples\n", ""),
                Envelope::new("plain", "Examples:\n", ""),
            )
        },
    },
    SectionSpec {
        name: "output_format",
        purpose: "The schema or format of the reply. Omitted, with its body, for models that receive the schema in the request. With \
                  `schema`, BODY is followed by an empty line, `Return output matching this JSON Schema:` and the schema as \
                  indented JSON.",
        argument: Some("schema"),
        defaults: &[],
        envelopes: &[
            envelope("native_json", "`structured_output_mode` is `native_json`", ""),
            envelope(
                "xml_tagged",
                "`structured_output_mode` is `xml_tagged`",
                "<output_format>\nBODY\n</output_format>",
            ),
            envelope(
                "delimited",
                "`structured_output_mode` is `delimited`",
                "[[ ## output_format ## ]]\nBODY",
            ),
            envelope("xml", SCAFFOLD_XML, "<output_format>\nBODY\n</output_format>"),
            envelope("markdown", SCAFFOLD_MARKDOWN, "## Output Format\nBODY"),
            envelope("plain", "else", "Output Format:\nBODY"),
        ],
        select: |caps| match caps.output_mode() {
            "native_json" => Envelope::nothing("native_json"),
            "xml_tagged" => Envelope::new("xml_tagged", "<output_format>\n", "\n</output_format>"),
            "delimited" => Envelope::new("delimited", "[[ ## output_format ## ]]\n", ""),
            _ => caps.scaffolded(
                Envelope::new("xml", "<output_format>\n", "\n</output_format>"),
                Envelope::new("markdown", "## Output Format\n", ""),
                Envelope::new("plain", "Output Format:\n", ""),
            ),
        },
    },
    SectionSpec {
        name: "tools",
        purpose: "Tool definitions. With `tools`, BODY is followed by an empty line and the tools as indented JSON. A tool \
                  registry is written as its list `tools`. Closures, `guidance` and the fields that select how a tool is \
                  executed (`executor`, ...) are omitted.",
        argument: Some("tools"),
        defaults: &[],
        envelopes: &[
            envelope("xml_tools", "`prefers_xml_tools`", "<tools>\nBODY\n</tools>"),
            envelope("native_tools", "`native_tools`", "## Tools\nBODY"),
            envelope(
                "react",
                "`text_tool_wire_format_supported`",
                "Tools:\nUse this ReAct-style envelope when calling a tool:\nAction: <tool name>\nAction Input: <json arguments>\n\n\
                 Available tools:\nBODY",
            ),
            envelope("plain", "else", "Tools:\nBODY"),
        ],
        select: |caps| {
            if caps.has("prefers_xml_tools") {
                Envelope::new("xml_tools", "<tools>\n", "\n</tools>")
            } else if caps.has("native_tools") {
                Envelope::new("native_tools", "## Tools\n", "")
            } else if caps.has("text_tool_wire_format_supported") {
                Envelope::new("react", REACT, "")
            } else {
                Envelope::new("plain", "Tools:\n", "")
            }
        },
    },
    SectionSpec {
        name: "thinking_scaffold",
        purpose: "Space for reasoning, for models that need it; nothing for other models.",
        argument: None,
        defaults: &[
            ("thinking_blocks", "Think through the task before answering."),
            ("reasoning_summary", "Use internal reasoning and provide a concise answer."),
            ("inline", "Reason privately before answering."),
        ],
        envelopes: &[
            envelope(
                "thinking_blocks",
                "`thinking_block_style` is `thinking_blocks`",
                "<thinking>\nBODY\n</thinking>",
            ),
            envelope(
                "reasoning_summary",
                "`thinking_block_style` is `reasoning_summary`",
                "## Reasoning\nBODY",
            ),
            envelope("inline", "`thinking_block_style` is `inline`", "BODY"),
            envelope("none", "else", ""),
        ],
        select: |caps| match caps.text("thinking_block_style") {
            Some("thinking_blocks") => Envelope::new("thinking_blocks", "<thinking>\n", "\n</thinking>"),
            Some("reasoning_summary") => Envelope::new("reasoning_summary", "## Reasoning\n", ""),
            Some("inline") => Envelope::new("inline", "", ""),
            _ => Envelope::nothing("none"),
        },
    },
    SectionSpec {
        name: "chain_of_thought",
        purpose: "An instruction to reason privately, in the format that the model prefers.",
        argument: None,
        defaults: &[
            ("xml", "Reason privately step by step before answering."),
            ("markdown", "Reason privately step by step before answering."),
            ("plain", "Reason privately step by step before answering."),
        ],
        envelopes: &[
            envelope("xml", SCAFFOLD_XML, "<reasoning>\nBODY\n</reasoning>"),
            envelope("markdown", SCAFFOLD_MARKDOWN, "## Reasoning\nBODY"),
            envelope("plain", "else", "BODY"),
        ],
        select: |caps| {
            caps.scaffolded(
                Envelope::new("xml", "<reasoning>\n", "\n</reasoning>"),
                Envelope::new("markdown", "## Reasoning\n", ""),
                Envelope::new("plain", "", ""),
            )
        },
    },
    SectionSpec {
        name: "system_framing",
        purpose: "Persona or policy at the top of a prompt.",
        argument: None,
        defaults: &[],
        envelopes: &[
            envelope(
                "xml_developer",
                "`prefers_xml_scaffolding` and `prefers_role_developer`",
                "<developer>\nBODY\n</developer>",
            ),
            envelope(
                "markdown_developer",
                "`prefers_markdown_scaffolding` and `prefers_role_developer`",
                "## Developer Instructions\nBODY",
            ),
            envelope("plain_developer", "`prefers_role_developer`", "Developer Instructions:\nBODY"),
            envelope("xml", SCAFFOLD_XML, "<system>\nBODY\n</system>"),
            envelope("markdown", SCAFFOLD_MARKDOWN, "## System Instructions\nBODY"),
            envelope("plain", "else", "System Instructions:\nBODY"),
        ],
        select: |caps| {
            if caps.has("prefers_role_developer") {
                caps.scaffolded(
                    Envelope::new("xml_developer", "<developer>\n", "\n</developer>"),
                    Envelope::new("markdown_developer", "## Developer Instructions\n", ""),
                    Envelope::new("plain_developer", "Developer Instructions:\n", ""),
                )
            } else {
                caps.scaffolded(
                    Envelope::new("xml", "<system>\n", "\n</system>"),
                    Envelope::new("markdown", "## System Instructions\n", ""),
                    Envelope::new("plain", "System Instructions:\n", ""),
                )
            }
        },
    },
];

/// The changes made by [`SectionSpec::close`].
pub(crate) struct Closed {
    /// The label for traces.
    pub(crate) label: &'static str,
    /// The range of the stripped body in the output; empty if nothing was written.
    pub(crate) body: (usize, usize),
    /// Number of bytes stripped before the body.
    pub(crate) stripped: usize,
}

impl SectionSpec {
    /// Wraps the body `out[start..]` in place. `argument` is the value of the argument used by the section, if
    /// present.
    pub(crate) fn close(
        &self,
        out: &mut String,
        start: usize,
        llm: Option<&Value>,
        argument: Option<&Value>,
    ) -> Closed {
        let envelope = (self.select)(&Capabilities::of(llm));
        out.truncate(start + out[start..].trim_end().len());
        let stripped = out[start..].len() - out[start..].trim_start().len();
        if envelope.suppressed {
            out.truncate(start);
            return Closed { label: envelope.label, body: (start, start), stripped };
        }
        let content = start + stripped;
        let body_length = out.len() - content;
        if body_length == 0
            && let Some((_, text)) = self.defaults.iter().find(|(label, _)| *label == envelope.label)
        {
            out.push_str(text);
        }
        if let Some(value) = argument {
            if out.len() > content {
                out.push_str("\n\n");
            }
            match self.name {
                "tools" => write_tools(value, out),
                _ => {
                    out.push_str("Return output matching this JSON Schema:\n");
                    out.push_str(&json::pretty(value));
                }
            }
        }
        let mut before = String::from(envelope.before);
        if envelope.label == "react" && out.len() > content {
            before.push_str(REACT_TOOLS);
        }
        out.replace_range(start..content, &before);
        out.push_str(envelope.after);
        let body = start + before.len();
        Closed { label: envelope.label, body: (body, body + body_length), stripped }
    }
}

/// Keys of a tool that are not sent as its description: those for its execution, and the guidance, which is part of
/// the system prompt.
const INTERNAL: &[&str] =
    &["guidance", "system_guidance", "handler", "executor", "host_capability", "mcp_server"];

/// Writes a tools argument as pretty-printed JSON: the list of a registry, without closures and keys that are not
/// part of the description.
fn write_tools(value: &Value, out: &mut String) {
    let registry = value.as_dict().filter(|dict| {
        dict.get_str("_type").and_then(Value::as_str).is_some_and(|ty| ty.as_str() == "tool_registry")
    });
    let tools = without_functions(registry.and_then(|dict| dict.get_str("tools")).unwrap_or(value));
    let described = match tools.view() {
        View::List(items) => Value::list(items.iter().map(description).collect()),
        _ => description(&tools),
    };
    out.push_str(&json::pretty(&described));
}

/// Returns the part of a tool that is sent to the model.
fn description(tool: &Value) -> Value {
    match tool.view() {
        View::Dict(entries) => {
            let told = entries.iter().filter(|(key, _)| !INTERNAL.contains(&key.as_str()));
            told.map(|(key, value)| (key.clone(), value.clone())).collect::<Dict>().into()
        }
        _ => tool.clone(),
    }
}

/// Returns a copy without closures and builtin functions. Values may be nested arbitrarily deep, so the stack grows
/// on demand.
fn without_functions(value: &Value) -> Value {
    let kept = |value: &&Value| !matches!(value.type_name(), "closure" | "builtin");
    let dict = |entries: Vec<(&harn_value::Str, &Value)>| -> Value {
        let data = entries.into_iter().filter(|(_, value)| kept(value));
        data.map(|(key, value)| (key.clone(), without_functions(value))).collect::<Dict>().into()
    };
    harn_value::with_stack(|| match value.view() {
        View::List(items) => Value::list(items.iter().filter(kept).map(without_functions).collect()),
        View::Set(items) => items.iter().filter(kept).map(without_functions).collect::<Set>().into(),
        View::Dict(entries) => dict(entries.iter().collect()),
        View::Struct(object) => dict(object.fields()),
        _ => value.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn llm(capabilities: &[(&str, Value)]) -> Value {
        let caps: Dict = capabilities.iter().map(|(k, v)| (*k, v.clone())).collect();
        Value::dict([("capabilities", Value::dict(caps))].into_iter().collect())
    }

    fn close(
        name: &str,
        body: &str,
        capabilities: &[(&str, Value)],
        argument: Option<Value>,
    ) -> (String, &'static str) {
        let mut out = format!("before {body}");
        let spec = find(name).unwrap();
        let closed = spec.close(&mut out, "before ".len(), Some(&llm(capabilities)), argument.as_ref());
        let label = closed.label;
        assert!(spec.envelopes.iter().any(|e| e.label == label), "{label} is documented");
        (out.strip_prefix("before ").unwrap().to_owned(), label)
    }

    /// Returns capabilities that select an envelope of the table, based on its documented condition.
    fn capabilities_for(doc: &EnvelopeDoc) -> Vec<(&'static str, Value)> {
        let quoted: Vec<&str> = doc.when.split('`').skip(1).step_by(2).collect();
        match (doc.when.contains(" is "), &quoted[..]) {
            (true, [key, value]) => vec![(key, Value::str(value))],
            _ => quoted.iter().map(|flag| (*flag, Value::TRUE)).collect(),
        }
    }

    #[test]
    fn every_envelope_of_the_table_is_what_is_written() {
        for spec in SECTIONS {
            for doc in spec.envelopes {
                let capabilities = capabilities_for(doc);
                let (text, label) = close(spec.name, "\n  some body \n", &capabilities, None);
                assert_eq!(
                    (text.as_str(), label),
                    (doc.output.replace("BODY", "some body").as_str(), doc.label),
                    "{}",
                    spec.name
                );
                let empty = match spec.defaults.iter().find(|(label, _)| *label == doc.label) {
                    Some((_, default)) => doc.output.replace("BODY", default),
                    None if doc.label == "react" => doc.output.replace("\n\nAvailable tools:\nBODY", ""),
                    None => doc.output.replace("BODY", ""),
                };
                assert_eq!(close(spec.name, " \n ", &capabilities, None).0, empty, "{}", spec.name);
            }
        }
    }

    #[test]
    fn flags_count_only_when_exactly_true() {
        assert_eq!(close("task", "x", &[("prefers_xml_scaffolding", Value::int(1))], None).1, "plain");
        let both = [("prefers_xml_scaffolding", Value::TRUE), ("prefers_markdown_scaffolding", Value::TRUE)];
        assert_eq!(close("task", "x", &both, None).1, "xml");
    }

    #[test]
    fn the_output_mode_falls_back_to_structured_output() {
        let label =
            |mode: &str| close("output_format", "x", &[("structured_output", Value::str(mode))], None).1;
        assert_eq!(label("native"), "native_json");
        assert_eq!(label("format_kw"), "native_json");
        assert_eq!(label("tool_use"), "xml_tagged");
        assert_eq!(label("delimited"), "delimited");
        assert_eq!(label("other"), "plain");
    }

    #[test]
    fn arguments_follow_the_body_after_a_blank_line() {
        let schema = Value::dict([("type", Value::str("object"))].into_iter().collect());
        let expected =
            "Output Format:\nbody\n\nReturn output matching this JSON Schema:\n{\n  \"type\": \"object\"\n}";
        assert_eq!(close("output_format", "body", &[], Some(schema.clone())).0, expected);
        assert_eq!(close("output_format", "", &[], Some(schema)).0, expected.replace("body\n\n", ""));
        assert_eq!(close("tools", "", &[], Some(Value::NIL)).0, "Tools:\nnull");
        let registry: Dict =
            [("_type", Value::str("tool_registry")), ("tools", Value::list(vec![Value::str("a")]))]
                .into_iter()
                .collect();
        let react = [("text_tool_wire_format_supported", Value::TRUE)];
        let text = close("tools", "", &react, Some(Value::dict(registry.clone()))).0;
        assert_eq!(text, format!("{REACT}\n\nAvailable tools:\n[\n  \"a\"\n]"));
    }
}
