//! Validation against schemas, and functions that derive schemas from others.

use harn_schema::{Dialect, SchemaError, canonical, check, to_json_schema};
use harn_value::{Dict, Str, Value};
use harn_vm::{Error, Result, builtins};

use crate::args::{Given, printed, with_stack};

builtins! {
    /// Schemas.
    pub(crate) static SCHEMAS: "schemas";

    /// Validates a value: `Ok(value)`, or `Err({message, errors, value})`.
    ///
    /// `message` is the first of `errors`, each of which has the form `at <path>: <text>`.
    ///
    /// ```harn
    /// let user = {type: "dict", properties: {age: {type: "int", min: 0}}, required: ["name"]}
    /// println(unwrap_err(schema_check({age: -1}, user)).errors.join("; ")) // -> at root: missing required key 'name'; at age: expected value >= 0, got -1
    /// ```
    Pure fn schema_check(cx, value: Given, schema: Given) -> "Result" {
        let (value, schema) = two("schema_check", value, schema)?;
        as_result(&value, check(&value, &schema, false))
    }

    /// Validates a value after filling in missing properties from their defaults.
    ///
    /// ```harn
    /// let conf = {type: "dict", properties: {port: {type: "int", default: 80}}, required: ["port"]}
    /// println(schema_parse({}, conf)) // -> Result.Ok({port: 80})
    /// ```
    Pure fn schema_parse(cx, value: Given, schema: Given) -> "Result" {
        let (value, schema) = two("schema_parse", value, schema)?;
        as_result(&value, check(&value, &schema, true))
    }

    /// Returns whether a value matches a schema.
    ///
    /// ```harn
    /// println([schema_is("x", {type: "string"}), schema_is(1, {type: "string"})]) // -> [true, false]
    /// ```
    Pure fn schema_is(cx, value: Given, schema: Given) -> "bool" {
        let (value, schema) = two("schema_is", value, schema)?;
        malformed(check(&value, &schema, false))?.is_ok()
    }

    /// Returns whether a value matches a schema; an alias of `schema_is`.
    ///
    /// ```harn
    /// println(is_type([1], {type: "list", items: {type: "int"}})) // -> true
    /// ```
    Pure fn is_type(cx, value: Given, schema: Given) -> "bool" {
        let (value, schema) = two("is_type", value, schema)?;
        malformed(check(&value, &schema, false))?.is_ok()
    }

    /// Returns the validated value, or throws all errors joined with `; `.
    ///
    /// ```harn
    /// println(schema_expect({a: 1}, {type: "dict"})) // -> {a: 1}
    /// println(try { schema_expect(1, {type: "string"}) }) // -> Result.Err(at root: expected type 'string', got 'int')
    /// ```
    Pure fn schema_expect(cx, value: Given, schema: Given, defaults: Value as "bool?") -> "any" {
        let (value, schema) = two("schema_expect", value, schema)?;
        expect(&value, &schema, defaults.truthy())?
    }

    /// Returns true if a value matches a schema, or throws all errors joined with `; `.
    ///
    /// ```harn
    /// println(try { json_validate({name: "a"}, {type: "dict", required: ["name", "age"]}) }) // -> Result.Err(at root: missing required key 'age')
    /// ```
    Pure fn json_validate(cx, value: Given, schema: Given) -> "bool" {
        let (value, schema) = two("json_validate", value, schema)?;
        expect(&value, &schema, false)?;
        true
    }

    /// Returns the schema of a type: a name, or a type expression such as `list<Item>` or `Item | nil`.
    ///
    /// A schema dict is returned as it is.
    ///
    /// ```harn
    /// println(schema_of(list<int>)) // -> {items: {type: int}, type: list}
    /// ```
    Pure fn schema_of(cx, schema: Given) -> "dict" {
        let schema = one("schema_of", schema)?;
        if schema.as_dict().is_none() {
            let text = format!("schema_of: expected a type alias or schema dict, got {}", schema.type_name());
            return Err(Error::thrown(text));
        }
        schema
    }

    /// Converts a schema to JSON Schema.
    ///
    /// ```harn
    /// println(schema_to_json_schema({type: "int", nullable: true, min: 1})) // -> {minimum: 1.0, type: [integer, null]}
    /// ```
    Pure fn schema_to_json_schema(cx, schema: Given) -> "dict" {
        malformed(to_json_schema(&one("schema_to_json_schema", schema)?, Dialect::JsonSchema))?
    }

    /// Converts a schema to OpenAPI.
    ///
    /// ```harn
    /// println(schema_to_openapi_schema({type: "int", nullable: true})) // -> {nullable: true, type: integer}
    /// ```
    Pure fn schema_to_openapi_schema(cx, schema: Given) -> "dict" {
        malformed(to_json_schema(&one("schema_to_openapi_schema", schema)?, Dialect::OpenApi))?
    }

    /// Converts a JSON Schema to canonical form.
    ///
    /// ```harn
    /// println(schema_from_json_schema({type: "array", minItems: 1, "x-other": 2})) // -> {min_items: 1, type: list}
    /// ```
    Pure fn schema_from_json_schema(cx, schema: Given) -> "dict" {
        malformed(canonical(&one("schema_from_json_schema", schema)?))?
    }

    /// Converts an OpenAPI schema to canonical form.
    ///
    /// ```harn
    /// println(schema_from_openapi_schema({type: "string", nullable: true})) // -> {nullable: true, type: string}
    /// ```
    Pure fn schema_from_openapi_schema(cx, schema: Given) -> "dict" {
        malformed(canonical(&one("schema_from_openapi_schema", schema)?))?
    }

    /// Returns the entries of both schemas in canonical form; entries of `b` take precedence.
    ///
    /// ```harn
    /// println(schema_extend({type: "int", min: 1}, {minimum: 2})) // -> {min: 2, type: int}
    /// ```
    Pure fn schema_extend(cx, a: Given, b: Given) -> "dict" {
        let (a, b) = two("schema_extend", a, b)?;
        let mut merged = malformed(canonical(&a))?;
        merged.extend(malformed(canonical(&b))?.iter().map(|(k, v)| (k.clone(), v.clone())));
        merged
    }

    /// Makes all properties optional, at every level.
    ///
    /// ```harn
    /// println(schema_partial({type: "dict", required: ["a"]})) // -> {type: dict}
    /// ```
    Pure fn schema_partial(cx, schema: Given) -> "dict" {
        partial(&malformed(canonical(&one("schema_partial", schema)?))?)
    }

    /// Returns a schema with only some properties.
    ///
    /// ```harn
    /// let s = {properties: {a: {type: "int"}, b: {type: "int"}}, required: ["a", "b"]}
    /// println(schema_pick(s, ["a"])) // -> {properties: {a: {type: int}}, required: [a]}
    /// ```
    Pure fn schema_pick(cx, schema: Given, keys: Given) -> "dict" {
        select("schema_pick", schema, keys, true)?
    }

    /// Returns a schema without some properties.
    ///
    /// ```harn
    /// let s = {properties: {a: {type: "int"}, b: {type: "int"}}, required: ["a", "b"]}
    /// println(schema_omit(s, ["a"])) // -> {properties: {b: {type: int}}, required: [b]}
    /// ```
    Pure fn schema_omit(cx, schema: Given, keys: Given) -> "dict" {
        select("schema_omit", schema, keys, false)?
    }
}

type Outcome = std::result::Result<std::result::Result<Value, Vec<String>>, SchemaError>;

fn one(name: &str, schema: Given) -> Result<Value> {
    schema.0.ok_or_else(|| Error::thrown(format!("{name} requires 1 argument")))
}

fn two(name: &str, a: Given, b: Given) -> Result<(Value, Value)> {
    match (a.0, b.0) {
        (Some(a), Some(b)) => Ok((a, b)),
        _ => Err(Error::thrown(format!("{name} requires 2 arguments"))),
    }
}

fn malformed<T>(outcome: std::result::Result<T, SchemaError>) -> Result<T> {
    outcome.map_err(|error| Error::thrown(error.to_string()))
}

fn expect(value: &Value, schema: &Value, defaults: bool) -> Result<Value> {
    malformed(check(value, schema, defaults))?.map_err(|errors| Error::thrown(errors.join("; ")))
}

/// Returns `Ok(value)` or `Err({message, errors, value})`; a malformed schema is an `Err` without value.
fn as_result(value: &Value, outcome: Outcome) -> Value {
    let (errors, value) = match outcome {
        Ok(Ok(checked)) => return Value::ok(checked),
        Ok(Err(errors)) => (errors, Some(value)),
        Err(error) => (vec![error.to_string()], None),
    };
    let mut dict = Dict::new();
    dict.insert("message", errors.first().map(String::as_str));
    dict.insert("errors", errors.iter().map(Value::from).collect::<Vec<_>>());
    if let Some(value) = value {
        dict.insert("value", value.clone());
    }
    Value::err(dict.into())
}

/// Returns a canonical schema without `required`, at every level.
fn partial(schema: &Dict) -> Dict {
    with_stack(|| {
        let part = |value: &Value| value.as_dict().map_or_else(|| value.clone(), |s| partial(s).into());
        let entries = schema.iter().filter(|(key, _)| key.as_str() != "required");
        entries
            .map(|(key, value)| {
                let value = match key.as_str() {
                    "items" | "additional_properties" => part(value),
                    "properties" => match value.as_dict() {
                        Some(parts) => {
                            parts.iter().map(|(k, v)| (k.clone(), part(v))).collect::<Dict>().into()
                        }
                        None => value.clone(),
                    },
                    "union" | "all_of" => match value.as_list() {
                        Some(branches) => Value::list(branches.iter().map(part).collect()),
                        None => value.clone(),
                    },
                    _ => value.clone(),
                };
                (key.clone(), value)
            })
            .collect()
    })
}

fn select(name: &str, schema: Given, keys: Given, keep: bool) -> Result<Dict> {
    let (schema, keys) = two(name, schema, keys)?;
    let mut schema = malformed(canonical(&schema))?;
    let Some(keys) = keys.as_list() else {
        return Err(Error::thrown(format!("{name}: keys must be a list")));
    };
    let keys: Vec<Str> = keys.iter().map(printed).collect();
    let wanted = |key: &str| keys.iter().any(|k| k.as_str() == key) == keep;
    if let Some(properties) = schema.get_str("properties").and_then(Value::as_dict) {
        let kept = properties.iter().filter(|(key, _)| wanted(key)).map(|(k, v)| (k.clone(), v.clone()));
        let kept: Dict = kept.collect();
        schema.insert("properties", kept);
    }
    if let Some(required) = schema.get_str("required").and_then(Value::as_list) {
        let kept: Vec<Value> = required.iter().filter(|key| wanted(&printed(key))).cloned().collect();
        schema.insert("required", kept);
    }
    Ok(schema)
}
