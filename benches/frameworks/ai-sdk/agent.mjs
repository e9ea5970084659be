// agent.mjs URL AGENTS TURNS: the agent in the AI SDK.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { isStepCount, tool, ToolLoopAgent } from "ai";
import { z } from "zod";

const [url, agents, turns] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const provider = createOpenAICompatible({ name: "bench", baseURL: url, apiKey: "none" });
const agent = new ToolLoopAgent({
  model: provider("gpt-4o"),
  instructions: "You look at places.",
  tools: {
    look: tool({
      description: "Look at a place.",
      inputSchema: z.object({ at: z.int() }),
      execute: async ({ at }) => `place ${at} is quiet`,
    }),
  },
  stopWhen: isStepCount(turns + 1),
  telemetry: { isEnabled: false },
});

const run = async (number) => (await agent.generate({ prompt: `Agent ${number}: look at every place.` })).text;
for (const answer of await Promise.all(Array.from({ length: agents }, (_, number) => run(number)))) {
  console.log(answer);
}
