//! Methods whose advantages come from extra inputs: OAR, PPO, VinePPO, SPO, TreeRL, TreeRPO, RLSD.

use super::{CASES, agree_on, assert_same_gradient, ending_apart, equal_on, method};
use crate::strategies::{Batch, batch, check, graded, worded};
use crate::tolerance::{IDENTITY, assert_close, assert_within};
use grpo_lambda::group::{ExtraInputs, Response, StepValue};
use proptest::prelude::*;
use std::cell::Cell;

#[test]
fn reshaping_keeps_every_sign_and_the_mass_of_the_reasoning_tokens() {
    // [C13]
    for name in ["oar_p", "oar_g"] {
        let (oar, grpo) = (method(name), method("grpo"));
        let moved = Cell::new(0);
        check(CASES, batch(), |batch| {
            let (a, b) = (batch.evaluate(&oar).advantages, batch.evaluate(&grpo).advantages);
            for ((a, b), r) in a.iter().zip(&b).zip(batch.responses()) {
                let scored = r.extra_inputs.shifts.as_ref().expect("generated").len();
                assert!(a.iter().zip(b).all(|(a, b)| a.signum() == b.signum() || *b == 0.0));
                let (sum, want) = (a[..scored].iter().sum::<f64>(), b[0] * scored as f64);
                assert!((sum - want).abs() < 1e2 * IDENTITY * (1.0 + want.abs()), "{sum} {want}");
                assert_eq!(a[scored..], b[scored..], "tokens without a score keep weight 1");
                moved.set(moved.get() + usize::from(a[..scored] != b[..scored]));
            }
        });
        assert!(moved.get() > 100, "{name}");
    }
}

#[test]
fn equal_scores_make_oar_grpo() {
    let level = || {
        batch().prop_map(|b| {
            b.with(|_, _, r| {
                r.extra_inputs.shifts = Some(vec![0.7; r.len()]);
                r.extra_inputs.saliencies = Some(vec![0.0; r.len()]);
            })
        })
    };
    for rest in ["", "log1p=false", "preserve_mass=false", "threshold=0.9", "threshold_on=raw"] {
        equal_on(level(), &format!("oar_p {rest}"), "grpo");
        equal_on(level(), &format!("oar_g {rest}"), "grpo");
    }
}

#[test]
fn without_a_logarithm_the_weights_of_oar_do_not_see_the_unit_of_the_scores() {
    let (linear, log) = (method("oar_p log1p=false"), method("oar_p"));
    let apart = Cell::new(0);
    check(CASES, (batch(), 0.01..100.0f64), |(batch, unit)| {
        let scaled = batch.clone().with(|_, _, r| {
            r.extra_inputs.shifts.iter_mut().flatten().for_each(|s| *s *= unit);
        });
        let (a, b) = (batch.evaluate(&linear), scaled.evaluate(&linear));
        assert_close(
            &a.dlogps.concat(),
            &b.dlogps.concat(),
            1e-9,
            "a rounding at the threshold moves by 1e-8",
        );
        let changed = batch.evaluate(&log).dlogps != scaled.evaluate(&log).dlogps;
        apart.set(apart.get() + u32::from(changed));
    });
    assert!(apart.get() > CASES / 2, "with the logarithm they do");
}

#[test]
fn a_higher_score_never_weighs_less() {
    for settings in ["", "threshold_on=raw", "log1p=false preserve_mass=false", "threshold=0.8 boost=3"] {
        let oar = method(&format!("oar_p {settings}"));
        check(CASES, graded(), |batch| {
            let (a, grpo) = (batch.evaluate(&oar).advantages, batch.evaluate(&method("grpo")).advantages);
            for ((a, b), r) in a.iter().zip(&grpo).zip(batch.responses()).filter(|((_, b), _)| b[0] != 0.0) {
                let scores = r.extra_inputs.shifts.as_ref().expect("generated");
                let mut order: Vec<usize> = (0..scores.len()).collect();
                order.sort_by(|&i, &j| scores[i].total_cmp(&scores[j]));
                let weight = |t: usize| a[t] / b[t];
                assert!(order.windows(2).all(|w| weight(w[0]) <= weight(w[1]) + IDENTITY));
            }
        });
    }
}

fn pair(extra_inputs: ExtraInputs, len: usize) -> Batch {
    let right = Response { extra_inputs, ..Response::graded(vec![-0.5; len], 1.0) };
    let wrong = Response { reward: Some(0.0), ..right.clone() };
    Batch::alone(vec![right, wrong])
}

#[test]
fn the_two_levels_of_oar_by_hand() {
    // Scores e^n - 1 with n = 0, 1, 2, 3, 4: log1p and scaling give 0, 1/4, 1/2, 3/4, 1. Quantile 1/2 is 1/2.
    let scores: Vec<f64> = (0..5).map(|n| f64::from(n).exp() - 1.0).collect();
    let batch = pair(ExtraInputs { shifts: Some(scores), ..ExtraInputs::default() }, 6);
    let a = batch.evaluate(&method("oar_p threshold=0.5 preserve_mass=false scale=none")).advantages;
    let want = [0.1, 0.5, 1.0, 1.5, 2.0, 1.0].map(|w| 0.5 * w);
    assert_within(&a[0], &want, 1e-7, 1.0, "the epsilons of 1e-8");
    let a = batch.evaluate(&method("oar_p threshold=0.5 scale=none")).advantages;
    let want = [0.1, 0.5, 1.0, 1.5, 2.0, 5.1 / 5.0].map(|w| 0.5 * w * 5.0 / 5.1);
    assert_within(&a[0], &want, 1e-7, 1.0, "mass 5");
}

#[test]
fn ppo_at_lambda_1_is_the_reward_minus_the_value_and_at_lambda_0_the_td_error() {
    let (one, zero) = (method("ppo whiten=false lambda=1"), method("ppo whiten=false lambda=0 gamma=0.9"));
    check(CASES, graded(), |batch| {
        let (a, b) = (batch.evaluate(&one).advantages, batch.evaluate(&zero).advantages);
        for ((a, b), r) in a.iter().zip(&b).zip(batch.responses()) {
            let v = r.extra_inputs.values.as_ref().expect("generated");
            let reward = r.reward.expect("graded");
            let next = |t: usize| if t + 1 == r.len() { reward } else { 0.9 * v[t + 1] };
            let full: Vec<f64> = v.iter().map(|v| reward - v).collect();
            let td: Vec<f64> = (0..r.len()).map(|t| next(t) - v[t]).collect();
            assert_within(a, &full, IDENTITY, 10.0, "lambda 1");
            assert_within(b, &td, IDENTITY, 10.0, "lambda 0");
        }
    });
}

#[test]
fn ppo_with_the_group_mean_as_its_critic_is_grpo_at_lambda_1_and_its_terminal_delta_below() {
    let constant = || {
        graded().prop_map(|mut b| {
            for g in &mut b.groups {
                let mean =
                    g.responses.iter().filter_map(|r| r.reward).sum::<f64>() / g.responses.len() as f64;
                g.responses.iter_mut().for_each(|r| r.extra_inputs.values = Some(vec![mean; r.len()]));
            }
            b
        })
    };
    equal_on(constant(), "ppo whiten=false lambda=1", "grpo scale=none reduction=token_mean");
    let terminal = "grpo_lambda delta=terminal lambda=0.8 clamp=none scale=none";
    let on_policy = constant().prop_map(Batch::on_policy);
    agree_on(on_policy, "ppo whiten=false lambda=0.8", terminal, assert_same_gradient);
}

#[test]
fn a_critic_that_knows_every_reward_leaves_ppo_nothing_to_learn() {
    let m = method("ppo lambda=0.7");
    check(CASES, graded(), |batch| {
        let known = batch.clone().with(|_, _, r| r.extra_inputs.values = r.reward.map(|x| vec![x; r.len()]));
        assert!(known.evaluate(&m).dlogps.concat().iter().all(|&g| g == 0.0));
    });
}

#[test]
fn vine_ppo_with_every_token_a_step_is_ppo_at_lambda_0_with_the_same_values() {
    let every = || {
        graded().prop_map(|b| {
            b.with(|_, _, r| {
                let values = r.extra_inputs.values.clone().expect("generated");
                let step = |(start, value)| StepValue { start, value };
                r.extra_inputs.steps = Some(values.into_iter().enumerate().map(step).collect());
            })
        })
    };
    equal_on(every(), "vine_ppo", "ppo whiten=false lambda=0");
}

#[test]
fn vine_ppo_with_one_step_is_the_reward_minus_one_value() {
    let one = || {
        graded().prop_map(|b| {
            b.with(|i, _, r| r.extra_inputs.steps = Some(vec![StepValue { start: 0, value: 0.1 * i as f64 }]))
        })
    };
    let m = method("vine_ppo");
    check(CASES, one(), |batch| {
        for (i, (a, r)) in batch.evaluate(&m).advantages.iter().zip(batch.responses()).enumerate() {
            let want = r.reward.expect("graded") - 0.1 * i as f64;
            assert_within(a, &vec![want; r.len()], IDENTITY, 3.0, "advantages");
        }
    });
}

#[test]
fn the_steps_of_vine_ppo_by_hand() {
    let steps = [(0, 0.25), (2, 0.75), (3, 0.5)].map(|(start, value)| StepValue { start, value });
    let batch = pair(ExtraInputs { steps: Some(steps.to_vec()), ..ExtraInputs::default() }, 5);
    let a = batch.evaluate(&method("vine_ppo")).advantages;
    assert_eq!(a[0], [0.5, 0.5, -0.25, 0.5, 0.5]);
    assert_eq!(a[1], [0.5, 0.5, -0.25, -0.5, -0.5]);
}

#[test]
fn spo_chain_is_vine_ppo_at_the_tokens_the_policy_was_unsure_of() {
    let (spo, vine) = (method("spo_chain sure=0.5"), method("vine_ppo"));
    let silent = Cell::new(0);
    check(CASES, batch(), |batch| {
        let (a, b) = (batch.evaluate(&spo).dlogps, batch.evaluate(&vine).dlogps);
        for ((a, b), r) in a.iter().zip(&b).zip(batch.responses()) {
            for t in 0..r.len() {
                let sure = r.old_logps[t].exp() > 0.5;
                assert_eq!(a[t], if sure { 0.0 } else { b[t] });
                silent.set(silent.get() + usize::from(sure));
            }
        }
    });
    assert!(silent.get() > 100);
}

#[test]
fn tempo_without_std_is_the_centred_outcome_plus_spo_tree() {
    let methods = ["tempo scale=none", "spo_tree", "grpo scale=none"].map(method);
    check(CASES, batch(), |batch| {
        let [t, e, c] = methods.each_ref().map(|m| batch.evaluate(m).advantages.concat());
        let sum: Vec<f64> = e.iter().zip(&c).map(|(e, c)| e + c).collect();
        assert_close(&t, &sum, IDENTITY, "advantages");
    });
}

#[test]
fn the_edges_of_spo_tree_telescope_to_the_centred_reward() {
    let m = method("spo_tree");
    check(CASES, ending_apart(), |batch| {
        let centred = batch.evaluate(&method("grpo scale=none")).advantages;
        for (a, c) in batch.evaluate(&m).advantages.iter().zip(&centred) {
            assert!((a.iter().sum::<f64>() - c[0]).abs() < 1e2 * IDENTITY);
        }
    });
}

#[test]
fn tree_methods_by_hand() {
    // a b / a c / d e with rewards 1, 0, 0: V = 1/3; a 1/2, d 0; leaves 1, 0, 0.
    let batch = Batch::alone(vec![worded(&[0, 1], 1.0), worded(&[0, 2], 0.0), worded(&[3, 4], 0.0)]);
    let advantages = |words: &str| batch.evaluate(&method(words)).advantages.concat();
    let sixth = |x: f64| x / 6.0;
    let edges = [1.0, 3.0, 1.0, -3.0, -2.0, 0.0].map(sixth);
    assert_within(&advantages("spo_tree"), &edges, IDENTITY, 1.0, "edges");
    // Siblings 1/2, 0: mean 1/4, std 1/sqrt(8); then 1, 0: mean 1/2, std 1/sqrt(2). An only child is compared with nobody.
    let score = |x: f64, n: f64| x / (1.0 / n.sqrt() + 1e-4);
    let scores =
        [score(0.25, 8.0), score(0.5, 2.0), score(0.25, 8.0), score(-0.5, 2.0), score(-0.25, 8.0), 0.0];
    assert_within(&advantages("tree_rpo_reconstructed"), &scores, IDENTITY, 1.0, "scores");
    // Leave one out: 1, -1/2, -1/2; root 0, a 1/4, d -1/2.
    let rl = [0.5, 0.75 + 1.0, 0.5, -0.75 - 0.5, -1.0, -0.5];
    assert_within(&advantages("tree_rl"), &rl, IDENTITY, 2.0, "local and global");
}

#[test]
fn rlsd_without_a_share_or_with_an_agreeing_teacher_is_grpo_with_a_token_mean() {
    let agree =
        || batch().prop_map(|b| b.with(|_, _, r| r.extra_inputs.teacher_logps = Some(r.old_logps.clone())));
    equal_on(agree(), "rlsd", "grpo reduction=token_mean");
}

#[test]
fn rlsd_raises_what_the_teacher_finds_likelier_in_a_right_response_and_lowers_it_in_a_wrong_one() {
    // Teacher ratios 1.1, 0.5, 3: weights at share 1/2 and epsilon 0.2.
    let teacher = [1.1f64, 0.5, 3.0].map(|ratio| -0.5 + ratio.ln());
    let batch = pair(ExtraInputs { teacher_logps: Some(teacher.to_vec()), ..ExtraInputs::default() }, 3);
    let a = batch.evaluate(&method("rlsd scale=none")).advantages;
    let half = |w: f64| 0.5 * (0.5 + 0.5 * w);
    assert_within(&a[0], &[half(1.1), half(0.8), half(1.2)], IDENTITY, 1.0, "right");
    assert_within(&a[1], &[-half(1.0 / 1.1), -half(1.2), -half(0.8)], IDENTITY, 1.0, "wrong");
}

/// `spo_chain drop_sure` against the same batch without the sure tokens.
#[test]
fn spo_chain_that_drops_sure_tokens_is_spo_chain_with_a_denominator_of_the_unsure() {
    for reduction in ["token_mean", "response_mean", "group_token_mean", "constant"] {
        let dropping =
            |drop: bool| method(&format!("spo_chain sure=0.5 drop_sure={drop} reduction={reduction}"));
        let (kept, dropped) = (dropping(false), dropping(true));
        check(CASES, batch(), |batch| {
            let unsure = |r: &Response| r.old_logps.iter().filter(|l| l.exp() <= 0.5).count() as f64;
            let tokens: f64 = batch.responses().map(unsure).sum();
            let (a, b) = (batch.evaluate(&kept).dlogps, batch.evaluate(&dropped).dlogps);
            for (group, members) in batch.groups.iter().zip(batch.members()) {
                let own: f64 = group.responses.iter().map(unsure).sum();
                let all: f64 = group.responses.iter().map(|r| r.len() as f64).sum();
                for (r, flat) in group.responses.iter().zip(members) {
                    let factor = match reduction {
                        "token_mean" => batch.tokens() as f64 / tokens,
                        "group_token_mean" => all / own,
                        "response_mean" => r.len() as f64 / unsure(r),
                        _ => 1.0,
                    };
                    let want: Vec<f64> =
                        a[flat].iter().map(|g| if *g == 0.0 { 0.0 } else { g * factor }).collect();
                    assert_close(&b[flat], &want, IDENTITY, reduction);
                }
            }
        });
    }
}

#[test]
fn a_sure_token_that_is_dropped_has_no_kl_term_either() {
    let (kept, dropped) =
        (method("spo_chain sure=0.5 beta=0.3"), method("spo_chain sure=0.5 drop_sure=true beta=0.3"));
    let pulled = Cell::new(0);
    check(CASES, batch(), |batch| {
        let (a, b) = (batch.evaluate(&kept).dlogps, batch.evaluate(&dropped).dlogps);
        for (i, r) in batch.responses().enumerate() {
            for t in (0..r.len()).filter(|&t| r.old_logps[t].exp() > 0.5) {
                assert_eq!(b[i][t], 0.0);
                pulled.set(pulled.get() + usize::from(a[i][t] != 0.0));
            }
        }
    });
    assert!(pulled.get() > 100);
}

#[test]
fn tree_rl_with_leaf_weights_divides_by_the_square_root_of_the_leaves_below() {
    let (plain, weighted) = (method("tree_rl"), method("tree_rl leaf_weight=true"));
    let shared = Cell::new(0);
    check(CASES, graded(), |batch| {
        let (a, b) = (batch.evaluate(&plain).advantages, batch.evaluate(&weighted).advantages);
        for (group, members) in batch.groups.iter().zip(batch.members()) {
            for (r, flat) in group.responses.iter().zip(members) {
                let below = |t: usize| {
                    let begins = |o: &&Response| o.tokens.starts_with(&r.tokens[..=t]);
                    group.responses.iter().filter(begins).count()
                };
                let want: Vec<f64> = (0..r.len()).map(|t| a[flat][t] / (below(t) as f64).sqrt()).collect();
                assert_within(&b[flat], &want, IDENTITY, 10.0, "advantages");
                shared.set(shared.get() + (0..r.len()).filter(|&t| below(t) > 1).count());
            }
        }
    });
    assert!(shared.get() > 100);
}

#[test]
fn tree_rl_fills_zeros_from_the_token_before() {
    let (plain, filled) = (method("tree_rl"), method("tree_rl fill_zeros=true"));
    // Two responses share two tokens and part: V is 0 in the common part, since leave-one-out rewards of two cancel.
    let mut responses = vec![worded(&[1, 1, 2, 2], 1.0), worded(&[1, 1, 3, 3], 0.0)];
    let batch = Batch::alone(responses.clone());
    let [a, b] = [&plain, &filled].map(|m| batch.evaluate(m).advantages);
    assert_eq!(a, [[0.0, 0.0, 2.0, 1.0], [0.0, 0.0, -2.0, -1.0]]);
    assert_eq!(a, b, "nothing stands before the first");
    // A third response that leaves at once: V of the pair is 0 after a step down from it.
    responses.push(worded(&[4; 4], 0.5));
    assert_eq!(Batch::alone(responses).evaluate(&plain).advantages[2], [0.0; 4]);
    let different = Cell::new(0);
    check(CASES, graded(), |batch| {
        let (a, b) = (batch.evaluate(&plain).advantages, batch.evaluate(&filled).advantages);
        for (a, b) in a.iter().zip(&b) {
            let mut want = a.clone();
            for t in 1..want.len() {
                want[t] = if want[t] == 0.0 { want[t - 1] } else { want[t] };
            }
            assert_eq!(*b, want);
            different.set(different.get() + usize::from(a != b));
        }
    });
    println!("{} responses had a 0 to fill", different.get());
}
