//! MaxRL, TOPR, FIPO, on-policy distillation, TRL's RLOO, rejection and the off-policy mask: exact updates, and numbers by hand.

use super::{EXACT, gap, grad, times, tiny, update};
use crate::laboratory::{advantages, method};
use grpo_lambda::group::{ExtraInputs, Group, Response};
use grpo_lambda::methods;
use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::zoo::RandomRewards::Bits;

/// `sum_{k=1}^{G-1} -(1-p)^k / k` has the derivative `sum_{j<G-1} (1-p)^j`.
#[test]
fn maxrl_is_the_gradient_of_the_first_terms_of_log_p() {
    for seed in [0, 4] {
        let (tree, policy) = tiny(seed, Bits);
        let q: f64 = 1.0 - Oracle::new(&tree, &policy).j;
        for g in [2, 3] {
            let factor: f64 = (0..g - 1).map(|j| q.powi(j as i32)).sum();
            let found = update("maxrl clip=none reduction=response_sum", &tree, &policy, g);
            assert!(gap(&found, &times(factor, &grad(&tree, &policy))) < EXACT, "{seed} {g}");
        }
    }
    let group =
        |rewards: [f64; 4]| Group { responses: rewards.map(|r| Response::graded(vec![-1.0], r)).to_vec() };
    let credit = |rewards| advantages("maxrl", "", &[group(rewards)]).concat();
    assert_eq!(credit([1.0, 0.0, 0.0, 0.0]), [3.0, -1.0, -1.0, -1.0]);
    assert_eq!(credit([0.0; 4]), [0.0; 4]);
    // Rewards below 0 have no meaning here: the group teaches nothing.
    assert_eq!(credit([-1.0, 0.0, 0.0, 0.0]), [0.0; 4]);
}

/// Two responses of two tokens, with log-ratios `x`, of rewards 1 and 0.
fn pair(x: [[f64; 2]; 2]) -> (Vec<Group>, Vec<Vec<f64>>) {
    let logps: Vec<Vec<f64>> = x.iter().map(|x| x.iter().map(|x| -1.0 + x).collect()).collect();
    let responses = [1.0, 0.0].map(|reward| Response::graded(vec![-1.0; 2], reward)).to_vec();
    (vec![Group { responses }], logps)
}

fn slopes(name: &str, settings: &str, batch: &[Group], logps: &[Vec<f64>]) -> Vec<Vec<f64>> {
    methods::evaluate(method(name, settings).as_ref(), batch, logps).dlogps
}

fn near(found: &[Vec<f64>], want: [[f64; 2]; 2]) {
    let close = |(a, b): (&Vec<f64>, &[f64; 2])| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
    assert!(found.iter().zip(&want).all(close), "{found:?} {want:?}");
}

#[test]
fn grpo_lead_prefers_short_right_responses_and_weighs_by_the_success_rate() {
    let response = |(reward, len): (f64, usize)| Response::graded(vec![-1.0; len], reward);
    let group = |all: &[(f64, usize)]| [Group { responses: all.iter().copied().map(response).collect() }];
    let credit = |settings: &str, all: &[(f64, usize)]| -> Vec<f64> {
        advantages("grpo_lead", &format!("scale=none {settings}"), &group(all))
            .iter()
            .map(|row| row[0])
            .collect()
    };
    // Lengths 2 and 4 of the right ones: z = -1 and 1, up to 1e-8. Success rate 2/3.
    let found = credit("alpha=0.1", &[(1.0, 2), (1.0, 4), (0.0, 9)]);
    let (short, long) = (0.1f64.exp(), (-0.1f64).exp());
    let mean = (short + long - 1.0) / 3.0;
    let weight = |p: f64| 0.4 + 1.1 / (1.0 + (10.0 * (p - 0.75)).exp());
    let (rate, rest) = (2.0 / 3.0, 1.0 / 3.0);
    let want = [(short - mean) * weight(rate), (long - mean) * weight(rate), (-1.0 - mean) * weight(rest)];
    assert!(found.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-7), "{found:?} {want:?}");
    let sum = |all: &[(f64, usize)]| credit("alpha=0", all).iter().sum::<f64>();
    let (right, wrong) = ((1.0, 3), (0.0, 2));
    assert!(sum(&[right, wrong]).abs() < EXACT && sum(&[right, wrong, wrong]) > 0.1);
    assert!(sum(&[right, right, wrong]) < -0.1);
}

/// Whatever right and wrong responses get in a group with `k` right ones, `E[grad log pi | right] = grad p / p`, so that the expected update is a multiple
/// of the gradient; the penalty of length ends that.
#[test]
fn grpo_lead_without_its_penalty_is_the_gradient_times_a_factor_of_the_success_rate() {
    let weight = |p: f64| 0.4 + 1.1 / (1.0 + (10.0 * (p - 0.75)).exp());
    let settings = "grpo_lead scale=none clip=none reduction=response_sum";
    let mut furthest = 0.0f64;
    for seed in [0, 4] {
        let (tree, policy) = tiny(seed, Bits);
        let p: f64 = Oracle::new(&tree, &policy).j;
        // Of three responses k are right, with probability C(3, k) p^k (1 - p)^(3 - k); rewards are 1 and -1.
        let factor: f64 = [(1.0, 3.0), (2.0, 3.0)]
            .iter()
            .map(|(k, ways)| {
                let (rate, mean) = (k / 3.0, 2.0 * k / 3.0 - 1.0);
                let (right, wrong) = ((1.0 - mean) * weight(rate), (1.0 + mean) * weight(1.0 - rate));
                let share = (k * right / p + (3.0 - k) * wrong / (1.0 - p)) / 3.0;
                ways * p.powf(*k) * (1.0 - p).powf(3.0 - k) * share
            })
            .sum();
        let found = update(&format!("{settings} alpha=0"), &tree, &policy, 3);
        assert!(gap(&found, &times(factor, &grad(&tree, &policy))) < EXACT, "{seed}: {factor}");
        let bent = update(&format!("{settings} alpha=0.5"), &tree, &policy, 3);
        furthest = furthest.max(gap(&bent, &times(factor, &grad(&tree, &policy))));
    }
    // Where right responses have one length, as with one of the seeds, there is nothing to penalise.
    assert!(furthest > 1e-3, "{furthest}");
}

#[test]
fn topr_cuts_the_ratio_of_the_negative_response_alone() {
    let half = 0.5f64.ln();
    // Advantages 1/2 and -1/2, weight 1/2 per token; products 4 and 1/4, token ratios 2 and 1/2.
    let (batch, logps) = pair([[-half, -half], [half, half]]);
    near(&slopes("topr", "", &batch, &logps), [[-0.25; 2], [0.25 * 0.25; 2]]);
    near(
        &slopes("topr", "ratio=token reduction=response_sum", &batch, &logps),
        [[-0.25; 2], [0.5 * 0.25; 2]],
    );
    let (batch, logps) = pair([[half, half], [-half, -half]]);
    near(&slopes("topr", "", &batch, &logps), [[-0.25; 2], [0.25; 2]]);
}

#[test]
fn fipo_is_grpo_on_policy_and_weighs_by_the_future_off_policy() {
    let (batch, logps) = pair([[0.0; 2]; 2]);
    let plain = |batch: &[Group], logps: &[Vec<f64>]| slopes("grpo", "reduction=token_mean", batch, logps);
    assert_eq!(slopes("fipo", "", &batch, &logps), plain(&batch, &logps));
    // Half-life 1: the first token of the first response reads 0.04 + 0.1 / 2, the second 0.1.
    let (batch, logps) = pair([[0.04, 0.1], [-0.1, -0.04]]);
    let grpo = plain(&batch, &logps);
    let found = slopes("fipo", "half_life=1 high_only=false", &batch, &logps);
    let want = [[0.09f64, 0.1], [-0.12, -0.04]].map(|row| row.map(f64::exp));
    let times = |i: usize| [0, 1].map(|t| grpo[i][t] * want[i][t]);
    near(&found, [times(0), times(1)]);
    // Above the cap of clip=two_sided a token leaves the sums of the weights, its own among them.
    let capped = slopes("fipo", "half_life=1 high_only=false clip=two_sided clip_max=1.2", &batch, &{
        let mut far = logps.clone();
        far[0][1] = -1.0 + 0.3;
        far
    });
    assert!((capped[0][0] - grpo[0][0] * 0.04f64.exp()).abs() < 1e-12, "{capped:?}");
    // By default no token is weighed down.
    let up = slopes("fipo", "half_life=1", &batch, &logps);
    near(&up, [times(0), [grpo[1][0], grpo[1][1]]]);
}

/// At one state, `E[A grad log pi]` of the teacher's log-ratio is the gradient of `-KL(pi || teacher)` by the logits.
#[test]
fn distillation_is_the_gradient_of_the_reverse_kl_of_the_next_token() {
    let (pi, teacher) = ([0.5f64, 0.3, 0.2], [0.2f64, 0.2, 0.6]);
    let response = |a: usize| {
        let extra_inputs =
            ExtraInputs { teacher_logps: Some(vec![teacher[a].ln()]), ..ExtraInputs::default() };
        Response { extra_inputs, ..Response::graded(vec![pi[a].ln()], 0.0) }
    };
    let batch = [Group { responses: (0..3).map(response).collect() }];
    let logps: Vec<Vec<f64>> = pi.iter().map(|p| vec![p.ln()]).collect();
    let slopes = slopes("distillation", "reduction=response_sum", &batch, &logps);
    let kl: f64 = pi.iter().zip(&teacher).map(|(p, q)| p * (p / q).ln()).sum();
    for b in 0..3 {
        // d log pi_a / d logit_b = 1{a = b} - pi_b, and the loss counts each of three responses a third.
        let found: f64 = (0..3).map(|a| -3.0 * slopes[a][0] * pi[a] * (f64::from(a == b) - pi[b])).sum();
        let want = -pi[b] * ((pi[b] / teacher[b]).ln() - kl);
        assert!((found - want).abs() < EXACT, "{found} {want}");
    }
}

#[test]
fn rloo_of_trl_clips_one_product_per_response_and_charges_its_kl_to_the_reward() {
    let (mut batch, logps) = pair([[0.05, 0.05], [0.3, 0.1]]);
    let settings = "ratio=product clip=ppo reduction=response_mean";
    // Advantages 1 and -1; the second ratio, e^0.4, is above the clip, which binds on the side of A > 0 alone.
    near(&slopes("rloo", settings, &batch, &logps), [[-0.1f64.exp() / 2.0; 2], [0.4f64.exp() / 2.0; 2]]);
    let (_, up) = pair([[0.2, 0.1], [-0.2, -0.1]]);
    near(&slopes("rloo", settings, &batch, &up), [[0.0; 2], [0.0; 2]]);
    // KL sums 1 and -0.5: rewards 1 - 0.1 and 0 + 0.05, advantages 0.85 and -0.85.
    for (response, kl) in batch[0].responses.iter_mut().zip([1.0, -0.5]) {
        response.ref_logps = Some(vec![-1.0 - kl / 2.0; 2]);
    }
    let credit = |more: &str| advantages("rloo", &format!("reward_beta=0.1 {more}"), &batch);
    near(&credit(""), [[0.85; 2], [-0.85; 2]]);
    let scale = 0.85 * 2f64.sqrt() + 1e-4;
    near(&credit("normalise=true"), [[0.85 / scale; 2], [-0.85 / scale; 2]]);
    near(&credit("reward_high=0.5"), [[0.35; 2], [-0.35; 2]]);
}

/// A masked response is no number of GDPO's statistics, which are of parts it may lack; of RLOO's it is one, by its reward.
#[test]
fn normalisation_over_responses_counts_those_that_have_an_advantage() {
    let (mut batch, _) = pair([[0.0; 2]; 2]);
    let third = Response { truncated: true, ..Response::graded(vec![-1.0; 2], 0.5) };
    batch[0].responses.push(third);
    for (response, part) in batch[0].responses.iter_mut().zip([1.0, 0.25, 7.0]) {
        response.extra_inputs.reward_parts = Some(vec![part]);
    }
    let whitened = |settings: &str| advantages("gdpo", settings, &batch);
    let found = whitened("whiten_over=responses scale=none mask_truncated=true");
    // Two advantages of 3/8 and -3/8: mean 0, deviation 3/8 sqrt 2.
    let scale = 0.375 / (0.375 * 2f64.sqrt() + 1e-4);
    near(&found, [[scale; 2], [-scale; 2]]);
    assert_eq!(found[2], [0.0; 2]);
    let of_rloo = advantages("rloo", "normalise=true mask_truncated=true", &batch);
    assert!((of_rloo[0][0] - 0.75 / (0.75 + 1e-4)).abs() < 1e-12, "{of_rloo:?}");
}

#[test]
fn what_is_rejected_leaves_the_divisor_and_what_is_masked_does_not() {
    let (mut batch, logps) = pair([[0.0; 2]; 2]);
    // The sampler's log-ratios: 0 and ln 4 in the first response, 0 in the second.
    for (response, x) in batch[0].responses.iter_mut().zip([[0.0, 4f64.ln()], [0.0, 0.0]]) {
        response.extra_inputs.sampler_logps = Some(x.map(|x| -1.0 - x).to_vec());
    }
    let found = |settings: &str| {
        slopes("grpo", &format!("scale=none reduction=token_mean {settings}"), &batch, &logps)
    };
    near(&found(""), [[-0.125; 2], [0.125; 2]]);
    near(&found("correction=token_mask correction_high=3"), [[-0.125, 0.0], [0.125; 2]]);
    let third = 0.5 / 3.0;
    near(&found("correction=token_mask correction_high=3 rejected=leave"), [[-third, 0.0], [third; 2]]);
    near(&found("reject=token_k3 reject_high=1"), [[-third, 0.0], [third; 2]]);
    near(&found("reject=token_k1 reject_low=0.3 reject_high=2"), [[-third, 0.0], [third; 2]]);
    for whole in
        ["seq_max_k2 reject_high=0.5", "seq_sum_k3 reject_high=1", "seq_mean_k1 reject_low=0.6 reject_high=2"]
    {
        near(&found(&format!("reject={whole}")), [[0.0; 2], [0.25; 2]]);
    }
    // The policy has moved away from the second response, of negative advantage, by 0.2 a token on average.
    let moved = vec![vec![-1.0; 2], vec![-1.1, -1.3]];
    let masked = |bound: &str| {
        slopes("grpo", &format!("scale=none clip=none off_policy_mask={bound}"), &batch, &moved)
    };
    assert_eq!(masked("0.1")[1], [0.0; 2]);
    assert_eq!(masked("0.1")[0], masked("0.3")[0]);
    assert!(masked("0.3")[1].iter().all(|slope| *slope > 0.0));
}
