//! Generates random well-formed programs and templates. Every program must parse, and running it must end in a
//! value or an error, never in a panic. Loops are short and calls only refer to previously generated functions, so
//! that most programs terminate.

use crate::rng::Rng;

/// Generates a random program.
pub(crate) fn program(rng: &mut Rng) -> String {
    let mut writer = Writer {
        rng,
        out: String::new(),
        indent: 0,
        scopes: vec![Vec::new()],
        functions: Vec::new(),
        next: 0,
    };
    writer.program();
    writer.out
}

/// Generates a random template.
pub(crate) fn template(rng: &mut Rng) -> String {
    const VALUES: &[&str] = &[
        "name",
        "n",
        "xs",
        "xs[0]",
        "user.tags",
        "user.tags[-1]",
        "missing",
        "\"text\"",
        "3",
        "1.5",
        "nil",
        "true",
        "loop.index",
        "x",
        "name | upper",
        "xs | join: \", \"",
        "missing | default: \"d\"",
        "n > 2 and not missing",
    ];
    let mut out = String::new();
    let mut open = 0;
    for _ in 0..rng.below(14) {
        match rng.below(8) {
            0 | 1 => out.push_str(rng.pick(&["Hello ", "\n", "  text\n", "{ not a directive }", "é"])),
            2 => out.push_str(&format!("{{{{ {} }}}}", rng.pick(VALUES))),
            3 => out.push_str(&format!("{{{{- {} -}}}}", rng.pick(VALUES))),
            4 => {
                open += 1;
                out.push_str(&format!("{{{{ if {} }}}}", rng.pick(VALUES)));
            }
            5 => {
                open += 1;
                out.push_str(&format!("{{{{ for x in {} }}}}", rng.pick(VALUES)));
            }
            6 if open > 0 => out.push_str("{{ else }}"),
            _ if open > 0 => {
                open -= 1;
                out.push_str("{{ end }}");
            }
            _ => out.push_str("{{# a comment #}}"),
        }
    }
    out.push_str(&"{{ end }}".repeat(open));
    out
}

/// Members that exist on some type; applied to values of any type.
const METHODS: &[&str] = &[
    "len",
    "count",
    "empty",
    "first",
    "last",
    "reverse",
    "sort",
    "unique",
    "compact",
    "flatten",
    "enumerate",
    "keys",
    "values",
    "entries",
    "chars",
    "lines",
    "trim",
    "upper",
    "lower",
    "to_string",
    "to_list",
    "iter",
    "sum",
    "min",
    "max",
    "tally",
    "pop",
    "next",
    "to_set",
    "area",
    "moved",
];

/// Methods with one value argument.
const METHODS_VALUE: &[&str] = &[
    "contains",
    "index_of",
    "push",
    "take",
    "skip",
    "join",
    "split",
    "repeat",
    "starts_with",
    "chunk",
    "window",
    "has",
    "get",
    "merge",
    "remove",
    "add",
    "union",
    "difference",
    "zip",
    "chain",
    "slice",
    "char_at",
    "pad_left",
    "chunks",
    "windows",
];

/// Methods with one function argument.
const METHODS_FUNCTION: &[&str] = &[
    "map",
    "filter",
    "flat_map",
    "find",
    "find_index",
    "any",
    "all",
    "none",
    "sort_by",
    "min_by",
    "max_by",
    "partition",
    "group_by",
    "map_values",
    "map_keys",
    "take_while",
    "skip_while",
    "for_each",
];

/// Builtins without external effects, with their number of arguments.
const BUILTINS: &[(&str, usize)] = &[
    ("len", 1),
    ("type_of", 1),
    ("to_string", 1),
    ("to_int", 1),
    ("to_float", 1),
    ("json_stringify", 1),
    ("json_parse", 1),
    ("keys", 1),
    ("values", 1),
    ("iter", 1),
    ("pair", 2),
    ("range", 1),
    ("set", 2),
    ("abs", 1),
    ("floor", 1),
    ("min", 2),
    ("max", 2),
    ("split", 2),
    ("replace", 3),
    ("contains", 2),
    ("Ok", 1),
    ("Err", 1),
    ("is_ok", 1),
    ("unwrap_or", 2),
    ("assert_eq", 2),
    ("join", 2),
    ("uppercase", 1),
    ("trim", 1),
    ("substring", 3),
];

const BINARY: &[&str] =
    &["+", "-", "*", "/", "%", "**", "==", "!=", "<", ">", "<=", ">=", "&&", "||", "??", "in", "not in"];

struct Writer<'r> {
    rng: &'r mut Rng,
    out: String,
    indent: usize,
    /// Visible names, and whether they can be assigned.
    scopes: Vec<Vec<(String, bool)>>,
    /// Names of callable functions.
    functions: Vec<String>,
    /// Number of the next fresh name.
    next: usize,
}

impl Writer<'_> {
    fn program(&mut self) {
        self.line("enum Shape { Dot, Circle(r), Rect(w, h) }");
        self.line("struct Point { x, y }");
        self.line("impl Point {");
        self.line("  fn area(self) { self.x * self.y }");
        self.line("  fn moved(self, by = 1) { Point {x: self.x + by, y: self.y} }");
        self.line("}");
        for _ in 0..self.rng.below(4) {
            self.function();
        }
        if self.rng.chance(40) {
            self.line("pipeline default(task) {");
            self.body(3, &[]);
            self.line("}");
        } else {
            for _ in 0..=self.rng.below(8) {
                self.statement(3, false);
            }
        }
    }

    fn line(&mut self, text: &str) {
        for _ in 0..self.indent {
            self.out.push_str("  ");
        }
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn fresh(&mut self) -> String {
        self.next += 1;
        format!("v{}", self.next)
    }

    fn declare(&mut self, name: &str, assignable: bool) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.push((name.to_owned(), assignable));
        }
    }

    fn name(&mut self, assignable: bool) -> Option<String> {
        let names: Vec<&String> =
            self.scopes.iter().flatten().filter(|(_, a)| *a || !assignable).map(|(n, _)| n).collect();
        let at = self.rng.below(names.len());
        names.get(at).map(|name| (*name).clone())
    }

    fn function(&mut self) {
        let name = format!("f{}", self.functions.len());
        let outer = std::mem::replace(&mut self.scopes, vec![Vec::new()]);
        let generator = self.rng.chance(15);
        let header = match self.rng.below(4) {
            0 => format!("fn {name}(a) {{"),
            1 => format!("fn {name}(a, b = 2) {{"),
            2 => format!("fn {name}(a, b = a, ...c) {{"),
            _ => format!("fn {name}(a: int, b) {{"),
        };
        self.line(&header);
        if generator {
            let first = self.expr(2);
            self.indent += 1;
            self.line(&format!("yield {first}"));
            self.indent -= 1;
        }
        self.body(2, &["a"]);
        self.line("}");
        self.scopes = outer;
        self.functions.push(name);
    }

    /// Generates the statements of a block with its own scope.
    fn body(&mut self, depth: usize, names: &[&str]) {
        self.scopes.push(names.iter().map(|n| ((*n).to_owned(), false)).collect());
        self.indent += 1;
        for _ in 0..=self.rng.below(4) {
            self.statement(depth, false);
        }
        let last = self.expr(depth);
        self.line(&format!("({last})"));
        self.indent -= 1;
        self.scopes.pop();
    }

    fn block(&mut self, header: &str, depth: usize, in_loop: bool, names: &[&str]) {
        self.line(&format!("{header} {{"));
        self.scopes.push(names.iter().map(|n| ((*n).to_owned(), false)).collect());
        self.indent += 1;
        for _ in 0..=self.rng.below(3) {
            self.statement(depth, in_loop);
        }
        self.indent -= 1;
        self.scopes.pop();
        self.line("}");
    }

    fn statement(&mut self, depth: usize, in_loop: bool) {
        if depth == 0 {
            let value = self.expr(1);
            return self.line(&format!("println({value})"));
        }
        let d = depth - 1;
        match self.rng.below(24) {
            0..=3 => {
                let value = self.caught(depth);
                let name = self.fresh();
                let assignable = self.rng.chance(60);
                self.line(&format!("{} {name} = {value}", if assignable { "var" } else { "let" }));
                self.declare(&name, assignable);
            }
            4..=7 => match self.name(true) {
                Some(name) => self.assignment(&name, depth),
                None => self.statement(d, in_loop),
            },
            8 => {
                let end = self.rng.below(6);
                let name = self.fresh();
                self.block(&format!("for {name} in 0 to {end}"), d, true, &[name.as_str()]);
            }
            9 => {
                let value = self.expr(d);
                let name = self.fresh();
                // An infinite iterable would make the program run forever.
                self.block(&format!("for {name} in [{value}, 1, \"ab\"]"), d, true, &[name.as_str()]);
            }
            10 => {
                let (count, limit) = (self.fresh(), self.rng.below(5));
                self.line(&format!("var {count} = 0"));
                self.line(&format!("while {count} < {limit} {{"));
                self.indent += 1;
                self.line(&format!("{count} += 1"));
                self.scopes.push(Vec::new());
                for _ in 0..=self.rng.below(2) {
                    self.statement(d, true);
                }
                self.scopes.pop();
                self.indent -= 1;
                self.line("}");
            }
            11 => {
                let condition = self.expr(d);
                self.block(&format!("if {condition}"), d, in_loop, &[]);
            }
            12 => {
                self.line("try {");
                self.indent += 1;
                self.statement(d, in_loop);
                self.indent -= 1;
                self.line("} catch (e) {");
                self.indent += 1;
                self.scopes.push(vec![("e".to_owned(), false)]);
                self.statement(d, in_loop);
                self.scopes.pop();
                self.indent -= 1;
                if self.rng.chance(40) {
                    self.line("} finally {");
                    self.line("  println(\"finally\")");
                }
                self.line("}");
            }
            13 => {
                let value = self.expr(d);
                let (a, b) = (self.fresh(), self.fresh());
                if self.rng.chance(50) {
                    self.line(&format!("var [{a}, {b} = 7, ...rest{}] = {value}", self.next));
                } else {
                    self.line(&format!("var {{x: {a}, y: {b} = 7}} = {value}"));
                }
                self.declare(&a, true);
                self.declare(&b, true);
            }
            14 => self.block("defer", d.min(1), false, &[]),
            15 => {
                let condition = self.expr(d);
                self.line(&format!("require {condition}, \"required\""));
            }
            16 if in_loop => self.line("if true { continue }"),
            17 if in_loop => self.line("if 1 in [1] { break }"),
            18 if self.rng.chance(20) => {
                let value = self.expr(d);
                self.line(&format!("throw {value}"));
            }
            19 => {
                let (body, call) = (self.expr(d), self.fresh());
                self.line(&format!("let {call} = spawn {{ {body} }}"));
                self.line(&format!("println(await({call}))"));
            }
            20 => {
                let body = self.expr(d);
                let kind =
                    self.rng.pick(&["parallel 3", "parallel each [1, 2, 3]", "parallel settle [1, 2]"]);
                self.line(&format!("println({kind} {{ i -> {body} }})"));
            }
            21 => self.block("deadline 100ms", d, false, &[]),
            22 => self.block("retry 2", d, false, &[]),
            _ => {
                let value = self.caught(depth);
                self.line(&format!("println({value})"));
            }
        }
    }

    /// Generates an expression whose error usually does not end the program: most random expressions fail.
    fn caught(&mut self, depth: usize) -> String {
        let value = self.expr(depth);
        if self.rng.chance(70) { format!("try {{ {value} }} catch (e) {{ e }}") } else { value }
    }

    fn assignment(&mut self, name: &str, depth: usize) {
        let value = self.expr(depth);
        let target = match self.rng.below(6) {
            0 => format!("{name}[{}]", self.expr(1)),
            1 => format!("{name}.x"),
            2 => format!("{name}.x[0]"),
            _ => name.to_owned(),
        };
        let op = self.rng.pick(&["=", "=", "=", "+=", "-=", "*=", "%="]);
        // A value that contains itself would double with every loop iteration; this bounds its size.
        let value = if value.contains(name) { format!("len(to_string({value}))") } else { value };
        self.line(&format!("{target} {op} {value}"));
    }

    fn expr(&mut self, depth: usize) -> String {
        if depth == 0 || self.rng.chance(15) {
            return self.atom();
        }
        let d = depth - 1;
        match self.rng.below(26) {
            0..=3 => {
                let (left, right) = (self.expr(d), self.expr(d));
                format!("({left} {} {right})", self.rng.pick(BINARY))
            }
            4 => format!("[{}, {}]", self.expr(d), self.expr(d)),
            5 => format!("{{x: {}, y: {}}}", self.expr(d), self.expr(d)),
            6 => format!("Point {{x: {}, y: {}}}", self.expr(d), self.expr(d)),
            7 => match self.rng.below(3) {
                0 => "Shape.Dot".to_owned(),
                1 => format!("Shape.Circle({})", self.expr(d)),
                _ => format!("Shape.Rect({}, {})", self.expr(d), self.expr(d)),
            },
            8 => format!("({} ? {} : {})", self.expr(d), self.expr(d), self.expr(d)),
            9 => format!("({})[{}]", self.expr(d), self.expr(d)),
            10 => format!("({})[{}:{}]", self.expr(d), self.expr(d), self.expr(d)),
            11 => format!("({}).{}()", self.expr(d), self.rng.pick(METHODS)),
            12 => format!("({}).{}({})", self.expr(d), self.rng.pick(METHODS_VALUE), self.expr(d)),
            13 => {
                let (on, closure) = (self.expr(d), self.closure(d));
                format!("({on}).{}({closure})", self.rng.pick(METHODS_FUNCTION))
            }
            14 => {
                let (on, first) = (self.expr(d), self.expr(d));
                format!("({on}).reduce({first}, {{ acc, x -> acc }})")
            }
            15 => format!("({})?.x", self.expr(d)),
            16 => format!("\"${{{}}} and ${{{}}}\"", self.expr(d), self.expr(d)),
            17 => {
                let at = self.rng.below(BUILTINS.len());
                let (name, count) = BUILTINS[at];
                let args: Vec<String> = (0..count).map(|_| self.expr(d)).collect();
                format!("{name}({})", args.join(", "))
            }
            18 if !self.functions.is_empty() => {
                let at = self.rng.below(self.functions.len());
                let name = self.functions[at].clone();
                format!("{name}({}, {})", self.expr(d), self.expr(d))
            }
            19 => format!("({} |> {})", self.expr(d), self.closure(d)),
            20 => {
                let (on, dot, rect, other) = (self.expr(d), self.expr(d), self.expr(d), self.expr(d));
                format!(
                    "(match {on} {{ Shape.Dot -> {{ {dot} }} Shape.Rect(w, h) if w -> {{ {rect} }} [1, a] -> {{ a }} \
                     {{x: b}} -> {{ b }} 1 | 2 -> {{ 12 }} _ -> {{ {other} }} }})"
                )
            }
            21 => format!("(if {} {{ {} }} else {{ {} }})", self.expr(d), self.expr(d), self.expr(d)),
            22 => format!("(try {{ {} }})", self.expr(d)),
            23 => format!("({})({})", self.closure(d), self.expr(d)),
            24 => format!("(-{})", self.expr(d)),
            _ => format!("(!{})", self.expr(d)),
        }
    }

    fn closure(&mut self, depth: usize) -> String {
        let name = self.fresh();
        self.scopes.push(vec![(name.clone(), false)]);
        let body = self.expr(depth);
        self.scopes.pop();
        if self.rng.chance(30) {
            format!("fn({name}) {{ return {body} }}")
        } else {
            format!("{{ {name} -> {body} }}")
        }
    }

    fn atom(&mut self) -> String {
        match self.rng.below(14) {
            0..=4 => self.name(false).unwrap_or_else(|| "1".to_owned()),
            5 | 6 => self.rng.below(12).to_string(),
            7 => self.rng.pick(&["1.5", "0.0", "2e300", "9223372036854775807", "-1", "0x1F"]).to_owned(),
            8 => self.rng.pick(&["\"\"", "\"abc\"", "\"a,b\"", "\"é🎉\"", "r\"\\d+\"", "\"5\""]).to_owned(),
            9 => self.rng.pick(&["nil", "true", "false"]).to_owned(),
            10 => self.rng.pick(&["[]", "{}", "[1, 2, 3]", "{x: 1, y: [1]}", "set(1, 2)"]).to_owned(),
            11 => self.rng.pick(&["(1 to 5)", "(0 to 3 exclusive)", "250ms", "pair(1, \"b\")"]).to_owned(),
            12 => self.rng.pick(&["to_string", "{ x -> x }", "{ -> 1 }"]).to_owned(),
            _ => self.rng.below(1000).to_string(),
        }
    }
}
