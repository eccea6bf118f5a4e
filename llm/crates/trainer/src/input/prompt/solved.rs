//! Problems with their responses, shown before the problem that is asked (few-shot prompting).

/// A problem and the response to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SolvedExample {
    pub problem: String,
    /// The response in the form that a model should write.
    pub response: String,
}

/// The text between examples in a template without turns.
pub(super) const BLANK_LINES: &str = "\n\n\n";

impl SolvedExample {
    /// Removes [`BLANK_LINES`] inside the response, which would announce the next problem.
    pub(super) fn without_blank_lines(mut self) -> SolvedExample {
        while self.response.contains(BLANK_LINES) {
            self.response = self.response.replace(BLANK_LINES, "\n\n");
        }
        self
    }
}
