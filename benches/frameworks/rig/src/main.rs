//! `bench-rig URL AGENTS TURNS`: the agent in rig.

use futures::future::try_join_all;
use rig::prelude::*;
use rig::providers::openai::OpenAIConfig;
use rig::providers::openai::wire::Route;
use rig::rig_tool;
use rig::tool::ToolExecutionError;

#[rig_tool(description = "Look at a place.", params(at = "Number of the place"), required(at))]
async fn look(at: i64) -> Result<String, ToolExecutionError> {
    Ok(format!("place {at} is quiet"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let (agents, turns): (usize, usize) = (args[2].parse()?, args[3].parse()?);
    let client = OpenAIConfig::new("none").with_base_url(&args[1]).with_route(Route::Chat).client();
    let agent =
        AgentBuilder::new(client.completion("gpt-4o")).preamble("You look at places.").tool(Look).build();
    let runs = (0..agents).map(|number| {
        let run = agent.prompt(format!("Agent {number}: look at every place.")).max_turns(turns + 1);
        async move { run.await }
    });
    for response in try_join_all(runs).await? {
        println!("{}", response.output());
    }
    Ok(())
}
