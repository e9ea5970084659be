"""A client of the official Python SDK: client.py HARN PROGRAM over pipes, client.py URL over HTTP."""
import asyncio
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client


async def talk(streams):
    async with ClientSession(streams[0], streams[1]) as client:
        await client.initialize()
        print(" ".join(tool.name for tool in (await client.list_tools()).tools))
        print((await client.call_tool("add", {"a": 1, "b": 2})).content[0].text)
        wrong = await client.call_tool("add", {"a": "x", "b": 2})
        print(str(wrong.is_error).lower())
        print((await client.read_resource("note://7")).contents[0].text)
        prompt = await client.get_prompt("hello", {"who": "Ada"})
        print(prompt.messages[0].content.text)


async def main(first, *program):
    if program:
        transport = stdio_client(StdioServerParameters(command=first, args=["serve", "mcp", *program]))
    else:
        transport = streamable_http_client(first)
    async with transport as streams:
        await talk(streams)


asyncio.run(main(*sys.argv[1:]))
