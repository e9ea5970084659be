#!/usr/bin/env python3
"""The same agents as in run.py, written for LangGraph and for DBOS: so many loops at once, each turn a call of the model and of a tool.

    VENV/bin/python benches/runs/others.py langgraph --kept sync --loops 100 --turns 10 --url http://127.0.0.1:8080 --store FOLDER

`run.py --others` makes the environment and calls this. It writes one line of JSON: seconds, processor time, bytes kept. Starting Python
and its libraries is not in the seconds.
"""

import argparse
import asyncio
import json
import operator
import resource
import time
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated, TypedDict

import aiohttp

TOOL = {"type": "function", "function": {"name": "look", "description": "Looks at a place.", "parameters": {"type": "object", "properties": {"at": {"type": "integer"}}}}}
FIRST = {"role": "user", "content": "Look around."}

client = None
address = None


async def ask(messages):
    """One call of the model; gives its message."""
    body = {"model": "gpt-4o", "messages": messages, "tools": [TOOL]}
    async with client.post(address, json=body) as reply:
        return (await reply.json())["choices"][0]["message"]


async def look(call):
    """The tool; gives its message."""
    return {"role": "tool", "tool_call_id": call["id"], "content": "seen"}


async def agent(turns, model, tool):
    """The loop, over whatever calls the model and the tool; gives its messages."""
    messages = [FIRST]
    for _ in range(turns):
        messages.append(await model(messages))
        for call in messages[-1]["tool_calls"]:
            messages.append(await tool(call))
    return messages


@asynccontextmanager
async def plain(given):
    """Nothing is kept."""
    yield lambda _: agent(given.turns, ask, look)


@asynccontextmanager
async def langgraph(given):
    """A graph of two nodes."""
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
    from langgraph.graph import END, START, StateGraph

    class State(TypedDict):
        messages: Annotated[list, operator.add]

    async def model(state):
        return {"messages": [await ask(state["messages"])]}

    async def tools(state):
        return {"messages": [await look(call) for call in state["messages"][-1]["tool_calls"]]}

    def next_node(state):
        return END if sum(message["role"] == "tool" for message in state["messages"]) == given.turns else "model"

    graph = StateGraph(State)
    graph.add_node("model", model)
    graph.add_node("tools", tools)
    graph.add_edge(START, "model")
    graph.add_edge("model", "tools")
    graph.add_conditional_edges("tools", next_node)
    config = {"recursion_limit": 2 * given.turns + 5}

    async with AsyncExitStack() as stack:
        options = {}
        saver = None
        if given.kept != "no":
            saver = await stack.enter_async_context(AsyncSqliteSaver.from_conn_string(f"{given.store}/langgraph.db"))
            options = {"durability": given.kept}
        app = graph.compile(checkpointer=saver)

        async def loop(name):
            end = await app.ainvoke({"messages": [FIRST]}, {**config, "configurable": {"thread_id": name}}, **options)
            return end["messages"]

        yield loop


@asynccontextmanager
async def dbos(given):
    """A workflow whose calls of the model and of the tool are steps."""
    from dbos import DBOS

    database = given.database or f"sqlite:///{given.store}/dbos.db"
    DBOS(config={"name": "turns", "system_database_url": database, "run_admin_server": False, "log_level": "WARNING"})
    model, tool = DBOS.step()(ask), DBOS.step()(look)

    @DBOS.workflow()
    async def work():
        return await agent(given.turns, model, tool)

    async def loop(_):
        return await (await DBOS.start_workflow_async(work)).get_result()

    DBOS.launch()
    yield loop
    DBOS.destroy()


def used():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), usage.ru_utime + usage.ru_stime


async def main(given):
    global client, address
    address = given.url + "/chat/completions"
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as client, given.system(given) as loop:
        # Lazy initialization is not measured.
        await loop("first")
        begin = used()
        ends = await asyncio.gather(*(loop(str(n)) for n in range(given.loops)))
        seconds, processor = (now - then for now, then in zip(used(), begin))
    assert all(len(messages) == 2 * given.turns + 1 for messages in ends)
    size = sum(path.stat().st_size for path in Path(given.store).iterdir())
    print(json.dumps({"seconds": seconds, "processor": processor, "bytes": size}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    systems = {"plain": plain, "langgraph": langgraph, "dbos": dbos}
    parser.add_argument("system", choices=systems)
    parser.add_argument("--kept", choices=["no", "sync", "async"], default="sync", help="how LangGraph keeps its steps")
    parser.add_argument("--loops", type=int, required=True)
    parser.add_argument("--turns", type=int, required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--database", help="PostgreSQL for DBOS, instead of a file")
    given = parser.parse_args()
    given.system = systems[given.system]
    asyncio.run(main(given))
