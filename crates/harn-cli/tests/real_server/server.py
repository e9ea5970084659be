"""A server of the official Python SDK whose tools use every request of the protocol: server.py [PORT]."""
import asyncio
import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.streamable_http import EventMessage, EventStore
from pydantic import BaseModel


class Store(EventStore):
    """Events of all streams, so that a stream can be resumed."""

    def __init__(self):
        self.events = []

    async def store_event(self, stream_id, message):
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id, send):
        last = int(last_event_id)
        stream = self.events[last - 1][0]
        for number, (own, message) in enumerate(self.events[last:], last + 1):
            if own == stream and message is not None:
                await send(EventMessage(message, str(number)))
        return stream


app = MCPServer("official", instructions="Add first.")


class Person(BaseModel):
    name: str
    age: int


class Sure(BaseModel):
    ok: bool


@app.tool()
def add(a: int, b: int) -> int:
    return a + b


@app.tool()
def person(name: str) -> Person:
    return Person(name=name, age=3)


@app.tool()
async def talk(ctx: Context) -> str:
    await ctx.info("hello")
    return "talked"


@app.tool()
async def ask(ctx: Context) -> str:
    reply = await ctx.elicit("sure?", Sure)
    return f"{reply.action} {reply.data.ok}"


@app.tool()
async def sample(ctx: Context) -> str:
    from mcp.types import SamplingMessage, TextContent

    message = SamplingMessage(role="user", content=TextContent(type="text", text="hi"))
    reply = await ctx.session.create_message([message], max_tokens=5)
    return reply.content.text


@app.tool()
async def roots(ctx: Context) -> str:
    reply = await ctx.session.list_roots()
    return str(reply.roots[0].uri)


@app.tool()
async def grow(ctx: Context) -> str:
    @app.tool(name="grown")
    def grown() -> str:
        return "grown!"

    await ctx.session.send_tool_list_changed()
    await asyncio.sleep(0.5)
    return "grew"


@app.tool()
async def poll(ctx: Context) -> str:
    await ctx.close_sse_stream()
    await asyncio.sleep(0.5)
    return "resumed"


@app.tool()
async def slow(ctx: Context) -> str:
    try:
        await asyncio.sleep(60)
    except BaseException:
        with open("cancelled.txt", "a", encoding="utf-8") as file:
            file.write("x")
        raise
    return "slept"


@app.resource("note://{id}")
def note(id: str) -> str:
    return f"note {id}"


@app.prompt()
def hello(who: str) -> str:
    return f"Hello {who}"


if len(sys.argv) > 1:
    app.run("streamable-http", port=int(sys.argv[1]), event_store=Store(), retry_interval=100)
else:
    app.run()
