//! Functions, methods and types that other languages have in their libraries, and what stands for them here.

use std::sync::LazyLock;

use regex::Regex;

use super::names;

/// Paths of functions, as `Math.max`. What begins with a path is meant as well.
const MEMBERS: &[(&str, &str)] = &[
    // Python.
    (
        "os.path",
        "whether a file is there is `file_exists(path)`; paths are made with `path_join`, `dirname`, `basename`",
    ),
    (
        "os.environ",
        "a variable of the environment is `env(\"HOME\")`, with a default `env_or(\"HOME\", \"/\")`",
    ),
    (
        "os.getenv",
        "a variable of the environment is `env(\"HOME\")`, with a default `env_or(\"HOME\", \"/\")`",
    ),
    ("os.listdir", "the entries of a folder are `list_dir(path)`"),
    ("os.makedirs", "a folder, with those above it, is made by `mkdir(path)`"),
    ("os.remove", "a file is removed by `delete_file(path)`"),
    ("os.system", "a command is run with `shell(command)`"),
    ("time.sleep", "wait with `sleep(500ms)`"),
    ("time.time", "the time is `timestamp()` in seconds, `now_ms()` in milliseconds"),
    ("random.choice", "an item by chance is `random_choice(xs)`"),
    ("random.randint", "a random number is `random_int(low, high)`"),
    (
        "re",
        "patterns are text: `regex_match(pattern, text)`, `regex_replace(pattern, by, text)`, `regex_split(pattern, text)`",
    ),
    (
        "asyncio",
        "tasks run side by side in `parallel each xs { x -> ... }`; one is started with `spawn { ... }`",
    ),
    ("logging", "what happens is told by `log_info(text)`, `log_warn(text)` or `log_error(text)`"),
    ("datetime", "dates are made with `date_now()`, `date_parse(text)` and `date_from_components(dict)`"),
    ("pathlib", "paths are text: `path_join(a, b)`, `read_file(path)`"),
    ("Path", "paths are text: `path_join(a, b)`, `read_file(path)`"),
    ("sys.argv", "the arguments of the program are `argv`"),
    ("sys.exit", "a program ends with `exit(code)`"),
    ("sys.stdin", "a line of the input is `read_line()`, all of it `read_stdin()`"),
    ("sys.stderr", "errors go out with `eprintln(value)`"),
    // JavaScript.
    ("Math.max", "the largest is `max(a, b)` or `max(xs)`"),
    ("Math.min", "the smallest is `min(a, b)` or `min(xs)`"),
    ("Math.floor", "numbers are rounded by `floor(n)`, `ceil(n)` and `round(n, digits)`"),
    ("Math.ceil", "numbers are rounded by `floor(n)`, `ceil(n)` and `round(n, digits)`"),
    ("Math.round", "numbers are rounded by `floor(n)`, `ceil(n)` and `round(n, digits)`"),
    ("Math.random", "a random number is `random()` or `random_int(low, high)`"),
    ("Math.abs", "without its sign a number is `abs(n)`"),
    ("Math.pow", "powers are written with `**`: `2 ** 10`"),
    ("Number.isInteger", "compare the type's name: `type_of(n) == \"int\"`"),
    ("Number.parseInt", "an int is made with `to_int(text)`"),
    ("Object.keys", "the keys of a dict are `d.keys()`"),
    ("Object.values", "the values of a dict are `d.values()`"),
    ("Object.entries", "keys and values are `for (key, value) in d { ... }`, or `d.entries()`"),
    ("Object.assign", "dicts are put together with `{...a, ...b}`"),
    (
        "Object.freeze",
        "a value never changes with its copies, and `let` keeps a name: nothing is to be frozen",
    ),
    ("Array.isArray", "compare the type's name: `type_of(xs) == \"list\"`"),
    ("Array.from", "a list is made with `to_list(values)` or `values.to_list()`"),
    (
        "Promise",
        "tasks run side by side in `parallel each xs { x -> ... }`; `parallel settle` keeps failures, `parallel_race` takes the first",
    ),
    ("Date.now", "the time is `now_ms()` in milliseconds, `timestamp()` in seconds"),
    ("process.env", "a variable of the environment is `env(\"HOME\")`"),
    ("process.exit", "a program ends with `exit(code)`"),
    ("process.argv", "the arguments of the program are `argv`"),
    ("process.stdout", "`print(text)` writes without a new line"),
    ("fs", "files are read and written whole: `read_file(path)`, `write_file(path, text)`"),
    ("path.join", "paths are put together with `path_join(a, b)`"),
    ("console.error", "errors go out with `eprintln(value)`"),
    ("console.log", "write `println(value)`"),
    // Go.
    ("fmt.Printf", "values stand in the text: `print(\"... ${value}\")`"),
    ("fmt.Sprintf", "values stand in the text: `\"... ${value}\"`"),
    ("fmt.Errorf", "an error is thrown with its text: `throw \"... ${value}\"`"),
    ("fmt.Fprintln", "errors go out with `eprintln(value)`"),
    ("strconv.Atoi", "an int is made with `to_int(text)`; it is nil when the text is no number"),
    ("strconv.Itoa", "text is made with `to_string(value)`, or inside text: `\"${value}\"`"),
    ("strconv.ParseFloat", "a float is made with `to_float(text)`; it is nil when the text is no number"),
    ("strconv", "values are converted by `to_int`, `to_float` and `to_string`"),
    ("strings.Split", "text is cut by its method: `text.split(\",\")`"),
    ("strings.Join", "the list joins its items: `xs.join(\",\")`"),
    ("strings.Contains", "text is looked through by its method: `text.contains(\"a\")`"),
    ("strings.ReplaceAll", "text is replaced by its method: `text.replace(\"a\", \"b\")`"),
    ("strings.TrimSpace", "a text without blanks around it is `text.trim()`"),
    ("strings.ToUpper", "a text in capitals is `text.upper()`"),
    ("strings.ToLower", "a text in small letters is `text.lower()`"),
    ("strings.HasPrefix", "how a text begins is told by `text.starts_with(\"a\")`"),
    ("strings.HasSuffix", "how a text ends is told by `text.ends_with(\"a\")`"),
    (
        "strings",
        "text has methods: `text.split(\",\")`, `text.contains(\"a\")`, `text.trim()`, `text.upper()`",
    ),
    ("sort.Slice", "a sorted copy is `xs.sort()`, by a key `xs.sort_by({ x -> x.key })`"),
    ("sort", "a sorted copy is `xs.sort()`, by a key `xs.sort_by({ x -> x.key })`"),
    ("errors.New", "any value can be thrown: `throw \"text\"`, `throw_error(message, category)`"),
    ("errors", "errors are caught with `try { ... } catch (e) { ... }`, and told apart by `error_info(e)`"),
    ("os.Exit", "a program ends with `exit(code)`"),
    ("os.Args", "the arguments of the program are `argv`"),
    ("os.Getenv", "a variable of the environment is `env(\"HOME\")`"),
    ("os.ReadFile", "a file is read with `read_file(path)`"),
    ("os.WriteFile", "a file is written with `write_file(path, text)`"),
    ("time.Sleep", "wait with `sleep(2s)`"),
    ("time.Now", "the time is `date_now_iso()` as text, `date_now()` as a dict, `now_ms()` in milliseconds"),
    ("time.Since", "how long something took is `elapsed()`, or the difference of two `monotonic_ms()`"),
    ("json.Marshal", "JSON is written with `json_stringify(value)`"),
    ("json.Unmarshal", "JSON is read with `json_parse(text)`"),
    ("http.Get", "a page is fetched with `http_get(url)`"),
    (
        "sync",
        "`parallel` waits for all its tasks, and they share nothing; a section for one at a time is `mutex { ... }`",
    ),
    ("context", "a limit of time is `deadline 2s { ... }`"),
    ("log.Fatal", "an error that nobody catches ends the program: `throw \"text\"`"),
    // Rust.
    ("std.fs", "files are read and written whole: `read_file(path)`, `write_file(path, text)`"),
    ("std.env", "the arguments are `argv`, a variable of the environment is `env(\"HOME\")`"),
    ("std.process", "a program ends with `exit(code)`, another is run with `exec(program, ...arguments)`"),
    ("thread.spawn", "a task is started with `spawn { ... }`"),
    ("thread.sleep", "wait with `sleep(500ms)`"),
    ("Instant.now", "a clock that never goes back is `monotonic_ms()`"),
    ("Duration", "durations are values: `500ms`, `2s`, `1m`"),
    ("Box.new", "there are no boxes: a value stands for itself"),
    ("Rc.new", "there are no references: a value stands for itself"),
    ("Arc.new", "there are no references: a value stands for itself; tasks talk through channels"),
    // More of Python, JavaScript, Go and Rust.
    ("os.getcwd", "the working directory is `cwd()`"),
    ("os.Create", "a file is written whole with `write_file(path, text)`"),
    ("os.MkdirAll", "a folder, with those above it, is made by `mkdir(path)`"),
    ("os.Mkdir", "a folder, with those above it, is made by `mkdir(path)`"),
    ("os.Remove", "a file is removed by `delete_file(path)`"),
    ("os.RemoveAll", "a file or folder is removed by `delete_file(path)`"),
    ("os.Stat", "what is known of a file is `stat(path)`; whether it is there, `file_exists(path)`"),
    ("os.Open", "a file is read with `read_file(path)`"),
    (
        "shutil",
        "folders are removed by `delete_file(path)`, files copied by `copy_file(from, to)` and moved by `move_file(from, to)`",
    ),
    ("collections", "a default is taken with `??`: `d[key] ?? []`; items are counted by `xs.tally()`"),
    (
        "itertools",
        "lists are put together with `+`; they have `zip`, `chunk`, `window`, `group_by` and `flat_map`",
    ),
    ("functools", "a value is gathered by `xs.reduce(0, { sum, x -> sum + x })`"),
    ("copy.deepcopy", "a copy is made by every assignment: `var other = d`"),
    ("threading", "a task is started with `spawn { ... }`; `parallel each xs { x -> ... }` runs several"),
    ("np", "numbers in lists have functions of their own: `mean(xs)`, `median(xs)`, `xs.sum()`"),
    ("random.random", "a random number is `random()` or `random_int(low, high)`"),
    ("asyncio.run", "a call waits by itself: leave it out; `await(task)` is for what `spawn` started"),
    ("asyncio.sleep", "wait with `sleep(500ms)`"),
    ("asyncio.create_task", "a task is started with `spawn { ... }`, its result is `await(task)`"),
    ("datetime.now", "the time is `date_now_iso()` as text, `date_now()` as a dict"),
    ("datetime.datetime", "the time is `date_now_iso()` as text, `date_now()` as a dict"),
    ("Object.fromEntries", "a dict is made from pairs with `to_dict(pairs)`"),
    ("console.time", "how long something took is the difference of two `monotonic_ms()`"),
    ("console.warn", "errors and warnings go out with `eprintln(value)`"),
    ("axios", "a page is fetched with `http_get(url)`, data sent with `http_post(url, body)`"),
    ("Number.isNaN", "whether a float is no number is told by `is_nan(n)`"),
    ("crypto.randomUUID", "an identifier by chance is `uuid()`"),
    ("fs.existsSync", "whether a file is there is told by `file_exists(path)`"),
    ("child_process", "a program is run with `exec(program, ...arguments)`, a command with `shell(command)`"),
    ("process.cwd", "the working directory is `cwd()`"),
    ("process.on", "what is to happen at the end stands in `defer { ... }`"),
    ("z", "what a value must be is told by a type, `type User = {name: string}`, and `schema_of(User)`"),
    ("fmt.Sprint", "text is made with `to_string(value)`, or inside text: `\"${value}\"`"),
    ("fmt.Sscanf", "numbers are read from text with `to_int(text)` and `to_float(text)`"),
    ("log.Println", "what happens is told by `log_info(text)`, `log_warn(text)` or `log_error(text)`"),
    ("log.Printf", "what happens is told by `log_info(\"... ${value}\")`"),
    ("strings.Replace", "text is replaced by its method: `text.replace(\"a\", \"b\")`"),
    ("strings.Repeat", "text is repeated by its method: `text.repeat(3)`"),
    ("strings.Index", "the place in a text is `text.index_of(part)`"),
    ("strings.Fields", "text is cut at blanks by `text.split()`"),
    ("strings.Builder", "a list of parts becomes a text by `parts.join(\"\")`"),
    ("strings.NewReader", "the lines of a text are `text.lines()`"),
    ("slices", "lists have methods: `xs.contains(1)`, `xs.sort()`, `xs.index_of(1)`, `xs.reverse()`"),
    ("maps", "dicts have methods: `d.keys()`, `d.values()`, `d.merge(other)`"),
    ("math.MaxInt64", "the largest int is `9223372036854775807`"),
    ("errors.Is", "errors are told apart by their dict: `error_info(e).category == \"timeout\"`"),
    ("io.ReadAll", "a file is read whole with `read_file(path)`, the input with `read_stdin()`"),
    ("ioutil", "files are read and written whole: `read_file(path)`, `write_file(path, text)`"),
    (
        "bufio",
        "a line of the input is `read_line()`, all of it `read_stdin()`; lines of a text are `text.lines()`",
    ),
    ("filepath.Join", "paths are put together with `path_join(a, b)`"),
    ("filepath.Glob", "files are found with `glob(pattern)`"),
    ("filepath", "paths are text: `path_join(a, b)`, `dirname(path)`, `basename(path)`, `glob(pattern)`"),
    ("exec.Command", "a program is run with `exec(\"ls\", \"-l\").stdout`"),
    ("uuid.New", "an identifier by chance is `uuid()`"),
    ("uuid.uuid4", "an identifier by chance is `uuid()`"),
    ("http.ListenAndServe", "a program answers others by `harn serve mcp FILE` or `harn serve acp FILE`"),
    (
        "regexp",
        "patterns are text: `regex_match(pattern, text)`, `regex_replace(pattern, by, text)`, `regex_split(pattern, text)`",
    ),
    ("time.Second", "durations are values: `500ms`, `5s`, `1m`"),
    ("time.Duration", "durations are values: `500ms`, `5s`, `1m`"),
    ("time.After", "a limit of time is `deadline 5s { ... }`; `select` has an arm `timeout 5s { ... }`"),
    (
        "ctx.Done",
        "whether the run was cancelled is told by `is_cancelled()`; a limit of time is `deadline 2s { ... }`",
    ),
    ("mu", "a section for one at a time is `mutex { ... }`"),
    ("flag", "the arguments of the program are `argv`"),
    ("std.mem.swap", "two values change places over a third name: `let t = a; a = b; b = t`"),
    ("Command.new", "a program is run with `exec(\"ls\", \"-l\").stdout`"),
    ("serde_json", "JSON is read with `json_parse(text)` and written with `json_stringify(value)`"),
    ("reqwest", "a page is fetched with `http_get(url)`, data sent with `http_post(url, body)`"),
    ("Regex.new", "patterns are text: `regex_match(pattern, text)`, `regex_replace(pattern, by, text)`"),
    ("fs.read_dir", "the entries of a folder are `list_dir(path)`"),
    ("tokio.spawn", "a task is started with `spawn { ... }`, its result is `await(task)`"),
    ("tokio.join", "tasks run side by side in `parallel each xs { x -> ... }`"),
    ("tokio.select", "the first of several channels is taken by `select { value from channel { ... } }`"),
    ("client.chat", "a model is asked with `llm_call(prompt, system, {model: \"openai:gpt-4o\"})`"),
    ("client.messages", "a model is asked with `llm_call(prompt, system, {model: \"...\"})`"),
    ("openai", "a model is asked with `llm_call(prompt, system, {model: \"openai:gpt-4o\"})`"),
    ("OpenAI", "a model is asked with `llm_call(prompt, system, {model: \"openai:gpt-4o\"})`"),
];

/// Methods that no value has here.
const METHODS: &[(&str, &str)] = &[
    // Lists.
    ("append", "a list grows with `xs = xs.push(value)` or `xs = xs + [value]`"),
    ("add", "a list grows with `xs = xs.push(value)`, a set with `s = set_add(s, value)`"),
    ("extend", "lists are put together with `+`: `xs = xs + [1, 2]`"),
    ("concat", "lists and texts are put together with `+`: `xs + ys`"),
    ("insert", "an item comes in between two parts: `xs.slice(0, i) + [item] + xs.slice(i)`"),
    ("remove", "a list without some items is `xs.filter({ x -> x != item })`"),
    ("splice", "a list without some items is `xs.slice(0, i) + xs.slice(j)`"),
    ("shift", "the first item is `xs.first()`, the list without it `xs.skip(1)`"),
    ("unshift", "a list grows in front with `[item] + xs`"),
    ("index", "the place of an item is `xs.index_of(item)`"),
    ("indexOf", "the place of an item is `xs.index_of(item)`"),
    ("lastIndexOf", "the last place in a text is `text.last_index_of(part)`"),
    ("findIndex", "the place of an item is `xs.find_index({ x -> x > 1 })`"),
    ("includes", "whether something is in it is told by `xs.contains(item)`, or `item in xs`"),
    ("has_key", "whether a key is there is told by `d.has(key)`"),
    ("contains_key", "whether a key is there is told by `d.has(key)`"),
    ("hasOwnProperty", "whether a key is there is told by `d.has(key)`"),
    ("some", "whether one fits is told by `xs.any({ x -> x > 1 })`"),
    ("forEach", "a loop does it: `for x in xs { ... }`"),
    ("flatMap", "lists of lists are made into one by `xs.flat_map({ x -> [x] })`"),
    ("fold", "a value is gathered by `xs.reduce(0, { sum, x -> sum + x })`"),
    ("rev", "a reversed copy is `xs.reverse()`"),
    ("reversed", "a reversed copy is `xs.reverse()`"),
    ("sorted", "a sorted copy is `xs.sort()`, by a key `xs.sort_by({ x -> x.key })`"),
    ("copy", "a copy is made by every assignment: `var other = xs`"),
    ("clone", "a copy is made by every assignment: `var other = xs`"),
    ("cloned", "a copy is made by every assignment: leave it out"),
    ("to_owned", "a copy is made by every assignment: leave it out"),
    ("to_vec", "a copy is made by every assignment: leave it out"),
    ("clear", "an empty one is assigned: `xs = []`, `d = {}`"),
    ("into_iter", "lists are walked through as they are; lazily with `xs.iter()`"),
    ("iter_mut", "a list is changed by assignment: `xs[i] = value`, or `xs = xs.map({ x -> x * 2 })`"),
    ("collect", "`map` and `filter` of a list give a list; an iterator gives one by `.to_list()`"),
    ("is_empty", "whether nothing is in it is told by `xs.empty()`"),
    ("isEmpty", "whether nothing is in it is told by `xs.empty()`"),
    ("length", "the length is `len(value)`"),
    ("size", "the length is `len(value)`"),
    // Dicts.
    ("sort_by", "a dict is sorted as the list of its entries: `d.entries().sort_by({ e -> e.value })`"),
    ("sort", "a dict is sorted as the list of its entries: `d.entries().sort_by({ e -> e.key })`"),
    (
        "map",
        "values are changed by `d.map_values({ v -> v + 1 })`; a list comes from `d.entries().map({ e -> e.value })`",
    ),
    ("items", "keys and values are `for (key, value) in d { ... }`, or `d.entries()`"),
    ("setdefault", "a default is taken with `??`: `d[key] ?? []`"),
    ("update", "dicts are put together with `{...a, ...b}` or `a.merge(b)`"),
    ("put", "an entry is assigned: `d[key] = value`"),
    // Text.
    ("strip", "a text without blanks around it is `text.trim()`"),
    ("lstrip", "a text without blanks in front is `text.trim_start()`"),
    ("rstrip", "a text without blanks behind is `text.trim_end()`"),
    ("trimLeft", "a text without blanks in front is `text.trim_start()`"),
    ("trimRight", "a text without blanks behind is `text.trim_end()`"),
    ("trimStart", "a text without blanks in front is `text.trim_start()`"),
    ("trimEnd", "a text without blanks behind is `text.trim_end()`"),
    ("startswith", "how a text begins is told by `text.starts_with(\"a\")`"),
    ("startsWith", "how a text begins is told by `text.starts_with(\"a\")`"),
    ("endswith", "how a text ends is told by `text.ends_with(\"a\")`"),
    ("endsWith", "how a text ends is told by `text.ends_with(\"a\")`"),
    (
        "title",
        "a text with capitals in front is `title_case(text)`, its first letter `uppercase_first(text)`",
    ),
    ("capitalize", "a text with a capital in front is `uppercase_first(text)`"),
    ("toUpperCase", "a text in capitals is `text.upper()`"),
    ("to_uppercase", "a text in capitals is `text.upper()`"),
    ("toLowerCase", "a text in small letters is `text.lower()`"),
    ("to_lowercase", "a text in small letters is `text.lower()`"),
    ("format", "values stand in the text: `\"... ${value}\"`"),
    ("splitlines", "the lines of a text are `text.lines()`"),
    ("split_whitespace", "a text is cut at blanks by `text.split()`"),
    ("join", "the list joins its items: `xs.join(\", \")`"),
    ("find", "the place in a text is `text.index_of(part)`, -1 when it is not there"),
    ("match", "a pattern is looked for by `regex_match(pattern, text)`"),
    ("replaceAll", "all places are replaced by `text.replace(old, new)`"),
    ("substr", "a part of a text is `text[1:3]` or `text.substring(start, end)`"),
    ("slice", "a part is `text[1:3]`"),
    ("charAt", "a character is `text[0]` or `text.char_at(0)`"),
    ("padStart", "a text is filled up by `text.pad_left(width)`"),
    ("padEnd", "a text is filled up by `text.pad_right(width)`"),
    ("zfill", "a text is filled up by `text.pad_left(width, \"0\")`"),
    ("rjust", "a text is filled up by `text.pad_left(width)`"),
    ("ljust", "a text is filled up by `text.pad_right(width)`"),
    ("isdigit", "whether a text is a number is told by `to_int(text) != nil`"),
    ("push_str", "texts are put together with `+`: `text += \"more\"`"),
    ("as_str", "a text is a string already: leave it out"),
    ("into", "a value needs no conversion: leave it out"),
    ("as_ref", "there are no references: leave it out"),
    ("encode", "the bytes of a text are `bytes_from_string(text)`"),
    // Numbers and what may be missing.
    ("toFixed", "digits behind the point are `fixed(n, 2)`"),
    ("toString", "text is made with `to_string(value)`, or inside text: `\"${value}\"`"),
    ("parse", "a number is made with `to_int(text)` or `to_float(text)`; it is nil when the text is none"),
    ("abs", "without its sign a number is `abs(n)`"),
    ("sqrt", "the root is `sqrt(n)`"),
    ("pow", "powers are written with `**`: `n ** 2`"),
    ("powi", "powers are written with `**`: `n ** 2`"),
    (
        "unwrap",
        "what may be missing is nil: a default is `value ?? other`; a result is opened by `unwrap(result)`",
    ),
    ("expect", "what may be missing is nil: `require value != nil, \"text\"`"),
    ("unwrap_or", "a default for nil is `value ?? other`; for a result it is `unwrap_or(result, other)`"),
    ("unwrap_or_else", "a default for nil is `value ?? other`"),
    ("unwrap_or_default", "a default for nil is `value ?? other`"),
    ("is_some", "what may be missing is compared with nil: `value != nil`"),
    ("is_none", "what may be missing is compared with nil: `value == nil`"),
    ("is_ok", "whether a result is good is told by `is_ok(result)`"),
    ("is_err", "whether a result is bad is told by `is_err(result)`"),
    ("map_err", "an error is changed where it is caught: `try { ... } catch (e) { throw \"...\" }`"),
    ("at", "an item or character is `xs[-1]`"),
    ("charCodeAt", "the number of a character is not at hand; `bytes_from_string(text)` gives its bytes"),
    ("isalpha", "what a text is made of is told by `regex_match(\"^[A-Za-z]+$\", text) != nil`"),
    ("isalnum", "what a text is made of is told by `regex_match(\"^[A-Za-z0-9]+$\", text) != nil`"),
    (
        "removeprefix",
        "a text without its beginning is `text.starts_with(p) ? text.substring(p.len()) : text`",
    ),
    ("casefold", "a text in small letters is `text.lower()`"),
    ("center", "a text is filled up by `text.pad_left(width)` and `text.pad_right(width)`"),
    (
        "ok_or",
        "a default for nil is `value ?? other`; an error is thrown by `require value != nil, \"text\"`",
    ),
    ("ok", "what may be missing is nil: a default is `value ?? other`"),
    ("entry", "a default is taken with `??`: `d[key] = (d[key] ?? 0) + 1`"),
    ("or_insert", "a default is taken with `??`: `d[key] = (d[key] ?? 0) + 1`"),
    ("setDefault", "a default is taken with `??`: `d[key] ?? []`"),
    ("retain", "a list of those that fit is `xs = xs.filter({ x -> x > 1 })`"),
    ("for_each", "a loop does it: `for x in xs { ... }`"),
    ("dedup", "a list with each item once is `xs.unique()`"),
    ("truncate", "the first items are `xs.take(n)`"),
    ("and_then", "what comes then is the next line; a nil is passed on by `?.`"),
    (
        "strip_prefix",
        "a text without its beginning is `text.starts_with(p) ? text.substring(p.len()) : text`",
    ),
    ("as_bytes", "the bytes of a text are `bytes_from_string(text)`"),
    ("write_text", "a file is written with `write_file(path, text)`"),
    ("read_text", "a file is read with `read_file(path)`"),
    // Tasks.
    ("then", "a call waits by itself: what comes then is the next line"),
    ("catch", "errors are caught with `try { ... } catch (e) { ... }`"),
];

/// Types and values in annotations and lines, and ours.
const WORDS: &[(&str, &str)] = &[
    (r"&(?:'\w+\s+)?(?:mut\s+)?", ""),
    (r"(?:u8|u16|u32|u64|u128|usize|i8|i16|i32|i64|i128|isize|uint|int32|int64|integer)\b", "int"),
    (r"(?:f32|f64|float32|float64|double|number)\b", "float"),
    (r"(?:str|String|rune)\b", "string"),
    (r"(?:boolean)\b", "bool"),
    (r"(?:Vec|List|Array)<", "list<"),
    (r"(?:HashMap|BTreeMap|Map|Dict|Record)<", "dict<"),
];

/// Returns our type for the name of one of another language.
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

/// Returns what to tell somebody who called a method that a value does not have.
pub(super) fn method_advice(name: &str) -> Option<&'static str> {
    METHODS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, advice)| *advice)
        .or_else(|| names::advice(name))
}

/// Returns what to tell about a name that nothing defines, with what stands behind it: `os.path.exists(...)`, `x = 5`.
pub fn undefined(name: &str, behind: &str) -> Option<String> {
    let end = behind.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '.').unwrap_or(behind.len());
    if let Some(advice) = member(&format!("{name}{}", &behind[..end])) {
        return Some(advice.to_owned());
    }
    let is_type = ["string", "int", "float", "bool", "list", "dict"].contains(&name);
    if is_type && !behind.starts_with('(') {
        return Some(format!(
            "a type as a value stands in text, as `{{name: \"{name}\"}}`; or name it: `type T = {{name: {name}}}`"
        ));
    }
    if let Some(advice) = names::advice(name) {
        return Some(advice.to_owned());
    }
    let behind = behind.trim_start_matches([' ', '\t']);
    let assigned = behind.starts_with('=') && !behind.starts_with("==") && !behind.starts_with("=>");
    assigned.then(|| format!("declare it first: `let {name} = ...`, or `var {name} = ...` if it changes"))
}

/// The longest known path that `path` begins with.
fn member(path: &str) -> Option<&'static str> {
    let begins =
        |known: &str| path.strip_prefix(known).is_some_and(|rest| rest.starts_with('.') || rest.is_empty());
    let known = MEMBERS.iter().filter(|(known, _)| begins(known));
    // A path of one word may be a variable of the program.
    let known = known.filter(|(known, _)| known.contains('.') || path.contains('.'));
    known.max_by_key(|(known, _)| known.len()).map(|(_, advice)| *advice)
}

/// Returns what stands for the first function of another language in a line.
pub(super) fn in_line(line: &str) -> Option<&'static str> {
    static CALL: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r#""(?:[^"\\]|\\.)*"|\b([A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)*)\s*\("#).ok()
    });
    let calls = (*CALL).as_ref()?.captures_iter(line);
    // Methods of a value that has no name: `f(x).join(`.
    let has_name = |path: &regex::Match<'_>| !line[..path.start()].ends_with(['.', ':']);
    calls.filter_map(|found| found.get(1)).filter(has_name).find_map(|path| {
        let path = path.as_str().replace("::", ".");
        // `format` is a builtin, too.
        let alone =
            || names::advice(&path).filter(|_| !path.contains('.') && path != "format" && path != "require");
        member(&path).or_else(alone)
    })
}

/// The line with types and values of other languages in our words, outside of text.
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
    let mend = |found: &regex::Captures<'_>| {
        let whole = &found[0];
        match (1..=3).find(|group| found.get(*group).is_some()) {
            Some(group) => ["nil", "true", "false"][group - 1].to_owned(),
            None => match (5..5 + WORDS.len()).find(|group| found.get(*group).is_some()) {
                Some(group) => format!("{}{}", &found[4], WORDS[group - 5].1),
                None => whole.to_owned(),
            },
        }
    };
    // `&Vec<i32>` is two words.
    let once = pieces.replace_all(line, mend).into_owned();
    pieces.replace_all(&once, mend).into_owned()
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
