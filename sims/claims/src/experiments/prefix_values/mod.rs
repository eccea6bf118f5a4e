//! `prefix_values`: values of prefixes from the other responses of the group, which bias nothing; and what λ is worth with them.
//!
//! ```text
//! RLOO           A_t = r_i - m_i                                       m_i: mean of the other responses
//! prefix only    A_t = r_i - V_i(s_t)                                  V_i: mean of the others that pass s_t, shrunk towards m_i
//! Prefix RLOO    A_t = r_i - Q_i(s_t,a_t), and π(a|s) (Q_i - V_i) to every token that the others took      (exactly handed back)
//! Ridge RLOO     A_t = r_i - V_i(s_t)                                  V_i: ridge regression of the others' rewards on features of their prefixes
//! ```
//! All four have expected update ∇J on-policy, at every group size (`tests/theory/{prefix_values,ridge_values}.rs`). On a transformer the features are
//! hidden states; here, where there are none, which token stands at which position.

mod figures;
mod findings;
pub(crate) mod measure;
mod simulate;
pub(crate) mod tables;

use crate::experiment::{Experiment, Parts};
use figures::figures;
use findings::findings;
use measure::measure;
use tables::tables;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "prefix_values",
    title: "How much variance do unbiased values of prefixes take from RLOO, and does λ help with them?",
    claim: "Values of prefixes from the other responses of the group lower the variance to 0.85 of RLOO's on four tasks of five, without a bias",
    source: "ours; a goal set before it was measured",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};
