//! Generates programs for the comparison with the reference interpreter.
//!
//! They are typed, so that most operations succeed; the first letter of a variable is its type (`i` int, `s`
//! string, `l` list of ints, `d` dict of ints, `f` function from int to int, `p` struct, `e` enum value, `x`
//! error). Blocks are inserted in expressions wherever possible, with assignments and jumps in them.

use std::fmt::Write;

use crate::rng::Rng;

/// The declarations of every program.
const HEAD: &str = "struct P { x: int, y: int }
enum E { A, B(int), C(int, string) }
impl P {
  fn sum(self) { self.x + self.y }
  fn moved(self, by) { P {x: self.x + by, y: self.y} }
}
fn gen_to(n) { var i = 0
  while i < n { i += 1
    yield i } }
fn gen_with_cleanup(n, name) { try { for i in gen_to(n) { yield i * 2 } } finally { println(\"cleanup ${name}\") } }
fn gen_deferring(n) { defer { println(\"deferred ${n}\") }
  yield n
  yield n + 1 }
fn gen_wrapping(src) { for v in src { try { yield v } finally { println(\"wrapped ${v}\") } } }
fn checked(v) { if v > 5 { return try { throw \"large ${v}\" } }
  return try { v } }
";

/// Generates a program: some functions, and code that calls each one and prints its result or error.
pub(super) fn program(rng: &mut Rng) -> String {
    let mut text = HEAD.to_owned();
    let count = 1 + rng.below(3);
    for number in 0..count {
        let mut generator = Generator { rng, next: 0 };
        let body = generator.function();
        let _ = write!(text, "fn main{number}() {{\n{body}\n}}\n");
    }
    for number in 0..count {
        let _ = write!(
            text,
            "let r{number} = try {{ main{number}() }}\n\
             if is_ok(r{number}) {{ println(unwrap(r{number})) }} else {{ println(r{number}) }}\n"
        );
    }
    text
}

/// The names visible at the generated code.
#[derive(Clone, Default)]
struct Scope {
    /// The names, and whether they can be assigned.
    names: Vec<(String, bool)>,
    in_loop: bool,
    in_function: bool,
}

impl Scope {
    fn with(&self, name: &str, assignable: bool) -> Scope {
        let mut scope = self.clone();
        scope.names.push((name.to_owned(), assignable));
        scope
    }

    fn names(&self, ty: char) -> Vec<&str> {
        self.names.iter().map(|(n, _)| n.as_str()).filter(|n| n.starts_with(ty)).collect()
    }
}

struct Generator<'r> {
    rng: &'r mut Rng,
    next: usize,
}

impl Generator<'_> {
    fn fresh(&mut self, ty: char) -> String {
        self.next += 1;
        format!("{ty}{}", self.next)
    }

    fn one(&mut self, items: &[&str]) -> String {
        self.rng.pick(items).to_owned()
    }

    fn ty(&mut self, of: &str) -> char {
        let at = self.rng.below(of.len());
        of.as_bytes()[at] as char
    }

    fn function(&mut self) -> String {
        let mut scope = Scope { in_function: true, ..Scope::default() };
        for name in ["i0", "s0", "l0", "d0", "p0"] {
            scope.names.push((name.to_owned(), true));
        }
        let mut lines = vec![
            "var i0 = 1".to_owned(),
            "var s0 = \"x\"".to_owned(),
            "var l0 = [1, 2]".to_owned(),
            "var d0 = {p: 1, q: 2}".to_owned(),
            "var p0 = P {x: 3, y: 4}".to_owned(),
        ];
        for _ in 0..2 + self.rng.below(5) {
            lines.push(self.statement(&mut scope, 3));
        }
        lines.push("return \"${i0} ${s0} ${l0} ${d0} ${p0}\"".to_owned());
        lines.join("\n")
    }

    // ---- expressions ----

    fn atom(&mut self, ty: char) -> String {
        match ty {
            'i' => self.one(&["0", "1", "2", "3", "(-1)", "5", "7", "10", "100"]),
            's' => self.one(&["\"\"", "\"a\"", "\"bc\"", "\"é\""]),
            'l' => self.one(&["[]", "[4]", "[1, 2]", "[7, 0, 3]"]),
            'd' => self.one(&["{p: 1}", "{p: 5, q: 6}", "{q: 2, r: 3}"]),
            'b' => self.one(&["true", "false"]),
            'p' => self.one(&["P {x: 1, y: 2}", "P {x: 0, y: 9}"]),
            'e' => self.one(&["E.A", "E.B(1)", "E.C(2, \"c\")"]),
            _ => self.one(&["{ ia -> ia + 1 }", "{ ia -> ia * 2 }"]),
        }
    }

    /// Usually returns a variable of the type, if there is one.
    fn name(&mut self, ty: char, scope: &Scope) -> String {
        let names = scope.names(ty);
        if names.is_empty() || self.rng.chance(15) {
            return format!("({})", self.atom(ty));
        }
        names[self.rng.below(names.len())].to_owned()
    }

    fn expr(&mut self, ty: char, scope: &Scope, depth: usize) -> String {
        if depth == 0 || self.rng.chance(25) {
            return if self.rng.chance(70) { self.name(ty, scope) } else { self.atom(ty) };
        }
        if "isl".contains(ty) && self.rng.chance(22) {
            return self.block_expression(ty, scope, depth);
        }
        let d = depth - 1;
        match ty {
            'i' => self.int(scope, d),
            's' => match self.rng.below(7) {
                0..=2 => format!("({} + {})", self.expr('s', scope, d), self.expr('s', scope, d)),
                3 | 4 => {
                    let (a, b) = (self.ty("islpe"), self.ty("is"));
                    format!("\"${{{}}}-${{{}}}\"", self.expr(a, scope, d), self.expr(b, scope, d))
                }
                5 => {
                    let on = self.name('s', scope);
                    format!("{on}[{}:{}]", self.expr('i', scope, d), self.expr('i', scope, d))
                }
                _ => self.ternary('s', scope, d),
            },
            'l' => match self.rng.below(9) {
                0..=2 => format!("({} + {})", self.expr('l', scope, d), self.expr('l', scope, d)),
                3 | 4 => format!("{}.push({})", self.name('l', scope), self.expr('i', scope, d)),
                5 => {
                    let on = self.name('l', scope);
                    format!("{on}[{}:{}]", self.expr('i', scope, d), self.expr('i', scope, d))
                }
                6 => {
                    let on = self.name('l', scope);
                    format!("{on}.map({})", self.closure(&["ix"], 'i', scope, d))
                }
                7 => {
                    let on = self.name('l', scope);
                    format!("(parallel each {on} {})", self.closure(&["ix"], 'i', scope, 0))
                }
                _ => format!("[{}, {}]", self.expr('i', scope, d), self.expr('i', scope, d)),
            },
            'd' => format!("{{p: {}, q: {}}}", self.expr('i', scope, d), self.expr('i', scope, d)),
            'p' => match self.rng.below(3) {
                0 => format!("{}.moved({})", self.name('p', scope), self.expr('i', scope, d)),
                _ => format!("P {{x: {}, y: {}}}", self.expr('i', scope, d), self.expr('i', scope, d)),
            },
            'e' => match self.rng.below(3) {
                0 => "E.A".to_owned(),
                1 => format!("E.B({})", self.expr('i', scope, d)),
                _ => format!("E.C({}, {})", self.expr('i', scope, d), self.expr('s', scope, d)),
            },
            'f' => self.closure(&["ia"], 'i', scope, d),
            _ => match self.rng.below(8) {
                0..=3 => {
                    let ty = self.ty("iiis");
                    let op = self.one(&["<", "<=", ">", ">=", "==", "!="]);
                    format!("({} {op} {})", self.expr(ty, scope, d), self.expr(ty, scope, d))
                }
                4 => format!("({} && {})", self.expr('b', scope, d), self.expr('b', scope, d)),
                5 => format!("({} || {})", self.expr('b', scope, d), self.expr('b', scope, d)),
                6 => format!("({} in {})", self.expr('i', scope, d), self.name('l', scope)),
                _ => format!("(!{})", self.expr('b', scope, d)),
            },
        }
    }

    fn int(&mut self, scope: &Scope, d: usize) -> String {
        match self.rng.below(16) {
            0..=4 => {
                let op = self.one(&["+", "+", "+", "-", "-", "*", "/", "%"]);
                format!("({} {op} {})", self.expr('i', scope, d), self.expr('i', scope, d))
            }
            5 => {
                let on = self.name('l', scope);
                format!("({on}[{}] ?? {})", self.expr('i', scope, d), self.expr('i', scope, d))
            }
            6 => {
                let (on, key) = (self.name('d', scope), self.one(&["p", "q", "r"]));
                format!("({on}.{key} ?? {})", self.expr('i', scope, d))
            }
            7 => {
                let ty = self.ty("sl");
                format!("len({})", self.expr(ty, scope, d))
            }
            8 | 9 => format!("{}({})", self.name('f', scope), self.expr('i', scope, d)),
            10 => self.ternary('i', scope, d),
            11 => {
                let on = self.name('l', scope);
                let first = self.expr('i', scope, d);
                format!("{on}.reduce({first}, {})", self.closure(&["ix", "iy"], 'i', scope, d))
            }
            12 => {
                let (on, part) = (self.name('p', scope), self.one(&["x", "y", "sum()"]));
                format!("{on}.{part}")
            }
            13 => format!("await(spawn {{ {} }})", self.value_block('i', scope, d.min(1), true)),
            14 => {
                let value = self.expr('e', scope, d);
                let (a, b) = (self.fresh('i'), self.fresh('s'));
                let arm = self.expr('i', &scope.with(&a, false), d.min(1));
                format!(
                    "(match {value} {{\nE.A -> {{ 1 }}\nE.B({a}) -> {{ {arm} }}\nE.C({a}, {b}) -> {{ {a} + len({b}) }}\n}})"
                )
            }
            _ => {
                let on = self.name('l', scope);
                let (a, b) = (self.fresh('i'), self.fresh('i'));
                format!(
                    "(match {on} {{\n[{a}, 2] -> {{ {a} }}\n[{a}, {b}] if {b} > {a} -> {{ {a} + {b} }}\n_ -> {{ 0 }}\n}})"
                )
            }
        }
    }

    fn ternary(&mut self, ty: char, scope: &Scope, d: usize) -> String {
        let (cond, yes, no) = (self.expr('b', scope, d), self.expr(ty, scope, d), self.expr(ty, scope, d));
        format!("({cond} ? {yes} : {no})")
    }

    /// Generates a function value: it may assign captured variables, but not jump out of the enclosing code.
    fn closure(&mut self, params: &[&str], ty: char, scope: &Scope, d: usize) -> String {
        let mut inner = Scope { in_loop: false, in_function: true, ..scope.clone() };
        params.iter().for_each(|p| inner.names.push(((*p).to_owned(), false)));
        let body = self.value_block(ty, &inner, d, false);
        format!("{{ {} -> {body} }}", params.join(", "))
    }

    /// Generates the statements of a block with a value. The body of a task does not jump out of it.
    fn value_block(&mut self, ty: char, scope: &Scope, d: usize, task: bool) -> String {
        let mut inner = scope.clone();
        if task {
            (inner.in_loop, inner.in_function) = (false, false);
        }
        let mut lines = Vec::new();
        for _ in 0..self.rng.below(3).min(d) {
            lines.push(self.statement(&mut inner, d.saturating_sub(1)));
        }
        lines.push(format!("({})", self.expr(ty, &inner, d.saturating_sub(1))));
        lines.join("\n")
    }

    /// Generates a statement that jumps out of the enclosing code.
    fn exit(&mut self, scope: &Scope, depth: usize) -> String {
        let mut ways = vec!["throw"];
        if scope.in_loop {
            ways.extend(["break", "continue", "break", "continue"]);
        }
        if scope.in_function {
            ways.push("return");
        }
        match self.rng.pick(&ways) {
            "throw" => format!("throw {}", self.expr('s', scope, depth.min(1))),
            // Not a call: as a tail call it would run after the variables of the returning function are dropped.
            "return" => format!("return {} + 0", self.expr('i', scope, depth.min(1))),
            other => other.to_owned(),
        }
    }

    /// Generates an expression with blocks in the same function.
    fn block_expression(&mut self, ty: char, scope: &Scope, d: usize) -> String {
        match self.rng.below(10) {
            0..=3 => {
                let cond = self.expr('b', scope, d - 1);
                let mut yes = self.value_block(ty, scope, d, false);
                if self.rng.chance(35) {
                    yes = format!("{yes}\n{}", self.exit(scope, d));
                }
                let no = self.value_block(ty, scope, d - 1, false);
                format!("(if {cond} {{\n{yes}\n}} else {{\n{no}\n}})")
            }
            4 | 5 => {
                let mut body = self.value_block(ty, scope, d, false);
                if self.rng.chance(40) {
                    body = format!("if {} {{ {} }}\n{body}", self.expr('b', scope, 1), self.exit(scope, d));
                }
                let error = self.fresh('x');
                let catch = self.value_block(ty, &scope.with(&error, false), d - 1, false);
                let cleanup = if self.rng.chance(40) {
                    format!(" finally {{\n{}\n}}", self.statements(scope, d.saturating_sub(2), 1))
                } else {
                    String::new()
                };
                format!("(try {{\n{body}\n}} catch ({error}) {{\n{catch}\n}}{cleanup})")
            }
            6..=8 => {
                let value = self.expr('i', scope, d - 1);
                let mut arms = String::new();
                for _ in 0..1 + self.rng.below(3) {
                    let name = self.fresh('i');
                    let (pattern, inner) = if self.rng.chance(50) {
                        (self.rng.below(4).to_string(), scope.clone())
                    } else {
                        (name.clone(), scope.with(&name, false))
                    };
                    let guard = self.expr('b', &inner, d - 1);
                    let body = self.value_block(ty, &inner, d - 1, false);
                    let _ = write!(arms, "{pattern} if {guard} -> {{\n{body}\n}}\n");
                }
                let rest = self.value_block(ty, scope, 0, false);
                format!("(match {value} {{\n{arms}_ -> {{ {rest} }}\n}})")
            }
            _ => {
                let count = 1 + self.rng.below(3);
                format!("(retry {count} {{\n{}\n}})", self.value_block(ty, scope, d, false))
            }
        }
    }

    // ---- statements ----

    fn statements(&mut self, scope: &Scope, d: usize, count: usize) -> String {
        let mut inner = scope.clone();
        let lines: Vec<String> = (0..count).map(|_| self.statement(&mut inner, d)).collect();
        lines.join("\n")
    }

    fn block(&mut self, scope: &Scope, d: usize) -> String {
        let count = 1 + self.rng.below(3);
        let mut text = self.statements(scope, d, count);
        if self.rng.chance(15) {
            text = format!("{text}\n{}", self.exit(scope, d));
        }
        text
    }

    fn statement(&mut self, scope: &mut Scope, depth: usize) -> String {
        let d = depth.saturating_sub(1);
        let assignable: Vec<String> =
            scope.names.iter().filter(|(_, may)| *may).map(|(n, _)| n.clone()).collect();
        match self.rng.below(31) {
            0..=3 => {
                let ty = self.ty("iisldpe");
                let (name, value) = (self.fresh(ty), self.expr(ty, scope, depth));
                scope.names.push((name.clone(), ty != 'e'));
                format!("var {name} = {value}")
            }
            4 => {
                let (name, value) = (self.fresh('f'), self.closure(&["ia"], 'i', scope, depth));
                scope.names.push((name.clone(), false));
                format!("let {name} = {value}")
            }
            5 => {
                let (a, b, value) = (self.fresh('i'), self.fresh('i'), self.expr('i', scope, d));
                let text = format!("var [{a}, {b}] = [{value}, {}]", self.expr('i', scope, d));
                scope.names.extend([(a, true), (b, true)]);
                text
            }
            6..=14 if !assignable.is_empty() => {
                let at = self.rng.below(assignable.len());
                self.assignment(&assignable[at], scope, depth)
            }
            15 | 16 => {
                let ty = self.ty("islpde");
                format!("println({})", self.expr(ty, scope, depth))
            }
            _ if depth == 0 => format!("println({})", self.expr('i', scope, 0)),
            17 | 18 => {
                let (cond, yes) = (self.expr('b', scope, d), self.block(scope, d));
                let no = if self.rng.chance(50) {
                    format!(" else {{\n{}\n}}", self.block(scope, d))
                } else {
                    String::new()
                };
                format!("if {cond} {{\n{yes}\n}}{no}")
            }
            19 | 20 => {
                let name = self.fresh('i');
                let source = self.expr('l', scope, d);
                let inner = Scope { in_loop: true, ..scope.with(&name, true) };
                format!("for {name} in {source} {{\n{}\n}}", self.block(&inner, d))
            }
            21 | 22 => {
                let name = self.fresh('i');
                let count = self.rng.below(4);
                let source = match self.rng.below(5) {
                    0 => format!("gen_to({count})"),
                    1 => format!("gen_with_cleanup({count}, \"{name}\")"),
                    2 => format!("gen_deferring({count})"),
                    3 => format!("gen_wrapping(gen_with_cleanup({count}, \"{name}\"))"),
                    _ => format!("gen_wrapping(gen_deferring({count}))"),
                };
                let inner = Scope { in_loop: true, ..scope.with(&name, true) };
                format!("for {name} in {source} {{\n{}\n}}", self.block(&inner, d))
            }
            23 => {
                let (name, limit) = (self.fresh('k'), 1 + self.rng.below(4));
                let inner = Scope { in_loop: true, ..scope.clone() };
                let body = self.block(&inner, d);
                format!("var {name} = 0\nwhile {name} < {limit} {{\n{name} = {name} + 1\n{body}\n}}")
            }
            24 | 25 => {
                let error = self.fresh('x');
                let body = self.block(scope, d);
                let body =
                    if self.rng.chance(50) { format!("{body}\n{}", self.exit(scope, d)) } else { body };
                let catch = self.statements(&scope.with(&error, false), d, 1);
                let catch = format!(" catch ({error}) {{\nprintln({error})\n{catch}\n}}");
                let mut cleanup = self.statements(scope, d, 1);
                if self.rng.chance(15) {
                    cleanup = format!("{cleanup}\n{}", self.exit(scope, d));
                }
                let cleanup = format!(" finally {{\n{cleanup}\n}}");
                match self.rng.below(3) {
                    0 => format!("try {{\n{body}\n}}{catch}"),
                    1 => format!("try {{\n{body}\n}}{cleanup}"),
                    _ => format!("try {{\n{body}\n}}{catch}{cleanup}"),
                }
            }
            26 => {
                let inner = Scope { in_loop: false, in_function: false, ..scope.clone() };
                let what = self.expr('s', scope, 1);
                format!("defer {{\nprintln({what})\n{}\n}}", self.statements(&inner, d.min(1), 1))
            }
            27 => {
                let cond = self.expr('b', scope, d);
                let way = self.exit(scope, d);
                format!("guard {cond} else {{ println(\"guarded\")\n{way} }}")
            }
            28 if scope.in_function => {
                let name = self.fresh('i');
                let value = self.expr('i', scope, d);
                scope.names.push((name.clone(), true));
                format!("var {name} = checked({value})?")
            }
            // A generator that is dropped at the end of its block, regardless of how the block is left.
            29 => {
                let (name, count) = (self.fresh('g'), 1 + self.rng.below(3));
                let body = self.block(scope, d);
                format!(
                    "if {} {{\nlet {name} = gen_with_cleanup({count}, \"{name}\")\nprintln({name}.next())\n{body}\n}}",
                    self.expr('b', scope, d)
                )
            }
            _ => {
                let body = self.block(scope, d);
                if self.rng.chance(50) {
                    format!("deadline 10m {{\n{body}\n}}")
                } else {
                    format!("retry 2 {{\n{body}\n}}")
                }
            }
        }
    }

    /// Generates an assignment in the forms that the compiler optimizes.
    fn assignment(&mut self, name: &str, scope: &Scope, depth: usize) -> String {
        let d = depth.saturating_sub(1);
        let ty = name.chars().next().unwrap_or('i');
        match (ty, self.rng.below(10)) {
            ('i', 0..=2) => {
                format!("{name} {}= {}", self.one(&["+", "-", "*"]), self.expr('i', scope, depth))
            }
            ('l' | 's', 0 | 1) => format!("{name} += {}", self.expr(ty, scope, depth)),
            ('i' | 'l' | 's', 3 | 4) => {
                let mut text = format!("{name} = {name} + {}", self.expr(ty, scope, d));
                for _ in 0..self.rng.below(3) {
                    let _ = write!(text, " + {}", self.expr(ty, scope, d));
                }
                text
            }
            ('l', 5 | 6) => format!("{name} = {name}.push({})", self.expr('i', scope, depth)),
            ('l', 7) => format!("{name}[{}] = {}", self.expr('i', scope, d), self.expr('i', scope, depth)),
            ('l', 8) => {
                format!("{name}[0] {}= {}", self.one(&["+", "-", "*"]), self.expr('i', scope, depth))
            }
            ('d', 0..=2) => {
                format!("{name}.{} = {}", self.one(&["p", "q", "r"]), self.expr('i', scope, depth))
            }
            ('p', 0..=3) => {
                let (field, op) = (self.one(&["x", "y"]), self.one(&["=", "+=", "-="]));
                format!("{name}.{field} {op} {}", self.expr('i', scope, depth))
            }
            ('p', 4..=6) => format!("{name} = {name}.moved({})", self.expr('i', scope, depth)),
            _ => format!("{name} = {}", self.expr(ty, scope, depth)),
        }
    }
}
