//! Mutates a known input to a similar, usually invalid one.

use crate::rng::Rng;

/// Fragments that are significant for the lexer, the layout pass, the parser or the template engine.
const PIECES: &[&str] = &[
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "\"",
    "\"\"\"",
    "r\"",
    "${",
    "\\",
    "\n",
    ";",
    ",",
    ":",
    "::",
    "->",
    "|>",
    "?.",
    "??",
    "?",
    "...",
    "=",
    "==",
    "!",
    "-",
    "**",
    "/*",
    "*/",
    "//",
    "///",
    "@",
    "_",
    " ",
    "\t",
    "\r",
    "\u{feff}",
    "\u{0}",
    "é",
    "🎉",
    "0x",
    "1e999",
    "9223372036854775808",
    "-9223372036854775808",
    "5ms",
    "1_000",
    "12abc",
    "if ",
    "else ",
    "match ",
    "fn f(",
    "pipeline ",
    "try ",
    "catch ",
    "finally ",
    "struct S ",
    "enum E ",
    "impl S ",
    "parallel ",
    "select ",
    "import \"",
    "let ",
    "var ",
    "yield ",
    "return ",
    "in ",
    "not in ",
    "to ",
    "<<EOF",
    "{{",
    "}}",
    "{{ if ",
    "{{ end }}",
    "{{# ",
    "{{ for x in ",
    "{{ include \"",
];

/// Changes an input in one to eight places. The result may be invalid UTF-8.
pub(crate) fn mutate(rng: &mut Rng, text: &[u8], other: &[u8]) -> Vec<u8> {
    let mut out = text.to_vec();
    for _ in 0..=rng.below(8) {
        let at = rng.below(out.len() + 1);
        let end = (at + rng.below(24)).min(out.len());
        match rng.below(9) {
            0 => drop(out.drain(at..end)),
            1 => insert(&mut out, at, rng.pick(PIECES).as_bytes()),
            2 if at < out.len() => out[at] = rng.bits() as u8,
            3 if at < out.len() => out[at] ^= 1 << rng.below(8),
            4 => {
                let copy = out[at..end].to_vec();
                let to = rng.below(out.len() + 1);
                insert(&mut out, to, &copy);
            }
            5 if !other.is_empty() => {
                let from = rng.below(other.len());
                let until = (from + rng.below(60)).min(other.len());
                insert(&mut out, at, &other[from..until]);
            }
            6 => {
                let piece = rng.pick(PIECES).as_bytes().repeat(1 + rng.below(300));
                insert(&mut out, at, &piece);
            }
            7 => out.truncate(at),
            _ => insert(&mut out, at, rng.pick(PIECES).as_bytes()),
        }
        out.truncate(1 << 16);
    }
    out
}

fn insert(out: &mut Vec<u8>, at: usize, piece: &[u8]) {
    out.splice(at..at, piece.iter().copied());
}
