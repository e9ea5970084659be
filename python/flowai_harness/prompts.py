"""Layered prompts."""

from harn import LayeredPrompt, augment_prompt_tools, layered_prompt

__all__ = ["LayeredPrompt", "augment_prompt_tools", "layered_prompt"]
