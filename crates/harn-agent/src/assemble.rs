//! Context for a stage: artifacts split into chunks, of which the best ones within a budget are selected.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};

use harn_llm::options::nearest;
use harn_value::{Data as Json, json};
use sha2::{Digest, Sha256};

const KEYS: &[&str] = &[
    "artifacts",
    "budget_tokens",
    "dedup",
    "strategy",
    "query",
    "microcompact_threshold",
    "ranker_callback",
];

/// The share of words that two chunks must have in common to be duplicates with `dedup: "semantic"`.
const ALIKE: f64 = 0.8;

/// How duplicate chunks are detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dedup {
    None,
    Chunked,
    Semantic,
}

/// The order of the chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strategy {
    Recency,
    Relevance,
    RoundRobin,
}

/// Chunks that are not scored yet.
#[derive(Debug)]
pub struct Assembly {
    chunks: Vec<Chunk>,
    dropped: Vec<Json>,
    budget: u64,
    dedup: Dedup,
    strategy: Strategy,
    query: String,
    /// Whether the program computes the scores.
    pub ranked_outside: bool,
}

#[derive(Debug, Clone)]
struct Chunk {
    json: Json,
    /// Index of the chunk's artifact in the list.
    artifact: usize,
    created: String,
    density: f64,
    score: f64,
}

impl Chunk {
    fn id(&self) -> &str {
        self.json["id"].as_str().unwrap_or_default()
    }

    fn artifact_id(&self) -> &str {
        self.json["artifact_id"].as_str().unwrap_or_default()
    }

    fn text(&self) -> &str {
        self.json["text"].as_str().unwrap_or_default()
    }

    fn tokens(&self) -> u64 {
        self.json["estimated_tokens"].as_u64().unwrap_or_default()
    }

    fn index(&self) -> u64 {
        self.json["chunk_index"].as_u64().unwrap_or_default()
    }
}

impl Assembly {
    /// Reads the options of `assemble_context` and splits the artifacts into chunks.
    ///
    /// # Errors
    /// An option is invalid.
    pub fn new(options: &Json) -> Result<Assembly, String> {
        let Some(options) = options.as_object() else { return Err("options must be a dict".to_owned()) };
        if let Some(key) = options.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(match nearest(key, KEYS.iter().copied()) {
                Some(near) => format!("unknown option `{key}`, did you mean `{near}`?"),
                None => format!("unknown option `{key}`; there are {}", KEYS.join(", ")),
            });
        }
        let given = |key: &str| options.get(key).filter(|value| !value.is_null());
        let count = |key: &str, default: u64, least: u64| match given(key) {
            None => Ok(default),
            Some(value) => value.as_u64().filter(|n| *n >= least).ok_or_else(|| {
                format!("{key} must be an int of at least {least}, got {}", value.type_name())
            }),
        };
        let word = |key: &str, words: &[&str]| match given(key) {
            None => Ok(0),
            Some(value) => words
                .iter()
                .position(|word| value == word)
                .ok_or_else(|| format!("{key} must be one of {}", words.join(", "))),
        };
        let artifacts = match given("artifacts") {
            Some(Json::Array(list)) if list.iter().all(|item| item.as_object().is_some()) => list,
            _ => return Err("artifacts must be a list of artifacts".to_owned()),
        };
        let threshold = count("microcompact_threshold", 2000, 1)?;
        let query = match given("query") {
            None => String::new(),
            Some(Json::String(query)) => query.clone(),
            Some(value) => return Err(format!("query must be a string, got {}", value.type_name())),
        };
        let ranked_outside = match given("ranker_callback") {
            None => false,
            Some(value) if value.as_opaque().is_some() => true,
            Some(_) => return Err("ranker_callback must be a closure".to_owned()),
        };
        let dedup = [Dedup::Chunked, Dedup::None, Dedup::Semantic];
        let strategy = [Strategy::Relevance, Strategy::Recency, Strategy::RoundRobin];
        let mut assembly = Assembly {
            chunks: Vec::new(),
            dropped: Vec::new(),
            budget: count("budget_tokens", 8000, 0)?,
            dedup: dedup[word("dedup", &["chunked", "none", "semantic"])?],
            strategy: strategy[word("strategy", &["relevance", "recency", "round_robin"])?],
            query,
            ranked_outside,
        };
        for (place, artifact) in artifacts.iter().enumerate() {
            assembly.cut(place, artifact, usize::try_from(threshold).unwrap_or(usize::MAX));
        }
        assembly.drop_repetitions();
        assembly.score();
        Ok(assembly)
    }

    fn cut(&mut self, place: usize, artifact: &Json, threshold: usize) {
        let id = match &artifact["id"] {
            Json::Null => format!("artifact-{}", place + 1),
            id => id.printed(),
        };
        let text = match &artifact["text"] {
            Json::Null => return self.leave_out(&id, None, "no_text", "the artifact has no text"),
            text => text.printed(),
        };
        if text.trim().is_empty() {
            return self.leave_out(&id, None, "empty_text", "the artifact's text is empty");
        }
        let parts = split(&text, threshold.saturating_mul(4));
        let count = parts.len();
        for (index, part) in parts.into_iter().enumerate() {
            let mut hash = Sha256::new();
            hash.update(id.as_bytes());
            hash.update([0]);
            hash.update(part.as_bytes());
            let digest: String = hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
            let json = json!({
                "id": format!("chunk_{digest}"), "artifact_id": id, "artifact_kind": artifact["kind"],
                "title": artifact["title"], "source": artifact["source"], "text": part,
                "estimated_tokens": part.len().div_ceil(4), "chunk_index": index, "chunk_count": count, "score": 0.0,
            });
            let created = artifact["created_at"].as_str().unwrap_or_default().to_owned();
            self.chunks.push(Chunk { json, artifact: place, created, density: 0.0, score: 0.0 });
        }
    }

    fn leave_out(&mut self, artifact: &str, chunk: Option<&str>, reason: &str, detail: &str) {
        self.dropped
            .push(json!({"artifact_id": artifact, "chunk_id": chunk, "reason": reason, "detail": detail}));
    }

    fn drop_repetitions(&mut self) {
        if self.dedup == Dedup::None {
            return;
        }
        let mut seen: HashMap<String, String> = HashMap::new();
        let mut alike = Alike::default();
        let mut kept = Vec::new();
        for chunk in std::mem::take(&mut self.chunks) {
            let plain = chunk.text().split_whitespace().collect::<Vec<_>>().join(" ");
            let same = seen
                .get(&plain)
                .cloned()
                .or_else(|| (self.dedup == Dedup::Semantic).then(|| alike.find(&plain)).flatten());
            if let Some(same) = same {
                let (artifact, id) = (chunk.artifact_id().to_owned(), chunk.id().to_owned());
                self.leave_out(&artifact, Some(&id), "duplicate", &format!("says the same as {same}"));
                continue;
            }
            if self.dedup == Dedup::Semantic {
                alike.add(chunk.id(), &plain);
            }
            seen.insert(plain, chunk.id().to_owned());
            kept.push(chunk);
        }
        self.chunks = kept;
    }

    fn score(&mut self) {
        let wanted: HashSet<String> = words(&self.query).collect();
        #[expect(clippy::cast_precision_loss, reason = "counts of words")]
        for chunk in &mut self.chunks {
            let all: Vec<String> = words(chunk.text()).collect();
            let found: HashSet<&String> = all.iter().filter(|word| wanted.contains(*word)).collect();
            let hits = all.iter().filter(|word| wanted.contains(*word)).count();
            chunk.score = if wanted.is_empty() { 0.0 } else { found.len() as f64 / wanted.len() as f64 };
            chunk.density = hits as f64 / all.len().max(1) as f64;
            chunk.json["score"] = chunk.score.into();
        }
    }

    /// Returns the arguments of `ranker_callback`.
    pub fn to_rank(&self) -> (String, Vec<Json>) {
        (self.query.clone(), self.chunks.iter().map(|chunk| chunk.json.clone()).collect())
    }

    /// Sets the scores that `ranker_callback` returned, one for each chunk.
    ///
    /// # Errors
    /// The value is not a list of exactly that many numbers.
    pub fn rank(&mut self, scores: &Json) -> Result<(), String> {
        let wrong = || format!("ranker_callback must return a list of {} numbers", self.chunks.len());
        let scores: Vec<f64> = scores
            .as_array()
            .and_then(|list| list.iter().map(Json::as_f64).collect())
            .filter(|list: &Vec<f64>| list.len() == self.chunks.len())
            .ok_or_else(wrong)?;
        for (chunk, score) in self.chunks.iter_mut().zip(scores) {
            chunk.score = score;
            chunk.json["score"] = score.into();
        }
        Ok(())
    }

    /// Selects the chunks that fit, in order, and reports for each chunk whether and why it was included.
    pub fn pack(mut self) -> Json {
        let ids = |a: &Chunk, b: &Chunk| {
            a.artifact_id().cmp(b.artifact_id()).then_with(|| a.index().cmp(&b.index()))
        };
        let high = |a: f64, b: f64| b.partial_cmp(&a).unwrap_or(Ordering::Equal);
        let strategy = self.strategy;
        let ranked = self.ranked_outside;
        self.chunks.sort_by(|a, b| match strategy {
            _ if ranked => high(a.score, b.score).then_with(|| ids(a, b)),
            Strategy::Relevance => {
                high(a.score, b.score).then_with(|| high(a.density, b.density)).then_with(|| ids(a, b))
            }
            // RFC 3339 strings sort chronologically.
            Strategy::Recency => b.created.cmp(&a.created).then_with(|| ids(a, b)),
            Strategy::RoundRobin => a.index().cmp(&b.index()).then(a.artifact.cmp(&b.artifact)),
        });
        let mut left = self.budget;
        let (mut taken, mut passed) = (Vec::new(), Vec::new());
        for chunk in std::mem::take(&mut self.chunks) {
            match left.checked_sub(chunk.tokens()) {
                Some(rest) => {
                    left = rest;
                    taken.push(chunk);
                }
                None => passed.push(chunk),
            }
        }
        let word = match strategy {
            _ if ranked => "ranker_callback",
            Strategy::Relevance => "relevance",
            Strategy::Recency => "recency",
            Strategy::RoundRobin => "round_robin",
        };
        let reason = |chunk: &Chunk, included: bool| {
            json!({
                "chunk_id": chunk.id(), "artifact_id": chunk.artifact_id(), "strategy": word, "score": chunk.score,
                "included": included, "reason": if included { "selected" } else { "budget_exceeded" },
            })
        };
        let mut reasons: Vec<Json> = taken.iter().map(|chunk| reason(chunk, true)).collect();
        reasons.extend(passed.iter().map(|chunk| reason(chunk, false)));
        for chunk in &passed {
            let (artifact, id) = (chunk.artifact_id().to_owned(), chunk.id().to_owned());
            let detail = format!("{} tokens do not fit into the budget of {}", chunk.tokens(), self.budget);
            self.leave_out(&artifact, Some(&id), "budget_exceeded", &detail);
        }
        let mut included: Vec<Json> = Vec::new();
        let mut places: BTreeMap<usize, usize> = BTreeMap::new();
        for chunk in &taken {
            let place = *places.entry(chunk.artifact).or_insert_with(|| {
                included.push(json!({"artifact_id": chunk.artifact_id(), "chunk_ids": []}));
                included.len() - 1
            });
            if let Some(Json::Array(ids)) = included[place].get_mut("chunk_ids") {
                ids.push(chunk.id().into());
            }
        }
        let total: u64 = taken.iter().map(Chunk::tokens).sum();
        let dedup = match self.dedup {
            Dedup::None => "none",
            Dedup::Chunked => "chunked",
            Dedup::Semantic => "semantic",
        };
        let chunks: Vec<Json> = taken.into_iter().map(|chunk| chunk.json).collect();
        json!({
            "chunks": chunks, "included": included, "dropped": self.dropped, "reasons": reasons, "total_tokens": total,
            "budget_tokens": self.budget, "strategy": word, "dedup": dedup,
        })
    }
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// Finds chunks that share most of their words with a known chunk. Only chunks with a common MinHash mark are compared,
/// so that the cost is not quadratic.
#[derive(Default)]
struct Alike {
    known: Vec<(String, HashSet<String>)>,
    by_mark: HashMap<String, Vec<usize>>,
}

/// Number of MinHash marks per chunk. Two chunks that share four fifths of their words almost always have one in
/// common.
const MARKS: u8 = 16;

/// Maximum number of chunks with the same mark that are compared.
const CANDIDATES: usize = 64;

impl Alike {
    fn find(&self, text: &str) -> Option<String> {
        let own: HashSet<String> = words(text).collect();
        let mut tried = HashSet::new();
        for mark in marks(&own) {
            for &place in self.by_mark.get(&mark).into_iter().flatten().take(CANDIDATES) {
                let (id, known) = &self.known[place];
                #[expect(clippy::cast_precision_loss, reason = "counts of words")]
                if tried.insert(place)
                    && known.intersection(&own).count() as f64 >= ALIKE * known.union(&own).count() as f64
                {
                    return Some(id.clone());
                }
            }
        }
        None
    }

    fn add(&mut self, id: &str, text: &str) {
        let own: HashSet<String> = words(text).collect();
        for mark in marks(&own) {
            self.by_mark.entry(mark).or_default().push(self.known.len());
        }
        self.known.push((id.to_owned(), own));
    }
}

/// Returns, for each of several hash functions, the word with the smallest hash (MinHash).
fn marks(words: &HashSet<String>) -> Vec<String> {
    let hash = |seed: u8, word: &str| {
        let start = 0xcbf2_9ce4_8422_2325_u64 ^ (u64::from(seed) << 56);
        word.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    };
    let mark = |seed: u8| {
        let word =
            words.iter().min_by_key(|word| (hash(seed, word).wrapping_mul(0x9E37_79B9_7F4A_7C15), *word))?;
        Some(format!("{seed} {word}"))
    };
    (0..MARKS).filter_map(mark).collect()
}

/// Splits text into parts of at most `limit` bytes: at empty lines if possible, else at line ends, else between
/// characters.
fn split(text: &str, limit: usize) -> Vec<String> {
    if text.len() <= limit {
        return vec![text.to_owned()];
    }
    let mut parts: Vec<String> = Vec::new();
    // The part that is being built. `put` appends a piece with its separator.
    let mut open = String::new();
    let mut put = |piece: &str, between: &str| {
        if open.is_empty() {
            piece.clone_into(&mut open);
        } else if open.len() + between.len() + piece.len() <= limit {
            open.push_str(between);
            open.push_str(piece);
        } else {
            parts.push(std::mem::replace(&mut open, piece.to_owned()));
        }
    };
    for block in
        text.split("\n\n").map(|block| block.trim_matches('\n')).filter(|block| !block.trim().is_empty())
    {
        if block.len() <= limit {
            put(block, "\n\n");
            continue;
        }
        for line in block.lines() {
            if line.len() <= limit {
                put(line, "\n");
                continue;
            }
            let mut rest = line;
            while !rest.is_empty() {
                let mut end = limit.min(rest.len());
                while end > 0 && !rest.is_char_boundary(end) {
                    end -= 1;
                }
                // A character is never split, however small the limit is.
                let end = if end == 0 { rest.chars().next().map_or(rest.len(), char::len_utf8) } else { end };
                put(&rest[..end], "");
                rest = &rest[end..];
            }
        }
    }
    if !open.is_empty() {
        parts.push(open);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_where_it_hurts_least() {
        assert_eq!(split("a\n\nb\n\nc", 4), ["a\n\nb", "c"]);
        assert_eq!(split("aaa\nbbb\n\nc", 4), ["aaa", "bbb", "c"]);
        assert_eq!(split("äöüäöü", 5), ["äö", "üä", "öü"]);
        assert_eq!(split("äö", 1), ["ä", "ö"]);
        let long = "word ".repeat(10_000);
        let parts = split(&long, 100);
        assert!(parts.iter().all(|part| part.len() <= 100));
        assert_eq!(parts.concat(), long);
    }

    #[test]
    fn texts_that_are_alike_are_found() {
        let base = "one two three four five six seven eight nine ten";
        let options = |dedup: &str| {
            let list = json!([
                {"id": "a", "text": base}, {"id": "b", "text": format!("{base} eleven")},
                {"id": "c", "text": "other words entirely"}, {"id": "d", "text": base.replace(' ', "  ")},
            ]);
            json!({"artifacts": list, "dedup": dedup})
        };
        let kept = |dedup: &str| {
            let packed = Assembly::new(&options(dedup)).expect("valid").pack();
            packed["included"].as_array().expect("a list").len()
        };
        assert_eq!((kept("none"), kept("chunked"), kept("semantic")), (4, 3, 2));
    }
}
