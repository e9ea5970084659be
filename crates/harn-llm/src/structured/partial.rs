//! The answer of a stream as far as it has arrived.

use harn_schema::partial::PartialSchema;
use harn_value::json::to_data;
use harn_value::json_partial::{parse_closed, parse_partial};
use harn_value::{Data, Value};

use super::provider_schema::{is_object, unwrapped};
use crate::options::OutputFormat;

/// Parses the text of a reply while it arrives.
///
/// The text is parsed again when it has grown by a sixteenth, so that all parsing together takes linear time.
pub struct PartialAnswer {
    schema: Option<PartialSchema>,
    /// Whether the value may be wrapped in an object, because providers take only objects at the root.
    wraps: bool,
    text: String,
    /// The length that was parsed last.
    parsed: usize,
    last: Data,
}

impl PartialAnswer {
    /// An answer in a format; `None` where the format has no structure.
    pub fn new(output: &OutputFormat) -> Option<PartialAnswer> {
        output.is_structured().then(|| PartialAnswer {
            schema: output.check.as_ref().map(PartialSchema::new),
            wraps: output
                .check
                .as_ref()
                .is_some_and(|schema| !is_object(&harn_schema::as_json_schema(schema))),
            text: String::new(),
            parsed: 0,
            last: Data::Null,
        })
    }

    /// Adds text; returns the object or list so far if it is a new one that fits the schema as far as it has arrived.
    pub fn push(&mut self, text: &str) -> Option<Data> {
        self.text.push_str(text);
        if self.text.len() > self.parsed + self.parsed / 16 { self.value() } else { None }
    }

    /// Returns the last value, if [`push`](Self::push) has not returned it.
    pub fn finish(&mut self) -> Option<Data> {
        if self.text.len() > self.parsed { self.value() } else { None }
    }

    /// Drops the text of a reply that is asked for again.
    pub fn restart(&mut self) {
        self.text.clear();
        (self.parsed, self.last) = (0, Data::Null);
    }

    fn value(&mut self) -> Option<Data> {
        self.parsed = self.text.len();
        let json = json_of(&self.text);
        let value =
            [parse_partial, parse_closed].into_iter().find_map(|parse| self.fitting(&parse(json).ok()?))?;
        if value == self.last {
            return None;
        }
        self.last.clone_from(&value);
        Some(value)
    }

    fn fitting(&self, value: &Value) -> Option<Data> {
        let data = to_data(value).ok()?;
        let mut data = if self.wraps { unwrapped(&data).cloned().unwrap_or(data) } else { data };
        let has_structure = data.is_object() || data.is_array();
        (has_structure && self.schema.as_ref().is_none_or(|schema| schema.accepts(&mut data))).then_some(data)
    }
}

/// The text from its first object or list on, without a code fence around it.
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
        let mut out: Vec<String> =
            pieces.iter().filter_map(|piece| answer.push(piece)).map(|v| v.to_string()).collect();
        out.extend(answer.finish().map(|v| v.to_string()));
        out
    }

    #[test]
    fn values_fit_as_far_as_they_have_arrived() {
        let bill = json!({
            "type": "object",
            "properties": {"kind": {"enum": ["bill", "offer"]}, "lines": {"type": "array", "items": {"type": "integer"}}},
            "required": ["kind", "lines"],
        });
        assert_eq!(
            values(bill.clone(), &["{\"kind\": \"bi", "ll\", \"lines\": [1", ", 2", "]}"]),
            [
                "{}",
                r#"{"kind":"bill","lines":[]}"#,
                r#"{"kind":"bill","lines":[1]}"#,
                r#"{"kind":"bill","lines":[1,2]}"#
            ]
        );
        assert_eq!(values(bill, &["{\"kind\": 7, ", "\"lines\": [1]}"]), [] as [&str; 0]);
    }

    #[test]
    fn wrapped_and_fenced_answers_are_unwrapped() {
        let list = json!({"type": "array", "items": {"type": "string"}});
        assert_eq!(values(list.clone(), &["{\"result\": [\"a", "\", \"b\"]}"]), [r#"["a"]"#, r#"["a","b"]"#]);
        assert_eq!(values(list, &["```json\n[\"a\"", ", \"b\"]\n", "```"]), [r#"["a"]"#, r#"["a","b"]"#]);
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

        /// Whatever the pieces are, the last value is the whole one, and each value before it fits the schema.
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
            last = answer.finish().or(last);
            prop_assert_eq!(last, Some(whole));
        }
    }
}
