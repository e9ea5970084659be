//! Redacts secrets in data; see [`harn_system::secret`].

pub use harn_system::secret::{FIELD_WORDS, Secret, is_secret_header, redact_url};

/// Shorter secrets are redacted in errors only.
const MIN_IN_ANSWERS: usize = 8;

/// Redacts secrets in data.
pub trait RedactData {
    /// Redacts the secret in every string of an answer, and returns whether it occurred. Answers are data that a
    /// program processes, so secrets shorter than a key are not redacted. The end of a string is not redacted either if
    /// it only looks like the start of a secret.
    fn redact_answer(&self, answer: &mut harn_value::Data) -> bool;

    /// Redacts the secret in every string of a value.
    fn redact_value(&self, value: &mut harn_value::Data);
}

impl RedactData for Secret {
    fn redact_answer(&self, answer: &mut harn_value::Data) -> bool {
        if self.key_len() < MIN_IN_ANSWERS {
            return false;
        }
        match answer {
            harn_value::Data::String(text) => {
                let plain = self.redact_whole(text);
                let found = plain != *text;
                *text = plain;
                found
            }
            harn_value::Data::Array(items) => {
                items.iter_mut().fold(false, |found, item| self.redact_answer(item) | found)
            }
            harn_value::Data::Object(map) => {
                map.values_mut().fold(false, |found, item| self.redact_answer(item) | found)
            }
            _ => false,
        }
    }

    fn redact_value(&self, value: &mut harn_value::Data) {
        match value {
            harn_value::Data::String(text) => *text = self.redact(text),
            harn_value::Data::Array(items) => items.iter_mut().for_each(|item| self.redact_value(item)),
            harn_value::Data::Object(map) => map.values_mut().for_each(|item| self.redact_value(item)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_keeps_what_is_no_key() {
        let key = Secret::new("github_pat_12345");
        let mut answer = harn_value::json!({"a": ["x GITHUB_PAT_12345.", "made on github"], "n": 1});
        assert!(key.redact_answer(&mut answer));
        assert_eq!(answer, harn_value::json!({"a": ["x ***.", "made on github"], "n": 1}));
        assert!(!key.redact_answer(&mut answer));
        assert!(!Secret::new("demo").redact_answer(&mut harn_value::json!("demo")));
    }
}
