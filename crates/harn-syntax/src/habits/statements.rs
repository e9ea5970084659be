//! Statements of single languages that are told by their whole shape. They are asked before all other forms.

use regex::Captures;

use super::form::{
    Mend::{self, By, With},
    Table,
};

/// The table: pattern, replacement, and what to say.
pub(super) const FORMS: Table = &[
    (
        r"^(\s*)(if|while|for|match|guard|\}\s*else\s+if)\b([^{\x22]*?[\w)\]])\s*//\s*([\w(][^{]*\{.*)$",
        By("$1$2$3 / $4"),
        "`//` begins a comment, and what it hides is missing; ints divide without rest by `/`",
    ),
    // Calls and closures.
    (
        r"(^\s*|[=(,:{;!&|+*/<>?\[-]\s*|\b(?:return|in|if|while|match|throw|emit|yield|await)\s+)([\w.]+\((?:(?:[^()\[\]{}]|\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\})*,\s*)?)([A-Za-z_]\w*)\s*:\s*",
        By("$1$2"),
        "arguments have no names: they stand in the order of the parameters, and options in a dict",
    ),
    (
        r"((?:\w\((?:[^()\[\]{}]|\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\})*,|\()\s*|=\s+)([A-Za-z_]\w*)\s*->\s*((?:[^(){},]|\([^()]*\))+)",
        By("$1{ $2 -> $3 }"),
        "a closure is written in braces",
    ),
    (
        r"((?:\w\((?:[^()\[\]{}]|\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\})*,|\()\s*|=\s+)\(\s*([\w\s,]*?)\s*\)\s*->\s*((?:[^(){},]|\([^()]*\))+)",
        By("$1{ $2 -> $3 }"),
        "a closure is written in braces",
    ),
    (
        r"(\bfn\b[^{}]*\))\s*->\s*\{\s*((?:\w+\s+[^\s:?}]|\w+[(.]|\w+\s*[-+*/]?=[^=]).*)$",
        By("$1 { $2"),
        "behind `->` stands the type of the result; without one there is no `->`",
    ),
    (
        r"\breturn\s+((?:[^,()\[\]{};]|\([^()]*\)|\[[^\[\]]*\])+(?:,(?:[^,()\[\]{};]|\([^()]*\)|\[[^\[\]]*\])+?)+?)(\s*(?:[};]|$))",
        By("return [$1]$2"),
        "several values are returned as a list",
    ),
    // Variables.
    (r"(\w[\w.\[\]]*)\s*=([+%])\s*([\w(\x22])", By("$1 $2= $3"), "the operator stands before the `=`"),
    (r#"(["\w)\]])\s*\+\+\s*(["\w(\[])"#, By("$1 + $2"), "texts and lists are put together with `+`"),
    (
        r"\bguard\s+(?:let|var)\s+(\w+)\s*=\s*(.+?)\s*,?\s*else\s*\{",
        By("let $1 = $2; guard $1 != nil else {"),
        "what may be missing is nil, and a name is made by a statement of its own",
    ),
    (
        r"(\bstruct\s+\w+[^{}]*\{[^{}]*?\w)\??\s*(:\s*[^=,{}]+?)\s*=\s*[^,{}]+?(\s*(?:[,}]|$))",
        By("$1?$2$3"),
        "a field has no default: one behind whose name a `?` stands may be missing, and a function can make the struct with others",
    ),
    (
        r"^(\s*)(?:let|var|const)\s+(\w+)!?\s*(?::[^=;]*)?;?\s*$",
        By("${1}var $2 = nil"),
        "a variable begins with a value",
    ),
    (
        r"=\s*<\w+>\s*(\w)",
        By("= $1"),
        "a value is used as what it is, or converted by `to_int`, `to_float`, `to_string`",
    ),
    (r"\b(\d+)n\b", By("$1"), "ints have 64 bits, and no letter behind them"),
    (
        r"((?:[=(:,]|\breturn)\s*)\{\s*((?:\w+(?:\s*:\s*[^{},:]+)?\s*,\s*)+\w+(?:\s*,\s*\w+(?:\s*:\s*[^{},:]+)?)*|\w+(?:\s*,\s*\w+(?:\s*:\s*[^{},:]+)?)+)\s*,?\s*\}",
        With(entries),
        "an entry of a dict is written `key: value`",
    ),
    (
        r"^(\s*)(?:public|private|protected)\s+(\w+)\s*=",
        By("${1}let $2 ="),
        "a variable is declared with `let`, or `var` if it changes",
    ),
    // Functions and modules.
    (
        r"\bfunction\s*\*\s*(\w+)\s*(\([^()]*\))\s*\{",
        By("gen fn $1$2 {"),
        "a function that gives value after value is a `gen fn`; it gives them with `emit`",
    ),
    (
        r"\b(?:func|fun|function|def)\s+(\w+)\s*(<[^<>()]*>)\s*\(",
        By("fn $1$2("),
        "a function is declared with `fn`",
    ),
    (r"(\bimport\s*\{[^{}]*?\b\w+)\s+as\s+\w+", By("$1"), "what a file exports is used by its own names"),
    (
        r"(\b(?:import|let|var)\s*\{[^{}:]*?\w)\s+(\w+)",
        By("$1, $2"),
        "names in braces stand with a comma between them",
    ),
    (
        r#"(^\s*|\{\s*)(description|guidance|namespace|defer_loading|compact|annotations)\s*:\s*(["{tf].*)$"#,
        By("$1$2 $3"),
        "a field of a tool has its value behind a blank, without `:`",
    ),
    (r"\bimport\s+(\w+)\s*,\s*\{\s*([^{}]*?)\s*\}", By("import { $1, $2 }"), "names are imported in braces"),
    (r"\bfor\s+await\s*\(", By("for ("), "every function may wait"),
    (
        r"^\s*(?:abstract|sealed|data)\s+class\b.*",
        Mend::None,
        "records are declared with `struct Name { ... }`, what types have in common with `interface Name { ... }`",
    ),
    (
        r"^\s*(?:namespace|module)\s+\w+.*",
        Mend::None,
        "a file is a module by itself: no line names it, and `pub` marks what others may import",
    ),
    (
        r"^\s*@(?:staticmethod|classmethod|property|dataclass|abstractmethod|override|Override|lru_cache|cache|contextmanager)\b.*",
        Mend::None,
        "there are no decorators: methods stand in `impl Name { ... }`, records are `struct Name { ... }`",
    ),
    // Python.
    (r"^(\s*)'''(.*?)'''\s*$", By("${1}// $2"), "a description is a comment above what it describes"),
    (
        r"^\s*'''.*",
        Mend::None,
        "a description is a comment, `// ...` or `/* ... */`; text of several lines stands between two `\"\"\"`",
    ),
    (
        r"^(\s*)match\s+(.+?)\s*:\s*$",
        By("${1}match $2 {"),
        "the arms of `match` stand in braces, each as `pattern -> { ... }`",
    ),
    (
        r"\bisinstance\(\s*([\w.]+)\s*,\s*\(\s*([\w\s,.]+?)\s*,?\s*\)\s*\)",
        With(one_of_types),
        "`type_of` names the type of a value",
    ),
    (
        r#"^(\s*)with\s+open\(\s*([^,()]+?)\s*,\s*["'][wxa]b?\+?["'][^()]*\)\s+as\s+\w+\s*:\s*(?:\w+\.write\((.*)\))?.*$"#,
        With(whole_file_written),
        "there is no `with`, and a file is written whole",
    ),
    (
        r"^(\s*)with\s+open\(\s*([^,()]+?)\s*(?:,[^()]*)?\)\s+as\s+(\w+)\s*:.*$",
        By("${1}let $3 = read_file($2)"),
        "there is no `with`, and a file is read whole",
    ),
    (
        r"^(\s*)\}?\s*except\s*\([^()]*\)\s*(?:as\s+(\w+)\s*)?:\s*$",
        By("$1} catch ($2) {"),
        "errors are caught with `catch`, whatever they are: `error_category(e)` tells them apart",
    ),
    (
        r"^(\s*)(\w+)\s*,\s*\*(\w+)\s*=\s*(.+)$",
        By("${1}let [$2, ...$3] = $4"),
        "a list is taken apart in brackets, its rest with `...`",
    ),
    (
        r"^\s*import\s+\w+(?:\.\w+)*\s+as\s+\w+\s*$",
        Mend::None,
        "modules of Python are not at hand: a program of it is run with `exec(\"python3\", \"file.py\")`; files of Harn \
         are brought in with `import \"path\"`",
    ),
    (
        r"^(\s*)from\s+([\w.]+)\s+import\s+\*\s*$",
        By("${1}import \"$2\""),
        "`import \"path\"` brings everything",
    ),
    (r#"\bprint\((.+?),\s*file\s*=\s*sys\.stderr\s*\)"#, By("eprintln($1)"), "errors go out with `eprintln`"),
    (
        r"^(\s*)([\w.()]+)\s+if\s+(.+?)\s+else\s+([^\s{}]+)$",
        By("$1$3 ? $2 : $4"),
        "a choice is written `condition ? a : b`",
    ),
    (r"\bin\s+\(([^()]+,[^()]*)\)", By("in [$1]"), "there are no tuples; a list does"),
    (
        r"^\s*async\s+(?:with|for)\b.*",
        Mend::None,
        "every function may wait, so a plain loop does; what is to run at the end of a block stands in `defer { ... }`",
    ),
    (
        r"^(\s*)def\s+__init__\s*\(\s*self\s*,?\s*([^)]*)\).*$",
        Mend::None,
        "a struct is made with its fields, `Name {field: value}`; one that is made otherwise by a function: \
         `fn new_name(x) { return Name {field: x} }`",
    ),
    (r"([\[{]\s*)\*{1,2}(\w+)", By("$1...$2"), "a list or dict is spread with `...`"),
    (r#"^([^(\[{]*"[^"]*")\s+("[^"]*")\s*$"#, By("$1 + $2"), "texts are put together with `+`"),
    // JavaScript.
    (
        r"\bfor\s*\(\s*(?:const|let|var)\s*\[\s*(\w+)\s*,\s*(\w+)\s*\]\s+of\s+(?:Object\.entries\(\s*([\w.]+)\s*\)|([\w.]+?))\s*\)\s*",
        By("for ($1, $2) in $3$4 "),
        "two names stand in parentheses: key and value of a dict; index and value with `.iter().enumerate()`",
    ),
    (
        r"\bfor\s*\(\s*(?:const|let|var)\s*\[\s*(\w+)\s*,\s*(\w+)\s*\]\s+of\s+([\w.]+?)\.entries\(\s*\)\s*\)\s*",
        By("for ($1, $2) in $3.iter().enumerate() "),
        "two names stand in parentheses",
    ),
    (r"\bfor\s*\(\s*;\s*;\s*\)\s*", By("while true "), "a loop without condition is `while true { ... }`"),
    (
        r"\b([\w.]+)\.forEach\(\s*\(?\s*(\w+)\s*\)?\s*=>\s*(?:\{\s*(.*?)\s*;?\s*\}|([^{}]+))\s*\)\s*;?\s*$",
        By("for $2 in $1 { $3$4 }"),
        "a loop gives the items",
    ),
    (
        r"(^|[=(,!]\s*)/([^/\s][^/]*)/[gimsuy]*\.test\(([^()]*)\)",
        By("${1}regex_match(\"$2\", $3) != nil"),
        "a regular expression is text",
    ),
    (
        r"^(\s*)\w+\s*:\s*(for|while|loop)\b",
        By("$1$2"),
        "there are no labels: `break` ends the innermost loop, `return` the function around it",
    ),
    (
        r"\binterface\s+(\w+)\s*\{(\s*\w+\??\s*:)",
        By("struct $1 {$2"),
        "an interface names functions; fields stand in a struct",
    ),
    (r"(\benum\s+\w+\s*\{[^}]*?\w+)\s*=\s*[\w\x22-]+", By("$1"), "a variant has a name and no number"),
    (
        r"(\benum\s+\w+\s*\{[^}]*?\w+)\s*\{([^{}]*)\}",
        By("$1($2)"),
        "what a variant holds stands in parentheses",
    ),
    (
        r"(\b(?:fn|function)\s+\w+\s*\([^()]*?\w+)\?\s*:\s*(\w+)",
        By("$1: $2 | nil"),
        "what may be nil is written with `| nil`",
    ),
    (r"(\b(?:fn|function)\s+\w+\s*\([^()]*\))\s*:\s*void\b", By("$1"), "what gives nothing has no type"),
    (r"\basync\s+(\([\w\s,]*\)|\w+)\s*=>\s*(?:await\s+)?", By("$1 => "), "every function may wait"),
    (
        r"([{,]\s*)(\w+)\s*\(([\w\s,]*)\)\s*\{\s*([^{}]*?)\s*\}",
        By("$1$2: { $3 -> $4 }"),
        "a function in a dict is a closure",
    ),
    (
        r"(\{\s*\.\.\.\w+\s*,\s*)(\w+)(\s*[,}])",
        By("$1$2: $2$3"),
        "an entry of a dict is written `key: value`",
    ),
    (
        r"^(\s*)if\s*(\(.+?\))\s*([^{}]+?)\s*;\s*else\s+([^{}]+?)\s*;?\s*$",
        By("${1}if $2 { $3 } else { $4 }"),
        "a block stands in braces",
    ),
    // Go.
    (
        r"\bfor\s*\(?\s*(?:let\s+|var\s+|int\s+)?(\w+)\s*:?=\s*([^;]+?)\s*;\s*\w+\s*>=\s*([^;]+?)\s*;\s*(?:--\w+|\w+\s*--|\w+\s*-=\s*1)\s*\)?\s*",
        By("for $1 in ($3 to $2).to_list().reverse() "),
        "a loop counts through a range, backwards through one turned round",
    ),
    (
        r"\bfor\s*\(?\s*(?:let\s+|var\s+|int\s+)?(\w+)\s*:?=\s*([^;]+?)\s*;\s*\w+\s*>\s*([^;]+?)\s*;\s*(?:--\w+|\w+\s*--|\w+\s*-=\s*1)\s*\)?\s*",
        By("for $1 in ($3 + 1 to $2).to_list().reverse() "),
        "a loop counts through a range, backwards through one turned round",
    ),
    (
        r"\bfor\s*\(?\s*(?:let\s+|var\s+|int\s+)?(\w+)\s*:?=\s*([^;]+?)\s*;\s*\w+\s*<\s*([^;]+?)\s*;\s*\w+\s*\+=\s*1\s*\)?\s*\{",
        By("for $1 in $2 to $3 exclusive {"),
        "a loop counts through a range",
    ),
    (
        r"\bfor\s*\(?\s*(?:let\s+|var\s+|int\s+)?(\w+)\s*:?=\s*([^;]+?)\s*;\s*([^;]+?)\s*;\s*(\w+\s*[-+*/]=\s*[^){]+?)\s*\)?\s*\{",
        By("var $1 = $2; while $3 {"),
        "a loop with a step is a `while`, and its step the last line of the block",
    ),
    (
        r"\bif\s+_\s*,\s*ok\s*:?=\s*([\w.]+)\[([^\[\]]+)\]\s*;\s*(!?)\s*ok\b",
        By("if $3$1.has($2)"),
        "whether a key is there is told by `has`",
    ),
    (
        r"\bif\s+(\w+)\s*,\s*ok\s*:?=\s*([^;{]+?)\s*;\s*ok\b",
        By("let $1 = $2; if $1 != nil"),
        "what is missing is nil",
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
        "a value is used as what it is; whether it is one is asked with `type_of(value) == \"int\"`",
    ),
    (r"\bfor\s+range\s+(\w+)\s*\{", By("for _ in 0 to $1 exclusive {"), "a loop counts through a range"),
    (
        r"^(\s*)var\s+(\w+)\s+\[\d*\]\w+\s*$",
        By("${1}var $2 = []"),
        "a list is written in brackets, and grows by itself",
    ),
    (
        r"^\s*(?:(?:const|var|import)\s*\(.*|type\s*\(\s*)$",
        Mend::None,
        "declarations stand one by one, each on a line: `let a = 1`, `import \"std/json\"`",
    ),
    // Rust.
    (r"\bstruct\s+(\w+)\s*;", By("struct $1 { }"), "a struct has braces, also without fields"),
    (
        r"((?::|->|<|&)\s*)\[\s*(\w+)\s*;\s*\w+\s*\]",
        By("${1}list<$2>"),
        "a list has a type of items and no fixed length",
    ),
    (
        r"(?:\bvec!)?\[\s*([^\[\];]+?)\s*;\s*([^\[\];]+?)\s*\]",
        By("(0 to $2 exclusive).map({ _ -> $1 }).to_list()"),
        "a list of equal items is made from a range",
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
    (r"(\w+\s*\{)([^{}]*?),?\s*\.\.\s*(\w+)\s*\}", With(updated), "what stays is spread in front"),
    (
        r"^(\s*)let\s+[A-Z]\w*\s*(\{[^{}]*\})\s*=",
        By("${1}let $2 ="),
        "fields are taken apart in braces, without the name of the struct",
    ),
    (
        r"(\bfn\s+\w+\s*<\s*\w+)\s*:\s*([\w+\s]+?)(\s*[,>].*?\))(\s*->\s*[\w<>]+)?\s*\{",
        With(bounded),
        "what a type must have stands behind `where`",
    ),
    (r"\bBox<\s*dyn\s+[\w:]+\s*>", By("any"), "what may be anything has no type, or `any`"),
    (
        r"\b(\d+(?:\.\d+)?)_?(?:[iu](?:8|16|32|64|128|size)|f32|f64)\b",
        By("$1"),
        "a number has no type behind it",
    ),
    (
        r"^\s*extern\s+crate\b.*",
        Mend::None,
        "packages are added with `harn add`, and brought in with `import \"path\"`",
    ),
    // C and its relatives.
    (
        r"^(\s*)(?:(?:public|private|protected|static|final)\s+)*(?:void|int|long|float|double|bool|boolean|char|string|String)\s+(\w+)\s*\(([^()]*)\)\s*\{",
        With(function_of_c),
        "a function is declared with `fn`, the types behind the names",
    ),
    (
        r"^(\s*)(?:int|long|char|float|double|bool|boolean|string|String)\s+(\w+)\s*;?\s*$",
        By("${1}var $2 = nil"),
        "a variable begins with a value",
    ),
    (
        r"^(\s*)(?:std::)?(cout|cerr)\s*<<\s*(.+?)(?:\s*<<\s*(?:std::)?endl)?\s*;?\s*$",
        With(streamed),
        "a value is printed by a call",
    ),
    (
        r"^\s*#\s*define\s+(\w+)\s+(.+?)\s*$",
        By("let $1 = $2"),
        "a variable that never changes is declared with `let`",
    ),
    (r"^(\s*)(?:void|int)\s+(\w+\s*\(.*\)\s*;?)\s*$", By("$1$2"), "a call stands alone"),
    (r"(\w)->(\w)", By("$1.$2"), "fields and methods are named with `.`"),
    (
        r"^(\s*)foreach\s*\(\s*\$?(\w+)\s+as\s+\$?(\w+)\s*\)\s*",
        By("${1}for $3 in $2 "),
        "a loop gives the items",
    ),
    (
        r"^(\s*)foreach\s*\(\s*(?:var|auto|\w+)\s+(\w+)\s+in\s+([^()]+)\)\s*",
        By("${1}for $2 in $3 "),
        "a loop gives the items",
    ),
    (
        r"\b([\w.]+)\.each\s+do\s*\|\s*(\w+)\s*\|",
        By("for $2 in $1 {"),
        "a loop gives the items, its block stands in braces",
    ),
    (r"(\S+)\s*~=\s*(\S+)", By("$1 != $2"), "values are compared with `!=`"),
    // Bits.
    (
        r"(\w+)\s*(?:<<|>>>?|\^|&|\|)=\s*\S.*",
        Mend::None,
        "there are no operators for bits: `x = x * 2 ** n` shifts to the left, `x = x / 2 ** n` to the right",
    ),
    (
        r"(\w+|\([^()]*\))\s*>>>?\s*(\w+)",
        By("$1 / 2 ** $2"),
        "there are no operators for bits: `x * 2 ** n` shifts to the left, `x / 2 ** n` to the right",
    ),
    (
        r"(\w+|\([^()]*\))\s*<<\s*(\w+)",
        By("$1 * 2 ** $2"),
        "there are no operators for bits: `x * 2 ** n` shifts to the left, `x / 2 ** n` to the right",
    ),
    (
        r"(^|[=(,\[+*/&|:-]\s*|\breturn\s+)~\s*(\w+)",
        By("$1(-$2 - 1)"),
        "there are no operators for bits: `-x - 1` turns all of them round",
    ),
    // A shell.
    (r"^(\s*)(?:declare|typeset)\s+-A\s+(\w+)\s*$", By("${1}var $2 = {}"), "a dict is written in braces"),
    (
        r"^(\s*)(?:declare|typeset|readonly)\s+(?:-\w+\s+)*(\w+)=(\S.*)$",
        By("${1}let $2=$3"),
        "a variable is declared with `let`, or `var` if it changes",
    ),
    (
        r"\bfor\s+(\w+)\s+in\s+([\w./-]+(?:\s+[\w./-]+)+)\s*;?\s*(?:do\b.*)?$",
        With(loop_over_words),
        "a list stands in brackets, its items between commas",
    ),
    (r"\bwhile\s+(true|:)\s*;\s*do\b.*$", By("while true {"), "a block stands in braces"),
    (
        r"^(\s*)([\w./*-]+)\)\s+(.+?)\s*;;\s*$",
        Mend::None,
        "an arm of `match` is written `\"a\" -> { ... }`, the last one `_ -> { ... }`",
    ),
    (r"^(\s*)(\w+)=\$\(\(\s*(.+?)\s*\)\)\s*$", By("${1}let $2 = $3"), "numbers are reckoned as they stand"),
    (r"^(\s*)echo\s+-n\s+([^\x22$]+?)\s*$", By("${1}print(\"$2\")"), "without a new line it is `print`"),
    (r"^(\s*)echo\s+\$\{#(\w+)\}\s*$", By("${1}println(len($2))"), "the length is `len(value)`"),
    (r"^(\s*)echo\s+\$\{(\w+)\[(\w+)\]\}\s*$", By("${1}println($2[$3])"), "names stand without `$`"),
    (
        r"^(\s*)echo\s+\$\{(\w+)%(?:%?)([^}*]+)\}\s*$",
        By("${1}println($2.replace(\"$3\", \"\"))"),
        "text is changed by its methods",
    ),
    (
        r"^(\s*)echo\s+\$\{(\w+)//?([^/}]+)/([^/}]*)\}\s*$",
        By("${1}println($2.replace(\"$3\", \"$4\"))"),
        "text is changed by its methods",
    ),
    (r"^(\s*)echo\s+\$\{(\w+)\[[@*]\]\}\s*$", By("${1}println($2.join(\" \"))"), "the list joins its items"),
    (
        r"\x22\$\{?(HOME|PATH|USER|PWD|SHELL|TMPDIR|LANG|HOSTNAME|EDITOR|CI|[A-Z][A-Z0-9_]*_(?:KEY|TOKEN|URL|HOME|PATH|DIR|HOST|PORT))\}?\x22",
        By("env(\"$1\")"),
        "a variable of the environment is read with `env`",
    ),
    (
        r"\$\{?(HOME|PATH|USER|PWD|SHELL|TMPDIR|LANG|HOSTNAME|EDITOR|CI|[A-Z][A-Z0-9_]*_(?:KEY|TOKEN|URL|HOME|PATH|DIR|HOST|PORT))\}?",
        By("env(\"$1\")"),
        "a variable of the environment is read with `env`",
    ),
    (r"^(\s*)(.*?)\s+2>&1(?:\s*.*)?$", By("${1}shell(\"$2 2>&1\")"), "a command is run with `shell`"),
    (r"^(\s*)\[\[?\s+-z\s+\x22?\$(\w+)\x22?\s+\]\]?\s*$", By("$1$2 == \"\""), "an empty text is `\"\"`"),
    (
        r"^(\s*)trap\s+['\x22](.+?)['\x22]\s+\w+\s*$",
        By("${1}defer { shell(\"$2\") }"),
        "`defer { ... }` runs at the end of a block",
    ),
    (
        r#"^(\s*)(exec|shell)\s+(["'][^"']*["'])\s*$"#,
        By("$1$2($3)"),
        "the arguments of a call stand in parentheses",
    ),
    (
        r"^\s*eval\s+.*",
        Mend::None,
        "text is not run as a program; a command is run with `shell`, a closure is called by its name",
    ),
    (r"^(\s*)set\s+--.*", Mend::None, "the arguments of the program are `argv`"),
    (
        r"^(\s*)echo\s+([A-Za-z][\w ,.!?:-]*?)\s*$",
        By("${1}println(\"$2\")"),
        "the arguments of a call stand in parentheses, text in double quotes",
    ),
    (
        r"^(\s*)((?:sudo|gcc|g\+\+|cc|cargo|rustc|go|node|python3?|npx|yarn|pnpm|kubectl|terraform|aws|gcloud|systemctl|apt|apt-get|brew|which|wc|head|tail|sort|uniq|diff|cut|tr|tee|xargs|env|time|watch|du|df|ping|rsync|zip|unzip|gzip|ln|file|stat|java|ruby|perl|bash|sh|exec|command|nohup)\s+[^=(){}\x22]+?)\s*$",
        By("${1}shell(\"$2\")"),
        "a command is run with `shell`, a program with `exec`",
    ),
];

fn part<'a>(found: &Captures<'a>, number: usize) -> &'a str {
    found.get(number).map_or("", |group| group.as_str())
}

/// `isinstance(x, (int, str))` with the names that types have here.
fn one_of_types(found: &Captures<'_>) -> String {
    let ours = |name: &str| match name.trim() {
        "str" => "string".to_owned(),
        other => other.to_owned(),
    };
    let names: Vec<String> = part(found, 2).split(',').map(|name| format!("\"{}\"", ours(name))).collect();
    format!("type_of({}) in [{}]", part(found, 1), names.join(", "))
}

/// `with open(p, "w") as f: f.write(text)`.
fn whole_file_written(found: &Captures<'_>) -> String {
    let text = Some(part(found, 3)).filter(|text| !text.is_empty()).unwrap_or("text");
    format!("{}write_file({}, {text})", part(found, 1), part(found, 2))
}

/// `{a, b, c: 1}` with the names of all entries.
fn entries(found: &Captures<'_>) -> String {
    let whole =
        |entry: &str| if entry.contains(':') { entry.to_owned() } else { format!("{entry}: {entry}") };
    let entries: Vec<String> = part(found, 2).split(',').map(str::trim).map(whole).collect();
    format!("{}{{{}}}", part(found, 1), entries.join(", "))
}

/// `P {x: 1, ..p}`.
fn updated(found: &Captures<'_>) -> String {
    let own = part(found, 2).trim();
    let comma = if own.is_empty() { "" } else { ", " };
    format!("{}...{}{comma}{own}}}", part(found, 1), part(found, 3))
}

/// `fn f<T: Clone>(x: T) -> T {` with the bound at its end.
fn bounded(found: &Captures<'_>) -> String {
    let name = part(found, 1).rsplit('<').next().unwrap_or_default().trim();
    let bound = part(found, 2).split('+').next().unwrap_or_default().trim();
    format!("{}{}{} where {name}: {bound} {{", part(found, 1), part(found, 3), part(found, 4))
}

/// `int add(int a, int b) {`.
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

/// `cout << "a" << x`.
fn streamed(found: &Captures<'_>) -> String {
    let values: Vec<&str> = part(found, 3).split("<<").map(str::trim).collect();
    let name = if part(found, 2) == "cerr" { "eprintln" } else { "println" };
    format!("{}{name}({})", part(found, 1), values.join(", "))
}

/// `for x in a b c; do`.
fn loop_over_words(found: &Captures<'_>) -> String {
    let value = |word: &str| match word.parse::<i64>() {
        Ok(_) => word.to_owned(),
        Err(_) => format!("\"{word}\""),
    };
    let words: Vec<String> = part(found, 2).split_whitespace().map(value).collect();
    format!("for {} in [{}] {{", part(found, 1), words.join(", "))
}
