//! How tokens are drawn and where a reply ends: options that every provider takes another part of.

use harn_value::Data as Value;

use crate::json::{display, int_at, list_at};

/// Sampling options; `None` and an empty list leave it to the provider.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sampling {
    /// `temperature`.
    pub temperature: Option<f64>,
    /// `top_p`: nucleus sampling.
    pub top_p: Option<f64>,
    /// `top_k`.
    pub top_k: Option<i64>,
    /// `stop`: texts that end the reply.
    pub stop: Vec<String>,
    /// `seed`.
    pub seed: Option<i64>,
    /// `frequency_penalty`.
    pub frequency_penalty: Option<f64>,
    /// `presence_penalty`.
    pub presence_penalty: Option<f64>,
}

impl Sampling {
    /// Reads the options from a dict that was checked.
    pub fn from_json(o: &Value) -> Sampling {
        let float = |key: &str| o.get(key).and_then(Value::as_f64);
        Sampling {
            temperature: float("temperature"),
            top_p: float("top_p"),
            top_k: int_at(o, "top_k"),
            stop: list_at(o, "stop").iter().map(display).collect(),
            seed: int_at(o, "seed"),
            frequency_penalty: float("frequency_penalty"),
            presence_penalty: float("presence_penalty"),
        }
    }

    /// Fills what is left open.
    #[must_use]
    pub fn or(self, defaults: Sampling) -> Sampling {
        Sampling {
            temperature: self.temperature.or(defaults.temperature),
            top_p: self.top_p.or(defaults.top_p),
            top_k: self.top_k.or(defaults.top_k),
            stop: if self.stop.is_empty() { defaults.stop } else { self.stop },
            seed: self.seed.or(defaults.seed),
            frequency_penalty: self.frequency_penalty.or(defaults.frequency_penalty),
            presence_penalty: self.presence_penalty.or(defaults.presence_penalty),
        }
    }

    /// Removes the option of this name.
    pub fn unset(&mut self, name: &str) {
        match name {
            "temperature" => self.temperature = None,
            "top_p" => self.top_p = None,
            "top_k" => self.top_k = None,
            "stop" => self.stop.clear(),
            "seed" => self.seed = None,
            "frequency_penalty" => self.frequency_penalty = None,
            "presence_penalty" => self.presence_penalty = None,
            _ => {}
        }
    }

    /// Returns whether the option of this name is set.
    pub fn is_set(&self, name: &str) -> bool {
        match name {
            "temperature" => self.temperature.is_some(),
            "top_p" => self.top_p.is_some(),
            "top_k" => self.top_k.is_some(),
            "stop" => !self.stop.is_empty(),
            "seed" => self.seed.is_some(),
            "frequency_penalty" => self.frequency_penalty.is_some(),
            "presence_penalty" => self.presence_penalty.is_some(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    #[test]
    fn what_is_open_is_filled() {
        let own = Sampling::from_json(&json!({"temperature": 1, "stop": ["a", "2"]}));
        assert_eq!((own.temperature, own.stop.len(), own.is_set("top_k")), (Some(1.0), 2, false));
        let all = own.or(Sampling::from_json(&json!({"temperature": 0.5, "top_k": 3, "stop": ["b"]})));
        assert_eq!((all.temperature, all.top_k), (Some(1.0), Some(3)));
        assert_eq!(all.stop, ["a", "2"]);
    }
}
