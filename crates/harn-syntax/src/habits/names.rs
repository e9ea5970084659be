//! Names that other languages define, and what stands for them here.

/// A name, what to write instead, and what to say.
const NAMES: &[(&str, &str, &str)] = &[
    ("null", "nil", "the absent value is `nil`"),
    ("None", "nil", "the absent value is `nil`"),
    ("NULL", "nil", "the absent value is `nil`"),
    ("undefined", "nil", "the absent value is `nil`"),
    ("nullptr", "nil", "the absent value is `nil`"),
    ("True", "true", "write `true`"),
    ("TRUE", "true", "write `true`"),
    ("False", "false", "write `false`"),
    ("FALSE", "false", "write `false`"),
    ("str", "to_string", "text is made with `to_string(value)`, or inside text: `\"${value}\"`"),
    ("String", "to_string", "text is made with `to_string(value)`, or inside text: `\"${value}\"`"),
    ("string", "to_string", "text is made with `to_string(value)`, or inside text: `\"${value}\"`"),
    ("int", "to_int", "an int is made with `to_int(value)`; it is nil when the text is no number"),
    ("Integer", "to_int", "an int is made with `to_int(value)`; it is nil when the text is no number"),
    ("parseInt", "to_int", "an int is made with `to_int(value)`; it is nil when the text is no number"),
    ("float", "to_float", "a float is made with `to_float(value)`; it is nil when the text is no number"),
    (
        "parseFloat",
        "to_float",
        "a float is made with `to_float(value)`; it is nil when the text is no number",
    ),
    ("Number", "to_float", "a float is made with `to_float(value)`; it is nil when the text is no number"),
    ("bool", "", "there is no conversion to bool: compare, as in `x != nil` or `x != 0`"),
    ("list", "to_list", "a list is made with `to_list(values)` or `values.to_list()`"),
    ("dict", "to_dict", "a dict is written `{key: value}`, or made from pairs with `to_dict(pairs)`"),
    ("tuple", "", "there are no tuples; a list does: `[a, b]`"),
    ("length", "len", "the length is `len(value)`"),
    ("size", "len", "the length is `len(value)`"),
    ("count_of", "len", "the length is `len(value)`"),
    ("open", "read_file", "files are read and written whole: `read_file(path)`, `write_file(path, text)`"),
    ("file_get_contents", "read_file", "a file is read with `read_file(path)`"),
    ("readFile", "read_file", "a file is read with `read_file(path)`"),
    ("readFileSync", "read_file", "a file is read with `read_file(path)`"),
    ("writeFile", "write_file", "a file is written with `write_file(path, text)`"),
    (
        "input",
        "prompt_user",
        "a person is asked with `prompt_user(text)`; a line of the input is `read_line()`",
    ),
    ("readline", "read_line", "a line of the input is `read_line()`"),
    (
        "now",
        "date_now_iso",
        "the time is `date_now_iso()` as text, `date_now()` as a dict, `now_ms()` in milliseconds",
    ),
    ("time", "timestamp", "the time is `timestamp()` in seconds, `now_ms()` in milliseconds"),
    (
        "Date",
        "date_now",
        "dates are made with `date_now()`, `date_parse(text)` and `date_from_components(dict)`",
    ),
    (
        "datetime",
        "date_now",
        "dates are made with `date_now()`, `date_parse(text)` and `date_from_components(dict)`",
    ),
    ("printf", "println", "write `println(\"... ${value}\")`, or `println(format(\"{}\", value))`"),
    ("sprintf", "format", "write `\"... ${value}\"`, or `format(\"{}\", value)`"),
    ("echo", "println", "write `println(value)`"),
    ("puts", "println", "write `println(value)`"),
    ("console", "println", "write `println(value)`; errors go out with `eprintln(value)`"),
    ("fmt", "println", "write `println(value)`"),
    ("System", "println", "write `println(value)`"),
    ("repr", "json_stringify", "the value as JSON is `json_stringify(value)`"),
    ("type", "type_of", "the type's name is `type_of(value)`"),
    ("typeof", "type_of", "the type's name is `type_of(value)`"),
    ("isinstance", "type_of", "compare the type's name: `type_of(value) == \"int\"`"),
    ("Array", "", "a list is written `[1, 2, 3]`"),
    ("Map", "", "a dict is written `{key: value}`"),
    ("Set", "set", "a set is made with `set(values)`"),
    ("append", "push", "a list grows with `xs = xs.push(value)` or `xs = xs + [value]`"),
    ("enumerate", "", "pairs of index and value: `for (i, x) in xs.iter().enumerate() { ... }`"),
    ("sorted", "sort", "a sorted copy is `xs.sort()`, by a key `xs.sort_by({ x -> x.key })`"),
    ("reversed", "reverse", "a reversed copy is `xs.reverse()`"),
    ("map", "", "`map` is a method: `xs.map({ x -> x * 2 })`"),
    ("filter", "", "`filter` is a method: `xs.filter({ x -> x > 1 })`"),
    ("reduce", "", "`reduce` is a method: `xs.reduce(0, { sum, x -> sum + x })`"),
    ("sum", "", "`sum` is a method: `xs.sum()`"),
    ("any", "", "`any` is a method: `xs.any({ x -> x > 1 })`"),
    ("all", "", "`all` is a method: `xs.all({ x -> x > 1 })`"),
    ("zip", "", "`zip` is a method: `xs.zip(ys)`"),
    ("substr", "substring", "a part of a text is `text[1:3]` or `substring(text, start, end)`"),
    ("ord", "", "the number of a character is not at hand; `bytes_from_string(text)` gives its bytes"),
    ("chr", "", "a character is written in text: `\"\\u{41}\"`"),
    ("require", "", "other files are brought in with `import \"path\"`"),
    ("JSON", "json_parse", "JSON is read with `json_parse(text)` and written with `json_stringify(value)`"),
    ("json", "json_parse", "JSON is read with `json_parse(text)` and written with `json_stringify(value)`"),
    ("Math", "", "mathematical functions stand alone: `sqrt(2.0)`, `floor(x)`, `pi`"),
    ("math", "", "mathematical functions stand alone: `sqrt(2.0)`, `floor(x)`, `pi`"),
    ("os", "", "the system's functions stand alone: `env(\"HOME\")`, `list_dir(path)`, `exec(program, ...)`"),
    ("sys", "", "the system's functions stand alone: `argv`, `exit(code)`, `env(\"HOME\")`"),
    ("process", "", "the system's functions stand alone: `argv`, `exit(code)`, `env(\"HOME\")`"),
    ("requests", "http_get", "a page is fetched with `http_get(url)`, data sent with `http_post(url, body)`"),
    ("fetch", "http_get", "a page is fetched with `http_get(url)`, data sent with `http_post(url, body)`"),
    ("subprocess", "exec", "a program is run with `exec(program, ...arguments)` or `shell(command)`"),
    (
        "system",
        "shell",
        "a command is run with `shell(command)`, a program with `exec(program, ...arguments)`",
    ),
    ("getenv", "env", "a variable of the environment is `env(name)`"),
    ("rand", "random", "a random number is `random()` or `random_int(low, high)`"),
    ("randint", "random_int", "a random number is `random_int(low, high)`"),
    ("Some", "", "there is no `Some`: a value that may be absent is the value or `nil`"),
    ("Error", "throw_error", "any value can be thrown: `throw \"text\"`, `throw_error(message, category)`"),
    (
        "Exception",
        "throw_error",
        "any value can be thrown: `throw \"text\"`, `throw_error(message, category)`",
    ),
    ("panic", "throw_error", "an error is thrown with `throw \"text\"`"),
    (
        "self",
        "",
        "`self` is the first parameter of a method: `fn area(self) { ... }` inside `impl Name { ... }`",
    ),
    (
        "this",
        "self",
        "a method gets its value as first parameter: `fn area(self) { ... }` inside `impl Name { ... }`",
    ),
    ("pass", "", "an empty block is `{ }`"),
    ("args", "argv", "the arguments of the program are `argv`"),
    ("setTimeout", "sleep", "wait with `sleep(500ms)`; later and beside: `spawn { sleep(500ms) ... }`"),
    ("wait", "sleep", "wait with `sleep(500ms)`, for a task with `await(task)`"),
];

/// Returns the builtin that stands for a name of another language: `str` → `to_string`. It comes before names that
/// are only spelt alike.
pub fn instead_of(name: &str) -> Option<&'static str> {
    NAMES
        .iter()
        .find(|(known, ..)| *known == name)
        .map(|(_, instead, _)| *instead)
        .filter(|it| !it.is_empty())
}

/// Returns what to tell somebody who used a name of another language.
pub fn advice(name: &str) -> Option<&'static str> {
    NAMES.iter().find(|(known, ..)| *known == name).map(|(.., advice)| *advice)
}
