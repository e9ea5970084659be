//! OpenAI Responses.

use harn_value::{Data as Value, json};

use crate::cases::{Case, Stop};
use crate::{Format, Request, halves, require, sse, tokens};

pub struct Responses;

impl Responses {
    fn items(case: &Case) -> Vec<Value> {
        let r = &case.reply;
        let mut items = Vec::new();
        if case.thinks {
            let summary = json!([{"type": "summary_text", "text": r.thinking}]);
            items.push(json!({"type": "reasoning", "id": "rs_1", "summary": summary}));
        }
        let part = match r.stop {
            Stop::Refusal => json!({"type": "refusal", "refusal": r.text}),
            _ => json!({"type": "output_text", "text": r.text, "annotations": []}),
        };
        items.push(json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [part]}));
        for (id, name, args) in &r.calls {
            items
                .push(json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name,
                              "arguments": args.to_string(), "status": "completed"}));
        }
        items
    }

    fn response(case: &Case, output: Vec<Value>, done: bool) -> Value {
        let [input, out, read, write] = case.reply.usage;
        let cut = case.reply.stop == Stop::Length;
        let mut response = json!({"id": "resp_1", "object": "response", "created_at": 1741476777, "model": "gpt-5.4",
            "error": null, "incomplete_details": null, "status": "in_progress", "output": output, "usage": null,
            "reasoning": {"effort": null, "summary": null}, "store": false});
        if done {
            response["status"] = if cut { "incomplete" } else { "completed" }.into();
            response["usage"] = json!({"input_tokens": input, "output_tokens": out, "total_tokens": input + out,
                "input_tokens_details": {"cached_tokens": read, "cache_write_tokens": write},
                "output_tokens_details": {"reasoning_tokens": case.reply.reasoning}});
            if cut {
                response["incomplete_details"] = json!({"reason": "max_output_tokens"});
            }
        }
        response
    }
}

impl Format for Responses {
    fn name(&self) -> &'static str {
        "responses"
    }

    fn options(&self) -> Value {
        json!({"provider": "openai", "model": "gpt-5.4", "api_mode": "responses"})
    }

    fn lacks(&self) -> &'static [&'static str] {
        // The matrix has no thinking modes for this model, and the endpoint has no stop sequences.
        &["thinking"]
    }

    fn rules(&self, seen: &Request, streamed: bool) -> Vec<String> {
        let (body, mut broken) = (&seen.body, Vec::new());
        let b = &mut broken;
        require(b, seen.target() == "/responses", "the path is /responses");
        require(b, seen.header("authorization") == Some("Bearer k-openai"), "the key is a bearer");
        require(b, (body["stream"] == json!(true)) == streamed, "stream says what is wanted");
        require(b, body["store"] == json!(false), "nothing is stored");
        let input = body["input"].as_array().unwrap();
        let ids = |kind: &str| -> Vec<&Value> {
            input.iter().filter(|i| i["type"] == kind).map(|i| &i["call_id"]).collect()
        };
        require(b, ids("function_call") == ids("function_call_output"), "every call has its output");
        broken
    }

    fn whole(&self, case: &Case) -> Option<Value> {
        Some(Self::response(case, Self::items(case), true))
    }

    fn stream(&self, case: &Case) -> Option<(&'static str, Vec<u8>)> {
        let mut events = vec![
            json!({"type": "response.created", "response": Self::response(case, Vec::new(), false)}),
            json!({"type": "response.in_progress", "response": Self::response(case, Vec::new(), false)}),
        ];
        let items = Self::items(case);
        for (index, item) in items.iter().enumerate() {
            let event = |kind: &str, more: Value| {
                let mut event = json!({"type": kind, "output_index": index});
                event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                event
            };
            let mut started = item.clone();
            match item["type"].as_str().unwrap() {
                "function_call" => {
                    started["arguments"] = "".into();
                    events.push(event("response.output_item.added", json!({"item": started})));
                    let text: Value = serde_json::from_str(item["arguments"].as_str().unwrap()).unwrap();
                    for piece in halves(&text) {
                        events.push(event(
                            "response.function_call_arguments.delta",
                            json!({"item_id": item["id"], "delta": piece}),
                        ));
                    }
                    events.push(event(
                        "response.function_call_arguments.done",
                        json!({"arguments": item["arguments"]}),
                    ));
                }
                "reasoning" => {
                    started["summary"] = json!([]);
                    events.push(event("response.output_item.added", json!({"item": started})));
                    for piece in tokens(case.reply.thinking) {
                        let delta = json!({"item_id": item["id"], "summary_index": 0, "delta": piece});
                        events.push(event("response.reasoning_summary_text.delta", delta));
                    }
                }
                _ => {
                    started["content"] = json!([]);
                    events.push(event("response.output_item.added", json!({"item": started})));
                    let (part, word) = (
                        &item["content"][0],
                        if case.reply.stop == Stop::Refusal { "refusal" } else { "output_text" },
                    );
                    let key = if word == "refusal" { "refusal" } else { "text" };
                    let empty = json!({"type": part["type"], (key): ""});
                    events.push(event(
                        "response.content_part.added",
                        json!({"content_index": 0, "part": empty}),
                    ));
                    for piece in tokens(case.reply.text) {
                        events.push(event(
                            &format!("response.{word}.delta"),
                            json!({"content_index": 0, "delta": piece}),
                        ));
                    }
                    let done = if word == "refusal" {
                        json!({"refusal": case.reply.text})
                    } else {
                        json!({"text": case.reply.text})
                    };
                    events.push(event(&format!("response.{word}.done"), done));
                    events
                        .push(event("response.content_part.done", json!({"content_index": 0, "part": part})));
                }
            }
            events.push(event("response.output_item.done", json!({"item": item})));
        }
        let kind = if case.reply.stop == Stop::Length { "response.incomplete" } else { "response.completed" };
        events.push(json!({"type": kind, "response": Self::response(case, items, true)}));
        for (n, event) in events.iter_mut().enumerate() {
            event["sequence_number"] = n.into();
        }
        Some(("text/event-stream; charset=utf-8", sse(&events, true).into_bytes()))
    }
}
