//! Conversion of messages from and to the types of the protocol's crate.

use agent_client_protocol_schema::v1::{Error, ErrorCode};
use harn_value::Data as Json;
use serde::de::DeserializeOwned;

use crate::json_rpc::Problem;

/// Creates an error with one of the protocol's codes.
pub(super) fn problem(code: ErrorCode, message: impl Into<String>) -> Problem {
    Problem::new(i32::from(code).into(), message)
}

/// Reads the error of a response.
pub(super) fn error_of(given: &Json) -> Problem {
    match given.clone().read::<Error>() {
        Ok(error) => problem(error.code, error.message),
        Err(_) => problem(
            ErrorCode::InternalError,
            given["message"].as_str().unwrap_or("the client gave an error that is none of the protocol"),
        ),
    }
}

/// Deserializes a message.
///
/// # Errors
/// The first mismatch and its location: `` `prompt[0]`: missing field `text` ``.
pub(super) fn read<T: DeserializeOwned>(given: &Json) -> Result<T, String> {
    // serde would read an array as the fields in order.
    if !given.is_object() {
        return Err(format!("there must be an object, got {}", given.type_name()));
    }
    let given = serde_json::Value::from(given.clone());
    serde_path_to_error::deserialize(given).map_err(|error| match error.path().to_string().as_str() {
        "." => error.inner().to_string(),
        place => format!("`{place}`: {}", error.inner()),
    })
}

/// Deserializes the parameters of a method.
///
/// # Errors
/// The first mismatch, with the method and the location.
pub(super) fn params<T: DeserializeOwned>(method: &str, given: &Json) -> Result<T, Problem> {
    read(given).map_err(|why| problem(ErrorCode::InvalidParams, format!("{method}: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_client_protocol_schema::v1::{PromptRequest, RequestPermissionResponse};
    use harn_value::json;

    #[test]
    fn what_does_not_fit_is_named_with_its_place() {
        let text = json!({"type": "text", "text": "x"});
        assert!(read::<PromptRequest>(&json!({"sessionId": "s", "prompt": [text]})).is_ok());
        for (given, error) in [
            (json!({"prompt": []}), "missing field `sessionId`"),
            (
                json!({"sessionId": 3, "prompt": []}),
                "`sessionId`: invalid type: integer `3`, expected a string",
            ),
            (
                json!({"sessionId": "s", "prompt": "x"}),
                "`prompt`: invalid type: string \"x\", expected a sequence",
            ),
            (json!({"sessionId": "s", "prompt": [{"type": "text"}]}), "`prompt[0]`: missing field `text`"),
            (json!({"sessionId": "s", "prompt": [{"text": "x"}]}), "`prompt[0]`: missing field `type`"),
            (json!(["s", []]), "there must be an object, got list"),
            (json!(null), "there must be an object, got nil"),
        ] {
            assert_eq!(read::<PromptRequest>(&given).unwrap_err(), error);
        }
        let unknown = json!({"sessionId": "s", "prompt": [{"type": "film"}]});
        let error = read::<PromptRequest>(&unknown).unwrap_err();
        assert!(
            error.starts_with("`prompt[0].type`: unknown variant `film`, expected one of `text`, "),
            "{error}"
        );
        let error =
            read::<RequestPermissionResponse>(&json!({"outcome": {"outcome": "selected"}})).unwrap_err();
        assert_eq!(error, "`outcome`: missing field `optionId`");
    }

    #[test]
    fn errors_of_clients_are_read() {
        let read = |given: Json| {
            let Problem { code, message } = error_of(&given);
            (code, message)
        };
        assert_eq!(read(json!({"code": -32601, "message": "no", "data": [1]})), (-32601, "no".to_owned()));
        assert_eq!(read(json!({"message": "no"})), (-32603, "no".to_owned()));
        assert_eq!(read(json!("no")).0, -32603);
    }
}
