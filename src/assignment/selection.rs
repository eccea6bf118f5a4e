use super::needed;
use crate::equation::number;
use crate::group::Group;
use crate::method::Coupling;

/// Over what a threshold is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All tokens of the batch.
    Batch,
    /// Each response on its own.
    Response,
}

/// The choice of high-entropy tokens: `h_t = 1{H_t >= tau}`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EntropySelection {
    /// `tau` is the `1 - top` quantile of the entropies, with linear interpolation between neighbours as in `torch.quantile`.
    Top {
        /// The share of tokens to keep, in `[0, 1]`; ties at the threshold are kept, too.
        top: f64,
        /// The tokens the quantile is taken over.
        scope: Scope,
    },
    /// A threshold in nats: the choice then depends on the prefix alone.
    AtLeast(
        /// `tau`, in nats.
        f64,
    ),
}

impl EntropySelection {
    /// The chosen tokens of each response, in flat order. Responses that do not count are left out of the quantile, and none of their tokens is
    /// chosen.
    ///
    /// # Panics
    /// If entropies of a response that counts are missing.
    pub fn of_batch(&self, batch: &[Group], counts: &[bool]) -> Vec<Vec<bool>> {
        let responses = batch.iter().flat_map(|g| &g.responses).zip(counts);
        let entropies: Vec<(usize, Option<&[f64]>)> = responses
            .map(|(r, counts)| (r.len(), counts.then(|| needed(&r.extra_inputs.entropies, "entropies"))))
            .collect();
        let whole = match *self {
            EntropySelection::Top { top, scope: Scope::Batch } => {
                let mut all: Vec<f64> = entropies.iter().filter_map(|e| e.1).flatten().copied().collect();
                quantile(1.0 - top, &mut all)
            }
            EntropySelection::AtLeast(tau) => tau,
            EntropySelection::Top { scope: Scope::Response, .. } => f64::NAN,
        };
        let mut buffer = Vec::new();
        let row = |(len, own): (usize, Option<&[f64]>)| {
            let Some(own) = own else { return vec![false; len] };
            assert_eq!(own.len(), len, "one entropy per token");
            let tau = match *self {
                EntropySelection::Top { top, scope: Scope::Response } => {
                    buffer.clear();
                    buffer.extend_from_slice(own);
                    quantile(1.0 - top, &mut buffer)
                }
                _ => whole,
            };
            own.iter().map(|&h| h >= tau).collect()
        };
        entropies.into_iter().map(row).collect()
    }

    /// When token `at` is chosen, as in `H_t >= 0.5, H_t the entropy of pi_old(.|s_t) in nats`.
    pub fn equation(&self, at: &str) -> String {
        let tau = match *self {
            EntropySelection::AtLeast(tau) => number(tau),
            EntropySelection::Top { top, scope } => {
                let whose = match scope {
                    Scope::Batch => "all tokens of the batch",
                    Scope::Response => "the response's tokens",
                };
                format!("the {} quantile of H over {whose}", number(1.0 - top))
            }
        };
        format!("H_{at} >= {tau} (H_{at} the entropy of pi_old(.|s_{at}) in nats)")
    }

    /// The way in which other responses enter the choice.
    pub fn coupling(&self) -> Coupling {
        match self {
            EntropySelection::Top { scope: Scope::Batch, .. } => Coupling::Everything,
            EntropySelection::Top { scope: Scope::Response, .. } | EntropySelection::AtLeast(_) => {
                Coupling::Rewards
            }
        }
    }
}

/// The quantile at `level` in `[0, 1]`, interpolated linearly between the two nearest values, in linear time; reorders `values`.
/// Infinity of nothing.
pub(super) fn quantile(level: f64, values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return f64::INFINITY;
    }
    let place = level * (values.len() - 1) as f64;
    let (below, share) = (place.floor() as usize, place.fract());
    let (_, &mut low, above) = values.select_nth_unstable_by(below, f64::total_cmp);
    if share == 0.0 {
        return low;
    }
    let high = above.iter().copied().fold(f64::INFINITY, f64::min);
    low + share * (high - low)
}
