//! Static analysis of a template: the names that it takes from its bindings, and the templates that it includes.
//! Used by `harn check`.

use std::rc::Rc;

use harn_value::Str;
use rustc_hash::FxHashMap;

use crate::expr::{Expr, Name};
use crate::loader::{Caller, Loader, Origin};
use crate::program::{Include, Op};
use crate::template::Template;

/// A name that a template takes from its bindings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeName {
    /// The name.
    pub name: String,
    /// The template that uses it.
    pub template_uri: Rc<str>,
    /// Line of the first directive that uses it, 1-based.
    pub line: u32,
    /// Column of that directive in characters, 1-based.
    pub col: u32,
    /// Whether every use is `{{ name }}`, which is copied to the output if the name is unbound.
    pub bare: bool,
}

/// The names that a template and its includes take from the bindings of `render`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeNames {
    /// The names in source order; those of an included template are at the position of the include. Excludes `llm`,
    /// which the runtime binds.
    pub names: Vec<FreeName>,
    /// Whether the names are complete: false if an include has a computed path or could not be read.
    pub complete: bool,
}

/// An `include` directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncludeSite {
    /// The path, if it is a string literal.
    pub path: Option<String>,
    /// Line of the directive, 1-based.
    pub line: u32,
    /// Column of the directive in characters, 1-based.
    pub col: u32,
    /// Byte range of the directive.
    pub span: std::ops::Range<usize>,
}

fn literal_path(include: &Include) -> Option<&str> {
    match &include.path {
        Expr::Literal(value) => value.as_str().map(Str::as_str),
        _ => None,
    }
}

impl Template {
    /// Returns the includes, in order.
    pub fn includes(&self) -> Vec<IncludeSite> {
        let site = |include: &Include| {
            let (line, col) = self.position(include.site.start as usize);
            let span = include.site.start as usize..include.site.end as usize;
            IncludeSite { path: literal_path(include).map(str::to_owned), line, col, span }
        };
        self.program.includes.iter().map(site).collect()
    }

    /// Returns the names that this template, and the templates it includes through `loader`, take from the
    /// bindings.
    pub fn free_names(&self, loader: &dyn Loader) -> FreeNames {
        let mut analysis = Analysis { loader, entry: &self.origin, known: FxHashMap::default() };
        analysis.known.insert(
            loader.identity(&self.origin).unwrap_or_default(),
            Rc::new(FreeNames { names: vec![], complete: true }),
        );
        analysis.names(self)
    }

    /// Collects the free names of one expression.
    fn collect(&self, expr: &Expr, at: u32, found: &mut Vec<(String, u32, bool)>) {
        expr.walk(&mut |expr| {
            if let Expr::Path(path) = expr
                && let Name::Free(free) = path.root
            {
                found.push((self.program.free[free as usize].to_string(), at, false));
            }
        });
    }
}

struct Analysis<'a> {
    loader: &'a dyn Loader,
    entry: &'a Origin,
    /// Results by identity. A template under analysis is entered without names, which terminates include cycles.
    known: FxHashMap<String, Rc<FreeNames>>,
}

impl Analysis<'_> {
    fn names(&mut self, template: &Template) -> FreeNames {
        let mut result = FreeNames { names: Vec::new(), complete: true };
        let program = &template.program;
        for op in &program.ops {
            let mut found = Vec::new();
            match *op {
                Op::Write(i) => {
                    let write = &program.writes[i as usize];
                    template.collect(&write.expr, write.site.start, &mut found);
                }
                // The opening braces precede their content.
                Op::Bare { free, start, .. } => {
                    let open = template.source[..start as usize].rfind("{{").unwrap_or_default();
                    found.push((program.free[free as usize].to_string(), open as u32, true));
                }
                Op::Test { test, .. } => {
                    let test = &program.tests[test as usize];
                    template.collect(&test.expr, test.site.start, &mut found);
                }
                Op::For { info, .. } => {
                    let info = &program.loops[info as usize];
                    template.collect(&info.iterable, info.site.start, &mut found);
                }
                Op::SectionEnd(i) => {
                    let section = &program.sections[i as usize];
                    if let Some(argument) = &section.argument {
                        template.collect(argument, section.site.start, &mut found);
                    }
                }
                Op::Include(i) => {
                    let include = &program.includes[i as usize];
                    template.collect(&include.path, include.site.start, &mut found);
                    for (_, value) in &include.with {
                        template.collect(value, include.site.start, &mut found);
                    }
                    self.add_included(template, include, &mut result);
                }
                _ => {}
            }
            for (name, at, bare) in found {
                let (line, col) = template.position(at as usize);
                add(
                    &mut result.names,
                    FreeName { name, template_uri: Rc::clone(&template.uri), line, col, bare },
                );
            }
        }
        result
    }

    fn add_included(&mut self, template: &Template, include: &Include, result: &mut FreeNames) {
        let Some(inner) = literal_path(include).and_then(|path| self.included(template, path)) else {
            result.complete = false;
            return;
        };
        result.complete &= inner.complete;
        let bound = |name: &str| {
            let with = include.with.iter().map(|(key, _)| key);
            let variables = include.scope.iter().map(|(variable, _)| variable);
            with.chain(variables).any(|known| *known == name)
        };
        for name in inner.names.iter().filter(|name| !bound(&name.name)) {
            add(&mut result.names, name.clone());
        }
    }

    fn included(&mut self, parent: &Template, path: &str) -> Option<Rc<FreeNames>> {
        let caller = Caller::Include { parent: &parent.origin, entry: self.entry };
        let loaded = self.loader.load(path, caller).ok()?;
        if let Some(known) = self.known.get(&loaded.identity) {
            return Some(Rc::clone(known));
        }
        let template = Template::parse(loaded.origin, loaded.text).ok()?;
        self.known.insert(loaded.identity.clone(), Rc::new(FreeNames { names: vec![], complete: true }));
        // A chain of includes can be as long as there are files.
        let names = stacker::maybe_grow(64 * 1024, 1024 * 1024, || Rc::new(self.names(&template)));
        self.known.insert(loaded.identity, Rc::clone(&names));
        Some(names)
    }
}

/// Adds a name, unless the same template has already used it.
fn add(names: &mut Vec<FreeName>, name: FreeName) {
    if name.name == "llm" {
        return;
    }
    match names.iter_mut().find(|other| other.name == name.name && other.template_uri == name.template_uri) {
        Some(other) => other.bare &= name.bare,
        None => names.push(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AssetLoader;

    fn names(text: &str) -> (Vec<String>, bool) {
        let assets = |path: &str| match path {
            "a.prompt" => Some("{{ item }} {{ inner.x }} {{ include \"b.prompt\" }}"),
            "b.prompt" => Some("{{ deep }}{{ include \"a.prompt\" }}"),
            _ => None,
        };
        let found = Template::inline(text).unwrap().free_names(&AssetLoader(assets));
        let shown = found.names.iter().map(|n| {
            format!("{}{}@{}:{}:{}", n.name, if n.bare { "?" } else { "" }, n.template_uri, n.line, n.col)
        });
        (shown.collect(), found.complete)
    }

    #[test]
    fn loop_variables_and_llm_are_not_free() {
        let text = "{{ a }}\n{{ for x in xs | default: ys }}{{ x }}{{ loop.index }}{{ k }}{{ end }}{{ x }}{{ if llm.model }}{{ end }}";
        assert_eq!(
            names(text),
            (
                vec![
                    "a?@:1:1".into(),
                    "xs@:2:1".into(),
                    "ys@:2:1".into(),
                    "k?@:2:55".into(),
                    "x?@:2:71".into()
                ],
                true
            )
        );
    }

    #[test]
    fn includes_are_followed_and_their_bindings_subtracted() {
        let text = "{{ for item in xs }}{{ include \"std/a.prompt\" with { inner: y } }}{{ end }}";
        assert_eq!(
            names(text),
            (vec!["xs@:1:1".into(), "deep?@std://b.prompt:1:1".into(), "y@:1:21".into()], true)
        );
        assert_eq!(names("{{ include p }}"), (vec!["p@:1:1".into()], false));
        assert!(!names("{{ include \"std/none.prompt\" }}").1);
    }

    #[test]
    fn section_arguments_count() {
        assert_eq!(names("{{ section \"tools\" tools=ts other=zs }}{{ endsection }}").0, ["ts@:1:1"]);
    }
}
