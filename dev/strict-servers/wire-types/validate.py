"""Validate recorded exchanges with model APIs with the types of the providers' own SDKs.

    validate.py DIR [--cassettes DIR] [--show N]

DIR holds the files that the tests write with HARN_WIRE_LOG=DIR: one exchange per line. Each request is validated, and each reply with
status 200: a whole body, or every complete event of a stream. Cassettes are validated, too. `expected.txt` names the tests whose exchanges are wrong on purpose.
"""

import argparse
import collections
import fnmatch
import json
import pathlib
import pkgutil
import sys
import typing
import importlib

import pydantic
import typing_extensions

# Extensions of the OpenAI format by other hosts; removed before validation for models of other providers than
# OpenAI.
HOST_BODY = {
    "reasoning": "OpenRouter", "chat_template_kwargs": "vLLM", "think": "Ollama", "options": "Ollama", "keep_alive": "Ollama",
    "thinking": "Z.ai, DeepSeek, Moonshot", "enable_thinking": "DashScope", "max_tokens": "all but OpenAI's reasoning models",
    "guided_json": "vLLM", "provider": "OpenRouter", "models": "OpenRouter", "usage": "OpenRouter",
}
# Fields that identify a reply and that no program reads: canned replies omit them.
ENVELOPE = frozenset({
    "id", "object", "created", "created_at", "model", "index", "role", "type", "total_tokens", "annotations", "sequence_number", "item_id",
    "output_index", "content_index", "summary_index", "parallel_tool_calls", "tool_choice", "tools", "logprobs", "status", "signature",
})
# Parameters that the Messages API accepts for models before Opus 4.7, and that current SDK types no longer contain.
OLDER_CLAUDE = ("temperature", "top_p", "top_k")
HOST_MESSAGE = {"reasoning_content": "DeepSeek, Moonshot", "reasoning": "OpenRouter", "reasoning_details": "OpenRouter"}


def strict_types(package):
    """Make every TypedDict of a package reject unknown keys, and check iterables at once instead of when they are read."""
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        module = importlib.import_module(info.name)
        if hasattr(module, "Iterable"):
            module.Iterable = typing.List
        for value in list(vars(module).values()):
            if typing_extensions.is_typeddict(value) and value.__module__ == module.__name__:
                value.__pydantic_config__ = pydantic.ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True)


def adapter(kind):
    return pydantic.TypeAdapter(kind, config=None if is_configured(kind) else pydantic.ConfigDict(arbitrary_types_allowed=True))


def is_configured(kind):
    return typing_extensions.is_typeddict(kind) or (isinstance(kind, type) and issubclass(kind, pydantic.BaseModel))


def anthropic_types():
    import anthropic.types as types
    strict_types(types)
    params = types.message_create_params
    return {
        "request": lambda body: params.MessageCreateParamsStreaming if body.get("stream") else params.MessageCreateParamsNonStreaming,
        "whole": types.Message, "event": by_type(types.RawMessageStreamEvent),
    }


def openai_types():
    import openai.types as types
    import openai.types.chat as chat
    import openai.types.responses as responses
    strict_types(types)
    create, response, completion = chat.completion_create_params, responses.response_create_params, types.completion_create_params
    pick = lambda module, name: lambda body: getattr(module, name + ("Streaming" if body.get("stream") else "NonStreaming"))
    return {
        "openai_chat": {"request": pick(create, "CompletionCreateParams"), "whole": chat.ChatCompletion, "event": chat.ChatCompletionChunk},
        "openai_responses": {"request": pick(response, "ResponseCreateParams"), "whole": responses.Response,
                             "event": by_type(responses.ResponseStreamEvent)},
        "openai_completion": {"request": pick(completion, "CompletionCreateParams"), "whole": types.Completion, "event": types.Completion},
    }


def gemini_types():
    from google.genai import types

    class Body(pydantic.BaseModel):
        """The body of generateContent; its parts are the SDK's types."""
        model_config = pydantic.ConfigDict(extra="forbid", alias_generator=pydantic.alias_generators.to_camel, populate_by_name=True)
        contents: list[types.Content]
        system_instruction: typing.Optional[types.Content] = None
        tools: typing.Optional[list[types.Tool]] = None
        tool_config: typing.Optional[types.ToolConfig] = None
        safety_settings: typing.Optional[list[types.SafetySetting]] = None
        generation_config: typing.Optional[types.GenerationConfig] = None
        cached_content: typing.Optional[str] = None

    return {"request": lambda body: Body, "whole": types.GenerateContentResponse, "event": types.GenerateContentResponse}


def ollama_types():
    import ollama._types as types
    strict = pydantic.ConfigDict(extra="forbid")
    for kind in vars(types).values():
        if isinstance(kind, type) and issubclass(kind, pydantic.BaseModel) and kind.__name__.endswith(("Request", "Message")):
            kind.model_config = {**kind.model_config, **strict}
            kind.model_rebuild(force=True)
    return {
        "ollama_chat": {"request": lambda body: types.ChatRequest, "whole": types.ChatResponse, "event": types.ChatResponse},
        "ollama_generate": {"request": lambda body: types.GenerateRequest, "whole": types.GenerateResponse, "event": types.GenerateResponse},
    }


class Bedrock:
    """The shapes of botocore's service model."""

    def __init__(self):
        import botocore.session
        import botocore.validate
        self.validator = botocore.validate.ParamValidator()
        service = botocore.session.get_session().get_service_model("bedrock-runtime")
        operation = service.operation_model("Converse")
        self.input, self.output = operation.input_shape, operation.output_shape
        self.events = service.operation_model("ConverseStream").output_shape.members["stream"].members

    def stream(self, data):
        """The messages about the events of a binary stream."""
        import botocore.eventstream
        buffer = botocore.eventstream.EventStreamBuffer()
        buffer.add_data(data)
        try:
            for message in buffer:
                name = message.headers.get(":event-type") or message.headers[":exception-type"]
                # Exceptions that stop a call before its stream begins are not part of the stream's types.
                if name in self.events or ":event-type" in message.headers:
                    yield self.check(json.loads(message.payload), self.events[name])
        except botocore.eventstream.ParserError as error:
            yield f"no event stream: {error}"

    def check(self, body, shape):
        return str(self.validator.validate(body, shape).generate_report()).replace("\n", "; ") or None


class Types:
    def __init__(self):
        self.by_api = {"anthropic": anthropic_types(), "gemini": gemini_types(), **openai_types(), **ollama_types()}
        self.bedrock = Bedrock()
        self.adapters = {}
        self.seen = {}
        from mistralai.client.models import ChatCompletionRequest, ChatCompletionStreamRequest
        self.mistral = {False: ChatCompletionRequest, True: ChatCompletionStreamRequest}

    def check(self, kind, value, ignored=frozenset()):
        """The message of the first errors, or None."""
        found = self.adapters.get(kind)
        if found is None:
            found = self.adapters[kind] = adapter(kind)
        try:
            found.validate_json(json.dumps(value))
        except pydantic.ValidationError as error:
            errors = error.errors(include_url=False, include_input=False)
            # A union reports the errors of all branches: those of branches for another `type` or `role` are not
            # relevant.
            other = [e["loc"][:-1] for e in errors if e["type"] == "literal_error" and e["loc"][-1] in ("type", "role")]
            errors = [e for e in errors if not any(e["loc"][: len(branch)] == branch for branch in other)] or errors
            errors = [e for e in errors if not (e["type"] == "missing" and e["loc"][-1] in ignored)]
            return "; ".join(f"{'.'.join(str(part) for part in e['loc'])}: {e['msg']}" for e in errors[:6]) or None
        return None

    def request(self, exchange):
        api, body = exchange["api"], exchange["request"]
        if api == "bedrock":
            from urllib.parse import unquote
            model = unquote(exchange["target"].split("/model/")[1].split("/")[0])
            return self.bedrock.check({**body, "modelId": model}, self.bedrock.input)
        if api == "openai_chat":
            body = of_host(exchange["target"], body)
            model = body.get("model", "")
            if "mistral" in model:
                wrong = self.check(self.mistral[bool(body.get("stream"))], {k: v for k, v in body.items() if k != "stream_options"})
                if wrong:
                    return "mistral: " + wrong
        if api == "anthropic":
            body = {k: v for k, v in body.items() if k not in OLDER_CLAUDE}
        return self.check(self.by_api[api]["request"](body), body)

    def replies(self, exchange):
        """The messages about a reply: about its body, or about each event."""
        reply, api = exchange["reply"], exchange["api"]
        if reply["status"] != 200:
            return []
        if reply.get("hex") and api == "bedrock":
            return list(self.bedrock.stream(bytes.fromhex(reply["hex"])))
        whole = parsed(reply["body"])
        if isinstance(whole, dict):
            values = [(whole, "whole")]
        else:
            lines = [line.removeprefix("data:").strip() for line in reply["body"].splitlines()
                     if line.startswith("data:") or api.startswith("ollama")]
            values = [(value, "event") for value in map(parsed, lines) if isinstance(value, dict)]
        return [self.reply(api, kind, value) for value, kind in values if not value.get("error") and value.get("type") != "ping"]

    def reply(self, api, kind, value):
        key = (api, kind, json.dumps(value))
        if key not in self.seen:
            if api == "bedrock":
                self.seen[key] = self.bedrock.check({"metrics": {"latencyMs": 1}, **value}, self.bedrock.output)
            else:
                kinds = self.by_api[api][kind]
                kinds = kinds.get(value.get("type"), next(iter(kinds.values()))) if isinstance(kinds, dict) else kinds
                self.seen[key] = self.check(kinds, value, ENVELOPE)
        return self.seen[key]


def by_type(union):
    """The members of a union of events, by the value of their `type`."""
    members = typing.get_args(typing.get_args(union)[0]) or typing.get_args(union)
    return {typing.get_args(member.model_fields["type"].annotation)[0]: member for member in members}


def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


APIS = {
    "/messages": "anthropic", "/chat/completions": "openai_chat", "/responses": "openai_responses", "/completions": "openai_completion",
    ":generateContent": "gemini", ":streamGenerateContent": "gemini", "/converse": "bedrock", "/converse-stream": "bedrock", "/api/chat": "ollama_chat",
    "/api/generate": "ollama_generate",
}


def of_cassette(path, line):
    """A line of a cassette as an exchange; None when it is another kind of line."""
    request, response = line.get("request"), line.get("response")
    if not request or not response or not isinstance(request.get("body"), dict):
        return None
    target = "/" + request["url"].split("/", 3)[-1]
    api = next((name for end, name in APIS.items() if target.split("?")[0].endswith(end)), None)
    reply = {"status": response["status"], "body": response["body"]}
    return api and {"test": path.name, "api": api, "target": target, "request": request["body"], "reply": reply}


def is_openai(model):
    return model.startswith(("gpt-3", "gpt-4", "gpt-5", "o1", "o3", "o4"))


def of_host(target, body):
    """A body in the OpenAI format without what its host adds to the format."""
    if "/deployments/" in target:
        return {"model": "of the deployment", **body}
    if is_openai(body.get("model", "")):
        return body
    message = lambda m: {k: v for k, v in m.items() if k not in HOST_MESSAGE}
    body = {k: v for k, v in body.items() if k not in HOST_BODY}
    if isinstance(body.get("messages"), list):
        body["messages"] = [message(m) for m in body["messages"]]
    return body


def expected():
    """Patterns of tests with exchanges that are wrong on purpose: `request PATTERN  reason`, `reply PATTERN  reason`."""
    rows = [line.split(None, 2) for line in (pathlib.Path(__file__).parent / "expected.txt").read_text().splitlines()
            if line.strip() and not line.startswith("#")]
    return {side: {row[1]: row[2] for row in rows if row[0] == side} for side in ("request", "history", "reply")}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--cassettes", type=pathlib.Path, default=pathlib.Path("conformance"), help="directory with recorded calls")
    parser.add_argument("--show", type=int, default=30, help="findings to print")
    args = parser.parse_args()
    types, odd = Types(), expected()
    counts, findings, met, used = collections.Counter(), collections.defaultdict(list), set(), set()

    def judge(side, exchange, wrong):
        pattern = next((p for p in odd[side] if fnmatch.fnmatchcase(exchange["test"], p)), None)
        if pattern:
            met.add((side, pattern))
        if not wrong:
            counts[exchange["api"], side, "valid"] += 1
        elif pattern:
            used.add((side, pattern))
            counts[exchange["api"], side, "wrong on purpose"] += 1
        else:
            counts[exchange["api"], side, "INVALID"] += 1
            findings[side, exchange["api"], wrong].append(exchange)

    seen = set()
    for path in [*sorted(args.dir.glob("*.jsonl")), *sorted(args.cassettes.rglob("*.llm-cassette.jsonl"))]:
        for line in path.open():
            exchange = json.loads(line)
            if path.suffixes[-2:-1] == [".llm-cassette"]:
                exchange = of_cassette(path, exchange)
                if not exchange:
                    continue
            reply = exchange.get("reply")
            key = json.dumps([exchange["target"], exchange["request"]])
            refused = reply and "strict server: " in reply["body"]
            if key not in seen and not refused:
                seen.add(key)
                judge("history" if exchange["test"].startswith("history") else "request", exchange, types.request(exchange))
            if reply and not refused:
                for wrong in types.replies(exchange):
                    judge("reply", exchange, wrong)

    for api in sorted({key[0] for key in counts}):
        for side in ("request", "history", "reply"):
            row = {state: counts[api, side, state] for state in ("valid", "wrong on purpose", "INVALID") if counts[api, side, state]}
            if row:
                print(f"{api:18} {side:8} " + ", ".join(f"{count} {state}" for state, count in row.items()))
    for (side, api, wrong), exchanges in sorted(findings.items(), key=lambda item: -len(item[1]))[: args.show]:
        tests = sorted({exchange["test"] for exchange in exchanges})
        body = json.dumps(exchanges[0]["request"] if side != "reply" else exchanges[0]["reply"]["body"])
        print(f"\n{side} of {api}, {len(exchanges)} times, in {', '.join(tests[:8])}\n  {wrong[:600]}\n  {body[:400]}")
    invalid = sum(count for key, count in counts.items() if key[2] == "INVALID")
    total = sum(counts.values())
    for side, pattern in sorted(met - used):
        print(f"expected.txt: nothing is wrong in {side} {pattern}: remove the line")
    print(f"\n{total} checked, {invalid} invalid in {len(findings)} kinds")
    sys.exit(1 if invalid or not total or met - used else 0)


if __name__ == "__main__":
    main()
