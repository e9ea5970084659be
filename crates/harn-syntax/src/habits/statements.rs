//! Statements of single languages that are recognized by their overall shape. They precede all other forms.

use regex::Captures;

use super::form::{
    Fix::{self, By, With},
    Table,
};

/// The table: pattern, replacement, and explanation.
pub(super) const FORMS: Table = &[
    (
        r"^(\s*)(if|while|for|match|guard|\}\s*else\s+if)\b([^{\x22]*?[\w)\]])\s*//\s*([\w(][^{]*\{.*)$",
        By("$1$2$3 / $4"),
        "`//` starts a comment that hides the rest of the line; integer division is `/`",
    ),
    // Calls and closures.
    (
        r"(\b(?:llm_\w+|agent_\w+|sub_agent_run|http_\w+|mcp_\w+)\((?:(?:[^(){}\[\]:]|\([^()]*\)|\{[^{}]*\}|\[[^\[\]]*\])+,)\s*)((?:[A-Za-z_]\w*\s*:\s*(?:[^,(){}\[\]]|\([^()]*\)|\{[^{}]*\}|\[[^\[\]]*\])+,?\s*)+)\)",
        By("$1{$2})"),
        "options are the entries of a dict",
    ),
    (
        r"(^\s*|[=(,:{;!&|+*/<>?\[-]\s*|\b(?:return|in|if|while|match|throw|emit|yield|await)\s+)([\w.]+\((?:(?:[^()\[\]{}]|\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\})*,\s*)?)([A-Za-z_]\w*)\s*:\s*",
        By("$1$2"),
        "arguments are positional: pass them in order, and options in a dict",
    ),
    (
        r"((?:\w\((?:[^()\[\]{}]|\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\})*,|\()\s*|=\s+)([A-Za-z_]\w*)\s*->\s*((?:[^(){},]|\([^()]*\))+)",
        By("$1{ $2 -> $3 }"),
        "write closures in braces",
    ),
    (
        r"((?:\w\((?:[^()\[\]{}]|\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\})*,|\()\s*|=\s+)\(\s*([\w\s,]*?)\s*\)\s*->\s*((?:[^(){},]|\([^()]*\))+)",
        By("$1{ $2 -> $3 }"),
        "write closures in braces",
    ),
    (
        r"(\bfn\b[^{}]*\))\s*->\s*\{\s*((?:\w+\s+[^\s:?}]|\w+[(.]|\w+\s*[-+*/]?=[^=]).*)$",
        By("$1 { $2"),
        "`->` is followed by the result type; leave out `->` without one",
    ),
    (
        r"\breturn\s+((?:[^,()\[\]{};]|\([^()]*\)|\[[^\[\]]*\])+(?:,(?:[^,()\[\]{};]|\([^()]*\)|\[[^\[\]]*\])+?)+?)(\s*(?:[};]|$))",
        By("return [$1]$2"),
        "return several values as a list",
    ),
    // Variables.
    (r"(\w[\w.\[\]]*)\s*=([+%])\s*([\w(\x22])", By("$1 $2= $3"), "the operator comes before `=`"),
    (r#"(["\w)\]])\s*\+\+\s*(["\w(\[])"#, By("$1 + $2"), "concatenate strings and lists with `+`"),
    (
        r"\bguard\s+(?:let|var)\s+(\w+)\s*=\s*(.+?)\s*,?\s*else\s*\{",
        By("let $1 = $2; guard $1 != nil else {"),
        "a missing value is nil; declare the variable in a separate statement",
    ),
    (
        r"(\bstruct\s+\w+[^{}]*\{[^{}]*?\w)\??\s*(:\s*[^=,{}]+?)\s*=\s*[^,{}]+?(\s*(?:[,}]|$))",
        By("$1?$2$3"),
        "fields have no defaults: mark an optional field with `?`, or create the struct in a function",
    ),
    (
        r"^(\s*)(?:let|var|const)\s+(\w+)!?\s*(?::[^=;]*)?;?\s*$",
        By("${1}var $2 = nil"),
        "a variable needs an initial value",
    ),
    (
        r"=\s*<\w+>\s*(\w)",
        By("= $1"),
        "use the value directly, or convert it with `to_int`, `to_float`, `to_string`",
    ),
    (r"\b(\d+)n\b", By("$1"), "ints have 64 bits and no suffix"),
    (
        r"((?:[=(:,]|\breturn)\s*)\{\s*((?:\w+(?:\s*:\s*[^{},:]+)?\s*,\s*)+\w+(?:\s*,\s*\w+(?:\s*:\s*[^{},:]+)?)*|\w+(?:\s*,\s*\w+(?:\s*:\s*[^{},:]+)?)+)\s*,?\s*\}",
        With(entries),
        "write dict entries as `key: value`",
    ),
    (
        r"^(\s*)(?:public|private|protected)\s+(\w+)\s*=",
        By("${1}let $2 ="),
        "declare variables with `let`, or `var` if they change",
    ),
    // Functions and modules.
    (
        r"\bfunction\s*\*\s*(\w+)\s*(\([^()]*\))\s*\{",
        By("gen fn $1$2 {"),
        "a generator function is a `gen fn` and yields values with `emit`",
    ),
    (
        r"\b(?:func|fun|function|def)\s+(\w+)\s*(<[^<>()]*>)\s*\(",
        By("fn $1$2("),
        "declare functions with `fn`",
    ),
    (r"(\bimport\s*\{[^{}]*?\b\w+)\s+as\s+\w+", By("$1"), "imported names cannot be renamed"),
    (
        r"(\b(?:import|let|var)\s*\{[^{}:]*?\w)\s+(\w+)",
        By("$1, $2"),
        "names in braces need commas between them",
    ),
    (
        r#"(^\s*|\{\s*)(description|guidance|namespace|defer_loading|compact|annotations)\s*:\s*(["{tf].*)$"#,
        By("$1$2 $3"),
        "tool fields have no `:`: write the name, a space and the value",
    ),
    (
        r"\bimport\s+(\w+)\s*,\s*\{\s*([^{}]*?)\s*\}",
        By("import { $1, $2 }"),
        "write imported names in braces",
    ),
    (r"\bfor\s+await\s*\(", By("for ("), "every function can wait"),
    (
        r"^\s*(?:abstract|sealed|data)\s+class\b.*",
        Fix::None,
        "declare records with `struct Name { ... }`, shared methods with `interface Name { ... }`",
    ),
    (
        r"^\s*(?:namespace|module)\s+\w+.*",
        Fix::None,
        "a file is a module and needs no declaration, and `pub` marks its exports",
    ),
    (
        r"^\s*@(?:staticmethod|classmethod|property|dataclass|abstractmethod|override|Override|lru_cache|cache|contextmanager)\b.*",
        Fix::None,
        "there are no decorators: declare methods in `impl Name { ... }`, records with `struct Name { ... }`",
    ),
    // Python.
    (r"^(\s*)'''(.*?)'''\s*$", By("${1}// $2"), "write descriptions as comments above"),
    (
        r"^\s*'''.*",
        Fix::None,
        "write descriptions as comments, `// ...` or `/* ... */`; use `\"\"\"` for strings of several lines",
    ),
    (
        r"^(\s*)match\s+(.+?)\s*:\s*$",
        By("${1}match $2 {"),
        "the arms of `match` need braces: `pattern -> { ... }`",
    ),
    (
        r"\bisinstance\(\s*([\w.]+)\s*,\s*\(\s*([\w\s,.]+?)\s*,?\s*\)\s*\)",
        With(one_of_types),
        "`type_of` names the type of a value",
    ),
    (
        r#"^(\s*)with\s+open\(\s*([^,()]+?)\s*,\s*["'][wxa]b?\+?["'][^()]*\)\s+as\s+\w+\s*:\s*(?:\w+\.write\((.*)\))?.*$"#,
        With(whole_file_written),
        "there is no `with`; write the whole file",
    ),
    (
        r"^(\s*)with\s+open\(\s*([^,()]+?)\s*(?:,[^()]*)?\)\s+as\s+(\w+)\s*:.*$",
        By("${1}let $3 = read_file($2)"),
        "there is no `with`; read the whole file",
    ),
    (
        r"^(\s*)\}?\s*except\s*\([^()]*\)\s*(?:as\s+(\w+)\s*)?:\s*$",
        By("$1} catch ($2) {"),
        "`catch` handles every error: distinguish them with `error_category(e)`",
    ),
    (
        r"^(\s*)(\w+)\s*,\s*\*(\w+)\s*=\s*(.+)$",
        By("${1}let [$2, ...$3] = $4"),
        "destructure a list with brackets, and its rest with `...`",
    ),
    (
        r"^\s*import\s+\w+(?:\.\w+)*\s+as\s+\w+\s*$",
        Fix::None,
        "Python modules are not available: run a Python program with `exec(\"python3\", \"file.py\")`; import Harn files \
         with `import \"path\"`",
    ),
    (
        r"^(\s*)from\s+([\w.]+)\s+import\s+\*\s*$",
        By("${1}import \"$2\""),
        "`import \"path\"` imports all names",
    ),
    (r#"\bprint\((.+?),\s*file\s*=\s*sys\.stderr\s*\)"#, By("eprintln($1)"), "write errors with `eprintln`"),
    (
        r"^(\s*)([\w.()]+)\s+if\s+(.+?)\s+else\s+([^\s{}]+)$",
        By("$1$3 ? $2 : $4"),
        "write a conditional as `condition ? a : b`",
    ),
    (r"\bin\s+\(([^()]+,[^()]*)\)", By("in [$1]"), "there are no tuples: use a list"),
    (
        r"^\s*async\s+(?:with|for)\b.*",
        Fix::None,
        "every function can wait: use a plain loop; clean up in `defer { ... }`",
    ),
    (
        r"^(\s*)def\s+__init__\s*\(\s*self\s*,?\s*([^)]*)\).*$",
        Fix::None,
        "create a struct with its fields, `Name {field: value}`, or in a function: \
         `fn new_name(x) { return Name {field: x} }`",
    ),
    (r"([\[{]\s*)\*{1,2}(\w+)", By("$1...$2"), "spread a list or dict with `...`"),
    (r#"^([^(\[{]*"[^"]*")\s+("[^"]*")\s*$"#, By("$1 + $2"), "concatenate strings with `+`"),
    // JavaScript.
    (
        r"\bfor\s*\(\s*(?:const|let|var)\s*\[\s*(\w+)\s*,\s*(\w+)\s*\]\s+of\s+(?:Object\.entries\(\s*([\w.]+)\s*\)|([\w.]+?))\s*\)\s*",
        By("for ($1, $2) in $3$4 "),
        "two loop variables need parentheses: key and value of a dict; index and value with `.iter().enumerate()`",
    ),
    (
        r"\bfor\s*\(\s*(?:const|let|var)\s*\[\s*(\w+)\s*,\s*(\w+)\s*\]\s+of\s+([\w.]+?)\.entries\(\s*\)\s*\)\s*",
        By("for ($1, $2) in $3.iter().enumerate() "),
        "two loop variables need parentheses",
    ),
    (r"\bfor\s*\(\s*;\s*;\s*\)\s*", By("while true "), "write an endless loop as `while true { ... }`"),
    (
        r"\b([\w.]+)\.forEach\(\s*\(?\s*(\w+)\s*\)?\s*=>\s*(?:\{\s*(.*?)\s*;?\s*\}|([^{}]+))\s*\)\s*;?\s*$",
        By("for $2 in $1 { $3$4 }"),
        "loop over the items",
    ),
    (
        r"(^|[=(,!]\s*)/([^/\s][^/]*)/[gimsuy]*\.test\(([^()]*)\)",
        By("${1}regex_match(\"$2\", $3) != nil"),
        "a regular expression is a string",
    ),
    (
        r"^(\s*)\w+\s*:\s*(for|while|loop)\b",
        By("$1$2"),
        "there are no labels: `break` ends the innermost loop, `return` the function around it",
    ),
    (
        r"\binterface\s+(\w+)\s*\{(\s*\w+\??\s*:)",
        By("struct $1 {$2"),
        "an interface declares functions; declare fields in a struct",
    ),
    (r"(\benum\s+\w+\s*\{[^}]*?\w+)\s*=\s*[\w\x22-]+", By("$1"), "enum variants have no numbers"),
    (r"(\benum\s+\w+\s*\{[^}]*?\w+)\s*\{([^{}]*)\}", By("$1($2)"), "values of a variant need parentheses"),
    (
        r"(\b(?:fn|function)\s+\w+\s*\([^()]*?\w+)\?\s*:\s*(\w+)",
        By("$1: $2 | nil"),
        "write a type that includes nil with `| nil`",
    ),
    (r"(\b(?:fn|function)\s+\w+\s*\([^()]*\))\s*:\s*void\b", By("$1"), "leave out the result type"),
    (r"\basync\s+(\([\w\s,]*\)|\w+)\s*=>\s*(?:await\s+)?", By("$1 => "), "every function can wait"),
    (
        r"([{,]\s*)(\w+)\s*\(([\w\s,]*)\)\s*\{\s*([^{}]*?)\s*\}",
        By("$1$2: { $3 -> $4 }"),
        "write a function in a dict as a closure",
    ),
    (r"(\{\s*\.\.\.\w+\s*,\s*)(\w+)(\s*[,}])", By("$1$2: $2$3"), "write dict entries as `key: value`"),
    (
        r"^(\s*)if\s*(\(.+?\))\s*([^{}]+?)\s*;\s*else\s+([^{}]+?)\s*;?\s*$",
        By("${1}if $2 { $3 } else { $4 }"),
        "a block needs braces",
    ),
    // Go.
    (
        r"\bfor\s*\(?\s*(?:let\s+|var\s+|int\s+)?(\w+)\s*:?=\s*([^;]+?)\s*;\s*\w+\s*>=\s*([^;]+?)\s*;\s*(?:--\w+|\w+\s*--|\w+\s*-=\s*1)\s*\)?\s*",
        By("for $1 in ($3 to $2).to_list().reverse() "),
        "loop over a range, reversed to count down",
    ),
    (
        r"\bfor\s*\(?\s*(?:let\s+|var\s+|int\s+)?(\w+)\s*:?=\s*([^;]+?)\s*;\s*\w+\s*>\s*([^;]+?)\s*;\s*(?:--\w+|\w+\s*--|\w+\s*-=\s*1)\s*\)?\s*",
        By("for $1 in ($3 + 1 to $2).to_list().reverse() "),
        "loop over a range, reversed to count down",
    ),
    (
        r"\bfor\s*\(?\s*(?:let\s+|var\s+|int\s+)?(\w+)\s*:?=\s*([^;]+?)\s*;\s*\w+\s*<\s*([^;]+?)\s*;\s*\w+\s*\+=\s*1\s*\)?\s*\{",
        By("for $1 in $2 to $3 exclusive {"),
        "loop over a range",
    ),
    (
        r"\bfor\s*\(?\s*(?:let\s+|var\s+|int\s+)?(\w+)\s*:?=\s*([^;]+?)\s*;\s*([^;]+?)\s*;\s*(\w+\s*[-+*/]=\s*[^){]+?)\s*\)?\s*\{",
        By("var $1 = $2; while $3 {"),
        "use `while` for a step, with the step as the last line of the block",
    ),
    (
        r"\bif\s+_\s*,\s*ok\s*:?=\s*([\w.]+)\[([^\[\]]+)\]\s*;\s*(!?)\s*ok\b",
        By("if $3$1.has($2)"),
        "check a key with `has`",
    ),
    (
        r"\bif\s+(\w+)\s*,\s*ok\s*:?=\s*([^;{]+?)\s*;\s*ok\b",
        By("let $1 = $2; if $1 != nil"),
        "a missing value is nil",
    ),
    (
        r"\bif\s+(?:_\s*,\s*)?(err)\s*:?=\s*([^;{]+?)\s*;\s*err\s*!=\s*nil\s*\{",
        By("try { $2 } catch ($1) {"),
        "errors are thrown, not returned",
    ),
    (
        r"(\bswitch\s+)(?:\w+\s*:=\s*)?([\w.]+)\.\(type\)\s*\{",
        By("match type_of($2) {"),
        "`type_of` names the type of a value",
    ),
    (
        r"([\w\])])\.\(\s*\*?([\w.]+)\s*\)",
        By("$1"),
        "use the value directly; check its type with `type_of(value) == \"int\"`",
    ),
    (r"\bfor\s+range\s+(\w+)\s*\{", By("for _ in 0 to $1 exclusive {"), "loop over a range"),
    (
        r"^(\s*)var\s+(\w+)\s+\[\d*\]\w+\s*$",
        By("${1}var $2 = []"),
        "write a list with brackets; it grows as needed",
    ),
    (
        r"^\s*(?:(?:const|var|import)\s*\(.*|type\s*\(\s*)$",
        Fix::None,
        "write each declaration on its own line: `let a = 1`, `import \"std/json\"`",
    ),
    // Rust.
    (r"\bstruct\s+(\w+)\s*;", By("struct $1 { }"), "a struct needs braces, even without fields"),
    (
        r"((?::|->|<|&)\s*)\[\s*(\w+)\s*;\s*\w+\s*\]",
        By("${1}list<$2>"),
        "a list type has an item type and no length",
    ),
    (
        r"(?:\bvec!)?\[\s*([^\[\];]+?)\s*;\s*([^\[\];]+?)\s*\]",
        By("(0 to $2 exclusive).map({ _ -> $1 }).to_list()"),
        "create a list of equal items from a range",
    ),
    (
        r"^(\s*)let\s+Ok\(\s*(\w+)\s*\)\s*=\s*(.+?)\s*else\s*\{",
        By("${1}let $2 = try { $3 } catch (e) {"),
        "errors are thrown, and caught with `try`",
    ),
    (
        r"\bif\s+let\s+Ok\(\s*(\w+)\s*\)\s*=\s*([^{]+?)\s*\{(.*?)\}\s*(?:else\s*\{|$)",
        By("try { let $1 = $2; $3} catch (e) { }"),
        "errors are thrown, and caught with `try`",
    ),
    (
        r"\bif\s+let\s+Ok\(\s*(\w+)\s*\)\s*=\s*([^{]+?)\s*\{",
        By("try { let $1 = $2; "),
        "errors are thrown, and caught with `try { ... } catch (e) { ... }`",
    ),
    (
        r"\bif\s+let\s+Err\(\s*(\w+)\s*\)\s*=\s*([^{]+?)\s*\{",
        By("try { $2 } catch ($1) {"),
        "errors are thrown, and caught with `try`",
    ),
    (r"(\w+\s*\{)([^{}]*?),?\s*\.\.\s*(\w+)\s*\}", With(updated), "spread the unchanged fields first"),
    (
        r"^(\s*)let\s+[A-Z]\w*\s*(\{[^{}]*\})\s*=",
        By("${1}let $2 ="),
        "destructure fields with braces, without the struct name",
    ),
    (
        r"(\bfn\s+\w+\s*<\s*\w+)\s*:\s*([\w+\s]+?)(\s*[,>].*?\))(\s*->\s*[\w<>]+)?\s*\{",
        With(bounded),
        "type constraints follow `where`",
    ),
    (r"\bBox<\s*dyn\s+[\w:]+\s*>", By("any"), "leave out the type, or write `any`"),
    (
        r"\b(\d+(?:\.\d+)?)_?(?:[iu](?:8|16|32|64|128|size)|f32|f64)\b",
        By("$1"),
        "number literals have no type suffix",
    ),
    (
        r"^\s*extern\s+crate\b.*",
        Fix::None,
        "add packages with `harn add` and import them with `import \"path\"`",
    ),
    // C, C++ and Java.
    (
        r"^(\s*)(?:(?:public|private|protected|static|final)\s+)*(?:void|int|long|float|double|bool|boolean|char|string|String)\s+(\w+)\s*\(([^()]*)\)\s*\{",
        With(function_of_c),
        "declare functions with `fn`, with types after the names",
    ),
    (
        r"^(\s*)(?:int|long|char|float|double|bool|boolean|string|String)\s+(\w+)\s*;?\s*$",
        By("${1}var $2 = nil"),
        "a variable needs an initial value",
    ),
    (
        r"^(\s*)(?:std::)?(cout|cerr)\s*<<\s*(.+?)(?:\s*<<\s*(?:std::)?endl)?\s*;?\s*$",
        With(streamed),
        "print values with a call",
    ),
    (r"^\s*#\s*define\s+(\w+)\s+(.+?)\s*$", By("let $1 = $2"), "declare constants with `let`"),
    (r"^(\s*)(?:void|int)\s+(\w+\s*\(.*\)\s*;?)\s*$", By("$1$2"), "a call needs no type"),
    (r"(\w)->(\w)", By("$1.$2"), "access fields and methods with `.`"),
    (
        r"^(\s*)foreach\s*\(\s*\$?(\w+)\s+as\s+\$?(\w+)\s*\)\s*",
        By("${1}for $3 in $2 "),
        "loop over the items",
    ),
    (
        r"^(\s*)foreach\s*\(\s*(?:var|auto|\w+)\s+(\w+)\s+in\s+([^()]+)\)\s*",
        By("${1}for $2 in $3 "),
        "loop over the items",
    ),
    (
        r"\b([\w.]+)\.each\s+do\s*\|\s*(\w+)\s*\|",
        By("for $2 in $1 {"),
        "loop over the items, in a block with braces",
    ),
    (r"(\S+)\s*~=\s*(\S+)", By("$1 != $2"), "compare values with `!=`"),
    // Bitwise operators.
    (
        r"(\w+)\s*(?:<<|>>>?|\^|&|\|)=\s*\S.*",
        Fix::None,
        "there are no bitwise operators: shift left with `x = x * 2 ** n`, right with `x = x / 2 ** n`",
    ),
    (
        r"(\w+|\([^()]*\))\s*>>>?\s*(\w+)",
        By("$1 / 2 ** $2"),
        "there are no bitwise operators: shift left with `x * 2 ** n`, right with `x / 2 ** n`",
    ),
    (
        r"(\w+|\([^()]*\))\s*<<\s*(\w+)",
        By("$1 * 2 ** $2"),
        "there are no bitwise operators: shift left with `x * 2 ** n`, right with `x / 2 ** n`",
    ),
    (
        r"(^|[=(,\[+*/&|:-]\s*|\breturn\s+)~\s*(\w+)",
        By("$1(-$2 - 1)"),
        "there are no bitwise operators: invert with `-x - 1`",
    ),
    // Shell.
    (r"^(\s*)(?:declare|typeset)\s+-A\s+(\w+)\s*$", By("${1}var $2 = {}"), "write a dict with braces"),
    (
        r"^(\s*)(?:declare|typeset|readonly)\s+(?:-\w+\s+)*(\w+)=(\S.*)$",
        By("${1}let $2=$3"),
        "declare variables with `let`, or `var` if they change",
    ),
    (
        r"\bfor\s+(\w+)\s+in\s+([\w./-]+(?:\s+[\w./-]+)+)\s*;?\s*(?:do\b.*)?$",
        With(loop_over_words),
        "a list needs brackets, with commas between its items",
    ),
    (r"\bwhile\s+(true|:)\s*;\s*do\b.*$", By("while true {"), "a block needs braces"),
    (
        r"^(\s*)([\w./*-]+)\)\s+(.+?)\s*;;\s*$",
        Fix::None,
        "write an arm of `match` as `\"a\" -> { ... }`, the last one `_ -> { ... }`",
    ),
    (r"^(\s*)(\w+)=\$\(\(\s*(.+?)\s*\)\)\s*$", By("${1}let $2 = $3"), "arithmetic needs no special syntax"),
    (r"^(\s*)echo\s+-n\s+([^\x22$]+?)\s*$", By("${1}print(\"$2\")"), "write without a newline with `print`"),
    (r"^(\s*)echo\s+\$\{#(\w+)\}\s*$", By("${1}println(len($2))"), "the length is `len(value)`"),
    (r"^(\s*)echo\s+\$\{(\w+)\[(\w+)\]\}\s*$", By("${1}println($2[$3])"), "names have no `$`"),
    (
        r"^(\s*)echo\s+\$\{(\w+)%(?:%?)([^}*]+)\}\s*$",
        By("${1}println($2.replace(\"$3\", \"\"))"),
        "change a string with its methods",
    ),
    (
        r"^(\s*)echo\s+\$\{(\w+)//?([^/}]+)/([^/}]*)\}\s*$",
        By("${1}println($2.replace(\"$3\", \"$4\"))"),
        "change a string with its methods",
    ),
    (
        r"^(\s*)echo\s+\$\{(\w+)\[[@*]\]\}\s*$",
        By("${1}println($2.join(\" \"))"),
        "join items with a method of the list",
    ),
    (
        r"\x22\$\{?(HOME|PATH|USER|PWD|SHELL|TMPDIR|LANG|HOSTNAME|EDITOR|CI|[A-Z][A-Z0-9_]*_(?:KEY|TOKEN|URL|HOME|PATH|DIR|HOST|PORT))\}?\x22",
        By("env(\"$1\")"),
        "read an environment variable with `env`",
    ),
    (
        r"\$\{?(HOME|PATH|USER|PWD|SHELL|TMPDIR|LANG|HOSTNAME|EDITOR|CI|[A-Z][A-Z0-9_]*_(?:KEY|TOKEN|URL|HOME|PATH|DIR|HOST|PORT))\}?",
        By("env(\"$1\")"),
        "read an environment variable with `env`",
    ),
    (r"^(\s*)(.*?)\s+2>&1(?:\s*.*)?$", By("${1}shell(\"$2 2>&1\")"), "run a command with `shell`"),
    (r"^(\s*)\[\[?\s+-z\s+\x22?\$(\w+)\x22?\s+\]\]?\s*$", By("$1$2 == \"\""), "an empty string is `\"\"`"),
    (
        r"^(\s*)trap\s+['\x22](.+?)['\x22]\s+\w+\s*$",
        By("${1}defer { shell(\"$2\") }"),
        "`defer { ... }` runs at the end of a block",
    ),
    (r#"^(\s*)(exec|shell)\s+(["'][^"']*["'])\s*$"#, By("$1$2($3)"), "a call needs parentheses"),
    (
        r"^\s*eval\s+.*",
        Fix::None,
        "code in strings cannot be run; run a command with `shell`, or call a closure",
    ),
    (r"^(\s*)set\s+--.*", Fix::None, "the program's arguments are `argv`"),
    (
        r"^(\s*)echo\s+([A-Za-z][\w ,.!?:-]*?)\s*$",
        By("${1}println(\"$2\")"),
        "a call needs parentheses, a string double quotes",
    ),
    (
        r"^(\s*)((?:sudo|gcc|g\+\+|cc|cargo|rustc|go|node|python3?|npx|yarn|pnpm|kubectl|terraform|aws|gcloud|systemctl|apt|apt-get|brew|which|wc|head|tail|sort|uniq|diff|cut|tr|tee|xargs|env|time|watch|du|df|ping|rsync|zip|unzip|gzip|ln|file|stat|java|ruby|perl|bash|sh|exec|command|nohup)\s+[^=(){}\x22]+?)\s*$",
        By("${1}shell(\"$2\")"),
        "run a command with `shell`, a program with `exec`",
    ),
];

fn part<'a>(found: &Captures<'a>, number: usize) -> &'a str {
    found.get(number).map_or("", |group| group.as_str())
}

/// Converts `isinstance(x, (int, str))`, with Harn's names of the types.
fn one_of_types(found: &Captures<'_>) -> String {
    let ours = |name: &str| match name.trim() {
        "str" => "string".to_owned(),
        other => other.to_owned(),
    };
    let names: Vec<String> = part(found, 2).split(',').map(|name| format!("\"{}\"", ours(name))).collect();
    format!("type_of({}) in [{}]", part(found, 1), names.join(", "))
}

/// Converts `with open(p, "w") as f: f.write(text)`.
fn whole_file_written(found: &Captures<'_>) -> String {
    let text = Some(part(found, 3)).filter(|text| !text.is_empty()).unwrap_or("text");
    format!("{}write_file({}, {text})", part(found, 1), part(found, 2))
}

/// Converts `{a, b, c: 1}` to a dict in which every entry has a key.
fn entries(found: &Captures<'_>) -> String {
    let whole =
        |entry: &str| if entry.contains(':') { entry.to_owned() } else { format!("{entry}: {entry}") };
    let entries: Vec<String> = part(found, 2).split(',').map(str::trim).map(whole).collect();
    format!("{}{{{}}}", part(found, 1), entries.join(", "))
}

/// Converts `P {x: 1, ..p}`.
fn updated(found: &Captures<'_>) -> String {
    let own = part(found, 2).trim();
    let comma = if own.is_empty() { "" } else { ", " };
    format!("{}...{}{comma}{own}}}", part(found, 1), part(found, 3))
}

/// Converts `fn f<T: Clone>(x: T) -> T {` to a function with a `where` clause.
fn bounded(found: &Captures<'_>) -> String {
    let name = part(found, 1).rsplit('<').next().unwrap_or_default().trim();
    let bound = part(found, 2).split('+').next().unwrap_or_default().trim();
    format!("{}{}{} where {name}: {bound} {{", part(found, 1), part(found, 3), part(found, 4))
}

/// Converts `int add(int a, int b) {`.
fn function_of_c(found: &Captures<'_>) -> String {
    let parameters: Vec<String> = part(found, 3)
        .split(',')
        .filter_map(|parameter| {
            let name = parameter.rsplit([' ', '*', '&']).next()?.trim_end_matches("[]").trim();
            (!name.is_empty()).then(|| name.to_owned())
        })
        .collect();
    format!("{}fn {}({}) {{", part(found, 1), part(found, 2), parameters.join(", "))
}

/// Converts `cout << "a" << x`.
fn streamed(found: &Captures<'_>) -> String {
    let values: Vec<&str> = part(found, 3).split("<<").map(str::trim).collect();
    let name = if part(found, 2) == "cerr" { "eprintln" } else { "println" };
    format!("{}{name}({})", part(found, 1), values.join(", "))
}

/// Converts `for x in a b c; do`.
fn loop_over_words(found: &Captures<'_>) -> String {
    let value = |word: &str| match word.parse::<i64>() {
        Ok(_) => word.to_owned(),
        Err(_) => format!("\"{word}\""),
    };
    let words: Vec<String> = part(found, 2).split_whitespace().map(value).collect();
    format!("for {} in [{}] {{", part(found, 1), words.join(", "))
}
