//! Merges tool rows into a rendered prompt.

use super::LayeredPrompt;
use super::tools::{HEADER, RULE, ToolRow, parse_row, tools_table};

/// Merges `rows` into the `# Tools` section of `text`. Existing rows take precedence. Without rows, the prompt is
/// unchanged. Lines of the section that are not table rows are placed before the table.
#[must_use]
pub fn augment_prompt_tools(text: &str, rows: Vec<ToolRow>) -> LayeredPrompt {
    if rows.iter().all(|row| row.name.trim().is_empty()) {
        return LayeredPrompt::of(text.to_owned());
    }
    let mut sections = split(text);
    match sections.iter().position(|section| section.heading == Some("# Tools")) {
        Some(index) => sections[index].body = merged(&sections[index].body, rows),
        None => {
            let known = ["# Identity", "# Communication", "# Operational Rules"];
            let last = sections.iter().rposition(|s| s.heading.is_some_and(|h| known.contains(&h)));
            let place = last.map_or(sections.len(), |index| index + 1);
            sections.insert(place, Section { heading: Some("# Tools"), body: tools_table(rows) });
        }
    }
    let written: Vec<String> = sections.iter().map(Section::write).filter(|s| !s.is_empty()).collect();
    LayeredPrompt::of(written.join("\n\n"))
}

fn merged(body: &str, rows: Vec<ToolRow>) -> String {
    let present = body.lines().filter_map(parse_row);
    let table = tools_table(present.chain(rows).collect());
    let is_prose = |line: &&str| parse_row(line).is_none() && ![HEADER, RULE].contains(&line.trim());
    let prose = body.lines().filter(is_prose).collect::<Vec<_>>().join("\n");
    match prose.trim() {
        "" => table,
        prose => format!("{prose}\n\n{table}"),
    }
}

struct Section<'a> {
    heading: Option<&'a str>,
    body: String,
}

impl Section<'_> {
    fn write(&self) -> String {
        match (self.heading, self.body.trim()) {
            (None, body) => body.to_owned(),
            (Some(heading), "") => heading.to_owned(),
            (Some(heading), body) => format!("{heading}\n{body}"),
        }
    }
}

/// Splits a prompt at its `# ` lines, ignoring those inside fenced code.
fn split(text: &str) -> Vec<Section<'_>> {
    let mut sections = vec![Section { heading: None, body: String::new() }];
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        match (fence, fence_of(line)) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if mark.starts_with(open) && line.trim() == mark => fence = None,
            _ => {}
        }
        if fence.is_none() && line.starts_with("# ") {
            sections.push(Section { heading: Some(line.trim_end()), body: String::new() });
        } else if let Some(section) = sections.last_mut() {
            section.body.push_str(line);
            section.body.push('\n');
        }
    }
    sections
}

/// Returns the run of backticks or tildes that opens or closes a fence on this line.
fn fence_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let run = &line[..line.len() - line.trim_start_matches(mark).len()];
    (run.len() >= 3).then_some(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, description: &str) -> ToolRow {
        ToolRow { name: name.into(), description: description.into(), approval: String::new() }
    }

    fn augmented(text: &str, rows: Vec<ToolRow>) -> String {
        augment_prompt_tools(text, rows).text
    }

    const TABLE: &str = "| Tool | Description | Approval |\n| --- | --- | --- |";

    #[test]
    fn no_rows_change_nothing() {
        let text = "  odd \n\n\n# Tools\nx";
        assert_eq!(augmented(text, vec![]), text);
        assert_eq!(augmented(text, vec![row(" ", "d")]), text);
    }

    #[test]
    fn a_raw_prompt_gets_the_section_at_its_end() {
        assert_eq!(
            augmented("You help.", vec![row("find", "Find.")]),
            format!("You help.\n\n# Tools\n{TABLE}\n| find | Find. |  |")
        );
        assert_eq!(augmented("", vec![row("f", "")]), format!("# Tools\n{TABLE}\n| f |  |  |"));
    }

    #[test]
    fn a_layered_prompt_gets_it_behind_its_rules() {
        let text = "# Identity\ni\n\n# Operational Rules\nr\n\n# Safety\ns";
        assert_eq!(
            augmented(text, vec![row("f", "F")]),
            format!(
                "# Identity\ni\n\n# Operational Rules\nr\n\n# Tools\n{TABLE}\n| f | F |  |\n\n# Safety\ns"
            )
        );
    }

    #[test]
    fn rows_of_the_text_win_and_prose_stays() {
        let text = format!(
            "# Identity\ni\n\n# Tools\nPrefer find.\n\n{TABLE}\n| find | mine \\| yours | always |\n\n# Safety\ns"
        );
        assert_eq!(
            augmented(&text, vec![row("find", "theirs"), row("act", "A")]),
            format!(
                "# Identity\ni\n\n# Tools\nPrefer find.\n\n{TABLE}\n| act | A |  |\n| find | mine \\| yours | always |\n\n\
                 # Safety\ns"
            )
        );
    }

    #[test]
    fn augmenting_twice_is_augmenting_once() {
        let rows = || vec![row("b", "B"), row("a", "A")];
        let once = augment_prompt_tools("# Identity\ni", rows());
        assert_eq!(augment_prompt_tools(&once.text, rows()), once);
    }

    #[test]
    fn headings_inside_fences_do_not_count() {
        let text = "# Identity\ni\n```sh\n# Tools\n```\n````md\n```\n# Communication\n````\nend";
        assert_eq!(augmented(text, vec![row("f", "")]), format!("{text}\n\n# Tools\n{TABLE}\n| f |  |  |"));
    }
}
