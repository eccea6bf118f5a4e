//! [`EosHazard`] and [`EosHazardDependent`]: how likely is EOS at each prefix.

use super::{Family, at_least, numbered, open_probability};
use crate::{Rules, Tabular, Tree, TreeError};

/// Symbols `s0, s1, ..`, EOS legal everywhere; rewarded iff the last symbol before EOS is `s0` (a response
/// without a symbol or without EOS is not).
fn last_symbol_counts(symbols: usize, horizon: usize) -> Result<Tree, TreeError> {
    let eos = symbols as u32;
    let names = numbered("s", symbols).chain(["EOS".into()]);
    Rules::new(names, horizon).build(
        |_| (0..=eos).collect(),
        |response, cut| f64::from(!cut && response.len() > 1 && response[response.len() - 2] == 0),
    )
}

/// One chance of EOS at every prefix, whatever was written before.
///
/// Shows: with a path-independent hazard `h` the path product of Lemma 1 *is* the survival probability,
/// `P(τ > t) = (1-h)^t`. Rewarded iff the last symbol before EOS is `s0`. `J* = 1`; the initial policy
/// (EOS with probability `h`, symbols uniform) has `J = ((1-h) - (1-h)^H) / symbols`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EosHazard {
    /// Initial probability of EOS at each prefix, in `(0,1)`.
    pub hazard: f64,
    /// Number of symbols, at least 1.
    pub symbols: usize,
    /// Horizon `H`, at least 2.
    pub horizon: usize,
}

impl Default for EosHazard {
    fn default() -> EosHazard {
        EosHazard { hazard: 0.1, symbols: 2, horizon: 8 }
    }
}

impl Family for EosHazard {
    const NAME: &'static str = "eos_hazard";
    const ABOUT: &'static str = "the same chance of EOS at every prefix";

    fn tree(&self) -> Result<Tree, TreeError> {
        open_probability(Self::NAME, "hazard", self.hazard)?;
        at_least(Self::NAME, "symbols", self.symbols, 1, "at least 1")?;
        at_least(Self::NAME, "horizon", self.horizon, 2, "at least 2")?;
        last_symbol_counts(self.symbols, self.horizon)
    }

    fn initial(&self, tree: &Tree) -> Tabular {
        with_hazard(tree, self.symbols, |_| self.hazard)
    }
}

/// The chance of EOS depends on the symbol before it.
///
/// Shows: the path product `Π_k (1 - π(EOS|s_k))` differs from path to path and is the survival probability
/// only on average over the policy that never chooses EOS. Rewarded as [`EosHazard`] is. `J* = 1`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EosHazardDependent {
    /// Initial probability of EOS at the prompt, in `(0,1)`.
    pub start: f64,
    /// Initial probability of EOS after the symbol `s0`, in `(0,1)`.
    pub after_first: f64,
    /// Initial probability of EOS after any other symbol, in `(0,1)`.
    pub after_other: f64,
    /// Number of symbols, at least 2.
    pub symbols: usize,
    /// Horizon `H`, at least 2.
    pub horizon: usize,
}

impl Default for EosHazardDependent {
    fn default() -> EosHazardDependent {
        EosHazardDependent { start: 0.05, after_first: 0.5, after_other: 0.05, symbols: 2, horizon: 8 }
    }
}

impl Family for EosHazardDependent {
    const NAME: &'static str = "eos_hazard_dependent";
    const ABOUT: &'static str = "the chance of EOS depends on the symbol before it";

    fn tree(&self) -> Result<Tree, TreeError> {
        open_probability(Self::NAME, "start", self.start)?;
        open_probability(Self::NAME, "after_first", self.after_first)?;
        open_probability(Self::NAME, "after_other", self.after_other)?;
        at_least(Self::NAME, "symbols", self.symbols, 2, "at least 2")?;
        at_least(Self::NAME, "horizon", self.horizon, 2, "at least 2")?;
        last_symbol_counts(self.symbols, self.horizon)
    }

    fn initial(&self, tree: &Tree) -> Tabular {
        with_hazard(tree, self.symbols, |last| match last {
            None => self.start,
            Some(0) => self.after_first,
            Some(_) => self.after_other,
        })
    }
}

/// EOS with a probability that depends on the last symbol, symbols uniform.
fn with_hazard(tree: &Tree, symbols: usize, hazard: impl Fn(Option<u32>) -> f64) -> Tabular {
    Tabular::from_weights(tree, |node, edge| {
        let hazard = hazard(tree.parent_edge(node).map(|e| tree.token(e)));
        if tree.token(edge) == tree.eos() { hazard } else { (1.0 - hazard) / symbols as f64 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Oracle;

    #[test]
    fn a_path_independent_hazard_makes_the_path_product_the_survival() {
        let family = EosHazard::default();
        let tree = family.tree().unwrap();
        let oracle = Oracle::new(&tree, &family.initial(&tree));
        let products = oracle.path_products();
        for t in 0..8 {
            let survival = 0.9f64.powi(t);
            assert!((oracle.survival(t as usize) - survival).abs() < 1e-14);
            assert!(tree.nodes_at(t as usize).all(|node| (products[node] - survival).abs() < 1e-14));
        }
    }

    #[test]
    fn a_path_dependent_hazard_does_not() {
        let family = EosHazardDependent::default();
        let tree = family.tree().unwrap();
        let oracle = Oracle::new(&tree, &family.initial(&tree));
        let products = oracle.path_products();
        let gap = |node: usize| (products[node] - oracle.survival(tree.depth(node))).abs();
        assert!(tree.nodes_at(3).map(gap).fold(0.0, f64::max) > 0.3);
    }
}
