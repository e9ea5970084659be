//! Library functions, methods and types of other languages, with their Harn equivalents.

use std::sync::LazyLock;

use regex::Regex;

use super::names;

/// Paths of functions, such as `Math.max`. A path also matches its members.
const MEMBERS: &[(&str, &str)] = &[
    // Python.
    ("os.path", "check a file with `file_exists(path)`; build paths with `path_join`, `dirname`, `basename`"),
    (
        "os.environ",
        "read an environment variable with `env(\"HOME\")`, with a default `env_or(\"HOME\", \"/\")`",
    ),
    (
        "os.getenv",
        "read an environment variable with `env(\"HOME\")`, with a default `env_or(\"HOME\", \"/\")`",
    ),
    ("os.listdir", "list a directory with `list_dir(path)`"),
    ("os.makedirs", "create a directory and its parents with `mkdir(path)`"),
    ("os.remove", "delete a file with `delete_file(path)`"),
    ("os.system", "run a command with `shell(command)`"),
    ("time.sleep", "wait with `sleep(500ms)`"),
    ("time.time", "get the time with `timestamp()` in seconds, `now_ms()` in milliseconds"),
    ("random.choice", "pick a random item with `random_choice(xs)`"),
    ("random.randint", "get a random number with `random_int(low, high)`"),
    (
        "re",
        "patterns are strings: `regex_match(pattern, text)`, `regex_replace(pattern, by, text)`, `regex_split(pattern, text)`",
    ),
    (
        "asyncio",
        "run tasks concurrently with `parallel each xs { x -> ... }`; start one with `spawn { ... }`",
    ),
    ("logging", "log messages with `log_info(text)`, `log_warn(text)` or `log_error(text)`"),
    ("datetime", "create dates with `date_now()`, `date_parse(text)` and `date_from_components(dict)`"),
    ("pathlib", "paths are strings: `path_join(a, b)`, `read_file(path)`"),
    ("Path", "paths are strings: `path_join(a, b)`, `read_file(path)`"),
    ("sys.argv", "the program's arguments are `argv`"),
    ("sys.exit", "end the program with `exit(code)`"),
    ("sys.stdin", "read a line with `read_line()`, all input with `read_stdin()`"),
    ("sys.stderr", "write errors with `eprintln(value)`"),
    // JavaScript.
    ("Math.max", "get the largest with `max(a, b)` or `max(xs)`"),
    ("Math.min", "get the smallest with `min(a, b)` or `min(xs)`"),
    ("Math.floor", "round numbers with `floor(n)`, `ceil(n)` and `round(n, digits)`"),
    ("Math.ceil", "round numbers with `floor(n)`, `ceil(n)` and `round(n, digits)`"),
    ("Math.round", "round numbers with `floor(n)`, `ceil(n)` and `round(n, digits)`"),
    ("Math.random", "get a random number with `random()` or `random_int(low, high)`"),
    ("Math.abs", "get the absolute value with `abs(n)`"),
    ("Math.pow", "write powers with `**`: `2 ** 10`"),
    ("Number.isInteger", "compare the type's name: `type_of(n) == \"int\"`"),
    ("Number.parseInt", "convert to an int with `to_int(text)`"),
    ("Object.keys", "get the keys of a dict with `d.keys()`"),
    ("Object.values", "get the values of a dict with `d.values()`"),
    (
        "Object.entries",
        "loop over keys and values with `for (key, value) in d { ... }`, or use `d.entries()`",
    ),
    ("Object.assign", "merge dicts with `{...a, ...b}`"),
    ("Object.freeze", "copies never change each other and `let` names are constant: freezing is not needed"),
    ("Array.isArray", "compare the type's name: `type_of(xs) == \"list\"`"),
    ("Array.from", "create a list with `to_list(values)` or `values.to_list()`"),
    (
        "Promise",
        "run tasks concurrently with `parallel each xs { x -> ... }`; `parallel settle` keeps failures, `parallel_race` takes the first",
    ),
    ("Date.now", "get the time with `now_ms()` in milliseconds, `timestamp()` in seconds"),
    ("process.env", "read an environment variable with `env(\"HOME\")`"),
    ("process.exit", "end the program with `exit(code)`"),
    ("process.argv", "the program's arguments are `argv`"),
    ("process.stdout", "`print(text)` writes without a newline"),
    ("fs", "read and write whole files: `read_file(path)`, `write_file(path, text)`"),
    ("path.join", "join paths with `path_join(a, b)`"),
    ("console.error", "write errors with `eprintln(value)`"),
    ("console.log", "write `println(value)`"),
    // Go.
    ("fmt.Printf", "interpolate values: `print(\"... ${value}\")`"),
    ("fmt.Sprintf", "interpolate values: `\"... ${value}\"`"),
    ("fmt.Errorf", "throw an error with a message: `throw \"... ${value}\"`"),
    ("fmt.Fprintln", "write errors with `eprintln(value)`"),
    ("strconv.Atoi", "convert to an int with `to_int(text)`; the result is nil for invalid numbers"),
    ("strconv.Itoa", "convert to a string with `to_string(value)`, or interpolate: `\"${value}\"`"),
    ("strconv.ParseFloat", "convert to a float with `to_float(text)`; the result is nil for invalid numbers"),
    ("strconv", "convert values with `to_int`, `to_float` and `to_string`"),
    ("strings.Split", "split a string with `text.split(\",\")`"),
    ("strings.Join", "join items with a method of the list: `xs.join(\",\")`"),
    ("strings.Contains", "search a string with `text.contains(\"a\")`"),
    ("strings.ReplaceAll", "replace text with `text.replace(\"a\", \"b\")`"),
    ("strings.TrimSpace", "trim whitespace with `text.trim()`"),
    ("strings.ToUpper", "uppercase a string with `text.upper()`"),
    ("strings.ToLower", "lowercase a string with `text.lower()`"),
    ("strings.HasPrefix", "check a prefix with `text.starts_with(\"a\")`"),
    ("strings.HasSuffix", "check a suffix with `text.ends_with(\"a\")`"),
    (
        "strings",
        "strings have methods: `text.split(\",\")`, `text.contains(\"a\")`, `text.trim()`, `text.upper()`",
    ),
    ("sort.Slice", "get a sorted copy with `xs.sort()`, by a key with `xs.sort_by({ x -> x.key })`"),
    ("sort", "get a sorted copy with `xs.sort()`, by a key with `xs.sort_by({ x -> x.key })`"),
    ("errors.New", "any value can be thrown: `throw \"text\"`, `throw_error(message, category)`"),
    (
        "errors",
        "catch errors with `try { ... } catch (e) { ... }`, and distinguish them with `error_info(e)`",
    ),
    ("os.Exit", "end the program with `exit(code)`"),
    ("os.Args", "the program's arguments are `argv`"),
    ("os.Getenv", "read an environment variable with `env(\"HOME\")`"),
    ("os.ReadFile", "read a file with `read_file(path)`"),
    ("os.WriteFile", "write a file with `write_file(path, text)`"),
    ("time.Sleep", "wait with `sleep(2s)`"),
    (
        "time.Now",
        "get the time with `date_now_iso()` as text, `date_now()` as a dict, `now_ms()` in milliseconds",
    ),
    ("time.Since", "measure time with `elapsed()`, or the difference of two `monotonic_ms()`"),
    ("json.Marshal", "write JSON with `json_stringify(value)`"),
    ("json.Unmarshal", "parse JSON with `json_parse(text)`"),
    ("http.Get", "fetch a page with `http_get(url)`"),
    (
        "sync",
        "`parallel` waits for all its tasks, which share nothing; use `mutex { ... }` for a critical section",
    ),
    ("context", "set a time limit with `deadline 2s { ... }`"),
    ("log.Fatal", "an uncaught error ends the program: `throw \"text\"`"),
    // Rust.
    ("std.fs", "read and write whole files: `read_file(path)`, `write_file(path, text)`"),
    ("std.env", "the arguments are `argv`; read an environment variable with `env(\"HOME\")`"),
    ("std.process", "end the program with `exit(code)`, run another with `exec(program, ...arguments)`"),
    ("thread.spawn", "start a task with `spawn { ... }`"),
    ("thread.sleep", "wait with `sleep(500ms)`"),
    ("Instant.now", "a monotonic clock is `monotonic_ms()`"),
    ("Duration", "durations are values: `500ms`, `2s`, `1m`"),
    ("Box.new", "there are no boxes: use the value itself"),
    ("Rc.new", "there are no references: use the value itself"),
    ("Arc.new", "there are no references: use the value itself; tasks communicate through channels"),
    // More of Python, JavaScript, Go and Rust.
    ("os.getcwd", "the working directory is `cwd()`"),
    ("os.Create", "write a whole file with `write_file(path, text)`"),
    ("os.MkdirAll", "create a directory and its parents with `mkdir(path)`"),
    ("os.Mkdir", "create a directory and its parents with `mkdir(path)`"),
    ("os.Remove", "delete a file with `delete_file(path)`"),
    ("os.RemoveAll", "delete a file or directory with `delete_file(path)`"),
    ("os.Stat", "get file metadata with `stat(path)`; check that it exists with `file_exists(path)`"),
    ("os.Open", "read a file with `read_file(path)`"),
    (
        "shutil",
        "delete directories with `delete_file(path)`, copy files with `copy_file(from, to)`, move them with `move_file(from, to)`",
    ),
    ("collections", "use a default with `??`: `d[key] ?? []`; count items with `xs.tally()`"),
    (
        "itertools",
        "concatenate lists with `+`; they have `zip`, `chunk`, `window`, `group_by` and `flat_map`",
    ),
    ("functools", "reduce a list with `xs.reduce(0, { sum, x -> sum + x })`"),
    ("copy.deepcopy", "every assignment copies: `var other = d`"),
    ("threading", "start a task with `spawn { ... }`; `parallel each xs { x -> ... }` runs several"),
    ("np", "lists of numbers have functions: `mean(xs)`, `median(xs)`, `xs.sum()`"),
    ("random.random", "get a random number with `random()` or `random_int(low, high)`"),
    ("asyncio.run", "calls wait for their result: leave it out; `await(task)` is for tasks from `spawn`"),
    ("asyncio.sleep", "wait with `sleep(500ms)`"),
    ("asyncio.create_task", "start a task with `spawn { ... }`, get its result with `await(task)`"),
    ("datetime.now", "get the time with `date_now_iso()` as text, `date_now()` as a dict"),
    ("datetime.datetime", "get the time with `date_now_iso()` as text, `date_now()` as a dict"),
    ("Object.fromEntries", "create a dict from pairs with `to_dict(pairs)`"),
    ("console.time", "measure time as the difference of two `monotonic_ms()`"),
    ("console.warn", "write errors and warnings with `eprintln(value)`"),
    ("axios", "fetch a page with `http_get(url)`, send data with `http_post(url, body)`"),
    ("Number.isNaN", "check for NaN with `is_nan(n)`"),
    ("crypto.randomUUID", "create a random ID with `uuid()`"),
    ("fs.existsSync", "check a file with `file_exists(path)`"),
    ("child_process", "run a program with `exec(program, ...arguments)`, a command with `shell(command)`"),
    ("process.cwd", "the working directory is `cwd()`"),
    ("process.on", "clean up in `defer { ... }`"),
    ("z", "describe values with a type, `type User = {name: string}`, and `schema_of(User)`"),
    ("fmt.Sprint", "convert to a string with `to_string(value)`, or interpolate: `\"${value}\"`"),
    ("fmt.Sscanf", "parse numbers with `to_int(text)` and `to_float(text)`"),
    ("log.Println", "log messages with `log_info(text)`, `log_warn(text)` or `log_error(text)`"),
    ("log.Printf", "log messages with `log_info(\"... ${value}\")`"),
    ("strings.Replace", "replace text with `text.replace(\"a\", \"b\")`"),
    ("strings.Repeat", "repeat a string with `text.repeat(3)`"),
    ("strings.Index", "find a substring with `text.index_of(part)`"),
    ("strings.Fields", "split a string at whitespace with `text.split()`"),
    ("strings.Builder", "join a list of parts with `parts.join(\"\")`"),
    ("strings.NewReader", "the lines of a string are `text.lines()`"),
    ("slices", "lists have methods: `xs.contains(1)`, `xs.sort()`, `xs.index_of(1)`, `xs.reverse()`"),
    ("maps", "dicts have methods: `d.keys()`, `d.values()`, `d.merge(other)`"),
    ("math.MaxInt64", "the largest int is `9223372036854775807`"),
    ("errors.Is", "distinguish errors by their category: `error_info(e).category == \"timeout\"`"),
    ("io.ReadAll", "read a whole file with `read_file(path)`, the input with `read_stdin()`"),
    ("ioutil", "read and write whole files: `read_file(path)`, `write_file(path, text)`"),
    (
        "bufio",
        "read a line with `read_line()`, all input with `read_stdin()`; lines of a string are `text.lines()`",
    ),
    ("filepath.Join", "join paths with `path_join(a, b)`"),
    ("filepath.Glob", "find files with `glob(pattern)`"),
    ("filepath", "paths are strings: `path_join(a, b)`, `dirname(path)`, `basename(path)`, `glob(pattern)`"),
    ("exec.Command", "run a program with `exec(\"ls\", \"-l\").stdout`"),
    ("uuid.New", "create a random ID with `uuid()`"),
    ("uuid.uuid4", "create a random ID with `uuid()`"),
    ("http.ListenAndServe", "serve a program with `harn serve mcp FILE` or `harn serve acp FILE`"),
    (
        "regexp",
        "patterns are strings: `regex_match(pattern, text)`, `regex_replace(pattern, by, text)`, `regex_split(pattern, text)`",
    ),
    ("time.Second", "durations are values: `500ms`, `5s`, `1m`"),
    ("time.Duration", "durations are values: `500ms`, `5s`, `1m`"),
    ("time.After", "set a time limit with `deadline 5s { ... }`; `select` has an arm `timeout 5s { ... }`"),
    ("ctx.Done", "check for cancellation with `is_cancelled()`; set a time limit with `deadline 2s { ... }`"),
    ("mu", "use `mutex { ... }` for a critical section"),
    ("flag", "the program's arguments are `argv`"),
    ("std.mem.swap", "swap values with a third variable: `let t = a; a = b; b = t`"),
    ("Command.new", "run a program with `exec(\"ls\", \"-l\").stdout`"),
    ("serde_json", "parse JSON with `json_parse(text)` and write it with `json_stringify(value)`"),
    ("reqwest", "fetch a page with `http_get(url)`, send data with `http_post(url, body)`"),
    ("Regex.new", "patterns are strings: `regex_match(pattern, text)`, `regex_replace(pattern, by, text)`"),
    ("fs.read_dir", "list a directory with `list_dir(path)`"),
    ("tokio.spawn", "start a task with `spawn { ... }`, get its result with `await(task)`"),
    ("tokio.join", "run tasks concurrently with `parallel each xs { x -> ... }`"),
    ("tokio.select", "wait for the first of several channels with `select { value from channel { ... } }`"),
    ("client.chat", "call a model with `llm_call(prompt, system, {model: \"openai:gpt-4o\"})`"),
    ("client.messages", "call a model with `llm_call(prompt, system, {model: \"...\"})`"),
    ("openai", "call a model with `llm_call(prompt, system, {model: \"openai:gpt-4o\"})`"),
    ("OpenAI", "call a model with `llm_call(prompt, system, {model: \"openai:gpt-4o\"})`"),
];

/// Methods that no Harn value has.
const METHODS: &[(&str, &str)] = &[
    // Lists.
    ("append", "append to a list with `xs = xs.push(value)` or `xs = xs + [value]`"),
    ("add", "append to a list with `xs = xs.push(value)`, to a set with `s = set_add(s, value)`"),
    ("extend", "concatenate lists with `+`: `xs = xs + [1, 2]`"),
    ("concat", "concatenate lists and strings with `+`: `xs + ys`"),
    ("insert", "insert an item with `xs.slice(0, i) + [item] + xs.slice(i)`"),
    ("remove", "remove items with `xs.filter({ x -> x != item })`"),
    ("splice", "remove items with `xs.slice(0, i) + xs.slice(j)`"),
    ("shift", "the first item is `xs.first()`, the list without it `xs.skip(1)`"),
    ("unshift", "prepend to a list with `[item] + xs`"),
    ("index", "find an item with `xs.index_of(item)`"),
    ("indexOf", "find an item with `xs.index_of(item)`"),
    ("lastIndexOf", "find the last occurrence with `text.last_index_of(part)`"),
    ("findIndex", "find an item with `xs.find_index({ x -> x > 1 })`"),
    ("includes", "check for an item with `xs.contains(item)`, or `item in xs`"),
    ("has_key", "check a key with `d.has(key)`"),
    ("contains_key", "check a key with `d.has(key)`"),
    ("hasOwnProperty", "check a key with `d.has(key)`"),
    ("some", "check for a match with `xs.any({ x -> x > 1 })`"),
    ("forEach", "use a loop: `for x in xs { ... }`"),
    ("flatMap", "flatten lists of lists with `xs.flat_map({ x -> [x] })`"),
    ("fold", "reduce a list with `xs.reduce(0, { sum, x -> sum + x })`"),
    ("rev", "get a reversed copy with `xs.reverse()`"),
    ("reversed", "get a reversed copy with `xs.reverse()`"),
    ("sorted", "get a sorted copy with `xs.sort()`, by a key with `xs.sort_by({ x -> x.key })`"),
    ("copy", "every assignment copies: `var other = xs`"),
    ("clone", "every assignment copies: `var other = xs`"),
    ("cloned", "every assignment copies: leave it out"),
    ("to_owned", "every assignment copies: leave it out"),
    ("to_vec", "every assignment copies: leave it out"),
    ("clear", "assign an empty one: `xs = []`, `d = {}`"),
    ("into_iter", "loop over lists directly, or lazily with `xs.iter()`"),
    ("iter_mut", "change a list by assignment: `xs[i] = value`, or `xs = xs.map({ x -> x * 2 })`"),
    ("collect", "`map` and `filter` of a list return a list; collect an iterator with `.to_list()`"),
    ("is_empty", "check for emptiness with `xs.empty()`"),
    ("isEmpty", "check for emptiness with `xs.empty()`"),
    ("length", "the length is `len(value)`"),
    ("size", "the length is `len(value)`"),
    // Dicts.
    ("sort_by", "sort the entries of a dict: `d.entries().sort_by({ e -> e.value })`"),
    ("sort", "sort the entries of a dict: `d.entries().sort_by({ e -> e.key })`"),
    (
        "map",
        "change values with `d.map_values({ v -> v + 1 })`; create a list with `d.entries().map({ e -> e.value })`",
    ),
    ("items", "loop over keys and values with `for (key, value) in d { ... }`, or use `d.entries()`"),
    ("setdefault", "use a default with `??`: `d[key] ?? []`"),
    ("update", "merge dicts with `{...a, ...b}` or `a.merge(b)`"),
    ("put", "assign an entry: `d[key] = value`"),
    // Strings.
    ("strip", "trim whitespace with `text.trim()`"),
    ("lstrip", "trim leading whitespace with `text.trim_start()`"),
    ("rstrip", "trim trailing whitespace with `text.trim_end()`"),
    ("trimLeft", "trim leading whitespace with `text.trim_start()`"),
    ("trimRight", "trim trailing whitespace with `text.trim_end()`"),
    ("trimStart", "trim leading whitespace with `text.trim_start()`"),
    ("trimEnd", "trim trailing whitespace with `text.trim_end()`"),
    ("startswith", "check a prefix with `text.starts_with(\"a\")`"),
    ("startsWith", "check a prefix with `text.starts_with(\"a\")`"),
    ("endswith", "check a suffix with `text.ends_with(\"a\")`"),
    ("endsWith", "check a suffix with `text.ends_with(\"a\")`"),
    ("title", "capitalize all words with `title_case(text)`, the first letter with `uppercase_first(text)`"),
    ("capitalize", "capitalize a string with `uppercase_first(text)`"),
    ("toUpperCase", "uppercase a string with `text.upper()`"),
    ("to_uppercase", "uppercase a string with `text.upper()`"),
    ("toLowerCase", "lowercase a string with `text.lower()`"),
    ("to_lowercase", "lowercase a string with `text.lower()`"),
    ("format", "interpolate values: `\"... ${value}\"`"),
    ("splitlines", "the lines of a string are `text.lines()`"),
    ("split_whitespace", "split a string at whitespace with `text.split()`"),
    ("join", "join items with a method of the list: `xs.join(\", \")`"),
    ("find", "find a substring with `text.index_of(part)`; -1 if there is none"),
    ("match", "match a pattern with `regex_match(pattern, text)`"),
    ("replaceAll", "replace all occurrences with `text.replace(old, new)`"),
    ("substr", "take a part of a string with `text[1:3]` or `text.substring(start, end)`"),
    ("slice", "take a part with `text[1:3]`"),
    ("charAt", "access a character with `text[0]` or `text.char_at(0)`"),
    ("padStart", "pad a string with `text.pad_left(width)`"),
    ("padEnd", "pad a string with `text.pad_right(width)`"),
    ("zfill", "pad a string with `text.pad_left(width, \"0\")`"),
    ("rjust", "pad a string with `text.pad_left(width)`"),
    ("ljust", "pad a string with `text.pad_right(width)`"),
    ("isdigit", "check for a number with `to_int(text) != nil`"),
    ("push_str", "concatenate strings with `+`: `text += \"more\"`"),
    ("as_str", "it is a string already: leave it out"),
    ("into", "a value needs no conversion: leave it out"),
    ("as_ref", "there are no references: leave it out"),
    ("encode", "get the bytes of a string with `bytes_from_string(text)`"),
    // Numbers and optional values.
    ("toFixed", "format decimals with `fixed(n, 2)`"),
    ("toString", "convert to a string with `to_string(value)`, or interpolate: `\"${value}\"`"),
    (
        "parse",
        "convert to a number with `to_int(text)` or `to_float(text)`; the result is nil for invalid numbers",
    ),
    ("abs", "get the absolute value with `abs(n)`"),
    ("sqrt", "get the square root with `sqrt(n)`"),
    ("pow", "write powers with `**`: `n ** 2`"),
    ("powi", "write powers with `**`: `n ** 2`"),
    (
        "unwrap",
        "a missing value is nil: use a default with `value ?? other`; open a result with `unwrap(result)`",
    ),
    ("expect", "a missing value is nil: `require value != nil, \"text\"`"),
    ("unwrap_or", "write a default for nil as `value ?? other`; for a result as `unwrap_or(result, other)`"),
    ("unwrap_or_else", "write a default for nil as `value ?? other`"),
    ("unwrap_or_default", "write a default for nil as `value ?? other`"),
    ("is_some", "compare with nil: `value != nil`"),
    ("is_none", "compare with nil: `value == nil`"),
    ("is_ok", "check for success with `is_ok(result)`"),
    ("is_err", "check for an error with `is_err(result)`"),
    ("map_err", "change an error in `catch`: `try { ... } catch (e) { throw \"...\" }`"),
    ("at", "access an item or character with `xs[-1]`"),
    ("charCodeAt", "there are no character codes; get the bytes with `bytes_from_string(text)`"),
    ("isalpha", "check the characters with `regex_match(\"^[A-Za-z]+$\", text) != nil`"),
    ("isalnum", "check the characters with `regex_match(\"^[A-Za-z0-9]+$\", text) != nil`"),
    ("removeprefix", "remove a prefix with `text.starts_with(p) ? text.substring(p.len()) : text`"),
    ("casefold", "lowercase a string with `text.lower()`"),
    ("center", "pad a string with `text.pad_left(width)` and `text.pad_right(width)`"),
    (
        "ok_or",
        "write a default for nil as `value ?? other`; throw an error with `require value != nil, \"text\"`",
    ),
    ("ok", "a missing value is nil: use a default with `value ?? other`"),
    ("entry", "use a default with `??`: `d[key] = (d[key] ?? 0) + 1`"),
    ("or_insert", "use a default with `??`: `d[key] = (d[key] ?? 0) + 1`"),
    ("setDefault", "use a default with `??`: `d[key] ?? []`"),
    ("retain", "keep matching items with `xs = xs.filter({ x -> x > 1 })`"),
    ("for_each", "use a loop: `for x in xs { ... }`"),
    ("dedup", "remove duplicates with `xs.unique()`"),
    ("truncate", "take the first items with `xs.take(n)`"),
    ("and_then", "continue on the next line; `?.` passes nil through"),
    ("strip_prefix", "remove a prefix with `text.starts_with(p) ? text.substring(p.len()) : text`"),
    ("as_bytes", "get the bytes of a string with `bytes_from_string(text)`"),
    ("write_text", "write a file with `write_file(path, text)`"),
    ("read_text", "read a file with `read_file(path)`"),
    // Tasks.
    ("then", "calls wait for their result: continue on the next line"),
    ("catch", "catch errors with `try { ... } catch (e) { ... }`"),
];

/// Foreign types and values in annotations and lines, with the Harn equivalent.
const WORDS: &[(&str, &str)] = &[
    (r"&(?:'\w+\s+)?(?:mut\s+)?", ""),
    (r"(?:u8|u16|u32|u64|u128|usize|i8|i16|i32|i64|i128|isize|uint|int32|int64|integer)\b", "int"),
    (r"(?:f32|f64|float32|float64|double|number)\b", "float"),
    (r"(?:str|String|rune)\b", "string"),
    (r"(?:boolean)\b", "bool"),
    (r"(?:Vec|List|Array)<", "list<"),
    (r"(?:HashMap|BTreeMap|Map|Dict|Record)<", "dict<"),
];

/// Returns the Harn type that corresponds to a type name of another language.
pub fn type_instead_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i8" | "i16" | "i32" | "i64" | "i128" | "isize"
        | "uint" | "int8" | "int16" | "int32" | "int64" | "integer" | "Integer" | "long" | "Int" => "int",
        "f32" | "f64" | "float32" | "float64" | "double" | "Double" | "number" | "Number" | "Float" => {
            "float"
        }
        "str" | "String" | "rune" | "char" | "text" => "string",
        "boolean" | "Boolean" | "Bool" => "bool",
        "Vec" | "List" | "Array" | "array" | "tuple" | "Tuple" | "slice" => "list",
        "HashMap" | "BTreeMap" | "Map" | "map" | "Dict" | "Record" | "object" | "Object" => "dict",
        "Set" | "HashSet" => "set",
        "void" | "Void" | "None" | "null" | "Nil" => "nil",
        "Function" | "function" | "Callable" | "func" => "closure",
        "Any" | "interface" => "any",
        _ => return None,
    })
}

/// Returns advice for a call of a method that the value does not have.
pub(super) fn method_advice(name: &str) -> Option<&'static str> {
    METHODS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, advice)| *advice)
        .or_else(|| names::advice(name))
}

/// Returns advice for an undefined name, based on the source after it: `os.path.exists(...)`, `x = 5`.
pub fn undefined(name: &str, behind: &str) -> Option<String> {
    let end = behind.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '.').unwrap_or(behind.len());
    if let Some(advice) = member(&format!("{name}{}", &behind[..end])) {
        return Some(advice.to_owned());
    }
    let is_type = ["string", "int", "float", "bool", "list", "dict"].contains(&name);
    if is_type && !behind.starts_with('(') {
        return Some(format!(
            "use a type name as a string, as `{{name: \"{name}\"}}`; or name it: `type T = {{name: {name}}}`"
        ));
    }
    if let Some(advice) = names::advice(name) {
        return Some(advice.to_owned());
    }
    let behind = behind.trim_start_matches([' ', '\t']);
    let assigned = behind.starts_with('=') && !behind.starts_with("==") && !behind.starts_with("=>");
    assigned.then(|| match name {
        "description" | "guidance" | "annotations" => {
            format!("a field of a tool has no `=`: `{name} ...`, before the first statement of its body")
        }
        _ => format!("declare it first: `let {name} = ...`, or `var {name} = ...` if it changes"),
    })
}

/// Returns the advice of the longest known path that is a prefix of `path`.
fn member(path: &str) -> Option<&'static str> {
    let begins =
        |known: &str| path.strip_prefix(known).is_some_and(|rest| rest.starts_with('.') || rest.is_empty());
    let known = MEMBERS.iter().filter(|(known, _)| begins(known));
    // A path without a dot may be a variable of the program.
    let known = known.filter(|(known, _)| known.contains('.') || path.contains('.'));
    known.max_by_key(|(known, _)| known.len()).map(|(_, advice)| *advice)
}

/// Returns advice for the first foreign library function called in a line.
pub(super) fn in_line(line: &str) -> Option<&'static str> {
    static CALL: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r#""(?:[^"\\]|\\.)*"|\b([A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)*)\s*\("#).ok()
    });
    let calls = (*CALL).as_ref()?.captures_iter(line);
    // Excludes methods of a value without a name: `f(x).join(`.
    let has_name = |path: &regex::Match<'_>| !line[..path.start()].ends_with(['.', ':']);
    calls.filter_map(|found| found.get(1)).filter(has_name).find_map(|path| {
        let path = path.as_str().replace("::", ".");
        // `format` is also a Harn builtin.
        let alone =
            || names::advice(&path).filter(|_| !path.contains('.') && path != "format" && path != "require");
        member(&path).or_else(alone)
    })
}

/// Replaces foreign types and values in the line by Harn ones, outside of string literals.
pub(super) fn in_our_words(line: &str) -> String {
    static PIECES: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let types: Vec<String> = WORDS.iter().map(|(word, _)| format!("({word})")).collect();
        let types = types.join("|");
        Regex::new(&format!(
            r#""(?:[^"\\]|\\.)*"|\b(None|NULL|null|nullptr|undefined)\b|\b(True|TRUE)\b|\b(False|FALSE)\b|([\w)>]:\s*|->\s*|<\s*)(?:{types})"#
        ))
        .ok()
    });
    let Some(pieces) = &*PIECES else { return line.to_owned() };
    let fix = |found: &regex::Captures<'_>| {
        let whole = &found[0];
        match (1..=3).find(|group| found.get(*group).is_some()) {
            Some(group) => ["nil", "true", "false"][group - 1].to_owned(),
            None => match (5..5 + WORDS.len()).find(|group| found.get(*group).is_some()) {
                Some(group) => format!("{}{}", &found[4], WORDS[group - 5].1),
                None => whole.to_owned(),
            },
        }
    };
    // `&Vec<i32>` needs two passes: `&Vec<` first, then `i32`.
    let once = pieces.replace_all(line, fix).into_owned();
    pieces.replace_all(&once, fix).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_others_become_ours_outside_of_text() {
        assert_eq!(in_our_words("let x: Vec<i32> = None"), "let x: list<int> = nil");
        assert_eq!(
            in_our_words("fn f(s: &mut String) -> f64 { say(\"None: i32\") }"),
            "fn f(s: string) -> float { say(\"None: i32\") }"
        );
        assert_eq!(in_our_words("let stringy: strange = 1"), "let stringy: strange = 1");
    }

    #[test]
    fn members_and_assignments_are_told() {
        assert!(undefined("os", ".path.exists(\"a\")").unwrap().contains("file_exists"));
        assert!(undefined("x", " = 5").unwrap().contains("let x = ..."));
        assert_eq!(undefined("x", " == 5"), None);
        assert_eq!(undefined("sort", "(xs)"), None);
        assert_eq!(in_line("f(\"os.path.join(1)\")"), None);
        assert!(in_line("run(asyncio.gather(xs))").unwrap().contains("parallel"));
    }
}
