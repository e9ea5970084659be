//! One model of the catalogue.

use harn_value::{Data as Value, json};

use crate::config::{Above, Pricing};

/// How an entry was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// The provider has a model of this name.
    Exact,
    /// The model's vendor has one: the provider is a gateway or a cloud.
    Vendor,
    /// Only the family is known; the entry is its newest model.
    Family,
}

impl Match {
    /// Returns the word for this match.
    pub fn as_str(self) -> &'static str {
        match self {
            Match::Exact => "exact",
            Match::Vendor => "vendor",
            Match::Family => "family",
        }
    }
}

/// The facts about one model.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// `PROVIDER/MODEL` of the row.
    pub name: String,
    /// How the row was found.
    pub found: Match,
    /// Prices.
    pub pricing: Option<Pricing>,
    /// Prompt tokens that fit.
    pub context: Option<i64>,
    /// The most tokens of a reply.
    pub output: Option<i64>,
    /// Features, as the generator names them; a leading `!` negates one.
    pub features: Vec<String>,
    /// Reasoning efforts that the model takes besides `low`, `medium` and `high`; a leading `!` excludes one.
    pub efforts: Vec<String>,
    /// The day from which on the model is not served, as `YYYY-MM-DD`.
    pub retires: Option<String>,
    /// The model that replaces it.
    pub successor: Option<String>,
    /// Address of the source.
    pub source: Option<String>,
    /// What the table of the row was made from.
    pub origin: String,
    /// When the source was read, as `YYYY-MM-DD`.
    pub checked: String,
}

impl Entry {
    /// Reads the fields of a row behind its name.
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
                // A later table may know more.
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

    /// Returns whether the model has a feature; `None` when the catalogue does not say.
    pub fn can(&self, feature: &str) -> Option<bool> {
        self.features.iter().find_map(|f| match f.strip_prefix('!') {
            Some(name) => (name == feature).then_some(false),
            None => (f == feature).then_some(true),
        })
    }

    /// Returns whether the model takes a reasoning effort; `None` when the catalogue does not say.
    pub(crate) fn takes_effort(&self, effort: &str) -> Option<bool> {
        self.efforts.iter().find_map(|e| match e.strip_prefix('!') {
            Some(name) => (name == effort).then_some(false),
            None => (e == effort).then_some(true),
        })
    }

    /// Returns whether the model is not served any more on a day (`YYYY-MM-DD`).
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

/// Reads `TOKENS:in,out,read,write`: the prices of prompts above so many tokens. Empty places have the price below.
fn tier(text: &str) -> Option<Above> {
    let (tokens, prices) = text.split_once(':')?;
    let mut prices = prices.split(',').map(|price| price.parse().ok());
    let mut next = || prices.next().flatten();
    Some(Above { tokens: tokens.parse().ok()?, input: next(), output: next(), read: next(), write: next() })
}
