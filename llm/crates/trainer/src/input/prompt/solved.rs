//! Problems with their responses, shown before the problem that is asked (few-shot prompting).

/// A problem and the response to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SolvedExample {
    pub problem: String,
    /// As a model is to write it.
    pub response: String,
}

/// What parts examples where a template has no marks of its own.
pub(super) const BLANK_LINES: &str = "\n\n\n";

impl SolvedExample {
    /// The same without [`BLANK_LINES`] inside the response, where they would mean that the next problem follows.
    pub(super) fn without_blank_lines(mut self) -> SolvedExample {
        while self.response.contains(BLANK_LINES) {
            self.response = self.response.replace(BLANK_LINES, "\n\n");
        }
        self
    }
}
