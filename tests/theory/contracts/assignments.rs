//! Advantages by hand where a small mistake in an assignment would show, and what an assignment says of itself against what it does.

use grpo_lambda::advantage::{Baseline, Delta, OutcomeAdvantage, Scale, Std};
use grpo_lambda::assignment::{
    Answer, Assignment, BestOfGroup, BetaNormal, BiLevel, Decoupled, EntropySelection, Gae,
    GroupPolicyGradient, HighEntropy, OutcomeCredit, Overlong, PrefixControl, Reshaped, ReturnsToGo,
    Sinkhorn, SpanWeighted, StateRidge, StepDifference, Stretch, TeacherWeighted, Threshold, TokenBaseline,
    TokenScores, TreeAdvantage, TreeCredit,
};
use grpo_lambda::group::{ExtraInputs, Group, Response, StepValue};
use grpo_lambda::systematic::Sets;

const CENTRED: OutcomeAdvantage =
    OutcomeAdvantage { baseline: Baseline::GroupMean, scale: Scale::None, clamp: None };

/// Responses of a group that all count.
fn advantages_of(assignment: &dyn Assignment, responses: Vec<Response>) -> Vec<Vec<f64>> {
    let active = vec![true; responses.len()];
    assignment.advantages(&[Group { responses }], &active)
}

fn near(found: &[Vec<f64>], expected: &[Vec<f64>]) {
    assert!(found.iter().map(Vec::len).eq(expected.iter().map(Vec::len)), "{found:?}");
    let pairs = found.iter().flatten().zip(expected.iter().flatten());
    assert!(pairs.clone().all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}, not {expected:?}");
}

fn with_tokens(tokens: &[u32], reward: f64) -> Response {
    Response { tokens: tokens.to_vec(), ..Response::graded(vec![-0.5; tokens.len()], reward) }
}

fn with_states(states: &[f64], reward: f64) -> Response {
    let mut response = Response::graded(vec![-0.5; states.len()], reward);
    response.extra_inputs.hidden = Some(states.iter().map(|x| vec![*x]).collect());
    response
}

/// Two responses of reward 1 with all extra inputs, of which the critic thinks differently.
fn agreeing() -> Group {
    let response = |values: [f64; 2], shift: f64| Response {
        tokens: vec![0, 1],
        ref_logps: Some(vec![-1.0, -2.0]),
        extra_inputs: ExtraInputs {
            values: Some(values.to_vec()),
            entropies: Some(vec![1.0, 2.0]),
            shifts: Some(vec![shift]),
            saliencies: Some(vec![shift]),
            hidden: Some(vec![vec![shift, 1.0], vec![1.0, 2.0]]),
            teacher_logps: Some(vec![-0.25, -0.5]),
            collisions: Some(vec![0.5, 0.75]),
            ..ExtraInputs::default()
        },
        ..Response::graded(vec![-0.5, -0.75], 1.0)
    };
    let mut long = response([0.25, 0.5], 1.0);
    long.tokens.push(2);
    for row in [&mut long.old_logps, long.ref_logps.as_mut().expect("a reference")] {
        row.push(-0.25);
    }
    let extra_inputs = &mut long.extra_inputs;
    for row in [
        &mut extra_inputs.values,
        &mut extra_inputs.entropies,
        &mut extra_inputs.teacher_logps,
        &mut extra_inputs.collisions,
    ] {
        row.as_mut().expect("given").push(0.5);
    }
    extra_inputs.hidden.as_mut().expect("given").push(vec![3.0, 1.0]);
    Group { responses: vec![long, response([2.0, 1.5], 2.0)] }
}

/// An assignment that compares gives nothing where all rewards agree; one that says it does not gives something to `agreeing`.
#[test]
fn an_assignment_compares_exactly_where_agreeing_rewards_teach_nothing() {
    let outcome = |overlong| OutcomeCredit { outcome: CENTRED, delta: Delta::Constant, overlong };
    let inner = |critic: bool| -> Box<dyn Assignment> {
        if critic { Box::new(Gae { gamma: 1.0, lambda: 1.0 }) } else { Box::new(outcome(None)) }
    };
    let bi_level =
        BiLevel { threshold: 0.5, on: Threshold::Raw, boost: 1.0, floor: 0.1, log1p: false, mass: false };
    let transport = Sinkhorn { regularisation: 0.1, steps: 50 };
    let mut all: Vec<(Box<dyn Assignment>, bool)> = vec![
        (Box::new(outcome(Some(Overlong { limit: 3.0, cache: 2.0 }))), false),
        (Box::new(TokenBaseline { bare_tail: true }), false),
        (Box::new(TokenBaseline { bare_tail: false }), true),
        (Box::new(ReturnsToGo { gamma: 1.0, beta: 0.0 }), false),
    ];
    for critic in [false, true] {
        let wrapped: [Box<dyn Assignment>; 4] = [
            Box::new(HighEntropy { inner: inner(critic), selection: EntropySelection::AtLeast(0.0) }),
            Box::new(Reshaped {
                inner: inner(critic),
                scores: TokenScores::Shifts { answer: Answer::Mean, mask: None },
                bi_level,
            }),
            Box::new(SpanWeighted { inner: inner(critic), window: 1, stride: 1, transport }),
            Box::new(TeacherWeighted {
                inner: inner(critic),
                share: 0.5,
                epsilon: 0.2,
                negative_only: false,
                gap_max: f64::INFINITY,
            }),
        ];
        all.extend(wrapped.into_iter().map(|assignment| (assignment, !critic)));
    }
    for (assignment, compares) in all {
        assert_eq!(assignment.compares(), compares, "{assignment:?}");
        let found = assignment.advantages(&[agreeing()], &[true, true]);
        assert_eq!(found.iter().flatten().all(|a| *a == 0.0), compares, "{assignment:?}: {found:?}");
    }
}

#[test]
fn rewards_alone_are_read_until_a_penalty_or_parts_come_in() {
    assert!(!ReturnsToGo { gamma: 1.0, beta: 0.0 }.reads_tokens());
    assert!(ReturnsToGo { gamma: 1.0, beta: 0.1 }.reads_tokens());
    assert!(Decoupled { outcome: CENTRED, weights: Vec::new() }.reads_tokens());
}

#[test]
fn a_response_of_advantage_1_has_it_at_every_token_unless_the_assignment_spreads_it() {
    assert_eq!(BestOfGroup { scale: CENTRED }.profile(3), [1.0; 3]);
    let last = OutcomeCredit { outcome: CENTRED, delta: Delta::Terminal, overlong: None };
    assert_eq!(last.profile(3), [0.0, 0.0, 1.0]);
}

/// Masked responses and those without a reward get zeros, and nothing of theirs is looked at.
#[test]
fn what_does_not_count_needs_no_extra_inputs() {
    let steps = |value: f64| {
        let mut response = Response::graded(vec![-0.5, -0.5], 1.0);
        response.extra_inputs.steps = Some(vec![StepValue { start: 0, value }]);
        response
    };
    let bare = Response::graded(vec![-0.5], 1.0);
    let group = Group { responses: vec![steps(0.25), bare] };
    let difference = StepDifference { sure: None, drop: false };
    assert_eq!(difference.advantages(&[group], &[true, false]), [vec![0.75, 0.75], vec![0.0]]);

    let parts = |parts: [f64; 2]| {
        let mut response = Response::graded(vec![-0.5], 0.0);
        response.extra_inputs.reward_parts = Some(parts.to_vec());
        response
    };
    let ungraded = Response { reward: None, ..Response::graded(vec![-0.5], 0.0) };
    let masked = Response::graded(vec![-0.5], 1.0);
    let group = Group { responses: vec![parts([1.0, 0.0]), parts([0.0, 0.5]), ungraded, masked] };
    let decoupled = Decoupled { outcome: CENTRED, weights: vec![2.0] };
    // 2 (1 - 1/2) + (0 - 1/4), and the negative of it.
    let found = decoupled.advantages(&[group], &[true, true, true, false]);
    near(&found, &[vec![0.75], vec![-0.75], vec![0.0], vec![0.0]]);
}

#[test]
fn a_beta_density_has_the_moments_of_three_groups_and_leaves_agreeing_rewards_at_0() {
    let normal = BetaNormal { low: 0.0, high: 1.0, alpha: None, beta: None };
    // m = 0.3, v = (0.04 + 0.01 + 0.09) / 2 = 0.07, m (1 - m) / v - 1 = 2.
    let (alpha, beta) = normal.shape_of(&[0.1, 0.2, 0.6]);
    assert!((alpha - 1.2).abs() < 1e-12 && (beta - (1.0 + 1.4 / 3.0)).abs() < 1e-12, "{alpha} {beta}");
    // The mean of three times 0.1 is not 0.1 in floating point.
    let same = vec![Response::graded(vec![-0.5], 0.1); 3];
    assert_eq!(advantages_of(&normal, same), [[0.0], [0.0], [0.0]]);
}

#[test]
fn a_batch_is_stretched_by_its_groups_that_teach() {
    let gpg = GroupPolicyGradient { stretch: Stretch::Mixed, divisor: 1.0 };
    let group = |rewards: &[f64]| Group {
        responses: rewards.iter().map(|r| Response::graded(vec![-0.5], *r)).collect(),
    };
    // Five responses, three of them in a group whose rewards differ.
    let found = gpg.advantages(&[group(&[1.0, 0.0, 0.5]), group(&[1.0, 1.0])], &[true; 5]);
    near(&found, &[vec![5.0 / 6.0], vec![-5.0 / 6.0], vec![0.0], vec![0.0], vec![0.0]]);
}

#[test]
fn td_errors_of_prefix_values_add_up_by_hand() {
    let control = PrefixControl { sets: Sets::SINGLE, shrinkage: 0.0, action: false, lambda: 0.5 };
    let group = vec![with_tokens(&[0, 0], 1.0), with_tokens(&[0, 1], 0.0), with_tokens(&[1, 1], 0.5)];
    // Values of the others: (1/4, 0), (3/4, 1), and (1/2, 1/2) where no other response passes.
    near(&advantages_of(&control, group), &[vec![0.25, 1.0], vec![-0.25, -1.0], vec![0.0, 0.0]]);
}

#[test]
fn a_span_is_as_far_as_the_nearest_opposite_one_and_masked_responses_are_not_there() {
    let shear = |window| SpanWeighted {
        inner: Box::new(OutcomeCredit::constant(CENTRED)),
        window,
        stride: window,
        transport: Sinkhorn { regularisation: 0.1, steps: 100 },
    };
    // A window of ones is 1/2 away from the first window of the other and 1/4 from the second; the six norms have the mean 13/12.
    let found = advantages_of(
        &shear(2),
        vec![with_states(&[1.0, 1.0], 1.0), with_states(&[1.5, 1.5, 0.75, 0.75], 0.0)],
    );
    let unit = 12.0 / 13.0;
    let (quarter, half) = (0.25 * unit * 0.5, 0.5 * unit * 0.5);
    near(&found, &[vec![quarter; 2], vec![-half, -half, -quarter, -quarter]]);
    // The advantage of the mean reward is 0 and its states are in no mean; those of a masked response are not read.
    let group = |masked: Response| Group {
        responses: vec![
            with_states(&[1.0], 1.0),
            with_states(&[3.0], 0.0),
            with_states(&[100.0], 0.5),
            masked,
        ],
    };
    for masked in [Response::graded(vec![-0.5], 0.5), with_states(&[50.0], 0.5)] {
        let found = shear(1).advantages(&[group(masked)], &[true, true, true, false]);
        near(&found, &[vec![0.5], vec![-0.5], vec![0.0], vec![0.0]]);
    }
    // Where the only opposite response is masked, the others keep their advantage.
    let found = shear(1).advantages(
        &[Group { responses: vec![with_states(&[1.0], 1.0), with_states(&[3.0], 0.0)] }],
        &[true, false],
    );
    near(&found, &[vec![0.5], vec![-0.5]]);
    // A masked response keeps the advantage of its reward, which has no weight.
    for masked in [Response::graded(vec![-0.5], 1.5), with_states(&[50.0], 1.5)] {
        let found = shear(1).advantages(&[group(masked)], &[true, true, true, false]);
        // The mean reward is 3/4: two responses are below it, one above, and the masked one is opposite to nobody.
        near(
            &found,
            &[
                vec![0.25 * 2.0 / (104.0 / 3.0)],
                vec![-0.75 * 2.0 / (104.0 / 3.0)],
                vec![-0.25 * 99.0 / (104.0 / 3.0)],
                vec![0.75],
            ],
        );
    }
}

#[test]
fn states_of_any_size_are_brought_to_length_1_and_0_stays_0() {
    let ridge = StateRidge { shrinkage: 0.5 };
    let group = |states: [f64; 3]| {
        let rewards = [1.0, 0.0, 0.5];
        states.into_iter().zip(rewards).map(|(x, r)| with_states(&[x, x], r)).collect::<Vec<_>>()
    };
    let plain = advantages_of(&ridge, group([1.0, -2.0, 3.0]));
    near(&advantages_of(&ridge, group([1e200, -2e-200, 3e180])), &plain);
    // Where a state is 0 its value is the mean of the others, and it says nothing of their values.
    let zero = advantages_of(&ridge, group([1.0, 1.0, 0.0]));
    near(&zero[2..], &[vec![0.0, 0.0]]);
    // Of the others of the first one state is 1, the other 0: u = (0 - 1/4) / 1.5.
    assert!((zero[0][1] - (0.75 + 0.25 / 1.5)).abs() < 1e-12, "{zero:?}");
}

#[test]
fn a_token_as_sure_as_the_bound_keeps_its_advantage() {
    let sure = StepDifference { sure: Some(1.0), drop: false };
    let mut response = Response::graded(vec![0.0], 1.0);
    response.extra_inputs.steps = Some(vec![StepValue { start: 0, value: 0.25 }]);
    assert_eq!(advantages_of(&sure, vec![response]), [[0.75]]);
}

#[test]
fn credit_of_a_tree_is_scaled_once_and_siblings_have_their_own_spread() {
    let outcome = OutcomeAdvantage { scale: Scale::Group(Std { ddof: 1, epsilon: 0.0 }), ..CENTRED };
    let tree_rl =
        TreeAdvantage { outcome, credit: TreeCredit::LocalAndGlobal { leaf_weight: false, fill: false } };
    // Rewards 2 and 0: deviation sqrt 2, outcomes +-1/sqrt 2; each token of its own: (V - 0) + V over the deviation once more.
    let group = vec![with_tokens(&[0], 2.0), with_tokens(&[1], 0.0)];
    near(&advantages_of(&tree_rl, group), &[vec![1.0], vec![-1.0]]);
    let tree_rpo = TreeAdvantage { outcome: CENTRED, credit: TreeCredit::SiblingScore };
    // Three continuations of values 1, 0, 0: mean 1/3, deviation sqrt(1/3).
    let group = vec![with_tokens(&[0], 1.0), with_tokens(&[1], 0.0), with_tokens(&[2], 0.0)];
    let score = |v: f64| vec![(v - 1.0 / 3.0) / ((1.0 / 3.0f64).sqrt() + 1e-4)];
    near(&advantages_of(&tree_rpo, group), &[score(1.0), score(0.0), score(0.0)]);
}

#[test]
fn scores_are_measured_from_the_smallest_and_silence_falls_on_none_or_not_all() {
    let level =
        BiLevel { threshold: 0.5, on: Threshold::Raw, boost: 1.0, floor: 0.1, log1p: false, mass: false };
    // n = 0, 1/2, 1.
    for (w, expected) in level.weights(&[1.0, 2.0, 3.0]).into_iter().zip([0.1, 1.0, 2.0]) {
        assert!((w - expected).abs() < 1e-7, "{w}, not {expected}");
    }
    let silent = BiLevel { floor: 0.0, mass: true, ..level };
    assert_eq!(silent.weights(&[2.0, 2.0]), [1.0, 1.0]);
}

#[test]
fn the_largest_rewards_that_can_be_added_have_a_deviation() {
    let z = OutcomeAdvantage { scale: Scale::Group(Std { ddof: 1, epsilon: 0.0 }), ..CENTRED };
    let found = z.of_batch(&[vec![Some(1.5e308), Some(2e307)]]);
    assert!(
        (found[0][0] - 0.5f64.sqrt()).abs() < 1e-12 && (found[0][1] + 0.5f64.sqrt()).abs() < 1e-12,
        "{found:?}"
    );
}
