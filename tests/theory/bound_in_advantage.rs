//! The bound of Lemma 1, added to the advantage.

use crate::laboratory::{gap, laid_out, method, of_zoo};
use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{Coupling, Credit, Loss, Method};
use grpo_lambda::trace::{Recent, Trace};
use grpo_lambda_mdp::expected::{Expected, Situation, implied};
use grpo_lambda_mdp::zoo;
use grpo_lambda_mdp::{Oracle, Tabular, Target, Tree};

/// A method with `1 - Π_{k<t} (1 - π(EOS|s_k))` added to the advantage of token `t`.
#[derive(Debug)]
struct WithBound {
    inner: Box<dyn Method>,
    tree: Tree,
    bound: Vec<f64>,
}

impl Method for WithBound {
    fn credit(&self, batch: &[Group]) -> Vec<Credit> {
        let mut credits = self.inner.credit(batch);
        for (credit, response) in credits.iter_mut().zip(batch.iter().flat_map(|g| &g.responses)) {
            // A substitute for another response has no tokens.
            for t in 0..response.tokens.len() {
                if let Some(Target::Node(node)) = self.tree.find(&response.tokens[..t]) {
                    credit.advantages[t] += self.bound[node];
                }
            }
        }
        credits
    }
    fn loss_around(&self, response: &Response, credit: &Credit, logps: &[f64], frozen: &[f64]) -> Loss {
        self.inner.loss_around(response, credit, logps, frozen)
    }
    fn coupling(&self) -> Coupling {
        self.inner.coupling()
    }
}

fn mdps() -> Vec<(Tree, Tabular)> {
    let random = |seed| laid_out(&zoo::Random { seed, eos: 1.0, horizon: 4, ..zoo::Random::default() });
    (0..10).map(random).chain([of_zoo("eos_hazard"), of_zoo("eos_hazard_dependent")]).collect()
}

fn pair(tree: &Tree, policy: &Tabular, name: &str, settings: &str) -> (Expected, Expected) {
    let method = || method(name, settings);
    let situation = Situation::on_policy(tree, policy, 3);
    let bound = Oracle::new(tree, policy).path_products().iter().map(|p| 1.0 - p).collect();
    let wrapped = WithBound { inner: method(), tree: tree.clone(), bound };
    let exact = |m: &dyn Method| implied(m, &situation).expect("feasible");
    (exact(method().as_ref()), exact(&wrapped))
}

#[test]
fn without_a_trace_it_is_a_baseline_and_leaves_the_expected_update_alone() {
    for (tree, policy) in mdps() {
        for (name, settings) in
            [("rloo", ""), ("dr_grpo", "max_length=1"), ("grpo", "reduction=response_sum")]
        {
            let (plain, bounded) = pair(&tree, &policy, name, settings);
            assert!(gap(&plain.update, &bounded.update) < 1e-14, "{name}");
            assert!(gap(&plain.variance, &bounded.variance) > 1e-3, "but not the variance");
        }
    }
}

#[test]
fn with_a_trace_it_changes_the_expected_update_by_the_bounds_of_the_tokens_that_follow() {
    let q = 0.9;
    for (tree, policy) in mdps() {
        let settings = "lambda=0.9 scale=none clamp=none reduction=response_sum";
        let (plain, bounded) = pair(&tree, &policy, "grpo_lambda", settings);
        // The credit that is added: E[Σ_{t>=k} q^(t-k) b(s_t) | s_k, a_k].
        let oracle = Oracle::new(&tree, &policy);
        let products = oracle.path_products();
        let extra = oracle.implied_credit(|leaf, _, w| {
            let bounds: Vec<f64> =
                tree.path(leaf).iter().map(|&e| 1.0 - products[tree.edge_node(e)]).collect();
            Recent { q }.adjoint_into(&bounds, w);
        });
        let change: Vec<f64> = bounded.update.iter().zip(&plain.update).map(|(a, b)| a - b).collect();
        assert!(gap(&change, &oracle.update_of_credit(&extra)) < 1e-12);
        assert!(change.iter().any(|c| c.abs() > 1e-3));
    }
}
