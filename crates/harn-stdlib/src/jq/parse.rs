//! The parser of jq expressions.

use harn_value::{Value, json};

use super::expr::{Expr, Fold, Operator, Piece};
use super::format::Format;
use super::functions::{UNSUPPORTED, find};
use crate::args::with_stack;

/// Parses an expression.
///
/// # Errors
/// The reason and the position, without the leading `jq: `.
pub(super) fn parse(text: &str) -> Parsed {
    let mut parser = Parser { rest: text, depth: 0, parts: 0, variables: Vec::new() };
    let expr = parser.pipe(true)?;
    parser.blanks();
    if parser.rest.is_empty() { Ok(expr) } else { Err(parser.near("unexpected input")) }
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
    /// Number of operators and accesses so far: each adds a level to the tree.
    parts: usize,
    variables: Vec<String>,
}

type Parsed<T = Expr> = Result<T, String>;

const MAX_DEPTH: usize = 1000;

/// Maximum number of operators and accesses of an expression.
const MAX_PARTS: usize = 2000;

/// Keywords; they cannot name functions.
const KEYWORDS: [&str; 12] =
    ["and", "or", "as", "then", "elif", "else", "end", "catch", "if", "try", "reduce", "foreach"];

impl<'a> Parser<'a> {
    fn near(&self, what: &str) -> String {
        let shown: String = self.rest.chars().take(20).collect();
        format!("{what} near '{shown}'")
    }

    /// Counts an operator or an access.
    fn part(&mut self) -> Parsed<()> {
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return Err(self.near(&format!("the expression has more than {MAX_PARTS} parts")));
        }
        Ok(())
    }

    /// Skips white space and comments.
    fn blanks(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            let Some(comment) = self.rest.strip_prefix('#') else { return };
            self.rest = comment.split_once('\n').map_or("", |(_, rest)| rest);
        }
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

    fn expect(&mut self, token: &str) -> Parsed<()> {
        if self.take(token) { Ok(()) } else { Err(self.near(&format!("expected '{token}'"))) }
    }

    /// Returns the next name without consuming it.
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

    fn expect_word(&mut self, word: &str) -> Parsed<()> {
        if self.word(word) { Ok(()) } else { Err(self.near(&format!("expected '{word}'"))) }
    }

    fn pipe(&mut self, commas: bool) -> Parsed {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.near("nesting is too deep"));
        }
        let parsed = with_stack(|| {
            let mut left = self.comma(commas)?;
            while !self.ahead("|=") && self.take("|") {
                self.part()?;
                left = Expr::Pipe(left.into(), self.comma(commas)?.into());
            }
            Ok(left)
        });
        self.depth -= 1;
        parsed
    }

    fn ahead(&mut self, token: &str) -> bool {
        self.blanks();
        self.rest.starts_with(token)
    }

    fn comma(&mut self, commas: bool) -> Parsed {
        let mut left = self.alternative()?;
        while commas && self.take(",") {
            self.part()?;
            left = Expr::Comma(left.into(), self.alternative()?.into());
        }
        Ok(left)
    }

    /// Parses `a // b`, which is right-associative.
    fn alternative(&mut self) -> Parsed {
        let mut operands = vec![self.assignment()?];
        while !self.ahead("//=") && !self.ahead("?//") && self.take("//") {
            self.part()?;
            operands.push(self.assignment()?);
        }
        let last = operands.pop().unwrap_or(Expr::Input);
        Ok(operands.into_iter().rfold(last, |right, left| Expr::Alternative(left.into(), right.into())))
    }

    /// Detects assignments and rejects them by name.
    fn assignment(&mut self) -> Parsed {
        let left = self.or()?;
        for operator in ["|=", "+=", "-=", "*=", "/=", "%=", "//=", "?//", "="] {
            if self.ahead(operator) && !self.ahead("==") {
                return Err(self.near(&format!("'{operator}' is not supported")));
            }
        }
        Ok(left)
    }

    fn or(&mut self) -> Parsed {
        let mut left = self.and()?;
        while self.word("or") {
            self.part()?;
            left = Expr::Or(left.into(), self.and()?.into());
        }
        Ok(left)
    }

    fn and(&mut self) -> Parsed {
        let mut left = self.comparison()?;
        while self.word("and") {
            self.part()?;
            left = Expr::And(left.into(), self.comparison()?.into());
        }
        Ok(left)
    }

    fn comparison(&mut self) -> Parsed {
        const OPERATORS: [(&str, Operator); 6] = [
            ("==", Operator::Equal),
            ("!=", Operator::Unequal),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        let left = self.sum()?;
        let Some((_, operator)) = OPERATORS.into_iter().find(|(token, _)| self.take(token)) else {
            return Ok(left);
        };
        self.part()?;
        let expr = Expr::Operator(operator, left.into(), self.sum()?.into());
        match OPERATORS.into_iter().find(|(token, _)| self.ahead(token)) {
            None => Ok(expr),
            Some(_) => Err(self.near("comparisons cannot be chained: unexpected input")),
        }
    }

    fn sum(&mut self) -> Parsed {
        self.operators(Self::product, &[("+", Operator::Add), ("-", Operator::Subtract)])
    }

    fn product(&mut self) -> Parsed {
        let operators = [("*", Operator::Multiply), ("/", Operator::Divide), ("%", Operator::Remainder)];
        self.operators(Self::unary, &operators)
    }

    fn operators(&mut self, operand: fn(&mut Self) -> Parsed, operators: &[(&str, Operator)]) -> Parsed {
        let mut left = operand(self)?;
        loop {
            self.blanks();
            let assigns = self.rest.get(1..).is_some_and(|rest| rest.starts_with('='));
            if assigns || self.ahead("//") {
                return Ok(left);
            }
            let Some((_, operator)) = operators.iter().find(|(token, _)| self.take(token)) else {
                return Ok(left);
            };
            self.part()?;
            left = Expr::Operator(*operator, left.into(), operand(self)?.into());
        }
    }

    fn unary(&mut self) -> Parsed {
        let mut negations = 0;
        while self.take("-") {
            self.part()?;
            negations += 1;
        }
        let mut expr = self.postfix()?;
        for _ in 0..negations {
            expr = match expr {
                Expr::Literal(value) => {
                    super::values::negated(&value).map_or(Expr::Literal(value), Expr::Literal)
                }
                other => Expr::Negate(other.into()),
            };
        }
        if self.word("as") {
            let name = self.variable()?;
            self.expect("|")?;
            self.part()?;
            let body = self.scoped(&name, |parser| parser.pipe(true))?;
            expr = Expr::Bind(expr.into(), name, body.into());
        }
        Ok(expr)
    }

    /// Parses `$name` in a binding.
    fn variable(&mut self) -> Parsed<String> {
        self.blanks();
        if self.rest.starts_with(['[', '{']) {
            return Err(self.near("destructuring is not supported"));
        }
        self.expect("$")?;
        let name = self.name();
        if name.is_empty() {
            return Err(self.near("expected a variable name"));
        }
        self.rest = &self.rest[name.len()..];
        Ok(name.to_owned())
    }

    fn scoped<T>(&mut self, name: &str, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.variables.push(name.to_owned());
        let parsed = parse(self);
        self.variables.pop();
        parsed
    }

    fn postfix(&mut self) -> Parsed {
        let mut expr = self.primary()?;
        loop {
            let before = self.rest.len();
            self.blanks();
            // A dot after whitespace that is not an access is a separate input.
            let accesses = before == self.rest.len()
                || self
                    .rest
                    .get(1..)
                    .is_some_and(|rest| rest.starts_with(|c: char| c.is_alphabetic() || "_[\"".contains(c)));
            if self.rest.starts_with('[') {
                self.part()?;
                expr = self.bracket(expr)?;
            } else if accesses && self.rest.starts_with('.') && !self.rest.starts_with("..") {
                self.part()?;
                self.rest = &self.rest[1..];
                expr = self.access(expr)?;
            } else if self.rest.starts_with('?') && !self.rest.starts_with("?//") {
                self.part()?;
                self.rest = &self.rest[1..];
                expr = Expr::Try(expr.into(), None);
            } else {
                return Ok(expr);
            }
        }
    }

    /// Parses an access after a dot: `name`, `"name"` or `[..]`.
    fn access(&mut self, of: Expr) -> Parsed {
        if self.rest.starts_with('[') {
            return self.bracket(of);
        }
        if self.rest.starts_with('"') {
            let key = self.string(Format::Text)?;
            return Ok(Expr::Index(of.into(), key.into()));
        }
        let name = self.name();
        if name.is_empty() {
            return Err(self.near("expected field name"));
        }
        self.rest = &self.rest[name.len()..];
        Ok(Expr::Index(of.into(), Expr::Literal(Value::str(name)).into()))
    }

    /// Parses `[]`, `[key]` or `[a:b]`.
    fn bracket(&mut self, of: Expr) -> Parsed {
        self.rest = &self.rest[1..];
        if self.take("]") {
            return Ok(Expr::Each(of.into()));
        }
        let start = if self.ahead(":") { None } else { Some(Box::new(self.pipe(true)?)) };
        let expr = if self.take(":") {
            let end = if self.ahead("]") { None } else { Some(Box::new(self.pipe(true)?)) };
            if start.is_none() && end.is_none() {
                return Err("expected array index or slice bound".to_owned());
            }
            Expr::Slice(of.into(), start, end)
        } else {
            match start {
                Some(key) => Expr::Index(of.into(), key),
                None => return Err("expected array index or slice bound".to_owned()),
            }
        };
        self.expect("]")?;
        Ok(expr)
    }

    /// Parses a string with JSON escapes and `\(..)`.
    fn string(&mut self, format: Format) -> Parsed {
        const UNTERMINATED: &str = "unterminated string literal";
        self.rest = &self.rest[1..];
        let mut pieces = Vec::new();
        let mut literal = String::from("\"");
        loop {
            let at = self.rest.find(['"', '\\']).ok_or(UNTERMINATED)?;
            // JSON requires control characters to be escaped, jq does not.
            for c in self.rest[..at].chars() {
                if c.is_control() {
                    literal.push_str(&format!("\\u{:04x}", u32::from(c)))
                } else {
                    literal.push(c)
                }
            }
            let inserts = self.rest[at..].starts_with("\\(");
            let ends = self.rest[at..].starts_with('"');
            if inserts || ends {
                literal.push('"');
                let text = json::parse(&literal).ok().and_then(|text| text.as_str().map(ToString::to_string));
                let Some(text) = text else { return Err(self.near("invalid escape in the string before")) };
                literal.truncate(1);
                self.rest = &self.rest[at + 1..];
                if ends && pieces.is_empty() {
                    return Ok(Expr::Literal(Value::str(&text)));
                }
                pieces.push(Piece::Text(text));
                if ends {
                    return Ok(Expr::Text(format, pieces));
                }
                self.part()?;
                self.rest = &self.rest[1..];
                pieces.push(Piece::Value(self.pipe(true)?));
                self.expect(")")?;
            } else {
                let escape: String = self.rest[at..].chars().take(2).collect();
                self.rest = &self.rest[at + escape.len()..];
                literal.push_str(&escape);
            }
        }
    }

    fn number(&mut self) -> Parsed {
        let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let mut end = digits(self.rest);
        if self.rest[end..].starts_with('.') {
            end += 1 + digits(&self.rest[end + 1..]);
        }
        if let Some(exponent) = self.rest[end..].strip_prefix(['e', 'E']) {
            let sign = usize::from(exponent.starts_with(['+', '-']));
            let count = digits(&exponent[sign..]);
            end += if count > 0 { 1 + sign + count } else { 0 };
        }
        let text = &self.rest[..end];
        let value = text.parse().map(Value::int).ok();
        let value = value.or_else(|| text.parse().map(Value::float).ok());
        let Some(value) = value else { return Err(self.near("expected expression")) };
        self.rest = &self.rest[end..];
        Ok(Expr::Literal(value))
    }

    fn primary(&mut self) -> Parsed {
        self.blanks();
        let Some(first) = self.rest.chars().next() else { return Err(self.near("expected expression")) };
        match first {
            '.' if self.take("..") => Ok(Expr::Descend),
            '.' if self.rest[1..].starts_with(|c: char| c.is_ascii_digit()) => self.number(),
            '.' => {
                self.rest = &self.rest[1..];
                let accessed = self.rest.starts_with(['[', '"']) || !self.name().is_empty();
                // A dot before something other than a name.
                let wrong = self.rest.starts_with(|c: char| c.is_alphanumeric() || "_$@(".contains(c));
                if accessed {
                    self.access(Expr::Input)
                } else if wrong {
                    Err(self.near("expected field name"))
                } else {
                    Ok(Expr::Input)
                }
            }
            '(' => {
                self.rest = &self.rest[1..];
                let inner = self.pipe(true)?;
                self.expect(")")?;
                Ok(inner)
            }
            '[' => {
                self.rest = &self.rest[1..];
                if self.take("]") {
                    return Ok(Expr::Array(None));
                }
                let inner = self.pipe(true)?;
                self.expect("]")?;
                Ok(Expr::Array(Some(inner.into())))
            }
            '{' => self.object(),
            '"' => self.string(Format::Text),
            '@' => {
                self.rest = &self.rest[1..];
                let name = self.name();
                let Some(format) = Format::named(name) else {
                    return Err(format!("unknown format '@{name}'"));
                };
                self.rest = &self.rest[name.len()..];
                if self.ahead("\"") { self.string(format) } else { Ok(Expr::Format(format)) }
            }
            '$' => {
                self.rest = &self.rest[1..];
                let name = self.name();
                self.rest = &self.rest[name.len()..];
                self.bound(name)
            }
            '0'..='9' => self.number(),
            _ => self.named(),
        }
    }

    fn bound(&self, name: &str) -> Parsed {
        if self.variables.iter().any(|known| known == name) {
            Ok(Expr::Variable(name.to_owned()))
        } else if matches!(name, "ENV" | "__loc__" | "__prog_args") {
            Err(format!("'${name}' is not supported"))
        } else {
            Err(format!("'${name}' is not defined"))
        }
    }

    fn named(&mut self) -> Parsed {
        let name = self.name();
        if name.is_empty() {
            return Err(self.near("expected expression"));
        }
        if matches!(name, "and" | "or" | "as" | "then" | "elif" | "else" | "end" | "catch") {
            return Err(self.near("expected expression"));
        }
        self.rest = &self.rest[name.len()..];
        match name {
            "null" => Ok(Expr::Literal(Value::NIL)),
            "true" => Ok(Expr::Literal(Value::TRUE)),
            "false" => Ok(Expr::Literal(Value::FALSE)),
            "if" => self.conditional(),
            "try" => {
                self.part()?;
                let body = self.postfix()?;
                let handler = if self.word("catch") { Some(Box::new(self.postfix()?)) } else { None };
                Ok(Expr::Try(body.into(), handler))
            }
            "reduce" => self.fold().map(|(fold, _)| Expr::Reduce(fold.into())),
            "foreach" => {
                let (fold, name) = self.fold_head()?;
                let extract = self.scoped(&name, |parser| {
                    if parser.take(";") {
                        parser.pipe(true).map(|expr| Some(Box::new(expr)))
                    } else {
                        Ok(None)
                    }
                })?;
                self.expect(")")?;
                Ok(Expr::Foreach(fold.into(), extract))
            }
            "not" => {
                self.blanks();
                // The operand would be parsed as an access to the result.
                if self.rest.starts_with(|c: char| c.is_alphanumeric() || "_(.[{$\"".contains(c))
                    && !KEYWORDS.contains(&self.name())
                {
                    return Err(self.near("'not' has no operand, write 'EXPR | not'"));
                }
                self.call(name)
            }
            _ => self.call(name),
        }
    }

    fn fold(&mut self) -> Parsed<(Fold, String)> {
        let folded = self.fold_head()?;
        self.expect(")")?;
        Ok(folded)
    }

    /// Parses `source as $name (start; update`.
    fn fold_head(&mut self) -> Parsed<(Fold, String)> {
        self.part()?;
        let source = self.postfix()?;
        self.expect_word("as")?;
        let name = self.variable()?;
        self.expect("(")?;
        let start = self.pipe(true)?;
        self.expect(";")?;
        let update = self.scoped(&name, |parser| parser.pipe(true))?;
        Ok((Fold { source, name: name.clone(), start, update }, name))
    }

    /// Parses the part after `if` or `elif`.
    fn conditional(&mut self) -> Parsed {
        self.part()?;
        let condition = self.pipe(true)?;
        self.expect_word("then")?;
        let then = self.pipe(true)?;
        let otherwise = if self.word("elif") {
            with_stack(|| self.conditional())?
        } else if self.word("else") {
            let otherwise = self.pipe(true)?;
            self.expect_word("end")?;
            otherwise
        } else {
            self.expect_word("end")?;
            Expr::Input
        };
        Ok(Expr::If(condition.into(), then.into(), otherwise.into()))
    }

    fn call(&mut self, name: &str) -> Parsed {
        let mut arguments = Vec::new();
        if self.take("(") {
            self.part()?;
            arguments.push(self.pipe(true)?);
            while self.take(";") {
                arguments.push(self.pipe(true)?);
            }
            self.expect(")")?;
        }
        match find(name, arguments.len()) {
            Ok(function) => Ok(Expr::Call(function, arguments)),
            Err(arities) if !arities.is_empty() => {
                let counts: Vec<String> = arities.iter().map(ToString::to_string).collect();
                Err(format!("'{name}' takes {} arguments, got {}", counts.join(" or "), arguments.len()))
            }
            Err(_) if UNSUPPORTED.contains(&name) => Err(format!("'{name}' is not supported")),
            Err(_) => Err(format!("unknown identifier '{name}'")),
        }
    }

    fn object(&mut self) -> Parsed {
        self.rest = &self.rest[1..];
        let mut entries = Vec::new();
        while !self.take("}") {
            if !entries.is_empty() {
                self.expect(",")?;
                self.blanks();
            }
            entries.push(self.entry()?);
        }
        Ok(Expr::Object(entries))
    }

    fn entry(&mut self) -> Parsed<(Expr, Expr)> {
        self.part()?;
        let field = |key: &str| Expr::Index(Expr::Input.into(), Expr::Literal(Value::str(key)).into());
        if self.take("$") {
            let name = self.name();
            self.rest = &self.rest[name.len()..];
            return Ok((Expr::Literal(Value::str(name)), self.bound(name)?));
        }
        self.blanks();
        let (key, shorthand) = if self.rest.starts_with('"') {
            let start = self.rest;
            let key = self.string(Format::Text)?;
            let again =
                Parser { rest: start, depth: self.depth, parts: 0, variables: self.variables.clone() };
            (key, Some(again))
        } else if self.take("(") {
            let key = self.pipe(true)?;
            self.expect(")")?;
            (key, None)
        } else {
            let name = self.name();
            if name.is_empty() {
                return Err(self.near("expected object key"));
            }
            self.rest = &self.rest[name.len()..];
            if !self.ahead(":") {
                return Ok((Expr::Literal(Value::str(name)), field(name)));
            }
            (Expr::Literal(Value::str(name)), None)
        };
        match shorthand {
            Some(mut again) if !self.ahead(":") => {
                let value = Expr::Index(Expr::Input.into(), again.string(Format::Text)?.into());
                Ok((key, value))
            }
            _ => {
                self.expect(":")?;
                Ok((key, self.pipe(false)?))
            }
        }
    }
}
