//! The syntax tree: plain enums with boxed children.
//!
//! Every node carries the [`Span`] of its text. The tree is what the text says and no more: names are not resolved,
//! `_` in a pipe is an ordinary [`ExprKind::Name`], and enum variants, methods and fields are told apart later.
//! Its depth is bounded (see [`crate::MAX_CHAIN`]), so recursive walks and `drop` need no special care.
//!
//! Reading order: [`Program`], [`Stmt`], [`Decl`], [`Function`], [`Expr`].

use crate::span::Span;
use crate::token::Comment;

/// An identifier's text or a string literal's content; cheap to clone.
pub type Name = smol_str::SmolStr;

/// An identifier where it is written.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Ident {
    /// The text.
    pub name: Name,
    /// Where it stands.
    pub span: Span,
}

/// A parsed file.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Program {
    /// Imports, declarations and statements in source order. Imports occur only here, never in blocks.
    pub items: Vec<Stmt>,
    /// The `#!` line without its line feed.
    pub shebang: Option<Span>,
    /// All comments in source order, for the formatter and for documentation.
    pub comments: Vec<Comment>,
}

impl Program {
    /// Iterates over the pipelines declared at file level, in source order.
    pub fn pipelines(&self) -> impl Iterator<Item = (&Decl, &PipelineDecl)> {
        self.items.iter().filter_map(|item| match &item.kind {
            StmtKind::Decl(decl) => match &decl.kind {
                DeclKind::Pipeline(pipeline) => Some((&**decl, pipeline)),
                _ => None,
            },
            _ => None,
        })
    }

    /// Iterates over the imports, in source order.
    pub fn imports(&self) -> impl Iterator<Item = &Import> {
        self.items.iter().filter_map(|item| match &item.kind {
            StmtKind::Import(import) => Some(&**import),
            _ => None,
        })
    }
}

/// `{ statements }`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Block {
    /// The statements in order. The last one, if it is an expression, gives the block its value.
    pub stmts: Vec<Stmt>,
    /// From `{` to `}`.
    pub span: Span,
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub struct Stmt {
    /// What it is.
    pub kind: StmtKind,
    /// Its text without the separator.
    pub span: Span,
}

/// The kinds of statements.
#[derive(Clone, PartialEq, Debug)]
pub enum StmtKind {
    /// `let pattern = value` or `var pattern = value`.
    Let {
        /// `var`: the names can be assigned.
        mutable: bool,
        /// What is bound.
        pattern: Pattern,
        /// The annotation; only with [`PatternKind::Name`].
        ty: Option<TypeExpr>,
        /// The value.
        value: Expr,
    },
    /// `target = value`, `target += value`, ...
    Assign {
        /// What is assigned.
        target: Target,
        /// The operator of a compound assignment.
        op: Option<BinaryOp>,
        /// Where `=`, `+=`, ... stands.
        op_span: Span,
        /// The right side.
        value: Expr,
    },
    /// `for pattern in iter { body }`.
    For {
        /// What each item is bound to.
        pattern: Pattern,
        /// What is iterated.
        iter: Expr,
        /// The body.
        body: Block,
    },
    /// `while cond { body }`.
    While {
        /// The condition.
        cond: Expr,
        /// The body.
        body: Block,
    },
    /// `guard cond else { body }`.
    Guard {
        /// The condition.
        cond: Expr,
        /// Runs when the condition is falsy.
        body: Block,
    },
    /// `require cond, message`.
    Require {
        /// The condition.
        cond: Expr,
        /// Thrown when it is falsy.
        message: Option<Expr>,
    },
    /// `return value`.
    Return(Option<Expr>),
    /// `throw value`.
    Throw(Expr),
    /// `break`.
    Break,
    /// `continue`.
    Continue,
    /// `yield value`.
    Yield(Option<Expr>),
    /// `emit value`.
    Emit(Expr),
    /// `defer { body }`.
    Defer(Block),
    /// `mutex { body }`.
    Mutex(Block),
    /// `override name(params) { body }`.
    Override {
        /// The function replaced.
        name: Ident,
        /// Its new body; parameters are plain names.
        func: Box<Function>,
    },
    /// A declaration.
    Decl(Box<Decl>),
    /// An import; only in [`Program::items`].
    Import(Box<Import>),
    /// An expression.
    Expr(Expr),
}

/// The left side of an assignment: a variable and a path into its value.
#[derive(Clone, PartialEq, Debug)]
pub struct Target {
    /// The variable.
    pub root: Ident,
    /// The steps from its value to the part that is replaced; empty for a plain variable.
    pub path: Vec<TargetStep>,
    /// The whole text.
    pub span: Span,
}

/// One step of a [`Target`].
#[derive(Clone, PartialEq, Debug)]
pub enum TargetStep {
    /// `.name`; the span is that of the name.
    Member(Ident),
    /// `[index]`.
    Index {
        /// The index.
        index: Expr,
        /// From `[` to `]`.
        span: Span,
    },
}

impl TargetStep {
    /// Returns the text of the step without a leading `.`.
    pub fn span(&self) -> Span {
        match self {
            Self::Member(name) => name.span,
            Self::Index { span, .. } => *span,
        }
    }
}

/// What a `let`, `var` or `for` binds.
#[derive(Clone, PartialEq, Debug)]
pub struct Pattern {
    /// Its form.
    pub kind: PatternKind,
    /// Its text.
    pub span: Span,
}

/// The forms of binding patterns. They do not nest. A name `_` binds nothing.
#[derive(Clone, PartialEq, Debug)]
pub enum PatternKind {
    /// `name`.
    Name(Ident),
    /// `{a, b = default, key: name = default, ...rest}`.
    Dict {
        /// The entries before the rest.
        fields: Vec<DictField>,
        /// The name behind `...`.
        rest: Option<Ident>,
    },
    /// `[a, b = default, ...rest]`.
    List {
        /// The elements before the rest.
        elems: Vec<ListElem>,
        /// The name behind `...`.
        rest: Option<Ident>,
    },
    /// `(a, b)`, only in `for`.
    Pair(Ident, Ident),
}

/// An entry of a dict pattern.
#[derive(Clone, PartialEq, Debug)]
pub struct DictField {
    /// The key looked up.
    pub key: Ident,
    /// The variable bound; the key again unless renamed.
    pub name: Ident,
    /// Used when the value is nil.
    pub default: Option<Expr>,
}

/// An element of a list pattern.
#[derive(Clone, PartialEq, Debug)]
pub struct ListElem {
    /// The variable bound.
    pub name: Ident,
    /// Used when the value is nil.
    pub default: Option<Expr>,
}

/// `[pub] import ...`.
#[derive(Clone, PartialEq, Debug)]
pub struct Import {
    /// `pub import`: the names are exported again.
    pub is_pub: bool,
    /// The listed names; `None` for the form that brings everything.
    pub names: Option<Vec<Ident>>,
    /// The path as written, without quotes.
    pub path: Name,
    /// Where the path stands, with quotes.
    pub path_span: Span,
    /// The whole text.
    pub span: Span,
}

/// A declaration with its attributes.
#[derive(Clone, PartialEq, Debug)]
pub struct Decl {
    /// The attributes, outermost first.
    pub attrs: Vec<Attribute>,
    /// Marked `pub`.
    pub is_pub: bool,
    /// What is declared.
    pub kind: DeclKind,
    /// From the first attribute to the end.
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
    /// Returns the declared name; for `impl` the name of the type, for an `eval_pack` named by a string the
    /// derived name.
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

    /// Returns the word that introduces the declaration.
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
    /// The name behind `@`.
    pub name: Ident,
    /// The arguments; empty also when there are no parentheses.
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
    /// `"text"` or `r"text"`.
    Str(Name),
    /// `5`, `-5`.
    Int(i64),
    /// `1.5`, `-1.5`.
    Float(f64),
    /// `true`, `false`.
    Bool(bool),
    /// `nil`.
    Nil,
    /// A bare name.
    Name(Name),
    /// `[a, b]`.
    List(Vec<AttrValue>),
}

/// A generic parameter.
#[derive(Clone, PartialEq, Debug)]
pub struct TypeParam {
    /// Its name.
    pub name: Ident,
    /// `in` or `out` before it.
    pub variance: Option<Variance>,
}

/// A variance marker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variance {
    /// `in`: contravariant.
    In,
    /// `out`: covariant.
    Out,
}

/// One `T: Interface` of a `where` clause.
#[derive(Clone, PartialEq, Debug)]
pub struct WhereBound {
    /// The type parameter.
    pub param: Ident,
    /// The interface.
    pub bound: Ident,
}

/// What all functions share: named functions, closures, anonymous functions, methods, tools, pipelines, overrides
/// and the bodies of `spawn` and `parallel`.
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
    /// The body contains `yield` outside nested functions, so that (without `gen`) it is a generator.
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
    /// Evaluated when the argument is not given.
    pub default: Option<Expr>,
    /// `...name`: takes the remaining arguments; always the last one.
    pub rest: bool,
    /// The whole parameter.
    pub span: Span,
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
    /// Parameters, result type and body.
    pub func: Function,
}

/// `pipeline name(params) -> ret extends base { body }`.
#[derive(Clone, PartialEq, Debug)]
pub struct PipelineDecl {
    /// Its name.
    pub name: Ident,
    /// The pipeline it extends.
    pub extends: Option<Ident>,
    /// Parameters (plain names), result type and body.
    pub func: Function,
}

/// `tool name(params) -> ret { description "..." fields body }`.
#[derive(Clone, PartialEq, Debug)]
pub struct ToolDecl {
    /// Its name.
    pub name: Ident,
    /// The text behind `description`.
    pub description: Option<Name>,
    /// `guidance`, `namespace`, `defer_loading`, `compact`, `annotations`, in source order, each at most once.
    pub fields: Vec<ToolField>,
    /// Parameters, result type and the statements behind the fields.
    pub func: Function,
}

/// A field of a tool.
#[derive(Clone, PartialEq, Debug)]
pub struct ToolField {
    /// The word.
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
    /// The variable bound; derived from the id when only a string is written.
    pub name: Ident,
    /// The id: the string if there is one, else the name.
    pub id: Name,
    /// The `field: expr` entries in source order.
    pub fields: Vec<SkillField>,
    /// The statements in source order.
    pub stmts: Vec<Stmt>,
    /// The `summarize` block.
    pub summarize: Option<Block>,
    /// The braces.
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
    /// The whole text.
    pub span: Span,
}

/// A payload entry of a variant: `name`, `name: type` or a bare type.
#[derive(Clone, PartialEq, Debug)]
pub struct VariantField {
    /// The name. A single bare word such as `y` or `float` is a name; the checker may read it as a type.
    pub name: Option<Ident>,
    /// The type.
    pub ty: Option<TypeExpr>,
}

/// `struct name<T> { fields }`.
#[derive(Clone, PartialEq, Debug)]
pub struct StructDecl {
    /// Its name.
    pub name: Ident,
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
}

/// `type name<T> = ty`.
#[derive(Clone, PartialEq, Debug)]
pub struct TypeDecl {
    /// Its name.
    pub name: Ident,
    /// The generic parameters.
    pub type_params: Vec<TypeParam>,
    /// What it stands for.
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
    /// The type behind `=`.
    pub default: Option<TypeExpr>,
}

/// A method of an interface.
#[derive(Clone, PartialEq, Debug)]
pub struct MethodSig {
    /// Its name.
    pub name: Ident,
    /// The generic parameters.
    pub type_params: Vec<TypeParam>,
    /// The parameters, with `self` if written.
    pub params: Vec<Param>,
    /// The result type.
    pub ret: Option<TypeExpr>,
    /// The whole text.
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

/// A type as written.
#[derive(Clone, PartialEq, Debug)]
pub struct TypeExpr {
    /// Its form.
    pub kind: TypeKind,
    /// Its text.
    pub span: Span,
}

/// The forms of types.
#[derive(Clone, PartialEq, Debug)]
pub enum TypeKind {
    /// `name` or `name<args>`; `[T]` is `list<T>`, `true` and `false` are `bool`.
    Named {
        /// The name.
        name: Ident,
        /// The arguments.
        args: Vec<TypeExpr>,
    },
    /// `a | b`; at least two members, never a union itself.
    Union(Vec<TypeExpr>),
    /// `{a: T, b?: U}`.
    Shape(Vec<ShapeField>),
    /// `fn(A, B) -> R`.
    Fn {
        /// The parameters.
        params: Vec<TypeExpr>,
        /// The result.
        ret: Box<TypeExpr>,
    },
    /// A string literal type.
    Str(Name),
    /// An integer literal type.
    Int(i64),
    /// `nil`.
    Nil,
}

/// A field of a shape type.
#[derive(Clone, PartialEq, Debug)]
pub struct ShapeField {
    /// Its name.
    pub name: Ident,
    /// Marked `?`.
    pub optional: bool,
    /// Its type.
    pub ty: TypeExpr,
}

/// An expression.
#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Its text.
    pub span: Span,
}

/// The kinds of expressions.
#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    /// `nil`.
    Nil,
    /// `true`, `false`.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float, also an integer literal too large for an int.
    Float(f64),
    /// A duration in milliseconds.
    Duration(i64),
    /// A string without interpolation, escapes resolved.
    Str(Name),
    /// A string with interpolation.
    Interp(Vec<StrPart>),
    /// A variable, function, builtin, type name or the pipe placeholder `_`.
    Name(Name),
    /// `(inner)`. Kept so that `(x.f)(5)` is no method call and the formatter can print it.
    Paren(Box<Expr>),
    /// `[a, ...b]`.
    List(Vec<Arg>),
    /// `{a: 1, [k]: 2, ...d}`.
    Dict(Vec<DictItem>),
    /// `Name {a: 1}`.
    StructLit {
        /// The struct.
        name: Ident,
        /// The fields.
        items: Vec<DictItem>,
    },
    /// `{ params -> body }` or `fn(params) { body }`.
    Closure {
        /// The function.
        func: Box<Function>,
        /// Written with `fn`.
        is_fn: bool,
    },
    /// `if a { } else if b { } else { }`.
    If {
        /// The conditions and their blocks; at least one.
        arms: Vec<IfArm>,
        /// The last `else`.
        else_body: Option<Block>,
    },
    /// `match value { arms }`.
    Match {
        /// The value looked at.
        value: Box<Expr>,
        /// The arms in order.
        arms: Vec<MatchArm>,
    },
    /// `try { } catch (e: T) { } finally { }`.
    Try {
        /// The body.
        body: Block,
        /// The handler.
        catch: Option<Box<Catch>>,
        /// The `finally` block.
        finally: Option<Block>,
    },
    /// `try* operand`.
    TryStar(Box<Expr>),
    /// `retry count { body }`.
    Retry {
        /// How many times at most.
        count: Box<Expr>,
        /// The body.
        body: Block,
    },
    /// `deadline limit { body }`.
    Deadline {
        /// The time allowed.
        limit: Box<Expr>,
        /// The body.
        body: Block,
    },
    /// `spawn { body }`; a function without parameters.
    Spawn(Box<Function>),
    /// `parallel ...`.
    Parallel(Box<Parallel>),
    /// `select { cases }`.
    Select(Box<Select>),
    /// `-a`, `!a`.
    Unary {
        /// The operator.
        op: UnaryOp,
        /// Where it stands.
        op_span: Span,
        /// The operand.
        operand: Box<Expr>,
    },
    /// `a + b`, comparisons, membership.
    Binary {
        /// The operator.
        op: BinaryOp,
        /// Where it stands.
        op_span: Span,
        /// The left operand.
        lhs: Box<Expr>,
        /// The right operand.
        rhs: Box<Expr>,
    },
    /// `a && b`, `a || b`, `a ?? b`: the right operand is evaluated only if needed.
    Logic {
        /// The operator.
        op: LogicOp,
        /// Where it stands.
        op_span: Span,
        /// The left operand.
        lhs: Box<Expr>,
        /// The right operand.
        rhs: Box<Expr>,
    },
    /// `cond ? then : other`.
    Ternary {
        /// The condition.
        cond: Box<Expr>,
        /// The value when truthy.
        then: Box<Expr>,
        /// The value when falsy.
        other: Box<Expr>,
    },
    /// `start to end`, `start to end exclusive`.
    Range {
        /// The first value.
        start: Box<Expr>,
        /// The bound.
        end: Box<Expr>,
        /// Without the bound itself.
        exclusive: bool,
        /// Where `to` stands.
        op_span: Span,
    },
    /// `value |> func`.
    Pipe {
        /// What goes in.
        value: Box<Expr>,
        /// What it goes to; if it contains the name `_`, an expression over that placeholder.
        func: Box<Expr>,
        /// Where `|>` stands.
        op_span: Span,
    },
    /// `callee<types>(args)`.
    Call {
        /// What is called.
        callee: Box<Expr>,
        /// Explicit type arguments; only with a [`ExprKind::Name`] callee.
        type_args: Vec<TypeExpr>,
        /// The arguments.
        args: Vec<Arg>,
    },
    /// `object.name(args)`, `object?.name(args)`; also the construction of an enum value.
    MethodCall {
        /// The receiver.
        object: Box<Expr>,
        /// The method.
        name: Ident,
        /// The arguments.
        args: Vec<Arg>,
        /// Written with `?.`.
        optional: bool,
    },
    /// `object.name`, `object?.name`.
    Member {
        /// The receiver.
        object: Box<Expr>,
        /// The member.
        name: Ident,
        /// Written with `?.`.
        optional: bool,
    },
    /// `object[index]`, `object?[index]`.
    Index {
        /// The receiver.
        object: Box<Expr>,
        /// The index.
        index: Box<Expr>,
        /// Written with `?[`.
        optional: bool,
        /// Where `[` (or `?[`) stands, for errors.
        op_span: Span,
    },
    /// `object[start:end]`.
    Slice {
        /// The receiver.
        object: Box<Expr>,
        /// The first position.
        start: Option<Box<Expr>>,
        /// The position behind the last.
        end: Option<Box<Expr>>,
        /// Where `[` stands.
        op_span: Span,
    },
    /// `operand?`.
    Propagate {
        /// The result that is unwrapped.
        operand: Box<Expr>,
        /// Where `?` stands.
        op_span: Span,
    },
    /// A place where an error was reported; never in a program without errors.
    Error,
}

/// A piece of an interpolated string.
#[derive(Clone, PartialEq, Debug)]
pub enum StrPart {
    /// Literal text, escapes resolved.
    Text(Name),
    /// `${expr}`.
    Expr(Expr),
}

/// An argument of a call or an element of a list literal.
#[derive(Clone, PartialEq, Debug)]
pub struct Arg {
    /// Written with `...`.
    pub spread: bool,
    /// The value.
    pub value: Expr,
}

/// An entry of a dict or struct literal.
#[derive(Clone, PartialEq, Debug)]
pub enum DictItem {
    /// `key: value`; the key is a name, a reserved word or a plain string.
    Entry {
        /// The key.
        key: Ident,
        /// The value.
        value: Expr,
    },
    /// `[key]: value`, also an interpolated string as key.
    Computed {
        /// The key.
        key: Expr,
        /// The value.
        value: Expr,
    },
    /// `...value`.
    Spread(Expr),
}

/// `if cond { body }` inside an `if` chain.
#[derive(Clone, PartialEq, Debug)]
pub struct IfArm {
    /// The condition.
    pub cond: Expr,
    /// The block.
    pub body: Block,
}

/// `p1 | p2 if guard -> { body }`.
#[derive(Clone, PartialEq, Debug)]
pub struct MatchArm {
    /// The alternatives; at least one. With more than one, none of them binds a name.
    pub patterns: Vec<MatchPattern>,
    /// The condition behind `if`.
    pub guard: Option<Expr>,
    /// The body.
    pub body: Block,
    /// The whole arm.
    pub span: Span,
}

/// A pattern of a match arm.
#[derive(Clone, PartialEq, Debug)]
pub struct MatchPattern {
    /// Its form.
    pub kind: MatchPatternKind,
    /// Its text.
    pub span: Span,
}

/// The forms of match patterns.
#[derive(Clone, PartialEq, Debug)]
pub enum MatchPatternKind {
    /// `_`.
    Wildcard,
    /// `name`: matches everything and binds it.
    Bind(Ident),
    /// A literal or any other expression, compared by `==`. In or-patterns also a bare name.
    Value(Expr),
    /// `{k: p, ...rest}`.
    Dict {
        /// The keys and their patterns.
        entries: Vec<(Ident, MatchPattern)>,
        /// The name behind `...`.
        rest: Option<Ident>,
    },
    /// `[p1, p2, ...rest]`.
    List {
        /// The prefix.
        items: Vec<MatchPattern>,
        /// The name behind `...`.
        rest: Option<Ident>,
    },
    /// `E.V`, `E.V(p)`, `Ok(p)`, `Err(p)`. Written for every `Name.member` whose first letter is upper case;
    /// if no enum of that name exists, it is a value.
    Variant {
        /// The enum; `Result` for `Ok` and `Err`.
        enum_name: Ident,
        /// The variant.
        variant: Ident,
        /// The payload patterns; `None` without parentheses.
        fields: Option<Vec<MatchPattern>>,
    },
}

/// `catch (name: ty) { body }`.
#[derive(Clone, PartialEq, Debug)]
pub struct Catch {
    /// What the error is bound to.
    pub name: Option<Ident>,
    /// Which errors are handled.
    pub ty: Option<TypeExpr>,
    /// The handler.
    pub body: Block,
}

/// A `parallel` expression.
#[derive(Clone, PartialEq, Debug)]
pub struct Parallel {
    /// Its form.
    pub kind: ParallelKind,
    /// The count or the collection.
    pub source: Expr,
    /// The value behind `max_concurrent:`.
    pub max_concurrent: Option<Expr>,
    /// The body with no or one parameter.
    pub func: Function,
    /// Ends with `as stream`; only with [`ParallelKind::Each`].
    pub as_stream: bool,
}

/// The forms of `parallel`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParallelKind {
    /// `parallel count`.
    Count,
    /// `parallel each list`.
    Each,
    /// `parallel settle list`.
    Settle,
}

/// A `select` expression: at least one case, timeout or default; never both of the latter.
#[derive(Clone, PartialEq, Debug)]
pub struct Select {
    /// The `name from channel { body }` cases in order.
    pub cases: Vec<SelectCase>,
    /// `timeout limit { body }`.
    pub timeout: Option<(Expr, Block)>,
    /// `default { body }`.
    pub default: Option<Block>,
}

/// `name from channel { body }`.
#[derive(Clone, PartialEq, Debug)]
pub struct SelectCase {
    /// What the received value is bound to.
    pub name: Ident,
    /// The channel.
    pub channel: Expr,
    /// The body.
    pub body: Block,
}

/// Prefix operators.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UnaryOp {
    /// `!`.
    Not,
    /// `-`.
    Neg,
}

/// Operators that always evaluate both operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BinaryOp {
    /// `+`.
    Add,
    /// `-`.
    Sub,
    /// `*`.
    Mul,
    /// `/`.
    Div,
    /// `%`.
    Rem,
    /// `**`.
    Pow,
    /// `==`.
    Eq,
    /// `!=`.
    Ne,
    /// `<`.
    Lt,
    /// `>`.
    Gt,
    /// `<=`.
    Le,
    /// `>=`.
    Ge,
    /// `in`.
    In,
    /// `not in`.
    NotIn,
}

impl BinaryOp {
    /// Returns the operator as written.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::Div => "/",
            Self::Rem => "%",
            Self::Pow => "**",
            Self::Eq => "==",
            Self::Ne => "!=",
            Self::Lt => "<",
            Self::Gt => ">",
            Self::Le => "<=",
            Self::Ge => ">=",
            Self::In => "in",
            Self::NotIn => "not in",
        }
    }
}

/// Operators that evaluate the right operand only if needed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LogicOp {
    /// `&&`.
    And,
    /// `||`.
    Or,
    /// `??`.
    Coalesce,
}

impl LogicOp {
    /// Returns the operator as written.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::And => "&&",
            Self::Or => "||",
            Self::Coalesce => "??",
        }
    }
}

impl Expr {
    /// Makes an expression.
    pub const fn new(kind: ExprKind, span: Span) -> Self {
        Self { kind, span }
    }

    /// Returns the name if this is a plain name, also in parentheses.
    pub fn as_name(&self) -> Option<&Name> {
        match &self.kind {
            ExprKind::Name(name) => Some(name),
            ExprKind::Paren(inner) => inner.as_name(),
            _ => None,
        }
    }

    /// Returns the place a runtime error raised by evaluating this node points at: the operator of an operation,
    /// the name of a member or method, the expression itself otherwise.
    pub fn blame(&self) -> Span {
        match &self.kind {
            ExprKind::Unary { op_span, .. }
            | ExprKind::Binary { op_span, .. }
            | ExprKind::Logic { op_span, .. }
            | ExprKind::Range { op_span, .. }
            | ExprKind::Pipe { op_span, .. }
            | ExprKind::Index { op_span, .. }
            | ExprKind::Slice { op_span, .. }
            | ExprKind::Propagate { op_span, .. } => *op_span,
            ExprKind::MethodCall { name, .. } | ExprKind::Member { name, .. } => name.span,
            ExprKind::Call { callee, .. } => callee.blame(),
            ExprKind::Paren(inner) => inner.blame(),
            _ => self.span,
        }
    }
}
