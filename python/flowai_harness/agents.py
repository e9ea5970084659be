"""Constructors of agents and runtimes."""

from harn import (
    AgentSpec,
    RuntimeSpec,
    create_runtime,
    define_coordinator,
    define_executor,
    define_planner,
    define_runtime,
    define_specialist,
)

__all__ = [
    "AgentSpec",
    "RuntimeSpec",
    "create_runtime",
    "define_coordinator",
    "define_executor",
    "define_planner",
    "define_runtime",
    "define_specialist",
]
