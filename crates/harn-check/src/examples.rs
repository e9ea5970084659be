//! An example program for each code, and its fixed version. `harn explain CODE` shows both; the tests run them.

/// A program with a finding, and its fixed version.
#[derive(Debug)]
pub struct Example {
    /// The code.
    pub code: &'static str,
    /// Name of the displayed file.
    pub file: &'static str,
    /// A source with the finding.
    pub wrong: &'static str,
    /// A source without findings.
    pub right: &'static str,
    /// Other files next to it.
    pub others: &'static [(&'static str, &'static str)],
}

const fn program(code: &'static str, wrong: &'static str, right: &'static str) -> Example {
    Example { code, file: "main.harn", wrong, right, others: &[] }
}

const fn with(
    code: &'static str,
    wrong: &'static str,
    right: &'static str,
    others: &'static [(&'static str, &'static str)],
) -> Example {
    Example { code, file: "main.harn", wrong, right, others }
}

const fn file(code: &'static str, file: &'static str, wrong: &'static str, right: &'static str) -> Example {
    Example { code, file, wrong, right, others: &[] }
}

/// Returns the example of a code.
pub fn example(code: &str) -> Option<&'static Example> {
    EXAMPLES.iter().find(|example| example.code == code)
}

const HELLO: &[(&str, &str)] = &[("hello.harn.prompt", "Hello {{ name }}\n")];

/// All examples, in the order of the codes.
pub const EXAMPLES: &[Example] = &[
    program("E0100", "printl(\"hello\")\n", "println(\"hello\")\n"),
    program(
        "E0101",
        "fn numbers() {\n  emit 1\n}\n\nnumbers()\n",
        "gen fn numbers() -> Stream<int> {\n  emit 1\n}\n\nfor n in numbers() { println(n) }\n",
    ),
    program(
        "E0102",
        "gen fn numbers() -> Stream<int> {\n  yield 1\n}\n\nnumbers()\n",
        "gen fn numbers() -> Stream<int> {\n  emit 1\n}\n\nfor n in numbers() { println(n) }\n",
    ),
    program(
        "E0103",
        "struct Point { x: int }\n\nlet p = Pont {x: 1}\nprintln(p)\n",
        "struct Point { x: int }\n\nlet p = Point {x: 1}\nprintln(p)\n",
    ),
    program(
        "E0104",
        "gen fn numbers() -> int {\n  emit 1\n}\n\nnumbers()\n",
        "gen fn numbers() -> Stream<int> {\n  emit 1\n}\n\nfor n in numbers() { println(n) }\n",
    ),
    program("E0105", "println(sqrt(4, 2))\n", "println(sqrt(4))\n"),
    program("E0106", "println(sqrt(\"4\"))\n", "println(sqrt(4))\n"),
    program("E0107", "println(\"text\".shout())\n", "println(\"text\".upper())\n"),
    program("E0108", "let total = 3\nprintln(totl)\n", "let total = 3\nprintln(total)\n"),
    program(
        "E0109",
        "enum Color { Red, Green }\n\nprintln(Color.Grene)\n",
        "enum Color { Red, Green }\n\nprintln(Color.Green)\n",
    ),
    program(
        "E0110",
        "struct Point { x: int }\n\nprintln(Point {x: 1, z: 2})\n",
        "struct Point { x: int }\n\nprintln(Point {x: 1})\n",
    ),
    program(
        "E0111",
        "struct Point { x: int }\n\nlet p = Point {x: 1}\nprintln(p.z)\n",
        "struct Point { x: int }\n\nlet p = Point {x: 1}\nprintln(p.x)\n",
    ),
    program("E0112", "let n = 1\nlet n = 2\nprintln(n)\n", "var n = 1\nn = 2\nprintln(n)\n"),
    program(
        "E0113",
        "enum Size { Small, Sized(n: int) }\n\nprintln(Size.Sized(\"3\"))\n",
        "enum Size { Small, Sized(n: int) }\n\nprintln(Size.Sized(3))\n",
    ),
    program(
        "E0114",
        "fn numbers() {\n  yield 1\n  return 2\n}\n\nfor n in numbers() { println(n) }\n",
        "fn numbers() {\n  yield 1\n  yield 2\n}\n\nfor n in numbers() { println(n) }\n",
    ),
    program(
        "E0115",
        "let r = exec(\"ls\")\nprintln(r.exit_code)\n",
        "let r = exec(\"ls\")\nprintln(r.status)\n",
    ),
    program(
        "E0116",
        "fn shout(s: string | nil) -> string {\n  s.upper()\n}\n\nprintln(shout(\"a\"))\n",
        "fn shout(s: string | nil) -> string {\n  (s ?? \"\").upper()\n}\n\nprintln(shout(\"a\"))\n",
    ),
    program(
        "E0117",
        "fn pair_of(a = b, b = 1) {\n  [a, b]\n}\n\nprintln(pair_of(0))\n",
        "fn pair_of(b = 1, a = b) {\n  [a, b]\n}\n\nprintln(pair_of(0))\n",
    ),
    program("E0200", "let n: int = \"3\"\nprintln(n)\n", "let n: int = 3\nprintln(n)\n"),
    program(
        "E0201",
        "fn twice(n: int) -> int { n * 2 }\n\nprintln(twice(\"3\"))\n",
        "fn twice(n: int) -> int { n * 2 }\n\nprintln(twice(3))\n",
    ),
    program(
        "E0202",
        "fn name() -> string {\n  return 1\n}\n\nprintln(name())\n",
        "fn name() -> string {\n  return \"Ada\"\n}\n\nprintln(name())\n",
    ),
    program("E0203", "let n = 3\nprintln(\"n = \" + n)\n", "let n = 3\nprintln(\"n = ${n}\")\n"),
    program(
        "E0204",
        "fn keep<T>(a: T, b: T) -> T { b ?? a }\n\nprintln(keep(1, \"x\"))\n",
        "fn keep<T>(a: T, b: T) -> T { b ?? a }\n\nprintln(keep(1, 2))\n",
    ),
    program(
        "E0205",
        "enum Color { Red, Green }\n\nfn name(c: Color) -> string {\n  match c {\n    Color.Red -> { return \"red\" }\n  }\n}\n\nprintln(name(Color.Red))\n",
        "enum Color { Red, Green }\n\nfn name(c: Color) -> string {\n  match c {\n    Color.Red -> { return \"red\" }\n    Color.Green -> { return \"green\" }\n  }\n}\n\nprintln(name(Color.Red))\n",
    ),
    program(
        "E0206",
        "fn name(v: int | string) -> string {\n  if type_of(v) == \"string\" {\n    return \"text\"\n  }\n  unreachable(v)\n}\n\nprintln(name(\"a\"))\n",
        "fn name(v: int | string) -> string {\n  if type_of(v) == \"string\" {\n    return \"text\"\n  }\n  if type_of(v) == \"int\" {\n    return \"number\"\n  }\n  unreachable(v)\n}\n\nprintln(name(\"a\"))\n",
    ),
    program(
        "E0207",
        "fn same(a) { a }\n\nprintln(same<int>(1))\n",
        "fn same<T>(a: T) -> T { a }\n\nprintln(same<int>(1))\n",
    ),
    program(
        "E0208",
        "interface Named { fn name(self) -> string }\n\nstruct Dog { n: string }\n\nfn show<T>(x: T) where T: Named { println(x.name()) }\n\nshow(Dog {n: \"Rex\"})\n",
        "interface Named { fn name(self) -> string }\n\nstruct Dog { n: string }\n\nimpl Dog { fn name(self) -> string { self.n } }\n\nfn show<T>(x: T) where T: Named { println(x.name()) }\n\nshow(Dog {n: \"Rex\"})\n",
    ),
    program(
        "E0209",
        "pub type Check<out T> = fn(T) -> bool\n\nprintln(1)\n",
        "pub type Check<in T> = fn(T) -> bool\n\nprintln(1)\n",
    ),
    program(
        "W0100",
        "fn greet(name, word = \"Hello\") { \"${word} ${name}\" }\n\nprintln(greet(\"Ada\", \"Hi\", 3))\n",
        "fn greet(name, word = \"Hello\") { \"${word} ${name}\" }\n\nprintln(greet(\"Ada\", \"Hi\"))\n",
    ),
    program(
        "W0101",
        "fn f() {\n  return 1\n  println(\"never\")\n}\n\nprintln(f())\n",
        "fn f() {\n  println(\"first\")\n  return 1\n}\n\nprintln(f())\n",
    ),
    program(
        "W0102",
        "println(\"never\")\n\npipeline default() {\n  println(\"runs\")\n}\n",
        "pipeline default() {\n  println(\"runs\")\n}\n",
    ),
    program("W0103", "let n = 1\nn = 2\nprintln(n)\n", "var n = 1\nn = 2\nprintln(n)\n"),
    program(
        "W0104",
        "struct Point { x: int, y: int }\n\nprintln(Point {x: 1})\n",
        "struct Point { x: int, y: int }\n\nprintln(Point {x: 1, y: 2})\n",
    ),
    program(
        "W0105",
        "@depricated(since: \"2\")\nfn f() { 1 }\n\nprintln(f)\n",
        "@deprecated(since: \"2\")\nfn f() { 1 }\n\nprintln(f)\n",
    ),
    program(
        "W0106",
        "@deprecated(since: \"2\", use: \"sum\")\nfn add(a, b) { a + b }\n\nprintln(add(1, 2))\n",
        "fn sum(a, b) { a + b }\n\nprintln(sum(1, 2))\n",
    ),
    program(
        "W0107",
        "fn before(a: string, b: int) -> bool { a < b }\n\nprintln(before(\"1\", 2))\n",
        "fn before(a: string, b: int) -> bool { (to_int(a) ?? 0) < b }\n\nprintln(before(\"1\", 2))\n",
    ),
    program(
        "W0108",
        "fn name(n: int) -> string {\n  match n {\n    \"1\" -> { return \"one\" }\n    _ -> { return \"many\" }\n  }\n}\n\nprintln(name(1))\n",
        "fn name(n: int) -> string {\n  match n {\n    1 -> { return \"one\" }\n    _ -> { return \"many\" }\n  }\n}\n\nprintln(name(1))\n",
    ),
    program(
        "W0109",
        "fn name(v: unknown) -> string {\n  if type_of(v) == \"string\" {\n    return \"text\"\n  }\n  throw \"no text\"\n}\n\nprintln(name(\"a\"))\n",
        "fn name(v: unknown) -> string {\n  if type_of(v) == \"string\" {\n    return \"text\"\n  }\n  return \"other\"\n}\n\nprintln(name(\"a\"))\n",
    ),
    program(
        "W0110",
        "let reply = json_parse(\"{}\")\nprintln(reply.name)\n",
        "let reply: {name?: string} = json_parse(\"{}\")\nprintln(reply.name)\n",
    ),
    program(
        "W0111",
        "interface Named { fn name(self) -> string }\n\nstruct Dog { n: string }\n\nimpl Dog { fn name(self) -> string { self.n } }\n\nfn show<T>(x: T) where T: Named { println(x.title()) }\n\nshow(Dog {n: \"Rex\"})\n",
        "interface Named { fn name(self) -> string }\n\nstruct Dog { n: string }\n\nimpl Dog { fn name(self) -> string { self.n } }\n\nfn show<T>(x: T) where T: Named { println(x.name()) }\n\nshow(Dog {n: \"Rex\"})\n",
    ),
    program(
        "W0112",
        "println(llm_call(\"Hi\", nil, {provider: \"mock\", temprature: 0.2}).text)\n",
        "println(llm_call(\"Hi\", nil, {provider: \"mock\", temperature: 0.2}).text)\n",
    ),
    program(
        "W0113",
        "fn half(n: i32) -> int { n / 2 }\n\nprintln(half(4))\n",
        "fn half(n: int) -> int { n / 2 }\n\nprintln(half(4))\n",
    ),
    program("W0114", "println(log(2.0))\n", "println(ln(2.0))\n"),
    program(
        "W0115",
        "println(json_parse(\"12345678901234567890\"))\n",
        "println(json_parse(\"12345678901234567890\", {big_numbers: \"string\"}))\n",
    ),
    program(
        "W0116",
        "let n = 9\nlet half = n // 2\nprintln(half)\n",
        "let n = 9\nlet half = n / 2\nprintln(half)\n",
    ),
    program(
        "W0117",
        "fn size(n: int) -> string {\n  if n > 9 {\n    return \"large\"\n  }\n}\n\nprintln(size(12))\n",
        "fn size(n: int) -> string {\n  if n > 9 {\n    return \"large\"\n  }\n  \"small\"\n}\n\nprintln(size(12))\n",
    ),
    program(
        "W0118",
        "println(llm_call(\"Hi\", nil, {provider: \"mock\", timeout: 5000}).text)\n",
        "println(llm_call(\"Hi\", nil, {provider: \"mock\", timeout: 5s}).text)\n",
    ),
    with(
        "P0100",
        "import { twice } from \"numbrs\"\n\nprintln(twice(2))\n",
        "import { twice } from \"numbers\"\n\nprintln(twice(2))\n",
        &[("numbers.harn", "pub fn twice(n) { n * 2 }\n")],
    ),
    with(
        "P0101",
        "println(render(\"@nowhere/hello.harn.prompt\", {name: \"Ada\"}))\n",
        "println(render(\"hello.harn.prompt\", {name: \"Ada\"}))\n",
        HELLO,
    ),
    with(
        "P0102",
        "println(render(\"helo.harn.prompt\", {name: \"Ada\"}))\n",
        "println(render(\"hello.harn.prompt\", {name: \"Ada\"}))\n",
        HELLO,
    ),
    with(
        "P0103",
        "println(render(\"open.harn.prompt\", {name: \"Ada\"}))\n",
        "println(render(\"hello.harn.prompt\", {name: \"Ada\"}))\n",
        &[("open.harn.prompt", "{{ if name }}\n"), ("hello.harn.prompt", "Hello {{ name }}\n")],
    ),
    with(
        "P0104",
        "println(render(\"page.harn.prompt\", {name: \"Ada\"}))\n",
        "println(render(\"hello.harn.prompt\", {name: \"Ada\"}))\n",
        &[
            ("page.harn.prompt", "{{ name }} {{ include \"gone.harn.prompt\" }}\n"),
            ("hello.harn.prompt", "Hello {{ name }}\n"),
        ],
    ),
    with(
        "P0105",
        "println(render(\"hello.harn.prompt\", {}))\n",
        "println(render(\"hello.harn.prompt\", {name: \"Ada\"}))\n",
        HELLO,
    ),
    with(
        "P0106",
        "println(render(\"hello.harn.prompt\", {name: \"Ada\", tone: \"kind\"}))\n",
        "println(render(\"hello.harn.prompt\", {name: \"Ada\"}))\n",
        HELLO,
    ),
    file(
        "template-unknown-filter",
        "hello.harn.prompt",
        "Hello {{ name | uper }}\n",
        "Hello {{ name | upper }}\n",
    ),
    file("P0107", "harn.toml", "[check\nstrict = true\n", "[check]\nstrict = true\n"),
    file("P0108", "harn.toml", "[check]\nstrict = \"yes\"\n", "[check]\nstrict = true\n"),
    with(
        "P0109",
        "import { twise } from \"numbers\"\n\nprintln(twise(2))\n",
        "import { twice } from \"numbers\"\n\nprintln(twice(2))\n",
        &[("numbers.harn", "pub fn twice(n) { n * 2 }\n")],
    ),
    with(
        "P0110",
        "println(host_call(\"notes.lst\", {}))\n",
        "println(host_call(\"notes.list\", {}))\n",
        &[("harn.toml", "[check.host_capabilities]\nnotes = [\"list\"]\n")],
    ),
    with(
        "P0111",
        "import \"numbers\"\nimport \"words\"\n\nprintln(twice(2))\n",
        "import \"numbers\"\nimport { shout } from \"words\"\n\nprintln(twice(2), shout(\"a\"))\n",
        &[
            ("numbers.harn", "pub fn twice(n) { n * 2 }\n"),
            ("words.harn", "pub fn twice(w) { w + w }\n\npub fn shout(w) { uppercase(w) }\n"),
        ],
    ),
    with(
        "P0112",
        "let tools = tool_define(tool_registry(), \"read_notes\", \"Reads\", {handler: { _args -> \"\" }})\n\nprintln(render(\"go.harn.prompt\", {}), len(tool_list(tools)))\n",
        "let tools = tool_define(tool_registry(), \"read_note\", \"Reads\", {handler: { _args -> \"\" }})\n\nprintln(render(\"go.harn.prompt\", {}), len(tool_list(tools)))\n",
        &[("go.harn.prompt", "Begin with read_note().\n")],
    ),
    program(
        "P0113",
        "println(exec_at(\"gone/folder\", \"ls\").status)\n",
        "println(exec_at(\".\", \"ls\").status)\n",
    ),
    program(
        "I0100",
        "@invariant(\"fs.write\", \"out/**\")\nfn report(text) {\n  write_file(\"out/report.md\", text)\n}\n\nreport(\"done\")\n",
        "@invariant(\"fs.writes\", \"out/**\")\nfn report(text) {\n  write_file(\"out/report.md\", text)\n}\n\nreport(\"done\")\n",
    ),
    program(
        "I0101",
        "@invariant(\"fs.writes\", \"out/**\")\nfn report(text) {\n  write_file(\"report.md\", text)\n}\n\nreport(\"done\")\n",
        "@invariant(\"fs.writes\", \"out/**\")\nfn report(text) {\n  write_file(\"out/report.md\", text)\n}\n\nreport(\"done\")\n",
    ),
    program(
        "I0102",
        "@invariant(\"budget.remaining\", target: left)\nfn work(steps) {\n  var left = llm_budget_remaining() ?? 0\n  for step in steps {\n    println(step)\n    left = 10\n  }\n  return left\n}\n\nwork([1, 2])\n",
        "@invariant(\"budget.remaining\", target: left)\nfn work(steps) {\n  var left = llm_budget_remaining() ?? 0\n  for step in steps {\n    println(step)\n    left = llm_budget_remaining() ?? 0\n  }\n  return left\n}\n\nwork([1, 2])\n",
    ),
    program(
        "I0103",
        "@invariant(\"approval.reachability\")\nfn publish(version) {\n  return shell(\"git push origin v${version}\")\n}\n\npublish(\"1.0\")\n",
        "@invariant(\"approval.reachability\")\nfn publish(version) {\n  let answer = request_approval(\"publish ${version}\", {reviewers: [\"ada\"]})\n  println(\"approved by ${answer.reviewers}\")\n  return shell(\"git push origin v${version}\")\n}\n\npublish(\"1.0\")\n",
    ),
    program("unused-variable", "let n = 1\nprintln(\"done\")\n", "let n = 1\nprintln(n)\n"),
    program(
        "unused-pattern-binding",
        "let {a, b} = {a: 1, b: 2}\nprintln(a)\n",
        "let {a} = {a: 1, b: 2}\nprintln(a)\n",
    ),
    program(
        "unused-parameter",
        "fn twice(n, m) { n * 2 }\n\nprintln(twice(1, 2))\n",
        "fn twice(n) { n * 2 }\n\nprintln(twice(1))\n",
    ),
    with(
        "unused-import",
        "import { once, twice } from \"numbers\"\n\nprintln(twice(2))\n",
        "import { twice } from \"numbers\"\n\nprintln(twice(2))\n",
        &[("numbers.harn", "pub fn once(n) { n }\n\npub fn twice(n) { n * 2 }\n")],
    ),
    program("mutable-never-reassigned", "var n = 1\nprintln(n)\n", "let n = 1\nprintln(n)\n"),
    program(
        "comparison-to-bool",
        "let ok = argv.contains(\"-v\")\nif ok == true { println(\"yes\") }\n",
        "let ok = argv.contains(\"-v\")\nif ok { println(\"yes\") }\n",
    ),
    program(
        "field-without-colon",
        "struct Point {\n  x int\n}\n\nprintln(Point {x: 1, int: 2})\n",
        "struct Point {\n  x: int\n}\n\nprintln(Point {x: 1})\n",
    ),
    program(
        "pointless-comparison",
        "let n = len(argv)\nif n == n { println(n) }\n",
        "let n = len(argv)\nif n == 0 { println(n) }\n",
    ),
    program(
        "break-outside-loop",
        "fn find(n) {\n  if n > 1 { break }\n  n\n}\n\nprintln(find(2))\n",
        "fn find(n) {\n  if n > 1 { return nil }\n  n\n}\n\nprintln(find(2))\n",
    ),
    program(
        "invalid-binary-op-literal",
        "fn more(n) { n + true }\n\nprintln(more(2))\n",
        "fn more(n) { n + 1 }\n\nprintln(more(2))\n",
    ),
    program(
        "pipeline-return-type",
        "pub pipeline count(task) {\n  return len(task)\n}\n",
        "pub pipeline count(task) -> int {\n  return len(task)\n}\n",
    ),
    program(
        "empty-block",
        "for n in 1 to 3 { }\nprintln(\"done\")\n",
        "for n in 1 to 3 { println(n) }\nprintln(\"done\")\n",
    ),
    program(
        "empty-catch",
        "try { println(1) } catch (e) { }\n",
        "try { println(1) } catch (e) { println(e) }\n",
    ),
    program(
        "duplicate-match-arm",
        "match len(argv) {\n  1 -> { println(\"one\") }\n  1 -> { println(\"two\") }\n  _ -> { println(\"many\") }\n}\n",
        "match len(argv) {\n  1 -> { println(\"one\") }\n  2 -> { println(\"two\") }\n  _ -> { println(\"many\") }\n}\n",
    ),
    program(
        "unreachable-match-arm",
        "match len(argv) {\n  _ -> { println(\"many\") }\n  1 -> { println(\"one\") }\n}\n",
        "match len(argv) {\n  1 -> { println(\"one\") }\n  _ -> { println(\"many\") }\n}\n",
    ),
    program(
        "repeated-condition",
        "let n = 3\nif n > 1 { println(\"a\") } else if n > 1 { println(\"b\") }\n",
        "let n = 3\nif n > 1 { println(\"a\") } else if n > 0 { println(\"b\") }\n",
    ),
    program(
        "parallel-assignment",
        "var total = 0\nparallel each [1, 2] { n -> total = total + n }\nprintln(total)\n",
        "let doubled = parallel each [1, 2] { n -> n * 2 }\nprintln(doubled)\n",
    ),
    program(
        "redundant-nil-ternary",
        "let port = env(\"PORT\")\nprintln(port == nil ? \"80\" : port)\n",
        "let port = env(\"PORT\")\nprintln(port ?? \"80\")\n",
    ),
    program(
        "let-then-return",
        "fn f(n) {\n  let doubled = n * 2\n  return doubled\n}\n\nprintln(f(1))\n",
        "fn f(n) {\n  return n * 2\n}\n\nprintln(f(1))\n",
    ),
    program(
        "unnecessary-else-return",
        "fn sign(n) {\n  if n < 0 {\n    return -1\n  } else {\n    return 1\n  }\n}\n\nprintln(sign(2))\n",
        "fn sign(n) {\n  if n < 0 {\n    return -1\n  }\n  return 1\n}\n\nprintln(sign(2))\n",
    ),
    program("unnecessary-cast", "println(to_string(\"text\"))\n", "println(\"text\")\n"),
    program(
        "unused-function",
        "fn helper() { 1 }\n\nprintln(2)\n",
        "fn helper() { 1 }\n\nprintln(helper())\n",
    ),
    program(
        "unused-type",
        "struct Point { x: int }\n\nprintln(1)\n",
        "struct Point { x: int }\n\nprintln(Point {x: 1})\n",
    ),
    program(
        "naming-convention",
        "fn getName() { \"Ada\" }\n\nprintln(getName())\n",
        "fn get_name() { \"Ada\" }\n\nprintln(get_name())\n",
    ),
    program(
        "cyclomatic-complexity",
        "fn f(n) {\n  return n > 1 && n > 2 && n > 3 && n > 4 && n > 5 && n > 6 && n > 7 && n > 8 && n > 9 && n > 10 && n > 11 && n > 12 && n > 13 && n > 14 && n > 15 && n > 16 && n > 17 && n > 18 && n > 19 && n > 20 && n > 21 && n > 22 && n > 23 && n > 24 && n > 25 && n > 26 && n > 27\n}\n\nprintln(f(1))\n",
        "fn f(n) {\n  return (1 to 27).to_list().all({ m -> n > m })\n}\n\nprintln(f(1))\n",
    ),
    program(
        "assert-outside-test",
        "let n = 1\nassert(n > 0)\nprintln(n)\n",
        "let n = 1\nrequire n > 0\nprintln(n)\n",
    ),
    program(
        "require-in-test",
        "pipeline test_sum() {\n  require 1 + 1 == 2\n}\n",
        "pipeline test_sum() {\n  assert_eq(1 + 1, 2)\n}\n",
    ),
    program(
        "prompt-injection-risk",
        "let name = read_line()\nprintln(llm_call(\"Greet me\", \"You help ${name}\").text)\n",
        "let name = read_line()\nprintln(llm_call(\"Greet ${name}\", \"You are kind\").text)\n",
    ),
    program(
        "unhandled-approval-result",
        "pipeline default() {\n  request_approval(\"Deploy?\")\n  println(\"deployed\")\n}\n",
        "pipeline default() {\n  let answer = request_approval(\"Deploy?\")\n  println(answer)\n}\n",
    ),
    program(
        "long-running-without-cleanup",
        "fn watch(start) {\n  let handle = start({long_running: true})\n  return handle.id\n}\n\nprintln(watch)\n",
        "fn watch(start, cancel_handle) {\n  let handle = start({long_running: true})\n  defer { cancel_handle(handle) }\n  return handle.id\n}\n\nprintln(watch)\n",
    ),
    with(
        "tool-registry-size",
        "let options = {provider: \"small\", model: \"m\", tools: [\n  {name: \"look\"},\n  {name: \"read\"},\n  {name: \"write\"},\n]}\nprintln(llm_call(\"Hello\", nil, options).text)\n",
        "let options = {provider: \"small\", model: \"m\", tools: [\n  {name: \"look\"},\n  {name: \"read\"},\n]}\nprintln(llm_call(\"Hello\", nil, options).text)\n",
        &[("harn.toml", "[[capabilities.provider.small]]\nmodel_match = \"*\"\nmax_tools = 2\n")],
    ),
    program(
        "dead-code-after-return",
        "fn f(n) {\n  return n\n  println(n)\n}\n\nprintln(f(1))\n",
        "fn f(n) {\n  println(n)\n  return n\n}\n\nprintln(f(1))\n",
    ),
    program(
        "shadow-variable",
        "let total = 1\nfor n in [1, 2] {\n  let total = n * 2\n  println(total)\n}\nprintln(total)\n",
        "let total = 1\nfor n in [1, 2] {\n  let doubled = n * 2\n  println(doubled)\n}\nprintln(total)\n",
    ),
    program(
        "redundant-clone",
        "let names = [\"Ada\"]\nprintln(names.clone())\n",
        "let names = [\"Ada\"]\nprintln(names)\n",
    ),
    program(
        "eager-collection-conversion",
        "let doubled: list<int> = [1, 2].iter().map({ n -> n * 2 })\nprintln(doubled)\n",
        "let doubled: list<int> = [1, 2].iter().map({ n -> n * 2 }).to_list()\nprintln(doubled)\n",
    ),
    program(
        "untyped-dict-access",
        "println(json_parse(read_line()).name)\n",
        "let user: {name: string} = json_parse(read_line())\nprintln(user.name)\n",
    ),
    program(
        "pr-open-without-secret-scan",
        "fn publish(client, change) {\n  return mcp_call(client, \"create_pr\", {change: change})\n}\n\nprintln(publish)\n",
        "fn publish(client, change) {\n  require mcp_call(client, \"secret_scan\", {text: change}) == []\n  return mcp_call(client, \"create_pr\", {change: change})\n}\n\nprintln(publish)\n",
    ),
    program(
        "connector-effect-policy",
        "/** Brings a message into form. */\npub fn normalize_inbound(raw) {\n  return {kind: \"message\", text: llm_call(\"Sum up ${raw}\").text}\n}\n",
        "/** Brings a message into form. */\npub fn normalize_inbound(raw) {\n  return {kind: \"message\", text: raw}\n}\n",
    ),
    program(
        "missing-harndoc",
        "pub fn double(n) { return n * 2 }\n",
        "/** Twice a number. */\npub fn double(n) { return n * 2 }\n",
    ),
    program(
        "legacy-doc-comment",
        "/// Twice a number.\npub fn double(n) { return n * 2 }\n",
        "/** Twice a number. */\npub fn double(n) { return n * 2 }\n",
    ),
    program("require-file-header", "println(1)\n", "/** Prints a number. */\n\nprintln(1)\n"),
    with(
        "import-order",
        "import { slug } from \"lib/names\"\nimport { ext } from \"std/path\"\n\nprintln(slug(ext(\"a.b\")))\n",
        "import { ext } from \"std/path\"\nimport { slug } from \"lib/names\"\n\nprintln(slug(ext(\"a.b\")))\n",
        &[("lib/names.harn", "/** A name for a path. */\npub fn slug(text) { return lower(text) }\n")],
    ),
    program(
        "blank-line-between-items",
        "fn double(n) { return n * 2 }\nprintln(double(2))\n",
        "fn double(n) { return n * 2 }\n\nprintln(double(2))\n",
    ),
    program("trailing-comma", "println([\n  1,\n  2\n])\n", "println([\n  1,\n  2,\n])\n"),
    program(
        "suppression",
        "let n = 1 // harn-lint: allow unused-variable\nprintln(\"done\")\n",
        "let n = 1 // harn-lint: allow unused-variable: read by the debugger\nprintln(\"done\")\n",
    ),
    program(
        "unused-result",
        "var names = [\"Ada\"]\nnames.push(\"Grace\")\nprintln(names)\n",
        "var names = [\"Ada\"]\nnames = names.push(\"Grace\")\nprintln(names)\n",
    ),
];
