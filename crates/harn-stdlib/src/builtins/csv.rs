//! CSV (RFC 4180).

use harn_schema::options::Options;
use harn_value::{Dict, List, Ref, Str, Value, steps};
use harn_vm::builtin::{OptionDict, Text};
use harn_vm::{Error, Result, builtins};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::args::{printed, room_for};

builtins! {
    /// CSV.
    pub(crate) static CSV: "csv";

    /// Parses CSV: rows of strings, or dicts by column name with `{headers: true}`.
    ///
    /// In dicts, missing cells are `""` and surplus cells are dropped. Duplicate column names are
    /// an error.
    ///
    /// ```harn
    /// println(csv_parse("a,\"b, c\"\n1,2\n")) // -> [[a, b, c], [1, 2]]
    /// println(csv_parse("n,age\nAda,36\n", {headers: true})) // -> [{age: 36, n: Ada}]
    /// ```
    Pure fn csv_parse(cx, s: Text as "string", options: OptionDict<ParseOptions>) -> "list" {
        let options = options.read()?;
        // A file may begin with a byte order mark, which is not part of the first cell.
        let text = s.strip_prefix('\u{feff}').unwrap_or(&s);
        let text = if text.trim().is_empty() { "" } else { text };
        let rows = parse(text, options.delimiter).map_err(|reason| Error::thrown(format!("csv_parse: {reason}")))?;
        room_for(rows.len())?;
        let mut rows = rows.into_iter();
        if options.headers {
            let names: Vec<Str> = rows.next().unwrap_or_default().iter().map(|name| Str::new(name)).collect();
            all_different(&names)?;
            rows.map(|row| with_names(&names, &row)).collect::<Vec<_>>()
        } else {
            rows.map(|row| Value::list(row.iter().map(Value::from).collect())).collect()
        }
    }

    /// Serializes rows as CSV: lists of cells, or dicts.
    ///
    /// The columns of dicts are the keys of the first row, followed by further keys in order of
    /// appearance.
    ///
    /// ```harn
    /// println(csv_stringify([[1, "a b"], ["x,y", nil]]).lines()) // -> [1,a b, "x,y",nil]
    /// println(csv_stringify([{b: 1, a: 2}], {headers: true}).lines()) // -> [b,a, 1,2]
    /// ```
    Pure fn csv_stringify(cx, rows: Value as "!list", options: OptionDict<WriteOptions>) -> "string" {
        let options = options.read()?;
        let Some(rows) = rows.as_list() else {
            return Err(Error::thrown("csv_stringify: expected a list of rows"));
        };
        stringify(rows, &options)?
    }
}

/// Options of `csv_parse`.
#[derive(Options)]
#[options(thrown)]
struct ParseOptions {
    /// Whether the first row names the columns.
    headers: bool,
    /// Separator of cells: one character.
    #[option(default = ',', shown = ",", ty = "string", with = delimiter)]
    delimiter: char,
}

/// Options of `csv_stringify`.
#[derive(Options)]
#[options(thrown)]
struct WriteOptions {
    /// Whether the first row names the columns.
    headers: bool,
    /// Separator of cells: one character.
    #[option(default = ',', shown = ",", ty = "string", with = delimiter)]
    delimiter: char,
    /// Columns to write, in this order.
    columns: Option<Ref<List>>,
}

fn delimiter(value: &Value) -> std::result::Result<char, String> {
    let text = printed(value);
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(delimiter), None) => Ok(delimiter),
        _ => Err("must be one character".to_owned()),
    }
}

impl WriteOptions {
    fn columns(&self) -> Result<Option<Vec<Str>>> {
        let Some(columns) = &self.columns else { return Ok(None) };
        let names: Option<Vec<Str>> = columns.iter().map(|name| name.as_str().cloned()).collect();
        let wrong = || Error::type_error("csv_stringify: columns must be a list of strings");
        names.map(Some).ok_or_else(wrong)
    }
}

fn parse(text: &str, delimiter: char) -> std::result::Result<Vec<Vec<String>>, String> {
    let mut rows = Vec::new();
    let mut row: Vec<String> = Vec::new();
    let mut cell = String::new();
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        steps::step();
        match c {
            '"' if cell.is_empty() && !quoted => {
                quoted = true;
                loop {
                    match chars.next() {
                        Some('"') if chars.peek() == Some(&'"') => {
                            chars.next();
                            cell.push('"');
                        }
                        Some('"') => break,
                        Some(c) => {
                            steps::step();
                            cell.push(c);
                        }
                        None => return Err(format!("unclosed quote in row {}", rows.len() + 1)),
                    }
                }
            }
            _ if c == delimiter => {
                row.push(std::mem::take(&mut cell));
                quoted = false;
            }
            '\n' | '\r' => {
                if c == '\r' && chars.peek() == Some(&'\n') {
                    chars.next();
                }
                // Empty lines are skipped.
                if !row.is_empty() || !cell.is_empty() || quoted {
                    row.push(std::mem::take(&mut cell));
                    rows.push(std::mem::take(&mut row));
                }
                quoted = false;
            }
            _ => cell.push(c),
        }
    }
    if !row.is_empty() || !cell.is_empty() || quoted {
        row.push(cell);
        rows.push(row);
    }
    Ok(rows)
}

/// Rejects duplicate column names, because a dict would contain only the last of these columns.
fn all_different(names: &[Str]) -> Result<()> {
    let mut seen = FxHashMap::default();
    for (at, name) in names.iter().enumerate() {
        if let Some(before) = seen.insert(name, at) {
            return Err(Error::thrown(format!(
                "csv_parse: columns {} and {} are both called '{name}'; name them apart, or read rows as lists, without `headers`",
                before + 1,
                at + 1
            )));
        }
    }
    Ok(())
}

fn with_names(names: &[Str], row: &[String]) -> Value {
    let cell = |at: usize| row.get(at).map_or("", String::as_str);
    let entries = names.iter().enumerate().map(|(at, name)| (name.clone(), cell(at)));
    entries.collect::<Dict>().into()
}

fn stringify(rows: &[Value], options: &WriteOptions) -> Result<String> {
    let columns = options.columns()?;
    let mut out = String::new();
    let Some(first) = rows.first() else { return Ok(out) };
    if first.as_dict().is_none() {
        for row in rows {
            let Some(cells) = row.as_list() else {
                let mixed = first.as_list().is_some() && row.as_dict().is_some();
                return Err(if mixed { mixed_rows() } else { no_row() });
            };
            write_row(cells.iter().map(printed), options, &mut out);
        }
        return Ok(out);
    }
    let dicts: Option<Vec<_>> = rows.iter().map(|row| row.as_dict().cloned()).collect();
    let dicts = dicts.ok_or_else(mixed_rows)?;
    let names: Vec<Str> = match columns {
        Some(columns) => columns,
        None => {
            let mut names: Vec<Str> = Vec::new();
            let mut seen = FxHashSet::default();
            for key in dicts.iter().flat_map(|dict| dict.written().map(|(key, _)| key)) {
                if seen.insert(key.clone()) {
                    names.push(key.clone());
                }
            }
            names
        }
    };
    if options.headers {
        write_row(names.iter().cloned(), options, &mut out);
    }
    for dict in &dicts {
        let cell = |name: &Str| dict.get(name).map_or_else(|| Str::new(""), printed);
        write_row(names.iter().map(cell), options, &mut out);
    }
    Ok(out)
}

fn mixed_rows() -> Error {
    Error::thrown("csv_stringify: mixed list/dict rows are not supported")
}

fn no_row() -> Error {
    Error::thrown("csv_stringify: each row must be a list of cells (or use dict rows)")
}

fn write_row(cells: impl Iterator<Item = Str>, options: &WriteOptions, out: &mut String) {
    let mut cells = cells.enumerate().peekable();
    while let Some((i, cell)) = cells.next() {
        if i > 0 {
            out.push(options.delimiter);
        }
        steps::bytes(cell.len());
        steps::reserve(out, cell.len() + 3);
        // An empty line would be skipped when parsed.
        let alone = i == 0 && cells.peek().is_none();
        if cell.is_empty() && alone {
            out.push_str("\"\"");
        } else if cell.contains([options.delimiter, '"', '\n', '\r']) {
            out.push('"');
            out.push_str(&cell.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(&cell);
        }
    }
    out.push('\n');
}
