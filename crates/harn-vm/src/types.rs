//! Resolution of type names: one model for schemas, parameters of tools and checks of arguments.
//!
//! A name is resolved in the file where it is written. So each named type stores its file, and a type of another file
//! is expanded with the names of that file.

use std::cell::RefCell;
use std::rc::Rc;

use harn_syntax::Span;
use harn_syntax::ast::{Ident, Name, ShapeField, StructDecl, TypeDecl, TypeExpr, TypeKind, TypeParam};
use harn_value::{EnumType, Ref, StructType};
use rustc_hash::{FxHashMap, FxHashSet};

/// A named type.
#[derive(Debug)]
pub(crate) struct Alias {
    /// Names of the type parameters.
    pub(crate) params: Vec<Name>,
    /// The definition.
    pub(crate) ty: TypeExpr,
    /// Text of its doc comment.
    pub(crate) doc: Option<Name>,
    /// The file whose names `ty` uses; `None` for a declaration inside a function, which is visible only there.
    home: Option<u32>,
}

impl Alias {
    /// Creates the alias of a `type` declaration in the file `home`, or in a function.
    pub(crate) fn of_type(d: &TypeDecl, home: Option<u32>) -> Rc<Alias> {
        Alias::new(&d.type_params, d.ty.clone(), d.doc.clone(), home)
    }

    fn new(params: &[TypeParam], ty: TypeExpr, doc: Option<Name>, home: Option<u32>) -> Rc<Alias> {
        Rc::new(Alias { params: params.iter().map(|param| param.name.name.clone()).collect(), ty, doc, home })
    }

    /// Creates the alias of a struct in the file `home`, or in a function, as the shape of its fields.
    pub(crate) fn of_struct(d: &StructDecl, home: Option<u32>) -> Rc<Alias> {
        let any = |span: Span| {
            let name = Ident { name: "any".into(), span };
            TypeExpr { kind: TypeKind::Named { name, args: Vec::new() }, span }
        };
        let fields = d.fields.iter().map(|f| ShapeField {
            name: f.name.clone(),
            optional: f.optional,
            ty: f.ty.clone().unwrap_or_else(|| any(f.name.span)),
            note: f.note.clone(),
        });
        let shape = TypeExpr { kind: TypeKind::Shape(fields.collect()), span: d.name.span };
        Alias::new(&d.type_params, shape, d.doc.clone(), home)
    }
}

/// The meaning of a type name.
#[derive(Clone)]
pub(crate) enum Named<'a> {
    /// Another type.
    Alias(Rc<Alias>),
    /// A struct and the shape of its fields.
    Struct(Ref<StructType>, Rc<Alias>),
    Enum(Ref<EnumType>),
    Interface,
    /// An argument of a generic type, with the scope in which it is written.
    Argument(&'a TypeExpr, &'a Scope<'a>),
}

/// The named types of each file of a program.
#[derive(Default)]
pub(crate) struct Types(RefCell<FxHashMap<u32, FxHashMap<Name, Named<'static>>>>);

impl Types {
    /// Adds the types of a file.
    pub(crate) fn know(&self, file: u32, types: impl Iterator<Item = (Name, Named<'static>)>) {
        self.0.borrow_mut().entry(file).or_default().extend(types);
    }

    fn find(&self, file: u32, name: &str) -> Option<Named<'static>> {
        self.0.borrow().get(&file)?.get(name).cloned()
    }

    /// Returns the scope of a file.
    pub(crate) fn of(&self, file: u32) -> Scope<'_> {
        Scope { types: self, place: Place::File(file), arguments: Vec::new() }
    }

    /// Returns the scope of a position in a function, in which `find` resolves names.
    pub(crate) fn through<'a>(&'a self, find: &'a dyn Fn(&str) -> Option<Named<'static>>) -> Scope<'a> {
        Scope { types: self, place: Place::Function(find), arguments: Vec::new() }
    }
}

#[derive(Clone, Copy)]
enum Place<'a> {
    File(u32),
    Function(&'a dyn Fn(&str) -> Option<Named<'static>>),
}

/// The scope in which a type's names are resolved.
pub(crate) struct Scope<'a> {
    types: &'a Types,
    place: Place<'a>,
    /// Arguments of the generic type whose definition this is; without a type if none was given.
    arguments: Vec<(&'a Name, Option<(&'a TypeExpr, &'a Scope<'a>)>)>,
}

impl Scope<'_> {
    /// Returns the scope inside a named type, for arguments that are written in the scope `outside`.
    pub(crate) fn of<'b>(
        &'b self,
        alias: &'b Alias,
        args: &'b [TypeExpr],
        outside: &'b Scope<'b>,
    ) -> Scope<'b> {
        let given = |at: usize| args.get(at).map(|arg| (arg, outside));
        let arguments = alias.params.iter().enumerate().map(|(at, name)| (name, given(at))).collect();
        Scope { types: self.types, place: alias.home.map_or(self.place, Place::File), arguments }
    }

    /// Resolves a name; `None` for names that are not types, and for types that accept anything.
    pub(crate) fn find(&self, name: &str) -> Option<Named<'_>> {
        if let Some((_, argument)) = self.arguments.iter().find(|(own, _)| *own == name) {
            return argument.map(|(ty, scope)| Named::Argument(ty, scope));
        }
        self.find_in(self.place, name)
    }

    fn find_in(&self, place: Place<'_>, name: &str) -> Option<Named<'static>> {
        match place {
            Place::File(file) => self.types.find(file, name),
            Place::Function(find) => find(name),
        }
    }

    /// Returns whether a type is recursive.
    pub(crate) fn is_recursive(&self, alias: &Rc<Alias>) -> bool {
        let mut seen = FxHashSet::default();
        let mut todo = self.mentioned(alias);
        while let Some(next) = todo.pop() {
            if Rc::ptr_eq(&next, alias) {
                return true;
            }
            if seen.insert(Rc::as_ptr(&next)) {
                todo.extend(self.mentioned(&next));
            }
        }
        false
    }

    /// Returns the named types that a type mentions.
    fn mentioned(&self, alias: &Alias) -> Vec<Rc<Alias>> {
        let mut found = Vec::new();
        let place = alias.home.map_or(self.place, Place::File);
        names(&alias.ty, &mut |name| {
            if let Some(Named::Alias(next) | Named::Struct(_, next)) = self.find_in(place, name)
                && !alias.params.contains(name)
            {
                found.push(next);
            }
        });
        found
    }
}

/// Visits the names in a type.
fn names(ty: &TypeExpr, found: &mut dyn FnMut(&Name)) {
    match &ty.kind {
        TypeKind::Named { name, args } => {
            found(&name.name);
            args.iter().for_each(|arg| names(arg, found));
        }
        TypeKind::Union(members) => members.iter().for_each(|member| names(member, found)),
        TypeKind::Shape(fields) => fields.iter().for_each(|field| names(&field.ty, found)),
        // A function has no schema of its parts.
        TypeKind::Fn { .. } | TypeKind::Str(_) | TypeKind::Int(_) | TypeKind::Nil => {}
    }
}
