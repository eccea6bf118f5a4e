//! A registered method whose advantages have the bound added.

use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{Coupling, Credit, Loss, Method};
use grpo_lambda_mdp::{Oracle, Target, Tree};

/// The wrapper: it adds the bound to the advantages of [`Method::credit`].
#[derive(Debug)]
pub(super) struct WithBound {
    inner: Box<dyn Method>,
    tree: Tree,
    /// `1 - Π_{k<t} (1 - π(EOS|s_k))` per prefix.
    bound: Vec<f64>,
}

impl WithBound {
    pub(super) fn new(inner: Box<dyn Method>, oracle: &Oracle) -> WithBound {
        let bound = oracle.path_products().iter().map(|p| 1.0 - p).collect();
        WithBound { inner, tree: oracle.tree.clone(), bound }
    }

    /// The bound at every token of a response; none for a stand-in without tokens.
    fn along(&self, response: &Response) -> Vec<f64> {
        let mut at = Target::Node(0);
        let step = |&token: &u32| match at {
            Target::Node(node) => {
                at = self.tree.edge(node, token).map_or(at, |e| self.tree.target(e));
                self.bound[node]
            }
            Target::Leaf(_) => unreachable!("a response has no token after its end"),
        };
        response.tokens.iter().map(step).collect()
    }
}

impl Method for WithBound {
    fn credit(&self, batch: &[Group]) -> Vec<Credit> {
        let mut credits = self.inner.credit(batch);
        for (credit, response) in credits.iter_mut().zip(batch.iter().flat_map(|g| &g.responses)) {
            for (a, b) in credit.advantages.iter_mut().zip(self.along(response)) {
                *a += b;
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
