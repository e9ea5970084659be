//! Prompt templates in the editor.

use serde_json::{Value, json};

use super::client::{Client, check_places};

fn project() -> Client {
    Client::new(&[
        ("main.harn", "println(render(\"ask.harn.prompt\", {topic: \"x\", tone: \"y\"}))\n"),
        ("part.harn.prompt", "Part.\n"),
    ])
}

#[test]
fn variables_and_filters_are_offered() {
    let mut client = project();
    let at = client.open("ask.harn.prompt", "About {{ $0 }} in {{ free }}.\n");
    let offered = client.offers("ask.harn.prompt", &at);
    for word in ["topic", "tone", "llm", "if", "include"] {
        assert!(offered.iter().any(|name| name == word), "{word}: {offered:?}");
    }
    let at = client.open("filter.harn.prompt", "About {{ topic | $0 }}.\n");
    let offered = client.offers("filter.harn.prompt", &at);
    assert!(offered.iter().any(|name| name == "default"), "{offered:?}");
    assert!(!offered.iter().any(|name| name == "topic"));
    let at = client.open("text.harn.prompt", "About$0 {{ topic }}.\n");
    assert_eq!(client.offers("text.harn.prompt", &at), Vec::<String>::new());
}

#[test]
fn filters_are_explained() {
    let mut client = project();
    let at = client.open("ask.harn.prompt", "{{ topic | defa$0ult: \"x\" }}\n");
    let told = client.at("textDocument/hover", "ask.harn.prompt", &at);
    assert!(told["contents"]["value"].as_str().unwrap().contains("default"), "{told}");
    let at = client.open("other.harn.prompt", "plain defa$0ult\n");
    assert_eq!(client.at("textDocument/hover", "other.harn.prompt", &at), Value::Null);
}

#[test]
fn includes_lead_to_their_files() {
    let mut client = project();
    let at = client.open("ask.harn.prompt", "{{ include \"part.har$0n.prompt\" }}\n");
    let part = client.uri("part.harn.prompt");
    assert_eq!(client.at("textDocument/definition", "ask.harn.prompt", &at)["uri"], part);
    let links = client.of("textDocument/documentLink", "ask.harn.prompt");
    assert_eq!(links[0]["target"], part);
    assert_eq!(links[0]["range"]["start"], json!({"line": 0, "character": 12}));
}

#[test]
fn what_is_wrong_with_a_template_is_told() {
    let mut client = project();
    let text = "😀 {{ if x }}\nno end {{ y | nosuch }}\n";
    client.open("ask.harn.prompt", text);
    let found = client.findings("ask.harn.prompt");
    assert!(!found.is_empty());
    check_places(text, &json!(found));
    client.open("good.harn.prompt", "{{ if x }}a{{ end }}\n");
    assert_eq!(client.findings("good.harn.prompt"), Vec::<Value>::new());
}
