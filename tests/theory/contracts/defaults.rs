//! Defaults of the trait for a method of one's own.

use crate::laboratory::method;
use grpo_lambda::group::{ExtraInputs, Group, Response};
use grpo_lambda::learner::Policy;
use grpo_lambda::methods;
use grpo_lambda::methods::{Coupling, Credit, Loss, Method};
use grpo_lambda::surrogate::Region;
use grpo_lambda::token_weights::LOG_PROB;
use grpo_lambda_mdp::zoo::{Chain, Family};
use grpo_lambda_mdp::{Tabular, TabularLearner};

/// Only the required parts of a method, so that what is provided is computed the long way.
#[derive(Debug)]
struct Plain<'a>(&'a dyn Method);

impl Method for Plain<'_> {
    fn credit(&self, batch: &[Group]) -> Vec<Credit> {
        self.0.credit(batch)
    }
    fn loss_around(&self, response: &Response, credit: &Credit, logps: &[f64], frozen: &[f64]) -> Loss {
        self.0.loss_around(response, credit, logps, frozen)
    }
    fn coupling(&self) -> Coupling {
        self.0.coupling()
    }
}

fn batch() -> Vec<Group> {
    let response = |old: [f64; 3], reward| Response::graded(old.to_vec(), reward);
    vec![Group { responses: vec![response([-0.5, -1.0, -0.25], 1.0), response([-0.75, -0.5, -1.5], 0.0)] }]
}

#[test]
fn the_terms_of_tokens_are_those_of_the_method_that_writes_them_itself() {
    for (name, settings) in [("grpo_lambda", "lambda=0.5"), ("gspo", ""), ("cispo", "")] {
        let method = method(name, settings);
        let logps = [vec![-0.3, -1.5, -0.25], vec![-1.25, -0.5, -1.0]];
        let batch = batch();
        let credits = method.credit(&batch);
        let advantages = vec![vec![0.5, -1.0, 2.0], vec![-0.25, 0.75, 1.0]];
        let given = method.credit_given(&batch, advantages.clone());
        let expected: Vec<_> = batch[0].responses.iter().zip(&credits).zip(&logps).collect();
        let terms_of = |m: &dyn Method| -> Vec<_> {
            let terms = |((r, c), l): &((&Response, &Credit), &Vec<f64>)| {
                (m.token_losses(r, c, l), m.token_terms(r, c, l))
            };
            expected.iter().map(terms).collect()
        };
        let own = terms_of(method.as_ref());
        let bare = Plain(method.as_ref());
        assert_eq!(terms_of(&bare), own, "{name}");
        assert!(own.iter().any(|(losses, _)| losses.iter().any(|x| *x != 0.0)), "{name}");
        let bare_given = bare.credit_given(&batch, advantages.clone());
        assert_eq!(
            bare_given.iter().map(|c| &c.advantages).collect::<Vec<_>>(),
            advantages.iter().collect::<Vec<_>>()
        );
        assert_eq!(
            bare_given.iter().map(|c| &c.weights).collect::<Vec<_>>(),
            given.iter().map(|c| &c.weights).collect::<Vec<_>>()
        );
    }
}

/// Advantages from elsewhere, of responses without a reward, are masked and traced as the method's own are.
#[test]
fn a_mask_and_the_choice_of_a_trace_hold_for_advantages_that_are_given() {
    let entropies = [[2.0, 0.1, 0.2], [1.9, 0.2, 0.3]];
    let batch = |reward: [Option<f64>; 2]| {
        let mut groups = batch();
        for ((r, own), reward) in groups[0].responses.iter_mut().zip(entropies).zip(reward) {
            r.extra_inputs.entropies = Some(own.to_vec());
            r.reward = reward;
        }
        groups
    };
    let given = || vec![vec![1.0; 3], vec![-1.0; 3]];
    let (graded, bare) = (batch([Some(1.0), Some(0.0)]), batch([None, None]));
    for (name, settings) in
        [("high_entropy", "top_fraction=0.34"), ("s_trace_reconstructed", "top_fraction=0.34 mask_loss=true")]
    {
        let method = method(name, settings);
        for batch in [&graded, &bare] {
            let credit = method.credit_given(batch, given());
            let rows: Vec<_> = credit.iter().map(|c| c.advantages.as_slice()).collect();
            assert_eq!(rows, [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]], "{name}");
        }
    }
    let traced = method("s_trace_reconstructed", "top_fraction=0.34");
    let eligible =
        |batch| traced.credit_given(batch, given()).into_iter().map(|c| c.eligible).collect::<Vec<_>>();
    assert_eq!(eligible(&graded), vec![Some(vec![true, false, false]); 2]);
    assert_eq!(eligible(&bare), eligible(&graded));
    assert!(traced.selects_tokens() && !method("grpo", "").selects_tokens());
    // SPO-chain: tokens of which the policy was sure, probability above 0.6 here, whatever gives the advantages.
    let unsure = method("spo_chain", "sure=0.6").credit_given(&bare, given());
    let rows: Vec<_> = unsure.iter().map(|c| c.advantages.as_slice()).collect();
    assert_eq!(rows, [[0.0, 1.0, 0.0], [-1.0, 0.0, -1.0]]);
}

#[test]
fn terms_of_tokens_are_those_of_losses_with_one_weight() {
    let old: Vec<f64> = (0..6).map(|t| -1.0 - 0.25 * f64::from(t)).collect();
    let response = |reward: f64| Response {
        tokens: vec![1; 6],
        ref_logps: Some(old.iter().map(|x| x - 0.1).collect()),
        extra_inputs: ExtraInputs::neutral(6, LOG_PROB),
        ..Response::graded(old.clone(), reward)
    };
    let batch = [Group { responses: vec![response(1.0), response(0.0)] }];
    let distance = [0.4, -0.5, 0.0, 0.05, 0.3, -0.3];
    let logps: Vec<f64> = old.iter().zip(distance).map(|(x, d)| x + d).collect();
    for (name, settings) in [
        ("grpo", "beta=0.1"),
        ("grpo", ""),
        ("grpo_lambda", "lambda=0.5 clamp=none beta=0.1 kl=k1"),
        ("grpo_lambda", "update=weight"),
        ("dapo", ""),
        ("cispo", ""),
        ("sapo", ""),
    ] {
        let method = methods::parse(name, settings).unwrap().method;
        for (response, credit) in batch[0].responses.iter().zip(method.credit(&batch)) {
            let terms = method.token_terms(response, &credit, &logps);
            let long_way = Plain(method.as_ref()).token_terms(response, &credit, &logps);
            for (a, b) in terms.iter().zip(&long_way) {
                let gaps = [a.loss - b.loss, a.ratio - b.ratio, a.kl - b.kl];
                assert!(
                    gaps.iter().all(|g| g.abs() < 1e-12) && a.region == b.region,
                    "{name} {settings}: {a:?} for {b:?}"
                );
            }
        }
    }
    let grpo = methods::parse("grpo", "").unwrap().method;
    let credits = grpo.credit(&batch);
    let regions = |i: usize| {
        grpo.token_terms(&batch[0].responses[i], &credits[i], &logps)
            .iter()
            .map(|t| t.region)
            .collect::<Vec<_>>()
    };
    let (free, low, high) = (Region::Free, Region::Low, Region::High);
    // exp(0.4) and exp(0.3) are above 1.2, exp(-0.5) and exp(-0.3) below 0.8.
    assert_eq!(regions(0), [high, free, free, free, high, free]);
    assert_eq!(regions(1), [free, low, free, free, free, low]);
}

#[test]
fn a_bare_method_claims_nothing_that_the_oracle_could_shorten() {
    let method = method("grpo", "");
    let bare = Plain(method.as_ref());
    assert!(bare.compares_rewards() && bare.credit_reads_tokens());
    assert_eq!(bare.max_len(), None);
    let size = grpo_lambda::equation::BatchSize { groups: 1, group_size: 2, max_len: 3 };
    assert!(bare.equation(&size).is_none());
}

#[test]
fn a_response_is_empty_without_tokens() {
    assert!(Response::graded(vec![], 1.0).is_empty());
    assert!(!Response::graded(vec![-1.0], 1.0).is_empty());
}

/// Groups evaluated one by one, with credit from the whole batch, add up to the batch.
#[test]
fn shares_of_groups_add_up_to_the_batch() {
    let mut groups = batch();
    groups.push(groups[0].clone());
    groups[1].responses[0].reward = Some(0.25);
    let logps: Vec<Vec<f64>> = groups
        .iter()
        .flat_map(|g| &g.responses)
        .map(|r| r.old_logps.iter().map(|l| l - 0.1).collect())
        .collect();
    let method = method("grpo_lambda", "lambda=0.5");
    let whole = methods::evaluate(method.as_ref(), &groups, &logps);
    let parts: Vec<&[Vec<f64>]> = logps.chunks(2).collect();
    let shares = methods::evaluate_groups(method.as_ref(), &groups, &parts);
    let given = methods::evaluate_groups_given(method.as_ref(), &groups, &parts, whole.advantages.clone());
    for shares in [shares, given] {
        assert!((shares.iter().map(|s| s.value).sum::<f64>() - whole.value).abs() < 1e-15);
        assert_eq!(shares.iter().flat_map(|s| s.dlogps.clone()).collect::<Vec<_>>(), whole.dlogps);
        assert_eq!(shares.iter().flat_map(|s| s.advantages.clone()).collect::<Vec<_>>(), whole.advantages);
    }
}

/// A policy that says nothing of it keeps the sampler's log-probabilities.
#[test]
fn log_probabilities_of_the_sampler_are_kept_unless_a_policy_recomputes_them() {
    let tree = Chain::default().tree().expect("defaults");
    assert!(!TabularLearner::new(&tree, Tabular::uniform(&tree), 1.0, 1).recomputes_old_logps());
}
