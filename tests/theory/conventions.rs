//! Claim `conventions`: the table of conventions is right where it can be checked, and the search names the one that explains given numbers.

use crate::laboratory::method;
use grpo_lambda::group::{ExtraInputs, Group, Response};
use grpo_lambda::methods;
use grpo_lambda_conventions::{
    self as conventions, Assumptions, Diagnosis, Found, Rows, Scope, Theirs, diagnose,
};

#[test]
fn every_setting_string_parses_and_has_an_effect() {
    for c in conventions::all() {
        let configured = c.configure().unwrap_or_else(|e| panic!("{}: {e}", c.label()));
        match configured {
            None => assert!(c.differs != "-" && c.settings.is_empty(), "{} says not why", c.label()),
            Some(configured) => {
                assert!(configured.idle().is_empty(), "{}: {:?}", c.label(), configured.idle())
            }
        }
        for text in [c.words, c.place, c.framework.name, c.framework.version] {
            assert!(!text.is_empty(), "{}", c.label());
        }
    }
    let mut labels: Vec<_> = conventions::all().map(|c| c.label()).collect();
    let count = labels.len();
    labels.sort();
    labels.dedup();
    assert!(labels.len() == count && count > 70, "{count}");
}

#[test]
fn what_the_table_says_of_the_standard_deviation_is_what_the_setting_computes() {
    // One of three right: r - mean = 2/3, and the deviation over n - 1 is sqrt(1/3), over n sqrt(2/9).
    let response = |reward| Response::graded(vec![-1.0], reward);
    let group = Group { responses: [1.0, 0.0, 0.0].map(response).to_vec() };
    let mut checked = 0;
    for c in conventions::all().filter(|c| c.scope == Scope::Advantages || c.scope == Scope::Objective) {
        let (Some(ddof), Some(epsilon), Ok(Some(configured))) = (c.ddof, c.epsilon, c.configure()) else {
            continue;
        };
        if !["grpo", "bnpo", "dr_grpo", "dapo", "gspo", "cispo", "luspo", "sapo", "vespo"].contains(&c.method)
        {
            continue;
        }
        let deviation = (2.0 / 3.0 / (3.0 - f64::from(ddof))).sqrt() + epsilon;
        let found = configured.method.credit(std::slice::from_ref(&group))[0].advantages[0];
        assert!((found - 2.0 / 3.0 / deviation).abs() < 1e-14, "{}: {found}", c.label());
        checked += 1;
    }
    assert!(checked > 15, "{checked}");
}

#[test]
fn the_committed_page_has_the_table() {
    let path = crate::root().join("docs/conventions.md");
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let (open, end) = ("<!-- written by sim methods --conventions --markdown -->\n", "<!-- end -->\n");
    let (before, _) = committed.split_once(open).expect("the page has the marker");
    let fresh = [before, open, &conventions::markdown(), end].concat();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, fresh).expect("the page can be written");
    } else {
        assert!(committed == fresh, "out of date; run this test once with UPDATE_DOCS=1");
    }
}

/// Two groups off-policy with ragged lengths, binary and real rewards and a reference.
fn batch() -> (Vec<Group>, Vec<Vec<f64>>) {
    let mut seed = 7u64;
    let mut uniform = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut logps = Vec::new();
    let mut response = |len: usize, reward: f64| {
        let old: Vec<f64> = (0..len).map(|_| -0.1 - 2.0 * uniform()).collect();
        logps.push(old.iter().map(|l| l + 1.2 * (uniform() - 0.5)).collect());
        let reference = old.iter().map(|l| l + 0.4 * (uniform() - 0.5)).collect();
        let mut response = Response { ref_logps: Some(reference), ..Response::graded(old, reward) };
        response.extra_inputs.entropies = Some((0..len).map(|_| uniform()).collect());
        response.extra_inputs.teacher_logps =
            Some(response.old_logps.iter().map(|l| 0.8 * l - 0.1).collect());
        response.extra_inputs.values = Some((0..len).map(|_| uniform()).collect());
        response
    };
    let first = [(5, 1.0), (3, 0.0), (7, 0.0), (2, 1.0), (6, 0.0)].map(|(len, r)| response(len, r));
    let second = [(4, 0.3), (9, -0.5), (1, 1.2)].map(|(len, r)| response(len, r));
    (vec![Group { responses: first.to_vec() }, Group { responses: second.to_vec() }], logps)
}

fn found_of(theirs: &Theirs, assumed: &Assumptions) -> Diagnosis {
    let (batch, logps) = batch();
    diagnose(&batch, &logps, theirs, assumed)
}

fn names(found: &Found, label: &str) -> bool {
    found.matches.iter().any(|m| m.labels.iter().any(|l| l == label))
}

/// The explanations of a gradient, whose advantages may be known.
fn explained(advantages: Option<Rows>, gradient: Rows) -> Found {
    let theirs = Theirs { advantages, gradient: Some(gradient), ..Theirs::default() };
    found_of(&theirs, &Assumptions::default()).gradient.expect("asked for")
}

/// The explanations of losses of tokens with their advantages.
fn explained_tokens(advantages: Rows, losses: Rows) -> Found {
    let theirs = Theirs { advantages: Some(advantages), token_losses: Some(losses), ..Theirs::default() };
    found_of(&theirs, &Assumptions::default()).token_losses.expect("asked for")
}

fn scaled(rows: &[Vec<f64>], factor: f64) -> Rows {
    rows.iter().map(|row| row.iter().map(|x| factor * x).collect()).collect()
}

/// The convention of a label.
fn convention(label: &str) -> &'static conventions::Convention {
    conventions::all().find(|c| c.label() == label).expect("a label is a convention's")
}

/// The conventions that explanations name.
fn labels(found: &Found) -> impl Iterator<Item = &'static conventions::Convention> {
    found.matches.iter().flat_map(|m| &m.labels).map(|label| convention(label))
}

fn evaluated(method: &str, settings: &str) -> (Rows, Rows, f64) {
    let (batch, logps) = batch();
    let configured = methods::parse(method, settings).expect("valid");
    let loss = methods::evaluate(configured.method.as_ref(), &batch, &logps);
    (loss.advantages, loss.dlogps, loss.value)
}

/// Advantages, losses and KL terms, token by token.
fn token_by_token(name: &str, settings: &str) -> (Rows, Rows, Rows) {
    let (batch, logps) = batch();
    let method = method(name, settings);
    let credits = method.credit(&batch);
    let tokens = || batch.iter().flat_map(|g| &g.responses).zip(&credits).zip(&logps);
    let losses = tokens().map(|((r, c), l)| method.token_losses(r, c, l)).collect();
    let kl = tokens().map(|((r, c), l)| method.token_terms(r, c, l).iter().map(|term| term.kl).collect());
    (credits.iter().map(|c| c.advantages.clone()).collect(), losses, kl.collect())
}

#[test]
fn the_advantages_of_every_convention_are_recognised() {
    let mut recognised = 0;
    for c in conventions::all().filter(|c| matches!(c.scope, Scope::Advantages | Scope::Objective)) {
        let Ok(Some(configured)) = c.configure() else { continue };
        let (batch, _) = batch();
        if configured.extra_inputs().iter().any(|kind| !kind.is_in(&batch[0].responses[0])) {
            continue;
        }
        let (advantages, ..) = evaluated(c.method, c.settings);
        let found =
            found_of(&Theirs { advantages: Some(advantages), ..Theirs::default() }, &Assumptions::default());
        let found = found.advantages.expect("asked for");
        assert!(names(&found, &c.label()), "{}: {found:?}", c.label());
        assert!(found.matches.iter().all(|m| m.error <= 1e-12), "numbers in 64 bits tell conventions apart");
        assert!(labels(&found).all(|c| c.scope != Scope::Loss), "{found:?}");
        recognised += 1;
    }
    assert!(recognised > 35, "{recognised}");
}

#[test]
fn the_gradient_and_the_loss_of_every_convention_are_recognised_with_their_reduction() {
    let mut recognised = 0;
    for c in conventions::all().filter(|c| c.scope == Scope::Objective || c.scope == Scope::Loss) {
        let Ok(Some(configured)) = c.configure() else { continue };
        // Sums of correlated conventions aside, what a mask by entropy or a penalty of length does to advantages is given with them.
        if ["grpo_lambda"].contains(&c.method) {
            continue;
        }
        let (advantages, gradient, loss) = evaluated(c.method, c.settings);
        let theirs = Theirs {
            advantages: Some(advantages),
            gradient: Some(gradient),
            loss: vec![loss],
            ..Theirs::default()
        };
        let settings = &configured.settings;
        let reduction = settings.word("reduction");
        let beta = settings.number("beta");
        let max_length = Some(settings.number("max_length"));
        let found =
            found_of(&theirs, &Assumptions { beta: Some(beta), max_length, ..Assumptions::default() });
        for found in [found.gradient.expect("asked for"), found.loss.expect("asked for")] {
            assert!(labels(&found).all(|c| c.scope != Scope::Advantages), "{found:?}");
            // A convention that fixes the reduction stands next to no other one.
            for m in &found.matches {
                let conventions = m.labels.iter().map(|label| convention(label));
                for c in conventions.filter(|c| c.scope == Scope::Objective) {
                    let configured = c.configure().expect("settings").expect("a method");
                    let own = configured.settings.word("reduction");
                    assert!(m.command.contains(&format!("reduction={own}")), "{}: {m:?}", c.label());
                }
            }
            assert!(names(&found, &c.label()), "{}: {found:?}", c.label());
            let right = |m: &conventions::Candidate| m.command.contains(&format!("reduction={reduction}"));
            assert!(found.matches.iter().any(right), "{}: {reduction} {found:?}", c.label());
        }
        recognised += 1;
    }
    assert!(recognised > 25, "{recognised}");
}

#[test]
fn a_gradient_alone_gives_advantages_kl_and_its_coefficient_and_a_common_factor() {
    let (_, gradient, _) = evaluated("grpo", "beta=0.04 kl=k2 reduction=token_mean std_preset=verl");
    let found = explained(None, scaled(&gradient, 0.5));
    let best = &found.matches[0];
    assert!((best.beta - 0.04).abs() < 1e-9, "{best:?}");
    let equal = |m: &conventions::Candidate| {
        m.what.contains("advantages: grpo std_preset=verl")
            && m.what.contains("KL: k2")
            && m.what.contains("token_mean")
            && (m.factor - 0.5).abs() < 1e-9
    };
    assert!(found.matches.iter().any(equal), "{found:?}");
}

/// A common factor without a KL term is found where it is positive: no worker counts backwards.
#[test]
fn a_common_factor_alone_is_found_where_it_is_positive() {
    let (_, gradient, _) = evaluated("grpo", "beta=0 reduction=token_mean");
    let times = |factor: f64| -> Found {
        let theirs = Theirs { gradient: Some(scaled(&gradient, factor)), ..Theirs::default() };
        let all = found_of(&theirs, &Assumptions::default());
        assert_eq!(all.found().count(), 1);
        all.gradient.expect("asked for")
    };
    let third = times(1.0 / 3.0);
    let equal = |m: &conventions::Candidate| {
        m.what.contains("token_mean") && (3.0 * m.factor - 1.0).abs() < 1e-9 && m.beta == 0.0
    };
    assert!(third.matches.iter().any(equal), "{third:?}");
    let turned = times(-1.0);
    assert!(turned.matches.iter().all(|m| m.factor > 0.0), "{turned:?}");
}

/// A token mean of each micro-batch, by hand: the share of a response in the sum over its micro-batch's tokens, halved for two of them.
#[test]
fn a_mean_of_each_micro_batch_is_named_where_the_micro_batches_are_known() {
    let (batch, _) = batch();
    let (advantages, sums, _) = evaluated("grpo", "reduction=response_sum");
    let lengths: Vec<f64> = batch.iter().flat_map(|g| &g.responses).map(|r| r.len() as f64).collect();
    let parts = vec![0, 1, 1, 0, 0, 1, 0, 1];
    let tokens = |part: usize| -> f64 {
        parts.iter().zip(&lengths).filter(|(own, _)| **own == part).map(|(_, length)| length).sum()
    };
    let gradient: Rows = sums
        .iter()
        .zip(&parts)
        .map(|(row, part)| row.iter().map(|x| x * lengths.len() as f64 / (2.0 * tokens(*part))).collect())
        .collect();
    let theirs = Theirs { advantages: Some(advantages), gradient: Some(gradient), ..Theirs::default() };
    let known = Assumptions::default().with_parts(parts).expect("no gap");
    let found = found_of(&theirs, &known).gradient.expect("asked for");
    let best = &found.matches[0];
    assert!(best.of_parts && best.error < 1e-12 && best.factor == 1.0, "{found:?}");
    assert_eq!(best.command, "grpo reduction=token_mean");
    assert!(best.what.ends_with("reduction: token_mean of each micro-batch"), "{best:?}");
    assert!(
        names(&found, "TRL loss_type=bnpo") && !names(&found, "TRL loss_type=dapo (the default)"),
        "{found:?}"
    );
    let unknown = found_of(&theirs, &Assumptions::default()).gradient.expect("asked for");
    assert!(unknown.matches.is_empty(), "{unknown:?}");
    // One micro-batch is the batch.
    let whole = Assumptions::default().with_parts(vec![0; 8]).expect("no gap");
    assert_eq!(found_of(&theirs, &whole), found_of(&theirs, &Assumptions::default()));
    let gap = Assumptions::default().with_parts(vec![0, 2, 2]).expect_err("no response is in the second");
    assert_eq!(gap, "parts: no response has 1; number the micro-batches from 0 without a gap");
}

#[test]
fn the_list_of_settings_of_a_correction_is_what_every_method_declares_last() {
    for spec in methods::REGISTRY.iter() {
        let keys: Vec<_> = (spec.params)().iter().map(|param| param.key).collect();
        assert!(keys.ends_with(&conventions::CORRECTION_SETTINGS), "{}: {keys:?}", spec.name);
    }
}

#[test]
fn losses_of_tokens_are_recognised_before_any_reduction() {
    let (advantages, losses, _) = token_by_token("cispo", "cap=5");
    let found = explained_tokens(advantages, losses);
    assert!(names(&found, "TRL loss_type=cispo, epsilon_high=5"), "{found:?}");
}

/// The KL coefficient is fitted where it is not known, and is one that someone could have set.
#[test]
fn a_coefficient_is_fitted_and_positive() {
    let (advantages, losses, kl) = token_by_token("grpo", "beta=1 kl=k3");
    let with = |beta: f64| -> Found {
        let sum =
            |(loss, kl): (&Vec<f64>, &Vec<f64>)| loss.iter().zip(kl).map(|(l, k)| l + beta * k).collect();
        explained_tokens(advantages.clone(), losses.iter().zip(&kl).map(sum).collect())
    };
    let best = &with(0.04).matches[0];
    assert!((best.beta - 0.04).abs() < 1e-9 && best.what.contains("KL: k3"), "{best:?}");
    let turned = with(-0.04);
    assert!(turned.matches.is_empty(), "{turned:?}");
    // The same of a gradient.
    let (advantages, plain, _) = evaluated("grpo", "beta=0 reduction=token_mean");
    let (_, pulled, _) = evaluated("grpo", "beta=0.04 kl=k3 reduction=token_mean");
    let minus = |(plain, pulled): (&Vec<f64>, &Vec<f64>)| {
        plain.iter().zip(pulled).map(|(a, b)| 2.0 * a - b).collect()
    };
    let turned = explained(Some(advantages), plain.iter().zip(&pulled).map(minus).collect());
    assert!(turned.matches.is_empty(), "{turned:?}");
}

/// On-policy, with rewards 1 and 0 and a reference as far above one token as below the other, the KL gradient of k2 is a multiple of
/// the policy's: a common factor and the coefficient cannot be distinguished, and the plain explanation is the one without a factor.
#[test]
fn where_a_factor_and_a_coefficient_cannot_be_distinguished_the_coefficient_is_fitted_alone() {
    let response = |reward: f64, reference: f64| Response {
        ref_logps: Some(vec![reference]),
        ..Response::graded(vec![-1.0], reward)
    };
    let batch = [Group { responses: vec![response(1.0, -1.25), response(0.0, -0.75)] }];
    let logps = vec![vec![-1.0]; 2];
    let method = method("grpo", "beta=0.5 kl=k2 std_preset=deepseekmath");
    let loss = methods::evaluate(method.as_ref(), &batch, &logps);
    let theirs =
        Theirs { advantages: Some(loss.advantages), gradient: Some(loss.dlogps), ..Theirs::default() };
    let found = diagnose(&batch, &logps, &theirs, &Assumptions::default()).gradient.expect("asked for");
    let plain = |m: &conventions::Candidate| {
        m.what.contains("KL: k2") && m.factor == 1.0 && (m.beta - 0.5).abs() < 1e-9
    };
    assert!(found.matches.iter().any(plain), "{found:?}");
}

/// A batch without extra inputs is compared with what needs none.
#[test]
fn what_needs_extra_inputs_is_not_tried_without_them() {
    let (mut batch, logps) = batch();
    let method = method("grpo", "reduction=token_mean");
    let loss = methods::evaluate(method.as_ref(), &batch, &logps);
    let tried = |batch: &[Group]| {
        let theirs = Theirs { gradient: Some(loss.dlogps.clone()), ..Theirs::default() };
        let found = diagnose(batch, &logps, &theirs, &Assumptions::default()).gradient.expect("asked for");
        assert!(found.matches.iter().any(|m| m.command.starts_with("grpo")), "{found:?}");
        found.tried
    };
    let with = tried(&batch);
    for response in batch.iter_mut().flat_map(|g| &mut g.responses) {
        (response.ref_logps, response.extra_inputs) = (None, ExtraInputs::default());
    }
    assert!(tried(&batch) < with);
}

/// No gradient at all is not a convention's gradient times 0.
#[test]
fn nothing_is_no_factor_of_something() {
    let (_, gradient, _) = evaluated("grpo", "");
    let found = explained(None, gradient.iter().map(|row| vec![0.0; row.len()]).collect());
    assert!(found.matches.iter().all(|m| m.factor > 0.0), "{found:?}");
}

#[test]
fn what_no_convention_explains_gets_the_nearest_and_the_term_that_is_left() {
    let (advantages, gradient, _) =
        evaluated("grpo", "epsilon_low=0.35 epsilon_high=0.35 reduction=token_mean");
    let found = explained(Some(advantages), gradient.clone());
    assert!(found.matches.is_empty() && found.nearest.is_some(), "{found:?}");
    assert!(
        matches!(found.remainder, Some((conventions::Remainder::Clip { tokens: 1.., .. }, _))),
        "{found:?}"
    );
    // No other explanation leaves fewer tokens: with the usual bounds of 0.2 those between the two bounds are left.
    let (batch, logps) = batch();
    let (_, usual, _) = evaluated("grpo", "reduction=token_mean");
    let differ = usual.iter().flatten().zip(gradient.iter().flatten()).filter(|(a, b)| a != b).count();
    let left = found.remainder.as_ref().map(|(left, _)| *left);
    assert!(
        matches!(left, Some(conventions::Remainder::Clip { tokens, .. }) if tokens <= differ),
        "{left:?} {differ}"
    );
    // Every response divided by the square of its length: no reduction of the table.
    let (advantages, gradient, _) = evaluated("grpo", "reduction=response_mean");
    let strange: Rows =
        gradient.iter().map(|row| row.iter().map(|g| g / row.len() as f64).collect()).collect();
    let found = explained(Some(advantages), strange);
    assert!(matches!(found.remainder, Some((conventions::Remainder::PerResponse, _))), "{found:?}");
    let neighbour = |found: &Found| found.remainder.as_ref().map(|(_, neighbour)| neighbour.clone());
    assert_eq!(neighbour(&found).as_deref(), Some("grpo reduction=response_mean"));
    // Two tokens that no clip touches.
    let (advantages, mut odd, _) = evaluated("grpo", "reduction=response_mean");
    let olds = batch.iter().flat_map(|g| &g.responses).map(|r| &r.old_logps);
    let inside = olds.zip(&logps).enumerate().flat_map(|(i, (old, new))| {
        let free = |t: &usize| (0.9..1.1).contains(&(new[*t] - old[*t]).exp());
        (0..old.len()).filter(free).map(move |t| (i, t)).collect::<Vec<_>>()
    });
    for (i, t) in inside.take(2) {
        odd[i][t] += 0.003;
    }
    let found = explained(Some(advantages), odd);
    assert!(
        matches!(found.remainder, Some((conventions::Remainder::Scattered { tokens: 2 }, _))),
        "{found:?}"
    );
    assert_eq!(neighbour(&found).as_deref(), Some("grpo reduction=response_mean"));
}

/// Rewards that TRL and verl recorded advantages of, as groups of responses of `len` tokens.
fn recorded_groups(rewards: &[Vec<Option<f64>>], len: usize) -> Vec<Group> {
    let response = |r: &Option<f64>| Response { reward: *r, ..Response::graded(vec![-1.0; len], 0.0) };
    rewards.iter().map(|rewards| Group { responses: rewards.iter().map(response).collect() }).collect()
}

fn advantages_of(groups: &[Group], given: &[f64]) -> Found {
    let logps: Vec<Vec<f64>> =
        groups.iter().flat_map(|g| &g.responses).map(|r| r.old_logps.clone()).collect();
    let advantages = Some(given.iter().zip(&logps).map(|(a, row)| vec![*a; row.len()]).collect());
    let theirs = Theirs { advantages, ..Theirs::default() };
    diagnose(groups, &logps, &theirs, &Assumptions::default()).advantages.expect("asked for")
}

#[test]
fn the_advantages_that_trl_recorded_are_named() {
    let trl = crate::trl_parity::recorded();
    let mut named = 0;
    // Where rewards differ in their fifth digit, 32 bits hold too little of the difference.
    for case in trl.advantages.iter().filter(|c| c.set != "tiny_spread") {
        let rewards: Vec<Vec<_>> = case.rewards.chunks(case.num_generations).map(<[_]>::to_vec).collect();
        let found = advantages_of(&recorded_groups(&rewards, 1), &case.advantages);
        let label = match case.scale_rewards.as_str() {
            "group" => "TRL scale_rewards=group (the default)".to_owned(),
            other => format!("TRL scale_rewards={other}"),
        };
        assert!(names(&found, &label), "{} {}: {found:?}", case.scale_rewards, case.set);
        named += 1;
    }
    assert!(named >= 12, "{named}");
}

#[test]
fn the_advantages_that_verl_recorded_are_named() {
    let verl = crate::verl_parity::recorded().advantages;
    // Batch 0: full masks, two groups of four in order, the reward at the last token.
    let rewards: Vec<_> =
        verl.batches[&0].token_level_rewards.iter().map(|row| Some(row.iter().sum())).collect();
    let groups = recorded_groups(&rewards.chunks(4).map(<[_]>::to_vec).collect::<Vec<_>>(), 6);
    let mut named = 0;
    for case in verl.cases.iter().filter(|c| c.batch == 0) {
        let scaled = case.kwargs.get("norm_adv_by_std_in_grpo").and_then(|value| value.as_bool());
        let label = match (case.estimator.as_str(), scaled) {
            ("grpo", Some(false)) => "verl adv_estimator=grpo, norm_adv_by_std_in_grpo=False",
            ("grpo" | "grpo_vectorized", Some(true)) => "verl adv_estimator=grpo",
            ("rloo" | "rloo_vectorized", _) => "verl adv_estimator=rloo, rloo_vectorized",
            ("reinforce_plus_plus_baseline", _) => "verl adv_estimator=reinforce_plus_plus_baseline",
            _ => continue,
        };
        let first: Vec<f64> = case.advantages.iter().flatten().map(|row| row[0]).collect();
        let found = advantages_of(&groups, &first);
        assert!(names(&found, label), "{label}: {found:?}");
        named += 1;
    }
    assert!(named >= 6, "{named}");
}

/// Setups that TRL and verl run, with the numbers of their own code: `tests/fixtures/setups_to_json.py` made them.
#[derive(serde::Deserialize)]
struct Setups {
    size: usize,
    rewards: Vec<f64>,
    logps: Rows,
    old_logps: Rows,
    ref_logps: Rows,
    sampler_logps: Rows,
    cases: Vec<Setup>,
}

/// A setup with the names that the search must find: of its loss, and of its correction or the settings that are it.
#[derive(serde::Deserialize)]
struct Setup {
    framework: String,
    config: serde_json::Value,
    loss_label: String,
    correction: String,
    beta: Option<f64>,
    advantages: Vec<f64>,
    loss: f64,
    gradient: Rows,
}

impl Setups {
    fn groups(&self, with_sampler: bool) -> Vec<Group> {
        let response = |i: usize| Response {
            ref_logps: Some(self.ref_logps[i].clone()),
            extra_inputs: ExtraInputs {
                sampler_logps: with_sampler.then(|| self.sampler_logps[i].clone()),
                ..ExtraInputs::default()
            },
            ..Response::graded(self.old_logps[i].clone(), self.rewards[i])
        };
        let all: Vec<Response> = (0..self.rewards.len()).map(response).collect();
        all.chunks(self.size).map(|group| Group { responses: group.to_vec() }).collect()
    }

    fn theirs(&self, setup: &Setup) -> Theirs {
        let advantages = setup.advantages.iter().zip(&self.logps).map(|(a, row)| vec![*a; row.len()]);
        Theirs {
            advantages: Some(advantages.collect()),
            gradient: Some(setup.gradient.clone()),
            loss: vec![setup.loss],
            ..Theirs::default()
        }
    }
}

impl Setups {
    /// The distance of the recorded gradient from that of the named convention's own settings; what its words leave open is the match's.
    fn apart(&self, setup: &Setup, samples: bool, label: &str, found: &conventions::Candidate) -> f64 {
        let named = convention(label);
        if named.method.is_empty() {
            return 0.0;
        }
        let pairs = |words: &str| -> Vec<(String, String)> {
            let words = words.split_whitespace().filter_map(|w| w.split_once('='));
            words.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
        };
        let (method, matched) = found.command.split_once(' ').unwrap_or((&found.command, ""));
        // The words of a convention about a loss leave these open.
        let of_correction = |key: &str| conventions::CORRECTION_SETTINGS.contains(&key);
        let open = |key: &str| match named.scope {
            Scope::Correction => !of_correction(key),
            Scope::Objective => of_correction(key) || ["beta", "kl", "max_length"].contains(&key),
            _ => of_correction(key) || ["beta", "kl", "max_length", "reduction"].contains(&key),
        };
        // The advantages are the recorded ones, whatever became of the rewards.
        let left = |key: &str| open(key) || key.starts_with("reward_");
        let own = pairs(named.settings).into_iter().filter(|(key, _)| !left(key));
        let own: Vec<_> = match named.scope {
            Scope::Correction => own.filter(|(key, _)| of_correction(key)).collect(),
            _ => own.collect(),
        };
        let settings: Vec<_> = pairs(matched).into_iter().filter(|(key, _)| open(key)).chain(own).collect();
        let method = if named.scope == Scope::Correction { method } else { named.method };
        let configured = methods::configure(method, &settings).unwrap_or_else(|e| panic!("{label}: {e}"));
        let theirs = self.theirs(setup);
        let (advantages, gradient) = (theirs.advantages.expect("given"), theirs.gradient.expect("given"));
        let batch = self.groups(samples);
        let credits = configured.method.credit_given(&batch, advantages);
        let responses = batch.iter().flat_map(|g| &g.responses).zip(&credits).zip(&self.logps);
        let ours = responses.flat_map(|((r, c), logps)| configured.method.loss(r, c, logps).dlogps);
        let largest = gradient.iter().flatten().fold(0.0f64, |most, g| most.max(g.abs()));
        let pairs: Vec<(f64, f64)> = ours.zip(gradient.iter().flatten().copied()).collect();
        let gap = |factor: f64| pairs.iter().map(|(a, b)| (a * factor - b).abs()).fold(0.0f64, f64::max);
        // Weights that are divided by their mean over the batch are a factor, which no setting says.
        let of_batch = found.labels.iter().any(|label| label.contains("batch_normalize"));
        let best =
            pairs.iter().map(|(a, b)| a * b).sum::<f64>() / pairs.iter().map(|(a, _)| a * a).sum::<f64>();
        gap(if of_batch { best } else { found.factor }) / largest
    }

    /// True if the commands have different gradients where ratios and the sampler's distance are larger than in the recorded batch.
    fn tells_apart(&self, command: &str, other: &str) -> bool {
        [-0.7, -1.5].into_iter().any(|by| {
            let (a, b) = (self.gradient_far_away(command, by), self.gradient_far_away(other, by));
            let largest = b.iter().flatten().fold(0.0f64, |most, g| most.max(g.abs()));
            a.iter().flatten().zip(b.iter().flatten()).any(|(a, b)| (a - b).abs() > 1e-9 * largest)
        })
    }

    /// The gradient of a command where log-probabilities are moved up and down by 2, and the sampler's by `by`.
    fn gradient_far_away(&self, command: &str, by: f64) -> Rows {
        let far = |rows: &Rows, by: f64| -> Rows {
            let moved = |i: usize, t: usize, x: &f64| x + by * (1.7 * (i * 5 + t) as f64).sin();
            let row =
                |(i, row): (usize, &Vec<f64>)| row.iter().enumerate().map(|(t, x)| moved(i, t, x)).collect();
            rows.iter().enumerate().map(row).collect()
        };
        let mut batch = self.groups(true);
        let (logps, sampled) = (far(&self.logps, 2.0), far(&self.sampler_logps, by));
        for (response, sampled) in batch.iter_mut().flat_map(|g| &mut g.responses).zip(sampled) {
            response.extra_inputs.sampler_logps = Some(sampled);
        }
        let (name, settings) = command.split_once(' ').unwrap_or((command, ""));
        let advantages = batch.iter().flat_map(|g| &g.responses).enumerate();
        let advantages = advantages.map(|(i, r)| vec![(i as f64).sin(); r.len()]).collect();
        let method = method(name, settings);
        let credits = method.credit_given(&batch, advantages);
        let responses = batch.iter().flat_map(|g| &g.responses).zip(&credits).zip(&logps);
        responses.map(|((r, c), logps)| method.loss(r, c, logps).dlogps).collect()
    }
}

fn setups() -> Setups {
    serde_json::from_str(include_str!("../fixtures/setups.json")).expect("the committed fixture")
}

#[test]
fn setups_that_trl_and_verl_run_are_named_and_none_is_misnamed() {
    let all = setups();
    let (mut named, mut misnamed, mut coincide) = (0, Vec::new(), Vec::new());
    for setup in &all.cases {
        let assumed = Assumptions { beta: setup.beta, max_length: Some(12.0), ..Assumptions::default() };
        // Without vLLM a trainer has no log-probabilities of a sampler.
        let samples = ["mode", "rollout_is", "rollout_rs"].iter().any(|key| setup.config.get(key).is_some());
        let found = diagnose(&all.groups(samples), &all.logps, &all.theirs(setup), &assumed);
        let gradient = found.gradient.as_ref().expect("asked for");
        let what = format!("{} {}", setup.framework, setup.config);
        let right = |m: &conventions::Candidate| {
            let of_loss = m.labels.iter().any(|l| l.starts_with(&setup.loss_label));
            let correction = match setup.correction.as_str() {
                "" => m.correction.is_empty(),
                label if label.starts_with("TRL") || label.starts_with("verl") => {
                    m.labels.iter().any(|l| l == label)
                }
                words => m.correction.contains(words),
            };
            of_loss && correction
        };
        assert!(gradient.matches.iter().any(right), "{what}: {gradient:#?}");
        for m in &gradient.matches {
            for label in &m.labels {
                let apart = all.apart(setup, samples, label, m);
                if apart > 1e-5 {
                    misnamed.push(format!("{what}: {label}, whose own settings are {apart:e} away"));
                }
            }
        }
        let right = gradient.matches.iter().find(|m| right(m)).expect("found above");
        let tell = |m: &&conventions::Candidate| all.tells_apart(&m.command, &right.command);
        let others = gradient.matches.iter().filter(tell).map(|m| m.command.as_str()).collect::<Vec<_>>();
        coincide.extend(others.iter().map(|other| format!("{what}: {other}")));
        for m in &gradient.matches {
            assert!(m.error <= 1e-5, "{what}: {m:?}");
        }
        named += 1;
    }
    assert!(named >= 20, "{named}");
    // Explanations that only this batch cannot tell from the right one: an idle cap, bounds that reject the same responses.
    assert_eq!((&misnamed, coincide.len()), (&Vec::<String>::new(), COINCIDE), "{coincide:#?}");
}

/// Explanations of the recorded setups that another batch tells from the right one.
const COINCIDE: usize = 9;

/// The settings of a correction may be given; without the sampler's numbers none can be found, and the answer asks for them.
#[test]
fn a_correction_that_is_given_is_the_only_one_and_one_without_its_input_is_asked_for() {
    let all = setups();
    let of_words = |s: &&Setup| s.correction == "correction=token_truncate correction_high=1.5";
    let setup = all.cases.iter().find(of_words).expect("a setup without a name of its own");
    let found = |samples: bool, correction: Option<&str>| {
        let correction = correction.map(str::to_owned);
        let assumed =
            Assumptions { beta: setup.beta, max_length: Some(12.0), correction, ..Assumptions::default() };
        diagnose(&all.groups(samples), &all.logps, &all.theirs(setup), &assumed).gradient.expect("asked for")
    };
    let given = found(true, Some(&setup.correction));
    assert!(
        !given.matches.is_empty() && given.matches.iter().all(|m| m.correction == setup.correction),
        "{given:?}"
    );
    assert!(found(true, Some("correction=token_truncate correction_high=1.1")).matches.is_empty());
    let without = found(false, None);
    assert!(
        without.matches.is_empty() && without.note.contains("shows only with sampler_logps"),
        "{without:?}"
    );
    assert!(!found(true, None).note.contains("sampler_logps"));
}
