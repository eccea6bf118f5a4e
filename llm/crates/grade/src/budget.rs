//! A bound on the work of one case: steps are counted, not seconds, so that the verdict is the same on every machine.

use super::verdict::Reason;

/// Steps one comparison may take. A step is some tens of nanoseconds of work.
const STEPS: u64 = 300_000;
/// How deep the parser may go; a pair of brackets takes about five levels.
pub(super) const DEPTH: u32 = 250;
/// Bytes of an answer that is read as an expression. Longer ones are compared as integers and as text only.
pub(super) const LONGEST: usize = 8 * 1024;

/// What is left of the work of one case.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    left: u64,
}

impl Budget {
    pub(super) fn new() -> Self {
        Budget { left: STEPS }
    }

    /// Takes `steps`.
    ///
    /// # Errors
    /// When they are more than what is left.
    pub(super) fn spend(&mut self, steps: u64) -> Result<(), Reason> {
        match self.left.checked_sub(steps) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(Reason::TooLarge(format!("deciding takes more than {STEPS} steps")))
            }
        }
    }
}
