//! Partial answers: the value of a streamed reply that is still incomplete.

use harn_schema::partial::PartialSchema;
use harn_value::json::to_data;
use harn_value::json_partial::{parse_closed, parse_partial};
use harn_value::{Data, Value};

use super::provider_schema::{is_object, unwrapped, without_optional_nulls};
use crate::options::OutputFormat;

/// Incremental parser of a streamed reply.
///
/// The reply is parsed again only after it has grown by a sixteenth, so that parsing takes linear time in total.
pub struct PartialAnswer {
    /// The format of the answer; its schema is compiled on first use.
    output: OutputFormat,
    schema: Option<Compiled>,
    text: String,
    /// The length of the reply at the last parse.
    parsed: usize,
    last: Data,
}

/// The schema, compiled when the first value is parsed.
struct Compiled {
    partial: Option<PartialSchema>,
    json: Data,
    /// Whether the value may be wrapped in an object, because providers accept only objects at the root.
    wraps: bool,
    /// Whether an incomplete string may be equal to another value of an `enum`.
    is_ambiguous: bool,
}

impl PartialAnswer {
    /// Creates a parser for a format; `None` if the format is not structured.
    pub fn new(output: &OutputFormat) -> Option<PartialAnswer> {
        output.is_structured().then(|| PartialAnswer {
            output: output.clone(),
            schema: None,
            text: String::new(),
            parsed: 0,
            last: Data::Null,
        })
    }

    /// Appends a piece of the reply. Returns the partial object or list if it has changed and does not violate the
    /// schema.
    pub fn push(&mut self, text: &str) -> Option<Data> {
        self.text.push_str(text);
        if self.text.len() > self.parsed + self.parsed / 16 { self.value() } else { None }
    }

    /// Returns the complete answer, unless [`push`](Self::push) has already returned it.
    pub fn complete(&mut self, data: &Data) -> Option<Data> {
        let is_new = (data.is_object() || data.is_array()) && *data != self.last;
        is_new.then(|| {
            self.last.clone_from(data);
            data.clone()
        })
    }

    /// Discards the reply before it is requested again. Returns whether any of its values has been returned.
    pub fn restart(&mut self) -> bool {
        self.text.clear();
        self.parsed = 0;
        !std::mem::take(&mut self.last).is_null()
    }

    fn value(&mut self) -> Option<Data> {
        self.parsed = self.text.len();
        let schema = self.schema.get_or_insert_with(|| Compiled::new(&self.output));
        let json = json_of(&self.text);
        let fitting = |parsed: Result<Value, _>| parsed.ok().and_then(|value| schema.fitting(&value));
        let open = if schema.is_ambiguous { None } else { fitting(parse_partial(json)) };
        let value = open.or_else(|| fitting(parse_closed(json)))?;
        if value == self.last {
            return None;
        }
        self.last.clone_from(&value);
        Some(value)
    }
}

impl Compiled {
    fn new(output: &OutputFormat) -> Compiled {
        let json = output.check.as_ref().map(harn_schema::as_json_schema);
        Compiled {
            partial: output.check.as_ref().map(PartialSchema::new),
            wraps: json.as_ref().is_some_and(|schema| !is_object(schema)),
            is_ambiguous: json.as_ref().is_some_and(|schema| {
                let mut strings = Vec::new();
                enum_strings(schema, &mut strings);
                strings
                    .iter()
                    .any(|part| strings.iter().any(|whole| whole != part && whole.starts_with(part)))
            }),
            json: json.unwrap_or_default(),
        }
    }

    fn fitting(&self, value: &Value) -> Option<Data> {
        let data = to_data(value).ok()?;
        let data = if self.wraps { unwrapped(&data).cloned().unwrap_or(data) } else { data };
        let mut data = without_optional_nulls(&self.json, &data);
        let has_structure = data.is_object() || data.is_array();
        (has_structure && self.partial.as_ref().is_none_or(|schema| schema.accepts(&mut data)))
            .then_some(data)
    }
}

/// Collects the strings accepted by `enum` and `const` in a schema.
fn enum_strings<'s>(schema: &'s Data, out: &mut Vec<&'s str>) {
    match schema {
        Data::Object(map) => {
            for (key, value) in map {
                match (key.as_str(), value) {
                    ("const", Data::String(text)) => out.push(text),
                    ("enum", Data::Array(list)) => out.extend(list.iter().filter_map(Data::as_str)),
                    _ => enum_strings(value, out),
                }
            }
        }
        Data::Array(list) => list.iter().for_each(|item| enum_strings(item, out)),
        _ => {}
    }
}

/// Returns the part of the reply that starts with its first object or list, without an enclosing code fence.
fn json_of(text: &str) -> &str {
    let text = text.trim_start();
    let Some(fenced) = text.strip_prefix("```") else {
        return text.find(['{', '[']).map_or("", |start| &text[start..]);
    };
    let Some((_, body)) = fenced.split_once('\n') else { return "" };
    body.split_once("\n```").map_or(body.trim_end_matches('`'), |(json, _)| json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;
    use proptest::prelude::*;

    fn answer(schema: Data) -> PartialAnswer {
        let options = json!({"schema": schema});
        PartialAnswer::new(&OutputFormat::from_options(options.as_object().unwrap()).unwrap()).unwrap()
    }

    fn values(schema: Data, pieces: &[&str]) -> Vec<String> {
        let mut answer = answer(schema);
        pieces.iter().filter_map(|piece| answer.push(piece)).map(|value| value.to_string()).collect()
    }

    #[test]
    fn values_fit_as_far_as_they_have_arrived() {
        let bill = json!({
            "type": "object",
            "properties": {
                "kind": {"enum": ["bill", "offer"]},
                "lines": {"type": "array", "items": {"type": "integer"}},
                "note": {"type": "string"},
            },
            "required": ["kind", "lines"],
        });
        assert_eq!(
            values(bill.clone(), &["{\"kind\": \"bi", "ll\", \"lines\": [1", ", 2, 3, 4", "]}"]),
            ["{}", r#"{"kind":"bill","lines":[]}"#, r#"{"kind":"bill","lines":[1,2,3]}"#]
        );
        assert_eq!(values(bill.clone(), &["{\"kind\": 7, ", "\"lines\": [1]}"]), [] as [&str; 0]);
        // Providers with a strict mode return null for a missing optional key.
        assert_eq!(
            values(bill, &["{\"note\": null, \"kind\": \"bill\"", ", \"lines\": [1, "]),
            [r#"{"kind":"bill"}"#, r#"{"kind":"bill","lines":[1]}"#]
        );
    }

    #[test]
    fn an_incomplete_string_is_no_value_of_an_enum() {
        let size = json!({"type": "object", "properties": {"size": {"enum": ["small", "smaller"]}, "n": {"type": "integer"}}});
        assert_eq!(
            values(size, &["{\"size\": \"small", "er\", \"n\": 1", "0, "]),
            ["{}", r#"{"size":"smaller"}"#, r#"{"n":10,"size":"smaller"}"#]
        );
    }

    #[test]
    fn wrapped_fenced_and_introduced_answers_are_found() {
        let list = json!({"type": "array", "items": {"type": "string"}});
        let both = [r#"["a"]"#, r#"["a","b"]"#];
        assert_eq!(values(list.clone(), &["{\"result\": [\"a", "\", \"b\"]}"]), both);
        assert_eq!(values(list.clone(), &["```json\n[\"a\"", ", \"b\"]\n", "```"]), both);
        assert_eq!(values(list, &["Here it is:\n[\"a\"", ", \"b\"]"]), both);
    }

    #[test]
    fn the_complete_answer_comes_once() {
        let mut answer = answer(json!({"type": "object"}));
        let whole = json!({"a": 1});
        assert_eq!(answer.push("{\"a\": 1,"), Some(whole.clone()));
        assert_eq!(answer.complete(&whole), None);
        assert_eq!(answer.complete(&json!({"a": 1, "b": 2})), Some(json!({"a": 1, "b": 2})));
        answer.restart();
        assert_eq!(answer.push("{\"a\": 1,"), Some(whole));
    }

    #[test]
    fn parsing_takes_linear_time() {
        let mut answer = answer(json!({"type": "object"}));
        let (mut parsed, mut total) = (0, 0_usize);
        answer.push("{\"a\": \"");
        for _ in 0..20_000 {
            answer.push("four");
            if answer.parsed > parsed {
                parsed = answer.parsed;
                total += parsed;
            }
        }
        assert!(total < 20 * answer.text.len(), "{total} of {}", answer.text.len());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// However the reply is split, the last value is the complete answer, and no earlier value has more items.
        #[test]
        fn the_last_value_is_the_whole(lines in prop::collection::vec(("[a-z\"\\\\]{0,6}", any::<i32>()), 0..6), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20)) {
            let schema = json!({"type": "array", "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
                "required": ["name", "count"],
            }});
            let whole: Data = lines.iter().map(|(name, count)| json!({"name": name, "count": count})).collect();
            let text = whole.to_string();
            let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).chain([text.len()]).collect();
            ends.sort_unstable();
            let (mut answer, mut from, mut last) = (answer(schema), 0, None);
            for end in ends {
                last = answer.push(&text[from..end]).or(last);
                from = end;
                let items = last.as_ref().and_then(Data::as_array).map_or(0, Vec::len);
                prop_assert!(items <= lines.len());
            }
            last = answer.complete(&whole).or(last);
            prop_assert_eq!(last, Some(whole));
        }
    }
}
