//! The corrected statements, on every MDP and at every depth.

use grpo_lambda_mdp::Oracle;

use crate::experiments::common::vectors::largest;

/// The largest violations of the corrected statements, each by its own name.
#[derive(Default)]
pub(super) struct Corrected {
    pub(super) identity: f64,
    bound: f64,
    conditional: f64,
    discounted: f64,
    pub(super) survival: f64,
    pub(super) martingale: f64,
    spread: f64,
    noise: f64,
    pub(super) checked: usize,
}

/// Raises `old` to `new` where that is larger.
fn raise(old: &mut f64, new: f64) {
    *old = old.max(new);
}

impl Corrected {
    pub(super) fn add(&mut self, oracle: &Oracle) {
        let tree = oracle.tree;
        let (steps, gamma) = (oracle.process(), tree.gamma());
        let (products, without) = (oracle.path_products(), oracle.visits_without_eos());
        for (t, step) in steps.iter().enumerate() {
            self.checked += 1;
            let discount = gamma.powi(t as i32);
            let ended = 1.0 - step.survival;
            // Directly from the responses, not from the values.
            let received = oracle.expect(|leaf| {
                let len = tree.leaf_len(leaf);
                if len <= t { gamma.powi(len as i32 - 1) * tree.reward(leaf) } else { 0.0 }
            });
            let gap = oracle.j - discount * step.alive_value;
            raise(&mut self.identity, (gap - received).abs());
            raise(&mut self.discounted, gap - ended);
            let mean_product: f64 = tree.nodes_at(t).map(|n| without[n] * products[n]).sum();
            raise(&mut self.survival, (mean_product - step.survival).abs());
            raise(&mut self.martingale, (step.mean - oracle.j).abs());
            if t > 0 {
                raise(&mut self.spread, steps[t - 1].spread - step.spread);
                raise(&mut self.noise, step.remaining - steps[t - 1].remaining);
            }
            if gamma == 1.0 {
                raise(&mut self.bound, oracle.j - step.alive_value - ended);
                self.add_conditional(oracle.j, step.alive_value, step.survival, received);
            }
        }
        if gamma == 1.0 {
            let last = steps[tree.max_len()].spread;
            raise(&mut self.spread, (last - oracle.j * (1.0 - oracle.j)).abs());
        }
    }

    /// The bound given that the response is alive, and its form by the rewards received.
    fn add_conditional(&mut self, j: f64, alive_value: f64, survival: f64, received: f64) {
        let ended = 1.0 - survival;
        if survival > 0.0 {
            let apart = (j - alive_value / survival).abs();
            raise(&mut self.conditional, apart - ended);
            if ended > 0.0 {
                let formula = ended * (received / ended - alive_value / survival).abs();
                raise(&mut self.identity, (apart - formula).abs());
            }
        }
    }

    pub(super) fn worst(&self) -> f64 {
        largest([
            self.identity,
            self.bound,
            self.conditional,
            self.discounted,
            self.survival,
            self.martingale,
            self.spread,
            self.noise,
        ])
    }
}
