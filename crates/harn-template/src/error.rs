//! All errors: one table with the exact messages, and the error type with a location.
//!
//! docs/template-reference.md is generated from the table [`ERRORS`].

use std::fmt;
use std::rc::Rc;

/// A row of the error reference.
#[derive(Clone, Copy, Debug)]
pub struct ErrorDoc {
    /// The message as a format string: `{name}` denotes a variable part, `{{` and `}}` denote braces.
    pub format: &'static str,
    /// The cause.
    pub when: &'static str,
}

impl ErrorDoc {
    /// Returns the message for documentation, with `<name>` for the variable parts.
    pub fn text(&self) -> String {
        self.format
            .replace("{{", "\u{1}")
            .replace("}}", "\u{2}")
            .replace('{', "<")
            .replace('}', ">")
            .replace('\u{1}', "{")
            .replace('\u{2}', "}")
    }
}

macro_rules! errors {
    ($( $(#[doc = $when:literal])+ $name:ident $({ $($field:ident),+ })? => $format:literal; )+) => {
        /// The kind of error, without the location. `Display` writes the exact message.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the fields are the varying parts of the text right beside them")]
        pub enum ErrorKind {
            $( $(#[doc = $when])+ $name $({ $($field: String),+ })?, )+
        }

        impl fmt::Display for ErrorKind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $( ErrorKind::$name $({ $($field),+ })? => write!(f, $format), )+
                }
            }
        }

        /// Every error of the engine, in the order of the reference.
        pub const ERRORS: &[ErrorDoc] = &[
            $( ErrorDoc { format: $format, when: concat!($($when),+) }, )+
        ];
    };
}

errors! {
    /// A `{{` without a closing `}}`, or a string inside it that never closes.
    UnterminatedDirective => "unterminated directive";
    /// A `{{#` without `#}}`.
    UnterminatedComment => "unterminated comment";
    /// A raw block without `{{ endraw }}`.
    UnterminatedRaw => "unterminated `{{{{ raw }}}}` block";
    /// A closing or middle directive without an open block, or a second `else`.
    UnexpectedBlock { word } => "unexpected `{{{{ {word} }}}}`";
    /// An `if`, `else` or `for` that is never closed.
    MissingEnd { word } => "`{{{{ {word} }}}}` missing matching `{{{{ end }}}}`";
    /// Tokens after `else`, such as `else if`; write `elif`.
    TokensAfterElse => "unexpected tokens after `else`";
    /// More than 128 nested blocks, or more than 128 nested parentheses and `not`s in an expression.
    NestingTooDeep => "template nesting depth exceeded (128 levels)";
    /// A template of more bytes than the limit.
    TooLarge { bytes, limit } => "template is too large ({bytes} bytes, the limit is {limit})";

    /// An empty directive, or an operator without a right side.
    ExpectedExpression => "expected expression";
    /// Extra tokens after a complete expression.
    UnexpectedTokenIn { token } => "unexpected token `{token}` in expression";
    /// A token that cannot start an operand.
    UnexpectedToken { token } => "unexpected token `{token}`";
    /// A character that is invalid in expressions.
    UnexpectedCharacter { character } => "unexpected character `{character}` in expression";
    /// A single `&`.
    UnexpectedAmpersand => "unexpected `&`";
    /// A single `=`.
    UnexpectedAssign => "unexpected `=` (use `==`)";
    /// A `|` without a name after it.
    ExpectedFilterName => "expected filter name after `|`";
    /// An unclosed parenthesis.
    ExpectedCloseParen => "expected `)`";
    /// An unclosed index.
    ExpectedCloseBracket => "expected `]`";
    /// A `.` without a name after it.
    ExpectedField => "expected identifier after `.`";
    /// An index that is neither an int nor a string.
    ExpectedIndex => "expected integer or string inside `[...]`";
    /// An integer outside the 64-bit range.
    InvalidInteger { literal } => "invalid integer `{literal}`";
    /// A malformed number such as `1.2.3`.
    InvalidNumber { literal } => "invalid number `{literal}`";

    /// A `for` without `in`.
    ExpectedIn => "expected `in` in for-loop";
    /// A loop variable that is not an identifier.
    InvalidLoopVariable => "invalid for-loop variable";
    /// One of two loop variables is not an identifier, or there are more than two.
    InvalidLoopVariables => "invalid for-loop variables";
    /// The value to iterate over has another type.
    CannotIterate { ty } => "cannot iterate over {ty} — expected list, dict, set, or range";

    /// `with` without `{ … }` after it.
    ExpectedWithBindings => "expected `{{ ... }}` after `with`";
    /// An entry of `with` without a colon.
    ExpectedWithEntry => "expected `key: value` in include bindings";
    /// A key of `with` that is not an identifier.
    InvalidWithKey => "invalid include binding key";
    /// The path of an `include` is not a string.
    IncludePathType { ty } => "include path must be a string (got {ty})";
    /// An include outside of the project (or, without a project, outside of the directory of the template).
    IncludeEscapes { path, root } => "include path {path} escapes template root {root}";
    /// An embedded template includes a path outside of the embedded catalog.
    IncludeNotAsset { path } => "include path {path} is not a stdlib prompt asset";
    /// An embedded template includes one that does not exist.
    IncludeMissingAsset { parent, asset } => "stdlib prompt asset std://{parent} includes missing std://{asset}";
    /// The included file cannot be read.
    ReadInclude { path, message } => "failed to read included template {path}: {message}";
    /// Templates that include themselves or each other.
    CircularInclude { chain } => "circular include detected: {chain}";
    /// More than 32 nested includes.
    IncludeTooDeep => "include depth exceeded (32 levels)";

    /// `section` without a name.
    ExpectedSectionName => "expected section name";
    /// A section name without quotes.
    SectionNameNotLiteral => "section name must be a string literal";
    /// A section name whose quote never closes.
    UnterminatedSectionName => "unterminated section name string literal";
    /// The name is not one of the seven sections.
    UnknownSection { name } => "unknown template section `{name}`";
    /// Something other than `name=value` after the section name.
    ExpectedSectionArgument => "expected `name=value` section argument";
    /// An argument name that is not an identifier.
    InvalidSectionArgument => "invalid section argument name";
    /// A section that is never closed.
    MissingEndSection => "`{{{{ section }}}}` missing matching `{{{{ endsection }}}}`";
    /// `endsection "B"` closes a section `A`.
    MismatchedSectionEnd { expected, got } => "mismatched section end: expected `{expected}`, got `{got}`";
    /// Tokens after the name of an `endsection`.
    TokensAfterEndSection => "unexpected tokens after endsection name";

    /// An unknown filter; reported when rendering reaches it.
    UnknownFilter { name } => "unknown filter `{name}`";
    /// A filter with too many or too few arguments; reported when rendering reaches it.
    FilterArity { name } => "filter `{name}` got wrong number of arguments";
    /// `length` of a value that has no length.
    LengthUndefined { ty } => "`length` not defined for {ty}";
    /// `join` of a value that is not a list, set or string.
    JoinType { ty } => "`join` requires a list (got {ty})";
    /// The width of `indent` is not an int.
    IndentWidth => "`indent` requires an integer width";

    /// The bindings are not a dict. The message of a builtin begins with its name.
    BindingsType { ty } => "bindings must be a dict, got {ty}";
    /// The file of `render` cannot be read.
    ReadTemplate { path, message } => "Failed to read template {path}: {message}";
    /// A `std/` path without an embedded template.
    UnknownAsset { path } => "unknown stdlib prompt asset '{path}'";
    /// An `@` path outside any project.
    NoProjectRoot { path, dir } => "package-root prompt path '{path}' has no project root: no harn.toml found above {dir}";
    /// The part after `@/` is empty or absolute, contains `..` or a backslash, or points outside of the project.
    InvalidRootPath { rel } => "invalid project-root asset path '@/{rel}'";
    /// The part after `@alias/` is empty or absolute, contains `..` or a backslash, or points outside of the project.
    InvalidAliasPath { alias, rel } => "invalid asset path '@{alias}/{rel}'";
    /// An alias that the manifest does not define.
    UnknownAlias { alias, root } => "asset alias '{alias}' is not defined in [asset_roots] of {root}/harn.toml";
    /// The directory of the alias is outside of the project.
    UnsafeAlias { alias, value } => "asset alias '{alias}' resolves to an unsafe path '{value}' (must be a project-relative directory without `..` segments)";
    /// A file outside the roots of the active execution policy (category `tool_rejected`).
    Sandbox { path, roots } => "sandbox violation: builtin 'template.render' attempted to read '{path}' outside workspace_roots [{roots}]";
    /// The output would exceed the limit of the render.
    OutputTooLarge { limit } => "template output exceeds {limit} bytes";
    /// The host stopped the render.
    Interrupted => "rendering was interrupted";
}

/// An [`ErrorKind`] before its location is known. Boxed, so that results are small.
pub(crate) type Fail = Box<ErrorKind>;

/// A failed parse or render. `Display` writes the message that scripts receive: `<path> at <line>:<col>:
/// <message>`, without the path for inline templates, and only the message for errors without a location (a
/// template that could not be loaded, a sandbox violation).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError(Box<Inner>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    uri: Rc<str>,
    /// 1-based line and column in characters; `None` without a location.
    position: Option<(u32, u32)>,
    /// Byte range of the directive; empty without a location.
    span: std::ops::Range<usize>,
    kind: ErrorKind,
}

impl TemplateError {
    /// Creates an error without a location.
    pub(crate) fn bare(kind: ErrorKind) -> TemplateError {
        TemplateError(Box::new(Inner { uri: Rc::from(""), position: None, span: 0..0, kind }))
    }

    /// Creates an error at a directive of the template `uri`.
    pub(crate) fn at(
        uri: Rc<str>,
        position: (u32, u32),
        span: std::ops::Range<usize>,
        kind: ErrorKind,
    ) -> TemplateError {
        TemplateError(Box::new(Inner { uri, position: Some(position), span, kind }))
    }

    /// Returns the kind of error.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Returns the path or `std://` URI of the file that contains the directive; empty for inline templates.
    pub fn uri(&self) -> &str {
        &self.0.uri
    }

    /// Returns the 1-based line and column of the directive's `{{`; columns count characters.
    pub fn position(&self) -> Option<(u32, u32)> {
        self.0.position
    }

    /// Returns the byte range of the directive in its file, as far as it was parsed.
    pub fn span(&self) -> std::ops::Range<usize> {
        self.0.span.clone()
    }

    /// Returns whether the execution policy rejected a file: the host throws these errors with category
    /// `tool_rejected`.
    pub fn is_sandbox_violation(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Sandbox { .. })
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { uri, position, kind, .. } = &*self.0;
        match position {
            Some((line, col)) if !self.is_sandbox_violation() => {
                if !uri.is_empty() {
                    write!(f, "{uri} ")?;
                }
                write!(f, "at {line}:{col}: {kind}")
            }
            _ => write!(f, "{kind}"),
        }
    }
}

impl std::error::Error for TemplateError {}
