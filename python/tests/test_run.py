"""Running programs."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import harn


def test_the_value_of_a_script():
    assert harn.run(code="return 6 * 7").value == 42


def test_output_is_captured():
    result = harn.run(code='println("out")\neprintln("err")')
    assert (result.output, result.errors) == ("out\n", "err\n")


def test_a_file(tmp_path):
    (tmp_path / "lib.harn").write_text("pub fn double(x) { return x * 2 }\n")
    (tmp_path / "main.harn").write_text('import { double } from "lib"\nreturn double(21)\n')
    assert harn.run(tmp_path / "main.harn").value == 42
    assert harn.run(str(tmp_path / "main.harn")).value == 42


def test_a_file_that_is_not_there():
    with pytest.raises(OSError, match="Error reading nowhere.harn"):
        harn.run("nowhere.harn")


def test_either_a_path_or_code():
    for wrong in ({}, {"path": "a.harn", "code": "1"}):
        with pytest.raises(harn.HarnValueError, match="either a path or code"):
            harn.run(**wrong)


def test_args_are_argv():
    assert harn.run(code='return argv.join("+")', args=["a", "b"]).value == "a+b"
    with pytest.raises(TypeError, match="sequence of str"):
        harn.run(code="return 1", args="ab")


def test_args_are_parameters_of_the_pipeline():
    code = 'pipeline main(who, times) { return "${who} ${times}" }'
    assert harn.run(code=code, args={"who": "Ada", "times": 3}).value == "Ada 3"
    assert harn.run(code=code, args={"who": "Ada"}).value == "Ada nil"


def test_unknown_parameters_are_refused():
    with pytest.raises(harn.HarnRuntimeError, match="'main' has no parameter 'whom'; its parameters: who"):
        harn.run(code="pipeline main(who) { return who }", args={"whom": 1})
    with pytest.raises(harn.HarnValueError, match="has no pipeline"):
        harn.run(code="return 1", args={"who": 1})


def test_a_pipeline_by_name():
    code = "pipeline one() { return 1 }\npipeline two() { return 2 }"
    assert harn.run(code=code).value == 1
    assert harn.run(code=code, pipeline="two").value == 2
    with pytest.raises(harn.HarnRuntimeError, match="no pipeline named 'three'"):
        harn.run(code=code, pipeline="three")


def test_a_task():
    assert harn.run(code="return context.task", task="tidy up").value == "tidy up"


@pytest.mark.parametrize(
    "code,expected",
    [
        ("exit(3)", (None, 3)),
        ("return 7", (7, 7)),
        ("return 1000", (1000, 255)),
        ("return nil", (None, 0)),
        ("return true", (True, 0)),
    ],
)
def test_exit_codes(code, expected):
    result = harn.run(code=code)
    assert (result.value, result.exit_code) == expected


def test_an_err_result_is_a_value():
    result = harn.run(code='return Err("no")')
    assert (result.value.variant, result.exit_code) == ("Err", 1)


def test_names_that_the_program_finds():
    def double(x):
        return x * 2

    assert harn.run(code="return double(limit)", globals={"double": double, "limit": 21}).value == 42
    with pytest.raises(harn.HarnValueError, match="`println` is a builtin"):
        harn.run(code="return 1", globals={"println": double})


def test_the_environment():
    code = 'return env("HARN_PYTHON_TEST")'
    assert harn.run(code=code, env={"HARN_PYTHON_TEST": "x"}).value == "x"
    assert harn.run(code=code).value is None


def test_mocks_answer_model_calls():
    code = 'return llm_call("hi", nil, {provider: "mock"}).text'
    assert harn.run(code=code, mocks=[{"text": "hello"}]).value == "hello"


def test_functions_of_python_as_tools():
    seen = []

    def look_up(args):
        seen.append(args)
        return {"price": 40}

    code = """
    let tools = tool_define(tool_registry(), "look_up", "Price.", {parameters: {product: "string"}, handler: look_up})
    let r = agent_loop("price?", nil, {provider: "mock", tools: tools})
    return [r.status, r.tools.successful]
    """
    mocks = [{"tool_calls": [{"name": "look_up", "arguments": {"product": "lamp"}}]}, {"text": "It is 40."}]
    assert harn.run(code=code, globals={"look_up": look_up}, mocks=mocks).value == ["done", ["look_up"]]
    assert seen == [{"product": "lamp"}]


def test_coroutines_as_functions():
    async def double(x):
        await asyncio.sleep(0.001)
        return x * 2

    assert harn.run(code="return double(double(2))", globals={"double": double}).value == 8


def test_functions_run_at_the_same_time():
    barrier = threading.Barrier(4, timeout=20)

    def meet(n):
        barrier.wait()
        return n

    code = "return parallel each [1, 2, 3, 4] { n -> meet(n) }"
    assert harn.run(code=code, globals={"meet": meet}).value == [1, 2, 3, 4]


def test_functions_may_run_programs():
    def inner(x):
        return harn.run(code="return n + 1", globals={"n": x}).value

    assert harn.run(code="return inner(inner(1))", globals={"inner": inner}).value == 3


def test_a_time_limit():
    code = 'defer { println("cleaned up") }\nwhile true { }'
    with pytest.raises(TimeoutError) as caught:
        harn.run(code=code, timeout=0.3)
    assert isinstance(caught.value, harn.HarnTimeout) and caught.value.category == "timeout"
    assert caught.value.output == "cleaned up\n"


def test_a_time_limit_while_python_is_called():
    with pytest.raises(harn.HarnTimeout):
        harn.run(code="return wait()", globals={"wait": lambda: time.sleep(3)}, timeout=0.2)


def test_other_threads_go_on_meanwhile():
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(1)
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    harn.run(code="var n = 0\nwhile n < 3000000 { n = n + 1 }\nreturn n")
    stop.set()
    thread.join()
    assert len(ticks) > 10, "the interpreter was locked while Harn worked"


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_stops_the_program():
    script = textwrap.dedent(
        """
        import signal
        import harn

        # What runs in the background of a shell begins with the signal ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            harn.run(code='defer { println("cleaned up") }\\neprintln("ready")\\nwhile true { }', capture=False)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert out == "cleaned up\ninterrupted\n"
    assert process.returncode == 0


def test_coroutines_run_programs():
    async def both():
        slow = harn.arun(code="sleep(20ms)\nreturn 1")
        fast = harn.arun(code='println("x")\nreturn 2')
        return await asyncio.gather(slow, fast)

    one, two = asyncio.run(both())
    assert (one.value, two.value, two.output) == (1, 2, "x\n")


def test_coroutines_have_time_limits():
    with pytest.raises(harn.HarnTimeout):
        asyncio.run(harn.arun(code="while true { }", timeout=0.2))


def test_a_process_ends_while_a_program_runs():
    script = "import harn, threading, time\nthreading.Thread(target=lambda: harn.run(code='sleep(1h)'), daemon=True).start()\ntime.sleep(0.3)"
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_specs_after_a_fork():
    script = textwrap.dedent(
        """
        import harn, os
        harn.layered_prompt(identity="a")
        child = os.fork()
        if child == 0:
            ok = harn.layered_prompt(identity="b").text == "# Identity\\nb"
            ok = ok and harn.run(code="return f()", globals={"f": lambda: 5}).value == 5
            os._exit(0 if ok else 1)
        raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    )
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == 0
