//! Every rule of the types: a program that it accepts, and one that it refuses.

use std::path::Path;

use harn_check::{Source, World, check_program};

use crate::common::parse;
use crate::corpus::machine;

/// The rule, a program without a finding, and one with a finding that says this.
type Row = (&'static str, &'static str, &'static str, &'static str);

const ROWS: &[Row] = &[
    (
        "true and false stand for bool",
        "let b: true = false\n",
        "let b: true = 1\n",
        "'b' declared as bool, but assigned int",
    ),
    (
        "a function type takes a union as its result",
        "fn f(g: fn(int) -> int | nil) { g(1) }\nfn h(n: int) -> nil { nil }\nf(h)\n",
        "fn f(g: fn(int) -> int | nil) { g(1) }\nfn h(n: int) -> string { \"\" }\nf(h)\n",
        "Argument 1 ('g'): expected fn(int) -> int | nil",
    ),
    (
        "an unknown type only equals itself",
        "fn f(x: Foo) -> Foo { return x }\n",
        "let x: Foo = 3\n",
        "'x' declared as Foo, but assigned int",
    ),
    (
        "an int flows into a float",
        "let f: float = 1\n",
        "let n: int = 1.5\n",
        "'n' declared as int, but assigned float",
    ),
    (
        "a bare list fits every list",
        "fn f(xs: list) -> list<int> { return xs }\n",
        "fn f(xs: list<string>) -> list<int> { return xs }\n",
        "return type doesn't match: expected list<int>, got list<string>",
    ),
    (
        "a bare dict fits every dict and shape",
        "fn f(d: dict) -> {a: int} { return d }\n",
        "fn f(d: dict<string, string>) -> dict<string, int> { return d }\n",
        "return type doesn't match",
    ),
    (
        "a set is invariant",
        "fn f(s: set) -> set<int> { return s }\n",
        "fn f(s: set<string>) -> set<int> { return s }\n",
        "return type doesn't match",
    ),
    (
        "a closure fits every function type",
        "fn f(c: closure) -> fn(int) -> int { return c }\n",
        "fn f(c: string) -> fn(int) -> int { return c }\n",
        "return type doesn't match",
    ),
    (
        "lazy sequences are distinct",
        "fn f(i: iter<int>) -> iter<int> { return i }\n",
        "fn f(i: Generator<int>) -> Stream<int> { return i }\n",
        "expected Stream<int>, got Generator<int>",
    ),
    (
        "a pair has its types",
        "fn f(p: Pair<string, int>) -> int { return p.second }\n",
        "fn f(p: Pair<string, int>) -> int { return p.first }\n",
        "expected int, got string",
    ),
    (
        "any fits both ways",
        "fn f(x: any) -> int { return x }\nf(\"a\")\n",
        "fn f(x: int) -> int { return x }\nf(\"a\")\n",
        "Argument 1 ('x'): expected int, got string",
    ),
    (
        "unknown takes everything and gives nothing",
        "fn f(x: unknown) -> any { return x }\nf(1)\n",
        "fn f(x: unknown) { let s: string = x\nreturn s }\n",
        "'s' declared as string, but assigned unknown",
    ),
    (
        "nothing but never is never",
        "fn f() -> never { throw 1 }\n",
        "fn f() -> never { return 1 }\n",
        "return type doesn't match: expected never, got int",
    ),
    (
        "never vanishes from a union",
        "fn f(x: int | nil) -> int { return if x == nil { throw 1 } else { x } }\n",
        "fn f(x: int | nil) -> int { return if x == nil { nil } else { x } }\n",
        "expected int",
    ),
    (
        "what is behind a return is unreachable",
        "fn f(x) { if x { return 1 }\nreturn 2 }\n",
        "fn f() { return 1\nprintln(2) }\n",
        "unreachable code",
    ),
    (
        "a type parameter fits everything",
        "fn f<T>(x: T) -> T { return x }\nlet n: int = f(1)\n",
        "fn f<T>(x: T) -> T { return x }\nlet n: int = f(\"a\")\n",
        "'n' declared as int, but assigned string",
    ),
    (
        "an interface is satisfied by methods",
        "interface I { fn m(self) -> int }\nstruct S { a: int }\nimpl S { fn m(self) -> int { 1 } }\nfn f(i: I) { i }\nf(S {a: 1})\n",
        "interface I { fn m(self) -> int }\nstruct S { a: int }\nfn f(i: I) { i }\nf(S {a: 1})\n",
        "Argument 1 ('i'): expected I, got S",
    ),
    (
        "a shape satisfies no interface",
        "interface I { fn m(self) -> int }\nfn f(i: I) { i }\nfn g(x: any) { f(x) }\n",
        "interface I { fn m(self) -> int }\nfn f(i: I) { i }\nf({m: 1})\n",
        "expected I, got {m: int}",
    ),
    (
        "names are equal or do not fit",
        "let s: string = \"a\"\n",
        "let s: string = 1\n",
        "'s' declared as string, but assigned int",
    ),
    (
        "a name and its applied form",
        "struct S<T> { a: T }\nfn f(x: S<int>) -> S { return x }\n",
        "struct S<T> { a: T }\nstruct U<T> { a: T }\nfn f(x: S<int>) -> U { return x }\n",
        "expected U, got S<int>",
    ),
    (
        "arguments of a type are invariant",
        "struct S<T> { a: T }\nfn f(x: S<int>) -> S<int> { return x }\n",
        "struct S<T> { a: T }\nfn f(x: S<int>) -> S<float> { return x }\n",
        "expected S<float>, got S<int>",
    ),
    (
        "every member of a union fits some member",
        "fn f(x: int | nil) -> int | nil | string { return x }\n",
        "fn f(x: int | nil | string) -> int | nil { return x }\n",
        "return type doesn't match",
    ),
    (
        "a value fits one member of a union",
        "let x: int | nil = 1\n",
        "let x: int | nil = \"a\"\n",
        "'x' declared as int | nil, but assigned string",
    ),
    (
        "all members fit a plain type",
        "fn f(x: int | float) -> float { return x }\n",
        "fn f(x: int | string) -> float { return x }\n",
        "return type doesn't match",
    ),
    (
        "a shape needs the required fields",
        "let p: {a: int, b?: string} = {a: 1, c: 2}\n",
        "let p: {a: int, b?: string} = {b: \"x\"}\n",
        "missing field 'a' (int)",
    ),
    (
        "the fields of a shape fit",
        "let p: {a: float} = {a: 1}\n",
        "let p: {a: int} = {a: \"x\"}\n",
        "field 'a' has type string, expected int",
    ),
    (
        "a shape fits a dict of what its fields are",
        "let d: dict<string, int> = {a: 1, b: 2}\n",
        "let d: dict<string, int> = {a: 1, b: \"x\"}\n",
        "'d' declared as dict<string, int>",
    ),
    (
        "a list is invariant",
        "let xs: list<int> = [1, 2]\n",
        "let xs: list<float> = [1, 2]\n",
        "'xs' declared as list<float>, but assigned list<int>",
    ),
    (
        "a dict is invariant",
        "fn f(d: dict<string, int>) -> dict<string, int> { return d }\n",
        "fn f(d: dict<string, int>) -> dict<string, float> { return d }\n",
        "return type doesn't match",
    ),
    (
        "the elements of an iterator are covariant",
        "fn f(i: iter<int>) -> iter<float> { return i }\n",
        "fn f(i: iter<float>) -> iter<int> { return i }\n",
        "return type doesn't match",
    ),
    (
        "functions take more and give less",
        "fn f(g: fn(int) -> float) { g(1) }\nfn h(n: float) -> int { 1 }\nf(h)\n",
        "fn f(g: fn(float) -> int) { g(1) }\nfn h(n: int) -> int { 1 }\nf(h)\n",
        "Argument 1 ('g')",
    ),
    (
        "functions have the same number of parameters",
        "fn f(g: fn(int) -> int) { g(1) }\nfn h(n: int) -> int { n }\nf(h)\n",
        "fn f(g: fn(int) -> int) { g(1) }\nfn h(n: int, m: int) -> int { n }\nf(h)\n",
        "Argument 1 ('g')",
    ),
    (
        "literals are equal",
        "fn f(x: \"a\") -> \"a\" | \"b\" { return x }\n",
        "fn f(x: \"c\") -> \"a\" | \"b\" { return x }\n",
        "return type doesn't match",
    ),
    (
        "a literal is of its type",
        "fn f(x: \"a\") -> string { return x }\nfn g(x: 1) -> float { return x }\n",
        "fn f(x: \"a\") -> int { return x }\n",
        "return type doesn't match",
    ),
    (
        "a text of any value fits a union of literals",
        "fn f(c: string) { let v: \"a\" | \"b\" = c }\n",
        "let v: \"a\" | \"b\" = 1\n",
        "but assigned int",
    ),
    (
        "a struct fits a shape of its fields",
        "struct S { a: int, b: string }\nfn f(s: S) -> {a: int} { return s }\n",
        "struct S { a: int }\nfn f(s: S) -> {a: string} { return s }\n",
        "return type doesn't match",
    ),
    (
        "a shape is no struct",
        "struct S { a: int }\nlet s: S = S {a: 1}\n",
        "struct S { a: int }\nlet s: S = {a: 1}\n",
        "'s' declared as S, but assigned {a: int}",
    ),
    (
        "a struct is no dict",
        "struct S { a: int }\nlet s: S = S {a: 1}\n",
        "struct S { a: int }\nlet s: dict = S {a: 1}\n",
        "'s' declared as dict, but assigned S",
    ),
    (
        "an enum is no text",
        "enum E { A, B }\nlet e: E = E.A\n",
        "enum E { A, B }\nlet e: string = E.A\n",
        "'e' declared as string, but assigned E",
    ),
    (
        "the empty list and dict fit all",
        "let xs: list<int> = []\nlet d: {a?: int} = {}\n",
        "let xs: list<int> = {}\n",
        "'xs' declared as list<int>",
    ),
    (
        "elements that differ make a union",
        "let xs: list<int | string> = [1, \"a\"]\n",
        "let xs: list<int> = [1, \"a\"]\n",
        "but assigned list<int | string>",
    ),
    (
        "a range is a range",
        "let r: range = 1 to 3\n",
        "let r: list = 1 to 3\n",
        "'r' declared as list, but assigned range",
    ),
    (
        "a function name is a function",
        "fn f(n: int) -> int { n }\nlet g: fn(int) -> int = f\n",
        "fn f(n: int) -> int { n }\nlet g: int = f\n",
        "but assigned fn(int) -> int",
    ),
    (
        "a closure with annotations",
        "let g: fn(int) -> int = { n: int -> n + 1 }\n",
        "let g: fn(int) -> string = { n: int -> n + 1 }\n",
        "but assigned fn(int) -> int",
    ),
    (
        "a call gives the declared result",
        "fn f() -> int { 1 }\nlet n: int = f()\n",
        "fn f() -> int { 1 }\nlet s: string = f()\n",
        "'s' declared as string, but assigned int",
    ),
    (
        "Ok and Err are results",
        "let r: Result<int, string> = Ok(1)\n",
        "let r: Result<int, string> = Ok(\"a\")\n",
        "'r' declared as Result<int, string>",
    ),
    (
        "a field of a shape",
        "let p = {a: 1}\nlet n: int = p.a\n",
        "let p = {a: 1}\nlet n: string = p.a\n",
        "'n' declared as string, but assigned int",
    ),
    (
        "an element of a list",
        "let xs = [1, 2]\nlet n: int = xs[0]\n",
        "let xs = [1, 2]\nlet n: string = xs[0]\n",
        "'n' declared as string, but assigned int",
    ),
    (
        "a character of a text",
        "let s: string = \"abc\"[0]\n",
        "let s: int = \"abc\"[0]\n",
        "'s' declared as int, but assigned string",
    ),
    (
        "a slice",
        "let xs: list<int> = [1, 2][0:1]\n",
        "let xs: string = [1, 2][0:1]\n",
        "'xs' declared as string",
    ),
    (
        "a sum",
        "let x: float = 1 + 2.0\n",
        "let x: int = 1 + 2.0\n",
        "'x' declared as int, but assigned float",
    ),
    (
        "a product with a text",
        "let s: string = \"a\" * 3\n",
        "let s: int = 3 * \"a\"\n",
        "'s' declared as int, but assigned string",
    ),
    (
        "a comparison is a bool",
        "let b: bool = 1 < 2 && !true\n",
        "let b: int = 1 < 2\n",
        "'b' declared as int, but assigned bool",
    ),
    (
        "what stands in for nil",
        "fn f(x: int | nil) -> int { return x ?? 1 }\n",
        "fn f(x: int | nil) -> string { return x ?? 1 }\n",
        "expected string, got int",
    ),
    (
        "a ternary is a union",
        "fn f(c) -> int | string { return c ? 1 : \"a\" }\n",
        "fn f(c) -> int { return c ? 1 : \"a\" }\n",
        "got int | string",
    ),
    (
        "a try gives a result",
        "let r: Result<int, string> = try { 1 }\n",
        "let r: int = try { 1 }\n",
        "'r' declared as int, but assigned Result",
    ),
    (
        "a propagated value",
        "fn f(r: Result<int, string>) { let n: int = r?\nreturn n }\n",
        "fn f(r: Result<int, string>) { let n: string = r?\nreturn n }\n",
        "'n' declared as string, but assigned int",
    ),
    (
        "parallel gives a list",
        "let xs: list<int> = parallel each [1] { x -> 1 }\n",
        "let xs: int = parallel each [1] { x -> 1 }\n",
        "'xs' declared as int, but assigned list<int>",
    ),
    (
        "the variable of a loop",
        "for x in [1] { let n: int = x\nprintln(n) }\n",
        "for x in [1] { let n: string = x\nprintln(n) }\n",
        "'n' declared as string, but assigned int",
    ),
    (
        "a method of texts",
        "let n: int = \"abc\".count()\n",
        "let n: string = \"abc\".count()\n",
        "'n' declared as string, but assigned int",
    ),
    (
        "a method of iterators",
        "let xs: list<int> = [1].iter().take(1).to_list()\n",
        "let xs: string = [1].iter().take(1).to_list()\n",
        "'xs' declared as string, but assigned list<int>",
    ),
    (
        "an assignment to a typed variable",
        "var x: int = 1\nx = 2\n",
        "var x: int = 1\nx = \"a\"\n",
        "can't assign string to 'x' (declared as int)",
    ),
    (
        "a compound assignment",
        "var x: int = 1\nx += 2\n",
        "var x: int = 1\nx += 2.5\n",
        "can't assign float to 'x' (declared as int)",
    ),
    (
        "an assignment to a let",
        "var x = 1\nx = 2\n",
        "let x = 1\nx = 2\n",
        "Cannot assign to 'x': variable is immutable (declared with 'let')",
    ),
    (
        "how many arguments",
        "fn f(a, b = 1) { a + b }\nf(1)\n",
        "fn f(a, b = 1) { a + b }\nf(1, 2, 3)\n",
        "Function 'f' expects 1-2 arguments, got 3",
    ),
    (
        "rest parameters",
        "fn f(...xs: list<int>) { xs }\nf(1, 2)\n",
        "fn f(...xs: list<int>) { xs }\nf(1, \"a\")\n",
        "Argument 2 ('xs'): expected int, got string",
    ),
    (
        "what is returned",
        "fn f() -> int { return 1 }\n",
        "fn f() -> int { return \"a\" }\n",
        "return type doesn't match: expected int, got string",
    ),
    (
        "operands of +",
        "println(1 + 2.0, \"a\" + \"b\", [1] + [2], {a: 1} + {b: 2})\n",
        "println(1 + \"a\")\n",
        "can't add int and string",
    ),
    (
        "operands of -",
        "println(3 - 1.5)\n",
        "println(\"a\" - 1)\n",
        "can't use '-' on string and int (needs numeric operands)",
    ),
    (
        "operands of *",
        "println(\"a\" * 2)\n",
        "println(\"a\" * \"b\")\n",
        "can't multiply string and string (try string * int)",
    ),
    (
        "operands of <",
        "println(1 < 2.0, \"a\" < \"b\")\n",
        "println(1 < \"a\")\n",
        "Comparing int with string using '<' may give unexpected results",
    ),
    (
        "an unknown call target",
        "println(1)\n",
        "printn(1)\n",
        "call target `printn` is not defined or imported",
    ),
    (
        "an unknown field",
        "struct S { a: int }\nprintln(S {a: 1})\n",
        "struct S { a: int }\nprintln(S {a: 1, b: 2})\n",
        "Unknown field 'b' in struct 'S'",
    ),
    (
        "a missing field",
        "struct S { a: int, b?: int }\nprintln(S {a: 1})\n",
        "struct S { a: int, b: int }\nprintln(S {a: 1})\n",
        "Missing field 'b' in struct 'S' construction",
    ),
    (
        "the type of a field",
        "struct S { a: int }\nprintln(S {a: 1})\n",
        "struct S { a: int }\nprintln(S {a: \"x\"})\n",
        "Field 'a' in struct 'S' expects int, got string",
    ),
    (
        "a struct that does not exist",
        "struct Point { a: int }\nprintln(Point {a: 1})\n",
        "struct Point { a: int }\nprintln(Pont {a: 1})\n",
        "unknown struct type `Pont` — did you mean `Point`?",
    ),
    (
        "a literal arm of another type",
        "fn f(x: int) { match x { 1 -> { 1 } _ -> { 2 } } }\n",
        "fn f(x: int) { match x { \"a\" -> { 1 } _ -> { 2 } } }\n",
        "Match pattern type mismatch: matching int against string literal",
    ),
    (
        "how many at once",
        "parallel each [1] with { max_concurrent: 2 } { x -> x }\n",
        "parallel each [1] with { max_concurrent: \"2\" } { x -> x }\n",
        "`max_concurrent` on `parallel` must be int, got string",
    ),
    (
        "emit outside",
        "gen fn f() { emit 1 }\n",
        "fn f() { emit 1 }\n",
        "`emit` can only be used inside a `gen fn`",
    ),
    (
        "yield inside",
        "fn f() { yield 1 }\n",
        "gen fn f() { yield 1 }\n",
        "`yield` is not a stream emit; use `emit` inside `gen fn`",
    ),
    (
        "what is emitted",
        "gen fn f() -> Stream<int> { emit 1 }\n",
        "gen fn f() -> Stream<int> { emit \"a\" }\n",
        "emit type doesn't match: expected int, got string",
    ),
    (
        "a gen fn gives a stream",
        "gen fn f() -> Stream<int> { emit 1 }\n",
        "gen fn f() -> int { emit 1 }\n",
        "`gen fn` must return Stream<T>, got int",
    ),
    (
        "nil widens",
        "var x = nil\nx = 1\nx = nil\nx = 2\n",
        "var x = nil\nx = 1\nx = \"a\"\n",
        "can't assign string to 'x'",
    ),
    (
        "a type parameter is bound once",
        "fn f<T>(a: T, b: T) { [a, b] }\nf(1, 2)\n",
        "fn f<T>(a: T, b: T) { [a, b] }\nf(1, \"a\")\n",
        "type parameter 'T' was inferred as both int and string",
    ),
    (
        "explicit type arguments",
        "fn f<T>(a: T) -> T { a }\nf<int>(1)\n",
        "fn f<T>(a: T) -> T { a }\nf<int>(\"a\")\n",
        "Argument 1 ('a'): expected int, got string",
    ),
    (
        "type arguments of a plain function",
        "fn f<T>(a: T) { a }\nf<int>(1)\n",
        "fn f(a) { a }\nf<int>(1)\n",
        "Function 'f' does not declare type parameters",
    ),
    (
        "how many type arguments",
        "fn f<T, U>(a: T, b: U) { [a, b] }\nf<int, int>(1, 2)\n",
        "fn f<T, U>(a: T, b: U) { [a, b] }\nf<int>(1, 2)\n",
        "Function 'f' expects 2 type arguments, got 1",
    ),
    (
        "methods of a bound",
        "interface I { fn m(self) -> int }\nfn f<T>(x: T) -> int where T: I { return x.m() }\n",
        "interface I { fn m(self) -> int }\nfn f<T>(x: T) -> int where T: I { return x.n() }\n",
        "Method 'n' not found in interface 'I' (constraint on 'T')",
    ),
    (
        "a bound is satisfied",
        "interface I { fn m(self) -> int }\nstruct S { a: int }\nimpl S { fn m(self) -> int { 1 } }\nfn f<T>(x: T) where T: I { x }\nf(S {a: 1})\n",
        "interface I { fn m(self) -> int }\nfn f<T>(x: T) where T: I { x }\nf(1)\n",
        "does not satisfy interface 'I'",
    ),
    (
        "out parameters are covariant",
        "type R<out T> = fn() -> T\nfn f(r: R<int>) -> R<float> { return r }\n",
        "type R<T> = {a: list<T>}\nfn f(r: R<int>) -> R<float> { return r }\n",
        "return type doesn't match",
    ),
    (
        "out stands in results",
        "type R<out T> = fn() -> T\n",
        "type B<out T> = fn(T) -> int\n",
        "type parameter 'T' is declared 'out' (covariant) but appears in a contravariant position in type alias 'B'",
    ),
    (
        "in stands in parameters",
        "interface P<in T> { fn put(x: T) -> nil }\n",
        "interface P<in T> { fn next() -> T }\n",
        "type parameter 'T' is declared 'in' (contravariant) but appears in a covariant position in interface 'P'",
    ),
    (
        "struct fields are invariant",
        "struct S<T> { a: T }\n",
        "struct S<out T> { a: T }\n",
        "invariant position in struct 'S'",
    ),
    (
        "how many parameters a method has",
        "interface I { fn m(self) -> int }\nstruct S { a: int }\nimpl S { fn m(self) -> int { 1 } }\nfn f<T>(x: T) where T: I { x }\nf(S {a: 1})\n",
        "interface I { fn m(self) -> int }\nstruct S { a: int }\nimpl S { fn m(self, n: int) -> int { n } }\nfn f<T>(x: T) where T: I { x }\nf(S {a: 1})\n",
        "method 'm' has 1 parameter(s), expected 0",
    ),
    (
        "what a method takes",
        "interface I { fn m(self, n: int) -> int }\nstruct S { a: int }\nimpl S { fn m(self, n: int) -> int { n } }\nfn f<T>(x: T) where T: I { x }\nf(S {a: 1})\n",
        "interface I { fn m(self, n: int) -> int }\nstruct S { a: int }\nimpl S { fn m(self, n: string) -> int { 1 } }\nfn f<T>(x: T) where T: I { x }\nf(S {a: 1})\n",
        "method 'm' parameter 1 has type 'string', expected 'int'",
    ),
    (
        "what a method gives",
        "interface I { fn m(self) -> int }\nstruct S { a: int }\nimpl S { fn m(self) -> int { 1 } }\nfn f<T>(x: T) where T: I { x }\nf(S {a: 1})\n",
        "interface I { fn m(self) -> int }\nstruct S { a: int }\nimpl S { fn m(self) -> string { \"\" } }\nfn f<T>(x: T) where T: I { x }\nf(S {a: 1})\n",
        "method 'm' returns 'string', expected 'int'",
    ),
    (
        "an associated type with a default",
        "interface I { type Item = int\nfn m(self) -> Item }\nstruct S { a: int }\nimpl S { fn m(self) -> int { 1 } }\nfn f<T>(x: T) where T: I { x }\nf(S {a: 1})\n",
        "interface I { type Item = int\nfn m(self) -> Item }\nstruct S { a: int }\nimpl S { fn m(self) -> string { \"\" } }\nfn f<T>(x: T) where T: I { x }\nf(S {a: 1})\n",
        "associated type 'Item' resolves to 'string', expected 'int'",
    ),
    (
        "all variants",
        "enum E { A, B }\nfn f(e: E) { match e { E.A -> { 1 } E.B -> { 2 } } }\n",
        "enum E { A, B }\nfn f(e: E) { match e { E.A -> { 1 } } }\n",
        "Non-exhaustive match on enum E: missing variants \"B\"",
    ),
    (
        "all tags",
        "type M = {t: \"a\", n: int} | {t: \"b\"}\nfn f(m: M) { match m.t { \"a\" -> { 1 } \"b\" -> { 2 } } }\n",
        "type M = {t: \"a\", n: int} | {t: \"b\"}\nfn f(m: M) { match m.t { \"a\" -> { 1 } } }\n",
        "Non-exhaustive match on tagged shape union: missing variants \"b\"",
    ),
    (
        "all literals",
        "fn f(x: \"a\" | 3) { match x { \"a\" -> { 1 } 3 -> { 2 } } }\n",
        "fn f(x: \"a\" | 3) { match x { \"a\" -> { 1 } } }\n",
        "Non-exhaustive match on literal union: missing 3",
    ),
    (
        "all types of a union",
        "fn f(x: int | nil) { match x { 1 -> { 1 } nil -> { 2 } } }\n",
        "fn f(x: int | nil) { match x { 1 -> { 1 } } }\n",
        "Non-exhaustive match on union type: missing nil",
    ),
    (
        "not nil",
        "fn f(x: int | nil) -> int { if x != nil { return x }\nreturn 0 }\n",
        "fn f(x: int | nil) -> int { if x != nil { return 0 }\nreturn x }\n",
        "expected int, got nil",
    ),
    (
        "the name alone",
        "fn f(x: int | nil) -> int { if x { return x }\nreturn 0 }\n",
        "fn f(x: int | nil) -> int { if !x { return x }\nreturn 0 }\n",
        "expected int, got",
    ),
    (
        "type_of",
        "fn f(x: int | string) -> int { if type_of(x) == \"int\" { return x }\nreturn 0 }\n",
        "fn f(x: int | string) -> int { if type_of(x) == \"int\" { return 0 }\nreturn x }\n",
        "expected int, got string",
    ),
    (
        "a tag",
        "type M = {t: \"a\", n: int} | {t: \"b\", s: string}\nfn f(m: M) -> int { if m.t == \"a\" { return m.n }\nreturn 0 }\n",
        "type M = {t: \"a\", n: int} | {t: \"b\", s: string}\nfn f(m: M) -> int { if m.t == \"a\" { return 0 }\nreturn m.s }\n",
        "expected int, got string",
    ),
    (
        "a schema",
        "type P = {a: int}\nfn f(x: unknown) -> P { if schema_is(x, P) { return x }\nreturn {a: 1} }\n",
        "type P = {a: int}\nfn f(x: unknown) -> P { if schema_is(x, P) { return {a: 1} }\nreturn x }\n",
        "got unknown",
    ),
    (
        "and, or, not",
        "fn f(x: int | nil, y: int | nil) -> int { if x != nil && y != nil { return x + y }\nreturn 0 }\n",
        "fn f(x: int | nil, y: int | nil) -> int { if x != nil || y != nil { return x }\nreturn 0 }\n",
        "return type doesn't match",
    ),
    (
        "a guard",
        "fn f(x: int | nil) -> int { guard x != nil else { return 0 }\nreturn x }\n",
        "fn f(x: int | nil) -> int { guard x == nil else { return 0 }\nreturn x }\n",
        "expected int, got nil",
    ),
    (
        "an assignment takes it back",
        "fn f(y: int | nil) -> int { var x: int | nil = y\nif x != nil { return x }\nreturn 0 }\n",
        "fn f(y: int | nil) -> int { var x: int | nil = y\nif x != nil { x = y\nreturn x }\nreturn 0 }\n",
        "expected int, got int | nil",
    ),
    (
        "unreachable",
        "fn f(x: int | nil) { if x == nil { return 0 }\nif type_of(x) == \"int\" { return 1 }\nunreachable(x) }\n",
        "fn f(x: int | nil) { if type_of(x) == \"string\" { return 1 }\nunreachable(x) }\n",
        "unreachable() argument has type `int | nil`",
    ),
    (
        "what is left of unknown",
        "fn f(v: unknown) { if type_of(v) == \"int\" { return 1 }\nreturn 2 }\n",
        "fn f(v: unknown) { if type_of(v) == \"int\" { return 1 }\nthrow \"no\" }\n",
        "was not fully narrowed",
    ),
    ("an alias", "type N = int\nlet n: N = 1\n", "type N = int\nlet n: N = \"a\"\n", "but assigned string"),
    (
        "a recursive alias",
        "type Tree = {v: int, kids: list<Tree>}\nlet t: Tree = {v: 1, kids: []}\n",
        "type Tree = {v: int, kids: list<Tree>}\nlet t: Tree = {v: \"a\", kids: []}\n",
        "field 'v' has type string, expected int",
    ),
    (
        "a generic alias",
        "type Box<T> = {v: T}\nlet b: Box<int> = {v: 1}\n",
        "type Box<T> = {v: T}\nlet b: Box<int> = {v: \"a\"}\n",
        "expected int",
    ),
    (
        "attributes that exist",
        "@deprecated(since: \"1\", use: \"g\")\nfn f() { 1 }\nprintln(2)\n",
        "@deprecate\nfn f() { 1 }\n",
        "unknown attribute `@deprecate`",
    ),
    (
        "attributes where they belong",
        "@test\npipeline p(t) { 1 }\n",
        "@test\nfn p(t) { 1 }\n",
        "`@test` only applies to pipeline declarations",
    ),
    (
        "a deprecated function",
        "@deprecated\nfn f() { 1 }\nfn g() { 2 }\ng()\n",
        "@deprecated\nfn f() { 1 }\nf()\n",
        "`f` is deprecated",
    ),
    (
        "an if without else at the end",
        "fn g(n: int) -> string {\n  if n == 0 { return \"a\" }\n  \"b\"\n}\n",
        "fn g(n: int) -> string {\n  if n == 0 { return \"a\" }\n}\n",
        "missing return value on some paths: expected string, got nil",
    ),
    (
        "a branch without a value",
        "fn g(n: int) -> string {\n  if n == 0 { \"a\" } else { throw \"b\" }\n}\n",
        "fn g(n: int) -> string {\n  if n == 0 { \"a\" } else { let m = n }\n}\n",
        "missing return value on some paths",
    ),
    (
        "a branch that gives nil",
        "fn g(n: int) -> string {\n  match n {\n    1 -> { \"a\" }\n    _ -> { to_string(n) }\n  }\n}\n",
        "fn g(n: int) -> string {\n  match n {\n    1 -> { \"a\" }\n    _ -> { println(n) }\n  }\n}\n",
        "missing return value on some paths",
    ),
    (
        "a loop at the end",
        "fn g(n: int) -> int {\n  while true {\n    for i in 0 to n { if i > 3 { break } }\n    if n > 2 { return n }\n  }\n}\n",
        "fn g(n: int) -> int {\n  while true {\n    if n > 2 { break }\n  }\n}\n",
        "missing return value on some paths",
    ),
    (
        "a loop that may end",
        "fn g(n: int) -> int | nil {\n  for i in 0 to n { if i > 3 { return i } }\n}\n",
        "fn g(n: int) -> int {\n  for i in 0 to n { if i > 3 { return i } }\n}\n",
        "missing return value on some paths",
    ),
    (
        "an arm without a value",
        "fn g(n: int) -> int {\n  match n {\n    1 -> { return 1 }\n    2 -> { exit(1) }\n    _ -> { throw \"no\" }\n  }\n}\n",
        "fn g(n: int) -> int {\n  match n {\n    1 -> { return 1 }\n    _ -> { }\n  }\n}\n",
        "missing return value on some paths",
    ),
    (
        "a handler without a value",
        "fn g(n: int) -> int {\n  try { return n } catch (e) { throw_error(\"no\") }\n}\n",
        "fn g(n: int) -> int {\n  try { return n } catch (e) { let m = e }\n}\n",
        "missing return value on some paths",
    ),
    (
        "statements at the end",
        "fn g(n) -> any {\n  var m = n\n  m = 2\n}\nfn h<T>(n: T) -> T { var m = n }\nfn i() -> int { }\nfn j() -> nil { let a = 1 }\n",
        "fn g(n: int) -> int {\n  var m = n\n  m = 2\n}\n",
        "missing return value on some paths",
    ),
    (
        "the values of a variant",
        "enum E { A(x: int), B, C(float, y) }\nprintln(E.A(1), E.B, E.C(1, \"s\"), E.A, E.A(...[1, 2]))\n",
        "enum E { A(x: int), B }\nprintln(E.A(\"s\"))\n",
        "E.A expects x: int, got string",
    ),
    (
        "how many values a variant has",
        "enum E<T> { A(x: T), B }\nprintln(E.A(1), E.A(\"s\"), E.B)\n",
        "enum E { A(x: int), B }\nprintln(E.B(3))\n",
        "E.B expects 0 argument(s), got 1",
    ),
    (
        "bare types of a variant",
        "enum E { A(float, name), B }\nprintln(E.A(1, 2))\n",
        "enum E { A(float, name), B }\nprintln(E.A(\"s\", 2))\n",
        "E.A expects float, got string",
    ),
];

#[test]
fn every_rule_accepts_and_refuses() {
    let (names, system) = (machine(), harn_system::Real::new());
    let world = World {
        signatures: &names,
        files: harn_front::Through(&system),
        std_module: harn_runtime::std_module,
        prompt_asset: harn_runtime::prompt_asset,
    };
    let found = |text: &str| -> Vec<String> {
        let tree = parse(text);
        let source = Source { name: "main.harn", dir: Path::new(""), text, tree: &tree };
        check_program(&source, &world).into_iter().map(|found| found.message).collect()
    };
    let mut wrong = Vec::new();
    for (rule, accepted, refused, message) in ROWS {
        let said = found(accepted);
        if !said.is_empty() {
            wrong.push(format!("{rule}: {accepted}\n  is refused: {said:?}"));
        }
        let said = found(refused);
        if !said.iter().any(|said| said.contains(message)) {
            wrong.push(format!("{rule}: {refused}\n  is not refused: {said:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), ROWS.len(), wrong.join("\n"));
}
