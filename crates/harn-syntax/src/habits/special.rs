//! Forms of single languages, with their Harn equivalents. They precede forms shared by several languages.

use regex::Captures;

use super::form::{
    Fix::{self, By, With},
    Table,
};

/// The table: pattern, replacement, and explanation.
pub(super) const FORMS: Table = &[
    // Harn.
    (
        r"\b(llm_call|llm_stream|agent_loop)\(\s*([^,()=]+),\s*(\w+)\s*=\s*([^,()]+)\)",
        By("$1($2, nil, {$3: $4})"),
        "the second argument is the system prompt, the third a dict of options",
    ),
    (
        r"^(\s*(?:pub\s+)?(?:pipeline|tool)\s+\w+)\s*\{",
        By("$1() {"),
        "the parameters follow the name, in parentheses",
    ),
    (
        r"^(\s*(?:pub\s+)?pipeline\s+\w+)\(\s*(\w+)\s*:[^)]*\)",
        By("$1($2)"),
        "the parameters of a pipeline have no types",
    ),
    (r"^\s*@tool\b.*", Fix::None, "declare a tool with `tool NAME(...) -> TYPE { ... }`"),
    // JavaScript.
    (
        r#"\brequire\(\s*["'](?:node:)?(?:fs|path|os|http|https|child_process|crypto|util|process|timers)(?:/promises)?["']\s*\)"#,
        Fix::None,
        "no import is needed: `read_file`, `exec`, `http_get`, `env` and all others in `harn explain` are built in",
    ),
    // Python.
    (
        r"^\s*(?:import|from)\s+(?:json|os|sys|re|time|math|random|requests|datetime|subprocess|asyncio|logging|collections|typing|pathlib|itertools|functools|csv)\b.*",
        Fix::None,
        "no import is needed: `json_parse`, `read_file`, `env`, `regex_match`, `http_get`, `sqrt`, `sleep` and \
         all others in `harn explain` are built in",
    ),
    (
        r"^\s*if\s+__name__\s*==.*",
        Fix::None,
        "a script runs from its first line; put code that must not run on import in `pipeline default(task) { ... }`",
    ),
    (
        r#"[(,]\s*(?:sep|end)\s*=\s*"[^"]*""#,
        Fix::None,
        "`println(a, b)` separates its arguments with a space; another separator: `println([a, b].join(\", \"))`; no newline: `print(a)`",
    ),
    (
        r"\b(max|min)\(\s*(\w+)\s*,\s*key\s*=\s*lambda\s+(\w+)\s*:\s*(.+)\)",
        By("$2.${1}_by({ $3 -> $4 })"),
        "use the list's method with a key",
    ),
    (
        r"\b(max|min)\(\s*(\w+)\s*,\s*key\s*=\s*(\w+)\s*\)",
        By("$2.${1}_by($3)"),
        "use the list's method with a key",
    ),
    (
        r"\bsorted\(\s*([\w.]+)\s*,\s*key\s*=\s*lambda\s+(\w+)\s*:\s*(.+?)\s*,\s*reverse\s*=\s*True\s*\)",
        By("$1.sort_by({ $2 -> $3 }).reverse()"),
        "sort with a method of the list",
    ),
    (
        r"\bsorted\(\s*([\w.]+)\s*,\s*key\s*=\s*lambda\s+(\w+)\s*:\s*(.+)\)",
        By("$1.sort_by({ $2 -> $3 })"),
        "sort with a method of the list",
    ),
    (
        r"\bsorted\(\s*([\w.]+)\s*,\s*reverse\s*=\s*True\s*\)",
        By("$1.sort().reverse()"),
        "sort with a method of the list",
    ),
    (
        r"^(\s*)(\w+)\.sort\(\s*key\s*=\s*lambda\s+(\w+)\s*:\s*(.+)\)",
        By("${1}$2 = $2.sort_by({ $3 -> $4 })"),
        "list methods return a new list",
    ),
    (
        r#"("[^"]*%[sdrf.0-9][^"]*")\s*%\s*.+$"#,
        Fix::None,
        "interpolate values: `\"... ${value}\"`; format decimals with `fixed(n, 2)`",
    ),
    (
        r"\{\s*([^:{}]+?)\s+for\s+(\w+)\s+in\s+([^{}]+?)\s+if\s+([^{}]+?)\s*\}",
        By("set($3.filter({ $2 -> $4 }).map({ $2 -> $1 }))"),
        "create a set from a list",
    ),
    (
        r"\{\s*([^:{}]+?)\s+for\s+(\w+)\s+in\s+([^{}]+?)\s*\}",
        By("set($3.map({ $2 -> $1 }))"),
        "create a set from a list",
    ),
    (
        r"^(\s*)([a-z_]\w*)\s*=\s*([a-z_]\w*)\s*=\s*([^=\s].*)$",
        By("${1}let $2 = $4; let $3 = $4"),
        "an assignment has no value: assign each variable separately",
    ),
    (
        r"^(\s*)del\s+(\w+)\[([^\[\]]+)\]\s*$",
        By("${1}$2 = $2.remove($3)"),
        "remove a key with the method `remove`",
    ),
    (
        r"^\s*parameters\s*\{.*",
        Fix::None,
        "tool parameters follow its name: `tool read_note(path: string) { ... }`",
    ),
    (
        r"\bparallel\s+for\s+(\w+)\s+in\s+([^{]+?)\s*\{",
        By("parallel each $2 { $1 ->"),
        "name the item inside the block",
    ),
    (
        r"\b(parallel\b[^{]*?)\s+max_concurrent\s*[:=]?\s*(\w+)\s*\{",
        By("$1 with {max_concurrent: $2} {"),
        "`with` sets the concurrency",
    ),
    (
        r"\b(?:def|func|fun|function|sub)\s+(\w+)\s*\(([^)]*)\)\s*(?:->\s*[\w\[\]]+\s*)?:\s*(\S.*)$",
        By("fn $1($2) { $3 }"),
        "declare functions with `fn`, with the body in braces",
    ),
    (r"\bif\s+(.+?)\s+then\s+(.+?)\s+end\b", By("if $1 { $2 }"), "a block needs braces"),
    (
        r"\bwhile\s+(.+?)\s+do\s+(.+?)\s+end\b",
        By("while $1 { $2 }"),
        "write `while condition { ... }`, without `do`",
    ),
    (r"\}\s*,\s*([^\s{},]+)\s*(=>|->)", By("} $1 $2"), "the arms of `match` have no commas"),
    // JavaScript.
    (
        r#"^(\s*)(?:const|let|var)\s+(\{[^}]*\})\s*=\s*require\(\s*["']([^"']+)["']\s*\)"#,
        By("${1}import $2 from \"$3\""),
        "import other files with `import`",
    ),
    (
        r#"^(\s*)(?:const|let|var)\s+(\w+)\s*=\s*require\(\s*["']([^"']+)["']\s*\)"#,
        By("${1}import { $2 } from \"$3\""),
        "import other files with `import`",
    ),
    (
        r"^(\s*)export\s+(?:const|let|var)\s+(\w+)\s*=\s*(.+?)\s*;?\s*$",
        By("${1}pub fn $2() { $3 }"),
        "export functions and types with `pub`; export a value through a function",
    ),
    (
        r"(^|[(,=:\s])\(\s*([\w, ]*?)\s*\)\s*=>\s*\{\s*(.*?)\s*\}",
        By("$1{ $2 -> $3 }"),
        "write closures in braces, with `->`",
    ),
    (
        r"\bnew\s+Date\(\s*\)",
        By("date_now()"),
        "get the time with `date_now()` as a dict, `now_ms()` in milliseconds",
    ),
    (r"\bnew\s+(?:Map|Object)\(\s*\)", By("{}"), "write a dict with braces"),
    (r"\bnew\s+Set\(\s*([^()]*)\)", By("set($1)"), "create a set with `set`"),
    (r"\bnew\s+Array\(\s*\)", By("[]"), "write a list with brackets"),
    (
        r"\bnew\s+Promise\b.*",
        Fix::None,
        "calls wait for their result; start a task with `spawn { ... }`, get its result with `await(task)`",
    ),
    (r"\bvoid\s+0\b", By("nil"), "the empty value is `nil`"),
    (
        r"(^|;|=|\breturn)(\s*)await\s+([\w.]+\(.*\))",
        By("$1$2$3"),
        "calls wait for their result; `await(task)` is for tasks from `spawn`",
    ),
    (
        r"(^|;)(\s*)delete\s+(\w+)\.(\w+)",
        By("$1$2$3 = $3.remove(\"$4\")"),
        "remove a key with the method `remove`",
    ),
    (
        r"(^|;)(\s*)delete\s+(\w+)\[([^\[\]]+)\]",
        By("$1$2$3 = $3.remove($4)"),
        "remove a key with the method `remove`",
    ),
    // Go.
    (
        r"\bfunc\s*\(\s*(\w+)\s+\*?(\w+)\s*\)\s*(\w+)\s*\(([^)]*)\)\s*([\w.*\[\]]*)\s*\{",
        With(method_of_go),
        "declare methods in `impl`, with `self` as first parameter",
    ),
    (r"^(\s*)var\s+(\w+)\s+(\w+)\s*$", With(zero), "a variable needs an initial value"),
    (
        r"\bvar\s+\w+\s+sync\.\w+",
        Fix::None,
        "`parallel` waits for all its tasks, which share nothing; use `mutex { ... }` for a critical section",
    ),
    (
        r"\bif\s+(\w+)\s*:=\s*([^;{]+);\s*",
        By("let $1 = $2; if "),
        "declare the variable in a separate statement",
    ),
    (r"\bfor\s+(\w+)\s*:=\s*range\s+(\d+)", By("for $1 in 0 to $2 exclusive"), "loop over a range"),
    (
        r"\bfor\s+(\w+)\s*:=\s*range\s+(\w+)",
        By("for ($1, _) in $2.iter().enumerate()"),
        "index and value need parentheses",
    ),
    (r"\bfor\s+_\s*,\s*(\w+)\s*:=\s*range\s+", By("for $1 in "), "loop over the items"),
    (
        r"\bfor\s+([^;{=]*?(?:<=?|>=?|==|!=)[^;{]*?)\s*\{",
        By("while $1 {"),
        "write a loop with a condition as `while`",
    ),
    (r"^(\s*)type\s+(\w+)\s+(\w+)\s*$", By("${1}type $2 = $3"), "declare a type alias with `=`"),
    (r"\bmake\(\s*map\[[^\]]*\][^()]*\)", By("{}"), "write a dict with braces"),
    (r"\bmake\(\s*\[\][^()]*\)", By("[]"), "write a list with brackets; it grows as needed"),
    (r"\bmake\(\s*chan\s+[\w{}]+\s*\)", By("channel()"), "create a channel with `channel`"),
    (
        r"\bmake\(\s*chan\s+[\w{}]+\s*,\s*(\d+)\s*\)",
        By("channel(\"work\", $1)"),
        "create a channel with `channel`",
    ),
    (r"<-\s*(\w+)", By("receive($1)"), "read a channel with `receive`"),
    (
        r"^(\s*)(\w+)\s*,\s*ok\s*:?=\s*(.+)$",
        By("${1}let $2 = $3"),
        "a missing value is nil: `d[key] ?? other`, `d.has(key)`",
    ),
    (
        r"^(\s*)(\w+)\s*,\s*err\s*:?=\s*(.+)$",
        By("${1}let $2 = $3"),
        "errors are thrown, not returned: `try { ... } catch (e) { ... }`",
    ),
    (r"\bfunc\(\)\s*\{\s*(.*?)\s*\}\(\)", By("$1"), "write the block without a function"),
    (
        r"(\bfn\s+\w+\s*\([^)]*\))\s+([A-Za-z_][\w<>\[\].]*)\s*\{",
        By("$1 -> $2 {"),
        "the result type follows `->`",
    ),
    // Rust.
    (r"\.collect::<[^()]*>\(\)", By(""), "`map` and `filter` of a list return a list"),
    (r"\bResult<\(\)", By("Result<nil"), "the empty value is `nil`"),
    (r"((?:->|[=<>])\s*)\*+(\w+)", By("$1$2"), "there are no pointers: use the value itself"),
    (
        r#"\b(println|eprintln|print|eprint|log)!\(\s*"((?:[^"\\]|\\.)*)"\s*(?:,\s*(.*))?\)"#,
        With(printed),
        "there are no macros; interpolate values",
    ),
    (r#"\bformat!\(\s*"((?:[^"\\]|\\.)*)"\s*(?:,\s*(.*))?\)"#, With(formatted), "interpolate values"),
    (r#"\bpanic!\(\s*"((?:[^"\\]|\\.)*)"\s*(?:,\s*(.*))?\)"#, With(thrown), "throw an error with `throw`"),
    (
        r"\b(?:todo|unimplemented|unreachable)!\(\s*\)",
        By("throw \"not written yet\""),
        "throw an error with `throw`",
    ),
    (r"\b(?:Vec|VecDeque)::new\(\s*\)", By("[]"), "write a list with brackets"),
    (r"\b(?:HashMap|BTreeMap)::new\(\s*\)", By("{}"), "write a dict with braces"),
    (r"\b(?:HashSet|BTreeSet)::new\(\s*\)", By("set()"), "create a set with `set`"),
    (r"\bString::new\(\s*\)", By("\"\""), "strings need double quotes"),
    (r"\b(?:std::)?fs::read_to_string\(", By("read_file("), "read a file with `read_file`"),
    (r"\b(?:std::)?fs::write\(", By("write_file("), "write a file with `write_file`"),
    (r"\b(?:std::)?env::args\(\s*\)", By("argv"), "the program's arguments are `argv`"),
    (r"\b(?:std::)?env::var\(", By("env("), "read an environment variable with `env`"),
    (r"\b(?:std::)?process::exit\(", By("exit("), "end the program with `exit`"),
    (
        r"\b(?:std::)?thread::spawn\(\s*(?:move\s*)?\|\|\s*\{\s*(.*?)\s*\}\s*\)",
        By("spawn { $1 }"),
        "start a task with `spawn`",
    ),
    (
        r"\b(?:std::)?thread::sleep\(\s*Duration::from_(secs|millis)\((\d+)\)\s*\)",
        With(rest),
        "write durations as literals",
    ),
    (
        r"^(\s*)let\s+Some\((\w+)\)\s*=\s*(.+?)\s*else\s*\{",
        By("${1}let $2 = $3; guard $2 != nil else {"),
        "a missing value is nil",
    ),
    (
        r#"([\w.]+|"[^"]*")\.parse::<(?:[iu]\d+|usize|isize)>\(\)\??"#,
        By("to_int($1)"),
        "convert values with functions",
    ),
    (r#"([\w.]+|"[^"]*")\.parse::<f\d+>\(\)\??"#, By("to_float($1)"), "convert values with functions"),
    (r"\btrait\s+(\w+)", By("interface $1"), "declare shared methods in an `interface`"),
    (r"\bpub\((?:crate|super)\)\s*", By("pub "), "mark exports with `pub`"),
    (
        r"^(\s*)static\s+(?:mut\s+)?(\w+)\s*:\s*([&\w<>]+)\s*=",
        By("${1}let $2: $3 ="),
        "declare variables with `let`, or `var` if they change",
    ),
    (
        r"'\w+:\s*(for|while|loop)\b",
        By("$1"),
        "there are no labels: `break` ends the innermost loop, `return` the function around it",
    ),
    (r#"\bb'(.)'"#, By("bytes_from_string(\"$1\")"), "create bytes from a string"),
    (r"\b([A-Za-z_]\w*)\.(\d+)\b", By("$1[$2]"), "there are no tuples: access a list element with `t[0]`"),
    (r"(\S+)\.await\b", By("$1"), "calls wait for their result; `await(task)` is for tasks from `spawn`"),
    (r"(:\s*|->\s*|<\s*|\()&(?:'\w+\s+)?(?:mut\s+)?str\b", By("${1}string"), "the string type is `string`"),
    (r"(\bfn\s+\w+\s*\(\s*)&(?:mut\s+)?self\b", By("${1}self"), "a method takes `self`"),
];

fn part<'a>(found: &Captures<'a>, number: usize) -> &'a str {
    found.get(number).map_or("", |group| group.as_str())
}

/// Converts `func (p Point) Moved(dx int) Point {` to a method in an `impl` block.
fn method_of_go(found: &Captures<'_>) -> String {
    let (owner, name, parameters, result) = (part(found, 2), part(found, 3), part(found, 4), part(found, 5));
    let comma = if parameters.trim().is_empty() { "" } else { ", " };
    let result = if result.is_empty() { String::new() } else { format!("-> {result} ") };
    format!("impl {owner} {{ fn {name}(self{comma}{parameters}) {result}{{")
}

/// Converts `var n int` to a `let` with the zero value of the type.
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

/// Converts a format string with `{}` and `{name}` to `${...}` interpolation; the arguments are separated by
/// commas.
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

/// Splits arguments at commas outside brackets.
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
