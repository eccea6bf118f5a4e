//! Prompt templates of evaluations.

use std::path::Path;

use crate::grade::Extraction;
use crate::tokens::{Prompt, TokenError, Tokens};

/// A template with what belongs to it.
pub struct Template {
    /// Its name.
    pub name: String,
    /// Texts that end a response.
    pub stops: Vec<String>,
    /// Where the answer stands.
    pub extract: Extraction,
}

impl Template {
    /// The template of a name, for the checkpoint in `directory`.
    ///
    /// # Errors
    /// When there is none.
    pub fn named(name: &str, _directory: &Path) -> Result<Template, String> {
        match name {
            "none" => Ok(Template { name: name.to_owned(), stops: Vec::new(), extract: Extraction::Boxed }),
            _ => Err(format!("--template {name}: unknown")),
        }
    }

    /// The prompt of a problem.
    ///
    /// # Errors
    /// When the template fails.
    pub fn render(&self, problem: &str) -> Result<String, String> {
        Ok(problem.to_owned())
    }

    /// Its tokens.
    ///
    /// # Errors
    /// When the tokenizer cannot encode it.
    pub fn encode(&self, tokens: &Tokens, prompt: &str) -> Result<Prompt, TokenError> {
        tokens.prompt(prompt)
    }
}
