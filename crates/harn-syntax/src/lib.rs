//! Source text to syntax tree: spans, tokens, parser, diagnostics.
