//! The expression parser: recursive descent over one directive body.
//!
//! ```text
//! expr    := or ( "|" NAME ( ":" or ( "," or )* )? )*
//! or      := and ( ("or" | "||") and )*
//! and     := not ( ("and" | "&&") not )*
//! not     := ("not" | "!") not | cmp
//! cmp     := primary ( ("==" | "!=" | "<" | "<=" | ">" | ">=") primary )?
//! primary := literal | path | "(" expr ")" | ("!" | "not") primary
//! path    := IDENT ( "." IDENT | "[" INT "]" | "[" STRING "]" )*
//! ```

use harn_value::{Str, Value};

use super::lexer::{Token, token, unescape};
use super::{Expr, FilterCall, FilterProblem, LoopField, Name, Path, Step};
use crate::error::{ErrorKind, Fail};
use crate::filters;

/// Maximum nesting of parentheses and `not`s, and of blocks.
pub(crate) const MAX_NESTING: usize = 128;

/// Resolves names to slots and shares equal strings within a template.
pub(crate) trait Resolver<'s> {
    fn resolve(&mut self, name: &'s str) -> Name;
    fn intern(&mut self, name: &'s str) -> Str;
}

/// The context of an expression: what may follow it, in addition to the end of the body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Within {
    /// Nothing.
    Directive,
    /// Another `name=value`.
    SectionArguments,
    /// A comma or the closing brace, then another `key: value`.
    WithBindings,
    /// `with { … }`.
    IncludePath,
}

/// A cursor on a directive body.
pub(crate) struct Parser<'s, 'r> {
    source: &'s str,
    /// End of the body in the source.
    end: usize,
    /// Start and end of the current token in the source.
    start: usize,
    next: usize,
    token: Token<'s>,
    within: Within,
    depth: usize,
    resolver: &'r mut dyn Resolver<'s>,
}

impl<'s, 'r> Parser<'s, 'r> {
    /// Creates a parser of `source[start..end]`, positioned at the first token.
    pub(crate) fn new(
        source: &'s str,
        start: usize,
        end: usize,
        within: Within,
        resolver: &'r mut dyn Resolver<'s>,
    ) -> Result<Parser<'s, 'r>, Fail> {
        let mut parser =
            Parser { source, end, start, next: start, token: Token::End, within, depth: 0, resolver };
        parser.advance()?;
        Ok(parser)
    }

    /// Returns whether the whole body has been parsed.
    pub(crate) fn at_end(&self) -> bool {
        self.token == Token::End
    }

    /// Returns the remaining source, beginning with the current token.
    pub(crate) fn rest(&self) -> &'s str {
        &self.source[self.start..self.end]
    }

    /// Moves to the token `offset` bytes after the start of the current one.
    pub(crate) fn skip(&mut self, offset: usize) -> Result<(), Fail> {
        self.next = self.start + offset;
        self.advance()
    }

    /// Returns whether whitespace precedes the current token.
    pub(crate) fn follows_whitespace(&self) -> bool {
        self.source[..self.start].ends_with(char::is_whitespace)
    }

    /// Consumes a comma, if it is next.
    pub(crate) fn take_comma(&mut self) -> Result<bool, Fail> {
        let found = self.token == Token::Comma;
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    /// Consumes the closing brace of include bindings, if it is next.
    pub(crate) fn take_close_brace(&mut self) -> Result<bool, Fail> {
        let found = self.token == Token::CloseBrace;
        if found {
            self.within = Within::Directive;
            self.advance()?;
        }
        Ok(found)
    }

    /// Moves past the `{` of include bindings, with `left` bytes of the body remaining.
    pub(crate) fn enter_bindings(&mut self, left: usize) -> Result<(), Fail> {
        self.within = Within::WithBindings;
        self.next = self.end - left;
        self.advance()
    }

    /// Returns the shared string of a name.
    pub(crate) fn intern(&mut self, name: &'s str) -> Str {
        self.resolver.intern(name)
    }

    /// Fails unless the whole body has been parsed.
    pub(crate) fn finish(&self) -> Result<(), Fail> {
        if self.at_end() { Ok(()) } else { Err(self.left_over()) }
    }

    /// Returns the error for an unexpected token.
    pub(crate) fn left_over(&self) -> Fail {
        Box::new(ErrorKind::UnexpectedTokenIn { token: self.written() })
    }

    /// Returns the current token as written.
    fn written(&self) -> String {
        self.source[self.start..self.next].to_owned()
    }

    fn advance(&mut self) -> Result<(), Fail> {
        let rest = &self.source[self.next..self.end];
        let trimmed = rest.trim_start();
        self.start = self.end - trimmed.len();
        let braces = self.within == Within::WithBindings;
        let (token, length) = token(trimmed, braces)?;
        self.token = token;
        self.next = self.start + length;
        Ok(())
    }

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T, Fail>) -> Result<T, Fail> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(Box::new(ErrorKind::NestingTooDeep));
        }
        let result = parse(self)?;
        self.depth -= 1;
        Ok(result)
    }

    /// Parses one expression with its filters; afterwards the token after it is current.
    pub(crate) fn expression(&mut self) -> Result<Expr, Fail> {
        let value = self.or()?;
        if self.token != Token::Pipe {
            return Ok(value);
        }
        let mut calls = Vec::new();
        while self.token == Token::Pipe {
            self.advance()?;
            calls.push(self.filter_call()?);
        }
        Ok(Expr::Pipeline(Box::new((value, calls.into()))))
    }

    fn filter_call(&mut self) -> Result<FilterCall, Fail> {
        // `and`, `or` and `not` are parsed as filter names here; such filters do not exist.
        if !matches!(self.token, Token::Name(_)) && !super::is_identifier(&self.source[self.start..self.next])
        {
            return Err(Box::new(ErrorKind::ExpectedFilterName));
        }
        let range = (self.start, self.next);
        self.advance()?;
        let mut args = Vec::new();
        if self.token == Token::Colon {
            self.advance()?;
            args.push(self.or()?);
            while self.token == Token::Comma && !self.comma_ends_arguments() {
                self.advance()?;
                args.push(self.or()?);
            }
        }
        let filter = match filters::find(&self.source[range.0..range.1]) {
            Some(spec) if spec.takes(args.len()) => Ok(spec),
            Some(_) => Err(FilterProblem::Arity),
            None => Err(FilterProblem::Unknown),
        };
        Ok(FilterCall { filter, name: (range.0 as u32, range.1 as u32), args: args.into() })
    }

    /// Returns whether the current comma separates section arguments or include bindings instead of filter
    /// arguments: it is followed by `name =`, `name :` or the closing brace.
    fn comma_ends_arguments(&self) -> bool {
        let separator = match self.within {
            Within::Directive | Within::IncludePath => return false,
            Within::SectionArguments => '=',
            Within::WithBindings => ':',
        };
        if self.depth > 0 {
            return false;
        }
        let rest = self.source[self.next..self.end].trim_start();
        if self.within == Within::WithBindings && rest.starts_with('}') {
            return true;
        }
        let name = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let behind = rest[name..].trim_start();
        name > 0 && behind.starts_with(separator) && !behind.starts_with("==")
    }

    fn or(&mut self) -> Result<Expr, Fail> {
        let first = self.and()?;
        if self.token != Token::Or {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.token == Token::Or {
            self.advance()?;
            all.push(self.and()?);
        }
        Ok(Expr::Or(all.into()))
    }

    fn and(&mut self) -> Result<Expr, Fail> {
        let first = self.not()?;
        if self.token != Token::And {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.token == Token::And {
            self.advance()?;
            all.push(self.not()?);
        }
        Ok(Expr::And(all.into()))
    }

    fn not(&mut self) -> Result<Expr, Fail> {
        if self.token != Token::Not {
            return self.comparison();
        }
        self.advance()?;
        let inner = self.nested(Self::not)?;
        Ok(Expr::Not(Box::new(inner)))
    }

    fn comparison(&mut self) -> Result<Expr, Fail> {
        let left = self.primary()?;
        let Token::Compare(operator) = self.token else { return Ok(left) };
        self.advance()?;
        let right = self.primary()?;
        Ok(Expr::Compare(Box::new((operator, left, right))))
    }

    fn primary(&mut self) -> Result<Expr, Fail> {
        let literal = match self.token {
            Token::End | Token::CloseBrace => return Err(Box::new(ErrorKind::ExpectedExpression)),
            Token::Name("true") => Value::TRUE,
            Token::Name("false") => Value::FALSE,
            Token::Name("nil") => Value::NIL,
            Token::Name(name) => {
                self.advance()?;
                return self.path(name);
            }
            Token::Int(i) => Value::int(i),
            Token::Float(f) => Value::float(f),
            Token::Str(quoted) => Value::str(&unescape(quoted)),
            Token::Not => {
                self.advance()?;
                let inner = self.nested(Self::primary)?;
                return Ok(Expr::Not(Box::new(inner)));
            }
            Token::OpenParen => {
                self.advance()?;
                let inner = self.nested(Self::expression)?;
                if self.token != Token::CloseParen {
                    return Err(Box::new(ErrorKind::ExpectedCloseParen));
                }
                self.advance()?;
                return Ok(inner);
            }
            _ => return Err(Box::new(ErrorKind::UnexpectedToken { token: self.written() })),
        };
        self.advance()?;
        Ok(Expr::Literal(literal))
    }

    fn path(&mut self, name: &'s str) -> Result<Expr, Fail> {
        let root = self.resolver.resolve(name);
        let mut steps = Vec::new();
        loop {
            match self.token {
                Token::Dot => {
                    self.advance()?;
                    // After a dot, `and`, `or`, `not` and the literals are ordinary names.
                    let name = match self.token {
                        Token::Name(name) => name,
                        Token::And | Token::Or | Token::Not
                            if super::is_identifier(&self.source[self.start..self.next]) =>
                        {
                            &self.source[self.start..self.next]
                        }
                        _ => return Err(Box::new(ErrorKind::ExpectedField)),
                    };
                    steps.push(Step::Field(self.resolver.intern(name)));
                }
                Token::OpenBracket => {
                    self.advance()?;
                    steps.push(match self.token {
                        Token::Int(i) => Step::Index(i),
                        Token::Str(quoted) => Step::Field(Str::new(&unescape(quoted))),
                        _ => return Err(Box::new(ErrorKind::ExpectedIndex)),
                    });
                    self.advance()?;
                    if self.token != Token::CloseBracket {
                        return Err(Box::new(ErrorKind::ExpectedCloseBracket));
                    }
                }
                _ => break,
            }
            self.advance()?;
        }
        if let (Name::Loop(depth), [Step::Field(field)]) = (root, &steps[..])
            && let Some(field) = LoopField::from_name(field)
        {
            return Ok(Expr::Loop { depth, field });
        }
        Ok(Expr::Path(Path { root, steps: steps.into() }))
    }
}
