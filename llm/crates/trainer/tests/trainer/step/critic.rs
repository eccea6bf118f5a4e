#![allow(clippy::unwrap_used)]

use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods;
use grpo_lambda_decoder::model::{Architecture::Qwen2, Decoder, Gradients, ModelShape, ValueHead, weights};
use grpo_lambda_decoder::optim::{AdamWSettings, StepOutcome};
use grpo_lambda_trainer::config::schedule::{Schedule, ScheduleShape};
use grpo_lambda_trainer::step::critic::{Critic, CriticSettings, Targets, explained_variance, value_loss};
use grpo_lambda_trainer::step::micro_batch::{Batch, score_values};

const SHAPE: ModelShape = ModelShape { vocab: 13, hidden: 8, layers: 2, heads: 2, kv_heads: 1 };
const RATES: Schedule = Schedule { peak: 1e-3, warmup: 0, steps: 9, shape: ScheduleShape::Constant };
const SETTINGS: CriticSettings =
    CriticSettings { gamma: 0.97, lambda: 0.9, clip: Some(0.2), updates: 2, rates: RATES };
const PROMPTS: [&[u32]; 2] = [&[3, 1, 4, 1], &[5]];

/// Two groups of responses of several lengths, one without a reward.
fn groups() -> Vec<Group> {
    let response = |tokens: &[u32], reward: Option<f64>| Response {
        tokens: tokens.to_vec(),
        reward,
        ..Response::graded(vec![-1.0; tokens.len()], 0.0)
    };
    let first = vec![response(&[9, 2, 6], Some(1.0)), response(&[5, 3, 5, 8, 9], Some(0.0))];
    let second = vec![response(&[7, 9], None), response(&[3], Some(-0.5)), response(&[2, 3, 8], Some(1.0))];
    vec![Group { responses: first }, Group { responses: second }]
}

fn critic(seed: u64) -> Critic {
    let shape = Qwen2.config(SHAPE);
    Critic::new(&shape, weights::initialise(&shape, seed, 0.3), AdamWSettings::default()).unwrap()
}

/// The groups with values of a critic that has learned a little, so that they are not 0.
fn valued(critic: &mut Critic) -> Vec<Group> {
    let mut groups = groups();
    for _ in 0..3 {
        score_values(critic, &PROMPTS, &mut groups, 64).unwrap();
        let (passes, targets) = (Batch::new(&PROMPTS, &groups).passes(64), Targets::all(&groups, &SETTINGS));
        critic.learn(&passes, &targets, (&SETTINGS, false), 0.02).unwrap();
    }
    score_values(critic, &PROMPTS, &mut groups, 64).unwrap();
    groups
}

fn saved(critic: &Critic) -> Vec<u8> {
    let mut bytes = Vec::new();
    critic.write(&mut bytes).unwrap();
    bytes
}

/// The mean clipped loss of the values of every scored token, with its slopes.
fn loss(values: &[Vec<f64>]) -> (f64, Vec<Vec<f64>>) {
    let n = values.iter().map(Vec::len).sum::<usize>() as f64;
    let (mut sum, mut slopes) = (0.0, Vec::new());
    for (i, own) in values.iter().enumerate() {
        // Old values on both sides of the new ones, near and far, so that some tokens are clipped.
        let of_token = |(t, v): (usize, &f64)| {
            let place = (5 * i + 3 * t) % 7;
            let (l, slope) = value_loss(
                *v,
                v.round() + place as f64 * 0.1 - 0.3,
                2.0 * (place % 2) as f64 - 1.0,
                Some(0.15),
            );
            sum += l / n;
            slope / n
        };
        slopes.push(own.iter().enumerate().map(of_token).collect());
    }
    (sum, slopes)
}

/// In double precision, through the head, the shared prompt and every layer. The old values move with the rounded new ones, which no step here changes.
#[test]
fn the_gradient_of_the_value_loss_agrees_with_central_differences() {
    const STEP: f64 = 1e-5;
    let shape = Qwen2.config(SHAPE);
    let mut model =
        Decoder::<f64>::new(shape.clone(), weights::cast(&weights::initialise(&shape, 3, 0.4))).unwrap();
    let mut weight: Vec<f64> = (0..8).map(|i| 0.3 - 0.1 * ((3 * i) % 8) as f64).collect();
    let groups = groups();
    let passes = Batch::new(&PROMPTS, &groups).passes(8);
    assert!(passes.len() > 2 && passes.iter().any(|rows| !rows.prefixes().is_empty()));
    fn head(numbers: &[f64]) -> ValueHead<'_, f64> {
        ValueHead { weight: numbers, bias: 0.05 }
    }
    let values = |model: &Decoder<f64>, head: ValueHead<'_, f64>| -> Vec<Vec<f64>> {
        passes.iter().flat_map(|rows| model.forward_values(rows, head, false).unwrap().0).collect()
    };
    let slopes = loss(&values(&model, head(&weight))).1;
    let clipped = slopes.iter().flatten().filter(|d| **d == 0.0).count();
    assert!((1..slopes.iter().flatten().count() - 2).contains(&clipped), "{slopes:?}");
    let (mut gradients, mut dhead) = (Gradients::new(&shape, |_| true), vec![0.0; 9]);
    let mut each = slopes.into_iter();
    for rows in &passes {
        let (_, tape) = model.forward_values(rows, head(&weight), false).unwrap();
        let own: Vec<_> = each.by_ref().take(rows.len()).collect();
        model.backward_values(tape, head(&weight), &own, (&mut gradients, &mut dhead));
    }
    model.complete(&mut gradients, false);
    let agrees = |name: &str, found: f64, [up, down]: [f64; 2]| {
        let difference = (up - down) / (2.0 * STEP);
        assert!((difference - found).abs() < 1e-8 * found.abs().max(1.0), "{name}: {found} for {difference}");
    };
    for i in 0..8 {
        let at = |weight: &mut Vec<f64>, shift: f64| {
            weight[i] += shift;
            let loss = loss(&values(&model, head(weight))).0;
            weight[i] -= shift;
            loss
        };
        agrees("head", dhead[i], [at(&mut weight, STEP), at(&mut weight, -STEP)]);
    }
    let bias =
        [STEP, -STEP].map(|shift| loss(&values(&model, ValueHead { bias: 0.05 + shift, ..head(&weight) })).0);
    agrees("bias", dhead[8], bias);
    let mut reached = 0;
    for (name, gradient) in gradients.parameters().clone() {
        for (i, found) in gradient.data.iter().enumerate().step_by(3) {
            let mut at = |shift: f64| {
                model.update(|p| p.get_mut(&name).unwrap().data[i] += shift);
                let loss = loss(&values(&model, head(&weight))).0;
                model.update(|p| p.get_mut(&name).unwrap().data[i] -= shift);
                loss
            };
            agrees(&name, *found, [at(STEP), at(-STEP)]);
            reached += usize::from(found.abs() > 1e-6);
        }
    }
    assert!(reached > 200, "{reached}");
}

#[test]
fn a_clipped_loss_by_hand() {
    // The value, the old one, the target; with a clip of 0.2: loss and slope.
    for (case, expected) in [
        ((0.5, 0.4, 1.0), (0.125, -0.5)), // near the old value: half the square
        ((0.9, 0.4, 1.0), (0.08, 0.0)),   // has moved far enough towards the target: (0.6 - 1)^2 / 2
        ((0.9, 0.4, 0.0), (0.405, 0.9)),  // has moved away: the plain loss is larger
        ((1.5, 0.4, 1.0), (0.125, 0.5)),  // beyond the target by more than what the clip leaves
    ] {
        let (value, old, target) = case;
        let found = value_loss(value, old, target, Some(0.2));
        assert!(
            (found.0 - expected.0).abs() < 1e-12 && (found.1 - expected.1).abs() < 1e-12,
            "{case:?}: {found:?}"
        );
        assert_eq!(
            value_loss(value, old, target, None),
            (0.5 * (value - target) * (value - target), value - target)
        );
    }
}

#[test]
fn returns_are_values_plus_the_advantages_of_the_pure_method() {
    let groups = valued(&mut critic(1));
    let configured = methods::parse("ppo", "whiten=false gamma=0.97 lambda=0.9").unwrap();
    let credits = configured.method.credit(&groups);
    let targets = Targets::all(&groups, &SETTINGS);
    let responses = groups.iter().flat_map(|g| &g.responses);
    for ((targets, credit), response) in targets.iter().zip(&credits).zip(responses) {
        let values = response.extra_inputs.values.as_ref().unwrap();
        assert!(values.len() == response.len() && values.iter().all(|v| *v != 0.0));
        let Some(Targets { old, returns, outcomes }) = targets else {
            assert_eq!(response.reward, None);
            continue;
        };
        assert_eq!(old, values);
        for (t, (r, v)) in returns.iter().zip(values).enumerate() {
            assert!((r - v - credit.advantages[t]).abs() < 1e-12);
            // The lambda-return, as a mixture of the n-step returns: g_n = gamma^n V(s_{t+n}), or the reward at the end.
            let last = values.len() - t;
            let step = |n: usize| 0.97f64.powi(n as i32) * values[t + n];
            let end = 0.97f64.powi(last as i32 - 1) * response.reward.unwrap();
            assert_eq!(outcomes[t], end);
            let mixed: f64 = (1..last).map(|n| 0.1 * 0.9f64.powi(n as i32 - 1) * step(n)).sum();
            assert!((r - (mixed + 0.9f64.powi(last as i32 - 1) * end)).abs() < 1e-12, "{t}");
        }
    }
    assert_eq!(targets.iter().flatten().count(), 4);
}

#[test]
fn explained_variance_by_hand() {
    // What the critic learned from, which holds its own values, decides nothing.
    let targets = |old: [f64; 2], outcomes: [f64; 2]| Targets {
        old: old.to_vec(),
        returns: old.to_vec(),
        outcomes: outcomes.to_vec(),
    };
    let explained = |a: Targets, b: Targets| explained_variance([a, b].iter());
    assert_eq!(explained(targets([0.0, 2.0], [0.0, 2.0]), targets([4.0, 6.0], [4.0, 6.0])), Some(1.0));
    // A constant error explains all; a constant value explains nothing.
    assert_eq!(explained(targets([1.0, 3.0], [0.0, 2.0]), targets([5.0, 7.0], [4.0, 6.0])), Some(1.0));
    assert_eq!(explained(targets([9.0; 2], [0.0, 2.0]), targets([9.0; 2], [4.0, 6.0])), Some(0.0));
    assert_eq!(explained(targets([1.0, 2.0], [3.0; 2]), targets([4.0, 6.0], [3.0; 2])), None);
}

/// The critic learns known values: one of two prompts is always answered right, so that the value of a token is the reward, discounted over the
/// tokens that are left.
#[test]
fn a_critic_learns_values_that_are_known() {
    for (lambda, updates) in [(1.0, 1), (0.9, 4)] {
        let mut critic = critic(2);
        let settings = CriticSettings { gamma: 0.9, lambda, updates, ..SETTINGS };
        let mut groups = groups();
        for (group, reward) in groups.iter_mut().zip([1.0, 0.0]) {
            group.responses.iter_mut().for_each(|r| r.reward = Some(reward));
        }
        let mut losses = Vec::new();
        for _ in 0..240 / updates {
            score_values(&critic, &PROMPTS, &mut groups, 64).unwrap();
            let targets = Targets::all(&groups, &settings);
            let passes = Batch::new(&PROMPTS, &groups).passes(64);
            let report = critic.learn(&passes, &targets, (&settings, false), 5e-3).unwrap();
            assert_eq!(report.updates.len(), updates);
            losses.push((report.loss, report.explained));
        }
        for (group, reward) in groups.iter().zip([1.0, 0.0]) {
            for values in group.responses.iter().map(|r| r.extra_inputs.values.as_ref().unwrap()) {
                for (left, value) in values.iter().rev().enumerate() {
                    let known = reward * 0.9f64.powi(left as i32);
                    assert!((value - known).abs() < 0.1, "{value} for {known}: {values:?}");
                }
            }
        }
        let (first, last) = (losses[0], losses[losses.len() - 1]);
        assert!(last.0 < 0.01 * first.0 && last.1.unwrap() > 0.98, "{first:?} {last:?}");
    }
}

#[test]
fn micro_batches_recomputed_layers_and_a_restart_change_no_bit() {
    let mut whole = critic(1);
    let groups = valued(&mut whole);
    let start = saved(&whole);
    let targets = Targets::all(&groups, &SETTINGS);
    let learned = |budget: usize, recompute: bool| {
        let mut critic = critic(5);
        critic.restore(&start).unwrap();
        let passes = Batch::new(&PROMPTS, &groups).passes(budget);
        let mut again = groups.clone();
        score_values(&critic, &PROMPTS, &mut again, budget).unwrap();
        assert_eq!(again, groups);
        let report = critic.learn(&passes, &targets, (&SETTINGS, recompute), 1e-3).unwrap();
        (report, saved(&critic))
    };
    let expected = learned(64, false);
    assert!(expected.1 != start && matches!(expected.0.updates[..], [StepOutcome::Applied { .. }, _]));
    for (budget, recompute) in [(1, false), (7, true), (64, true)] {
        assert!(learned(budget, recompute) == expected, "{budget} {recompute}");
    }
}

#[test]
fn responses_without_a_reward_teach_nothing() {
    let mut critic = critic(1);
    let mut groups = valued(&mut critic);
    let passes = Batch::new(&PROMPTS, &groups).passes(64);
    groups.iter_mut().flat_map(|g| &mut g.responses).for_each(|r| r.reward = None);
    let before = saved(&critic);
    let report = critic.learn(&passes, &Targets::all(&groups, &SETTINGS), (&SETTINGS, false), 1.0).unwrap();
    assert!(report.updates.is_empty() && report.explained.is_none() && saved(&critic) == before);
}

#[test]
fn a_critic_that_has_diverged_is_refused_by_the_name_of_its_rate() {
    let mut critic = critic(1);
    let mut groups = valued(&mut critic);
    let passes = Batch::new(&PROMPTS, &groups).passes(64);
    let learned = critic.learn(&passes, &Targets::all(&groups, &SETTINGS), (&SETTINGS, false), 1e30).unwrap();
    assert!(matches!(learned.updates[..], [StepOutcome::Applied { .. }, StepOutcome::Skipped { .. }]));
    let before = groups.clone();
    let refused = score_values(&critic, &PROMPTS, &mut groups, 64).unwrap_err().to_string();
    assert!(
        refused.starts_with("response 0, token 0: the critic") && refused.contains("critic.lr"),
        "{refused}"
    );
    assert_eq!(groups, before);
}
