"""Serves a program over the Agent Client Protocol to a client that others wrote: the Python SDK of the protocol.

Its models check every message. `make acp-test` installs it and runs this; HARN names the binary.
"""

import asyncio
import logging
import os

import pytest
from acp import PROTOCOL_VERSION, RequestError, spawn_agent_process, text_block
from acp.contrib.session_state import SessionAccumulator
from acp.schema import (
    AllowedOutcome,
    DeniedOutcome,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    McpServerStdio,
    RequestPermissionResponse,
    ResourceContentBlock,
    SessionNotification,
    TextResourceContents,
)

PROGRAM = """
import { plan_tools } from "std/plan"
tool look(path: string) -> string {
  description "Look at a file"
  annotations {kind: "read", side_effect_level: "none"}
  "three lines"
}
tool edit(path: string) -> string {
  description "Edit a file"
  annotations {kind: "edit", side_effect_level: "workspace_write"}
  write_file(path, "edited")
  "edited"
}
pipeline main(task) {
  if task == "wait" {
    try { sleep(60000) } finally { write_file("cleaned.txt", "yes") }
  }
  if task == "fail" { throw "no such thing" }
  if task == "print" { println("a line"); return }
  if task == "plan" {
    llm_mock({tool_calls: [{name: "emit_plan", arguments: {steps: [{step: "look", status: "done"}, "edit"]}}]})
    llm_mock({text: "Planned."})
    return agent_loop(task, nil, {provider: "mock", session_id: "chat", tools: plan_tools()})
  }
  if task.starts_with("edit") {
    llm_mock({tool_calls: [{name: "look", arguments: {path: "a.txt"}}, {name: "edit", arguments: {path: "a.txt"}}]})
    llm_mock({text: "Here it is.", thinking: "Let me see."})
  } else {
    llm_mock({text: "You said: ${task}"})
  }
  agent_loop(task, nil, {
    provider: "mock", session_id: "chat", tools: [look, edit], approval_policy: {require_approval: ["edit"]},
  })
  println("messages ${agent_session_length("chat")}")
}
"""


class Client:
    """Takes everything; permissions are answered by `outcome`."""

    def __init__(self):
        self.told = SessionAccumulator()
        self.updates = []
        self.asked = []
        self.outcome = AllowedOutcome(outcome="selected", option_id="allow")
        self.seen = asyncio.Event()

    def on_connect(self, conn):
        self.conn = conn

    async def session_update(self, session_id, update, **_):
        self.updates.append(update)
        self.told.apply(SessionNotification(session_id=session_id, update=update))
        self.seen.set()

    async def request_permission(self, session_id, tool_call, options, **_):
        self.asked.append((tool_call, options))
        return RequestPermissionResponse(outcome=self.outcome)

    def text(self):
        chunks = self.told.snapshot().agent_messages if self.updates else []
        return "".join(chunk.content.text for chunk in chunks)


def run(tmp_path, talk, program=PROGRAM):
    """Runs `talk(agent, client, folder)` with a served program."""
    (tmp_path / "agent.harn").write_text(program)

    async def main():
        client = Client()
        async with spawn_agent_process(
            client, os.environ["HARN"], "serve", "acp", str(tmp_path / "agent.harn"), cwd=tmp_path,
        ) as (agent, process):
            await agent.initialize(protocol_version=PROTOCOL_VERSION)
            await asyncio.wait_for(talk(agent, client, tmp_path), 60)
        assert process.returncode == 0

    asyncio.run(main())


async def opened(agent, folder):
    return (await agent.new_session(cwd=str(folder), mcp_servers=[])).session_id


@pytest.fixture(autouse=True)
def nothing_is_wrong_on_the_wire(caplog):
    """The library logs messages that do not fit the protocol."""
    with caplog.at_level(logging.WARNING):
        yield
    assert [record.getMessage() for record in caplog.records] == []


def test_what_the_agent_says_of_itself(tmp_path):
    (tmp_path / "agent.harn").write_text(PROGRAM)

    async def main():
        async with spawn_agent_process(
            Client(), os.environ["HARN"], "serve", "acp", "agent.harn", cwd=tmp_path,
        ) as (agent, _):
            said = await agent.initialize(protocol_version=PROTOCOL_VERSION)
            assert said.protocol_version == PROTOCOL_VERSION
            assert said.agent_info.name == "harn" and said.agent_capabilities.load_session
            assert said.agent_capabilities.prompt_capabilities.embedded_context
            # A client with a newer protocol version is offered the supported one.
            assert (await agent.initialize(protocol_version=999)).protocol_version == 1

    asyncio.run(main())


def test_a_conversation(tmp_path):
    async def talk(agent, client, folder):
        session = await opened(agent, folder)
        done = await agent.prompt(session_id=session, prompt=[text_block("Hello")])
        assert done.stop_reason == "end_turn"
        assert client.text() == "You said: Hellomessages 2\n"
        await agent.prompt(session_id=session, prompt=[text_block("Again")])
        assert client.text().endswith("You said: Againmessages 4\n")
        # Another session has a separate history.
        other = await opened(agent, folder)
        await agent.prompt(session_id=other, prompt=[text_block("Hello")])
        assert client.text() == "You said: Hellomessages 2\n"

    run(tmp_path, talk)


def test_calls_of_tools_and_a_permission(tmp_path):
    async def talk(agent, client, folder):
        session = await opened(agent, folder)
        done = await agent.prompt(session_id=session, prompt=[text_block("edit a.txt")])
        assert done.stop_reason == "end_turn"
        calls = client.told.snapshot().tool_calls
        assert [(call.title, call.kind, call.status) for call in calls.values()] == [
            ("look", "read", "completed"), ("edit", "edit", "completed"),
        ]
        look, edit = calls.values()
        assert look.raw_input == {"path": "a.txt"} and look.content[0].content.text == "three lines"
        (asked, options), = client.asked
        assert asked.tool_call_id == edit.tool_call_id and asked.title == "edit"
        assert {option.kind for option in options} == {"allow_once", "reject_once"}
        assert (folder / "a.txt").read_text() == "edited"
        assert client.text().endswith("Here it is.messages 4\n")
        thoughts = client.told.snapshot().agent_thoughts
        assert "".join(thought.content.text for thought in thoughts) == "Let me see."

    run(tmp_path, talk)


@pytest.mark.parametrize("outcome", [
    AllowedOutcome(outcome="selected", option_id="reject"),
    AllowedOutcome(outcome="selected", option_id="another"),
    DeniedOutcome(outcome="cancelled"),
])
def test_what_is_not_allowed_does_not_happen(tmp_path, outcome):
    async def talk(agent, client, folder):
        client.outcome = outcome
        session = await opened(agent, folder)
        await agent.prompt(session_id=session, prompt=[text_block("edit a.txt")])
        assert [call.status for call in client.told.snapshot().tool_calls.values()] == ["completed", "failed"]
        assert not (folder / "a.txt").exists()

    run(tmp_path, talk)


def test_a_plan(tmp_path):
    async def talk(agent, client, folder):
        session = await opened(agent, folder)
        await agent.prompt(session_id=session, prompt=[text_block("plan")])
        plan = client.told.snapshot().plan_entries
        assert [(entry.content, entry.status) for entry in plan] == [("look", "completed"), ("edit", "pending")]

    run(tmp_path, talk)


def test_a_prompt_is_cancelled(tmp_path):
    async def talk(agent, client, folder):
        session = await opened(agent, folder)
        prompt = asyncio.create_task(agent.prompt(session_id=session, prompt=[text_block("wait")]))
        await asyncio.sleep(0.5)
        with pytest.raises(RequestError):
            await agent.prompt(session_id=session, prompt=[text_block("print")])
        await agent.cancel(session_id=session)
        assert (await prompt).stop_reason == "cancelled"
        assert (folder / "cleaned.txt").read_text() == "yes"
        # The session continues.
        await agent.prompt(session_id=session, prompt=[text_block("print")])
        assert client.text() == "a line\n"

    run(tmp_path, talk)


def test_a_session_is_loaded_by_a_later_process(tmp_path):
    kept = []

    async def talk(agent, client, folder):
        session = await opened(agent, folder)
        await agent.prompt(session_id=session, prompt=[text_block("edit a.txt")])
        kept.append((session, client.updates))

    async def later(agent, client, folder):
        session, before = kept[0]
        await agent.load_session(cwd=str(folder), session_id=session, mcp_servers=[])
        assert client.updates[0].session_update == "user_message_chunk"
        assert client.updates[0].content.text == "edit a.txt"
        assert client.updates[1:] == before
        await agent.prompt(session_id=session, prompt=[text_block("More")])
        assert client.text().endswith("You said: Moremessages 6\n")
        with pytest.raises(RequestError):
            await agent.load_session(cwd=str(folder), session_id="nobody", mcp_servers=[])

    run(tmp_path, talk)
    run(tmp_path, later)


def test_what_is_wrong_is_an_error(tmp_path):
    async def talk(agent, client, folder):
        session = await opened(agent, folder)
        with pytest.raises(RequestError) as failed:
            await agent.prompt(session_id=session, prompt=[text_block("fail")])
        assert "no such thing" in str(failed.value)
        with pytest.raises(RequestError) as image:
            await agent.prompt(session_id=session, prompt=[ImageContentBlock(type="image", data="", mime_type="image/png")])
        assert image.value.code == -32602
        with pytest.raises(RequestError) as unknown:
            await agent.prompt(session_id="nobody", prompt=[text_block("x")])
        assert unknown.value.code == -32602
        with pytest.raises(RequestError) as relative:
            await agent.new_session(cwd="here", mcp_servers=[])
        assert relative.value.code == -32602
        # MCP servers of the client start with the first loop.
        stdio = McpServerStdio(name="x", command="x", args=[], env=[])
        assert (await agent.new_session(cwd=str(folder), mcp_servers=[stdio])).session_id
        with pytest.raises(RequestError) as method:
            await agent.set_session_mode(session_id=session, mode_id="x")
        assert method.value.code == -32601

    run(tmp_path, talk)


def test_links_and_texts_of_files_are_a_part_of_the_task(tmp_path):
    async def talk(agent, client, folder):
        session = await opened(agent, folder)
        await agent.prompt(session_id=session, prompt=[
            text_block("See"),
            ResourceContentBlock(type="resource_link", uri="file:///a.rs", name="a.rs"),
            EmbeddedResourceContentBlock(
                type="resource", resource=TextResourceContents(uri="file:///b.rs", text="fn b() {}"),
            ),
        ])
        assert client.text().startswith("You said: See\n\nfile:///a.rs\n\nfile:///b.rs:\nfn b() {}")

    run(tmp_path, talk)
