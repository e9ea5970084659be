"""Programs of the tests run without a network: models are mocks."""

import sys

import pytest

import harn

# The prompt guide names its package so; its examples run as they stand.
sys.modules["flowai_harness"] = harn


@pytest.fixture
def echo():
    """A program that gives back what it gets."""
    with harn.load(code="fn same(x) { return x }\nfn kind(x) { return type_of(x) }") as program:
        yield program
