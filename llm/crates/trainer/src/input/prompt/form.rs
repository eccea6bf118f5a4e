//! The form of prompts: a template with what it is given.

use std::fmt;

/// A template's name, its system prompt unless that is the template's own, and its arguments unless they are its defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptForm<'a> {
    pub template: &'a str,
    pub system: Option<&'a str>,
    /// A JSON object.
    pub args: Option<&'a str>,
}

impl fmt::Display for PromptForm<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.template {
            "no" => f.write_str("no prompt template")?,
            name => write!(f, "prompt template {name}")?,
        }
        if let Some(system) = self.system {
            write!(f, " with the system prompt {system:?}")?;
        }
        self.args.map_or(Ok(()), |args| write!(f, " with the arguments {args}"))
    }
}
