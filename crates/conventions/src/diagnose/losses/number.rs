//! Explanations of a loss: one number, of which nothing is fitted.

use super::super::parts::{TokenLoss, Weighing, weighed};
use super::super::{Assumptions, Candidate, Found, Rows, Theirs, corrections};
use super::{Search, candidate};

/// The factors of a loss that steps of accumulation, workers and micro-batches leave.
const FACTORS: [f64; 8] = [2.0, 4.0, 8.0, 16.0, 0.5, 0.25, 0.125, 0.0625];

/// The parts of a loss that one number cannot show, as the explanations of the gradient have them; all that are usual where there is none.
pub(in super::super) struct Hidden {
    corrections: Vec<String>,
    betas: Vec<f64>,
    factors: Vec<f64>,
}

impl Hidden {
    pub(in super::super) fn new(gradient: Option<&Found>, assumed: &Assumptions) -> Hidden {
        let matches = || gradient.iter().flat_map(|found| &found.matches);
        let mut corrections: Vec<String> = matches().map(|c| c.correction.clone()).collect();
        corrections.retain(|words| !words.is_empty());
        corrections.dedup();
        let corrections = if corrections.is_empty() { corrections::named() } else { corrections };
        let distinct = |numbers: Vec<f64>| {
            let mut found: Vec<f64> = Vec::new();
            for x in numbers {
                if !found.iter().any(|y| (x - y).abs() <= assumed.tolerance * y.abs()) {
                    found.push(x);
                }
            }
            found
        };
        let of_gradient = || matches().map(|c| c.beta).collect();
        let betas = assumed.beta.map_or_else(of_gradient, |beta| vec![beta]);
        let factors = FACTORS.into_iter().chain(matches().map(|c| c.factor)).collect();
        let betas = distinct(betas).into_iter().filter(|beta| *beta != 0.0).collect();
        Hidden { corrections, betas, factors: distinct(factors) }
    }
}

impl Search<'_> {
    /// Explanations of a loss that is given once or for every group. The same number for every group is the batch's, unless only the sum is
    /// explained.
    pub(in super::super) fn batch_loss(&self, theirs: &Theirs, hidden: &Hidden) -> Option<Found> {
        let found = self.loss(theirs.batch_loss()?, hidden);
        if theirs.repeated_loss().is_none() {
            return Some(found);
        }
        let of_sum = || self.loss(theirs.loss.iter().sum(), hidden);
        let shares = (!found.explained()).then(of_sum).filter(Found::explained);
        let n = theirs.loss.len();
        let note = format!("the same number stands on all {n} lines: it is read as the batch's loss");
        Some(shares.unwrap_or(Found { note, ..found }))
    }

    /// Explanations of a loss: one number, so that nothing is fitted. The corrections that the gradient or a convention has are tried where
    /// nothing else fits, and then the factors that the gradient has, or that accumulation and workers leave.
    fn loss(&self, theirs: f64, hidden: &Hidden) -> Found {
        let plain = self.loss_times(theirs, &[1.0], hidden);
        if plain.explained() {
            return plain;
        }
        if self.assumed.correction.is_none() {
            let corrected = self.corrected_loss(theirs, hidden);
            if corrected.explained() {
                return corrected;
            }
        }
        Some(self.loss_times(theirs, &hidden.factors, hidden)).filter(Found::explained).unwrap_or(plain)
    }

    /// Explanations of a loss under corrections that are known.
    fn corrected_loss(&self, theirs: f64, hidden: &Hidden) -> Found {
        let mut tried = Vec::new();
        let of_words = |words| self.losses.iter().map(move |loss| (words, loss));
        for (words, loss) in hidden.corrections.iter().flat_map(of_words) {
            let Some(weighting) = self.weighting(loss, words) else { continue };
            let loss = self.under(loss, &weighting, words);
            for reduction in &self.reductions {
                let weights = self.weights_of(reduction, &weighting);
                let total = |rows: &Rows, kept: bool| -> f64 {
                    let rows = rows.iter().zip(&weighting.kept).zip(&weights);
                    rows.map(|((row, own), w)| {
                        w * row.iter().zip(own).filter(|(_, k)| !kept || **k).map(|(x, _)| x).sum::<f64>()
                    })
                    .sum()
                };
                let terms: Vec<f64> = self.kl.iter().map(|kl| total(&kl.values, true)).collect();
                let ours = (total(&loss.values, false), &terms[..]);
                tried.extend(self.with_each_beta((&loss, reduction), ours, (1.0, theirs), hidden));
            }
        }
        Found::from("loss", tried, self.assumed.tolerance)
    }

    fn loss_times(&self, theirs: f64, factors: &[f64], hidden: &Hidden) -> Found {
        let mut tried = Vec::new();
        for reduction in &self.reductions {
            let total = |rows: &Rows| weighed(rows, &reduction.weights).iter().flatten().sum::<f64>();
            let terms: Vec<f64> = self.kl.iter().map(|kl| total(&kl.values)).collect();
            for loss in &self.losses {
                let ours = (total(&loss.values), &terms[..]);
                for &factor in factors {
                    tried.extend(self.with_each_beta((loss, reduction), ours, (factor, theirs), hidden));
                }
            }
        }
        Found::from("loss", tried, self.assumed.tolerance)
    }

    /// Explanations of a loss by one policy term and one factor: without a KL term, and with each under each coefficient.
    fn with_each_beta(
        &self,
        (loss, reduction): (&TokenLoss, &Weighing),
        (policy, terms): (f64, &[f64]),
        (factor, theirs): (f64, f64),
        hidden: &Hidden,
    ) -> Vec<Candidate> {
        let one = |kl, value: f64, beta| {
            let (ours, theirs) = (vec![vec![factor * value]], vec![vec![theirs]]);
            let found = candidate(loss, kl, Some(reduction), &ours, &theirs, factor, beta);
            Candidate { place: None, ..found }
        };
        let mut tried = vec![one(None, policy, 0.0)];
        for beta in &hidden.betas {
            let with = self.kl.iter().zip(terms);
            tried.extend(with.map(|(kl, term)| one(Some(kl), policy + beta * term, *beta)));
        }
        tried
    }
}
