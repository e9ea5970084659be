//! Fragments to system prompt with provenance; layered prompts.
