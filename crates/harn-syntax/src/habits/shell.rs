//! Shell forms, with their Harn equivalents.

use regex::Captures;

use super::form::{
    Fix::{self, By, With},
    Table,
};

/// The table: pattern, replacement, and explanation.
pub(super) const FORMS: Table = &[
    (r"^\s*set\s+[-+]\w+.*", Fix::None, "no setting is needed: an uncaught error ends the program"),
    (r"^\s*:\s*$", Fix::None, "an empty block is `{ }`"),
    (r"\$\(\(\s*(.+?)\s*\)\)", By("$1"), "arithmetic needs no special syntax"),
    (r"^(\s*)\(\(\s*(.+?)\s*\)\)\s*$", By("$1$2"), "arithmetic needs no special syntax"),
    // Conditions and loops.
    (
        r"\b(if|elif|while|until)\s+(?:\[\[?|test)\s*(.+?)\s*(?:\]\]?)?\s*(?:;?\s*(?:then|do)\b|;|$)",
        With(condition),
        "a condition needs no brackets, a block needs braces",
    ),
    (r"^\s*\}?\s*else\s*$", By("} else {"), "a block needs braces"),
    (
        r"\bfor\s+(\w+)\s+in\s+(?:\$\(|`)seq\s+(\S+)\s+(\S+?)[)`]\s*;?\s*(?:do\b)?",
        By("for $1 in $2 to $3 {"),
        "loop over a range",
    ),
    (
        r"\bfor\s+(\w+)\s+in\s+\{(\d+)\.\.(\d+)\}\s*;?\s*(?:do\b)?",
        By("for $1 in $2 to $3 {"),
        "loop over a range",
    ),
    (
        r#"\bfor\s+(\w+)\s+in\s+"?\$(?:@|\*)"?\s*;?\s*(?:do\b)?"#,
        By("for $1 in argv {"),
        "the program's arguments are `argv`",
    ),
    (
        r"\bfor\s+(\w+)\s+in\s+(\S*\*\S*?)\s*;?\s*(?:do\b.*)?$",
        By("for $1 in glob(\"$2\") {"),
        "find files with `glob`",
    ),
    (
        r"\bwhile\s+(?:IFS=\S*\s+)?read\s+(?:-r\s+)?(\w+)\s*;?\s*(?:do\b.*)?$",
        By("for $1 in (read_stdin() ?? \"\").lines() {"),
        "split a string into lines with `text.lines()`; read the input with `read_stdin()`, a file with `read_file(path)`",
    ),
    (
        r"^(\s*)(if|while|until)\s+(!?)\s*([a-z][\w./-]*(?:\s+[\w./=-]+)*)\s*;\s*(?:then|do)\b.*$",
        With(command_as_condition),
        "check a command with `success`",
    ),
    (r"\bcase\s+\$?(\w+)\s+in\s*$", By("match $1 {"), "write `match value { pattern -> { ... } }`"),
    (
        r"(\{\s*|;\s*)echo\s+([^\x22$;{}|>&]+?)\s*(?:;\s*)?(\})",
        By("${1}println(\"$2\") $3"),
        "a call needs parentheses, a string double quotes",
    ),
    (
        r"^(\s*)([a-z][\w-]*)\s\|\s([a-z][\w-]*(?:\s.*)?)$",
        By("${1}println(shell(\"$2 | $3\").stdout)"),
        "run a shell line with `shell`",
    ),
    // Functions and variables.
    (
        r"^(\s*)(?:function\s+)?([A-Za-z_]\w*)\s*\(\)\s*\{(.*)$",
        By("${1}fn $2() {$3"),
        "declare functions with `fn`",
    ),
    (r"^(\s*)function\s+([A-Za-z_]\w*)\s*\{(.*)$", By("${1}fn $2() {$3"), "declare functions with `fn`"),
    (
        r"^(\s*)export\s+(\w+)=(\S+)\s*$",
        By("${1}let $2 = \"$3\""),
        "declare variables with `let`; read the environment with `env(\"NAME\")`",
    ),
    (
        r"^(\s*)(?:let\s+|local\s+|export\s+)?(\w+)=(?:\$\(|`)(.+?)[)`]\s*$",
        With(output_of),
        "run a command with `shell`, a program with `exec`",
    ),
    (
        r"^(\s*)(?:let\s+|local\s+)?(\w+)=\(\s*(\S+(?:[ \t]+\S+)*?)\s*\)\s*$",
        With(items),
        "a list needs brackets, with commas between its items",
    ),
    (
        r"^(\s*)\$\(([^()]+)\)\s*$",
        By("${1}shell(\"$2\").stdout"),
        "run a command with `shell`, a program with `exec`",
    ),
    (r"\$\{(\w+):-([^}]*)\}", By("($1 ?? \"$2\")"), "write a default for nil with `??`"),
    (r"\$\{#(\w+)\}", By("len($1)"), "the length is `len(value)`"),
    (r"\$#", By("len(argv)"), "the program's arguments are `argv`"),
    (r#""?\$[@*]"?"#, By("argv"), "the program's arguments are `argv`"),
    (r"\$([1-9])", With(argument), "the program's arguments are `argv`"),
    (
        r"\$\?",
        Fix::None,
        "the result has the exit status: `let r = exec(\"make\")`, then `r.status` and `r.success`",
    ),
    // Commands replaced by functions.
    (r"^\s*cat\s*<<-?\s*\S+", Fix::None, "use `\"\"\"` for strings of several lines"),
    (
        r"^(\s*)((?:cat|ls|grep|find|echo|ps|sort|head|tail|awk|sed|cut|tr|uniq|wc|curl|du|df|git)\b[^|]*\|[^|].*)$",
        With(line_of_a_shell),
        "run a shell line with `shell`; strings and lists have methods for most of it",
    ),
    (r"^(\s*)echo\s+(.+?)\s*>>\s*(\S+)\s*$", With(appended), "append to a file with `append_file`"),
    (r"^(\s*)echo\s+(.+?)\s*>\s*(\S+)\s*$", With(written), "write a file with `write_file`"),
    (
        r#"^(\s*)echo\s+"\$\{(\w+)\[[@*]\]\}"\s*$"#,
        By("${1}println($2.join(\" \"))"),
        "join items with a method of the list",
    ),
    (r#"^(\s*)echo\s+(?:-e\s+)?(".*\$.*")\s*$"#, With(said), "every string can contain `${...}`"),
    (r"^(\s*)echo\s+\$\{?(\w+)\}?\s*$", By("${1}println($2)"), "a call needs parentheses"),
    (
        r"^(\s*)printf\s+.*",
        Fix::None,
        "interpolate values: `print(\"... ${value}\")`; `println` adds a newline",
    ),
    (
        r"^\s*[a-z][\w./-]*(?:\s+[^&|\s]+)*\s*(?:&&|\|\|)\s*(?:echo|exit|return|cd|[a-z]+\s+[-\w./]+).*$",
        Fix::None,
        "check the result: `if exec(\"make\").success { ... } else { exit(1) }`",
    ),
    (
        r"^(\s*)([a-z][\w./-]*(?:\s+[^&|]+)?)\s*&\s*$",
        By("${1}spawn { shell(\"$2\") }"),
        "start a task with `spawn`",
    ),
    (
        r"^(\s*)trap\s+['\x22]?(\w+)['\x22]?\s+\w+\s*$",
        By("${1}defer { $2() }"),
        "`defer { ... }` runs at the end of a block",
    ),
    (
        r#"^(\s*)alias\s+(\w+)=["'](.+)["']\s*$"#,
        By("${1}fn $2() { shell(\"$3\") }"),
        "write an alias as a function",
    ),
    (
        r"^\s*date\b.*",
        Fix::None,
        "get the time with `timestamp()` in seconds, `date_now_iso()` as text, `date_now()` as a dict",
    ),
    (r"^(\s*)sleep\s+(\d+)(s|m|h)?\s*$", With(pause), "a call needs parentheses"),
    (r"^(\s*)exit\s+(\d+)\s*$", By("${1}exit($2)"), "a call needs parentheses"),
    (r"^(\s*)(?:source|\.)\s+(\S+)\s*$", By("${1}import \"$2\""), "import other files with `import`"),
    (
        r#"^(\s*)read\s+(?:-r\s+)?-p\s+("[^"]*")\s+(\w+)\s*$"#,
        By("${1}let $3 = prompt_user($2)"),
        "a person is asked with `prompt_user`",
    ),
    (r"^(\s*)read\s+(?:-r\s+)?(\w+)\s*$", By("${1}let $2 = read_line()"), "a line is read with `read_line`"),
    (r"^(\s*)mkdir\s+(?:-p\s+)?(\S+)\s*$", By("${1}mkdir(\"$2\")"), "create directories with `mkdir`"),
    (r"^(\s*)rm\s+(?:-\w+\s+)?(\S+)\s*$", By("${1}delete_file(\"$2\")"), "delete files with `delete_file`"),
    (
        r"^(\s*)cp\s+(?:-\w+\s+)?(\S+)\s+(\S+)\s*$",
        By("${1}copy_file(\"$2\", \"$3\")"),
        "copy files with `copy_file`",
    ),
    (
        r"^(\s*)mv\s+(?:-\w+\s+)?(\S+)\s+(\S+)\s*$",
        By("${1}move_file(\"$2\", \"$3\")"),
        "move files with `move_file`",
    ),
    (
        r"^(\s*)cd\s+(\S+)\s*$",
        Fix::None,
        "run a program in another directory with `exec_at(dir, program)`; name files by path",
    ),
    (
        r"^(\s*)jq\s+(?:-\w+\s+)?'?(\.[^\s']*)'?\s+(\S+)\s*$",
        By("${1}println(jq(json_parse(read_file(\"$3\")), \"$2\"))"),
        "parse JSON with `json_parse` and query it with `jq`",
    ),
    (r"^(\s*)cat\s+(\S+)\s*$", By("${1}println(read_file(\"$2\"))"), "read files with `read_file`"),
    (
        r"^(\s*)(?:curl|wget)\s+(?:-\S+\s+)*(\S+)\s*$",
        By("${1}println(http_get(\"$2\").body)"),
        "fetch pages with `http_get`",
    ),
    (r"\[?\[?\s*-[fed]\s+(\S+)\s*\]\]?", By("file_exists(\"$1\")"), "check a file with `file_exists`"),
    (r"^(\s*)test\s+-[fed]\s+(\S+)", By("${1}file_exists(\"$2\")"), "check a file with `file_exists`"),
    (
        r"^(\s*)(ls|grep|sed|awk|find|touch|chmod|git|docker|npm|pip|make|ssh|tar|kill|ps)\s+(.+?)\s*$",
        By("${1}shell(\"$2 $3\")"),
        "run a command with `shell`, a program with `exec`",
    ),
];

/// Returns advice for lines that parse as Harn but are shell commands: `set -x`, `make > log.txt`.
pub(super) fn line(line: &str) -> Option<String> {
    let is_word = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || "_./-".contains(c));
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["set", flags] if flags.starts_with(['-', '+']) => {
            Some("no setting is needed: an uncaught error ends the program".to_owned())
        }
        [command, ">", file] if is_word(command) && is_word(file) && file.contains('.') => Some(format!(
            "write a file with `write_file`: `write_file(\"{file}\", shell(\"{command}\").stdout)`"
        )),
        [first, sign @ ("&&" | "||"), second] if is_word(first) && is_word(second) => {
            let not = if sign == "&&" { "" } else { "!" };
            Some(format!(
                "check a command with `success`: `if {not}shell(\"{first}\").success {{ shell(\"{second}\") }}`"
            ))
        }
        _ => None,
    }
}

fn part<'a>(found: &Captures<'a>, number: usize) -> &'a str {
    found.get(number).map_or("", |group| group.as_str())
}

/// Converts `if ! cmd; then`.
fn command_as_condition(found: &Captures<'_>) -> String {
    let not = (part(found, 2) == "until") != (part(found, 3) == "!");
    let word = if part(found, 2) == "if" { "if" } else { "while" };
    let sign = if not { "!" } else { "" };
    format!("{}{word} {sign}shell(\"{}\").success {{", part(found, 1), part(found, 4))
}

/// Converts a shell word to a value: `$x` and `"$x"` become names, everything else except integers a string.
fn value(word: &str) -> String {
    let bare = word.trim_matches(['"', '\'']);
    match bare.strip_prefix('$').map(|name| name.trim_matches(['{', '}'])) {
        Some(name) if name.chars().all(|c| c.is_alphanumeric() || c == '_') => name.to_owned(),
        _ if bare.parse::<i64>().is_ok() => bare.to_owned(),
        _ => text(word),
    }
}

/// Converts a shell string to a string with `${...}` interpolation.
fn text(word: &str) -> String {
    let bare = word.trim_matches(['"', '\'']).replace('"', "\\\"");
    let mut out = String::from("\"");
    let mut rest = bare.as_str();
    while let Some(at) = rest.find('$') {
        let name = &rest[at + 1..];
        let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
        out.push_str(&rest[..at]);
        match &name[..end] {
            "" => out.push('$'),
            name => out.push_str(&format!("${{{name}}}")),
        }
        rest = &name[end..];
    }
    format!("{out}{rest}\"")
}

/// Converts `if [ "$n" -eq 1 ]; then` to a Harn condition.
fn condition(found: &Captures<'_>) -> String {
    const SIGNS: [(&str, &str); 9] = [
        ("-eq", "=="),
        ("-ne", "!="),
        ("-lt", "<"),
        ("-le", "<="),
        ("-gt", ">"),
        ("-ge", ">="),
        ("=", "=="),
        ("==", "=="),
        ("!=", "!="),
    ];
    let words: Vec<&str> = part(found, 2).split_whitespace().collect();
    let (not, words) = match words.split_first() {
        Some((&"!", rest)) => ("!", rest),
        _ => ("", &words[..]),
    };
    let said = match words {
        ["-f" | "-e" | "-d", path] => format!("{not}file_exists({})", value(path)),
        ["-z", word] => format!("{} == \"\"", value(word)),
        ["-n", word] => format!("{} != \"\"", value(word)),
        [a, sign, b] => {
            let sign = SIGNS.iter().find(|(theirs, _)| theirs == sign).map_or(*sign, |(_, ours)| ours);
            format!("{} {sign} {}", value(a), value(b))
        }
        _ => words.join(" "),
    };
    match part(found, 1) {
        "until" => format!("while !({said}) {{"),
        "elif" => format!("}} else if {said} {{"),
        word => format!("{word} {said} {{"),
    }
}

fn output_of(found: &Captures<'_>) -> String {
    format!("{}let {} = shell({}).stdout.trim()", part(found, 1), part(found, 2), text(part(found, 3)))
}

fn items(found: &Captures<'_>) -> String {
    let items: Vec<String> = part(found, 3).split_whitespace().map(value).collect();
    format!("{}let {} = [{}]", part(found, 1), part(found, 2), items.join(", "))
}

fn argument(found: &Captures<'_>) -> String {
    let number: usize = part(found, 1).parse().unwrap_or(1);
    format!("argv[{}]", number - 1)
}

fn line_of_a_shell(found: &Captures<'_>) -> String {
    format!("{}println(shell({}).stdout)", part(found, 1), text(part(found, 2)))
}

fn appended(found: &Captures<'_>) -> String {
    format!("{}append_file({}, {} + \"\\n\")", part(found, 1), text(part(found, 3)), text(part(found, 2)))
}

fn written(found: &Captures<'_>) -> String {
    format!("{}write_file({}, {} + \"\\n\")", part(found, 1), text(part(found, 3)), text(part(found, 2)))
}

fn said(found: &Captures<'_>) -> String {
    format!("{}println({})", part(found, 1), text(part(found, 2)))
}

fn pause(found: &Captures<'_>) -> String {
    let unit = Some(part(found, 3)).filter(|unit| !unit.is_empty()).unwrap_or("s");
    format!("{}sleep({}{unit})", part(found, 1), part(found, 2))
}
