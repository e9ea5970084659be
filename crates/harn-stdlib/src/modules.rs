//! The standard library modules written in Harn: `import "std/<name>"`.

/// Returns the source of a library module by its name without `std/`.
pub fn module(name: &str) -> Option<&'static str> {
    MODULES.iter().find(|(known, _)| *known == name).map(|(_, source)| *source)
}

macro_rules! modules {
    ($($name:literal),* $(,)?) => {
        const MODULES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../stdlib/std/", $name, ".harn")))),*];
    };
}

modules![
    "async",
    "checkpoint",
    "collections",
    "context",
    "host",
    "json",
    "math",
    "path",
    "runtime",
    "schema",
    "testing",
    "text"
];
