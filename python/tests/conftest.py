"""Shared parts of the tests. Programs run without a network: models are mocks."""

import json
import os

import pytest

import harn

TIME_LIMIT = 30


@pytest.fixture
def echo():
    """A program that returns its argument, or the type of it."""
    with harn.load(code="fn same(x) { return x }\nfn kind(x) { return type_of(x) }") as program:
        yield program


def specialist(name="s", *, tools=(), prompt="You help.", **options):
    """A specialist that calls the provider `mock`."""
    model = {"id": "mock", "provider": "mock"}
    return harn.define_specialist(name, model=model, prompt=prompt, tools=list(tools), **options)


def spec_of(*agents, **parts):
    """A runtime spec of the tenant `acme`."""
    return harn.define_runtime(tenant=harn.define_tenant("acme", "v1"), agents=list(agents), **parts)


def runtime(*tools, deps=None, agents=(), **parts):
    """A runtime of the specialist `s`, whose prompts are scripts."""
    made = spec_of(specialist(tools=tools), *agents, **parts)
    return harn.create_runtime(made, **{"interpreter": "scripted", **(deps or {})})


def script(*calls):
    """A prompt that makes the interpreter `scripted` call these tools."""
    return json.dumps({"script": [{"tool": tool, "args": args} for tool, args in calls]})


def results(events):
    """The results of the tools of a run."""
    return [e["result"] for e in events if e["type"] == "tool-invocation" and e["state"] == "result"]


def kinds(events):
    """The types of events."""
    return [e["type"] for e in events]


def texts(events):
    """The text of a run."""
    return "".join(e["text"] for e in events if e["type"] == "text")


def threads():
    """The number of threads of this process, those that Python does not know included."""
    return len(os.listdir("/proc/self/task"))
