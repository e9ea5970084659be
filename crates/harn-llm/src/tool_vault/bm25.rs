//! Okapi BM25 ranking for short documents.

use std::collections::BTreeMap;

const K1: f64 = 1.5;
const B: f64 = 0.75;

/// Splits text into lower-cased alphanumeric tokens; `camelCase` is two tokens.
pub(super) fn tokens(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut word = String::new();
    let mut lower_before = false;
    for c in text.chars() {
        let boundary = c.is_uppercase() && lower_before;
        if (!c.is_alphanumeric() || boundary) && !word.is_empty() {
            out.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        lower_before = c.is_lowercase();
    }
    if !word.is_empty() {
        out.push(word);
    }
    out
}

/// Documents by name, indexed for ranking.
#[derive(Debug, Clone, Default)]
pub(super) struct Corpus {
    documents: Vec<(String, BTreeMap<String, usize>, usize)>,
    containing: BTreeMap<String, usize>,
    average: f64,
}

impl Corpus {
    pub(super) fn new<'a>(documents: impl Iterator<Item = (&'a str, &'a str)>) -> Corpus {
        let mut corpus = Corpus::default();
        for (name, text) in documents {
            let words = tokens(text);
            let mut counts: BTreeMap<String, usize> = BTreeMap::new();
            let len = words.len();
            for word in words {
                *counts.entry(word).or_default() += 1;
            }
            for word in counts.keys() {
                *corpus.containing.entry(word.clone()).or_default() += 1;
            }
            corpus.documents.push((name.to_string(), counts, len));
        }
        let total: usize = corpus.documents.iter().map(|(_, _, len)| len).sum();
        corpus.average = total as f64 / corpus.documents.len().max(1) as f64;
        corpus
    }

    /// Returns the names of documents with a positive score, best first, ties by name.
    pub(super) fn rank(&self, query: &[String]) -> Vec<String> {
        let count = self.documents.len() as f64;
        let idf = |word: &String| {
            let n = self.containing.get(word).copied().unwrap_or(0) as f64;
            ((count - n + 0.5) / (n + 0.5) + 1.0).ln()
        };
        let mut scored: Vec<(f64, &str)> = Vec::new();
        for (name, counts, len) in &self.documents {
            let norm = K1 * (1.0 - B + B * *len as f64 / self.average.max(f64::MIN_POSITIVE));
            let term = |word: &String| {
                let f = counts.get(word).copied().unwrap_or(0) as f64;
                idf(word) * f * (K1 + 1.0) / (f + norm)
            };
            let score: f64 = query.iter().filter(|w| counts.contains_key(*w)).map(term).sum();
            if score > 0.0 {
                scored.push((score, name));
            }
        }
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        scored.into_iter().map(|(_, name)| name.to_string()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_at_case_and_punctuation() {
        assert_eq!(tokens("openFile_now HTTPServer é2"), ["open", "file", "now", "httpserver", "é2"]);
    }

    #[test]
    fn rare_words_weigh_more() {
        let corpus = Corpus::new([("a", "tool file"), ("b", "tool file rare"), ("c", "tool")].into_iter());
        assert_eq!(corpus.rank(&tokens("rare tool"))[0], "b");
        assert!(corpus.rank(&tokens("absent")).is_empty());
    }
}
