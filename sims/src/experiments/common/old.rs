pub(crate) use super::mdp::*;
pub(crate) use super::methods::method;
pub(crate) use super::text::{rounding_error as error, short};
pub(crate) use super::vectors::*;
use crate::experiment::Verdict;
pub(crate) fn holds(ok: bool, counterexample: impl FnOnce() -> String) -> Verdict {
    if ok { Verdict::Holds } else { Verdict::Fails(counterexample()) }
}
