//! Forms of single languages, with what stands for them. They are asked before those that several languages share.

use regex::Captures;

use super::form::{
    Mend::{self, By, With},
    Table,
};

/// The table: pattern, replacement, and what to say.
pub(super) const FORMS: Table = &[
    // Python.
    (
        r"^\s*(?:import|from)\s+(?:json|os|sys|re|time|math|random|requests|datetime|subprocess|asyncio|logging|collections|typing|pathlib|itertools|functools|csv)\b.*",
        Mend::None,
        "nothing is to be imported for this: `json_parse`, `read_file`, `env`, `regex_match`, `http_get`, `sqrt`, `sleep` and \
         the rest of `harn explain` are there",
    ),
    (
        r"^\s*if\s+__name__\s*==.*",
        Mend::None,
        "a script runs from its first line; what must not run when the file is imported stands in `pipeline default(task) { ... }`",
    ),
    (
        r#"[(,]\s*(?:sep|end)\s*=\s*"[^"]*""#,
        Mend::None,
        "`println(a, b)` puts a blank between its arguments; another sign: `println([a, b].join(\", \"))`; no new line: `print(a)`",
    ),
    (
        r"\b(max|min)\(\s*(\w+)\s*,\s*key\s*=\s*lambda\s+(\w+)\s*:\s*(.+)\)",
        By("$2.${1}_by({ $3 -> $4 })"),
        "by a key the list has a method",
    ),
    (
        r"\b(max|min)\(\s*(\w+)\s*,\s*key\s*=\s*(\w+)\s*\)",
        By("$2.${1}_by($3)"),
        "by a key the list has a method",
    ),
    (
        r"\bsorted\(\s*([\w.]+)\s*,\s*key\s*=\s*lambda\s+(\w+)\s*:\s*(.+?)\s*,\s*reverse\s*=\s*True\s*\)",
        By("$1.sort_by({ $2 -> $3 }).reverse()"),
        "a sorted copy is made by a method of the list",
    ),
    (
        r"\bsorted\(\s*([\w.]+)\s*,\s*key\s*=\s*lambda\s+(\w+)\s*:\s*(.+)\)",
        By("$1.sort_by({ $2 -> $3 })"),
        "a sorted copy is made by a method of the list",
    ),
    (
        r"\bsorted\(\s*([\w.]+)\s*,\s*reverse\s*=\s*True\s*\)",
        By("$1.sort().reverse()"),
        "a sorted copy is made by a method of the list",
    ),
    (
        r"^(\s*)(\w+)\.sort\(\s*key\s*=\s*lambda\s+(\w+)\s*:\s*(.+)\)",
        By("${1}$2 = $2.sort_by({ $3 -> $4 })"),
        "methods give a new list",
    ),
    (
        r#"("[^"]*%[sdrf.0-9][^"]*")\s*%\s*.+$"#,
        Mend::None,
        "values stand in the text: `\"... ${value}\"`; digits behind the point: `fixed(n, 2)`",
    ),
    (
        r"\{\s*([^:{}]+?)\s+for\s+(\w+)\s+in\s+([^{}]+?)\s+if\s+([^{}]+?)\s*\}",
        By("set($3.filter({ $2 -> $4 }).map({ $2 -> $1 }))"),
        "a set is made from a list",
    ),
    (
        r"\{\s*([^:{}]+?)\s+for\s+(\w+)\s+in\s+([^{}]+?)\s*\}",
        By("set($3.map({ $2 -> $1 }))"),
        "a set is made from a list",
    ),
    (
        r"^(\s*)([a-z_]\w*)\s*=\s*([a-z_]\w*)\s*=\s*([^=\s].*)$",
        By("${1}let $2 = $4; let $3 = $4"),
        "an assignment has no value: each name gets its own",
    ),
    (
        r"^(\s*)del\s+(\w+)\[([^\[\]]+)\]\s*$",
        By("${1}$2 = $2.remove($3)"),
        "a dict without a key is given by its method `remove`",
    ),
    (
        r"^\s*parameters\s*\{.*",
        Mend::None,
        "the parameters of a tool stand behind its name: `tool read_note(path: string) { ... }`",
    ),
    (
        r"\bparallel\s+for\s+(\w+)\s+in\s+([^{]+?)\s*\{",
        By("parallel each $2 { $1 ->"),
        "the name of an item stands in the block",
    ),
    (
        r"\b(parallel\b[^{]*?)\s+max_concurrent\s*[:=]?\s*(\w+)\s*\{",
        By("$1 with {max_concurrent: $2} {"),
        "how many run at once stands behind `with`",
    ),
    (
        r"\b(?:def|func|fun|function|sub)\s+(\w+)\s*\(([^)]*)\)\s*(?:->\s*[\w\[\]]+\s*)?:\s*(\S.*)$",
        By("fn $1($2) { $3 }"),
        "a function is declared with `fn`, its body stands in braces",
    ),
    (r"\bif\s+(.+?)\s+then\s+(.+?)\s+end\b", By("if $1 { $2 }"), "a block stands in braces"),
    (
        r"\bwhile\s+(.+?)\s+do\s+(.+?)\s+end\b",
        By("while $1 { $2 }"),
        "a loop is written `while condition { ... }`, without `do`",
    ),
    (r"\}\s*,\s*([^\s{},]+)\s*(=>|->)", By("} $1 $2"), "the arms of `match` stand without commas"),
    // JavaScript.
    (
        r#"^(\s*)(?:const|let|var)\s+(\{[^}]*\})\s*=\s*require\(\s*["']([^"']+)["']\s*\)"#,
        By("${1}import $2 from \"$3\""),
        "other files are brought in with `import`",
    ),
    (
        r#"^(\s*)(?:const|let|var)\s+(\w+)\s*=\s*require\(\s*["']([^"']+)["']\s*\)"#,
        By("${1}import { $2 } from \"$3\""),
        "other files are brought in with `import`",
    ),
    (
        r"^(\s*)export\s+(?:const|let|var)\s+(\w+)\s*=\s*(.+?)\s*;?\s*$",
        By("${1}pub fn $2() { $3 }"),
        "functions and types are exported, marked with `pub`; a value by a function",
    ),
    (
        r"(^|[(,=:\s])\(\s*([\w, ]*?)\s*\)\s*=>\s*\{\s*(.*?)\s*\}",
        By("$1{ $2 -> $3 }"),
        "a closure is written in braces, with `->`",
    ),
    (
        r"\bnew\s+Date\(\s*\)",
        By("date_now()"),
        "the time is `date_now()` as a dict, `now_ms()` in milliseconds",
    ),
    (r"\bnew\s+(?:Map|Object)\(\s*\)", By("{}"), "a dict is written in braces"),
    (r"\bnew\s+Set\(\s*([^()]*)\)", By("set($1)"), "a set is made with `set`"),
    (r"\bnew\s+Array\(\s*\)", By("[]"), "a list is written in brackets"),
    (
        r"\bnew\s+Promise\b.*",
        Mend::None,
        "a call waits by itself; a task is started with `spawn { ... }`, its result is `await(task)`",
    ),
    (r"\bvoid\s+0\b", By("nil"), "nothing is `nil`"),
    (
        r"(^|;|=|\breturn)(\s*)await\s+([\w.]+\(.*\))",
        By("$1$2$3"),
        "a call waits by itself; `await(task)` is for what `spawn` started",
    ),
    (
        r"(^|;)(\s*)delete\s+(\w+)\.(\w+)",
        By("$1$2$3 = $3.remove(\"$4\")"),
        "a dict without a key is given by its method `remove`",
    ),
    (
        r"(^|;)(\s*)delete\s+(\w+)\[([^\[\]]+)\]",
        By("$1$2$3 = $3.remove($4)"),
        "a dict without a key is given by its method `remove`",
    ),
    // Go.
    (
        r"\bfunc\s*\(\s*(\w+)\s+\*?(\w+)\s*\)\s*(\w+)\s*\(([^)]*)\)\s*([\w.*\[\]]*)\s*\{",
        With(method_of_go),
        "methods stand in `impl`, and get their value as `self`",
    ),
    (r"^(\s*)var\s+(\w+)\s+(\w+)\s*$", With(zero), "a variable begins with a value"),
    (
        r"\bvar\s+\w+\s+sync\.\w+",
        Mend::None,
        "`parallel` waits for all its tasks, and they share nothing; a section for one at a time is `mutex { ... }`",
    ),
    (r"\bif\s+(\w+)\s*:=\s*([^;{]+);\s*", By("let $1 = $2; if "), "a name is made by a statement of its own"),
    (
        r"\bfor\s+(\w+)\s*:=\s*range\s+(\d+)",
        By("for $1 in 0 to $2 exclusive"),
        "a loop counts through a range",
    ),
    (
        r"\bfor\s+(\w+)\s*:=\s*range\s+(\w+)",
        By("for ($1, _) in $2.iter().enumerate()"),
        "index and value stand in parentheses",
    ),
    (r"\bfor\s+_\s*,\s*(\w+)\s*:=\s*range\s+", By("for $1 in "), "a loop gives the items"),
    (
        r"\bfor\s+([^;{=]*?(?:<=?|>=?|==|!=)[^;{]*?)\s*\{",
        By("while $1 {"),
        "a loop with a condition is `while`",
    ),
    (r"^(\s*)type\s+(\w+)\s+(\w+)\s*$", By("${1}type $2 = $3"), "a name for a type is given with `=`"),
    (r"\bmake\(\s*map\[[^\]]*\][^()]*\)", By("{}"), "a dict is written in braces"),
    (r"\bmake\(\s*\[\][^()]*\)", By("[]"), "a list is written in brackets, and grows by itself"),
    (r"\bmake\(\s*chan\s+[\w{}]+\s*\)", By("channel()"), "a channel is made with `channel`"),
    (
        r"\bmake\(\s*chan\s+[\w{}]+\s*,\s*(\d+)\s*\)",
        By("channel(\"work\", $1)"),
        "a channel is made with `channel`",
    ),
    (r"<-\s*(\w+)", By("receive($1)"), "a channel is read with `receive`"),
    (
        r"^(\s*)(\w+)\s*,\s*ok\s*:?=\s*(.+)$",
        By("${1}let $2 = $3"),
        "what is missing is nil: `d[key] ?? other`, `d.has(key)`",
    ),
    (
        r"^(\s*)(\w+)\s*,\s*err\s*:?=\s*(.+)$",
        By("${1}let $2 = $3"),
        "errors are thrown, not returned: `try { ... } catch (e) { ... }`",
    ),
    (r"\bfunc\(\)\s*\{\s*(.*?)\s*\}\(\)", By("$1"), "a block needs no function around it"),
    (
        r"(\bfn\s+\w+\s*\([^)]*\))\s+([A-Za-z_][\w<>\[\].]*)\s*\{",
        By("$1 -> $2 {"),
        "the type of the result stands behind `->`",
    ),
    // Rust.
    (r"\.collect::<[^()]*>\(\)", By(""), "`map` and `filter` of a list give a list"),
    (r"\bResult<\(\)", By("Result<nil"), "nothing is `nil`"),
    (r"((?:->|[=<>])\s*)\*+(\w+)", By("$1$2"), "there are no pointers: a name is its value"),
    (
        r#"\b(println|eprintln|print|eprint|log)!\(\s*"((?:[^"\\]|\\.)*)"\s*(?:,\s*(.*))?\)"#,
        With(printed),
        "there are no macros, and values stand in the text",
    ),
    (r#"\bformat!\(\s*"((?:[^"\\]|\\.)*)"\s*(?:,\s*(.*))?\)"#, With(formatted), "values stand in the text"),
    (
        r#"\bpanic!\(\s*"((?:[^"\\]|\\.)*)"\s*(?:,\s*(.*))?\)"#,
        With(thrown),
        "an error is thrown with `throw`",
    ),
    (
        r"\b(?:todo|unimplemented|unreachable)!\(\s*\)",
        By("throw \"not written yet\""),
        "an error is thrown with `throw`",
    ),
    (r"\b(?:Vec|VecDeque)::new\(\s*\)", By("[]"), "a list is written in brackets"),
    (r"\b(?:HashMap|BTreeMap)::new\(\s*\)", By("{}"), "a dict is written in braces"),
    (r"\b(?:HashSet|BTreeSet)::new\(\s*\)", By("set()"), "a set is made with `set`"),
    (r"\bString::new\(\s*\)", By("\"\""), "text stands in double quotes"),
    (r"\b(?:std::)?fs::read_to_string\(", By("read_file("), "a file is read with `read_file`"),
    (r"\b(?:std::)?fs::write\(", By("write_file("), "a file is written with `write_file`"),
    (r"\b(?:std::)?env::args\(\s*\)", By("argv"), "the arguments of the program are `argv`"),
    (r"\b(?:std::)?env::var\(", By("env("), "a variable of the environment is read with `env`"),
    (r"\b(?:std::)?process::exit\(", By("exit("), "a program ends with `exit`"),
    (
        r"\b(?:std::)?thread::spawn\(\s*(?:move\s*)?\|\|\s*\{\s*(.*?)\s*\}\s*\)",
        By("spawn { $1 }"),
        "a task is started with `spawn`",
    ),
    (
        r"\b(?:std::)?thread::sleep\(\s*Duration::from_(secs|millis)\((\d+)\)\s*\)",
        With(rest),
        "durations are values",
    ),
    (
        r"^(\s*)let\s+Some\((\w+)\)\s*=\s*(.+?)\s*else\s*\{",
        By("${1}let $2 = $3; guard $2 != nil else {"),
        "what may be missing is nil",
    ),
    (
        r#"([\w.]+|"[^"]*")\.parse::<(?:[iu]\d+|usize|isize)>\(\)\??"#,
        By("to_int($1)"),
        "values are converted by functions",
    ),
    (r#"([\w.]+|"[^"]*")\.parse::<f\d+>\(\)\??"#, By("to_float($1)"), "values are converted by functions"),
    (r"\btrait\s+(\w+)", By("interface $1"), "what types have in common is an `interface`"),
    (r"\bpub\((?:crate|super)\)\s*", By("pub "), "what other files may import is marked with `pub`"),
    (
        r"^(\s*)static\s+(?:mut\s+)?(\w+)\s*:\s*([&\w<>]+)\s*=",
        By("${1}let $2: $3 ="),
        "a variable is declared with `let`, or `var` if it changes",
    ),
    (
        r"'\w+:\s*(for|while|loop)\b",
        By("$1"),
        "there are no labels: `break` ends the innermost loop, `return` the function around it",
    ),
    (r#"\bb'(.)'"#, By("bytes_from_string(\"$1\")"), "bytes are made from text"),
    (r"\b([A-Za-z_]\w*)\.(\d+)\b", By("$1[$2]"), "there are no tuples; an element of a list is `t[0]`"),
    (r"(\S+)\.await\b", By("$1"), "a call waits by itself; `await(task)` is for what `spawn` started"),
    (r"(:\s*|->\s*|<\s*|\()&(?:'\w+\s+)?(?:mut\s+)?str\b", By("${1}string"), "the type of text is `string`"),
    (r"(\bfn\s+\w+\s*\(\s*)&(?:mut\s+)?self\b", By("${1}self"), "a method gets its value as `self`"),
];

fn part<'a>(found: &Captures<'a>, number: usize) -> &'a str {
    found.get(number).map_or("", |group| group.as_str())
}

/// `func (p Point) Moved(dx int) Point {` with its type in front.
fn method_of_go(found: &Captures<'_>) -> String {
    let (owner, name, parameters, result) = (part(found, 2), part(found, 3), part(found, 4), part(found, 5));
    let comma = if parameters.trim().is_empty() { "" } else { ", " };
    let result = if result.is_empty() { String::new() } else { format!("-> {result} ") };
    format!("impl {owner} {{ fn {name}(self{comma}{parameters}) {result}{{")
}

/// `var n int` with the value that Go gives it.
fn zero(found: &Captures<'_>) -> String {
    let (ty, value) = match part(found, 3) {
        "int" | "int32" | "int64" | "uint" | "uint64" | "byte" => ("int", "0"),
        "float64" | "float32" => ("float", "0.0"),
        "string" => ("string", "\"\""),
        "bool" => ("bool", "false"),
        other => (other, "nil"),
    };
    format!("{}var {}: {ty} = {value}", part(found, 1), part(found, 2))
}

/// A text with `{}` and `{name}` as `${...}`; the arguments are separated by commas.
fn text_of_macro(text: &str, arguments: &str) -> String {
    let mut arguments = split(arguments).into_iter();
    let mut out = String::from("\"");
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        if behind.starts_with(&rest[at..=at]) {
            out.push_str(&rest[at..=at]);
            rest = &behind[1..];
            continue;
        }
        let end = behind.find('}').unwrap_or(behind.len());
        let name = behind[..end].split(':').next().unwrap_or_default().trim();
        let value = if name.is_empty() { arguments.next().unwrap_or("value") } else { name };
        out.push_str(&format!("${{{value}}}"));
        rest = behind.get(end + 1..).unwrap_or_default();
    }
    format!("{out}{rest}\"")
}

/// The arguments between commas that are in no bracket.
fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut out) = (0i32, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                out.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    out.push(text[start..].trim());
    out
}

fn printed(found: &Captures<'_>) -> String {
    let text = text_of_macro(part(found, 2), part(found, 3));
    match part(found, 1) {
        "log" => format!("log({text})"),
        name => format!("{name}({text})"),
    }
}

fn formatted(found: &Captures<'_>) -> String {
    text_of_macro(part(found, 1), part(found, 2))
}

fn thrown(found: &Captures<'_>) -> String {
    format!("throw {}", text_of_macro(part(found, 1), part(found, 2)))
}

fn rest(found: &Captures<'_>) -> String {
    let unit = if part(found, 1) == "secs" { "s" } else { "ms" };
    format!("sleep({}{unit})", part(found, 2))
}
