//! Text completion endpoints, which reply in one piece, and Ollama's rendered prompts.

use harn_llm::runtime::Completion;
use harn_value::{Data as Value, json};

use super::ENV;
use crate::support::{Seen, Server, Step, local, ok_json, reply, runtime};

async fn complete(script: Vec<Step>, provider: &str, suffix: &str) -> (Value, Seen) {
    let server = Server::start(vec![script]).await;
    let completion = Completion {
        prefix: "let x = ".into(),
        suffix: suffix.into(),
        system: Some("Rust.".into()),
        options: json!({"provider": provider, "model": "m", "base_url": server.url, "max_tokens": 8,
                        "temperature": 0.1, "stop": [";"], "seed": 3}),
    };
    let result = runtime(ENV).0.llm_completion(&completion).await.unwrap();
    let seen = server.request(0);
    (result, seen)
}

#[tokio::test]
async fn openai_completions() {
    local(async {
        let body = json!({"id": "cmpl-1", "object": "text_completion", "created": 1589478378, "model": "m",
            "choices": [{"text": "1", "index": 0, "logprobs": null, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 4, "completion_tokens": 1, "total_tokens": 5}});
        for (provider, path) in [("openai", "/completions"), ("local", "/v1/completions")] {
            let (result, seen) = complete(ok_json(&body), provider, ";").await;
            assert_eq!(seen.line, format!("POST {path} HTTP/1.1"));
            assert_eq!(seen.body["suffix"], ";");
            assert_eq!((&result["text"], &result["stop_reason"]), (&json!("1"), &json!("end_turn")));
            assert_eq!((&result["input_tokens"], &result["output_tokens"]), (&json!(4), &json!(1)));
            assert_eq!((result.get("transcript"), result.get("data")), (None, None));
        }
    })
    .await;
}

#[tokio::test]
async fn ollama_completions() {
    local(async {
        let body = json!({"model": "m:latest", "created_at": "2025-07-15T10:44:21.5Z", "response": "1", "done": true,
            "done_reason": "length", "prompt_eval_count": 4, "eval_count": 1});
        for suffix in ["", ";"] {
            let (result, seen) = complete(ok_json(&body), "ollama", suffix).await;
            assert_eq!(seen.line, "POST /api/generate HTTP/1.1");
            assert_eq!(seen.body.get("raw").is_some(), suffix.is_empty());
            assert_eq!((&result["text"], &result["stop_reason"]), (&json!("1"), &json!("max_tokens")));
            assert_eq!((&result["model"], &result["output_tokens"]), (&json!("m:latest"), &json!(1)));
        }
    })
    .await;
}

#[tokio::test]
async fn rendered_prompts() {
    local(async {
        let line =
            |response: &str, done: bool| json!({"model": "qwen3.6:27b", "response": response, "done": done});
        let mut last = line("", true);
        last["done_reason"] = "stop".into();
        last["eval_count"] = 3.into();
        let body = format!("{}\n{}\n{last}\n", line("<think>hm</think>", false), line("\n\nGrüße", false));
        let script = reply("200 OK", "content-type: application/x-ndjson\r\n", &body);
        let server = Server::start(vec![script]).await;
        let options = json!({"provider": "ollama", "model": "qwen3.6:27b", "base_url": server.url});
        let call = harn_llm::Call::new("hi", Some("Be kind."), options);
        let result = runtime(ENV).0.llm_call(&call).await.unwrap();
        assert_eq!(server.request(0).line, "POST /api/generate HTTP/1.1");
        assert_eq!((&result["text"], &result["thinking"]), (&json!("Grüße"), &json!("hm")));
    })
    .await;
}
