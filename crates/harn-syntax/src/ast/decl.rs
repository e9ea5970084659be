//! Declarations, attributes, and the `Function` node shared by everything callable.

use super::{Block, Expr, Ident, Name, Stmt, TypeExpr, TypeParam};
use crate::span::Span;

/// A declaration with its attributes.
#[derive(Clone, PartialEq, Debug)]
pub struct Decl {
    /// The attributes, outermost first.
    pub attrs: Vec<Attribute>,
    /// Marked `pub`.
    pub is_pub: bool,
    /// The declaration itself.
    pub kind: DeclKind,
    /// Source range from the first attribute to the end.
    pub span: Span,
}

/// The kinds of declarations.
#[derive(Clone, PartialEq, Debug)]
pub enum DeclKind {
    /// `fn`, `gen fn`.
    Fn(FnDecl),
    /// `pipeline`.
    Pipeline(PipelineDecl),
    /// `tool`.
    Tool(ToolDecl),
    /// `skill`.
    Skill(SkillDecl),
    /// `eval_pack`.
    EvalPack(EvalPackDecl),
    /// `enum`.
    Enum(EnumDecl),
    /// `struct`.
    Struct(StructDecl),
    /// `type`.
    Type(TypeDecl),
    /// `interface`.
    Interface(InterfaceDecl),
    /// `impl`.
    Impl(ImplDecl),
}

impl DeclKind {
    /// Returns the declared name: for `impl`, the name of the type; for an `eval_pack` with only a string id, the
    /// name derived from the id.
    pub fn name(&self) -> &Ident {
        match self {
            Self::Fn(d) => &d.name,
            Self::Pipeline(d) => &d.name,
            Self::Tool(d) => &d.name,
            Self::Skill(d) => &d.name,
            Self::EvalPack(d) => &d.name,
            Self::Enum(d) => &d.name,
            Self::Struct(d) => &d.name,
            Self::Type(d) => &d.name,
            Self::Interface(d) => &d.name,
            Self::Impl(d) => &d.name,
        }
    }

    /// Returns whether the name is bound as a variable, which is visible only after the declaration.
    pub fn is_variable(&self) -> bool {
        matches!(self, Self::Tool(_) | Self::Skill(_) | Self::EvalPack(_))
    }

    /// Returns whether the name is visible in its whole scope, also before the declaration.
    pub fn is_hoisted(&self) -> bool {
        !self.is_variable() && !matches!(self, Self::Impl(_))
    }

    /// Returns the keyword that introduces the declaration.
    pub fn keyword(&self) -> &'static str {
        match self {
            Self::Fn(_) => "fn",
            Self::Pipeline(_) => "pipeline",
            Self::Tool(_) => "tool",
            Self::Skill(_) => "skill",
            Self::EvalPack(_) => "eval_pack",
            Self::Enum(_) => "enum",
            Self::Struct(_) => "struct",
            Self::Type(_) => "type",
            Self::Interface(_) => "interface",
            Self::Impl(_) => "impl",
        }
    }
}

/// `@name(args)`.
#[derive(Clone, PartialEq, Debug)]
pub struct Attribute {
    /// The name after `@`.
    pub name: Ident,
    /// The arguments; also empty without parentheses.
    pub args: Vec<AttrArg>,
    /// From `@` to the end.
    pub span: Span,
}

/// An argument of an attribute.
#[derive(Clone, PartialEq, Debug)]
pub struct AttrArg {
    /// The name before `:`.
    pub name: Option<Ident>,
    /// The value.
    pub value: AttrValue,
    /// The whole argument.
    pub span: Span,
}

/// The value of an attribute's argument.
#[derive(Clone, PartialEq, Debug)]
pub enum AttrValue {
    /// `"a"` or `r"a"`.
    Str(Name),
    /// `5`, `-5`.
    Int(i64),
    /// `1.5`, `-1.5`.
    Float(f64),
    /// `2s`, in milliseconds.
    Duration(i64),
    /// `true`, `false`.
    Bool(bool),
    /// `nil`.
    Nil,
    /// A bare name.
    Name(Name),
    /// `[a, b]`.
    List(Vec<AttrValue>),
}

/// One `T: Interface` of a `where` clause.
#[derive(Clone, PartialEq, Debug)]
pub struct WhereBound {
    /// The type parameter.
    pub param: Ident,
    /// The interface.
    pub bound: Ident,
}

/// The part shared by all functions: named functions, closures, anonymous functions, methods, tools, pipelines,
/// overrides and the bodies of `spawn` and `parallel`.
#[derive(Clone, PartialEq, Debug)]
pub struct Function {
    /// The parameters in order.
    pub params: Vec<Param>,
    /// The result type.
    pub ret: Option<TypeExpr>,
    /// The body.
    pub body: Block,
    /// Declared `gen fn`.
    pub is_gen: bool,
    /// Whether the body contains `yield` outside nested functions, which makes it a generator even without `gen`.
    pub has_yield: bool,
    /// The whole function: from `fn`, `{`, ... to the closing brace.
    pub span: Span,
}

/// A parameter.
#[derive(Clone, PartialEq, Debug)]
pub struct Param {
    /// Its name; `_` binds nothing.
    pub name: Ident,
    /// The annotation.
    pub ty: Option<TypeExpr>,
    /// The default value, evaluated if the argument is missing.
    pub default: Option<Expr>,
    /// `...name`: takes the remaining arguments; always the last one.
    pub rest: bool,
    /// Its description and schema constraints.
    pub note: Option<Box<Note>>,
    /// The whole parameter.
    pub span: Span,
}

/// The description and the constraints of a field or parameter, used for its schema.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Note {
    /// The doc comment before it.
    pub doc: Option<Name>,
    /// The constraint attributes before it, such as `@range(0..=150)`.
    pub limits: Vec<Limit>,
}

impl Note {
    /// Returns the start of a field: its first constraint attribute, or its name if it has none.
    pub fn start(note: Option<&Note>, name: Span) -> u32 {
        note.and_then(|note| note.limits.first()).map_or(name.start, |limit| limit.span.start)
    }
}

/// A constraint attribute of a field or parameter.
#[derive(Clone, PartialEq, Debug)]
pub struct Limit {
    /// The schema keywords that it sets: `min`, `max`, `min_length`, `pattern`, ...
    pub words: Vec<(&'static str, AttrValue)>,
    /// From `@` to `)`.
    pub span: Span,
}

impl Param {
    /// Returns the placeholder name of the closure parameter at index `at` that is written as a pattern.
    pub(crate) fn pattern_name(at: usize) -> Name {
        Name::from(format!("[{}]", at + 1))
    }

    /// Returns whether the parameter is written as a pattern: `{ [key, value] -> ... }`.
    pub fn is_pattern(&self) -> bool {
        self.name.name.starts_with('[')
    }
}

impl Function {
    /// Splits the body into the `let` statements generated for pattern parameters, in parameter order, and the
    /// written statements.
    pub fn split_body(&self) -> (&[Stmt], &[Stmt]) {
        let patterns = self.params.iter().filter(|param| param.is_pattern()).count();
        self.body.stmts.split_at(patterns.min(self.body.stmts.len()))
    }
}

/// `fn name<T>(params) -> ret where T: I { body }`.
#[derive(Clone, PartialEq, Debug)]
pub struct FnDecl {
    /// Its name.
    pub name: Ident,
    /// The generic parameters.
    pub type_params: Vec<TypeParam>,
    /// The `where` clause.
    pub bounds: Vec<WhereBound>,
    /// The content of its doc comment.
    pub doc: Option<Name>,
    /// Parameters, result type and body.
    pub func: Function,
}

/// `pipeline name(params) -> ret extends base { body }`.
#[derive(Clone, PartialEq, Debug)]
pub struct PipelineDecl {
    /// Its name.
    pub name: Ident,
    /// The name of the pipeline that it extends.
    pub extends: Option<Ident>,
    /// Parameters (plain names), result type and body.
    pub func: Function,
}

/// `tool name(params) -> ret { description "..." fields body }`.
#[derive(Clone, PartialEq, Debug)]
pub struct ToolDecl {
    /// Its name.
    pub name: Ident,
    /// The doc comment before it.
    pub doc: Option<Name>,
    /// The string after `description`.
    pub description: Option<Name>,
    /// `guidance`, `namespace`, `defer_loading`, `compact`, `annotations`, in source order, each at most once.
    pub fields: Vec<ToolField>,
    /// Parameters, result type and the statements after the fields.
    pub func: Function,
}

/// A field of a tool.
#[derive(Clone, PartialEq, Debug)]
pub struct ToolField {
    /// The field name.
    pub name: Ident,
    /// Its value: a string, a bool or a dict literal.
    pub value: Expr,
}

/// `skill name { key expr ... }`.
#[derive(Clone, PartialEq, Debug)]
pub struct SkillDecl {
    /// Its name.
    pub name: Ident,
    /// The entries in source order.
    pub fields: Vec<SkillField>,
}

/// An entry of a skill.
#[derive(Clone, PartialEq, Debug)]
pub struct SkillField {
    /// The key.
    pub key: Ident,
    /// The value.
    pub value: Expr,
}

/// `eval_pack name "id" { entries }`.
#[derive(Clone, PartialEq, Debug)]
pub struct EvalPackDecl {
    /// The name of the bound variable; derived from the id if only a string is written.
    pub name: Ident,
    /// The id: the string if there is one, else the name.
    pub id: Name,
    /// The `field: expr` entries in source order.
    pub fields: Vec<SkillField>,
    /// The statements in source order.
    pub stmts: Vec<Stmt>,
    /// The `summarize` block.
    pub summarize: Option<Block>,
    /// Source range of the braces.
    pub body_span: Span,
}

/// `enum name<T> { variants }`.
#[derive(Clone, PartialEq, Debug)]
pub struct EnumDecl {
    /// Its name.
    pub name: Ident,
    /// The generic parameters.
    pub type_params: Vec<TypeParam>,
    /// The variants in order.
    pub variants: Vec<Variant>,
}

/// A variant of an enum.
#[derive(Clone, PartialEq, Debug)]
pub struct Variant {
    /// Its name.
    pub name: Ident,
    /// The payload; empty for a plain variant.
    pub fields: Vec<VariantField>,
    /// Source range of the variant.
    pub span: Span,
}

/// A payload entry of a variant: `name`, `name: type` or a bare type.
#[derive(Clone, PartialEq, Debug)]
pub struct VariantField {
    /// The name. A single bare identifier such as `y` or `float` is parsed as a name; the checker may treat it as a
    /// type.
    pub name: Option<Ident>,
    /// The type.
    pub ty: Option<TypeExpr>,
}

/// `struct name<T> { fields }`.
#[derive(Clone, PartialEq, Debug)]
pub struct StructDecl {
    /// Its name.
    pub name: Ident,
    /// The doc comment before it.
    pub doc: Option<Name>,
    /// The generic parameters.
    pub type_params: Vec<TypeParam>,
    /// The fields in order.
    pub fields: Vec<StructField>,
}

/// A field of a struct.
#[derive(Clone, PartialEq, Debug)]
pub struct StructField {
    /// Its name.
    pub name: Ident,
    /// Marked `?`.
    pub optional: bool,
    /// Its type.
    pub ty: Option<TypeExpr>,
    /// Its description and limits.
    pub note: Option<Box<Note>>,
}

/// `type name<T> = ty`.
#[derive(Clone, PartialEq, Debug)]
pub struct TypeDecl {
    /// Its name.
    pub name: Ident,
    /// The doc comment before it.
    pub doc: Option<Name>,
    /// The generic parameters.
    pub type_params: Vec<TypeParam>,
    /// The aliased type.
    pub ty: TypeExpr,
}

/// `interface name<T> { members }`.
#[derive(Clone, PartialEq, Debug)]
pub struct InterfaceDecl {
    /// Its name.
    pub name: Ident,
    /// The generic parameters.
    pub type_params: Vec<TypeParam>,
    /// `type Item = default` members.
    pub assoc_types: Vec<AssocType>,
    /// `fn` members.
    pub methods: Vec<MethodSig>,
}

/// An associated type of an interface.
#[derive(Clone, PartialEq, Debug)]
pub struct AssocType {
    /// Its name.
    pub name: Ident,
    /// The type after `=`.
    pub default: Option<TypeExpr>,
}

/// A method of an interface.
#[derive(Clone, PartialEq, Debug)]
pub struct MethodSig {
    /// Its name.
    pub name: Ident,
    /// The generic parameters.
    pub type_params: Vec<TypeParam>,
    /// The parameters, including `self` if written.
    pub params: Vec<Param>,
    /// The result type.
    pub ret: Option<TypeExpr>,
    /// Source range of the signature.
    pub span: Span,
}

/// `impl name { methods }`.
#[derive(Clone, PartialEq, Debug)]
pub struct ImplDecl {
    /// The struct.
    pub name: Ident,
    /// The methods in order.
    pub methods: Vec<Method>,
}

/// A method of an `impl` block.
#[derive(Clone, PartialEq, Debug)]
pub struct Method {
    /// Marked `pub`.
    pub is_pub: bool,
    /// The function.
    pub decl: FnDecl,
}
