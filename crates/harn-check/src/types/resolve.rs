//! Resolves annotations to [`Ty`]: names are builtin types, declarations of the file or imported ones.

use std::cell::{Cell, RefCell};

use std::rc::Rc;

use harn_front::Unit;
use harn_syntax::ast::*;
use harn_syntax::visit::{self, Visitor};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Field, Ty};
use crate::imports::Imports;
use crate::scope::names_of;
use crate::world::{Source, World};

/// Maximum depth of aliases; deeper ones are unknown.
const MAX_DEPTH: u32 = 8;

/// Maximum number of parts of a type after expanding its aliases; further parts are unknown.
const MAX_NODES: u32 = 2_000;

/// Maximum number of types that an alias of unions may expand to.
const MAX_COMBINATIONS: usize = 64;

/// Names that are bound to types.
pub(crate) type Env<'e> = &'e [(Name, Ty)];

/// In the list of structs that satisfy an interface: all structs, because those of other files are unknown.
pub(super) const ANY_STRUCT: &str = "*";

/// Types of the language that have no declaration.
pub(crate) const BUILTIN: [&str; 21] = [
    "Generator",
    "Iter",
    "Pair",
    "Result",
    "Schema",
    "Stream",
    "bool",
    "bytes",
    "closure",
    "dict",
    "duration",
    "float",
    "generator",
    "int",
    "iter",
    "list",
    "nil",
    "range",
    "set",
    "stream",
    "string",
];

/// Returns whether a name means a type of the language.
#[must_use]
pub fn is_builtin_type(name: &str) -> bool {
    BUILTIN.contains(&name) || ["any", "unknown", "never"].contains(&name)
}

/// The type names that one file declares.
#[derive(Default)]
pub(crate) struct Declared<'a> {
    /// The declaration of each type name; `None` when there are several.
    types: FxHashMap<&'a str, Option<&'a DeclKind>>,
    /// The type parameters of the file: such a name may have any meaning.
    params: FxHashSet<&'a str>,
    /// The methods of each `impl`.
    methods: FxHashMap<&'a str, Vec<&'a FnDecl>>,
    /// The variables that are assigned somewhere.
    assigned: FxHashSet<&'a str>,
    /// The variables that a nested function assigns.
    assigned_from_within: FxHashSet<&'a str>,
    /// For each enclosing function, innermost last: its bindings and assignments.
    functions: Vec<(FxHashSet<&'a str>, Vec<&'a str>)>,
    /// Resolved annotations, by their address.
    resolved: RefCell<FxHashMap<*const TypeExpr, Ty>>,
    /// The structs that satisfy an interface, by its name.
    pub(super) satisfying: RefCell<FxHashMap<Name, Vec<Name>>>,
    /// The aliases that are being expanded.
    expanding: RefCell<Vec<Name>>,
    /// Remaining number of parts of the type that is being resolved.
    left: Cell<u32>,
}

impl<'a> Declared<'a> {
    /// Collects the declarations of a file, at any depth.
    pub(crate) fn of(tree: &'a Program) -> Declared<'a> {
        let mut found = Declared::default();
        found.functions.push(Default::default());
        found.stmts(&tree.items);
        found
    }

    /// Returns the names of the declared types.
    pub(super) fn type_names(&self) -> impl Iterator<Item = &'a str> {
        self.types.keys().copied()
    }

    /// Returns whether a function call may assign a variable with this name.
    pub(crate) fn is_assigned_from_within(&self, name: &str) -> bool {
        self.assigned_from_within.contains(name)
    }

    fn binds(&mut self, name: &'a Ident) {
        if let Some((bound, _)) = self.functions.last_mut() {
            bound.insert(&name.name);
        }
    }

    /// Returns the methods in the `impl` blocks of a type.
    pub(crate) fn methods(&self, name: &str) -> &[&'a FnDecl] {
        self.methods.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns the declaration of a type of the file, if it is unique.
    pub(crate) fn get(&self, name: &str) -> Option<&'a DeclKind> {
        self.types.get(name).copied().flatten()
    }

    /// Returns whether a variable with this name is assigned.
    pub(crate) fn is_assigned(&self, name: &str) -> bool {
        self.assigned.contains(name)
    }

    fn generic(&mut self, params: &'a [TypeParam]) {
        self.params.extend(params.iter().map(|param| param.name.name.as_str()));
    }
}

impl<'a> Visitor<'a> for Declared<'a> {
    fn stmt(&mut self, stmt: &'a Stmt) {
        if let StmtKind::Assign { target, .. } = &stmt.kind {
            self.assigned.insert(&target.root.name);
            if let Some((_, assigned)) = self.functions.last_mut() {
                assigned.push(&target.root.name);
            }
        }
        if let StmtKind::Let { pattern, .. } | StmtKind::For { pattern, .. } = &stmt.kind {
            names_of(pattern, &mut |name| self.binds(name));
        }
        visit::walk_stmt(self, stmt);
    }

    fn decl(&mut self, decl: &'a Decl) {
        match &decl.kind {
            DeclKind::Struct(StructDecl { type_params, .. })
            | DeclKind::Enum(EnumDecl { type_params, .. })
            | DeclKind::Type(TypeDecl { type_params, .. }) => self.generic(type_params),
            DeclKind::Interface(d) => {
                self.generic(&d.type_params);
                self.params.extend(d.assoc_types.iter().map(|assoc| assoc.name.name.as_str()));
            }
            DeclKind::Impl(d) => {
                let methods = d.methods.iter().map(|method| &method.decl);
                self.methods.entry(&d.name.name).or_default().extend(methods);
            }
            _ => {}
        }
        if matches!(
            decl.kind,
            DeclKind::Struct(_) | DeclKind::Enum(_) | DeclKind::Type(_) | DeclKind::Interface(_)
        ) {
            let name = decl.kind.name().name.as_str();
            self.types.entry(name).and_modify(|known| *known = None).or_insert(Some(&decl.kind));
        }
        visit::walk_decl(self, decl);
    }

    fn function(&mut self, func: &'a Function, type_params: &'a [TypeParam]) {
        self.generic(type_params);
        self.functions.push(Default::default());
        func.params.iter().for_each(|param| self.binds(&param.name));
        visit::walk_function(self, func);
        let (bound, assigned) = self.functions.pop().unwrap_or_default();
        for name in assigned.into_iter().filter(|name| !bound.contains(name)) {
            self.assigned_from_within.insert(name);
            if let Some((_, outer)) = self.functions.last_mut() {
                outer.push(name);
            }
        }
    }
}

/// The meaning of a type name.
#[derive(Clone, Copy)]
pub(crate) enum TypeName<'a> {
    /// A declaration of this file.
    Own(&'a DeclKind),
    /// An imported declaration.
    Imported(&'a DeclKind),
    /// A type of the language.
    Builtin,
    /// The type does not exist.
    Opaque,
    /// The type is unknown.
    Unknown,
}

/// The context for resolving types.
#[derive(Clone, Copy)]
pub(crate) struct Typing<'a> {
    pub(crate) declared: &'a Declared<'a>,
    pub(crate) imports: &'a Imports,
    pub(crate) source: &'a Source<'a>,
    pub(crate) world: &'a World<'a>,
}

impl<'a> Typing<'a> {
    /// Returns all type names: builtin types, and the declarations of the file and its imports.
    pub(crate) fn names(&self) -> Vec<&'a str> {
        let imported = self.imports.get(self.source, self.world).into_iter().flatten();
        let is_type = |decl: &Decl| {
            use DeclKind::{Enum, Interface, Struct, Type};
            matches!(decl.kind, Struct(_) | Enum(_) | Type(_) | Interface(_))
        };
        let imported = imported.filter(|(_, found)| found.decl().is_some_and(is_type));
        let imported = imported.map(|(name, _)| name.as_str());
        let own = self.declared.types.keys().copied();
        BUILTIN.into_iter().chain(["any", "unknown", "never"]).chain(own).chain(imported).collect()
    }

    /// Returns the meaning of a type name.
    pub(crate) fn name(&self, name: &str) -> TypeName<'a> {
        if self.declared.params.contains(name) || matches!(name, "any" | "unknown" | "never" | "_") {
            return TypeName::Unknown;
        }
        if let Some(own) = self.declared.types.get(name) {
            return own.map_or(TypeName::Unknown, TypeName::Own);
        }
        if BUILTIN.contains(&name) {
            return TypeName::Builtin;
        }
        match self.imports.get(self.source, self.world) {
            None => TypeName::Unknown,
            Some(names) => match names.get(name) {
                Some(imported) => imported.decl().map_or(TypeName::Unknown, |d| TypeName::Imported(&d.kind)),
                None => TypeName::Opaque,
            },
        }
    }

    /// Returns the file that declares an imported name.
    pub(crate) fn home(&self, name: &str) -> Option<&'a Rc<Unit>> {
        self.imports.get(self.source, self.world)?.get(name)?.place().map(|(unit, _)| unit)
    }

    /// The type of an annotation.
    pub(crate) fn resolve(&self, ty: &TypeExpr) -> Ty {
        let key = std::ptr::from_ref(ty);
        if let Some(known) = self.declared.resolved.borrow().get(&key) {
            return known.clone();
        }
        let resolved = self.resolve_with(ty, &[]);
        self.declared.resolved.borrow_mut().insert(key, resolved.clone());
        resolved
    }

    /// Resolves an annotation with bound names.
    pub(crate) fn resolve_with(&self, ty: &TypeExpr, env: Env<'_>) -> Ty {
        self.declared.left.set(MAX_NODES);
        self.at_depth(ty, env, 0, None)
    }

    /// Resolves an annotation of a file, with the names that the file declares or imports.
    pub(crate) fn resolve_in(&self, ty: &TypeExpr, env: Env<'_>, unit: &Rc<Unit>) -> Ty {
        self.declared.left.set(MAX_NODES);
        self.at_depth(ty, env, 0, Some(unit))
    }

    /// Resolves an annotation of an imported file, without the declarations of that file.
    pub(crate) fn resolve_foreign(&self, ty: &TypeExpr, env: Env<'_>) -> Ty {
        self.declared.left.set(MAX_NODES);
        self.at_depth(ty, env, MAX_DEPTH, None)
    }

    /// `within` is the other file that contains the type.
    fn at_depth(&self, ty: &TypeExpr, env: Env<'_>, depth: u32, within: Option<&Rc<Unit>>) -> Ty {
        let left = self.declared.left.get();
        if left == 0 {
            return Ty::Any;
        }
        self.declared.left.set(left - 1);
        let all = |types: &[TypeExpr]| {
            types.iter().map(|ty| self.at_depth(ty, env, depth, within)).collect::<Vec<_>>()
        };
        match &ty.kind {
            TypeKind::Nil => Ty::Nil,
            TypeKind::Str(text) => Ty::Str(text.clone()),
            TypeKind::Int(value) => Ty::Int(*value),
            TypeKind::Union(members) => Ty::union(all(members)),
            TypeKind::Fn { params, ret } => {
                Ty::Fn(all(params), Box::new(self.at_depth(ret, env, depth, within)))
            }
            TypeKind::Shape(fields) => {
                let field = |field: &ShapeField| Field {
                    name: field.name.name.clone(),
                    optional: field.optional,
                    ty: self.at_depth(&field.ty, env, depth, within),
                };
                Ty::Shape(fields.iter().map(field).collect())
            }
            TypeKind::Named { name, args } => self.named(&name.name, all(args), env, depth, within),
        }
    }

    fn named(&self, name: &Name, args: Vec<Ty>, env: Env<'_>, depth: u32, within: Option<&Rc<Unit>>) -> Ty {
        match name.as_str() {
            "any" | "_" => return Ty::Any,
            "unknown" => return Ty::Unknown,
            "never" => return Ty::Never,
            "Schema" if args.len() == 1 => return Ty::Named(name.clone(), args),
            _ => {}
        }
        if let Some((_, ty)) = env.iter().find(|(param, _)| param == name) {
            return ty.clone();
        }
        if depth >= MAX_DEPTH && !BUILTIN.contains(&name.as_str()) {
            return Ty::Any;
        }
        if let Some(unit) = within {
            return self.named_in(unit, name, args, depth);
        }
        match self.name(name) {
            TypeName::Unknown => Ty::Any,
            TypeName::Builtin if name == "nil" => Ty::Nil,
            TypeName::Builtin | TypeName::Opaque => Ty::Named(name.clone(), args),
            TypeName::Own(DeclKind::Type(alias)) => self.alias(alias, args, depth + 1, None),
            TypeName::Imported(DeclKind::Type(alias)) => match self.home(name) {
                Some(unit) => self.alias(alias, args, depth + 1, Some(unit)),
                None => Ty::Any,
            },
            TypeName::Own(DeclKind::Interface(interface)) => {
                Ty::Interface(name.clone(), self.satisfying(interface, None))
            }
            TypeName::Imported(DeclKind::Interface(interface)) => match self.home(name) {
                Some(unit) => Ty::Interface(name.clone(), self.satisfying(interface, Some(unit))),
                None => Ty::Any,
            },
            TypeName::Own(DeclKind::Struct(_) | DeclKind::Enum(_))
            | TypeName::Imported(DeclKind::Struct(_) | DeclKind::Enum(_)) => Ty::Named(name.clone(), args),
            _ => Ty::Any,
        }
    }

    /// Resolves a name in another file.
    fn named_in(&self, unit: &Rc<Unit>, name: &Name, args: Vec<Ty>, depth: u32) -> Ty {
        let Some((unit, at)) = self.imports.type_in(self.world, unit, name) else {
            return match BUILTIN.contains(&name.as_str()) {
                true if name == "nil" => Ty::Nil,
                true => Ty::Named(name.clone(), args),
                false => Ty::Any,
            };
        };
        let Some(StmtKind::Decl(decl)) = unit.tree.items.get(at).map(|item| &item.kind) else {
            return Ty::Any;
        };
        match &decl.kind {
            DeclKind::Type(alias) => self.alias(alias, args, depth + 1, Some(&unit)),
            // A type with the same name in this file is a different one.
            DeclKind::Struct(_) | DeclKind::Enum(_)
                if matches!(self.name(name), TypeName::Imported(_) | TypeName::Opaque) =>
            {
                Ty::Named(name.clone(), args)
            }
            DeclKind::Interface(_) => Ty::Interface(name.clone(), vec![Name::new_static(ANY_STRUCT)]),
            _ => Ty::Any,
        }
    }

    /// Expands an alias. One that is applied to a union is applied to each of its members.
    fn alias(&self, alias: &TypeDecl, args: Vec<Ty>, depth: u32, within: Option<&Rc<Unit>>) -> Ty {
        let name = &alias.name.name;
        if args.len() != alias.type_params.len() {
            return if args.is_empty() { Ty::Any } else { Ty::Named(name.clone(), args) };
        }
        // A recursive alias is not expanded again.
        if self.declared.expanding.borrow().contains(name) {
            return Ty::Any;
        }
        self.declared.expanding.borrow_mut().push(name.clone());
        let mut combinations: Vec<Vec<(Name, Ty)>> = vec![Vec::new()];
        for (param, arg) in alias.type_params.iter().zip(args) {
            let members = match super::members(&arg) {
                several if combinations.len() * several.len() <= MAX_COMBINATIONS => several,
                _ => std::slice::from_ref(&arg),
            };
            combinations = members
                .iter()
                .flat_map(|member| {
                    combinations.iter().map(|before| {
                        let mut all = before.clone();
                        all.push((param.name.name.clone(), member.clone()));
                        all
                    })
                })
                .collect();
        }
        let types: Vec<Ty> =
            combinations.iter().map(|env| self.at_depth(&alias.ty, env, depth, within)).collect();
        self.declared.expanding.borrow_mut().pop();
        Ty::union(types)
    }

    /// Binds the type parameters of a declaration to the arguments, or to unknown types.
    pub(crate) fn env(params: &[TypeParam], args: &[Ty]) -> Vec<(Name, Ty)> {
        let arg = |at: usize| args.get(at).cloned().unwrap_or(Ty::Any);
        params.iter().enumerate().map(|(at, param)| (param.name.name.clone(), arg(at))).collect()
    }

    /// Binds the type parameters of a declaration to themselves.
    pub(crate) fn vars(params: &[TypeParam]) -> Vec<(Name, Ty)> {
        params.iter().map(|param| (param.name.name.clone(), Ty::Var(param.name.name.clone()))).collect()
    }

    /// Resolves a type name to a struct, and returns the other file that declares it.
    pub(crate) fn struct_named(&self, name: &str) -> Option<(&'a StructDecl, Option<&'a Rc<Unit>>)> {
        match self.name(name) {
            TypeName::Own(DeclKind::Struct(decl)) => Some((decl, None)),
            TypeName::Imported(DeclKind::Struct(decl)) => Some((decl, Some(self.home(name)?))),
            _ => None,
        }
    }

    /// Resolves an annotation of this file, or of the file `home`.
    pub(crate) fn resolve_at(&self, ty: &TypeExpr, env: Env<'_>, home: Option<&Rc<Unit>>) -> Ty {
        match home {
            None => self.resolve_with(ty, env),
            Some(unit) => self.resolve_in(ty, env, unit),
        }
    }

    /// Returns the fields of a struct with type arguments.
    pub(crate) fn struct_fields(&self, name: &str, args: &[Ty]) -> Option<Vec<Field>> {
        let (decl, home) = self.struct_named(name)?;
        let env = Self::env(&decl.type_params, args);
        let field = |field: &StructField| Field {
            name: field.name.name.clone(),
            optional: field.optional,
            ty: field.ty.as_ref().map_or(Ty::Any, |ty| self.resolve_at(ty, &env, home)),
        };
        Some(decl.fields.iter().map(field).collect())
    }

    /// Returns the variance of the parameters of a declared type.
    pub(crate) fn variances(&self, name: &str) -> Vec<Option<Variance>> {
        let params = match self.declared.get(name) {
            Some(DeclKind::Struct(StructDecl { type_params, .. }))
            | Some(DeclKind::Enum(EnumDecl { type_params, .. }))
            | Some(DeclKind::Type(TypeDecl { type_params, .. }))
            | Some(DeclKind::Interface(InterfaceDecl { type_params, .. })) => type_params,
            _ => return Vec::new(),
        };
        params.iter().map(|param| param.variance).collect()
    }
}
