//! From a type as written to a [`Ty`]: names mean builtin types, declarations of the file or imported ones.

use harn_syntax::ast::*;
use harn_syntax::visit::{self, Visitor};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Field, Ty};
use crate::imports::Imports;
use crate::world::{Source, World};

/// How many aliases one type may go through; deeper ones are not known.
const MAX_DEPTH: u32 = 8;

/// Types of the language that have no declaration.
const BUILTIN: [&str; 20] = [
    "Generator",
    "Iter",
    "Pair",
    "Result",
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

/// What the type names of one file stand for.
#[derive(Default)]
pub(crate) struct Declared<'a> {
    /// The declaration of each type name; `None` when there are several.
    types: FxHashMap<&'a str, Option<&'a DeclKind>>,
    /// The generic parameters of the file: such a name may mean anything.
    params: FxHashSet<&'a str>,
    /// The methods of each `impl`.
    methods: FxHashMap<&'a str, Vec<&'a FnDecl>>,
    /// The variables that are assigned somewhere.
    assigned: FxHashSet<&'a str>,
}

impl<'a> Declared<'a> {
    /// Reads the declarations of a file, at any depth.
    pub(crate) fn of(tree: &'a Program) -> Declared<'a> {
        let mut found = Declared::default();
        found.stmts(&tree.items);
        found
    }

    /// The methods that `impl` blocks give a type.
    pub(crate) fn methods(&self, name: &str) -> &[&'a FnDecl] {
        self.methods.get(name).map_or(&[], Vec::as_slice)
    }

    /// The declaration of a type of the file, if there is just one.
    pub(crate) fn get(&self, name: &str) -> Option<&'a DeclKind> {
        self.types.get(name).copied().flatten()
    }

    /// Whether a variable of this name is assigned somewhere.
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
        visit::walk_function(self, func);
    }
}

/// What a type name stands for.
#[derive(Clone, Copy)]
pub(crate) enum TypeName<'a> {
    /// A declaration of this file.
    Own(&'a DeclKind),
    /// An imported declaration.
    Imported(&'a DeclKind),
    /// A type of the language.
    Builtin,
    /// There is no such type.
    Opaque,
    /// Nobody can tell.
    Unknown,
}

/// Everything that tells what types mean.
#[derive(Clone, Copy)]
pub(crate) struct Typing<'a> {
    pub(crate) declared: &'a Declared<'a>,
    pub(crate) imports: &'a Imports,
    pub(crate) source: &'a Source<'a>,
    pub(crate) world: &'a World<'a>,
}

impl<'a> Typing<'a> {
    /// What a type name stands for.
    pub(crate) fn name(&self, name: &str) -> TypeName<'a> {
        if self.declared.params.contains(name) || matches!(name, "any" | "unknown" | "never" | "_" | "Schema")
        {
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

    /// The type of an annotation.
    pub(crate) fn resolve(&self, ty: &TypeExpr) -> Ty {
        self.at_depth(ty, 0)
    }

    /// The type of an annotation of an imported file: what that file names itself is not followed.
    pub(crate) fn resolve_foreign(&self, ty: &TypeExpr) -> Ty {
        self.at_depth(ty, MAX_DEPTH)
    }

    fn at_depth(&self, ty: &TypeExpr, depth: u32) -> Ty {
        let all = |types: &[TypeExpr]| types.iter().map(|ty| self.at_depth(ty, depth)).collect::<Vec<_>>();
        match &ty.kind {
            TypeKind::Nil => Ty::Nil,
            TypeKind::Str(text) => Ty::Str(text.clone()),
            TypeKind::Int(value) => Ty::Int(*value),
            TypeKind::Union(members) => Ty::union(all(members)),
            TypeKind::Fn { params, ret } => Ty::Fn(all(params), Box::new(self.at_depth(ret, depth))),
            TypeKind::Shape(fields) => Ty::Shape(self.fields(fields, depth)),
            TypeKind::Named { name, args } => self.named(&name.name, all(args), depth),
        }
    }

    fn fields(&self, fields: &[ShapeField], depth: u32) -> Vec<Field> {
        let field = |field: &ShapeField| Field {
            name: field.name.name.clone(),
            optional: field.optional,
            ty: self.at_depth(&field.ty, depth),
        };
        fields.iter().map(field).collect()
    }

    fn named(&self, name: &Name, args: Vec<Ty>, depth: u32) -> Ty {
        if depth >= MAX_DEPTH && !BUILTIN.contains(&name.as_str()) {
            return Ty::Any;
        }
        match self.name(name) {
            TypeName::Unknown => Ty::Any,
            TypeName::Builtin if name == "nil" => Ty::Nil,
            TypeName::Builtin | TypeName::Opaque => Ty::Named(name.clone(), args),
            TypeName::Own(DeclKind::Type(alias)) if alias.type_params.is_empty() => {
                self.at_depth(&alias.ty, depth + 1)
            }
            TypeName::Imported(DeclKind::Type(alias)) if alias.type_params.is_empty() => {
                self.resolve_foreign(&alias.ty)
            }
            TypeName::Own(DeclKind::Interface(interface)) => {
                Ty::Interface(name.clone(), self.satisfying(interface))
            }
            TypeName::Own(DeclKind::Struct(_) | DeclKind::Enum(_))
            | TypeName::Imported(DeclKind::Struct(_) | DeclKind::Enum(_)) => Ty::Named(name.clone(), args),
            // A generic alias, an interface of another file.
            _ => Ty::Any,
        }
    }

    /// The structs of the file that have the methods of an interface, with as many parameters.
    fn satisfying(&self, interface: &InterfaceDecl) -> Vec<Name> {
        let without_self = |params: &[Param]| params.iter().filter(|param| param.name.name != "self").count();
        let has = |name: &str, wanted: &MethodSig| {
            let methods = self.declared.methods(name).iter();
            let count = without_self(&wanted.params);
            methods.filter(|m| m.name.name == wanted.name.name).any(|m| without_self(&m.func.params) == count)
        };
        // What the structs of other files can do is not known here.
        let imported = self.imports.get(self.source, self.world).into_iter().flatten().map(|(name, _)| name);
        let own = self.declared.types.keys().copied();
        own.filter(|name| interface.methods.iter().all(|wanted| has(name, wanted)))
            .chain(imported.map(Name::as_str))
            .map(Name::new)
            .collect()
    }
}
