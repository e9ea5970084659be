//! How tokens are drawn and where a reply ends: options that every provider takes another part of.

use harn_schema::options::Options;
use harn_schema::shape::Shape;

/// Sampling options; `None` and an empty list leave it to the provider.
#[derive(Debug, Clone, PartialEq, Default, Options)]
#[options(data)]
pub struct Sampling {
    /// Sampling temperature.
    #[option(range = 0.0..=2.0)]
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    #[option(range = 0.0..=1.0)]
    pub top_p: Option<f64>,
    /// Samples from the k most likely tokens.
    #[option(range = 0..)]
    pub top_k: Option<i64>,
    /// Stop sequences.
    #[option(ty = "list<string>", shape = Shape::List(&Shape::Str), foreign = ["stop_sequences"])]
    pub stop: Vec<String>,
    /// Seed for repeatable sampling, where the provider supports it.
    pub seed: Option<i64>,
    /// Penalty for repetition, where the provider supports it.
    #[option(range = -2.0..=2.0)]
    pub frequency_penalty: Option<f64>,
    /// Penalty for repetition, where the provider supports it.
    #[option(range = -2.0..=2.0)]
    pub presence_penalty: Option<f64>,
}

impl Sampling {
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
    use harn_schema::options::DataOptions;
    use harn_value::{Data, json};

    #[test]
    fn what_is_open_is_filled() {
        let read = |options: Data| Sampling::read(options.as_object().unwrap()).unwrap();
        let own = read(json!({"temperature": 1, "stop": ["a", "2"]}));
        assert_eq!((own.temperature, own.stop.len(), own.is_set("top_k")), (Some(1.0), 2, false));
        let all = own.or(read(json!({"temperature": 0.5, "top_k": 3, "stop": ["b"]})));
        assert_eq!((all.temperature, all.top_k), (Some(1.0), Some(3)));
        assert_eq!(all.stop, ["a", "2"]);
    }
}
