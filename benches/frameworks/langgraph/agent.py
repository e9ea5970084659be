"""agent.py URL AGENTS TURNS: the agent in LangGraph, with create_agent, which replaced LangGraph's create_react_agent."""

import asyncio
import sys

from langchain.agents import create_agent
from langchain.tools import tool
from langchain_openai import ChatOpenAI


@tool
async def look(at: int) -> str:
    """Look at a place."""
    return f"place {at} is quiet"


async def main(url, agents, turns):
    model = ChatOpenAI(model="gpt-4o", base_url=url, api_key="none")
    agent = create_agent(model=model, tools=[look], system_prompt="You look at places.")

    async def run(number):
        messages = [{"role": "user", "content": f"Agent {number}: look at every place."}]
        # A turn takes two steps of the graph.
        result = await agent.ainvoke({"messages": messages}, {"recursion_limit": 2 * turns + 10})
        return result["messages"][-1].content

    for answer in await asyncio.gather(*(run(number) for number in range(agents))):
        print(answer, flush=True)


asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
