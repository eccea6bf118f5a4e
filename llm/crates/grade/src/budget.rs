//! The limits of one case: a number of steps, the same on every machine, and the rules that are on.

use super::kind::Kind;
use super::rules::{Rule, Rules};
use super::verdict::Reason;

/// Steps one comparison may take. A step is some tens of nanoseconds of work.
const STEPS: u64 = 300_000;
/// Deepest nesting of the parser; a pair of brackets takes about five levels.
pub(super) const DEPTH: u32 = 250;
/// Bytes of an answer that is read as an expression. Longer ones are compared as integers and as text only.
pub(super) const LONGEST: usize = 8 * 1024;

/// The steps left to one case, and the rules that it may use and has used.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    pub(super) left: u64,
    allowed: Rules,
    /// The rules used so far; of a way that led nowhere they are taken back.
    pub(super) used: Rules,
    /// The kinds of the two parts that are being compared.
    pub(super) kinds: Option<(Kind, Kind)>,
}

impl Budget {
    pub(super) fn new(allowed: Rules) -> Self {
        Budget { left: STEPS, allowed, used: Rules::NONE, kinds: None }
    }

    /// Takes `steps`. Errors if fewer are left.
    pub(super) fn spend(&mut self, steps: u64) -> Result<(), Reason> {
        let left = self.left.checked_sub(steps);
        self.left = left.unwrap_or(0);
        left.map(|_| ()).ok_or_else(|| Reason::TooLarge(format!("deciding takes more than {STEPS} steps")))
    }

    /// True if `rule` is on and works on the kinds compared; it counts as used from there on.
    pub(super) fn uses(&mut self, rule: Rule) -> bool {
        let on = self.allows(rule);
        if on {
            self.used = self.used.with(rule);
        }
        on
    }

    pub(super) fn allows(&self, rule: Rule) -> bool {
        self.allowed.has(rule) && self.kinds.is_none_or(|(a, b)| rule.works_on(a, b))
    }
}
