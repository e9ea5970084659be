//! Structural experiments: deterministic changes to the shape of a prompt, applied once per call.

use harn_value::{Data as Value, json};

use crate::embedder::Embedder;
use crate::error::OptionError;
use crate::json::{Object, display, str_at, truthy};

/// An experiment as described by the option.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// The name of a built-in experiment, or the caller's name for its own.
    pub name: String,
    /// Label for reports.
    pub label: String,
    /// Arguments.
    pub args: Value,
    /// The caller's transformation, opaque to this crate.
    pub transform: Option<Value>,
}

const BUILTIN: [&str; 4] =
    ["prompt_order_permutation", "doubled_prompt", "chain_of_draft", "inverted_system"];

impl Experiment {
    /// Parses the option; `None` when it selects no experiment.
    ///
    /// # Errors
    /// The name is unknown, or a dict has neither a name nor a transformation.
    pub fn parse(option: &Value) -> Result<Option<Experiment>, OptionError> {
        match option {
            Value::Null | Value::Bool(false) => Ok(None),
            Value::String(spec) if spec.trim().is_empty() => Ok(None),
            Value::String(spec) => parse_spec(spec).map(Some),
            Value::Object(dict) => {
                let transform = dict.get("transform");
                let name = str_at(option, "name").map(str::to_string);
                let args = dict.get("args").filter(|a| !a.is_null()).cloned().unwrap_or_else(|| json!({}));
                let Some(transform) = transform.filter(|t| truthy(t)) else {
                    let name = name.ok_or_else(|| {
                        OptionError::new("structural_experiment: dict form requires `name` or `transform`")
                    })?;
                    let mut made = parse_spec(&name)?;
                    if let (Some(own), Value::Object(given)) = (made.args.as_object_mut(), args) {
                        own.extend(given);
                    }
                    made.label = str_at(option, "label").unwrap_or(&made.label).to_string();
                    return Ok(Some(made));
                };
                let name = name.unwrap_or_else(|| "custom".into());
                let label = str_at(option, "label").unwrap_or(&name).to_string();
                Ok(Some(Experiment { name, label, args, transform: Some(transform.clone()) }))
            }
            other => Err(unknown(&display(other))),
        }
    }

    /// Returns the dict recorded in transcripts.
    pub fn to_json(&self, metadata: &Value) -> Value {
        json!({"label": self.label, "name": self.name, "args": self.args, "metadata": metadata})
    }

    /// Applies a built-in experiment to messages and system prompt; returns its metadata.
    pub fn apply(
        &self,
        messages: &mut Vec<Value>,
        system: &mut Option<String>,
        embedder: &dyn Embedder,
    ) -> Value {
        let last =
            messages.iter().rposition(|m| str_at(m, "role") == Some("user") && m["content"].is_string());
        let Some(index) = last else { return json!({}) };
        let text = messages[index]["content"].as_str().unwrap_or_default().to_string();
        match self.name.as_str() {
            "prompt_order_permutation" => {
                let seed = self.args.get("seed").and_then(Value::as_i64).unwrap_or(0);
                let sections: Vec<&str> = text.split("\n\n").filter(|s| !s.trim().is_empty()).collect();
                let order = permutation(sections.len(), seed);
                let moved: Vec<&str> = order.iter().map(|n| sections[*n]).collect();
                messages[index]["content"] = moved.join("\n\n").into();
                json!({"seed": seed, "order": order})
            }
            "doubled_prompt" => {
                let copy = messages[index].clone();
                messages.insert(0, copy.clone());
                messages.push(copy);
                json!({})
            }
            "chain_of_draft" => {
                let request = embedder.prose("llm/chain_of_draft", &self.args);
                messages[index]["content"] = format!("{text}\n\n{request}").into();
                json!({})
            }
            "inverted_system" => {
                let swapped = system.is_some();
                if let Some(own) = system.as_mut() {
                    let old = std::mem::replace(own, text);
                    messages[index]["content"] = old.into();
                }
                json!({"swapped": swapped})
            }
            _ => json!({}),
        }
    }
}

fn unknown(name: &str) -> OptionError {
    OptionError::new(format!("unknown structural experiment `{name}`"))
}

/// Parses `name` or `name(arg: value, …)`.
fn parse_spec(spec: &str) -> Result<Experiment, OptionError> {
    let spec = spec.trim();
    let (name, inner) = match spec.split_once('(') {
        None => (spec, ""),
        Some((name, rest)) => (name.trim(), rest.strip_suffix(')').ok_or_else(|| unknown(spec))?),
    };
    if !BUILTIN.contains(&name) {
        return Err(unknown(spec));
    }
    let mut args = Object::new();
    for part in inner.split(',').filter(|p| !p.trim().is_empty()) {
        let (key, value) = part.split_once(':').ok_or_else(|| unknown(spec))?;
        let value = value.trim();
        let parsed = serde_json::from_str(value).unwrap_or_else(|_| value.trim_matches(['\'', '"']).into());
        args.insert(key.trim().to_string(), parsed);
    }
    Ok(Experiment {
        name: name.to_string(),
        label: name.to_string(),
        args: Value::Object(args),
        transform: None,
    })
}

/// Returns a permutation of `0..len` that depends only on the seed. It moves at least one element if possible.
fn permutation(len: usize, seed: i64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    // SplitMix64: mixes a seed well enough and is the same on every platform.
    let mut state = seed.cast_unsigned();
    for n in (1..len).rev() {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        let other = usize::try_from(z % (n as u64 + 1)).unwrap_or(0);
        order.swap(n, other);
    }
    if len > 1 && order.iter().enumerate().all(|(n, m)| n == *m) {
        order.rotate_left(1);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedder::StdEmbedder;

    fn run(option: Value, text: &str, system: Option<&str>) -> (Vec<String>, Option<String>) {
        let experiment = Experiment::parse(&option).unwrap().unwrap();
        let mut messages = vec![json!({"role": "user", "content": text})];
        let mut system = system.map(str::to_string);
        experiment.apply(&mut messages, &mut system, &StdEmbedder::default());
        (messages.iter().map(|m| display(&m["content"])).collect(), system)
    }

    #[test]
    fn builtins_change_the_last_user_message() {
        assert_eq!(run(json!("doubled_prompt"), "a", None).0, ["a", "a", "a"]);
        assert_eq!(run(json!("inverted_system"), "a", Some("s")), (vec!["s".into()], Some("a".into())));
        assert_eq!(run(json!("inverted_system"), "a", None), (vec!["a".into()], None));
        assert!(
            run(json!({"name": "chain_of_draft"}), "a", None).0[0].starts_with("a\n\nllm/chain_of_draft")
        );
    }

    #[test]
    fn permutations_are_deterministic_and_move_something() {
        let text = "a\n\nb\n\nc";
        for seed in 0..50 {
            let option = json!(format!("prompt_order_permutation(seed: {seed})"));
            let moved = run(option.clone(), text, None).0;
            assert_ne!(moved, [text]);
            assert_eq!(run(option, text, None).0, moved);
            let mut parts: Vec<&str> = moved[0].split("\n\n").collect();
            parts.sort_unstable();
            assert_eq!(parts, ["a", "b", "c"]);
        }
        assert_eq!(run(json!("prompt_order_permutation"), "one", None).0, ["one"]);
    }

    #[test]
    fn wrong_options_are_named() {
        let error = |o: Value| Experiment::parse(&o).unwrap_err().0;
        assert_eq!(error(json!("zzz")), "unknown structural experiment `zzz`");
        assert_eq!(
            error(json!({"label": "x"})),
            "structural_experiment: dict form requires `name` or `transform`"
        );
        assert_eq!(Experiment::parse(&json!(false)), Ok(None));
    }
}
