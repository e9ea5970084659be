//! Fragments, the parts of a system prompt.

use std::fmt;

use harn_value::Data as Value;

use crate::value::object;

/// The position of a fragment in the prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Bucket {
    /// Preamble, primary block, guidance, reminders.
    #[default]
    Before,
    /// Appendix, suffix and content that must be at the very end.
    After,
}

impl Bucket {
    /// Returns the name used in options and traces.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One part of the system prompt: a rendered body and the conditions under which it is included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fragment {
    /// Name, such as `host:system_preamble` or `tool:todo.guidance`. Need not be unique.
    pub id: String,
    /// The contributor: `host:<option>`, `primary`, `reminder`, `tool:<name>`, `profile:<id>`, ...
    pub source: String,
    /// The position.
    pub bucket: Bucket,
    /// Included only when all these tools are active.
    pub requires_tools: Vec<String>,
    /// Included only when all these capability flags are set.
    pub requires_caps: Vec<String>,
    /// Rendered content. Surrounding whitespace is trimmed; a fragment without other content is excluded.
    pub body: String,
}

impl Fragment {
    /// Creates an unconditional fragment in the bucket `before`.
    pub fn new(id: impl Into<String>, source: impl Into<String>, body: impl Into<String>) -> Self {
        Self { id: id.into(), source: source.into(), body: body.into(), ..Self::default() }
    }

    /// Moves the fragment to `bucket`.
    #[must_use]
    pub fn in_bucket(mut self, bucket: Bucket) -> Self {
        self.bucket = bucket;
        self
    }

    /// Adds a required tool.
    #[must_use]
    pub fn requiring_tool(mut self, name: impl Into<String>) -> Self {
        self.requires_tools.push(name.into());
        self
    }

    /// Adds a required capability flag.
    #[must_use]
    pub fn requiring_cap(mut self, flag: impl Into<String>) -> Self {
        self.requires_caps.push(flag.into());
        self
    }

    /// Returns the dict form that the option `_system_fragments` accepts.
    #[must_use]
    pub fn to_json(&self) -> Value {
        object([
            ("id", self.id.clone().into()),
            ("source", self.source.clone().into()),
            ("bucket", self.bucket.as_str().into()),
            ("requires_tools", self.requires_tools.clone().into()),
            ("requires_caps", self.requires_caps.clone().into()),
            ("body", self.body.clone().into()),
        ])
    }
}
