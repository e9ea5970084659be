"""The programs of the README."""

import pathlib
import re

README = (pathlib.Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_programs_of_the_readme(capsys):
    programs = re.findall(r"```python\n(.*?)```", README, re.S)
    assert len(programs) == 2
    exec(programs[0], {})
    assert capsys.readouterr().out == "42 working\n\nHello Ada\n"
    exec(programs[1], {})
    told = capsys.readouterr().out.split()
    assert told[0] == "tool-agent" and told[-1] == "data-latency-summary"
    assert told.count("tool-invocation") == 2 and "approval-required" in told and "tool-progress" in told
