//! Every program in the documentation of prompts prints the output that the page shows after it.
const GUIDE: &str = concat!(
    include_str!("../../../docs/prompt-assembly.md"),
    include_str!("../../../docs/prompt-fragments.md"),
    include_str!("../../../docs/layered-prompts.md"),
    include_str!("../../../docs/agents/reminders.md"),
);

#[test]
fn programs_of_the_guide_print_what_it_shows() {
    let mut count = 0;
    for rest in GUIDE.split("```harn\n").skip(1) {
        let (program, behind) = rest.split_once("```").unwrap();
        let shown = behind.trim_start().strip_prefix("```text\n").unwrap().split("```").next().unwrap();
        let run = crate::common::run(program);
        assert_eq!(run.error, None, "{program}");
        assert_eq!(run.output.trim_end(), shown.trim_end(), "{program}");
        count += 1;
    }
    assert!(count >= 7, "only {count} programs");
}
