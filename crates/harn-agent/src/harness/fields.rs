//! Reads the fields of a constructor's dict; errors name the constructor and the field.

use harn_value::{Data as Value, data::Map};

use super::HarnessError;
use harn_prompt::value::present;

/// The dict of one constructor call.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    pub(super) function: &'a str,
    pub(super) map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// Reads `value` as a dict that has only keys in `keys`.
    pub(super) fn of(function: &'a str, value: &'a Value, keys: &[&str]) -> Result<Self, HarnessError> {
        let map = value.as_object().ok_or_else(|| HarnessError::Field {
            function: function.to_owned(),
            field: "argument".to_owned(),
            expected: "a dict",
        })?;
        match map.keys().find(|key| !keys.contains(&key.as_str())) {
            Some(key) => Err(HarnessError::UnknownKey { function: function.to_owned(), key: key.clone() }),
            None => Ok(Self { function, map }),
        }
    }

    /// Builds the error that `field` has the wrong type.
    pub(super) fn wrong(&self, field: &str, expected: &'static str) -> HarnessError {
        HarnessError::Field { function: self.function.to_owned(), field: field.to_owned(), expected }
    }

    /// Returns the value of `key` unless it is missing or nil.
    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        present(self.map, key)
    }

    /// Returns the non-empty string of `key`.
    pub(super) fn name(&self, key: &str) -> Result<String, HarnessError> {
        let value = self.get(key).and_then(Value::as_str).filter(|name| !name.trim().is_empty());
        value.map(str::to_owned).ok_or_else(|| self.wrong(key, "a non-empty string"))
    }

    /// Returns the string of `key`; `None` if missing or nil.
    pub(super) fn string(&self, key: &str) -> Result<Option<String>, HarnessError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(self.wrong(key, "a string")),
        }
    }

    /// Returns the bool of `key`; `None` if missing or nil.
    pub(super) fn bool(&self, key: &str) -> Result<Option<bool>, HarnessError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(_) => Err(self.wrong(key, "a bool")),
        }
    }

    /// Returns the positive int of `key`; `None` if missing or nil.
    pub(super) fn positive(&self, key: &str) -> Result<Option<u64>, HarnessError> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => value
                .as_u64()
                .filter(|n| *n >= 1)
                .map(Some)
                .ok_or_else(|| self.wrong(key, "an int of at least 1")),
        }
    }

    /// Returns the list of `key`; empty if missing or nil.
    pub(super) fn list(&self, key: &str) -> Result<&'a [Value], HarnessError> {
        match self.get(key) {
            None => Ok(&[]),
            Some(Value::Array(items)) => Ok(items),
            Some(_) => Err(self.wrong(key, "a list")),
        }
    }

    /// Returns the unparsed tool specs of the list of `key`. An item that is not a dict is an error with its index.
    pub(super) fn tools(&self, key: &str) -> Result<&'a [Value], HarnessError> {
        let items = self.list(key)?;
        match items.iter().position(|item| item.as_object().is_none()) {
            Some(at) => Err(self.wrong(&format!("{key}[{at}]"), "a tool that define_tool made")),
            None => Ok(items),
        }
    }

    /// Returns the non-empty strings of the list of `key`.
    pub(super) fn strings(&self, key: &str) -> Result<Vec<String>, HarnessError> {
        let text = |item: &Value| item.as_str().filter(|s| !s.trim().is_empty()).map(str::to_owned);
        let items: Option<Vec<String>> = self.list(key)?.iter().map(text).collect();
        items.ok_or_else(|| self.wrong(key, "a list of non-empty strings"))
    }

    /// Returns the dict of `key`; `None` if missing or nil.
    pub(super) fn dict(&self, key: &str) -> Result<Option<&'a Map<String, Value>>, HarnessError> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => value.as_object().map(Some).ok_or_else(|| self.wrong(key, "a dict")),
        }
    }
}

/// Converts the two call forms of a constructor, `f(name, {...})` and `f({name: ..., ...})`, to one dict.
///
/// # Errors
/// The last argument is not a dict.
pub fn named_config(function: &str, arguments: &[Value]) -> Result<Value, HarnessError> {
    let not_a_dict = || HarnessError::Field {
        function: function.to_owned(),
        field: "argument".to_owned(),
        expected: "a name and a dict, or a dict with a name",
    };
    match arguments {
        [config] if config.as_object().is_some() => Ok(config.clone()),
        [name] => Ok(Value::Object(Map::from_iter([("name".to_owned(), name.clone())]))),
        [name, config] => {
            let mut map = config.as_object().ok_or_else(not_a_dict)?.clone();
            map.insert("name".to_owned(), name.clone());
            Ok(Value::Object(map))
        }
        _ => Err(not_a_dict()),
    }
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;

    #[test]
    fn both_call_forms_give_one_dict() {
        let both = json!({"a": 1, "name": "n"});
        assert_eq!(named_config("f", &[json!("n"), json!({"a": 1})]).unwrap(), both);
        assert_eq!(named_config("f", std::slice::from_ref(&both)).unwrap(), both);
        assert_eq!(named_config("f", &[json!("n")]).unwrap(), json!({"name": "n"}));
        assert_eq!(
            named_config("f", &[json!("n"), json!(1)]).unwrap_err().to_string(),
            "f: argument must be a name and a dict, or a dict with a name"
        );
        assert!(named_config("f", &[]).is_err());
    }

    #[test]
    fn errors_name_constructor_and_field() {
        let error = |result: Result<(), HarnessError>| result.unwrap_err().to_string();
        let value = json!({"s": 1, "b": 1, "n": 0, "l": "x", "ls": ["a", ""], "d": [], "e": " "});
        let f = Fields::of("f", &value, &["s", "b", "n", "l", "ls", "d", "e"]).unwrap();
        assert_eq!(error(f.string("s").map(drop)), "f: s must be a string");
        assert_eq!(error(f.bool("b").map(drop)), "f: b must be a bool");
        assert_eq!(error(f.positive("n").map(drop)), "f: n must be an int of at least 1");
        assert_eq!(error(f.list("l").map(drop)), "f: l must be a list");
        assert_eq!(error(f.strings("ls").map(drop)), "f: ls must be a list of non-empty strings");
        assert_eq!(error(f.dict("d").map(drop)), "f: d must be a dict");
        assert_eq!(error(f.name("e").map(drop)), "f: e must be a non-empty string");
        assert_eq!(error(Fields::of("f", &value, &["s"]).map(drop)), "f: unknown key 'b'");
        assert_eq!(error(Fields::of("f", &json!(1), &[]).map(drop)), "f: argument must be a dict");
    }
}
