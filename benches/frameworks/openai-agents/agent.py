"""agent.py URL AGENTS TURNS: the agent in the OpenAI Agents SDK."""

import asyncio
import sys

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI


@function_tool
async def look(at: int) -> str:
    """Look at a place."""
    return f"place {at} is quiet"


async def main(url, agents, turns):
    set_tracing_disabled(True)
    model = OpenAIChatCompletionsModel(model="gpt-4o", openai_client=AsyncOpenAI(base_url=url, api_key="none"))
    agent = Agent(name="bench", instructions="You look at places.", model=model, tools=[look])

    async def run(number):
        result = await Runner.run(agent, f"Agent {number}: look at every place.", max_turns=turns + 1)
        return result.final_output

    for answer in await asyncio.gather(*(run(number) for number in range(agents))):
        print(answer, flush=True)


asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
