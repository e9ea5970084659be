//! The types of calls, and the bindings of type parameters.

use std::rc::Rc;

use harn_front::Unit;
use harn_syntax::ast::*;
use harn_syntax::schema_place;

use super::{enum_type, result};
use crate::pass::Pass;
use crate::scope::{Kind, Lookup};
use crate::types::{Bindings, Field, Ty, Typing, bind, substitute};

/// A function that is called.
#[derive(Clone, Copy)]
pub(crate) struct Called<'a> {
    pub(crate) decl: &'a FnDecl,
    /// This file declares it.
    pub(crate) is_own: bool,
    /// The other file that declares it.
    pub(crate) unit: Option<&'a Rc<Unit>>,
    pub(crate) attrs: &'a [Attribute],
}

/// A type parameter that a call binds to two types.
pub(crate) struct Conflict {
    pub(crate) message: String,
    /// Index of the argument.
    pub(crate) at: usize,
}

impl<'a> Pass<'a> {
    /// Resolves a name to a function.
    pub(crate) fn called(&self, name: &'a str, found: &Lookup<'a>) -> Option<Called<'a>> {
        match found {
            Lookup::Is(Kind::Fn(decl, attrs)) => Some(Called { decl, is_own: true, unit: None, attrs }),
            Lookup::Is(Kind::Imported) | Lookup::Missing
                if !self.is_opaque() && !self.declared.contains(name) =>
            {
                let imported = self.imported(name)?;
                let found = imported.decl()?;
                match &found.kind {
                    DeclKind::Fn(decl) => {
                        let unit = imported.place().map(|(unit, _)| unit);
                        Some(Called { decl, is_own: false, unit, attrs: &found.attrs })
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The type of an annotation of a function, in which its type parameters stand for themselves. What another file declares
    /// is not followed: of the values of such a type, this file may not know what they can do.
    pub(crate) fn signature_type(&self, called: Called<'a>, ty: &'a TypeExpr) -> Ty {
        match (called.is_own, called.decl.type_params.is_empty()) {
            (true, true) => self.typing.resolve(ty),
            (true, false) => self.typing.resolve_with(ty, &Typing::vars(&called.decl.type_params)),
            (false, _) => self.typing.resolve_foreign(ty, &Typing::vars(&called.decl.type_params)),
        }
    }

    /// The type of a parameter of a function, in which its type parameters stand for themselves.
    pub(crate) fn parameter_type(&self, called: Called<'a>, ty: &'a TypeExpr) -> Ty {
        match called.unit {
            Some(unit) => self.typing.resolve_in(ty, &Typing::vars(&called.decl.type_params), unit),
            None => self.signature_type(called, ty),
        }
    }

    /// Returns the types that the arguments bind to the type parameters of a function, and the first contradiction.
    pub(crate) fn bindings(
        &mut self,
        called: Called<'a>,
        type_args: &'a [TypeExpr],
        args: &'a [Arg],
    ) -> (Bindings, Option<Conflict>) {
        let params = &called.decl.type_params;
        let mut bound = Bindings::new();
        if params.is_empty() {
            return (bound, None);
        }
        let explicit = type_args.len() == params.len();
        if explicit {
            let given = params.iter().zip(type_args);
            bound = given.map(|(p, ty)| (p.name.name.clone(), self.typing.resolve(ty))).collect();
        }
        let mut conflict = None;
        for (at, (arg, param)) in args.iter().zip(&called.decl.func.params).enumerate() {
            let Some(written) = param.ty.as_ref().filter(|_| !param.rest && !arg.spread) else { break };
            let pattern = self.parameter_type(called, written);
            let actual = self.argument_type(&pattern, &arg.value);
            // A value of unknown type binds nothing.
            if explicit || actual == Ty::Any {
                continue;
            }
            if let Err(found) = bind(&pattern, &actual, &mut bound) {
                let message = format!(
                    "type parameter '{}' was inferred as both {} and {}",
                    found.param, found.first, found.second
                );
                conflict.get_or_insert(Conflict { message, at });
            }
        }
        (bound, conflict)
    }

    /// Returns the types that the values of a struct literal bind to the type parameters of the struct.
    pub(crate) fn struct_bindings(
        &mut self,
        decl: &'a StructDecl,
        home: Option<&'a Rc<Unit>>,
        items: &'a [DictItem],
    ) -> Bindings {
        let mut bound = Bindings::new();
        let env = Typing::vars(&decl.type_params);
        for item in items {
            let DictItem::Entry { key, value } = item else { continue };
            let field = decl.fields.iter().find(|field| field.name.name == key.name);
            let Some(written) = field.and_then(|field| field.ty.as_ref()) else { continue };
            let (pattern, actual) = (self.typing.resolve_at(written, &env, home), self.infer(value));
            // A contradiction is reported when the value is compared with its field.
            let _ = bind(&pattern, &actual, &mut bound);
        }
        bound
    }

    pub(super) fn call_type(&mut self, callee: &'a Expr, type_args: &'a [TypeExpr], args: &'a [Arg]) -> Ty {
        let ExprKind::Name(name) = &callee.kind else { return Ty::Any };
        let found = self.scopes.look_up(name, callee.span.start);
        match found {
            Lookup::Is(Kind::Struct(_)) => return self.instance(name),
            Lookup::Is(Kind::Fn(..)) if self.overridden.contains(name.as_str()) => return Ty::Any,
            Lookup::Missing if self.is_builtin(name) => return self.builtin_type(name, type_args, args),
            _ => {}
        }
        let Some(called) = self.called(name, &found) else { return Ty::Any };
        let func = &called.decl.func;
        if func.is_gen || func.has_yield {
            let wanted = if func.is_gen { ["Stream", "stream"] } else { ["Generator", "generator"] };
            return match func.ret.as_ref().map(|ret| self.signature_type(called, ret)) {
                Some(Ty::Named(name, args)) if wanted.contains(&name.as_str()) => Ty::Named(name, args),
                _ => Ty::named(wanted[0]),
            };
        }
        let Some(ret) = &func.ret else { return Ty::Any };
        let ret = self.signature_type(called, ret);
        if called.decl.type_params.is_empty() {
            return ret;
        }
        let (bound, _) = self.bindings(called, type_args, args);
        substitute(&ret, &bound)
    }

    fn builtin_type(&mut self, name: &str, type_args: &'a [TypeExpr], args: &'a [Arg]) -> Ty {
        if let Some(ty) = schema_place::written_type(name, type_args, args) {
            return Ty::Named(Name::new_static("Schema"), vec![self.typing.resolve(ty)]);
        }
        let result_of = |ok: Ty, err: Ty| Ty::Named(Name::new_static("Result"), vec![ok, err]);
        match (name, args) {
            ("Ok", [arg]) => {
                let ty = self.infer(&arg.value);
                return result_of(ty, Ty::Any);
            }
            ("Err", [arg]) => {
                let ty = self.infer(&arg.value);
                return result_of(Ty::Any, ty);
            }
            ("unwrap", [arg]) => {
                return match self.infer(&arg.value) {
                    Ty::Named(name, args) if name == "Result" && args.len() == 2 => args[0].clone(),
                    _ => Ty::Any,
                };
            }
            ("schema_of", [arg]) => {
                return match self.schema_type(&arg.value) {
                    Some(ty) => Ty::Named(Name::new_static("Schema"), vec![ty]),
                    None => Ty::named("dict"),
                };
            }
            ("schema_expect", [_, schema, ..]) => {
                return self.schema_type(&schema.value).unwrap_or(Ty::Any);
            }
            ("schema_parse" | "schema_check", [_, schema]) => {
                if let Some(ty) = self.schema_type(&schema.value) {
                    return result_of(ty, Ty::Any);
                }
            }
            ("llm_call", [_, _, Arg { value: options, .. }])
            | ("llm_completion", [_, _, _, Arg { value: options, .. }]) => {
                if let Some(ty) = self.option_schema(options, &["output_schema", "schema"]) {
                    return answer(ty);
                }
            }
            ("agent_loop", [_, _, Arg { value: options, .. }]) => {
                if let Some(ty) = self.option_schema(options, &["output_schema", "json_schema", "schema"]) {
                    return loop_answer(ty);
                }
            }
            ("llm_call_structured", [_, schema, ..]) => {
                return self.schema_type(&schema.value).unwrap_or(Ty::Any);
            }
            ("llm_call_structured_safe", [_, schema, ..]) => {
                if let Some(ty) = self.schema_type(&schema.value) {
                    return safe_answer(ty);
                }
            }
            ("llm_call_structured_result", [_, schema, ..]) => {
                if let Some(ty) = self.schema_type(&schema.value) {
                    return full_answer(ty);
                }
            }
            ("ask_user", [_, Arg { value: options, .. }]) => {
                if let Some(ty) = self.option_schema(options, &["schema"]) {
                    return ty;
                }
            }
            _ => {}
        }
        result(self.world.signatures.builtin(name).map(|signature| signature.returns))
    }

    /// Returns the type of the schema in literal options.
    fn option_schema(&mut self, options: &'a Expr, names: &[&str]) -> Option<Ty> {
        let ExprKind::Dict(items) = &options.kind else { return None };
        let schema = items.iter().find_map(|item| match item {
            DictItem::Entry { key, value } if names.contains(&key.name.as_str()) => Some(value),
            _ => None,
        })?;
        self.schema_type(schema)
    }

    /// The type of `E.V(args)`.
    pub(super) fn variant_type(&mut self, decl: &'a EnumDecl, name: &str, args: &'a [Arg]) -> Ty {
        let Some(variant) = decl.variants.iter().find(|variant| variant.name.name == name) else {
            return Ty::Any;
        };
        if decl.type_params.is_empty() {
            return enum_type(decl, name);
        }
        let env = Typing::vars(&decl.type_params);
        let mut bound = Bindings::new();
        for (arg, field) in args.iter().zip(&variant.fields) {
            let Some(written) = &field.ty else { continue };
            let (pattern, actual) = (self.typing.resolve_with(written, &env), self.infer(&arg.value));
            let _ = bind(&pattern, &actual, &mut bound);
        }
        let arg = |param: &TypeParam| {
            bound.iter().find(|(name, _)| *name == param.name.name).map_or(Ty::Any, |(_, ty)| ty.clone())
        };
        Ty::Named(decl.name.name.clone(), decl.type_params.iter().map(arg).collect())
    }
}

fn field(name: &'static str, ty: Ty) -> Field {
    Field { name: Name::new_static(name), optional: false, ty }
}

/// The type or nil: other fields show which.
fn or_nil(ty: Ty) -> Ty {
    Ty::union([Ty::OneOf(vec![Ty::Nil]), ty])
}

/// The result of a model call with a schema.
fn answer(data: Ty) -> Ty {
    let [text, int, list] = ["string", "int", "list"].map(|word| move || Ty::named(word));
    let maybe = |name, ty| Field { optional: true, ..field(name, ty) };
    Ty::Shape(vec![
        field("text", text()),
        field("model", text()),
        field("provider", text()),
        field("input_tokens", int()),
        field("output_tokens", int()),
        field("data", data),
        maybe("visible_text", text()),
        maybe("tool_calls", list()),
        maybe("thinking", text()),
        maybe("stop_reason", text()),
        maybe("repaired", Ty::named("bool")),
    ])
}

/// The result of an agent loop with a schema. Its data is nil only where the status is not `done`, or an option ended the loop.
fn loop_answer(data: Ty) -> Ty {
    let text = ["status", "text", "final_text", "visible_text", "daemon_state"].map(|name| (name, "string"));
    let ints = ["iterations", "duration_ms", "ledger_done_rejections"].map(|name| (name, "int"));
    let lists = ["tools_used", "rejected_tools", "deferred_user_messages"].map(|name| (name, "list"));
    let dicts = ["llm", "tools", "trace", "transcript", "task_ledger"].map(|name| (name, "dict"));
    let of_words = text.into_iter().chain(ints).chain(lists).chain(dicts);
    let mut fields: Vec<Field> = of_words.map(|(name, word)| field(name, Ty::named(word))).collect();
    fields.push(field("data", data));
    fields.push(field("error", or_nil(Ty::named("dict"))));
    fields.push(field("stop_reason", or_nil(Ty::named("string"))));
    fields.push(field("daemon_snapshot_path", or_nil(Ty::named("string"))));
    Ty::Shape(fields)
}

/// The result of `llm_call_structured_safe`.
fn safe_answer(data: Ty) -> Ty {
    Ty::Shape(vec![
        field("ok", Ty::named("bool")),
        field("data", or_nil(data)),
        field("error", or_nil(Ty::named("dict"))),
    ])
}

/// The result of `llm_call_structured_result`.
fn full_answer(data: Ty) -> Ty {
    let [text, bool] = ["string", "bool"].map(|word| move || Ty::named(word));
    Ty::Shape(vec![
        field("ok", bool()),
        field("data", or_nil(data)),
        field("raw_text", text()),
        field("error", text()),
        field("error_category", or_nil(text())),
        field("attempts", Ty::named("int")),
        field("repaired", bool()),
        field("extracted_json", bool()),
        field("usage", Ty::Any),
        field("model", text()),
        field("provider", text()),
    ])
}
