//! General builtins and the embedded stdlib/ assets.
