//! Satisfaction of interfaces by structs (types guide, "Interfaces").

use std::rc::Rc;

use harn_front::Unit;
use harn_syntax::ast::*;

use super::{Bindings, Ty, TypeName, Typing, bind, substitute};
use crate::imports;

impl Typing<'_> {
    /// The structs that satisfy an interface, whose `home` is the other file that declares it.
    pub(super) fn satisfying(&self, interface: &InterfaceDecl, home: Option<&Rc<Unit>>) -> Vec<Name> {
        let name = &interface.name.name;
        if let Some(known) = self.declared.satisfying.borrow().get(name) {
            return known.clone();
        }
        // An interface may mention itself.
        self.declared.satisfying.borrow_mut().insert(name.clone(), Vec::new());
        let imported = self.imports.get(self.source, self.world).into_iter().flatten().map(|(name, _)| name);
        let known = self.declared.type_names().chain(imported.map(Name::as_str));
        let found: Vec<Name> =
            known.filter(|name| self.lacks(name, interface, home).is_none()).map(Name::new).collect();
        self.declared.satisfying.borrow_mut().insert(name.clone(), found.clone());
        found
    }

    /// Why a type does not satisfy an interface. Of an imported struct the names of its methods tell; what else is imported
    /// may satisfy it.
    pub(crate) fn lacks(
        &self,
        name: &str,
        interface: &InterfaceDecl,
        home: Option<&Rc<Unit>>,
    ) -> Option<String> {
        match self.name(name) {
            TypeName::Unknown => None,
            TypeName::Imported(DeclKind::Struct(_)) => {
                let is_missing = |method: &&MethodSig| {
                    !imports::gives_method(self.source, self.world, name, &method.name.name)
                };
                let mut lacking = interface.methods.iter().filter(is_missing).peekable();
                lacking.peek().is_some().then(|| missing(lacking))
            }
            TypeName::Imported(_) => None,
            TypeName::Own(_) | TypeName::Builtin | TypeName::Opaque => {
                self.satisfies(name, interface, home).err()
            }
        }
    }

    /// Returns whether a struct of the file has the methods of an interface.
    fn satisfies(
        &self,
        name: &str,
        interface: &InterfaceDecl,
        home: Option<&Rc<Unit>>,
    ) -> Result<(), String> {
        let methods = self.declared.methods(name);
        if methods.is_empty() && !interface.methods.is_empty() {
            return Err(missing(interface.methods.iter()));
        }
        let assoc = interface.assoc_types.iter().map(|assoc| &assoc.name.name);
        let mut env: Vec<(Name, Ty)> = assoc.map(|name| (name.clone(), Ty::Var(name.clone()))).collect();
        env.extend(Typing::vars(&interface.type_params));
        let mut bound = Bindings::new();
        for wanted in &interface.methods {
            let found = methods.iter().find(|method| method.name.name == wanted.name.name);
            let Some(found) = found else { return Err(format!("missing method '{}'", wanted.name.name)) };
            let mut env = env.clone();
            env.extend(wanted.type_params.iter().map(|param| (param.name.name.clone(), Ty::Any)));
            self.method(wanted, found, (&env, home), &mut bound)?;
        }
        for assoc in &interface.assoc_types {
            let Some(default) = &assoc.default else { continue };
            let default = self.resolve_at(default, &[], home);
            let got = bound.iter().find(|(name, _)| *name == assoc.name.name).map(|(_, ty)| ty);
            if let Some(got) = got.filter(|got| !self.fits(&default, got)) {
                let name = &assoc.name.name;
                return Err(format!("associated type '{name}' resolves to '{got}', expected '{default}'"));
            }
        }
        Ok(())
    }

    fn method(
        &self,
        wanted: &MethodSig,
        found: &FnDecl,
        (env, home): (&[(Name, Ty)], Option<&Rc<Unit>>),
        bound: &mut Bindings,
    ) -> Result<(), String> {
        let without_self = |params| <[Param]>::iter(params).filter(|param| param.name.name != "self");
        let name = &wanted.name.name;
        let (asked, has) = (without_self(&wanted.params).count(), without_self(&found.func.params).count());
        if asked != has {
            return Err(format!("method '{name}' has {has} parameter(s), expected {asked}"));
        }
        let own = Typing::env(&found.type_params, &[]);
        let mut one = |wanted: &TypeExpr, found: &TypeExpr| {
            let (pattern, got) = (self.resolve_at(wanted, env, home), self.resolve_with(found, &own));
            bind(&pattern, &got, bound).map_err(|conflict| {
                let (param, first, second) = (conflict.param, conflict.first, conflict.second);
                format!("type parameter '{param}' was inferred as both {first} and {second}")
            })?;
            let wanted = substitute(&pattern, bound);
            Ok::<_, String>((!self.fits(&wanted, &got)).then_some((got, wanted)))
        };
        let pairs = without_self(&wanted.params).zip(without_self(&found.func.params)).enumerate();
        for (at, (wanted, found)) in pairs {
            if let (Some(wanted), Some(found)) = (&wanted.ty, &found.ty)
                && let Some((got, wanted)) = one(wanted, found)?
            {
                let at = at + 1;
                return Err(format!("method '{name}' parameter {at} has type '{got}', expected '{wanted}'"));
            }
        }
        if let (Some(wanted), Some(found)) = (&wanted.ret, &found.func.ret)
            && let Some((got, wanted)) = one(wanted, found)?
        {
            return Err(format!("method '{name}' returns '{got}', expected '{wanted}'"));
        }
        Ok(())
    }
}

/// Lists the methods that a type lacks.
fn missing<'m>(methods: impl Iterator<Item = &'m MethodSig>) -> String {
    let names: Vec<&str> = methods.map(|method| method.name.name.as_str()).collect();
    format!("missing method(s): {}", names.join(", "))
}
