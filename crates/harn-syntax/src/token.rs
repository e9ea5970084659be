//! Tokens: the output of the lexer, which the layout pass and the parser process.

use logos::Logos;

use crate::span::Span;

/// A comment, stored separately from the tree for the formatter and for documentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Comment {
    /// Its form.
    pub kind: CommentKind,
    /// Its source range, including the comment markers, without the line feed.
    pub span: Span,
}

/// The forms of comments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommentKind {
    /// `// ...`.
    Line,
    /// `/* ... */`.
    Block,
    /// `/// ...`.
    DocLine,
    /// `/** ... */`.
    DocBlock,
}

/// A token: 16 bytes; its content is looked up in the source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    /// Its kind.
    pub kind: TokenKind,
    /// Whether whitespace or a comment directly precedes it.
    pub spaced: bool,
    /// Its location.
    pub span: Span,
    /// For an opening bracket, the index of its partner in the token list (0 without partner). For a string, the
    /// index of its content in [`Lexed::texts`](crate::lexer::Lexed::texts) plus one (0 if the content equals the
    /// source). For `>`, 1 if a newline after it does not end the statement.
    pub link: u32,
}

/// The kinds of tokens.
///
/// The lexer produces the plain kinds. Where one character has several meanings, the layout pass replaces it by a
/// more specific kind based on the tokens around it, so that the parser needs no further lookahead:
/// [`BraceArrow`](Self::BraceArrow), [`BraceStruct`](Self::BraceStruct), [`LtTypeArgs`](Self::LtTypeArgs),
/// [`QuestionTernary`](Self::QuestionTernary), [`QuestionIndex`](Self::QuestionIndex), [`NotIn`](Self::NotIn).
#[derive(Logos, Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[logos(skip r"[ \t\r]+")]
#[logos(skip r"\\\r?\n")]
#[allow(missing_docs, reason = "a variant's text is its documentation")]
pub enum TokenKind {
    /// The end of the file; always the last token.
    Eof,
    #[token("\n")]
    Newline,
    /// A character that cannot start a token; the lexer has reported it.
    Unknown,

    // Names and literals.
    #[regex("[A-Za-z_][A-Za-z0-9_]*")]
    Ident,
    #[regex("[0-9](_?[0-9])*")]
    #[regex("0x[0-9A-Fa-f](_?[0-9A-Fa-f])*")]
    #[regex("0o[0-7](_?[0-7])*")]
    #[regex("0b[01](_?[01])*")]
    Int,
    #[regex(r"[0-9](_?[0-9])*\.[0-9](_?[0-9])*([eE][+-]?[0-9]+)?")]
    #[regex("[0-9](_?[0-9])*[eE][+-]?[0-9]+")]
    Float,
    #[regex("[0-9](_?[0-9])*(ms|s|m|h|d|w)")]
    Duration,
    /// `"..."` or `"""..."""` without interpolation, including the quotes.
    #[token("\"")]
    Str,
    /// `r"..."`.
    #[token("r\"")]
    RawStr,
    /// The opening quotes of a string with interpolation.
    #[token("\"\"\"")]
    StrStart,
    /// Literal text inside a string with interpolation.
    StrText,
    /// `${`.
    InterpStart,
    /// The `}` that ends an interpolation.
    InterpEnd,
    /// The closing quotes of a string with interpolation.
    StrEnd,
    /// A whole comment; never in the token list.
    #[token("//")]
    LineComment,
    #[token("/*")]
    BlockComment,

    // Keywords.
    #[token("break")]
    Break,
    #[token("catch")]
    Catch,
    #[token("continue")]
    Continue,
    #[token("deadline")]
    Deadline,
    #[token("defer")]
    Defer,
    #[token("else")]
    Else,
    #[token("emit")]
    Emit,
    #[token("enum")]
    Enum,
    #[token("eval_pack")]
    EvalPack,
    #[token("exclusive")]
    Exclusive,
    #[token("extends")]
    Extends,
    #[token("false")]
    False,
    #[token("finally")]
    Finally,
    #[token("fn")]
    Fn,
    #[token("for")]
    For,
    #[token("from")]
    From,
    #[token("guard")]
    Guard,
    #[token("if")]
    If,
    #[token("impl")]
    Impl,
    #[token("import")]
    Import,
    #[token("in")]
    In,
    #[token("interface")]
    Interface,
    #[token("let")]
    Let,
    #[token("match")]
    Match,
    #[token("mutex")]
    Mutex,
    #[token("nil")]
    Nil,
    #[token("override")]
    Override,
    #[token("parallel")]
    Parallel,
    #[token("pipeline")]
    Pipeline,
    #[token("pub")]
    Pub,
    #[token("require")]
    Require,
    #[token("retry")]
    Retry,
    #[token("return")]
    Return,
    #[token("select")]
    Select,
    #[token("skill")]
    Skill,
    #[token("spawn")]
    Spawn,
    #[token("struct")]
    Struct,
    #[token("throw")]
    Throw,
    #[token("to")]
    To,
    #[token("tool")]
    Tool,
    #[token("true")]
    True,
    #[token("try")]
    Try,
    #[token("type")]
    Type,
    #[token("var")]
    Var,
    #[token("while")]
    While,
    #[token("yield")]
    Yield,

    // Brackets.
    #[token("(")]
    LParen,
    #[token(")")]
    RParen,
    #[token("[")]
    LBracket,
    #[token("]")]
    RBracket,
    #[token("{")]
    LBrace,
    #[token("}")]
    RBrace,
    /// `{` with a `->` before its `}` outside nested brackets: a closure in expression position.
    BraceArrow,
    /// `{` that continues an upper-case name as a struct literal.
    BraceStruct,

    // Operators and punctuation.
    #[token("==")]
    EqEq,
    #[token("!=")]
    NotEq,
    #[token("&&")]
    AndAnd,
    #[token("||")]
    OrOr,
    #[token("|>")]
    PipeGt,
    #[token("??")]
    QuestionQuestion,
    #[token("**")]
    StarStar,
    #[token("?.")]
    QuestionDot,
    #[token("->")]
    Arrow,
    #[token("<=")]
    LtEq,
    #[token(">=")]
    GtEq,
    #[token("+=")]
    PlusEq,
    #[token("-=")]
    MinusEq,
    #[token("*=")]
    StarEq,
    #[token("/=")]
    SlashEq,
    #[token("%=")]
    PercentEq,
    #[token("=")]
    Eq,
    #[token("!")]
    Bang,
    #[token(".")]
    Dot,
    #[token("...")]
    Ellipsis,
    #[token("+")]
    Plus,
    #[token("-")]
    Minus,
    #[token("*")]
    Star,
    #[token("/")]
    Slash,
    #[token("%")]
    Percent,
    #[token("<")]
    Lt,
    #[token(">")]
    Gt,
    /// `?` that propagates an error.
    #[token("?")]
    Question,
    #[token("|")]
    Pipe,
    #[token(",")]
    Comma,
    #[token(":")]
    Colon,
    #[token(";")]
    Semi,
    #[token("@")]
    At,
    /// `<` that opens the type arguments of a call.
    LtTypeArgs,
    /// `?` with a matching `:`.
    QuestionTernary,
    /// `?` directly before the `[` of an optional subscript.
    QuestionIndex,
    /// `not in`.
    NotIn,
}

impl TokenKind {
    /// Returns whether this is one of the 46 keywords.
    pub fn is_keyword(self) -> bool {
        (Self::Break as u8..=Self::Yield as u8).contains(&(self as u8))
    }

    /// Returns whether a string is a keyword.
    pub(crate) fn is_keyword_text(text: &str) -> bool {
        let mut tokens = <Self as logos::Logos>::lexer(text);
        matches!(tokens.next(), Some(Ok(kind)) if kind.is_keyword()) && tokens.span().end == text.len()
    }

    /// Returns whether this can be a member name, dict key or field name.
    pub fn is_word(self) -> bool {
        self == Self::Ident || self.is_keyword()
    }

    /// Returns whether this is an opening bracket.
    pub fn opens(self) -> bool {
        matches!(self, Self::LParen | Self::LBracket | Self::InterpStart) || self.is_lbrace()
    }

    /// Returns whether this is a closing bracket.
    pub fn closes(self) -> bool {
        matches!(self, Self::RParen | Self::RBracket | Self::RBrace | Self::InterpEnd)
    }

    /// Returns whether this is `{` in any meaning.
    pub fn is_lbrace(self) -> bool {
        matches!(self, Self::LBrace | Self::BraceArrow | Self::BraceStruct)
    }

    /// Returns the source of a token that is always written the same; empty for names, literals and the end of the
    /// file.
    pub fn text(self) -> &'static str {
        match self {
            Self::Eof
            | Self::Unknown
            | Self::Ident
            | Self::Int
            | Self::Float
            | Self::Duration
            | Self::Str
            | Self::RawStr
            | Self::StrText
            | Self::LineComment
            | Self::BlockComment => "",
            Self::Newline => "\\n",
            Self::StrStart | Self::StrEnd => "\"",
            Self::InterpStart => "${",
            Self::Break => "break",
            Self::Catch => "catch",
            Self::Continue => "continue",
            Self::Deadline => "deadline",
            Self::Defer => "defer",
            Self::Else => "else",
            Self::Emit => "emit",
            Self::Enum => "enum",
            Self::EvalPack => "eval_pack",
            Self::Exclusive => "exclusive",
            Self::Extends => "extends",
            Self::False => "false",
            Self::Finally => "finally",
            Self::Fn => "fn",
            Self::For => "for",
            Self::From => "from",
            Self::Guard => "guard",
            Self::If => "if",
            Self::Impl => "impl",
            Self::Import => "import",
            Self::In => "in",
            Self::Interface => "interface",
            Self::Let => "let",
            Self::Match => "match",
            Self::Mutex => "mutex",
            Self::Nil => "nil",
            Self::Override => "override",
            Self::Parallel => "parallel",
            Self::Pipeline => "pipeline",
            Self::Pub => "pub",
            Self::Require => "require",
            Self::Retry => "retry",
            Self::Return => "return",
            Self::Select => "select",
            Self::Skill => "skill",
            Self::Spawn => "spawn",
            Self::Struct => "struct",
            Self::Throw => "throw",
            Self::To => "to",
            Self::Tool => "tool",
            Self::True => "true",
            Self::Try => "try",
            Self::Type => "type",
            Self::Var => "var",
            Self::While => "while",
            Self::Yield => "yield",
            Self::LParen => "(",
            Self::RParen => ")",
            Self::LBracket => "[",
            Self::RBracket => "]",
            Self::LBrace | Self::BraceArrow | Self::BraceStruct => "{",
            Self::RBrace | Self::InterpEnd => "}",
            Self::EqEq => "==",
            Self::NotEq => "!=",
            Self::AndAnd => "&&",
            Self::OrOr => "||",
            Self::PipeGt => "|>",
            Self::QuestionQuestion => "??",
            Self::StarStar => "**",
            Self::QuestionDot => "?.",
            Self::Arrow => "->",
            Self::LtEq => "<=",
            Self::GtEq => ">=",
            Self::PlusEq => "+=",
            Self::MinusEq => "-=",
            Self::StarEq => "*=",
            Self::SlashEq => "/=",
            Self::PercentEq => "%=",
            Self::Eq => "=",
            Self::Bang => "!",
            Self::Dot => ".",
            Self::Ellipsis => "...",
            Self::Plus => "+",
            Self::Minus => "-",
            Self::Star => "*",
            Self::Slash => "/",
            Self::Percent => "%",
            Self::Lt | Self::LtTypeArgs => "<",
            Self::Gt => ">",
            Self::Question | Self::QuestionTernary | Self::QuestionIndex => "?",
            Self::Pipe => "|",
            Self::Comma => ",",
            Self::Colon => ":",
            Self::Semi => ";",
            Self::At => "@",
            Self::NotIn => "not in",
        }
    }
}
