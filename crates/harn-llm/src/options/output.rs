//! The options about the shape of a reply: `response_format`, `output_format`, schemas, validation.

use harn_schema::options::{DataOptions, Options};
use harn_value::Data as Value;

use crate::error::OptionError;
use crate::json::{Object, display};
use crate::options::shape::{REPEATS, SWITCH, Shape, only_known, shown};

/// What kind of reply is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputKind {
    /// Free text.
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON that fits a schema.
    JsonSchema,
}

/// What happens to a reply that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validation {
    /// It is returned as it is.
    Off,
    /// It is returned, and a warning is logged.
    Warn,
    /// The call fails.
    Error,
}

/// All options about the shape of a reply.
#[derive(Debug, Clone)]
pub struct OutputFormat {
    /// What is asked for.
    pub kind: OutputKind,
    /// The schema that the provider is told, as given.
    pub schema: Option<Value>,
    /// The schema that the reply is checked against, as given.
    pub check: Option<Value>,
    /// Whether an `output_format` of the caller asked for it (and so the route must support it).
    pub explicit: bool,
    /// Whether the caller wrote `strict: true`.
    pub caller_strict: bool,
    /// Whether strict checking by the provider is wanted if the schema allows it.
    pub strict: bool,
    /// `output_validation`.
    pub validation: Validation,
    /// `schema_retries`.
    pub schema_retries: u32,
    /// `schema_retry_nudge`.
    pub nudge: Nudge,
    /// `output_validator`, as the embedder knows it.
    pub validator: Option<Value>,
}

/// What the model is told before it tries again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nudge {
    /// The runtime's own text.
    Automatic,
    /// This text and the errors.
    Text(String),
    /// Nothing.
    Off,
}

/// The options about the shape of a reply.
#[derive(Options)]
#[options(data)]
pub(super) struct OutputOptions {
    /// The schema of the reply.
    #[option(ty = "dict", foreign = ["response_model", "response_schema"])]
    schema: Option<Value>,
    /// The schema of the reply; takes precedence over `schema`.
    #[option(ty = "dict")]
    json_schema: Option<Value>,
    /// The schema for validation, if it differs from `schema`.
    #[option(ty = "dict", dependent)]
    output_schema: Option<Value>,
    /// `"json"` or `"json_object"`: any JSON. Ignored if `schema` is set.
    #[option(ty = "string", shown = "\"text\"")]
    response_format: Option<Value>,
    /// How the provider receives the schema: `"text"`, `"json_object"` or `"json_schema"`, or a dict `{kind, schema, strict}` whose `kind` is one of them.
    #[option(ty = "string | dict", nil, dependent)]
    output_format: Option<Value>,
    /// The reaction to a reply that does not match the schema after all retries. Default without a schema: `"off"`.
    #[option(one_of = ["off", "warn", "error"], shown = "\"error\"")]
    output_validation: Option<String>,
    /// Checks the data after schema validation. Returns nil, or a string that describes the error.
    #[option(ty = "function", with = validator)]
    output_validator: Option<Value>,
    /// How often Harn asks the model again after a reply that does not match. A negative number means 0.
    #[option(default = 1, shape = REPEATS)]
    schema_retries: u32,
    /// The message that asks again: `true` for the built-in message, your own string, or `false` for no message.
    #[option(ty = "bool | string", shown = "true", shape = Shape::Either(&[Shape::Bool, Shape::Str]))]
    schema_retry_nudge: Option<Value>,
    /// `schema_retries` of the `llm_call_structured` functions. Ignored elsewhere, with a warning.
    #[option(ty = "int", shown = "3", shape = REPEATS)]
    _retries: (),
    /// `llm_call_structured_result`: if the last reply does not match, a second call fixes it. A dict holds the options of that call.
    #[option(ty = "bool | dict", shown = "false", shape = SWITCH)]
    _repair: (),
}

impl OutputFormat {
    /// Reads the options about the shape of a reply from the options of a loop.
    ///
    /// # Errors
    /// One of them is wrong.
    pub fn from_options(options: &Object) -> Result<OutputFormat, OptionError> {
        OutputOptions::read(options).map_err(OptionError::new).and_then(OutputFormat::new)
    }

    /// Returns whether the call wants data: its format is not text, or there is a schema to check.
    pub fn is_structured(&self) -> bool {
        self.kind != OutputKind::Text || self.check.is_some()
    }
}

fn schema_field(value: Option<&Value>, field: &str) -> Result<Option<Value>, OptionError> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(schema @ Value::Object(_)) => match harn_schema::slip(schema, field) {
            None => Ok(Some(schema.clone())),
            Some(slip) => Err(OptionError::new(slip)),
        },
        Some(_) => Err(OptionError::new(format!("{field}: expected a JSON Schema object"))),
    }
}

impl OutputFormat {
    pub(super) fn new(given: OutputOptions) -> Result<OutputFormat, OptionError> {
        let json_schema = match schema_field(given.json_schema.as_ref(), "json_schema")? {
            Some(schema) => Some(schema),
            None => schema_field(given.schema.as_ref(), "schema")?,
        };
        let output_schema = schema_field(given.output_schema.as_ref(), "output_schema")?;
        let (mut explicit, mut strict, mut caller_strict) = (false, true, false);
        let mut format_schema = None;
        let kind = match &given.output_format {
            None => {
                if json_schema.is_some() {
                    OutputKind::JsonSchema
                } else {
                    match response_format(given.response_format.as_ref())? {
                        OutputKind::Text if output_schema.is_some() && given.response_format.is_none() => {
                            OutputKind::JsonSchema
                        }
                        kind => kind,
                    }
                }
            }
            Some(Value::Null) => OutputKind::Text,
            Some(Value::String(word)) => {
                explicit = true;
                kind_word(word)?
            }
            Some(Value::Object(map)) => {
                explicit = true;
                only_known("output_format", map, &["kind", "type", "schema", "json_schema", "strict"])?;
                let field = if map.contains_key("schema") { "schema" } else { "json_schema" };
                format_schema = schema_field(map.get(field), "output_format.schema")?;
                match map.get("strict") {
                    None | Some(Value::Null) => {}
                    Some(Value::Bool(flag)) => {
                        strict = *flag;
                        caller_strict = *flag;
                    }
                    Some(other) => {
                        return Err(OptionError::new(format!(
                            "output_format.strict: expected a bool, got {}",
                            shown(other)
                        )));
                    }
                }
                kind_word(&map.get("kind").or_else(|| map.get("type")).map(display).unwrap_or_default())?
            }
            Some(_) => return Err(OptionError::new("output_format: expected string or dict")),
        };
        let schema = match kind {
            OutputKind::JsonSchema => {
                let schema =
                    format_schema.clone().or_else(|| json_schema.clone()).or_else(|| output_schema.clone());
                if schema.is_none() {
                    return Err(OptionError::new(
                        "output_format: kind \"json_schema\" requires a `schema` field",
                    ));
                }
                schema
            }
            _ => None,
        };
        let check = output_schema.or(json_schema).or(format_schema);
        let validator = given.output_validator;
        let is_judged = check.is_some() || validator.is_some();
        Ok(OutputFormat {
            kind,
            schema,
            check,
            explicit: explicit && kind != OutputKind::Text,
            caller_strict,
            strict,
            validation: match given.output_validation.as_deref() {
                Some("warn") => Validation::Warn,
                Some("off") => Validation::Off,
                Some(_) => Validation::Error,
                None if is_judged => Validation::Error,
                None => Validation::Off,
            },
            schema_retries: given.schema_retries,
            nudge: match given.schema_retry_nudge {
                Some(Value::Bool(false)) => Nudge::Off,
                Some(Value::String(text)) => Nudge::Text(text),
                _ => Nudge::Automatic,
            },
            validator,
        })
    }
}

/// Reads the closure that looks at answers. An embedder that keeps closures puts a dict in its place.
fn validator(value: &Value) -> Result<Option<Value>, OptionError> {
    if value.is_closure() || value.get(VALIDATOR).is_some() {
        return Ok(Some(value.clone()));
    }
    Err(OptionError::new(format!("output_validator must be a closure, got {}", shown(value))))
}

/// The key of the dict that stands for a closure.
pub const VALIDATOR: &str = "_validator";

fn response_format(value: Option<&Value>) -> Result<OutputKind, OptionError> {
    let Some(value) = value else { return Ok(OutputKind::Text) };
    match display(value).as_str() {
        "text" | "" => Ok(OutputKind::Text),
        "json" | "json_object" => Ok(OutputKind::JsonObject),
        other => Err(OptionError::new(format!(
            "response_format: expected \"json\", \"json_object\", or \"text\", got \"{other}\""
        ))),
    }
}

fn kind_word(word: &str) -> Result<OutputKind, OptionError> {
    match word.to_lowercase().as_str() {
        "text" | "none" | "off" => Ok(OutputKind::Text),
        "json" | "json_object" => Ok(OutputKind::JsonObject),
        "json_schema" | "schema" => Ok(OutputKind::JsonSchema),
        _ => Err(OptionError::new(format!(
            "output_format.kind: expected \"text\" | \"json_object\" | \"json_schema\", got \"{word}\""
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    fn kind(o: Value) -> Result<OutputKind, String> {
        OutputFormat::from_options(o.as_object().unwrap()).map(|f| f.kind).map_err(|e| e.0)
    }

    #[test]
    fn the_kind_follows_the_strongest_option() {
        let schema = json!({"type": "dict"});
        assert_eq!(kind(json!({})), Ok(OutputKind::Text));
        assert_eq!(kind(json!({"response_format": "json"})), Ok(OutputKind::JsonObject));
        assert_eq!(kind(json!({"response_format": "json", "schema": schema})), Ok(OutputKind::JsonSchema));
        assert_eq!(kind(json!({"output_schema": schema})), Ok(OutputKind::JsonSchema));
        assert_eq!(kind(json!({"output_format": null, "schema": schema})), Ok(OutputKind::Text));
        assert_eq!(kind(json!({"output_format": "JSON"})), Ok(OutputKind::JsonObject));
    }

    #[test]
    fn wrong_formats_are_named() {
        assert_eq!(
            kind(json!({"response_format": "xml"})).unwrap_err(),
            "response_format: expected \"json\", \"json_object\", or \"text\", got \"xml\""
        );
        assert_eq!(
            kind(json!({"output_format": "json_schema"})).unwrap_err(),
            "output_format: kind \"json_schema\" requires a `schema` field"
        );
        assert_eq!(kind(json!({"output_format": 3})).unwrap_err(), "output_format: expected string or dict");
        assert_eq!(
            kind(json!({"output_schema": 3})).unwrap_err(),
            "output_schema: expected a JSON Schema object"
        );
        assert_eq!(
            kind(json!({"output_format": {"kind": "json", "shema": {}}})).unwrap_err(),
            "output_format has no field `shema`; did you mean `schema`?"
        );
        assert_eq!(
            kind(json!({"output_format": {"kind": "json", "strict": 1}})).unwrap_err(),
            "output_format.strict: expected a bool, got int `1`"
        );
        assert_eq!(
            kind(json!({"output_format": {"kind": "x"}})).unwrap_err(),
            "output_format.kind: expected \"text\" | \"json_object\" | \"json_schema\", got \"x\""
        );
    }
}
