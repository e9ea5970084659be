"""Programs that are kept, and their errors."""

import asyncio
import threading

import pytest

import harn


def test_variables_live_on():
    with harn.load(code="var n = 0\nfn next() { n = n + 1; return n }") as program:
        assert [program.next(), program.next(), program.call("next")] == [1, 2, 3]


def test_exports(tmp_path):
    (tmp_path / "lib.harn").write_text("pub fn other() { return 1 }\n")
    path = tmp_path / "main.harn"
    path.write_text('pub import "lib"\npub fn shown() { return 2 }\nfn hidden() { return 3 }\n')
    with harn.load(path) as program:
        assert sorted(program.exports) == ["other", "shown"]
        assert program.other() + program.shown() == 3
        with pytest.raises(AttributeError, match="exports no 'hidden'; it exports"):
            program.hidden
        with pytest.raises(harn.HarnNameError, match="the program exports no 'hidden'"):
            program.call("hidden")


def test_keyword_arguments_are_options():
    with harn.load(code='fn f(a, o) { return "${a} ${o.b}" }') as program:
        assert program.f(1, b=2) == "1 2"


def test_too_few_arguments():
    with harn.load(code="fn f(a, b) { return a }") as program:
        assert program.f(1, 2) == 1
        with pytest.raises(TypeError):
            program.f(1, 2, **{"x": object()})


def test_output_so_far():
    with harn.load(code='println("begun")\nfn f() { println("called") }') as program:
        assert program.output == "begun\n"
        program.f()
        assert program.output == "begun\ncalled\n"


def test_calls_at_the_same_time():
    with harn.load(code="fn f(n) { sleep(20ms); return n * 2 }") as program:

        async def all_of_them():
            return await asyncio.gather(*(program.f.aio(n) for n in range(20)))

        assert asyncio.run(all_of_them()) == [n * 2 for n in range(20)]


def test_calls_from_threads():
    with harn.load(code="var n = 0\nfn f() { n = n + 1; return n }") as program:
        seen = []
        threads = [threading.Thread(target=lambda: seen.append(program.f())) for _ in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(seen) == list(range(1, 31))


def test_programs_and_python_call_each_other():
    with harn.load(code="fn down(n, f) { if n == 0 { return [] }\nreturn [n] + f(n - 1) }") as program:

        def back(n):
            return program.down(n, back)

        assert program.down(5, back) == [5, 4, 3, 2, 1]


def test_a_function_that_a_program_gave_is_called_while_it_waits():
    with harn.load(code="fn f(use) { var n = 0\nuse({ x -> n = n + x; n })\nreturn n }") as program:

        def use(add):
            add(1)
            add(2)

        assert program.f(use) == 3


def test_a_time_limit_of_a_call():
    with harn.load(code="fn f() { while true { } }\nfn g() { return 1 }") as program:
        with pytest.raises(harn.HarnTimeout):
            program.call_within(0.2, "f")
        assert program.g() == 1


def test_a_cancelled_coroutine_stops_its_call():
    code = 'fn f() { defer { println("stopped") }\nsleep(1h) }\nfn g() { return 1 }'
    with harn.load(code=code) as program:

        async def give_up():
            task = asyncio.ensure_future(program.f.aio())
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            while "stopped" not in program.output:
                await asyncio.sleep(0.01)
            return await program.g.aio()

        assert asyncio.run(give_up()) == 1


def test_a_closed_program():
    program = harn.load(code="fn f() { return { x -> x } }")
    function = program.f()
    program.close()
    program.close()
    for call in (program.f, lambda: function(1)):
        with pytest.raises(harn.HarnClosed, match="has ended"):
            call()


def test_exit_in_a_call():
    with harn.load(code="fn f() { exit(4) }") as program:
        with pytest.raises(harn.HarnExit) as caught:
            program.f()
        assert caught.value.code == 4


def test_errors_have_a_place(tmp_path):
    path = tmp_path / "main.harn"
    path.write_text("fn inner(x) {\n  return x.nope()\n}\nfn outer() {\n  let r = inner(1)\n  return r\n}\n")
    with harn.load(path) as program:
        with pytest.raises(harn.HarnError) as caught:
            program.outer()
    error = caught.value
    assert (error.file, error.line) == (str(path), 2)
    assert [place.function for place in error.trace] == ["inner", "outer"]
    assert f"{path}:2:" in str(error)


def test_syntax_errors_have_a_place():
    with pytest.raises(harn.HarnSyntaxError) as caught:
        harn.load(code="let a = 1\nlet = 2\n")
    assert (caught.value.file, caught.value.line) == ("<inline>", 2)


@pytest.mark.parametrize(
    "code,kind,category,value",
    [
        ('throw "no"', harn.HarnThrown, None, "no"),
        ('throw {code: 5}', harn.HarnThrown, None, {"code": 5}),
        ('throw_error("busy", "rate_limit")', harn.HarnThrown, "rate_limit", None),
        ("return 1 / 0", harn.HarnRuntimeError, None, "Division by zero"),
        ('return "a" - 1', harn.HarnTypeError, None, None),
        ("return nowhere", harn.HarnRuntimeError, None, None),
    ],
)
def test_kinds_of_errors(code, kind, category, value):
    with pytest.raises(kind) as caught:
        harn.run(code=code)
    assert type(caught.value) is kind
    assert caught.value.category == category
    if value is not None:
        assert caught.value.value == value


def test_failed_runs_keep_their_output():
    with pytest.raises(harn.HarnThrown) as caught:
        harn.run(code='println("before")\nthrow "no"')
    assert caught.value.output == "before\n"


def test_exceptions_of_python_are_caught():
    def fail():
        raise KeyError("lost")

    code = 'try { fail() } catch (e) { return [e.category, e.type, e.message] }'
    assert harn.run(code=code, globals={"fail": fail}).value == ["python", "KeyError", "KeyError: 'lost'"]


def test_exceptions_of_python_are_the_cause():
    problem = RuntimeError("broken")

    def fail():
        raise problem

    with pytest.raises(harn.HarnThrown, match="RuntimeError: broken") as caught:
        harn.run(code="fail()", globals={"fail": fail})
    assert caught.value.__cause__ is problem and caught.value.category == "python"


def test_errors_of_programs_pass_through_python():
    with harn.load(code='fn deep() { throw {code: 7} }\nfn outer(f) { try { f() } catch (e) { return e.code } }') as program:
        assert program.outer(lambda: program.deep()) == 7


def test_a_function_whose_result_has_no_type():
    with pytest.raises(harn.HarnThrown, match="no type for builtins.object"):
        harn.run(code="return f()", globals={"f": lambda: object()})


def test_the_tree_of_exceptions():
    for name in harn.__all__:
        thing = getattr(harn, name)
        if isinstance(thing, type) and issubclass(thing, BaseException):
            assert issubclass(thing, harn.HarnError)
    assert issubclass(harn.HarnTimeout, TimeoutError)
    assert issubclass(harn.HarnSpecError, ValueError)
