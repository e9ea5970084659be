//! Syntax forms shared by several other languages, with their Harn equivalents.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::form::{
    Fix::{self, By, With},
    Table,
};

/// The table: pattern, replacement, and explanation.
pub(super) const FORMS: Table = &[
    // Loops.
    (
        r"\bfor\s*\(\s*(?:let|var|const|int|auto)?\s*(\w+)\s*:?=\s*([^;]+);\s*\w+\s*<=\s*([^;]+);[^)]*\)\s*",
        By("for $1 in $2 to $3 "),
        "loop over a range",
    ),
    (
        r"\bfor\s*\(\s*(?:let|var|const|int|auto)?\s*(\w+)\s*:?=\s*([^;]+);\s*\w+\s*<\s*([^;]+);[^)]*\)\s*",
        By("for $1 in $2 to $3 exclusive "),
        "loop over a range",
    ),
    (
        r"\bfor\s+(\w+)\s*:?=\s*([^;]+);\s*\w+\s*<=?\s*([^;]+);[^{]*",
        By("for $1 in $2 to $3 exclusive "),
        "loop over a range",
    ),
    (
        r"\bfor\s*\(\s*(?:let|var|const|auto)\s+(\w+)\s+(?:of|in)\s+([^)]+)\)\s*",
        By("for $1 in $2 "),
        "a loop has no parentheses and no `let`",
    ),
    (r"\bfor\s*\(\s*(\w+)\s+in\s+([^)]+)\)\s*", By("for $1 in $2 "), "a loop has no parentheses"),
    (r"\bfor\s+(\w+)\s+of\s+", By("for $1 in "), "write a loop with `in`"),
    (
        r"\bfor\s+(\w+)\s*,\s*(\w+)\s+in\s+enumerate\((.+?)\)\s*:\s*(.+)$",
        By("for ($1, $2) in $3.iter().enumerate() { $4 }"),
        "two loop variables need parentheses, a block needs braces",
    ),
    (
        r"\bfor\s+(\w+)\s*,\s*(\w+)\s+in\s+enumerate\((.+?)\)\s*:?\s*",
        By("for ($1, $2) in $3.iter().enumerate() "),
        "two loop variables need parentheses",
    ),
    (
        r"\bfor\s+(\w+)\s*,\s*(\w+)\s+in\s+([^:{]+?)(?:\.items\(\))?\s*:\s*$",
        By("for ($1, $2) in $3 {"),
        "two loop variables need parentheses, a block needs braces",
    ),
    (
        r"\bfor\s+(\w+)\s*,\s*(\w+)\s*(?:in|:=\s*range)\s+",
        By("for ($1, $2) in "),
        "two loop variables need parentheses: key and value of a dict; index and value with `.iter().enumerate()`",
    ),
    (r"\bfor\s*\{(.*)$", By("while true {$1"), "write an endless loop as `while true { ... }`"),
    (r"\bspawn\s*\(\s*\{", Fix::None, "a block follows `spawn`: `spawn { ... }`"),
    (r"\bloop\s*\{", By("while true {"), "write an endless loop as `while true { ... }`"),
    (
        r"\bfor\s+(\w+)\s+in\s+range\(([^,()]+)\)\s*:\s*(.+)$",
        By("for $1 in 0 to $2 exclusive { $3 }"),
        "a block needs braces",
    ),
    (r"(\w+)\s*\.\.=\s*(\w+)", By("$1 to $2"), "write a range that includes its end with `to`"),
    (
        r"(\w+)\s*\.\.\.?\s*(\w+)",
        By("$1 to $2 exclusive"),
        "write a range with `to`; `exclusive` leaves out its end",
    ),
    // Blocks.
    (r"\bwhile\s+(.+?)\s+do\b\s*(\{?)", By("while $1 {"), "write `while condition { ... }`, without `do`"),
    (r"\buntil\s+(.+?)\s*\{", By("while !($1) {"), "there is no `until`"),
    (r"\bunless\s+(.+?)\s*\{", By("if !($1) {"), "write `if !condition { ... }`"),
    (r"\}?\s*\b(?:elif|elsif|elseif)\s+(.+?)\s*\{", By("} else if $1 {"), "write `else if`"),
    (r"\}?\s*\b(?:elif|elsif|elseif)\s+(.+?)\s*(?::|then)?\s*$", By("} else if $1 {"), "write `else if`"),
    (
        r"\b(?:fn|function)\s*\*\s*(\w+)",
        By("gen fn $1"),
        "a generator function is a `gen fn` and yields values with `emit`",
    ),
    (
        r"\b(?:def|func|fun|function|sub)\s+(\w+)\s*\(([^)]*)\)\s*(?:->\s*[\w\[\]]+\s*)?:?\s*$",
        By("fn $1($2) {"),
        "declare functions with `fn`",
    ),
    (r"\b(?:def|func|fun|function|sub)\s+(\w+)\s*\(", By("fn $1("), "declare functions with `fn`"),
    (
        r"\bfunction\s*\(([\w, ]*)\)\s*\{",
        By("fn($1) {"),
        "write an anonymous function as `fn(x) { ... }` or `{ x -> ... }`",
    ),
    (
        r"\bif\s+\[\[?\s*(.+?)\s*\]\]?\s*;\s*then\b",
        By("if $1 {"),
        "a condition needs no brackets, a block needs braces",
    ),
    (
        r"=\s*if\s+(.+?)\s+then\s+(.+?)\s+else\s+(.+)$",
        By("= if $1 { $2 } else { $3 }"),
        "the branches of `if` need braces",
    ),
    (r"\bif\s+(.+?)\s+then\b", By("if $1 {"), "a block needs braces"),
    (
        r"^(\s*)with\s+(.+?)\s+as\s+(\w+)\s*[:{].*$",
        By("${1}let $3 = $2"),
        "there is no `with`; read whole files with `read_file`, and clean up in `defer { ... }`",
    ),
    (r"\btype\(", By("type_of("), "the type's name is `type_of(value)`"),
    (r"(:\s*)[Ll]ist\[(\w+)\]", By("${1}list<$2>"), "type parameters are written in `<` and `>`"),
    (r"(:\s*|->\s*)([A-Za-z]\w*)\[\]", By("${1}list<$2>"), "write a list type as `list<...>`"),
    (r"\bOptional\[([\w.]+)\]", By("$1 | nil"), "write a type that includes nil with `| nil`"),
    (
        r"(:\s*|->\s*)([A-Za-z]\w*(?:<[^<>?]*>)?)\?(\s*(?:[,)={}]|$))",
        By("$1$2 | nil$3"),
        "write a type that includes nil with `| nil`",
    ),
    (
        r"(:\s*)(?:[Dd]ict|[Mm]ap)\[(\w+),\s*(\w+)\]",
        By("${1}dict<$2, $3>"),
        "type parameters are written in `<` and `>`",
    ),
    (r"(\w+)\[::-1\]", By("$1.reverse()"), "reverse a list or string with `reverse()`"),
    (
        r"(\w+)\[([^\[\]:]*):([^\[\]:]*):[^\[\]:]+\]",
        By("$1[$2:$3]"),
        "a slice has no step; take every n-th item with `xs.chunk(n).map({ part -> part[0] })`",
    ),
    (r"===", By("=="), "compare values with `==`"),
    (r"!==", By("!="), "compare values with `!=`"),
    (r"\b(if|while)\s+let\s+Some\((\w+)\)\s*=\s*([^{]+?)\s*\{", With(some_or_nil), "a missing value is nil"),
    (
        r"\b(if|while)\s+(?:let|var|const)\s+(\w+)\s*=\s*([^{=][^{]*?)\s*\{",
        With(some_or_nil),
        "declare the variable in a separate statement",
    ),
    (r"^(\s*)(if|while)\s*\((.+)\)\s*:\s*$", By("$1$2 $3 {"), "a block needs braces"),
    (
        r"^(\s*)((?:if|while|for)\b.+?|else|try|finally):\s*$",
        By("$1$2 {"),
        "a block needs braces and ends with `}`",
    ),
    (
        r"^(\s*)((?:.*;\s*)?(?:if|while|for)\b.+?|else|try|finally):\s+(.+)$",
        By("$1$2 { $3 }"),
        "a block needs braces",
    ),
    (
        r"\}?\s*\bexcept\s+(?:\w+\s+as\s+)?(\w+)\s*:?\s*\{?\s*",
        By("} catch ($1) { "),
        "catch errors with `catch`",
    ),
    (r"\}?\s*\bexcept\s*:?\s*\{?\s*", By("} catch (e) { "), "catch errors with `catch`"),
    (
        r"\bcatch\s*\(\s*(?:const\s+)?(?:\w+\s+)(\w+)\s*\)",
        By("catch ($1)"),
        "write the name of the error alone, or with a type: `catch (e: Type)`",
    ),
    (
        r"^(\s*)(if|while)\s*(\(.+?\))\s+([^{\s&|=!<>+*/%?.-].*)$",
        By("$1$2 $3 { $4 }"),
        "a block needs braces",
    ),
    (
        r"\bdo\s*\{(.*)\}\s*while\s*\(?(.+?)\)?\s*;?\s*$",
        By("while true { $1; if !($2) { break } }"),
        "there is no `do`",
    ),
    (r"\bswitch\s*\(?(.+?)\)?\s*\{", By("match $1 {"), "write `match value { pattern -> { ... } }`"),
    (r"\bselect\s*\{.*", Fix::None, "write a case of `select` as `value from channel { ... }`"),
    (r"\bdeadline\s*\{.*", Fix::None, "the limit comes before the block: `deadline 2s { ... }`"),
    (
        r"\b(deadline|retry)\s+([^({][^{]*?[-+*/%][^{]*?)\s*\{",
        By("$1 ($2) {"),
        "an expression here needs parentheses",
    ),
    (r"\bretry\s*\{.*", Fix::None, "the number of attempts comes before the block: `retry 3 { ... }`"),
    (
        r"\btry\s+([^{\s*][^{]*?)\s+(?:catch|else)\s+([^{]+)$",
        By("unwrap_or(try { $1 }, $2)"),
        "`try` takes a block",
    ),
    (
        r"=\s*(\S[^{]*?)\s+catch\s+([^{]+)$",
        By("= unwrap_or(try { $1 }, $2)"),
        "catch an error around a block",
    ),
    (r"\btry\s+([^{\s*][^{]*)$", By("try { $1 }"), "`try` takes a block"),
    (
        r"\b(break|continue)\s+\S+",
        By("$1"),
        "`break` and `continue` apply to the innermost loop and take no value",
    ),
    (r"\bgoto\s+\w+", Fix::None, "there is no `goto`: use loops, functions and `return`"),
    // Match arms.
    (r"\b(?:case\s+)?([^\s{]+)\s*=>\s*\{", By("$1 -> {"), "write an arm as `pattern -> { ... }`"),
    (
        r"(\bmatch\b[^{]*\{.*?)([^\s{,]+)\s*=>\s*([^{},]+?)\s*([,}]|$)",
        By("$1$2 -> { $3 } $4"),
        "write an arm as `pattern -> { ... }`",
    ),
    (
        r"(\bmatch\b[^{]*\{.*?)([^\s{,]+)\s*:\s*([^{},]+?)\s*([,}]|$)",
        By("$1$2 -> { $3 } $4"),
        "write an arm as `pattern -> { ... }`",
    ),
    (r"(?:case|when)\s+(.+?)\s*(?:->|:)\s*", By("$1 -> "), "write an arm as `pattern -> { ... }`"),
    (
        r"\b(?:default|else|otherwise)\s*(?:->|=>|:)\s*",
        By("_ -> "),
        "the last arm of `match` is `_ -> { ... }`",
    ),
    (r"(->\s*\{[^{}]*\})\s*,(\s*)$", By("$1$2"), "the arms of `match` have no commas"),
    (r"->\s*([^{},\s][^{},]*?)\s*,", By("-> { $1 }"), "the body of an arm needs braces"),
    (r"->\s*([^{},\s][^{},]*?)\s*(\}|$)", By("-> { $1 } $2"), "the body of an arm needs braces"),
    (r"(\w+)\s*(&&|\|\||\?\?|\*\*)=\s*(.+)", By("$1 = $1 $2 $3"), "write this assignment in full"),
    // Schemas.
    (
        r"(\b(?:output_)?schema:)\s*(\w+<.+>)",
        By("$1 schema_of($2)"),
        "the schema of a type without a name is `schema_of(list<Item>)`",
    ),
    // Closures.
    (
        r"\{\s*\(\s*(\w+(?:\s*,\s*\w+)+)\s*\)\s*->",
        By("{ [$1] ->"),
        "a closure destructures a list in brackets; a pair has `first` and `second`",
    ),
    (
        r"(\.\w+)\s*\{\s*(\w+(?:\s*,\s*\w+)*\s*->[^{}]*)\}",
        By("$1({ $2})"),
        "a closure is an argument and needs parentheses",
    ),
    (r"\|\s*([\w, ]*?)\s*\|\s*\{\s*(.*?)\s*\}", By("{ $1 -> $2 }"), "write closures in braces"),
    (r"\|\s*([\w, ]*?)\s*\|\s*([^,(){}]+(?:\([^()]*\))?)", By("{ $1 -> $2 }"), "write closures in braces"),
    (r"\{\s*([\w, ]+?)\s*=>\s*(.*?)\s*\}", By("{ $1 -> $2 }"), "write closures with `->`"),
    (
        r"\(\s*([\w, ]*?)\s*\)\s*=>\s*\{\s*(.*?)\s*\}",
        By("{ $1 -> $2 }"),
        "write closures in braces, with `->`",
    ),
    (
        r"\(\s*([\w, ]*?)\s*\)\s*=>\s*([^,(){}]+(?:\([^()]*\))?)",
        By("{ $1 -> $2 }"),
        "write closures in braces, with `->`",
    ),
    (r"\b(\w+)\s*=>\s*\{\s*(.*?)\s*\}", By("{ $1 -> $2 }"), "write closures in braces, with `->`"),
    (r"\b(\w+)\s*=>\s*([^,(){}]+(?:\([^()]*\))?)", By("{ $1 -> $2 }"), "write closures in braces, with `->`"),
    (
        r"\blambda\s*([\w, ]*?)\s*:\s*([^,(){}]+(?:\([^()]*\))?)",
        By("{ $1 -> $2 }"),
        "write closures in braces",
    ),
    (r"\blambda\b", Fix::None, "write a closure as `{ x -> x + 1 }`"),
    // Comprehensions.
    (
        r"\[\s*(.+?)\s+for\s+(\w+)\s+in\s+(.+?)\s+if\s+(.+)\]",
        By("$3.filter({ $2 -> $4 }).map({ $2 -> $1 })"),
        "create a list from another with `filter` and `map`",
    ),
    (
        r"\[\s*(.+?)\s+for\s+(\w+)\s+in\s+(.+)\]",
        By("$3.map({ $2 -> $1 })"),
        "create a list from another with `map`",
    ),
    (
        r"\{\s*(\w+)\s*:\s*(.+?)\s+for\s+(\w+)\s+in\s+(.+?)\}",
        By("iter($4).map({ $3 -> pair($1, $2) }).to_dict()"),
        "create a dict from a list of pairs",
    ),
    (
        r"\(\s*(.+?)\s+for\s+(\w+)\s+in\s+([^()]+)\)",
        By("($3.map({ $2 -> $1 }))"),
        "create a list from another with `map`",
    ),
    // Strings.
    (r#"(^|[^\w"])[fF]"((?:[^"\\]|\\.)*)""#, With(interpolated), "every string can contain `${...}`"),
    (
        r#"(^|[^\w"])[bu]"((?:[^"\\]|\\.)*)""#,
        By("$1\"$2\""),
        "strings have no prefix; bytes come from `bytes_from_string`",
    ),
    (r#"(["\w)\]])\s+\.\s+(["\w(])"#, By("$1 + $2"), "concatenate strings with `+`"),
    // Operators.
    (r"(\S+)\s+is\s+not\s+(\S+)", By("$1 != $2"), "compare values with `==` and `!=`"),
    (r"(\S+)\s+(?:isnt|ne)\s+(\S+)", By("$1 != $2"), "compare values with `==` and `!=`"),
    (
        r"(\S+)\s+(?:is|eq)\s+(int|float|string|bool|list|dict)\b",
        By("type_of($1) == \"$2\""),
        "`type_of` names the type of a value",
    ),
    (r"(\S+)\s+(?:is|eq)\s+(\S+)", By("$1 == $2"), "compare values with `==`"),
    (r"(\S+)\s+instanceof\s+(\w+)", By("type_of($1) == \"$2\""), "`type_of` names the type of a value"),
    (r"\btypeof\s+(\w+)", By("type_of($1)"), "`type_of` names the type of a value"),
    (r"(\w)<>(\s*(?:[({=,)]|$))", By("$1$2"), "this type takes no type parameters"),
    (r"<>", By("!="), "compare values with `!=`"),
    (r"(\S+)\s*<=>\s*(\S+)", Fix::None, "there is no `<=>`: sort with a key, `xs.sort_by({ x -> x.key })`"),
    (r"\bnot\s+(\w+|\([^()]*\))\s+in\b", By("$1 not in"), "write `x not in xs`"),
    (r"(\S+)\s+!in\b", By("$1 not in"), "write `x not in xs`"),
    (r"\bnot\s+", By("!"), "write `!` for not"),
    (r"\s+and\s+", By(" && "), "write `&&` for and"),
    (r"\s+or\s+", By(" || "), "write `||` for or"),
    (r"(\w+)\s*\+\+|\+\+(\w+)", By("$1$2 += 1"), "increment with `+= 1`"),
    (r"(\w+)\s*--", By("$1 -= 1"), "decrement with `-= 1`"),
    (r"\b(if|while)\s+([^{]*?[^=!<>{])=([^=>{][^{]*)", By("$1 $2==$3"), "`=` assigns, `==` compares"),
    (r"\?:", By("??"), "write a default for nil with `??`"),
    (r"\?\.\[", By("?["), "access an element that may be missing with `xs?[0]`"),
    (
        r"\?\.\(",
        By("("),
        "`?` works on fields, methods and elements only: `x?.name`, `x?.method()`, `xs?[0]`",
    ),
    (r"\?\?\(|(\w)!\.", By("$1?."), "access a value that may be nil with `?.`"),
    (r"(\S+)\s*\^\s*(\S+)", By("$1 ** $2"), "write powers with `**`"),
    (r"(\S+)\s+&\s+(\S+)", By("$1 && $2"), "write `&&` for and; there are no bitwise operators"),
    (r"(\S+)\s+(<<|>>)\s+(\S+)", Fix::None, "there are no bitwise operators: shift left with `x * 2 ** n`"),
    (
        r"=\s*([^=;]+?)\s+if\s+(.+?)\s+else\s+(.+)$",
        By("= $2 ? $1 : $3"),
        "write a conditional as `condition ? a : b`",
    ),
    (
        r"\breturn\s+(.+?)\s+if\s+(.+?)\s+else\s+(.+)$",
        By("return $2 ? $1 : $3"),
        "write a conditional as `condition ? a : b`",
    ),
    (r"^(\s*)(\S.*?)\s+if\s+([^{}]+)$", By("${1}if $3 { $2 }"), "the condition comes first"),
    (r"^(\s*)(\S.*?)\s+unless\s+([^{}]+)$", By("${1}if !($3) { $2 }"), "the condition comes first"),
    (
        r"(\w+(?:\.\w+)*|\([^()]*\)|\x22[^\x22]*\x22)\s+as\s+(int|float|string|bool|list|dict|set)\b",
        By("to_$2($1)"),
        "convert values with functions",
    ),
    // Declarations.
    (r"^(\s*)let\s+mut\s+", By("${1}var "), "declare variables that change with `var`"),
    (r"\b(let|var)\s+(\w+)\s*:=\s*", By("$1 $2 = "), "write `=`"),
    (
        r"(^|;)(\s*)(\w+)\s*:=\s*(.+)$",
        By("$1${2}let $3 = $4"),
        "declare variables with `let`, or `var` if they change, and assign with `=`",
    ),
    (
        r"^(\s*)(\w+)\s*:\s*([\w\[\]<>, |]+?)\s*=\s*(.+)$",
        By("${1}let $2: $3 = $4"),
        "declare variables with `let`, or `var` if they change",
    ),
    (
        r"^(\s*)(?:static|final|const|val|local|my|auto|dim|readonly)\s+(?:(?:int|float|string|String|double|bool)\s+)?(\w+)\s*=\s*",
        By("${1}let $2 = "),
        "declare variables with `let`, or `var` if they change",
    ),
    (
        r"^(\s*)(?:int|long|i32|i64|u32|u64|usize)\s+(\w+)\s*=",
        By("${1}let $2: int ="),
        "the type follows the name",
    ),
    (r"^(\s*)(?:float|double|f32|f64)\s+(\w+)\s*=", By("${1}let $2: float ="), "the type follows the name"),
    (r"^(\s*)(?:string|String|str)\s+(\w+)\s*=", By("${1}let $2: string ="), "the type follows the name"),
    (r"^(\s*)(?:bool|boolean)\s+(\w+)\s*=", By("${1}let $2: bool ="), "the type follows the name"),
    (r"^(\s*)var\s+(\w+)\s+(int|float|string|bool)\s*=", By("${1}var $2: $3 ="), "the type follows a colon"),
    (
        r"^(\s*)(?:let|var|const)?\s*(\w+)\s*,\s*(\w+)\s*:?=\s*(\[.+\])\s*$",
        By("${1}let [$2, $3] = $4"),
        "destructure a list with brackets",
    ),
    (
        r"^(\s*)(?:let|var|const)?\s*(\w+)\s*,\s*(\w+)\s*:?=\s*([^,]+),\s*(.+)$",
        By("${1}let [$2, $3] = [$4, $5]"),
        "destructure several values as a list",
    ),
    (
        r"^(\s*)(?:let|var|const)?\s*(\w+)\s*,\s*(\w+)\s*:?=\s*(.+)$",
        By("${1}let [$2, $3] = $4"),
        "destructure a list with brackets",
    ),
    (
        r"^(\s*)const\s+(\{[^}]*\}|\[[^\]]*\])\s*=",
        By("${1}let $2 ="),
        "declare variables with `let`, or `var` if they change",
    ),
    (
        r"^(\s*)(let|var)\s+(\w+)\s*=\s*([^,()\[\]{}]+),\s*(\w+)\s*=\s*([^,()\[\]{}]+)$",
        By("${1}$2 $3 = $4; $2 $5 = $6"),
        "declare each variable separately",
    ),
    (r"^(\s*)const\s+(\w+)\s*:\s*\w+\s*=", By("${1}let $2 ="), "declare constants with `let`"),
    (r"^(\s*)var\s+(\w+)\s+map\[.*$", By("${1}var $2 = {}"), "create a dict with its entries"),
    (
        r"^\s*(?:global|nonlocal)\s+\w+",
        Fix::None,
        "a function can assign outer variables: declare them with `var`",
    ),
    (
        r"\b(let|var)\s*\(([^()]+)\)\s*=\s*(?:pair)?\(([^()]+)\)",
        By("$1 [$2] = [$3]"),
        "there are no tuples: use a list and destructure it with brackets",
    ),
    (
        r"\b(let|var)\s*\(([^()]+)\)\s*=",
        By("$1 [$2] ="),
        "destructure a list with brackets; a pair has `.first` and `.second`",
    ),
    (r"=\s*\(([^()]+,[^()]*)\)", By("= [$1]"), "there are no tuples: use a list"),
    (r#"("[^"]*")\s*=>\s*"#, By("$1: "), "write dict entries as `key: value`"),
    (r"([{,]\s*\w+\s*:\s*[^;{}]+);", By("$1,"), "separate dict entries with `,`"),
    (r"=\s*([^=,;()\[\]{}]+,[^=;()\[\]{}]+)$", By("= [$1]"), "write several values as a list"),
    (r"\breturn\s+([^,()\[\]{}]+,[^()\[\]{}]+)$", By("return [$1]"), "return several values as a list"),
    (
        r"\bfn\s+\w+\s*\([^)]*\b(?:int|float|string|bool|list|dict)\s+\w+[^)]*",
        With(typed_parameters),
        "the type follows the name",
    ),
    (
        r"(\bfn\s+\w+\s*\(\w+)\s+(\w+)\)\s*(\w+)\s*\{",
        By("$1: $2) -> $3 {"),
        "parameter types follow `:`, the result type follows `->`",
    ),
    (r"(\bfn\s+\w+\s*\([^)]*?\w+)\s+(\w+)(\s*[,)])", By("$1: $2$3"), "parameter types follow `:`"),
    (
        r"(\bfn\s+\w+\s*(?:<[^<>()]*>)?\s*\([^)]*\))\s*:\s*([\w\[\]<>]+)\s*",
        By("$1 -> $2 "),
        "the result type follows `->`",
    ),
    (
        r"(\bfn\s+\w+\s*\([^)]*\))\s*=>?\s*(.+)$",
        By("$1 { return $2 }"),
        "the body of a function needs braces",
    ),
    (r"\bfn\s+(\w+)\s+(\w+)\s*\{", By("fn $1($2) {"), "parameters need parentheses"),
    (
        r"(\bfn\s+\w+\s*\([^()]*)\*\*(\w+)\s*\)",
        By("$1$2 = {})"),
        "pass options as a dict: `fn f(x, options = {}) { ... }`",
    ),
    (r"(\bfn\s+\w+\s*\([^()]*)\*(\w+)", By("$1...$2"), "collect remaining arguments with `...name`"),
    (
        r"(?:public|private|protected|export\s+default|export|static)\s+(fn|struct|enum|let|tool|pipeline|function|class|def)\b",
        By("pub $1"),
        "mark exports with `pub`",
    ),
    (
        r"\basync\s+(fn|function|def)\b",
        By("fn"),
        "every function can wait, and `spawn { ... }` starts a task; remove `async`",
    ),
    (r"\basync\s*\{", By("spawn {"), "start a task with `spawn`, get its result with `await(task)`"),
    (r"\bawait\s+(spawn\s*\{[^{}]*\})", By("await($1)"), "`await` is a function"),
    (r"\bawait\s+(\w[\w.]*(?:\([^()]*\))?)", By("await($1)"), "`await` is a function"),
    (r"\bawait\s+([^(\s].*?)\s*$", By("await($1)"), "`await` is a function"),
    (r"\bgo\s+(\S.*)$", By("spawn { $1 }"), "start a task with `spawn`"),
    (r"\b(spawn|defer)\s+([^{\s].*)$", By("$1 { $2 }"), "the body needs braces"),
    (
        r"\bimpl\s+\w+\s+for\s+(\w+)",
        By("impl $1"),
        "declare methods on the type; a type with all methods implements the interface",
    ),
    (
        r"\bclass\s+(\w+)(?:\s*\([^)]*\)|\s+extends\s+\w+)?\s*[:{]?",
        By("struct $1 {"),
        "declare records with `struct Name { ... }`, methods with `impl Name { ... }`",
    ),
    (r"\bstruct\s+(\w+)\s*\((.*?)\)", By("struct $1 { $2 }"), "fields need braces"),
    (r"\bthrow\s+new\s+\w+\((.*?)\)", By("throw $1"), "any value can be thrown"),
    (r"\braise\s+\w+\((.*?)\)", By("throw $1"), "throw errors with `throw`"),
    (r"\bnew\s+(\w+)\((.*?)\)", By("$1 {$2}"), "create a struct with its fields: `Name {field: value}`"),
    (r"\b(\w+)\s*\{(\s*\w+)\s*=\s*", By("$1 {$2: "), "write fields as `name: value`"),
    // Imports.
    (
        r#"^(\s*)from\s+["']?([\w./@-]+)["']?\s+import\s+(.+?)\s*$"#,
        With(import_from),
        "write imported names in braces and the path in quotes",
    ),
    (
        r#"^(\s*)import\s+\*\s+(?:as\s+\w+\s+)?from\s+(["'][^"']+["'])"#,
        By("${1}import $2"),
        "`import \"path\"` imports all names",
    ),
    (
        r#"^(\s*)import\s+(\w+)\s+from\s+["']([^"']+)["']"#,
        By("${1}import { $2 } from \"$3\""),
        "write imported names in braces",
    ),
    (
        r#"^(\s*)import\s+(\{[^}]*\})\s+["']([^"']+)["']"#,
        By("${1}import $2 from \"$3\""),
        "`from` comes before the path",
    ),
    (
        r#"^(\s*)import\s+(["'][^"']+["'])\s+as\s+\w+"#,
        By("${1}import $2"),
        "imported names cannot be renamed",
    ),
    (
        r"^(\s*)(?:import|use|require|mod|using)\s+([\w.:]+)\s*;?\s*$",
        With(import),
        "the path of an import is a string, as `import \"std/json\"`",
    ),
    (r"^\s*#\s*include\b.*", Fix::None, "import other files with `import \"path\"`"),
    (r"^\s*package\s+\w+", Fix::None, "a file is a module and needs no declaration"),
    (
        r"\byield\s+from\s+(.+)$",
        By("for item in $1 { yield item }"),
        "forward the values of another generator one by one",
    ),
    (
        r"\btype\s+(\w+)\s+(struct|interface|enum)\b",
        By("$2 $1"),
        "the name follows `struct`, `interface` or `enum`",
    ),
    (r"\bfunc\s*\(([\w, ]*)\)\s*\{\s*(.*?)\s*\}", By("{ $1 -> $2 }"), "write closures in braces"),
    (r"\bmap\[\w+\]\w+\s*\{", By("{"), "write a dict with braces only"),
    (r"\[\]\w+\s*\{([^}]*)\}", By("[$1]"), "write a list with brackets"),
    (r"\binterface\s*\{\}", By("any"), "leave out the type, or write `any`"),
    (r"\bunsafe\s*\{", Fix::None, "there is no `unsafe`: remove it and its braces"),
    (r"(\w+)::<[^>]*>\(", By("$1("), "type arguments are inferred, or written `f<int>(x)`"),
    (r"\b(?:String|str)::from\((.*?)\)", By("$1"), "a quoted string needs no conversion"),
    (
        r"\b(\w+)::(\w+)",
        By("$1.$2"),
        "access members and variants with `.`: `Shape.Dot`; import other files with `import`",
    ),
    (r"&mut\s+(\w+)|&(\w+)", By("$1$2"), "there are no references: values are copied when they change"),
    (r"(^|=\s*)\*(\w+)", By("$1$2"), "there are no pointers: use the value itself"),
    (r"(\S+)\s+as\s+(?:f32|f64)\b", By("to_float($1)"), "convert values with functions"),
    (r"(\S+)\s+as\s+(?:[iu]\d+|usize|isize)\b", By("to_int($1)"), "convert values with functions"),
    (r"\bOk\(\(\)\)", By("Ok(nil)"), "the empty value is `nil`"),
    (
        r"([=(,]\s*)/([^/\s][^/]*)/[gimsu]*",
        By("${1}\"$2\""),
        "a regular expression is a string: `regex_match(\"a+\", text)`",
    ),
    (r##"\br#+"(.*?)"#+"##, By("r\"$1\""), "a raw string is written `r\"...\"`"),
    (
        r"^\s*#\s*!?\[.*",
        Fix::None,
        "write attributes as `@name`; nothing needs deriving: all values can be printed and compared",
    ),
    // Calls.
    (
        r#"^(\s*)(?:print|println|echo|puts|printf|say|cout\s*<<)\s+(.+?)\s*;?\s*$"#,
        With(called),
        "a call needs parentheses",
    ),
    (
        r"^(\s*)(?:del|delete|unset)\s+.+",
        Fix::None,
        "a variable ends with its block; remove a dict entry with `d = d.remove(key)`",
    ),
    (r"^(\s*)(assert|require|log)\s+(.+?)\s*$", By("$1$2($3)"), "a call needs parentheses"),
    (r"\bvec!\[", By("["), "write a list with brackets"),
    (r"\b(\w+)!\(", By("$1("), "there are no macros: call the function by its name"),
    (
        r"([(,]\s*)(\w+)\s*=\s*([^,()]+)\)",
        By("$1{$2: $3})"),
        "arguments are positional; pass options as a dict",
    ),
    (r"(\{\s*|,\s*)(\w+)\s*=\s*", By("$1$2: "), "write dict entries as `key: value`"),
    (r"(\{\s*|,\s*)(\w+)\s+([\w\x22]+)", By("$1$2: $3"), "write dict entries as `key: value`"),
    (r"([(,]\s*)\*{1,2}(\w+)", By("$1...$2"), "spread a list or dict with `...`"),
    // Numbers and punctuation.
    (r"(^|[^\w.])\.(\d+)", By("${1}0.$2"), "a digit is required before the decimal point"),
    (r"\b(\d+)\.(\D|$)", By("$1.0$2"), "a digit is required after the decimal point"),
    (r"([,\[(]\s*),", By("$1"), "remove the extra comma"),
    (r";;+", By(";"), "remove the extra `;`"),
    (r"^(\s*)\$(\w+)\s*=", By("${1}let $2 ="), "names have no `$`"),
    (
        r"([{,]\s*)(-?\d+(?:\.\d+)?)\s*:",
        By("$1\"$2\":"),
        "dict keys are strings; look up an entry with `d[to_string(n)]`",
    ),
    (
        r"^(\s*)(-?\d+(?:\.\d+)?)\s*:(\s*[^\s].*,\s*)$",
        By("$1\"$2\":$3"),
        "dict keys are strings; look up an entry with `d[to_string(n)]`",
    ),
    (
        r"\}\s*while\b.*",
        Fix::None,
        "there is no `do`: write `while true { ... }` with `if !condition { break }` at the end",
    ),
    (
        r"\}\s+([A-Za-z_][\w.]*\s*(?:\(|[-+*/]?=[^=>]))",
        By("}; $1"),
        "start a statement on a new line or after `;`",
    ),
    (r"'((?:[^'\\\x22]|\\.)*)'", By("\"$1\""), "strings need double quotes"),
    (r"`((?:[^`\\\x22]|\\.)*)`", By("\"$1\""), "strings need double quotes and can contain `${...}`"),
];

/// Converts `f"a {x}"` to a string with `$` interpolation.
fn interpolated(found: &Captures<'_>) -> String {
    let part = |number: usize| found.get(number).map_or("", |group| group.as_str());
    let text = part(2);
    let mut out = format!("{}\"", part(1));
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '{' if chars.peek() == Some(&'{') => {
                chars.next();
                out.push('{');
            }
            '}' if chars.peek() == Some(&'}') => {
                chars.next();
                out.push('}');
            }
            '{' => {
                let value: String = chars.by_ref().take_while(|c| *c != '}').collect();
                out.push_str(&format!("${{{}}}", without_layout(&value)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Converts `total:.2f` to a call that formats this many digits; other format specifications are dropped.
fn without_layout(value: &str) -> String {
    let Some((value, layout)) = value.rsplit_once(':') else {
        return value.trim_end_matches("!r").to_owned();
    };
    match layout.strip_prefix('.').and_then(|rest| rest.strip_suffix('f')) {
        Some(digits) => format!("fixed({value}, {digits})"),
        None => value.to_owned(),
    }
}

/// Converts `print x` to a call, also if an unmatched `)` follows it.
fn called(found: &Captures<'_>) -> String {
    let part = |number: usize| found.get(number).map_or("", |group| group.as_str());
    let value = part(2);
    let open = value.matches('(').count() < value.matches(')').count();
    let value = if open { value.strip_suffix(')').unwrap_or(value) } else { value };
    format!("{}println({value})", part(1))
}

/// Converts `if let Some(x) = f() {` to a `let` statement followed by the condition.
fn some_or_nil(found: &Captures<'_>) -> String {
    let part = |number: usize| found.get(number).map_or("", |group| group.as_str());
    format!("let {name} = {value}; {word} {name} != nil {{", word = part(1), name = part(2), value = part(3))
}

/// Converts `fn f(int a, int b` to parameters with the type after the name.
fn typed_parameters(found: &Captures<'_>) -> String {
    static PARAMETER: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\b(int|float|string|bool|list|dict)\s+(\w+)").ok());
    let text = found.get(0).map_or("", |all| all.as_str());
    match &*PARAMETER {
        Some(parameter) => parameter.replace_all(text, "$2: $1").into_owned(),
        None => text.to_owned(),
    }
}

/// Converts `from a.b import c` to an import with the path as a string.
fn import_from(found: &Captures<'_>) -> String {
    let dotted = &found[2];
    let path = if dotted.contains('/') { dotted.to_owned() } else { dotted.replace('.', "/") };
    format!("{}import {{ {} }} from \"{}\"", &found[1], &found[3], path.trim_start_matches('/'))
}

/// Converts `import a.b` to an import with the path as a string.
fn import(found: &Captures<'_>) -> String {
    let part = |number: usize| found.get(number).map_or("", |group| group.as_str());
    let path = part(2).replace("::", "/").replace('.', "/");
    // Harn has standard modules with these names.
    let path = match path.as_str() {
        "json" | "math" | "path" | "runtime" => format!("std/{path}"),
        _ => path,
    };
    format!("{}import \"{path}\"", part(1))
}
