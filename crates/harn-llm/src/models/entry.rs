//! One model of the catalogue.

use harn_value::{Data as Value, json};

use crate::config::{Above, Pricing};

/// How an entry was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// The provider has a model with this name.
    Exact,
    /// The model's vendor has a model with this name; the provider is a gateway or a cloud.
    Vendor,
    /// Only the model's family is known; the entry is the newest model of the family.
    Family,
}

impl Match {
    /// Returns the name of this match.
    pub fn as_str(self) -> &'static str {
        match self {
            Match::Exact => "exact",
            Match::Vendor => "vendor",
            Match::Family => "family",
        }
    }
}

/// The catalogue data of one model.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The name of the row, `PROVIDER/MODEL`.
    pub name: String,
    /// How the row was found.
    pub found: Match,
    /// Prices.
    pub pricing: Option<Pricing>,
    /// The context window in prompt tokens.
    pub context: Option<i64>,
    /// The maximum number of reply tokens.
    pub output: Option<i64>,
    /// Features, named as by the generator; a leading `!` negates one.
    pub features: Vec<String>,
    /// Reasoning efforts that the model accepts in addition to `low`, `medium` and `high`; a leading `!` excludes one.
    pub efforts: Vec<String>,
    /// The first day on which the model is no longer served, as `YYYY-MM-DD`.
    pub retires: Option<String>,
    /// The model that replaces it.
    pub successor: Option<String>,
    /// URL of the source.
    pub source: Option<String>,
    /// The data from which the table was generated.
    pub origin: String,
    /// The day on which the source was read, as `YYYY-MM-DD`.
    pub checked: String,
}

impl Entry {
    /// Parses the fields after the name of a row.
    pub(super) fn parse(name: &str, fields: &str, found: Match, checked: &str) -> Entry {
        let mut entry = Entry {
            name: name.to_owned(),
            found,
            pricing: None,
            context: None,
            output: None,
            features: Vec::new(),
            efforts: Vec::new(),
            retires: None,
            successor: None,
            source: None,
            origin: String::new(),
            checked: checked.to_owned(),
        };
        let (mut input, mut output) = (None, None);
        let (mut read, mut write, mut hour, mut above) = (None, None, None, None);
        for (key, value) in fields.split('\t').filter_map(|field| field.split_once('=')) {
            let number = || value.parse::<f64>().ok();
            let list = || value.split(',').map(str::to_owned).collect();
            match key {
                "in" => input = number(),
                "out" => output = number(),
                "read" => read = number(),
                "write" => write = number(),
                "hour" => hour = number(),
                "above" => above = tier(value),
                "context" => entry.context = value.parse().ok(),
                "max" => entry.output = value.parse().ok(),
                "can" => entry.features = list(),
                "efforts" => entry.efforts = list(),
                "retires" => entry.retires = Some(value.to_owned()),
                "successor" => entry.successor = Some(value.to_owned()),
                "source" => entry.source = Some(value.to_owned()),
                "checked" => value.clone_into(&mut entry.checked),
                // Ignores unknown fields; a later table may have more.
                _ => {}
            }
        }
        entry.pricing = input.zip(output).map(|(input_per_mtok, output_per_mtok)| Pricing {
            input_per_mtok,
            output_per_mtok,
            cache_read_per_mtok: read,
            cache_write_per_mtok: write,
            cache_write_hour_per_mtok: hour,
            above,
        });
        entry
    }

    /// Returns whether the model has a feature; `None` when the catalogue does not contain it.
    pub fn can(&self, feature: &str) -> Option<bool> {
        self.features.iter().find_map(|f| match f.strip_prefix('!') {
            Some(name) => (name == feature).then_some(false),
            None => (f == feature).then_some(true),
        })
    }

    /// Returns whether the model accepts a reasoning effort; `None` when the catalogue does not contain it.
    pub(crate) fn takes_effort(&self, effort: &str) -> Option<bool> {
        self.efforts.iter().find_map(|e| match e.strip_prefix('!') {
            Some(name) => (name == effort).then_some(false),
            None => (e == effort).then_some(true),
        })
    }

    /// Returns whether the model is no longer served on a day (`YYYY-MM-DD`).
    pub fn is_retired_on(&self, day: &str) -> bool {
        self.found != Match::Family && self.retires.as_deref().is_some_and(|retires| retires <= day)
    }

    /// Returns the entry as a dict.
    pub fn to_json(&self) -> Value {
        json!({
            "row": self.name, "match": self.found.as_str(), "pricing": self.pricing.map(Pricing::to_json),
            "context_window": self.context, "max_output_tokens": self.output, "features": self.features,
            "efforts": self.efforts, "retires": self.retires, "successor": self.successor,
            "source": self.source, "origin": self.origin, "checked": self.checked,
        })
    }
}

/// Parses `TOKENS:in,out,read,write`: the prices of prompts with more than `TOKENS` tokens. Empty fields have the
/// normal price.
fn tier(text: &str) -> Option<Above> {
    let (tokens, prices) = text.split_once(':')?;
    let mut prices = prices.split(',').map(|price| price.parse().ok());
    let mut next = || prices.next().flatten();
    Some(Above { tokens: tokens.parse().ok()?, input: next(), output: next(), read: next(), write: next() })
}
