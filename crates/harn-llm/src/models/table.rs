//! Looks up models in a table of rows.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::vendors::vendor_of;
use super::{Entry, Match};

const SHIPPED: &str = include_str!("../data/models.tsv");
const OVERLAY: &str = include_str!("../data/models.overlay.tsv");

/// The marker at the start of a table.
pub(super) const HEAD: &str = "#harn-models-1";

/// The maximum number of cached lookups. A program uses few models.
const REMEMBERED: usize = 256;

/// A table: a header line with its date and origin, source lines (`@N` and a URL), and rows sorted by name.
#[derive(Debug, Clone)]
pub struct Table {
    text: Cow<'static, str>,
    /// The byte offset of the first row.
    rows: usize,
}

impl Table {
    /// Parses a table.
    ///
    /// # Errors
    /// The source is not a valid table.
    pub fn parse(text: impl Into<Cow<'static, str>>) -> Result<Table, String> {
        let text = text.into();
        if !text.starts_with(HEAD) {
            return Err(format!("not a model table: expected `{HEAD}` at its beginning"));
        }
        let is_row = |line: &&str| !line.starts_with(['#', '@']);
        let rows = text.split_inclusive('\n').take_while(|line| !is_row(line)).map(str::len).sum();
        let table = Table { text, rows };
        match table.check_order() {
            None => Ok(table),
            Some(line) => Err(format!("the model table is not sorted at row `{line}`")),
        }
    }

    /// Creates a table from text that is known to be valid.
    fn shipped(text: &'static str) -> Table {
        let is_row = |line: &&str| !line.starts_with(['#', '@']);
        let rows = text.split_inclusive('\n').take_while(|line| !is_row(line)).map(str::len).sum();
        Table { text: Cow::Borrowed(text), rows }
    }

    fn check_order(&self) -> Option<&str> {
        let names = || self.rows().map(|(name, _)| name);
        names().zip(names().skip(1)).find_map(|(a, b)| (a >= b).then_some(b))
    }

    /// Returns a field of the header line.
    fn head(&self, key: &str) -> &str {
        let line = self.text.lines().next().unwrap_or_default();
        line.split('\t').find_map(|field| field.strip_prefix(key)?.strip_prefix('=')).unwrap_or_default()
    }

    /// Returns the day on which the table was generated, as `YYYY-MM-DD`.
    pub fn date(&self) -> &str {
        self.head("date")
    }

    /// Returns the data from which the table was generated.
    pub fn origin(&self) -> &str {
        self.head("origin")
    }

    /// Returns the rows as (name, fields).
    pub fn rows(&self) -> impl Iterator<Item = (&str, &str)> {
        self.text[self.rows..].lines().map(|line| line.split_once('\t').unwrap_or((line, "")))
    }

    /// Returns the rows whose names start with `prefix`.
    fn rows_from(&self, prefix: &str) -> impl Iterator<Item = (&str, &str)> {
        let rows = &self.text[self.rows..];
        let (mut low, mut high) = (0, rows.len());
        // `low` and `high` are always at the start of a line.
        while low < high {
            let middle = low + (high - low) / 2;
            let begin = rows[..middle].rfind('\n').map_or(0, |at| at + 1).max(low);
            let end = rows[begin..].find('\n').map_or(rows.len(), |at| begin + at + 1);
            if &rows[begin..end] < prefix { low = end } else { high = begin }
        }
        let rest = rows[low..].lines().map(|line| line.split_once('\t').unwrap_or((line, "")));
        rest.take_while(move |(name, _)| name.starts_with(prefix))
    }

    fn entry(&self, name: &str, fields: &str, found: Match) -> Entry {
        let mut entry = Entry::parse(name, fields, found, self.date());
        self.origin().clone_into(&mut entry.origin);
        if let Some(number) = entry.source.as_deref().and_then(|s| s.strip_prefix('@')) {
            let sources = self.text.lines().filter_map(|line| line.strip_prefix('@')?.split_once('\t'));
            entry.source = sources.filter(|(n, _)| *n == number).map(|(_, url)| url.to_owned()).next();
        }
        entry
    }

    fn exact(&self, name: &str) -> Option<(&str, &str)> {
        self.rows_from(name).next().filter(|(found, _)| *found == name)
    }
}

/// A date, as days since 1970-01-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Days(pub i64);

impl Days {
    /// Returns the day of a time in milliseconds since the Unix epoch.
    pub fn of_ms(ms: i64) -> Days {
        Days(ms.div_euclid(86_400_000))
    }

    /// Parses `YYYY-MM-DD`.
    pub fn parse(text: &str) -> Option<Days> {
        let mut parts = text.splitn(3, '-').map(|part| part.parse::<i64>().ok());
        let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
        let year = if month <= 2 { year - 1 } else { year };
        let era = year.div_euclid(400);
        let of_era = year - era * 400;
        let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        Some(Days(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468))
    }
}

impl std::fmt::Display for Days {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let z = self.0 + 719_468;
        let era = z.div_euclid(146_097);
        let of_era = z - era * 146_097;
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let part = (5 * of_year + 2) / 153;
        let day = of_year - (153 * part + 2) / 5 + 1;
        let month = if part < 10 { part + 3 } else { part - 9 };
        let year = year + era * 400 + i64::from(month <= 2);
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

/// The tables of a run: the hand-maintained overlay, then the newer generated table.
#[derive(Debug)]
pub struct Catalog {
    tables: [Table; 2],
    asked: RefCell<BTreeMap<String, Option<Rc<Entry>>>>,
}

impl Default for Catalog {
    fn default() -> Self {
        Catalog::new(None)
    }
}

impl Catalog {
    /// Creates a catalogue. A table installed by the user replaces the shipped one unless it is older.
    pub fn new(installed: Option<Table>) -> Catalog {
        let shipped = Table::shipped(SHIPPED);
        let generated = installed.filter(|table| table.date() >= shipped.date()).unwrap_or(shipped);
        Catalog { tables: [Table::shipped(OVERLAY), generated], asked: RefCell::default() }
    }

    /// Returns the generated table.
    pub fn generated(&self) -> &Table {
        &self.tables[1]
    }

    /// Finds the entry of a model: at the provider, else at its vendor, else the newest model of its family.
    pub fn find(&self, provider: &str, model: &str) -> Option<Rc<Entry>> {
        let key = format!("{provider}/{model}").to_lowercase();
        if let Some(answer) = self.asked.borrow().get(&key) {
            return answer.clone();
        }
        let (provider, model) = key.split_once('/').unwrap_or(("", &key));
        let answer = self.search(provider, model).map(Rc::new);
        let mut asked = self.asked.borrow_mut();
        if asked.len() >= REMEMBERED {
            asked.clear();
        }
        asked.insert(key.clone(), answer.clone());
        answer
    }

    fn search(&self, provider: &str, model: &str) -> Option<Entry> {
        for name in spellings(model) {
            if let Some(entry) = self.exact(&format!("{provider}/{name}"), Match::Exact) {
                return Some(entry);
            }
        }
        // Gateways and clouds name a model `vendor/model`, `vendor.model` or with a path.
        let tail = model.rsplit('/').next().unwrap_or(model);
        let tail = tail
            .strip_prefix("anthropic.")
            .or_else(|| tail.split_once(".anthropic.").map(|(_, t)| t))
            .unwrap_or(tail);
        let vendor = vendor_of(tail)?;
        for name in spellings(tail) {
            if let Some(entry) = self.exact(&format!("{vendor}/{name}"), Match::Vendor) {
                return Some(entry);
            }
        }
        self.newest_of_family(vendor, tail)
    }

    fn exact(&self, name: &str, found: Match) -> Option<Entry> {
        self.tables.iter().find_map(|table| {
            let (name, fields) = table.exact(name)?;
            Some(table.entry(name, fields, found))
        })
    }

    /// Returns the newest row with the same name parts, else with the same first name part.
    fn newest_of_family(&self, vendor: &str, model: &str) -> Option<Entry> {
        let (words, _) = words_and_version(model);
        let first = words.first()?.clone();
        let prefix = format!("{vendor}/{first}");
        let table = self.generated();
        let newest = |fits: &dyn Fn(&[String]) -> bool| {
            let rows = table.rows_from(&prefix).filter_map(|(name, fields)| {
                let (of_row, version) = words_and_version(&name[vendor.len() + 1..]);
                (of_row.first() == Some(&first) && fits(&of_row)).then_some((version, name, fields))
            });
            // Of several names with the same version, the shortest is the plain model.
            rows.max_by(|a, b| a.0.cmp(&b.0).then(b.1.len().cmp(&a.1.len())))
        };
        let (_, name, fields) = newest(&|of_row| of_row == words).or_else(|| newest(&|_| true))?;
        let entry = table.entry(name, fields, Match::Family);
        Some(Entry { retires: None, successor: None, ..entry })
    }
}

/// Returns the names under which a model may be listed: as given, without date, tag or endpoint version, and with
/// hyphens instead of dots.
fn spellings(model: &str) -> Vec<String> {
    let mut out = vec![model.to_owned()];
    let mut add = |name: String| {
        if !name.is_empty() && !out.contains(&name) {
            out.push(name);
        }
    };
    // An OpenAI fine-tune has the fine-tune price of its base model: `ft:gpt-4o-2024-08-06:org::id`.
    if model.starts_with("ft:") {
        add(model.split(':').take(2).collect::<Vec<_>>().join(":"));
    }
    let untagged = model.split(['@', ':']).next().unwrap_or(model);
    let plain = untagged.strip_suffix("-latest").unwrap_or(untagged);
    let bare = without_date(plain.strip_suffix("-v1").or_else(|| plain.strip_suffix("-v2")).unwrap_or(plain));
    for name in [untagged, plain, bare] {
        add(name.to_owned());
    }
    if model.starts_with("claude-") {
        for name in [untagged, bare] {
            add(name.replace('.', "-"));
        }
    }
    out
}

/// Removes a trailing `-20250514` or `-2024-08-06`.
fn without_date(name: &str) -> &str {
    let digits = |text: &str, n: usize| text.len() == n && text.bytes().all(|b| b.is_ascii_digit());
    let Some((head, last)) = name.rsplit_once('-') else { return name };
    if digits(last, 8) {
        return head;
    }
    let mut parts = head.rsplitn(3, '-');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(month), Some(year), Some(head)) if digits(last, 2) && digits(month, 2) && digits(year, 4) => {
            head
        }
        _ => name,
    }
}

/// Splits a name into non-numeric parts and version numbers: `gpt-5.6-sol` has the parts `gpt`, `sol` and the version
/// 5, 6.
fn words_and_version(model: &str) -> (Vec<String>, Vec<u32>) {
    let (mut words, mut version) = (Vec::new(), Vec::new());
    for part in without_date(model).split('-') {
        let numbers: Option<Vec<u32>> = part.split('.').map(|n| n.parse().ok()).collect();
        match numbers {
            Some(numbers) => version.extend(numbers),
            None => words.push(part.to_owned()),
        }
    }
    (words, version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_tables_are_sorted_and_dated() {
        for text in [SHIPPED, OVERLAY] {
            let table = Table::parse(text).unwrap();
            assert!(Days::parse(table.date()).is_some(), "{}", table.date());
        }
        assert!(Table::parse(SHIPPED).unwrap().rows().count() > 1000);
        for (name, fields) in Table::parse(OVERLAY).unwrap().rows() {
            assert!(fields.contains("\tsource=http") && fields.contains("\tchecked=20"), "{name}");
        }
    }

    #[test]
    fn every_row_is_found() {
        let catalog = Catalog::default();
        for (name, _) in catalog.generated().rows() {
            let (provider, model) = name.split_once('/').unwrap();
            let found = catalog.search(provider, model).unwrap();
            assert_eq!((found.name.as_str(), found.found), (name, Match::Exact));
        }
    }

    #[test]
    fn names_find_their_rows() {
        let catalog = Catalog::default();
        let find = |provider: &str, model: &str| {
            let found = catalog.find(provider, model)?;
            Some((found.name.clone(), found.found))
        };
        let is = |name: &str, found| Some((name.to_owned(), found));
        assert_eq!(find("openai", "gpt-5"), is("openai/gpt-5", Match::Exact));
        assert_eq!(
            find("anthropic", "claude-opus-4-5-20251101"),
            is("anthropic/claude-opus-4-5-20251101", Match::Exact)
        );
        assert_eq!(
            find("anthropic", "claude-opus-4-5-20991231"),
            is("anthropic/claude-opus-4-5", Match::Exact)
        );
        assert_eq!(
            find("openrouter", "anthropic/claude-opus-4.5"),
            is("anthropic/claude-opus-4-5", Match::Vendor)
        );
        assert_eq!(find("local", "GPT-5"), is("openai/gpt-5", Match::Vendor));
        assert_eq!(
            find("openai", "ft:gpt-4o-2024-08-06:org::id"),
            is("openai/ft:gpt-4o-2024-08-06", Match::Exact)
        );
        let family = |model: &str| find("openai", model).map(|(name, found)| (name, found == Match::Family));
        assert!(family("gpt-9").unwrap().1);
        assert_eq!(find("ollama", "my-own-model"), None);
        let newest = catalog.find("anthropic", "claude-opus-99").unwrap();
        assert!(newest.name.starts_with("anthropic/claude-opus-5"), "{}", newest.name);
        assert!(newest.retires.is_none() && newest.pricing.is_some());
    }

    #[test]
    fn days_and_dates() {
        for (text, days) in [("1970-01-01", 0), ("2000-02-29", 11_016), ("2026-11-28", 20_785)] {
            assert_eq!((Days::parse(text), Days(days).to_string()), (Some(Days(days)), text.to_owned()));
        }
        assert_eq!(Days::parse("soon"), None);
        assert_eq!(Days::of_ms(86_400_000 * 3 + 5), Days(3));
    }
}
