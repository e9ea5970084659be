"""The annotations: mypy accepts the package and a sample program, and rejects wrong ones."""

import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("mypy")

import harn

SAMPLE = '''
import asyncio
from typing import Any, Dict, Optional

import harn
from flowai_harness import define_tool, layered_prompt
from flowai_harness.agents import define_specialist


@define_tool(name="look_up", description="Price.", input_schema={"product": str}, approval="always")
async def look_up(args: Dict[str, Any], ctx: harn.AsyncToolContext) -> Dict[str, Any]:
    await ctx.progress("looking")
    return {"price": 40}


tool: harn.ToolSpec = look_up
prompt: harn.LayeredPrompt = layered_prompt(identity="You look up prices.", tools=[look_up])
key: str = prompt.cache_key
agent: harn.AgentSpec = define_specialist("scout", model="m", prompt=prompt, tools=[look_up])
turns: Optional[int] = agent.max_turns
spec: harn.RuntimeSpec = harn.define_runtime(tenant=harn.define_tenant("shop", "v1"), agents=[agent])
wire: Dict[str, Any] = spec.model_dump(by_alias=True, mode="json")


async def main() -> None:
    async with await harn.acreate_runtime(spec, interpreter="scripted") as rt:
        stream: harn.EventStream = await rt.aio.run_specialist("scout", "hi", thread_id="t")
        async for event in stream:
            kind: str = event["type"]
            if kind == "approval-required":
                await rt.aio.respond_to_approval(event["data"]["id"], "approve")
    result: harn.RunResult = await harn.arun(code="return 1")
    code: int = result.exit_code
    print(code)


def sync() -> None:
    with harn.create_runtime(spec) as rt, rt.query("hi", thread_id="t") as events:
        for event in events:
            print(event["type"])
        ref: Dict[str, Any] = rt.create_reference("Set", {})
        print(ref["id"])
    try:
        with harn.load(code="fn f() { }") as program:
            program.f()
    except harn.HarnError as error:
        where: Optional[harn.Frame] = error.location
        print(where.line if where is not None else error.message)


asyncio.run(main())
'''

WRONG = [
    ("harn.run(codes='return 1')", "call-arg"),
    ("harn.layered_prompt('You help.')", "call-arg"),
    ("x: int = harn.layered_prompt(identity='x').text", "assignment"),
    ("harn.define_tool(name=5)", "arg-type"),
    ("harn.create_runtime(5)", "arg-type"),
    ("harn.create_runtime('{}').query('x')", "call-arg"),
    ("y: str = harn.run(code='').exit_code", "assignment"),
]


def mypy(*args):
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--no-incremental", *args]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)


def test_the_package_and_a_sample_are_typed(tmp_path):
    program = tmp_path / "sample.py"
    program.write_text(SAMPLE)
    for part in (["-p", "harn", "-p", "flowai_harness"], [str(program)]):
        checked = mypy(*part)
        assert (checked.stdout, checked.returncode) == ("", 0)


def test_wrong_programs_are_rejected(tmp_path):
    program = tmp_path / "wrong.py"
    program.write_text("\n".join(["import harn", *(line for line, _ in WRONG)]) + "\n")
    found = {}
    for line in mypy(str(program)).stdout.splitlines():
        if ": error: " in line:
            number, code = int(line.split(":")[1]), line.rsplit("[", 1)[-1].rstrip("]")
            found.setdefault(number, code)
    assert found == {number: code for number, (_, code) in enumerate(WRONG, 2)}


def test_the_stub_names_what_the_module_has():
    stub = (pathlib.Path(harn.__file__).parent / "_harn.pyi").read_text()
    from harn import _harn

    names = {line.split("(")[0].split()[1].rstrip(":") for line in stub.splitlines() if line.startswith(("class ", "def "))}
    assert names == {name for name in dir(_harn) if not name.startswith("_")}
    for name in sorted(names):
        thing = getattr(_harn, name)
        if not isinstance(thing, type):
            continue
        block = stub.split(f"class {name}:\n")[1].split("\n\n")[0]
        members = {line.split("def ")[1].split("(")[0] for line in block.splitlines() if "def " in line}
        actual = {member for member in vars(thing) if not member.startswith("__")}
        assert members - {"__init__"} == actual, name
