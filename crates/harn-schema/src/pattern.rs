//! Compiled regular expressions.

use std::cell::RefCell;
use std::rc::Rc;

use regex::{Regex, RegexBuilder};
use rustc_hash::FxHashMap;

/// How many are kept.
const CACHED: usize = 256;

/// Bytes that the patterns of the cache may take, where the allocator counts.
const CACHED_BYTES: usize = 32 << 20;

#[derive(Default)]
struct Cache {
    /// The one that was asked for last, as is often the one that is asked for next.
    last: Option<(String, String, Rc<Regex>)>,
    patterns: FxHashMap<(String, String), Rc<Regex>>,
    bytes: usize,
}

thread_local! {
    // Scripts use few patterns many times; when one uses many, the cache is emptied and starts again.
    static CACHE: RefCell<Cache> = RefCell::default();
}

/// The compiled form of a pattern with flags of `imsx`.
///
/// # Errors
/// Why it has none.
pub fn compiled(pattern: &str, flags: &str) -> Result<Rc<Regex>, String> {
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
    let before = harn_value::memory::used();
    let regex = Rc::new(build(pattern, flags)?);
    let bytes = harn_value::memory::used().saturating_sub(before);
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
