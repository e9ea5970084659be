//! The argument schemas of the runtime's tools, and the check of SQL queries.

use harn_value::{Data as Value, json};

/// The reply of `execute_query` to anything other than a single query.
pub const ONLY_QUERIES: &str = "execute_query: only a single SELECT or WITH statement is allowed";

/// Returns the argument schema of a runtime tool.
#[must_use]
pub fn input_schema(tool: &str) -> Value {
    let text = || json!({"type": "string"});
    let texts = || json!({"type": "array", "items": {"type": "string"}});
    let int = |most: i64| json!({"type": "integer", "minimum": 1, "maximum": most});
    let any_int = || json!({"type": "integer", "minimum": 1});
    let anything = || json!({"type": "object"});
    let entity = || {
        json!({"type": "object", "properties": {"id": text(), "qualified_name": text(), "name": text(), "kind": text()},
               "additionalProperties": false, "minProperties": 1})
    };
    let entities = || json!({"type": "array", "items": entity()});
    let (properties, required): (Value, &[&str]) = match tool {
        "call_agent" => (json!({"agent": text(), "prompt": text()}), &["agent", "prompt"]),
        "storePlan" => (
            json!({"specName": text(), "planId": text(), "body": anything()}),
            &["specName", "planId", "body"],
        ),
        "getPlan" | "executePlan" => (json!({"planId": text()}), &["planId"]),
        "resolveRef" | "glimpseRef" => (json!({"kind": text(), "id": text()}), &["kind", "id"]),
        "search_catalog" => (
            json!({"query": text(), "kinds": texts(), "filters": anything(), "limit": int(50), "cursor": text()}),
            &["query"],
        ),
        "get_catalog_entities" => (json!({"refs": entities()}), &["refs"]),
        "list_schema_fields" => {
            (json!({"tables": entities(), "filters": anything(), "limit_per_table": any_int()}), &["tables"])
        }
        "get_catalog_relations" => (
            json!({"refs": entities(), "direction": text(), "relation_kinds": texts(), "target_kinds": texts(),
                   "limit_per_ref": any_int()}),
            &["refs"],
        ),
        "get_relation_paths_between" => (
            json!({"from": entity(), "to": entity(), "path_type": text(), "max_depth": int(6)}),
            &["from", "to"],
        ),
        "sample_table_data" => (json!({"table": entity(), "columns": texts(), "limit": int(20)}), &["table"]),
        "execute_query" => {
            (json!({"sql": text(), "params": {}, "limit": int(1000), "purpose": text()}), &["sql"])
        }
        _ => (json!({}), &[]),
    };
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// Returns whether SQL is a single read-only statement: `SELECT …` or `WITH … SELECT …`. Anything that is ambiguous
/// between dialects is rejected.
#[must_use]
pub fn is_single_query(sql: &str) -> bool {
    let Some(tokens) = tokens(sql) else { return false };
    let mut tokens: &[Token] = &tokens;
    while let [rest @ .., Token::Sign(';')] = tokens {
        tokens = rest;
    }
    if tokens.contains(&Token::Sign(';')) {
        return false;
    }
    let word = |token: &Token, words: &[&str]| matches!(token, Token::Word(w) if words.contains(&w.as_str()));
    let Some(first) = tokens.iter().find(|token| **token != Token::Sign('(')) else { return false };
    if !word(first, &["select", "with"]) {
        return false;
    }
    // A statement that writes may follow WITH, or be in its parentheses.
    let writes =
        ["insert", "update", "delete", "merge", "replace", "drop", "alter", "create", "truncate", "call"];
    let begins = |pair: &[Token]| matches!(pair[0], Token::Sign('(' | ')')) && word(&pair[1], &writes);
    let calls = |at: usize| tokens.get(at + 2) == Some(&Token::Sign('('));
    let written = tokens.windows(2).enumerate().any(|(at, pair)| begins(pair) && !calls(at));
    let into = word(first, &["select", "with"]) && tokens.iter().any(|token| word(token, &["into"]));
    !written && !into
}

#[derive(Debug, PartialEq)]
enum Token {
    Word(String),
    Sign(char),
    /// A string or a quoted identifier.
    Quoted,
}

/// Returns the tokens of SQL without its comments; `None` if a quote or comment is unterminated, or is ambiguous
/// between dialects.
fn tokens(sql: &str) -> Option<Vec<Token>> {
    let mut found = Vec::new();
    let mut rest = sql;
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("--") {
            let (comment, after) = rest[2..].split_once('\n').unwrap_or((&rest[2..], ""));
            let comment = comment.strip_suffix('\r').unwrap_or(comment);
            // Some servers end the comment at a lone CR, and some parse `--` as two minus signs if no space follows.
            if comment.contains('\r') || comment.starts_with(|c: char| !c.is_whitespace()) {
                return None;
            }
            rest = after;
        } else if rest.starts_with("/*") {
            let inner = &rest[2..];
            let (comment, after) = inner.split_once("*/")?;
            // Some servers execute `/*!` comments, and nested comments end in different places.
            if comment.starts_with('!') || comment.contains("/*") {
                return None;
            }
            rest = after;
        } else if matches!(c, '\'' | '"' | '`') {
            let (quoted, after) = rest[1..].split_once(c)?;
            if quoted.ends_with('\\') {
                return None;
            }
            found.push(Token::Quoted);
            rest = after;
        } else if matches!(c, '#' | '$' | '\\') {
            return None;
        } else if c.is_alphanumeric() || c == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            found.push(Token::Word(rest[..end].to_lowercase()));
            rest = &rest[end..];
        } else {
            if !c.is_whitespace() {
                found.push(Token::Sign(c));
            }
            rest = &rest[c.len_utf8()..];
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_pass() {
        for sql in [
            "SELECT 1",
            " select a from t where b = 'x; drop table t' ; ",
            "WITH x AS (SELECT 1) SELECT * FROM x",
            "-- why\nSELECT 1 /* ; */",
            "-- why\r\nSELECT 1 -- so\r\n",
            "(SELECT 1) UNION (SELECT 2)",
            "SELECT replace(a, 'x', 'y') FROM t",
            "SELECT (replace(a, 'x', 'y')) FROM t",
            "SELECT updated_at FROM t FOR UPDATE",
            "select \"into\" from t",
            "SELECT 'it''s'",
        ] {
            assert!(is_single_query(sql), "{sql}");
        }
    }

    #[test]
    fn all_else_is_refused() {
        for sql in [
            "",
            ";",
            "DELETE FROM t",
            "SELECT 1; DROP TABLE t",
            "SELECT 1 -- x\r; DROP TABLE t",
            "SELECT 1 -- \r'\n; DROP TABLE t --'",
            "SELECT 1 --1; DROP TABLE t",
            "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x",
            "WITH x AS (SELECT 1) DELETE FROM t",
            "SELECT * INTO u FROM t",
            "SELECT 'x",
            "SELECT 1 /* x",
            "SELECT /*! 1; DROP TABLE t */ 1",
            "SELECT 'a\\'; DROP TABLE t; --'",
            "SELECT $$x$$",
            "EXPLAIN SELECT 1",
            "/* SELECT */ UPDATE t SET a = 1",
        ] {
            assert!(!is_single_query(sql), "{sql}");
        }
    }

    #[test]
    fn limits_have_bounds() {
        let fits = |tool: &str, args: Value| harn_schema::errors(&input_schema(tool), &args).is_empty();
        assert!(fits("search_catalog", json!({"query": "x", "limit": 50})));
        assert!(!fits("search_catalog", json!({"query": "x", "limit": 51})));
        assert!(!fits("sample_table_data", json!({"table": {"name": "t"}, "limit": 21})));
        assert!(!fits(
            "get_relation_paths_between",
            json!({"from": {"id": "a"}, "to": {"id": "b"}, "max_depth": 7})
        ));
        assert!(!fits("execute_query", json!({"sql": "SELECT 1", "limit": 1001})));
        assert!(!fits("execute_query", json!({"sql": "SELECT 1", "colour": 1})));
    }
}
