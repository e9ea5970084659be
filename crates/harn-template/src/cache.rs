//! Caches parsed templates between renders.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::error::TemplateError;
use crate::loader::Origin;
use crate::template::Template;

/// Maximum number of cached templates.
const CAPACITY: usize = 128;

/// Parsed templates by origin. A template is reused only if its source is unchanged, so the cache only affects
/// speed: an edited file is always rendered with its new content.
#[derive(Default)]
pub struct TemplateCache(RefCell<Entries>);

#[derive(Default)]
struct Entries {
    by_origin: FxHashMap<Origin, (Rc<Template>, u64)>,
    clock: u64,
}

impl TemplateCache {
    /// Creates an empty cache.
    pub fn new() -> TemplateCache {
        TemplateCache::default()
    }

    /// Returns the parsed form of `text`. Inline templates are not cached, because they have no identity.
    ///
    /// # Errors
    /// Returns the errors of [`Template::parse`]; failures are not cached.
    pub fn get_or_parse(
        &self,
        origin: Origin,
        text: Cow<'static, str>,
    ) -> Result<Rc<Template>, TemplateError> {
        if origin == Origin::Inline {
            return Template::parse(origin, text).map(Rc::new);
        }
        let mut entries = self.0.borrow_mut();
        entries.clock += 1;
        let now = entries.clock;
        if let Some((template, used)) = entries.by_origin.get_mut(&origin)
            && template.source == text
        {
            *used = now;
            return Ok(Rc::clone(template));
        }
        let template = Rc::new(Template::parse(origin.clone(), text)?);
        if entries.by_origin.len() >= CAPACITY && !entries.by_origin.contains_key(&origin) {
            // Use counts are unique, so the iteration order of the map does not matter.
            let oldest =
                entries.by_origin.iter().min_by_key(|(_, (_, used))| *used).map(|(origin, _)| origin.clone());
            if let Some(oldest) = oldest {
                entries.by_origin.remove(&oldest);
            }
        }
        entries.by_origin.insert(origin, (Rc::clone(&template), now));
        Ok(template)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(cache: &TemplateCache, name: &str, text: &str) -> Rc<Template> {
        cache.get_or_parse(Origin::Asset(name.to_owned()), text.to_owned().into()).unwrap()
    }

    #[test]
    fn equal_text_is_parsed_once_and_changed_text_again() {
        let cache = TemplateCache::new();
        let first = get(&cache, "a", "one");
        assert!(Rc::ptr_eq(&first, &get(&cache, "a", "one")));
        assert_eq!(get(&cache, "a", "two").source(), "two");
        assert!(!Rc::ptr_eq(&first, &get(&cache, "a", "one")));
    }

    #[test]
    fn the_least_recently_used_one_goes() {
        let cache = TemplateCache::new();
        let kept = get(&cache, "kept", "x");
        let gone = get(&cache, "gone", "x");
        for i in 0..CAPACITY - 1 {
            get(&cache, &format!("t{i}"), "x");
            get(&cache, "kept", "x");
        }
        assert!(Rc::ptr_eq(&kept, &get(&cache, "kept", "x")));
        assert!(!Rc::ptr_eq(&gone, &get(&cache, "gone", "x")));
    }
}
