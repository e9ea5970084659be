//! The scenarios of `harn demo`. Each one is a directory in `demos/`, embedded in the binary.

/// A demo program with all its files.
#[derive(Debug)]
pub(super) struct Scenario {
    /// The id on the command line, which is also the name of the directory.
    pub(super) id: &'static str,
    /// A title of one line.
    pub(super) title: &'static str,
    /// A description of a few sentences.
    pub(super) description: &'static str,
    /// The files: path and content. `main.harn` is the program; `replies.jsonl`, if present, contains the replies to
    /// its model calls.
    pub(super) files: &'static [(&'static str, &'static str)],
}

/// The program of a scenario.
pub(super) const PROGRAM: &str = "main.harn";

/// The recorded replies of a scenario.
pub(super) const REPLIES: &str = "replies.jsonl";

/// All scenarios, in the order in which they are listed.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        id: "merge-captain",
        title: "Reviews three pull requests under merge rules",
        description: "A model reviews three pull requests and returns a structured decision for each. Code enforces the \
                      merge rules of the project: a pull request that violates them waits, even if the model decides to \
                      merge it. A receipt records each decision.",
        files: &[
            (PROGRAM, include_str!("../../../demos/merge-captain/main.harn")),
            (REPLIES, include_str!("../../../demos/merge-captain/replies.jsonl")),
            ("pulls.json", include_str!("../../../demos/merge-captain/pulls.json")),
            ("decide.harn.prompt", include_str!("../../../demos/merge-captain/decide.harn.prompt")),
        ],
    },
    Scenario {
        id: "review-captain",
        title: "Reviews a change after a question to its author",
        description: "A model asks the author of a change one question, then returns a structured verdict with findings. \
                      Its prompts are template files with a shared include. The author's answer is recorded, like the \
                      replies of the model.",
        files: &[
            (PROGRAM, include_str!("../../../demos/review-captain/main.harn")),
            (REPLIES, include_str!("../../../demos/review-captain/replies.jsonl")),
            ("change.diff", include_str!("../../../demos/review-captain/change.diff")),
            (
                "prompts/question.harn.prompt",
                include_str!("../../../demos/review-captain/prompts/question.harn.prompt"),
            ),
            (
                "prompts/verdict.harn.prompt",
                include_str!("../../../demos/review-captain/prompts/verdict.harn.prompt"),
            ),
            (
                "prompts/house-rules.harn.prompt",
                include_str!("../../../demos/review-captain/prompts/house-rules.harn.prompt"),
            ),
        ],
    },
    Scenario {
        id: "agent-loop",
        title: "Finds the release that broke a shop, and rolls it back",
        description: "An agent searches a log, lists releases, rolls one back and reports. Model replies are recorded; the \
                      tools really run on the files of the demo. A policy, a token budget and a maximum number of turns \
                      limit the agent.",
        files: &[
            (PROGRAM, include_str!("../../../demos/agent-loop/main.harn")),
            (REPLIES, include_str!("../../../demos/agent-loop/replies.jsonl")),
            ("app.log", include_str!("../../../demos/agent-loop/app.log")),
            ("releases.json", include_str!("../../../demos/agent-loop/releases.json")),
        ],
    },
    Scenario {
        id: "prompt-guidance",
        title: "Adds the guidance of a tool to the system prompt",
        description: "Assembles a system prompt with and without a tool and shows which fragments each contains and why: \
                      the tool's guidance is included only if the tool is offered. Calls no model.",
        files: &[(PROGRAM, include_str!("../../../demos/prompt-guidance/main.harn"))],
    },
    Scenario {
        id: "variant-resolution",
        title: "Renders one template for two models",
        description: "Renders a template for two models. Its sections and branches depend on the capabilities of the model. \
                      `harn portal` shows which branches were taken.",
        files: &[
            (PROGRAM, include_str!("../../../demos/variant-resolution/main.harn")),
            (REPLIES, include_str!("../../../demos/variant-resolution/replies.jsonl")),
            ("brief.harn.prompt", include_str!("../../../demos/variant-resolution/brief.harn.prompt")),
        ],
    },
    Scenario {
        id: "provider-race",
        title: "Sends one question to three providers at once",
        description: "Calls three providers in parallel and compares their replies and costs. With --live it calls the \
                      providers whose API keys are set.",
        files: &[
            (PROGRAM, include_str!("../../../demos/provider-race/main.harn")),
            (REPLIES, include_str!("../../../demos/provider-race/replies.jsonl")),
        ],
    },
    Scenario {
        id: "roles",
        title: "Coordinates four agents with roles and an approved plan",
        description: "A coordinator asks a specialist, a planner writes a plan, and an executor carries it out after its \
                      approval. Prints the events of the run as a timeline. Model replies are recorded; tools, plan and \
                      approval are real.",
        files: &[
            (PROGRAM, include_str!("../../../demos/roles/main.harn")),
            (REPLIES, include_str!("../../../demos/roles/replies.jsonl")),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_is_whole() {
        for (at, scenario) in SCENARIOS.iter().enumerate() {
            let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(!scenario.id.is_empty() && scenario.id.chars().all(word), "{}", scenario.id);
            assert!(SCENARIOS[..at].iter().all(|other| other.id != scenario.id), "{}", scenario.id);
            assert!(scenario.files.iter().any(|(name, _)| *name == PROGRAM), "{}", scenario.id);
            assert!(scenario.description.ends_with('.') && scenario.title.len() <= 76, "{}", scenario.id);
        }
    }
}
