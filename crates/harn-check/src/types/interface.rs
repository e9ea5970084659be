//! Which structs satisfy an interface (types guide, "Interfaces").

use harn_syntax::ast::*;

use super::{Bindings, Ty, Typing, bind, substitute};

impl Typing<'_> {
    /// The structs that satisfy an interface: those of the file that have its methods, and all imported ones, as what
    /// they can do is not known here.
    pub(super) fn satisfying(&self, interface: &InterfaceDecl) -> Vec<Name> {
        let name = &interface.name.name;
        if let Some(known) = self.declared.satisfying.borrow().get(name) {
            return known.clone();
        }
        // An interface may name itself.
        self.declared.satisfying.borrow_mut().insert(name.clone(), Vec::new());
        let imported = self.imports.get(self.source, self.world).into_iter().flatten().map(|(name, _)| name);
        let own = self.declared.type_names().filter(|name| self.satisfies(name, interface).is_ok());
        let found: Vec<Name> = own.chain(imported.map(Name::as_str)).map(Name::new).collect();
        self.declared.satisfying.borrow_mut().insert(name.clone(), found.clone());
        found
    }

    /// Whether a struct of the file has the methods of an interface.
    ///
    /// # Errors
    /// Why it does not.
    pub(crate) fn satisfies(&self, name: &str, interface: &InterfaceDecl) -> Result<(), String> {
        let methods = self.declared.methods(name);
        if methods.is_empty() && !interface.methods.is_empty() {
            let names: Vec<&str> = interface.methods.iter().map(|method| method.name.name.as_str()).collect();
            return Err(format!("missing method(s): {}", names.join(", ")));
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
            self.method(wanted, found, &env, &mut bound)?;
        }
        for assoc in &interface.assoc_types {
            let Some(default) = &assoc.default else { continue };
            let default = self.resolve(default);
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
        env: &[(Name, Ty)],
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
            let (pattern, got) = (self.resolve_with(wanted, env), self.resolve_with(found, &own));
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
