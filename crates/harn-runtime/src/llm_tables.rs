//! Reads the tables that configure providers and models. An invalid entry does not affect the others.

use std::ops::Range;

use harn_llm::config::{Alias, Model, ModelDefaults, Provider, Rule};
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

/// An invalid entry in the configuration of models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LlmConfigProblem {
    /// The error message.
    pub message: String,
    /// Its position, in bytes of the document.
    pub span: Range<usize>,
}

impl LlmConfigProblem {
    /// Creates a problem from a syntax error.
    fn of_syntax(error: &toml::de::Error) -> Self {
        Self { message: error.message().to_owned(), span: error.span().unwrap_or_default() }
    }

    /// Returns `<line>:<column>: <message>`, both starting at 1, for a position in `text`.
    pub(crate) fn placed(&self, text: &str) -> String {
        let (line, column) = harn_syntax::source_map::line_column(text, self.span.start as u32);
        format!("{line}:{column}: {}", self.message)
    }
}

/// Returns the problems in the `[llm]` table of the manifest `text`. Empty if the manifest has a syntax error, which is
/// reported elsewhere.
pub fn llm_config_problems(text: &str) -> Vec<LlmConfigProblem> {
    read(text, Some("llm")).map_or_else(|_| Vec::new(), |(_, problems)| problems)
}

/// Returns a message for each unused key in the `[llm]` table of the manifest `text`.
pub fn llm_config_slips(text: &str) -> Vec<String> {
    let manifest = text.parse::<toml::Table>().ok();
    let table = manifest.as_ref().and_then(|manifest| manifest.get("llm"));
    let inner = table.and_then(|table| toml::to_string(table).ok()).unwrap_or_default();
    harn_llm::config::slips(&inner).into_iter().map(|slip| format!("[llm] {slip}")).collect()
}

/// Reads a document, or one table of it; returns the valid entries, and the problems of the others.
///
/// # Errors
/// The document does not parse.
pub(crate) fn read(
    text: &str,
    table: Option<&str>,
) -> Result<(toml::Table, Vec<LlmConfigProblem>), LlmConfigProblem> {
    let document = DeTable::parse(text).map_err(|error| LlmConfigProblem::of_syntax(&error))?;
    let mut plain: toml::Table = text.parse().map_err(|error| LlmConfigProblem::of_syntax(&error))?;
    let mut reader = Reader { table: table.unwrap_or_default(), problems: Vec::new() };
    let inner = match table {
        None => Some(document.get_ref()),
        Some(name) => {
            plain = match plain.remove(name) {
                Some(toml::Value::Table(inner)) => inner,
                _ => toml::Table::new(),
            };
            document.get_ref().get(name).and_then(|value| value.get_ref().as_table())
        }
    };
    if let Some(inner) = inner {
        inner.iter().for_each(|(name, value)| reader.entry(name.get_ref(), value, &mut plain));
    }
    reader.problems.sort_by_key(|problem| problem.span.start);
    Ok((plain, reader.problems))
}

struct Reader<'a> {
    /// The name of the table that contains the configuration; empty for the whole document.
    table: &'a str,
    problems: Vec<LlmConfigProblem>,
}

impl Reader<'_> {
    /// Checks one key of the configuration; removes invalid parts from `plain`.
    fn entry(&mut self, name: &str, value: &Spanned<DeValue<'_>>, plain: &mut toml::Table) {
        match name {
            "providers" => self.entries::<Provider>(name, value, plain),
            "aliases" => self.entries::<Alias>(name, value, plain),
            "models" => self.entries::<Model>(name, value, plain),
            "qc_defaults" | "tier_defaults" => self.entries::<String>(name, value, plain),
            "model_defaults" => self.entries::<ModelDefaults>(name, value, plain),
            "inference_rules" | "tier_rules" => self.rules(name, value, plain),
            "default_provider" if !self.fits::<String>(&[name], value) => {
                plain.remove(name);
            }
            _ => {}
        }
    }

    fn entries<T: DeserializeOwned>(
        &mut self,
        name: &str,
        value: &Spanned<DeValue<'_>>,
        plain: &mut toml::Table,
    ) {
        let (Some(entries), Some(plain_entries)) =
            (value.get_ref().as_table(), plain.get_mut(name).and_then(toml::Value::as_table_mut))
        else {
            self.report(
                &[name],
                format!("expected a table, got {}", value.get_ref().type_str()),
                value.span(),
            );
            plain.remove(name);
            return;
        };
        for (key, entry) in entries {
            if !self.fits::<T>(&[name, key.get_ref()], entry) {
                plain_entries.remove(key.get_ref().as_ref());
            }
        }
    }

    fn rules(&mut self, name: &str, value: &Spanned<DeValue<'_>>, plain: &mut toml::Table) {
        let (Some(rules), Some(plain_rules)) =
            (value.get_ref().as_array(), plain.get_mut(name).and_then(toml::Value::as_array_mut))
        else {
            let message = format!("expected a list of tables, got {}", value.get_ref().type_str());
            self.report(&[name], message, value.span());
            plain.remove(name);
            return;
        };
        let mut right = rules.iter().map(|rule| self.fits::<Rule>(&[name], rule));
        plain_rules.retain(|_| right.next().unwrap_or(false));
    }

    /// Returns whether a value has the expected type; records a problem if not.
    fn fits<T: DeserializeOwned>(&mut self, path: &[&str], value: &Spanned<DeValue<'_>>) -> bool {
        let Err(error) = T::deserialize(ValueDeserializer::from(value.clone())) else { return true };
        let message = match error.message() {
            // The only values with two forms are names of variables: one string or a list.
            text if text.contains("untagged enum") => "expected a string or a list of strings",
            text => text,
        };
        self.report(path, message.to_owned(), error.span().unwrap_or_else(|| value.span()));
        false
    }

    fn report(&mut self, path: &[&str], message: String, span: Range<usize>) {
        let path: Vec<&str> =
            Some(self.table).filter(|t| !t.is_empty()).into_iter().chain(path.iter().copied()).collect();
        let message = format!("[{}] is ignored: {message}", path.join("."));
        self.problems.push(LlmConfigProblem { message, span });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_entry_leaves_the_others() {
        let text = "[llm]\ndefault_provider = 5\n[llm.aliases]\na = { id = \"x\" }\nb = { id = \"y\", provider = \"z\" }\n[llm.providers.p]\nbase_url = 3\n[llm.providers.q]\nauth_env = 7\n[[llm.tier_rules]]\npattern = 1\n[[llm.tier_rules]]\npattern = \"m*\"\ntier = \"low\"\n";
        let (table, problems) = read(text, Some("llm")).unwrap();
        let shown: Vec<String> = problems.iter().map(|problem| problem.placed(text)).collect();
        assert_eq!(
            shown,
            [
                "2:20: [llm.default_provider] is ignored: invalid type: integer `5`, expected a string",
                "4:5: [llm.aliases.a] is ignored: missing field `provider`",
                "7:12: [llm.providers.p] is ignored: invalid type: integer `3`, expected a string",
                "9:12: [llm.providers.q] is ignored: expected a string or a list of strings",
                "11:11: [llm.tier_rules] is ignored: invalid type: integer `1`, expected a string",
            ]
        );
        let left = "[aliases.b]\nid = \"y\"\nprovider = \"z\"\n\n[providers]\n\n[[tier_rules]]\npattern = \"m*\"\ntier = \"low\"\n";
        assert_eq!(toml::to_string(&table).unwrap(), left);
    }

    #[test]
    fn defaults_of_models_are_what_the_options_are() {
        let text = "[model_defaults.\"a*\"]\ntemperature = \"hot\"\n[model_defaults.\"b*\"]\ntop_p = 9\n[model_defaults.\"c*\"]\ntop_k = 2\n";
        let (table, problems) = read(text, None).unwrap();
        let shown: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(
            shown,
            [
                "[model_defaults.a*] is ignored: temperature must be a number from 0 to 2, got string `hot`",
                "[model_defaults.b*] is ignored: top_p must be a number from 0 to 1, got int `9`",
            ]
        );
        assert_eq!(toml::to_string(&table).unwrap(), "[model_defaults.\"c*\"]\ntop_k = 2\n");
    }
}
