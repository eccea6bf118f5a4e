//! Settings that decide how a method is built: each word leads to its own numbers.

use grpo_lambda::group::{Group, InputKind, Response, StepValue};
use grpo_lambda::methods::Coupling;
use grpo_lambda::methods::{self, BatchLoss, REGISTRY, batch_metrics};

fn batch() -> (Vec<Group>, Vec<Vec<f64>>) {
    let response = |old: [f64; 2], reward| Response {
        ref_logps: Some(vec![-1.0, -2.0]),
        ..Response::graded(old.to_vec(), reward)
    };
    let responses =
        vec![response([-0.5, -1.0], 1.0), response([-0.75, -0.5], 0.0), response([-2.0, -1.5], 0.0)];
    (vec![Group { responses }], vec![vec![-0.25, -1.5], vec![-1.0, -0.25], vec![-1.5, -1.0]])
}

fn evaluate(method: &str, settings: &str) -> BatchLoss {
    let (groups, logps) = batch();
    methods::evaluate(methods::parse(method, settings).expect("settings").method.as_ref(), &groups, &logps)
}

#[test]
fn each_degree_of_freedom_and_each_preset_has_its_standard_deviation() {
    // Rewards 1, 0, 0: deviations 2/3, -1/3, -1/3, sum of squares 2/3.
    let by = |settings: &str| 2.0 / 3.0 / evaluate("grpo", settings).advantages[0][0];
    let (biased, unbiased) = ((2.0f64 / 9.0).sqrt(), (1.0f64 / 3.0).sqrt());
    for (settings, divisor) in [
        ("std_ddof=0 std_epsilon=0", biased),
        ("std_ddof=1 std_epsilon=0", unbiased),
        ("std_ddof=0 std_epsilon=0.5", biased + 0.5),
        ("std_preset=trl", unbiased + 1e-4),
        ("std_preset=trl std_ddof=0", biased + 1e-4),
        ("std_preset=deepseekmath", biased),
        ("std_preset=deepseekmath std_ddof=1", unbiased),
        ("std_preset=openrlhf", unbiased + 1e-9),
        ("std_preset=understand_r1_zero", unbiased + 1e-8),
        ("scale=none", 1.0),
    ] {
        assert!((by(settings) - divisor).abs() < 1e-12, "{settings}: {}, not {divisor}", by(settings));
    }
}

#[test]
fn each_word_of_kl_is_its_estimator() {
    let (groups, logps) = batch();
    let kl_of = |word: &str| evaluate("grpo", &format!("beta=1 kl={word}")).metrics.kl_sum;
    let sum = |f: &dyn Fn(f64, f64) -> f64| {
        let tokens = groups[0].responses.iter().zip(&logps).flat_map(|(r, l)| {
            let reference = r.ref_logps.as_ref().expect("given");
            l.iter().zip(reference).zip(&r.old_logps).map(|((l, reference), old)| (l - reference, l - old))
        });
        tokens.map(|(d, x)| f(d, x)).sum::<f64>()
    };
    let k3 = |d: f64| (-d).exp() - 1.0 + d;
    for (word, expected) in [
        ("k1", sum(&|d, _| d)),
        ("k2", sum(&|d, _| d * d / 2.0)),
        ("k3", sum(&|d, _| k3(d))),
        ("abs", sum(&|d, _| d.abs())),
        ("k1_k2", sum(&|d, _| d)),
        ("k3_k2", sum(&|d, _| k3(d))),
        ("ratio_k3", sum(&|d, x| x.exp() * k3(d))),
    ] {
        assert!((kl_of(word) - expected).abs() < 1e-12, "{word}: {}, not {expected}", kl_of(word));
    }
}

#[test]
fn a_reference_is_asked_for_where_a_kl_reads_it() {
    let asks = |method: &str, settings: &str| {
        let configured = methods::parse(method, settings).expect("settings");
        (configured.spec.extra_inputs)(&configured.settings).contains(&InputKind::RefLogps)
    };
    assert!(asks("grpo", "beta=0.1") && !asks("grpo", "beta=0"));
    assert!(asks("reinforce_pp", "beta=0 reward_beta=0.1") && !asks("reinforce_pp", "beta=0 reward_beta=0"));
}

#[test]
fn a_cap_inside_the_clip_is_refused() {
    let refused = |s: &str| methods::parse("grpo", s).err().map(|e| e.to_string());
    let expected = "clip_max=1.2: must be at least 1 + epsilon_high = 1.25";
    assert_eq!(refused("clip=two_sided epsilon_high=0.25 clip_max=1.2").as_deref(), Some(expected));
    assert_eq!(refused("clip=two_sided epsilon_high=0.25 clip_max=1.25"), None);
    assert_eq!(refused("clip=ppo epsilon_high=0.25 clip_max=1.2"), None);
}

#[test]
fn every_variant_of_the_soft_clamp_differs() {
    let loss =
        |word: &str| evaluate("grpo_lambda", &format!("update=weight lambda=0.9 soft_clamp={word}")).value;
    let [inner, matrix, elementwise] = ["inner", "matrix", "elementwise"].map(loss);
    assert!(
        inner != matrix && matrix != elementwise && inner != elementwise,
        "{inner} {matrix} {elementwise}"
    );
}

#[test]
fn a_matrix_of_fixed_size_bounds_the_length_whatever_reads_it() {
    let longest =
        |settings: &str| methods::parse("grpo_lambda", settings).expect("settings").method.max_len();
    for settings in ["", "normalise=rows", "update=weight", "update=trace"] {
        for own in ["matrix=equation", "matrix=row_index", "matrix=as_printed"] {
            assert_eq!(longest(&format!("{own} {settings}")), None, "{own} {settings}");
        }
        let bounded = format!("matrix=as_printed matrix_length=7 {settings}");
        assert_eq!(longest(&bounded), Some(7), "{bounded}");
    }
    for spec in REGISTRY.iter().filter(|spec| spec.name != "grpo_lambda") {
        assert_eq!(methods::parse(spec.name, "").expect("defaults").method.max_len(), None, "{}", spec.name);
    }
}

#[test]
fn the_metrics_of_groups_count_what_cannot_teach() {
    let group = |rewards: &[Option<f64>]| Group {
        responses: rewards
            .iter()
            .map(|r| Response { reward: *r, ..Response::graded(vec![-1.0], 0.0) })
            .collect(),
    };
    let metrics = batch_metrics(&[
        group(&[Some(1.0), Some(0.0), None]),
        group(&[Some(1.0), Some(1.0), None]),
        group(&[None, None]),
        group(&[Some(0.5)]),
    ]);
    assert_eq!((metrics.groups, metrics.zero_variance_groups, metrics.ungraded), (4, 3, 4));
}

/// Methods that need no extra inputs and read the reference or the lengths of the batch all the same.
const WHITENED: [&str; 2] = ["reinforce_pp", "reinforce_pp_baseline"];

#[test]
fn a_method_says_whether_it_reads_tokens() {
    for spec in REGISTRY {
        let configured = methods::parse(spec.name, "").expect("defaults");
        let reads = !configured.extra_inputs().is_empty() || WHITENED.contains(&spec.name);
        assert_eq!(configured.method.credit_reads_tokens(), reads, "{}", spec.name);
    }
}

/// By their settings; `conformance` holds every method to what it says.
#[test]
fn a_method_says_whether_it_compares_rewards() {
    let compares = |name: &str, settings: &str| {
        methods::parse(name, settings).expect("settings").method.compares_rewards()
    };
    assert!(
        !compares("reinforce_pp", "gamma=0.9 whiten=false") && !compares("reinforce_pp", "reward_beta=0.1")
    );
    // Equal rewards leave the pull to the old policy.
    assert!(!compares("dro", "") && compares("dro", "pull=0"));
}

#[test]
fn a_kl_penalty_in_reward_and_loss_is_refused() {
    let refused = |s: &str| methods::parse("reinforce_pp", s).err().map(|e| e.to_string());
    let expected = "reward_beta=0.1: must be 0 where beta is not 0, or the KL penalty counts twice";
    assert_eq!(refused("beta=0.2 reward_beta=0.1").as_deref(), Some(expected));
    assert_eq!(refused("beta=0 reward_beta=0.1").or(refused("beta=0.2")), None);
}

/// Every response has as many further rewards, at least one; steps start at 0 and one after the other.
#[test]
fn an_input_of_the_wrong_form_is_refused_by_name() {
    use grpo_lambda::check::{self, BatchError};
    let checked = |edit: &dyn Fn(&mut Group)| {
        let (mut groups, logps) = batch();
        edit(&mut groups[0]);
        check::group(&groups[0], &logps, &[])
    };
    let parts = |counts: [usize; 3]| {
        checked(&|g| {
            for (r, n) in g.responses.iter_mut().zip(counts) {
                r.extra_inputs.reward_parts = Some(vec![0.5; n]);
            }
        })
    };
    let wrong = |response, found, expected| {
        Err(BatchError::Parts { field: "reward_parts", response, found, expected })
    };
    assert_eq!(parts([2, 2, 2]), Ok(()));
    assert_eq!(parts([2, 3, 2]), wrong(1, 3, 2));
    assert_eq!(parts([2, 2, 0]), wrong(2, 0, 2));
    assert_eq!(parts([0, 0, 0]), wrong(0, 0, 0));
    let steps = |starts: &[usize]| {
        let values = starts.iter().map(|&start| StepValue { start, value: 0.5 }).collect::<Vec<_>>();
        checked(&|g| g.responses[1].extra_inputs.steps = Some(values.clone())).is_ok()
    };
    assert!(steps(&[0]) && steps(&[0, 1]));
    assert!(!steps(&[0, 0]) && !steps(&[1]) && !steps(&[0, 2]) && !steps(&[]));
}

/// Rewards in another range are moved to 0..1 first: the advantages are those of the moved rewards.
#[test]
fn a_range_of_rewards_is_moved_to_the_unit_interval() {
    use grpo_lambda::assignment::{Assignment, BetaNormal};
    let rescaled = |low: f64, high: f64| {
        let (mut groups, _) = batch();
        groups.push(groups[0].clone());
        groups[1].responses[1].reward = Some(1.0);
        let moved = |r: f64| low + (high - low) * r;
        groups.iter_mut().flat_map(|g| &mut g.responses).for_each(|r| r.reward = r.reward.map(moved));
        BetaNormal { low, high, alpha: None, beta: None }.advantages(&groups, &[true; 6]).concat()
    };
    let plain = rescaled(0.0, 1.0);
    assert!(plain.iter().all(|a| *a != 0.0));
    for (a, b) in plain.iter().zip(rescaled(-2.0, 4.0)) {
        assert!((a - b).abs() < 1e-12, "{a} {b}");
    }
}

/// A method that gives cut-off responses no weight depends on which of the others were cut off.
#[test]
fn a_method_that_masks_what_was_cut_off_reads_it() {
    let grpo = |settings: &str| methods::parse("grpo", settings).expect("settings").method;
    assert!(!grpo("").credit_reads_tokens() && grpo("mask_truncated=true").credit_reads_tokens());
    assert!(grpo("correction=token_truncate").credit_reads_tokens());
    let [plain, masked] =
        ["reduction=response_mean", "reduction=response_mean mask_truncated=true"].map(grpo);
    assert_eq!((plain.coupling(), masked.coupling()), (Coupling::Rewards, Coupling::Everything));
}

/// A response of which no token is left counts among the responses of a mean, and nobody takes its share.
#[test]
fn a_response_without_a_token_left_has_no_weight() {
    let spo = methods::parse("spo_chain", "reduction=response_mean drop_sure=true").expect("settings").method;
    let response = |logp: f64, reward: f64| {
        let mut response = Response::graded(vec![logp; 2], reward);
        response.extra_inputs.steps = Some(vec![StepValue { start: 0, value: 0.5 }]);
        response
    };
    let sure = response(-1e-6, 1.0);
    let credits = spo.credit(&[Group { responses: vec![response(-1.0, 1.0), sure, response(-2.0, 0.0)] }]);
    let weights: Vec<_> = credits.into_iter().map(|c| c.weights).collect();
    assert_eq!(weights, [[1.0 / 6.0; 2], [0.0; 2], [1.0 / 6.0; 2]]);
}

/// Losses of tokens times their weights add up to the loss, whatever the response's policy term is divided by.
#[test]
fn weighted_losses_of_tokens_add_up_to_the_loss() {
    let (groups, logps) = batch();
    for settings in ["normalise=mean", "normalise=mean update=weight", "normalise=none"] {
        let method = methods::parse("grpo_lambda", settings).expect("settings").method;
        for ((response, credit), logps) in groups[0].responses.iter().zip(method.credit(&groups)).zip(&logps)
        {
            let tokens = method.token_losses(response, &credit, logps);
            let sum: f64 = tokens.iter().zip(&credit.weights).map(|(l, w)| l * w).sum();
            let whole = method.loss(response, &credit, logps).value;
            assert!((sum - whole).abs() < 1e-12, "{settings}: {sum}, not {whole}");
        }
    }
}
