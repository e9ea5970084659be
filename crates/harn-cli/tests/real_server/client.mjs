// A client built with the official TypeScript SDK: `node client.mjs HARN PROGRAM` over pipes, `node client.mjs URL`
// over HTTP.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const find = createRequire(process.env.SDK + "/");
const load = async (name) => import(pathToFileURL(find.resolve("@modelcontextprotocol/sdk/" + name)));
const { Client } = await load("client/index.js");
const [first, program] = process.argv.slice(2);
let transport;
if (program) {
  const { StdioClientTransport } = await load("client/stdio.js");
  transport = new StdioClientTransport({ command: first, args: ["serve", "mcp", program], stderr: "ignore" });
} else {
  const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
  transport = new StreamableHTTPClientTransport(new URL(first));
}
const client = new Client({ name: "sdk", version: "1" });
await client.connect(transport);
console.log((await client.listTools()).tools.map((tool) => tool.name).join(" "));
const add = (a, b) => client.callTool({ name: "add", arguments: { a, b } });
console.log((await add(1, 2)).content[0].text);
console.log((await add("x", 2)).isError ?? false);
console.log((await client.readResource({ uri: "note://7" })).contents[0].text);
console.log((await client.getPrompt({ name: "hello", arguments: { who: "Ada" } })).messages[0].content.text);
await client.close();
