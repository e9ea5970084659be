//! A subset of the jq language: an expression gives any number of results for an input.

use harn_value::{Dict, Value, View, compare, equal, steps};

use crate::args::with_stack;

/// A parsed expression.
#[derive(Debug, Clone)]
pub(crate) enum Expr {
    Input,
    Descend,
    Literal(Literal),
    Field(Box<Expr>, String),
    Index(Box<Expr>, i64),
    Slice(Box<Expr>, Option<i64>, Option<i64>),
    Each(Box<Expr>),
    Pipe(Box<Expr>, Box<Expr>),
    Comma(Box<Expr>, Box<Expr>),
    Compare(Compare, Box<Expr>, Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Not(Box<Expr>),
    Call(Function),
    Map(Box<Expr>),
    Select(Box<Expr>),
    Object(Vec<(String, Expr)>),
}

#[derive(Debug, Clone)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Compare {
    Equal,
    Unequal,
    Less,
    Greater,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Function {
    Length,
    Keys,
    Values,
    Type,
}

/// Parses an expression.
///
/// # Errors
/// What is wrong and near what, without the leading `jq: `.
pub(crate) fn parse(text: &str) -> Result<Expr, String> {
    let mut parser = Parser { rest: text, depth: 0, parts: 0 };
    let expr = parser.pipe(true)?;
    parser.blanks();
    if parser.rest.is_empty() { Ok(expr) } else { Err(parser.near("unexpected input")) }
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
    /// Operators and accesses so far: each is a level of the tree.
    parts: usize,
}

type Parsed = Result<Expr, String>;

const MAX_DEPTH: usize = 1000;

/// Operators and accesses of an expression.
const MAX_PARTS: usize = 2000;

impl<'a> Parser<'a> {
    fn near(&self, what: &str) -> String {
        let shown: String = self.rest.chars().take(20).collect();
        format!("{what} near '{shown}'")
    }

    /// Counts an operator or an access.
    fn part(&mut self) -> Result<(), String> {
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return Err(self.near(&format!("the expression has more than {MAX_PARTS} parts")));
        }
        Ok(())
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, token: &str) -> bool {
        self.blanks();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.take(token) { Ok(()) } else { Err(self.near(&format!("expected '{token}'"))) }
    }

    /// The name at this place, which stays.
    fn name(&self) -> &'a str {
        let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let name = &self.rest[..end];
        if name.starts_with(|c: char| c.is_ascii_digit()) { "" } else { name }
    }

    fn word(&mut self, word: &str) -> bool {
        self.blanks();
        let found = self.name() == word;
        if found {
            self.rest = &self.rest[word.len()..];
        }
        found
    }

    fn pipe(&mut self, commas: bool) -> Parsed {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.near("nesting is too deep"));
        }
        let parsed = with_stack(|| {
            let mut left = self.comma(commas)?;
            while self.take("|") {
                self.part()?;
                left = Expr::Pipe(left.into(), self.comma(commas)?.into());
            }
            Ok(left)
        });
        self.depth -= 1;
        parsed
    }

    fn comma(&mut self, commas: bool) -> Parsed {
        let mut left = self.logic()?;
        while commas && self.take(",") {
            self.part()?;
            left = Expr::Comma(left.into(), self.logic()?.into());
        }
        Ok(left)
    }

    fn logic(&mut self) -> Parsed {
        let mut left = self.comparison()?;
        loop {
            if self.word("and") {
                self.part()?;
                left = Expr::And(left.into(), self.comparison()?.into());
            } else if self.word("or") {
                self.part()?;
                left = Expr::Or(left.into(), self.comparison()?.into());
            } else {
                return Ok(left);
            }
        }
    }

    fn comparison(&mut self) -> Parsed {
        let mut negations = 0;
        while self.word("not") {
            self.part()?;
            negations += 1;
        }
        let left = self.postfix()?;
        let operators =
            [("==", Compare::Equal), ("!=", Compare::Unequal), ("<", Compare::Less), (">", Compare::Greater)];
        let operator = operators.into_iter().find(|(token, _)| self.take(token));
        let mut expr = match operator {
            Some((_, compare)) => Expr::Compare(compare, left.into(), self.postfix()?.into()),
            None => left,
        };
        for _ in 0..negations {
            expr = Expr::Not(expr.into());
        }
        Ok(expr)
    }

    fn postfix(&mut self) -> Parsed {
        let mut expr = self.primary()?;
        loop {
            if self.rest.starts_with('[') {
                self.part()?;
                expr = self.bracket(expr)?;
            } else if self.rest.starts_with('.') && !self.rest.starts_with("..") {
                self.part()?;
                self.rest = &self.rest[1..];
                expr = if self.rest.starts_with('[') { self.bracket(expr)? } else { self.field(expr)? };
            } else {
                return Ok(expr);
            }
        }
    }

    fn field(&mut self, of: Expr) -> Parsed {
        let name = self.name();
        if name.is_empty() {
            return Err(self.near("expected field name"));
        }
        self.rest = &self.rest[name.len()..];
        Ok(Expr::Field(of.into(), name.to_owned()))
    }

    /// `[]`, `[n]`, `[a:b]` or `["key"]`
    fn bracket(&mut self, of: Expr) -> Parsed {
        self.rest = &self.rest[1..];
        if self.take("]") {
            return Ok(Expr::Each(of.into()));
        }
        self.blanks();
        if self.rest.starts_with('"') {
            let key = self.string()?;
            self.expect("]")?;
            return Ok(Expr::Field(of.into(), key));
        }
        let start = self.int();
        let expr = if self.take(":") {
            self.blanks();
            Expr::Slice(of.into(), start, self.int())
        } else {
            match start {
                Some(index) => Expr::Index(of.into(), index),
                None => return Err("expected array index or slice bound".to_owned()),
            }
        };
        self.expect("]")?;
        Ok(expr)
    }

    fn int(&mut self) -> Option<i64> {
        let digits = self.rest.strip_prefix('-').unwrap_or(self.rest);
        let sign = self.rest.len() - digits.len();
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        let number = self.rest[..sign + end].parse().ok()?;
        self.rest = &self.rest[sign + end..];
        Some(number)
    }

    /// A string literal with JSON's escapes.
    fn string(&mut self) -> Result<String, String> {
        let mut escaped = false;
        let end = self.rest.char_indices().skip(1).find(|(_, c)| {
            let closes = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            closes
        });
        let Some((end, _)) = end else { return Err("unterminated string literal".to_owned()) };
        let (literal, rest) = self.rest.split_at(end + 1);
        let value = harn_value::json::parse(literal).ok();
        let text = value.as_ref().and_then(Value::as_str).map(ToString::to_string);
        let text = text.ok_or_else(|| self.near("expected expression"))?;
        self.rest = rest;
        Ok(text)
    }

    fn number(&mut self) -> Option<Literal> {
        let end = self.rest.find(|c: char| !matches!(c, '0'..='9' | '.' | 'e' | 'E' | '+' | '-'));
        let text = &self.rest[..end.unwrap_or(self.rest.len())];
        let value = harn_value::json::parse(text).ok()?;
        self.rest = &self.rest[text.len()..];
        match value.view() {
            View::Int(i) => Some(Literal::Int(i)),
            View::Float(f) => Some(Literal::Float(f)),
            _ => None,
        }
    }

    fn primary(&mut self) -> Parsed {
        self.blanks();
        let Some(first) = self.rest.chars().next() else { return Err(self.near("expected expression")) };
        match first {
            '.' if self.take("..") => Ok(Expr::Descend),
            '.' => {
                self.rest = &self.rest[1..];
                if self.rest.starts_with('[') {
                    self.bracket(Expr::Input)
                } else if self.name().is_empty() {
                    let ends =
                        self.rest.starts_with(|c: char| !c.is_whitespace() && !"|,)=!<>}:]".contains(c));
                    if ends { Err(self.near("expected field name")) } else { Ok(Expr::Input) }
                } else {
                    self.field(Expr::Input)
                }
            }
            '(' => {
                self.rest = &self.rest[1..];
                let inner = self.pipe(true)?;
                self.expect(")")?;
                Ok(inner)
            }
            '{' => self.object(),
            '"' => self.string().map(|text| Expr::Literal(Literal::Text(text))),
            '0'..='9' | '-' => {
                self.number().map(Expr::Literal).ok_or_else(|| self.near("expected expression"))
            }
            _ => self.named(),
        }
    }

    fn named(&mut self) -> Parsed {
        let name = self.name();
        if name.is_empty() {
            return Err(self.near("expected expression"));
        }
        self.rest = &self.rest[name.len()..];
        Ok(match name {
            "null" => Expr::Literal(Literal::Null),
            "true" => Expr::Literal(Literal::Bool(true)),
            "false" => Expr::Literal(Literal::Bool(false)),
            "length" => Expr::Call(Function::Length),
            "keys" => Expr::Call(Function::Keys),
            "values" => Expr::Call(Function::Values),
            "type" => Expr::Call(Function::Type),
            "map" | "select" => {
                self.expect("(")?;
                let inner = Box::new(self.pipe(true)?);
                self.expect(")")?;
                if name == "map" { Expr::Map(inner) } else { Expr::Select(inner) }
            }
            _ => return Err(format!("unknown identifier '{name}'")),
        })
    }

    fn object(&mut self) -> Parsed {
        self.rest = &self.rest[1..];
        let mut entries = Vec::new();
        while !self.take("}") {
            if !entries.is_empty() {
                self.expect(",")?;
                self.blanks();
            }
            let key = if self.rest.starts_with('"') {
                self.string()?
            } else {
                let name = self.name();
                if name.is_empty() {
                    return Err(self.near("expected object key"));
                }
                self.rest = &self.rest[name.len()..];
                name.to_owned()
            };
            self.expect(":")?;
            entries.push((key, self.pipe(false)?));
        }
        Ok(Expr::Object(entries))
    }
}

/// jq's truth: everything but nil and false.
fn holds(value: &Value) -> bool {
    !value.is_nil() && value.as_bool() != Some(false)
}

impl Expr {
    /// All results for an input.
    pub(crate) fn results(&self, input: &Value) -> Vec<Value> {
        let mut out = Vec::new();
        self.eval(input, &mut |value| steps::push(&mut out, value));
        out
    }

    fn first(&self, input: &Value) -> Option<Value> {
        self.results(input).into_iter().next()
    }

    fn eval(&self, input: &Value, out: &mut dyn FnMut(Value)) {
        // Results are handed on through as many calls as the expression has parts.
        let out = &mut |value| with_stack(|| out(value));
        with_stack(|| self.eval_part(input, out));
    }

    fn eval_part(&self, input: &Value, out: &mut dyn FnMut(Value)) {
        match self {
            Expr::Input => out(input.clone()),
            Expr::Descend => descend(input, out),
            Expr::Literal(literal) => out(literal.value()),
            Expr::Field(of, name) => of.eval(input, &mut |v| {
                out(v.to_dict().and_then(|d| d.get_str(name).cloned()).unwrap_or_default());
            }),
            Expr::Index(of, index) => of.eval(input, &mut |v| {
                let list = v.as_list().map_or(&[][..], |list| list);
                let at = if *index < 0 { index.checked_add(list.len() as i64) } else { Some(*index) };
                let item = at.and_then(|at| usize::try_from(at).ok()).and_then(|at| list.get(at));
                out(item.cloned().unwrap_or_default());
            }),
            Expr::Slice(of, start, end) => of.eval(input, &mut |v| {
                let list = v.as_list().map_or(&[][..], |list| list);
                steps::bytes(size_of_val(list));
                let place = |n: i64| {
                    let n = if n < 0 { n.saturating_add(list.len() as i64) } else { n };
                    crate::args::size(n).min(list.len())
                };
                let (start, end) = (place(start.unwrap_or(0)), place(end.unwrap_or(i64::MAX)));
                out(Value::list(list.get(start..end).unwrap_or_default().to_vec()));
            }),
            Expr::Each(of) => of.eval(input, &mut |v| children(&v).into_iter().for_each(&mut *out)),
            Expr::Pipe(a, b) => a.eval(input, &mut |v| b.eval(&v, out)),
            Expr::Comma(a, b) => {
                a.eval(input, out);
                b.eval(input, out);
            }
            Expr::Compare(operator, a, b) => {
                let right = b.results(input);
                a.eval(input, &mut |left| {
                    for right in &right {
                        out(Value::bool(operator.holds(&left, right)));
                    }
                });
            }
            Expr::And(a, b) => {
                a.eval(input, &mut |v| {
                    out(Value::bool(holds(&v) && b.first(input).is_some_and(|v| holds(&v))))
                });
            }
            Expr::Or(a, b) => {
                a.eval(input, &mut |v| {
                    out(Value::bool(holds(&v) || b.first(input).is_some_and(|v| holds(&v))))
                });
            }
            Expr::Not(a) => a.eval(input, &mut |v| out(Value::bool(!holds(&v)))),
            Expr::Call(function) => out(function.call(input)),
            Expr::Map(f) => {
                let items = input.as_list().map_or(&[][..], |list| list);
                out(Value::list(items.iter().flat_map(|item| f.results(item)).collect()));
            }
            Expr::Select(f) => {
                if f.first(input).is_some_and(|v| holds(&v)) {
                    out(input.clone());
                }
            }
            Expr::Object(entries) => {
                let entry = |(key, value): &(String, Expr)| (key.as_str().to_owned(), value.first(input));
                out(Value::dict(entries.iter().map(entry).collect::<Dict>()));
            }
        }
    }
}

impl Literal {
    fn value(&self) -> Value {
        match self {
            Literal::Null => Value::NIL,
            Literal::Bool(b) => Value::bool(*b),
            Literal::Int(i) => Value::int(*i),
            Literal::Float(f) => Value::float(*f),
            Literal::Text(text) => Value::str(text),
        }
    }
}

impl Compare {
    fn holds(self, a: &Value, b: &Value) -> bool {
        let ordered = (a.as_number().is_some() && b.as_number().is_some())
            || (a.as_str().is_some() && b.as_str().is_some());
        match self {
            Compare::Equal => equal(a, b),
            Compare::Unequal => !equal(a, b),
            Compare::Less => ordered && compare(a, b).is_some_and(|order| order.is_lt()),
            Compare::Greater => ordered && compare(a, b).is_some_and(|order| order.is_gt()),
        }
    }
}

impl Function {
    fn call(self, input: &Value) -> Value {
        match self {
            Function::Length => Value::from(match input.view() {
                View::Nil => 0,
                View::Str(s) => s.char_count(),
                View::Bytes(b) => b.len(),
                View::List(l) => l.len(),
                View::Set(s) => s.len(),
                View::Dict(d) => d.len(),
                _ => 1,
            }),
            Function::Keys => Value::list(match input.view() {
                View::List(l) => (0..l.len()).map(Value::from).collect(),
                View::Dict(d) => d.keys().map(Value::from).collect(),
                _ => Vec::new(),
            }),
            Function::Values => Value::list(match input.view() {
                View::List(l) => l.to_vec(),
                View::Dict(d) => d.values().cloned().collect(),
                _ => Vec::new(),
            }),
            Function::Type => Value::str(match input.view() {
                View::Nil => "null",
                View::Bool(_) => "boolean",
                View::Int(_) | View::Float(_) => "number",
                View::Str(_) => "string",
                View::List(_) | View::Set(_) => "array",
                View::Dict(_) | View::Struct(_) => "object",
                _ => input.type_name(),
            }),
        }
    }
}

/// Items of a list, set or dict.
fn children(value: &Value) -> Vec<Value> {
    // The copy is as long as the value.
    steps::steps(match value.view() {
        View::List(items) => items.len(),
        View::Set(items) => items.len(),
        View::Dict(d) => d.len(),
        _ => 1,
    });
    match value.view() {
        View::List(items) => items.to_vec(),
        View::Set(items) => items.iter().cloned().collect(),
        View::Dict(d) => d.values().cloned().collect(),
        View::Struct(s) => s.fields().into_iter().map(|(_, v)| v.clone()).collect(),
        _ => Vec::new(),
    }
}

fn descend(value: &Value, out: &mut dyn FnMut(Value)) {
    out(value.clone());
    with_stack(|| children(value).iter().for_each(|child| descend(child, out)));
}
