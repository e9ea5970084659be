"""agent.py URL AGENTS TURNS: the agent in Pydantic AI."""

import asyncio
import sys

from pydantic_ai import Agent, UsageLimits
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


async def main(url, agents, turns):
    model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(base_url=url, api_key="none"))
    agent = Agent(model, instructions="You look at places.")

    @agent.tool_plain
    async def look(at: int) -> str:
        """Look at a place."""
        return f"place {at} is quiet"

    async def run(number):
        limits = UsageLimits(request_limit=turns + 1)
        result = await agent.run(f"Agent {number}: look at every place.", usage_limits=limits)
        return result.output

    for answer in await asyncio.gather(*(run(number) for number in range(agents))):
        print(answer, flush=True)


asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
