//! PRIME: process rewards and outcome, each against the other responses.

use super::{Aggregate, Clip, MethodSpec, Provenance, reinforce_pp, shared};
use crate::assignment::ProcessCredit;
use crate::group::InputKind;
use crate::settings::{Param, choice};

choice! {
    /// The baseline of the process rewards: Eq. 5 of the paper, or the authors' code.
    enum ProcessBaseline { "code" => Code, "paper" => Paper }
}

/// PRIME, process reinforcement through implicit rewards. See [`ProcessCredit`].
///
/// ```text
/// q_t = log pi_prm(a_t|s_t) - log pi_ref(a_t|s_t), times beta        an extra input: the policy is trained next to the model that gives it
/// A_t = whiten( w_q sum_{k>=t} gamma^(k-t) q'_k + w_r (r_i - mean of the others) )        over all tokens of the batch
/// ```
/// Any process rewards will do. Expected update without whitening at `gamma = 1`, for process rewards that are the policy's own progress
/// `V(s_{t+1}) - V(s_t)`, a sum over tokens, and responses of one length: `w_q + w_r` times the policy gradient with `baseline=paper`. Where lengths
/// vary it is biased by the baseline, which counts once for every token left.
pub static SPEC: MethodSpec = MethodSpec {
    name: "prime",
    title: "PRIME",
    about: "rewards of a process reward model from each token on and the outcome, each minus the other responses', whitened over the batch, PPO clip, token mean",
    source: "Cui et al. 2025, arXiv 2502.01456; PRIME-RL/PRIME and verl recipe/prime",
    provenance: Provenance::Published,
    samples: &[
        "",
        "whiten=false gamma=0.8 process_weight=0.5 outcome_weight=2",
        "whiten=false baseline=paper reduction=response_sum",
    ],
    params: || {
        let own = vec![
            Param::number("gamma", 1.0, 0.0, 1.0, "discount of later process rewards"),
            Param::number(
                "process_weight",
                5.0,
                0.0,
                1e3,
                "weight of the process rewards (verl: reward_dpo_coef)",
            ),
            Param::number("outcome_weight", 5.0, 0.0, 1e3, "weight of the outcome (verl: reward_gt_coef)"),
            Param::choice(
                "baseline",
                ProcessBaseline::Code,
                "baseline of the process rewards: the authors' code, whose mean includes the response itself, or the paper's Eq. 5",
            ),
            reinforce_pp::whiten(),
        ];
        [own, shared::loss(Clip::Ppo, Aggregate::TokenMean)].concat()
    },
    extra_inputs: |settings| shared::with_kl(settings, InputKind::ProcessRewards),
    build: |settings| {
        let inner = Box::new(ProcessCredit {
            gamma: settings.number("gamma"),
            process: settings.number("process_weight"),
            outcome: settings.number("outcome_weight"),
            as_coded: settings.choice::<ProcessBaseline>("baseline") == ProcessBaseline::Code,
        });
        let whiten = settings.flag("whiten");
        shared::plain(settings, if whiten { reinforce_pp::whitened(inner, false) } else { inner })
    },
};
