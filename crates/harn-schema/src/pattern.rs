//! Compiled regular expressions.

use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Deref;
use std::rc::Rc;

use regex::{Regex, RegexBuilder};
use rustc_hash::FxHashMap;

use crate::lead::Lead;

/// Maximum number of cached patterns.
const CACHED: usize = 256;

/// Number of uses after which the fast path of a pattern is compiled.
const OFTEN: u32 = 32;

/// Maximum total size of cached patterns in bytes, if the allocator measures it.
const CACHED_BYTES: usize = 32 << 20;

/// Maximum length of a pattern in bytes: the parser of the `regex` crate cannot be interrupted.
const LONGEST: usize = 1 << 17;

/// A compiled pattern.
pub struct Pattern {
    regex: Regex,
    /// The named groups with their indices.
    pub names: Vec<(usize, String)>,
    uses: Cell<u32>,
    lead: OnceCell<Option<Lead>>,
}

impl Pattern {
    /// Wraps a regular expression.
    pub fn new(regex: Regex) -> Pattern {
        let names =
            regex.capture_names().enumerate().filter_map(|(n, name)| Some((n, name?.to_owned()))).collect();
        Pattern { regex, names, uses: Cell::new(0), lead: OnceCell::new() }
    }

    /// Returns the fast path to its groups, if the pattern supports it and is used often. Patterns with flags do
    /// not support it.
    pub(crate) fn lead(&self) -> Option<&Lead> {
        let uses = self.uses.get();
        if uses < OFTEN {
            self.uses.set(uses + 1);
            return None;
        }
        self.lead.get_or_init(|| Lead::new(self.regex.as_str())).as_ref()
    }

    #[cfg(test)]
    pub(crate) fn often_used(&self) {
        self.uses.set(OFTEN);
    }
}

impl Deref for Pattern {
    type Target = Regex;

    fn deref(&self) -> &Regex {
        &self.regex
    }
}

#[derive(Default)]
struct Cache {
    /// The most recently used pattern, which is often used again.
    last: Option<(String, String, Rc<Pattern>)>,
    patterns: FxHashMap<(String, String), Rc<Pattern>>,
    bytes: usize,
}

thread_local! {
    // Scripts use few patterns many times; the cache is cleared if it becomes too large.
    static CACHE: RefCell<Cache> = RefCell::default();
}

/// Returns the compiled form of a pattern with flags from `imsx`.
///
/// # Errors
/// Returns the reason why the pattern is invalid.
pub fn compiled(pattern: &str, flags: &str) -> Result<Rc<Pattern>, String> {
    let last = CACHE.with_borrow(|cache| {
        cache.last.as_ref().filter(|last| last.0 == pattern && last.1 == flags).map(|last| last.2.clone())
    });
    if let Some(regex) = last {
        return Ok(regex);
    }
    let key = (pattern.to_owned(), flags.to_owned());
    let known = CACHE.with_borrow_mut(|cache| {
        let regex = cache.patterns.get(&key).cloned();
        if let Some(regex) = &regex {
            cache.last = Some((key.0.clone(), key.1.clone(), regex.clone()));
        }
        regex
    });
    if let Some(regex) = known {
        return Ok(regex);
    }
    let before = harn_value::memory::used_by_thread();
    let regex = Rc::new(Pattern::new(build(pattern, flags)?));
    if !flags.is_empty() {
        // Flags are only part of the compiled form, so the fast path cannot be built from the pattern.
        let _ = regex.lead.set(None);
    }
    let bytes = (harn_value::memory::used_by_thread() - before).max(0).unsigned_abs();
    CACHE.with_borrow_mut(|cache| {
        if cache.patterns.len() >= CACHED || cache.bytes + bytes > CACHED_BYTES {
            *cache = Cache::default();
        }
        cache.bytes += bytes;
        cache.patterns.insert(key, regex.clone());
    });
    Ok(regex)
}

fn build(pattern: &str, flags: &str) -> Result<Regex, String> {
    if pattern.len() > LONGEST {
        return Err(format!("the pattern has {} bytes; the limit is {LONGEST}", pattern.len()));
    }
    let mut builder = RegexBuilder::new(pattern);
    for flag in flags.chars() {
        match flag {
            'i' => builder.case_insensitive(true),
            'm' => builder.multi_line(true),
            's' => builder.dot_matches_new_line(true),
            'x' => builder.ignore_whitespace(true),
            other => return Err(format!("unsupported regex flag '{other}', expected one of i/m/s/x")),
        };
    }
    builder.build().map_err(|error| error.to_string())
}
