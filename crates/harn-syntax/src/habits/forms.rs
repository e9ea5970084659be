//! Forms that cannot be said in Harn, with what stands for them: those that several languages share.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::form::{
    Mend::{self, By, With},
    Table,
};

/// The table: pattern, replacement, and what to say.
pub(super) const FORMS: Table = &[
    // Loops.
    (
        r"\bfor\s*\(\s*(?:let|var|const|int|auto)?\s*(\w+)\s*:?=\s*([^;]+);\s*\w+\s*<=\s*([^;]+);[^)]*\)\s*",
        By("for $1 in $2 to $3 "),
        "a loop counts through a range",
    ),
    (
        r"\bfor\s*\(\s*(?:let|var|const|int|auto)?\s*(\w+)\s*:?=\s*([^;]+);\s*\w+\s*<\s*([^;]+);[^)]*\)\s*",
        By("for $1 in $2 to $3 exclusive "),
        "a loop counts through a range",
    ),
    (
        r"\bfor\s+(\w+)\s*:?=\s*([^;]+);\s*\w+\s*<=?\s*([^;]+);[^{]*",
        By("for $1 in $2 to $3 exclusive "),
        "a loop counts through a range",
    ),
    (
        r"\bfor\s*\(\s*(?:let|var|const|auto)\s+(\w+)\s+(?:of|in)\s+([^)]+)\)\s*",
        By("for $1 in $2 "),
        "a loop is written without parentheses and without `let`",
    ),
    (r"\bfor\s*\(\s*(\w+)\s+in\s+([^)]+)\)\s*", By("for $1 in $2 "), "a loop is written without parentheses"),
    (r"\bfor\s+(\w+)\s+of\s+", By("for $1 in "), "a loop is written with `in`"),
    (
        r"\bfor\s+(\w+)\s*,\s*(\w+)\s+in\s+enumerate\((.+?)\)\s*:\s*(.+)$",
        By("for ($1, $2) in $3.iter().enumerate() { $4 }"),
        "two names stand in parentheses, a block in braces",
    ),
    (
        r"\bfor\s+(\w+)\s*,\s*(\w+)\s+in\s+enumerate\((.+?)\)\s*:?\s*",
        By("for ($1, $2) in $3.iter().enumerate() "),
        "two names stand in parentheses",
    ),
    (
        r"\bfor\s+(\w+)\s*,\s*(\w+)\s+in\s+([^:{]+?)(?:\.items\(\))?\s*:\s*$",
        By("for ($1, $2) in $3 {"),
        "two names stand in parentheses, a block in braces",
    ),
    (
        r"\bfor\s+(\w+)\s*,\s*(\w+)\s*(?:in|:=\s*range)\s+",
        By("for ($1, $2) in "),
        "two names stand in parentheses: key and value of a dict; index and value with `.iter().enumerate()`",
    ),
    (r"\bfor\s*\{(.*)$", By("while true {$1"), "a loop without condition is `while true { ... }`"),
    (r"\bspawn\s*\(\s*\{", Mend::None, "a block follows `spawn`: `spawn { ... }`"),
    (r"\bloop\s*\{", By("while true {"), "a loop without condition is `while true { ... }`"),
    (
        r"\bfor\s+(\w+)\s+in\s+range\(([^,()]+)\)\s*:\s*(.+)$",
        By("for $1 in 0 to $2 exclusive { $3 }"),
        "a block stands in braces",
    ),
    (r"(\w+)\s*\.\.=\s*(\w+)", By("$1 to $2"), "a range with both ends is written with `to`"),
    (
        r"(\w+)\s*\.\.\.?\s*(\w+)",
        By("$1 to $2 exclusive"),
        "a range is written with `to`; `exclusive` leaves out its end",
    ),
    // Blocks.
    (
        r"\bwhile\s+(.+?)\s+do\b\s*(\{?)",
        By("while $1 {"),
        "a loop is written `while condition { ... }`, without `do`",
    ),
    (r"\buntil\s+(.+?)\s*\{", By("while !($1) {"), "there is no `until`"),
    (r"\bunless\s+(.+?)\s*\{", By("if !($1) {"), "write `if !condition { ... }`"),
    (r"\}?\s*\b(?:elif|elsif|elseif)\s+(.+?)\s*\{", By("} else if $1 {"), "write `else if`"),
    (r"\}?\s*\b(?:elif|elsif|elseif)\s+(.+?)\s*(?::|then)?\s*$", By("} else if $1 {"), "write `else if`"),
    (
        r"\b(?:fn|function)\s*\*\s*(\w+)",
        By("gen fn $1"),
        "a function that gives value after value is a `gen fn`; it gives them with `emit`",
    ),
    (
        r"\b(?:def|func|fun|function|sub)\s+(\w+)\s*\(([^)]*)\)\s*(?:->\s*[\w\[\]]+\s*)?:?\s*$",
        By("fn $1($2) {"),
        "a function is declared with `fn`",
    ),
    (r"\b(?:def|func|fun|function|sub)\s+(\w+)\s*\(", By("fn $1("), "a function is declared with `fn`"),
    (
        r"\bfunction\s*\(([\w, ]*)\)\s*\{",
        By("fn($1) {"),
        "a function without name is written `fn(x) { ... }` or `{ x -> ... }`",
    ),
    (
        r"\bif\s+\[\[?\s*(.+?)\s*\]\]?\s*;\s*then\b",
        By("if $1 {"),
        "a condition stands without brackets, a block in braces",
    ),
    (
        r"=\s*if\s+(.+?)\s+then\s+(.+?)\s+else\s+(.+)$",
        By("= if $1 { $2 } else { $3 }"),
        "the branches of `if` stand in braces",
    ),
    (r"\bif\s+(.+?)\s+then\b", By("if $1 {"), "a block stands in braces"),
    (
        r"^(\s*)with\s+(.+?)\s+as\s+(\w+)\s*[:{].*$",
        By("${1}let $3 = $2"),
        "there is no `with`: files are read whole (`read_file`), and `defer { ... }` runs at the end of a block",
    ),
    (r"\btype\(", By("type_of("), "the type's name is `type_of(value)`"),
    (r"(:\s*)[Ll]ist\[(\w+)\]", By("${1}list<$2>"), "parameters of a type stand in `<` and `>`"),
    (r"(:\s*|->\s*)([A-Za-z]\w*)\[\]", By("${1}list<$2>"), "a list of a type is written `list<...>`"),
    (r"\bOptional\[([\w.]+)\]", By("$1 | nil"), "what may be nil is written with `| nil`"),
    (
        r"(:\s*|->\s*)([A-Za-z]\w*(?:<[^<>?]*>)?)\?(\s*(?:[,)={}]|$))",
        By("$1$2 | nil$3"),
        "what may be nil is written with `| nil`",
    ),
    (
        r"(:\s*)(?:[Dd]ict|[Mm]ap)\[(\w+),\s*(\w+)\]",
        By("${1}dict<$2, $3>"),
        "parameters of a type stand in `<` and `>`",
    ),
    (r"(\w+)\[::-1\]", By("$1.reverse()"), "a list or text is turned round by `reverse()`"),
    (
        r"(\w+)\[([^\[\]:]*):([^\[\]:]*):[^\[\]:]+\]",
        By("$1[$2:$3]"),
        "a slice has no step; every n-th item: `xs.chunk(n).map({ part -> part[0] })`",
    ),
    (r"===", By("=="), "values are compared with `==`"),
    (r"!==", By("!="), "values are compared with `!=`"),
    (
        r"\b(if|while)\s+let\s+Some\((\w+)\)\s*=\s*([^{]+?)\s*\{",
        With(some_or_nil),
        "what may be missing is nil",
    ),
    (
        r"\b(if|while)\s+(?:let|var|const)\s+(\w+)\s*=\s*([^{=][^{]*?)\s*\{",
        With(some_or_nil),
        "a name is made by a statement of its own",
    ),
    (r"^(\s*)(if|while)\s*\((.+)\)\s*:\s*$", By("$1$2 $3 {"), "a block stands in braces"),
    (
        r"^(\s*)((?:if|while|for)\b.+?|else|try|finally):\s*$",
        By("$1$2 {"),
        "a block stands in braces, its end is `}`",
    ),
    (
        r"^(\s*)((?:.*;\s*)?(?:if|while|for)\b.+?|else|try|finally):\s+(.+)$",
        By("$1$2 { $3 }"),
        "a block stands in braces",
    ),
    (
        r"\}?\s*\bexcept\s+(?:\w+\s+as\s+)?(\w+)\s*:?\s*\{?\s*",
        By("} catch ($1) { "),
        "errors are caught with `catch`",
    ),
    (r"\}?\s*\bexcept\s*:?\s*\{?\s*", By("} catch (e) { "), "errors are caught with `catch`"),
    (
        r"\bcatch\s*\(\s*(?:const\s+)?(?:\w+\s+)(\w+)\s*\)",
        By("catch ($1)"),
        "the name of the error stands alone, or with its type behind: `catch (e: Type)`",
    ),
    (
        r"^(\s*)(if|while)\s*(\(.+?\))\s+([^{\s&|=!<>+*/%?.-].*)$",
        By("$1$2 $3 { $4 }"),
        "a block stands in braces",
    ),
    (
        r"\bdo\s*\{(.*)\}\s*while\s*\(?(.+?)\)?\s*;?\s*$",
        By("while true { $1; if !($2) { break } }"),
        "there is no `do`",
    ),
    (r"\bswitch\s*\(?(.+?)\)?\s*\{", By("match $1 {"), "write `match value { pattern -> { ... } }`"),
    (r"\bselect\s*\{.*", Mend::None, "a case of `select` is written `value from channel { ... }`"),
    (r"\bdeadline\s*\{.*", Mend::None, "the limit stands before the block: `deadline 2s { ... }`"),
    (
        r"\b(deadline|retry)\s+([^({][^{]*?[-+*/%][^{]*?)\s*\{",
        By("$1 ($2) {"),
        "what is reckoned stands in parentheses",
    ),
    (r"\bretry\s*\{.*", Mend::None, "the number of tries stands before the block: `retry 3 { ... }`"),
    (
        r"\btry\s+([^{\s*][^{]*?)\s+(?:catch|else)\s+([^{]+)$",
        By("unwrap_or(try { $1 }, $2)"),
        "`try` takes a block",
    ),
    (
        r"=\s*(\S[^{]*?)\s+catch\s+([^{]+)$",
        By("= unwrap_or(try { $1 }, $2)"),
        "an error is caught around a block",
    ),
    (r"\btry\s+([^{\s*][^{]*)$", By("try { $1 }"), "`try` takes a block"),
    (
        r"\b(break|continue)\s+\S+",
        By("$1"),
        "`break` and `continue` speak of the innermost loop and take no value",
    ),
    (r"\bgoto\s+\w+", Mend::None, "there is no `goto`: loops, functions and `return` do"),
    // Arms of match.
    (r"\b(?:case\s+)?([^\s{]+)\s*=>\s*\{", By("$1 -> {"), "an arm is written `pattern -> { ... }`"),
    (
        r"(\bmatch\b[^{]*\{.*?)([^\s{,]+)\s*=>\s*([^{},]+?)\s*([,}]|$)",
        By("$1$2 -> { $3 } $4"),
        "an arm is written `pattern -> { ... }`",
    ),
    (
        r"(\bmatch\b[^{]*\{.*?)([^\s{,]+)\s*:\s*([^{},]+?)\s*([,}]|$)",
        By("$1$2 -> { $3 } $4"),
        "an arm is written `pattern -> { ... }`",
    ),
    (r"(?:case|when)\s+(.+?)\s*(?:->|:)\s*", By("$1 -> "), "an arm is written `pattern -> { ... }`"),
    (
        r"\b(?:default|else|otherwise)\s*(?:->|=>|:)\s*",
        By("_ -> "),
        "the last arm of `match` is `_ -> { ... }`",
    ),
    (r"(->\s*\{[^{}]*\})\s*,(\s*)$", By("$1$2"), "the arms of `match` stand without commas"),
    (r"->\s*([^{},\s][^{},]*?)\s*,", By("-> { $1 }"), "what an arm does stands in braces"),
    (r"->\s*([^{},\s][^{},]*?)\s*(\}|$)", By("-> { $1 } $2"), "what an arm does stands in braces"),
    (r"(\w+)\s*(&&|\|\||\?\?|\*\*)=\s*(.+)", By("$1 = $1 $2 $3"), "this assignment is written out"),
    // Closures.
    (
        r"(\.\w+)\s*\{\s*(\w+(?:\s*,\s*\w+)*\s*->[^{}]*)\}",
        By("$1({ $2})"),
        "a closure is an argument: it stands in parentheses",
    ),
    (r"\|\s*([\w, ]*?)\s*\|\s*\{\s*(.*?)\s*\}", By("{ $1 -> $2 }"), "a closure is written in braces"),
    (
        r"\|\s*([\w, ]*?)\s*\|\s*([^,(){}]+(?:\([^()]*\))?)",
        By("{ $1 -> $2 }"),
        "a closure is written in braces",
    ),
    (r"\{\s*([\w, ]+?)\s*=>\s*(.*?)\s*\}", By("{ $1 -> $2 }"), "a closure is written with `->`"),
    (
        r"\(\s*([\w, ]*?)\s*\)\s*=>\s*\{\s*(.*?)\s*\}",
        By("{ $1 -> $2 }"),
        "a closure is written in braces, with `->`",
    ),
    (
        r"\(\s*([\w, ]*?)\s*\)\s*=>\s*([^,(){}]+(?:\([^()]*\))?)",
        By("{ $1 -> $2 }"),
        "a closure is written in braces, with `->`",
    ),
    (r"\b(\w+)\s*=>\s*\{\s*(.*?)\s*\}", By("{ $1 -> $2 }"), "a closure is written in braces, with `->`"),
    (
        r"\b(\w+)\s*=>\s*([^,(){}]+(?:\([^()]*\))?)",
        By("{ $1 -> $2 }"),
        "a closure is written in braces, with `->`",
    ),
    (
        r"\blambda\s*([\w, ]*?)\s*:\s*([^,(){}]+(?:\([^()]*\))?)",
        By("{ $1 -> $2 }"),
        "a closure is written in braces",
    ),
    (r"\blambda\b", Mend::None, "a closure is written `{ x -> x + 1 }`"),
    // Comprehensions.
    (
        r"\[\s*(.+?)\s+for\s+(\w+)\s+in\s+(.+?)\s+if\s+(.+)\]",
        By("$3.filter({ $2 -> $4 }).map({ $2 -> $1 })"),
        "a list is made from another by `filter` and `map`",
    ),
    (
        r"\[\s*(.+?)\s+for\s+(\w+)\s+in\s+(.+)\]",
        By("$3.map({ $2 -> $1 })"),
        "a list is made from another by `map`",
    ),
    (
        r"\{\s*(\w+)\s*:\s*(.+?)\s+for\s+(\w+)\s+in\s+(.+?)\}",
        By("iter($4).map({ $3 -> pair($1, $2) }).to_dict()"),
        "a dict is made from a list of pairs",
    ),
    (
        r"\(\s*(.+?)\s+for\s+(\w+)\s+in\s+([^()]+)\)",
        By("($3.map({ $2 -> $1 }))"),
        "a list is made from another by `map`",
    ),
    // Text.
    (r#"(^|[^\w"])[fF]"((?:[^"\\]|\\.)*)""#, With(interpolated), "any text may hold `${...}`"),
    (
        r#"(^|[^\w"])[bu]"((?:[^"\\]|\\.)*)""#,
        By("$1\"$2\""),
        "text has no prefix; bytes come from `bytes_from_string`",
    ),
    (r#"(["\w)\]])\s+\.\s+(["\w(])"#, By("$1 + $2"), "texts are put together with `+`"),
    // Operators.
    (r"(\S+)\s+is\s+not\s+(\S+)", By("$1 != $2"), "values are compared with `==` and `!=`"),
    (r"(\S+)\s+(?:isnt|ne)\s+(\S+)", By("$1 != $2"), "values are compared with `==` and `!=`"),
    (
        r"(\S+)\s+(?:is|eq)\s+(int|float|string|bool|list|dict)\b",
        By("type_of($1) == \"$2\""),
        "`type_of` names the type of a value",
    ),
    (r"(\S+)\s+(?:is|eq)\s+(\S+)", By("$1 == $2"), "values are compared with `==`"),
    (r"(\S+)\s+instanceof\s+(\w+)", By("type_of($1) == \"$2\""), "`type_of` names the type of a value"),
    (r"\btypeof\s+(\w+)", By("type_of($1)"), "`type_of` names the type of a value"),
    (r"(\w)<>(\s*(?:[({=,)]|$))", By("$1$2"), "what has no types in `<` and `>` is written without them"),
    (r"<>", By("!="), "values are compared with `!=`"),
    (r"(\S+)\s*<=>\s*(\S+)", Mend::None, "there is no `<=>`: sort with a key, `xs.sort_by({ x -> x.key })`"),
    (r"\bnot\s+(\w+|\([^()]*\))\s+in\b", By("$1 not in"), "write `x not in xs`"),
    (r"(\S+)\s+!in\b", By("$1 not in"), "write `x not in xs`"),
    (r"\bnot\s+", By("!"), "write `!` for not"),
    (r"\s+and\s+", By(" && "), "write `&&` for and"),
    (r"\s+or\s+", By(" || "), "write `||` for or"),
    (r"(\w+)\s*\+\+|\+\+(\w+)", By("$1$2 += 1"), "add one with `+= 1`"),
    (r"(\w+)\s*--", By("$1 -= 1"), "take one away with `-= 1`"),
    (r"\b(if|while)\s+([^{]*?[^=!<>{])=([^=>{][^{]*)", By("$1 $2==$3"), "`=` assigns, `==` compares"),
    (r"\?:", By("??"), "a value for nil is written with `??`"),
    (r"\?\.\[", By("?["), "an element that may be missing is `xs?[0]`"),
    (
        r"\?\.\(",
        By("("),
        "only fields, methods and elements can be asked with `?`: `x?.name`, `x?.method()`, `xs?[0]`",
    ),
    (r"\?\?\(|(\w)!\.", By("$1?."), "what may be nil is asked with `?.`"),
    (r"(\S+)\s*\^\s*(\S+)", By("$1 ** $2"), "powers are written with `**`"),
    (r"(\S+)\s+&\s+(\S+)", By("$1 && $2"), "and is written `&&`; there are no operators for bits"),
    (
        r"(\S+)\s+(<<|>>)\s+(\S+)",
        Mend::None,
        "there are no operators for bits: `x * 2 ** n` shifts to the left",
    ),
    (
        r"=\s*([^=;]+?)\s+if\s+(.+?)\s+else\s+(.+)$",
        By("= $2 ? $1 : $3"),
        "a choice is written `condition ? a : b`",
    ),
    (
        r"\breturn\s+(.+?)\s+if\s+(.+?)\s+else\s+(.+)$",
        By("return $2 ? $1 : $3"),
        "a choice is written `condition ? a : b`",
    ),
    (r"^(\s*)(\S.*?)\s+if\s+([^{}]+)$", By("${1}if $3 { $2 }"), "the condition stands in front"),
    (r"^(\s*)(\S.*?)\s+unless\s+([^{}]+)$", By("${1}if !($3) { $2 }"), "the condition stands in front"),
    (
        r"(\w+(?:\.\w+)*|\([^()]*\)|\x22[^\x22]*\x22)\s+as\s+(int|float|string|bool|list|dict|set)\b",
        By("to_$2($1)"),
        "values are converted by functions",
    ),
    // Declarations.
    (r"^(\s*)let\s+mut\s+", By("${1}var "), "a variable that changes is declared with `var`"),
    (r"\b(let|var)\s+(\w+)\s*:=\s*", By("$1 $2 = "), "write `=`"),
    (
        r"(^|;)(\s*)(\w+)\s*:=\s*(.+)$",
        By("$1${2}let $3 = $4"),
        "a variable is declared with `let`, or `var` if it changes, and assigned with `=`",
    ),
    (
        r"^(\s*)(\w+)\s*:\s*([\w\[\]<>, |]+?)\s*=\s*(.+)$",
        By("${1}let $2: $3 = $4"),
        "a variable is declared with `let`, or `var` if it changes",
    ),
    (
        r"^(\s*)(?:static|final|const|val|local|my|auto|dim|readonly)\s+(?:(?:int|float|string|String|double|bool)\s+)?(\w+)\s*=\s*",
        By("${1}let $2 = "),
        "a variable is declared with `let`, or `var` if it changes",
    ),
    (
        r"^(\s*)(?:int|long|i32|i64|u32|u64|usize)\s+(\w+)\s*=",
        By("${1}let $2: int ="),
        "the type stands behind the name",
    ),
    (
        r"^(\s*)(?:float|double|f32|f64)\s+(\w+)\s*=",
        By("${1}let $2: float ="),
        "the type stands behind the name",
    ),
    (
        r"^(\s*)(?:string|String|str)\s+(\w+)\s*=",
        By("${1}let $2: string ="),
        "the type stands behind the name",
    ),
    (r"^(\s*)(?:bool|boolean)\s+(\w+)\s*=", By("${1}let $2: bool ="), "the type stands behind the name"),
    (
        r"^(\s*)var\s+(\w+)\s+(int|float|string|bool)\s*=",
        By("${1}var $2: $3 ="),
        "the type stands behind a colon",
    ),
    (
        r"^(\s*)(?:let|var|const)?\s*(\w+)\s*,\s*(\w+)\s*:?=\s*([^,]+),\s*(.+)$",
        By("${1}let [$2, $3] = [$4, $5]"),
        "several values are taken apart as a list",
    ),
    (
        r"^(\s*)(?:let|var|const)?\s*(\w+)\s*,\s*(\w+)\s*:?=\s*(.+)$",
        By("${1}let [$2, $3] = $4"),
        "a list is taken apart in brackets",
    ),
    (
        r"^(\s*)const\s+(\{[^}]*\}|\[[^\]]*\])\s*=",
        By("${1}let $2 ="),
        "a variable is declared with `let`, or `var` if it changes",
    ),
    (
        r"^(\s*)(let|var)\s+(\w+)\s*=\s*([^,()\[\]{}]+),\s*(\w+)\s*=\s*([^,()\[\]{}]+)$",
        By("${1}$2 $3 = $4; $2 $5 = $6"),
        "each variable is declared by itself",
    ),
    (
        r"^(\s*)const\s+(\w+)\s*:\s*\w+\s*=",
        By("${1}let $2 ="),
        "a variable that never changes is declared with `let`",
    ),
    (r"^(\s*)var\s+(\w+)\s+map\[.*$", By("${1}var $2 = {}"), "a dict is made with its entries"),
    (
        r"^\s*(?:global|nonlocal)\s+\w+",
        Mend::None,
        "a function changes the variables around it as they are: declare them with `var`",
    ),
    (
        r"\b(let|var)\s*\(([^()]+)\)\s*=\s*(?:pair)?\(([^()]+)\)",
        By("$1 [$2] = [$3]"),
        "there are no tuples; a list does, and is taken apart in brackets",
    ),
    (
        r"\b(let|var)\s*\(([^()]+)\)\s*=",
        By("$1 [$2] ="),
        "a list is taken apart in brackets, a pair has `.first` and `.second`",
    ),
    (r"=\s*\(([^()]+,[^()]*)\)", By("= [$1]"), "there are no tuples; a list does"),
    (r#"("[^"]*")\s*=>\s*"#, By("$1: "), "an entry of a dict is written `key: value`"),
    (r"([{,]\s*\w+\s*:\s*[^;{}]+);", By("$1,"), "entries of a dict are separated by `,`"),
    (r"=\s*([^=,;()\[\]{}]+,[^=;()\[\]{}]+)$", By("= [$1]"), "several values make a list"),
    (r"\breturn\s+([^,()\[\]{}]+,[^()\[\]{}]+)$", By("return [$1]"), "several values are returned as a list"),
    (
        r"\bfn\s+\w+\s*\([^)]*\b(?:int|float|string|bool|list|dict)\s+\w+[^)]*",
        With(typed_parameters),
        "the type stands behind the name",
    ),
    (
        r"(\bfn\s+\w+\s*\(\w+)\s+(\w+)\)\s*(\w+)\s*\{",
        By("$1: $2) -> $3 {"),
        "the type of a parameter stands behind `:`, that of the result behind `->`",
    ),
    (
        r"(\bfn\s+\w+\s*\([^)]*?\w+)\s+(\w+)(\s*[,)])",
        By("$1: $2$3"),
        "the type of a parameter stands behind `:`",
    ),
    (
        r"(\bfn\s+\w+\s*(?:<[^<>()]*>)?\s*\([^)]*\))\s*:\s*([\w\[\]<>]+)\s*",
        By("$1 -> $2 "),
        "the type of the result stands behind `->`",
    ),
    (
        r"(\bfn\s+\w+\s*\([^)]*\))\s*=>?\s*(.+)$",
        By("$1 { return $2 }"),
        "the body of a function stands in braces",
    ),
    (r"\bfn\s+(\w+)\s+(\w+)\s*\{", By("fn $1($2) {"), "parameters stand in parentheses"),
    (
        r"(\bfn\s+\w+\s*\([^()]*)\*\*(\w+)\s*\)",
        By("$1$2 = {})"),
        "options come as a dict: `fn f(x, options = {}) { ... }`",
    ),
    (r"(\bfn\s+\w+\s*\([^()]*)\*(\w+)", By("$1...$2"), "the rest of the arguments is `...name`"),
    (
        r"(?:public|private|protected|export\s+default|export|static)\s+(fn|struct|enum|let|tool|pipeline|function|class|def)\b",
        By("pub $1"),
        "what other files may import is marked with `pub`",
    ),
    (r"\basync\s+(fn|function|def)\b", By("fn"), "every function may wait; `spawn { ... }` starts a task"),
    (r"\basync\s*\{", By("spawn {"), "a task is started with `spawn`, its result is `await(task)`"),
    (r"\bawait\s+(\w[\w.]*(?:\([^()]*\))?)", By("await($1)"), "`await` is a function"),
    (r"\bawait\s+([^(\s].*?)\s*$", By("await($1)"), "`await` is a function"),
    (r"\bgo\s+(\S.*)$", By("spawn { $1 }"), "a task is started with `spawn`"),
    (r"\b(spawn|defer)\s+([^{\s].*)$", By("$1 { $2 }"), "what is to run stands in braces"),
    (
        r"\bimpl\s+\w+\s+for\s+(\w+)",
        By("impl $1"),
        "methods belong to the type; an interface is met by having its methods",
    ),
    (
        r"\bclass\s+(\w+)(?:\s*\([^)]*\)|\s+extends\s+\w+)?\s*[:{]?",
        By("struct $1 {"),
        "records are declared with `struct Name { ... }`, their methods with `impl Name { ... }`",
    ),
    (r"\bstruct\s+(\w+)\s*\((.*?)\)", By("struct $1 { $2 }"), "fields stand in braces"),
    (r"\bthrow\s+new\s+\w+\((.*?)\)", By("throw $1"), "any value can be thrown"),
    (r"\braise\s+\w+\((.*?)\)", By("throw $1"), "errors are thrown with `throw`"),
    (r"\bnew\s+(\w+)\((.*?)\)", By("$1 {$2}"), "a struct is made with its fields: `Name {field: value}`"),
    (r"\b(\w+)\s*\{(\s*\w+)\s*=\s*", By("$1 {$2: "), "a field is written `name: value`"),
    // Imports.
    (
        r#"^(\s*)from\s+["']?([\w./@-]+)["']?\s+import\s+(.+?)\s*$"#,
        By("${1}import { $3 } from \"$2\""),
        "names are imported in braces from a path in quotes",
    ),
    (
        r#"^(\s*)import\s+\*\s+(?:as\s+\w+\s+)?from\s+(["'][^"']+["'])"#,
        By("${1}import $2"),
        "`import \"path\"` brings everything",
    ),
    (
        r#"^(\s*)import\s+(\w+)\s+from\s+["']([^"']+)["']"#,
        By("${1}import { $2 } from \"$3\""),
        "names are imported in braces",
    ),
    (
        r#"^(\s*)import\s+(\{[^}]*\})\s+["']([^"']+)["']"#,
        By("${1}import $2 from \"$3\""),
        "`from` stands before the path",
    ),
    (
        r#"^(\s*)import\s+(["'][^"']+["'])\s+as\s+\w+"#,
        By("${1}import $2"),
        "what a file exports is used by its own names",
    ),
    (
        r"^(\s*)(?:import|use|require|mod|using)\s+([\w.:]+)\s*;?\s*$",
        With(import),
        "the path of an import is text, as `import \"std/json\"`",
    ),
    (r"^\s*#\s*include\b.*", Mend::None, "other files are brought in with `import \"path\"`"),
    (r"^\s*package\s+\w+", Mend::None, "a file is a module by itself: no line names it"),
    (
        r"\byield\s+from\s+(.+)$",
        By("for item in $1 { yield item }"),
        "what another generator gives is passed on one by one",
    ),
    (
        r"\btype\s+(\w+)\s+(struct|interface|enum)\b",
        By("$2 $1"),
        "the name of a struct, interface or enum stands behind that word",
    ),
    (r"\bfunc\s*\(([\w, ]*)\)\s*\{\s*(.*?)\s*\}", By("{ $1 -> $2 }"), "a closure is written in braces"),
    (r"\bmap\[\w+\]\w+\s*\{", By("{"), "a dict is written in braces alone"),
    (r"\[\]\w+\s*\{([^}]*)\}", By("[$1]"), "a list is written in brackets"),
    (r"\binterface\s*\{\}", By("any"), "what may be anything has no type, or `any`"),
    (r"\bunsafe\s*\{", Mend::None, "there is nothing unsafe in Harn: leave `unsafe` and its braces out"),
    (r"(\w+)::<[^>]*>\(", By("$1("), "types of a call are found out, or stand as `f<int>(x)`"),
    (r"\b(?:String|str)::from\((.*?)\)", By("$1"), "text in quotes is a string already"),
    (
        r"\b(\w+)::(\w+)",
        By("$1.$2"),
        "members are named with `.`, variants as well: `Shape.Dot`; other files with `import`",
    ),
    (r"&mut\s+(\w+)|&(\w+)", By("$1$2"), "values are copied where they change: there are no references"),
    (r"(^|=\s*)\*(\w+)", By("$1$2"), "there are no pointers: a name is its value"),
    (r"(\S+)\s+as\s+(?:f32|f64)\b", By("to_float($1)"), "values are converted by functions"),
    (r"(\S+)\s+as\s+(?:[iu]\d+|usize|isize)\b", By("to_int($1)"), "values are converted by functions"),
    (r"\bOk\(\(\)\)", By("Ok(nil)"), "nothing is `nil`"),
    (
        r"([=(,]\s*)/([^/\s][^/]*)/[gimsu]*",
        By("${1}\"$2\""),
        "a regular expression is text: `regex_match(\"a+\", text)`",
    ),
    (r##"\br#+"(.*?)"#+"##, By("r\"$1\""), "text without escapes is `r\"...\"`"),
    (
        r"^\s*#\s*!?\[.*",
        Mend::None,
        "an attribute is written `@name`; nothing is derived: values can be shown and compared",
    ),
    // Calls.
    (
        r#"^(\s*)(?:print|println|echo|puts|printf|say|cout\s*<<)\s+(.+?)\s*;?\s*$"#,
        With(called),
        "the arguments of a call stand in parentheses",
    ),
    (
        r"^(\s*)(?:del|delete|unset)\s+.+",
        Mend::None,
        "a name ends with its block; `d = d.remove(key)` takes an entry out of a dict",
    ),
    (
        r"^(\s*)(assert|require|log)\s+(.+?)\s*$",
        By("$1$2($3)"),
        "the arguments of a call stand in parentheses",
    ),
    (r"\bvec!\[", By("["), "a list is written in brackets"),
    (r"\b(\w+)!\(", By("$1("), "there are no macros: a function is called by its name"),
    (
        r"([(,]\s*)(\w+)\s*=\s*([^,()]+)\)",
        By("$1{$2: $3})"),
        "arguments have no names; options are given as a dict",
    ),
    (r"(\{\s*|,\s*)(\w+)\s*=\s*", By("$1$2: "), "an entry of a dict is written `key: value`"),
    (r"(\{\s*|,\s*)(\w+)\s+([\w\x22]+)", By("$1$2: $3"), "an entry of a dict is written `key: value`"),
    (r"([(,]\s*)\*{1,2}(\w+)", By("$1...$2"), "a list or dict is spread with `...`"),
    // Numbers and signs.
    (r"(^|[^\w.])\.(\d+)", By("${1}0.$2"), "a digit stands before the point"),
    (r"\b(\d+)\.(\D|$)", By("$1.0$2"), "a digit stands behind the point"),
    (r"([,\[(]\s*),", By("$1"), "there is nothing between the two commas"),
    (r";;+", By(";"), "one `;` is enough"),
    (r"^(\s*)\$(\w+)\s*=", By("${1}let $2 ="), "names stand without `$`"),
    (
        r"([{,]\s*)(-?\d+(?:\.\d+)?)\s*:",
        By("$1\"$2\":"),
        "keys of a dict are text; an entry is then found by `d[to_string(n)]`",
    ),
    (
        r"^(\s*)(-?\d+(?:\.\d+)?)\s*:(\s*[^\s].*,\s*)$",
        By("$1\"$2\":$3"),
        "keys of a dict are text; an entry is then found by `d[to_string(n)]`",
    ),
    (
        r"\}\s*while\b.*",
        Mend::None,
        "there is no `do`: write `while true { ... }` with `if !condition { break }` at its end",
    ),
    (
        r"\}\s+([A-Za-z_][\w.]*\s*(?:\(|[-+*/]?=[^=>]))",
        By("}; $1"),
        "a statement begins on a new line, or behind a `;`",
    ),
    (r"'((?:[^'\\\x22]|\\.)*)'", By("\"$1\""), "text stands in double quotes"),
    (r"`((?:[^`\\\x22]|\\.)*)`", By("\"$1\""), "text stands in double quotes, and `${...}` works in it"),
];

/// `f"a {x}"` with the `$` that interpolation has here.
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

/// `total:.2f` as a call that gives these digits; other layouts are left out.
fn without_layout(value: &str) -> String {
    let Some((value, layout)) = value.rsplit_once(':') else {
        return value.trim_end_matches("!r").to_owned();
    };
    match layout.strip_prefix('.').and_then(|rest| rest.strip_suffix('f')) {
        Some(digits) => format!("fixed({value}, {digits})"),
        None => value.to_owned(),
    }
}

/// `print x`, also where a `)` is left behind it.
fn called(found: &Captures<'_>) -> String {
    let part = |number: usize| found.get(number).map_or("", |group| group.as_str());
    let value = part(2);
    let open = value.matches('(').count() < value.matches(')').count();
    let value = if open { value.strip_suffix(')').unwrap_or(value) } else { value };
    format!("{}println({value})", part(1))
}

/// `if let Some(x) = f() {` with the name in front.
fn some_or_nil(found: &Captures<'_>) -> String {
    let part = |number: usize| found.get(number).map_or("", |group| group.as_str());
    format!("let {name} = {value}; {word} {name} != nil {{", word = part(1), name = part(2), value = part(3))
}

/// `fn f(int a, int b` with every type behind its name.
fn typed_parameters(found: &Captures<'_>) -> String {
    static PARAMETER: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\b(int|float|string|bool|list|dict)\s+(\w+)").ok());
    let text = found.get(0).map_or("", |all| all.as_str());
    match &*PARAMETER {
        Some(parameter) => parameter.replace_all(text, "$2: $1").into_owned(),
        None => text.to_owned(),
    }
}

/// `import a.b` with the path as text.
fn import(found: &Captures<'_>) -> String {
    let part = |number: usize| found.get(number).map_or("", |group| group.as_str());
    let path = part(2).replace("::", "/").replace('.', "/");
    // Modules of the same name that come with Harn.
    let path = match path.as_str() {
        "json" | "math" | "path" | "runtime" => format!("std/{path}"),
        _ => path,
    };
    format!("{}import \"{path}\"", part(1))
}
