//! Forms of a shell, with what stands for them.

use regex::Captures;

use super::form::{
    Mend::{self, By, With},
    Table,
};

/// The table: pattern, replacement, and what to say.
pub(super) const FORMS: Table = &[
    (
        r"^\s*set\s+[-+]\w+.*",
        Mend::None,
        "nothing is to be set: an error that nobody catches ends the program",
    ),
    (r"^\s*:\s*$", Mend::None, "an empty block is `{ }`"),
    (r"\$\(\(\s*(.+?)\s*\)\)", By("$1"), "numbers are reckoned as they stand"),
    (r"^(\s*)\(\(\s*(.+?)\s*\)\)\s*$", By("$1$2"), "numbers are reckoned as they stand"),
    // Conditions and loops.
    (
        r"\b(if|elif|while|until)\s+(?:\[\[?|test)\s*(.+?)\s*(?:\]\]?)?\s*(?:;?\s*(?:then|do)\b|;|$)",
        With(condition),
        "a condition stands without brackets, a block in braces",
    ),
    (r"^\s*\}?\s*else\s*$", By("} else {"), "a block stands in braces"),
    (
        r"\bfor\s+(\w+)\s+in\s+(?:\$\(|`)seq\s+(\S+)\s+(\S+?)[)`]\s*;?\s*(?:do\b)?",
        By("for $1 in $2 to $3 {"),
        "a loop counts through a range",
    ),
    (
        r"\bfor\s+(\w+)\s+in\s+\{(\d+)\.\.(\d+)\}\s*;?\s*(?:do\b)?",
        By("for $1 in $2 to $3 {"),
        "a loop counts through a range",
    ),
    (
        r#"\bfor\s+(\w+)\s+in\s+"?\$(?:@|\*)"?\s*;?\s*(?:do\b)?"#,
        By("for $1 in argv {"),
        "the arguments of the program are `argv`",
    ),
    (
        r"\bfor\s+(\w+)\s+in\s+(\S*\*\S*?)\s*;?\s*(?:do\b.*)?$",
        By("for $1 in glob(\"$2\") {"),
        "files are found with `glob`",
    ),
    (
        r"\bwhile\s+(?:IFS=\S*\s+)?read\s+(?:-r\s+)?(\w+)\s*;?\s*(?:do\b.*)?$",
        By("for $1 in (read_stdin() ?? \"\").lines() {"),
        "the lines of a text are `text.lines()`; the input is `read_stdin()`, a file `read_file(path)`",
    ),
    (
        r"^(\s*)(if|while|until)\s+(!?)\s*([a-z][\w./-]*(?:\s+[\w./=-]+)*)\s*;\s*(?:then|do)\b.*$",
        With(command_as_condition),
        "whether a command came to a good end is told by `success`",
    ),
    (r"\bcase\s+\$?(\w+)\s+in\s*$", By("match $1 {"), "write `match value { pattern -> { ... } }`"),
    (
        r"(\{\s*|;\s*)echo\s+([^\x22$;{}|>&]+?)\s*(?:;\s*)?(\})",
        By("${1}println(\"$2\") $3"),
        "the arguments of a call stand in parentheses, text in double quotes",
    ),
    (
        r"^(\s*)([a-z][\w-]*)\s\|\s([a-z][\w-]*(?:\s.*)?)$",
        By("${1}println(shell(\"$2 | $3\").stdout)"),
        "a line of a shell is run with `shell`",
    ),
    // Functions and variables.
    (
        r"^(\s*)(?:function\s+)?([A-Za-z_]\w*)\s*\(\)\s*\{(.*)$",
        By("${1}fn $2() {$3"),
        "a function is declared with `fn`",
    ),
    (r"^(\s*)function\s+([A-Za-z_]\w*)\s*\{(.*)$", By("${1}fn $2() {$3"), "a function is declared with `fn`"),
    (
        r"^(\s*)export\s+(\w+)=(\S+)\s*$",
        By("${1}let $2 = \"$3\""),
        "a variable is declared with `let`; the environment is read with `env(\"NAME\")`",
    ),
    (
        r"^(\s*)(?:let\s+|local\s+|export\s+)?(\w+)=(?:\$\(|`)(.+?)[)`]\s*$",
        With(output_of),
        "a command is run with `shell`, a program with `exec`",
    ),
    (
        r"^(\s*)(?:let\s+|local\s+)?(\w+)=\(\s*(\S+(?:[ \t]+\S+)*?)\s*\)\s*$",
        With(items),
        "a list stands in brackets, its items between commas",
    ),
    (
        r"^(\s*)\$\(([^()]+)\)\s*$",
        By("${1}shell(\"$2\").stdout"),
        "a command is run with `shell`, a program with `exec`",
    ),
    (r"\$\{(\w+):-([^}]*)\}", By("($1 ?? \"$2\")"), "a value for nil is written with `??`"),
    (r"\$\{#(\w+)\}", By("len($1)"), "the length is `len(value)`"),
    (r"\$#", By("len(argv)"), "the arguments of the program are `argv`"),
    (r#""?\$[@*]"?"#, By("argv"), "the arguments of the program are `argv`"),
    (r"\$([1-9])", With(argument), "the arguments of the program are `argv`"),
    (
        r"\$\?",
        Mend::None,
        "how a program ended is told by the result: `let r = exec(\"make\")`, then `r.status` and `r.success`",
    ),
    // Commands whose work is done by functions.
    (r"^\s*cat\s*<<-?\s*\S+", Mend::None, "text of several lines stands between two `\"\"\"`"),
    (
        r"^(\s*)((?:cat|ls|grep|find|echo|ps|sort|head|tail|awk|sed|cut|tr|uniq|wc|curl|du|df|git)\b[^|]*\|[^|].*)$",
        With(line_of_a_shell),
        "a line of a shell is run with `shell`; text and lists have methods for the most of it",
    ),
    (r"^(\s*)echo\s+(.+?)\s*>>\s*(\S+)\s*$", With(appended), "a file grows by `append_file`"),
    (r"^(\s*)echo\s+(.+?)\s*>\s*(\S+)\s*$", With(written), "a file is written with `write_file`"),
    (
        r#"^(\s*)echo\s+"\$\{(\w+)\[[@*]\]\}"\s*$"#,
        By("${1}println($2.join(\" \"))"),
        "the list joins its items",
    ),
    (r#"^(\s*)echo\s+(?:-e\s+)?(".*\$.*")\s*$"#, With(said), "any text may hold `${...}`"),
    (
        r"^(\s*)echo\s+\$\{?(\w+)\}?\s*$",
        By("${1}println($2)"),
        "the arguments of a call stand in parentheses",
    ),
    (
        r"^(\s*)printf\s+.*",
        Mend::None,
        "values stand in the text: `print(\"... ${value}\")`, with a new line `println`",
    ),
    (
        r"^\s*[a-z][\w./-]*(?:\s+[^&|\s]+)*\s*(?:&&|\|\|)\s*(?:echo|exit|return|cd|[a-z]+\s+[-\w./]+).*$",
        Mend::None,
        "what follows depends on the result: `if exec(\"make\").success { ... } else { exit(1) }`",
    ),
    (
        r"^(\s*)([a-z][\w./-]*(?:\s+[^&|]+)?)\s*&\s*$",
        By("${1}spawn { shell(\"$2\") }"),
        "a task is started with `spawn`",
    ),
    (
        r"^(\s*)trap\s+['\x22]?(\w+)['\x22]?\s+\w+\s*$",
        By("${1}defer { $2() }"),
        "`defer { ... }` runs at the end of a block",
    ),
    (
        r#"^(\s*)alias\s+(\w+)=["'](.+)["']\s*$"#,
        By("${1}fn $2() { shell(\"$3\") }"),
        "a short name is a function",
    ),
    (
        r"^\s*date\b.*",
        Mend::None,
        "the time is `timestamp()` in seconds, `date_now_iso()` as text, `date_now()` as a dict",
    ),
    (r"^(\s*)sleep\s+(\d+)(s|m|h)?\s*$", With(pause), "the arguments of a call stand in parentheses"),
    (r"^(\s*)exit\s+(\d+)\s*$", By("${1}exit($2)"), "the arguments of a call stand in parentheses"),
    (r"^(\s*)(?:source|\.)\s+(\S+)\s*$", By("${1}import \"$2\""), "other files are brought in with `import`"),
    (
        r#"^(\s*)read\s+(?:-r\s+)?-p\s+("[^"]*")\s+(\w+)\s*$"#,
        By("${1}let $3 = prompt_user($2)"),
        "a person is asked with `prompt_user`",
    ),
    (r"^(\s*)read\s+(?:-r\s+)?(\w+)\s*$", By("${1}let $2 = read_line()"), "a line is read with `read_line`"),
    (r"^(\s*)mkdir\s+(?:-p\s+)?(\S+)\s*$", By("${1}mkdir(\"$2\")"), "folders are made with `mkdir`"),
    (
        r"^(\s*)rm\s+(?:-\w+\s+)?(\S+)\s*$",
        By("${1}delete_file(\"$2\")"),
        "files are removed with `delete_file`",
    ),
    (
        r"^(\s*)cp\s+(?:-\w+\s+)?(\S+)\s+(\S+)\s*$",
        By("${1}copy_file(\"$2\", \"$3\")"),
        "files are copied with `copy_file`",
    ),
    (
        r"^(\s*)mv\s+(?:-\w+\s+)?(\S+)\s+(\S+)\s*$",
        By("${1}move_file(\"$2\", \"$3\")"),
        "files are moved with `move_file`",
    ),
    (
        r"^(\s*)cd\s+(\S+)\s*$",
        Mend::None,
        "a program is run elsewhere with `exec_at(folder, program)`, a file named by its path",
    ),
    (
        r"^(\s*)jq\s+(?:-\w+\s+)?'?(\.[^\s']*)'?\s+(\S+)\s*$",
        By("${1}println(jq(json_parse(read_file(\"$3\")), \"$2\"))"),
        "JSON is read with `json_parse`, and looked through with `jq`",
    ),
    (r"^(\s*)cat\s+(\S+)\s*$", By("${1}println(read_file(\"$2\"))"), "files are read with `read_file`"),
    (
        r"^(\s*)(?:curl|wget)\s+(?:-\S+\s+)*(\S+)\s*$",
        By("${1}println(http_get(\"$2\").body)"),
        "pages are fetched with `http_get`",
    ),
    (
        r"\[?\[?\s*-[fed]\s+(\S+)\s*\]\]?",
        By("file_exists(\"$1\")"),
        "whether a file is there is told by `file_exists`",
    ),
    (
        r"^(\s*)test\s+-[fed]\s+(\S+)",
        By("${1}file_exists(\"$2\")"),
        "whether a file is there is told by `file_exists`",
    ),
    (
        r"^(\s*)(ls|grep|sed|awk|find|touch|chmod|git|docker|npm|pip|make|ssh|tar|kill|ps)\s+(.+?)\s*$",
        By("${1}shell(\"$2 $3\")"),
        "a command is run with `shell`, a program with `exec`",
    ),
];

/// Lines that can be read as Harn, but mean something to a shell alone: `set -x`, `make > log.txt`.
pub(super) fn line(line: &str) -> Option<String> {
    let is_word = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || "_./-".contains(c));
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["set", flags] if flags.starts_with(['-', '+']) => {
            Some("nothing is to be set: an error that nobody catches ends the program".to_owned())
        }
        [command, ">", file] if is_word(command) && is_word(file) && file.contains('.') => Some(format!(
            "a file is written with `write_file`: `write_file(\"{file}\", shell(\"{command}\").stdout)`"
        )),
        [first, sign @ ("&&" | "||"), second] if is_word(first) && is_word(second) => {
            let not = if sign == "&&" { "" } else { "!" };
            Some(format!(
                "whether a command came to a good end is told by `success`: `if {not}shell(\"{first}\").success {{ shell(\"{second}\") }}`"
            ))
        }
        _ => None,
    }
}

fn part<'a>(found: &Captures<'a>, number: usize) -> &'a str {
    found.get(number).map_or("", |group| group.as_str())
}

/// `if ! cmd; then`.
fn command_as_condition(found: &Captures<'_>) -> String {
    let not = (part(found, 2) == "until") != (part(found, 3) == "!");
    let word = if part(found, 2) == "if" { "if" } else { "while" };
    let sign = if not { "!" } else { "" };
    format!("{}{word} {sign}shell(\"{}\").success {{", part(found, 1), part(found, 4))
}

/// A word of a shell as a value: `$x` and `"$x"` are names, the rest is text.
fn value(word: &str) -> String {
    let bare = word.trim_matches(['"', '\'']);
    match bare.strip_prefix('$').map(|name| name.trim_matches(['{', '}'])) {
        Some(name) if name.chars().all(|c| c.is_alphanumeric() || c == '_') => name.to_owned(),
        _ if bare.parse::<i64>().is_ok() => bare.to_owned(),
        _ => text(word),
    }
}

/// A text of a shell with the braces that values have here.
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

/// `if [ "$n" -eq 1 ]; then` in our words.
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
