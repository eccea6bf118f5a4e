//! The search over the products of choices: the loss of a token, the KL term, the reduction.

mod number;

use super::advantages::Credited;
use super::corrections::{self, Sampler, Weighting};
use super::parts::{self, KlTerm, Label, TokenLoss, Weighing, weighed};
use super::{Assumptions, Candidate, Found, Remainder, Rows, fit};
use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{Configured, Credit};
use grpo_lambda::reduction::Reduction;
pub(super) use number::Hidden;
use std::cmp::Ordering;

/// Everything that is tried on a batch.
pub(super) struct Search<'a> {
    batch: &'a [Group],
    logps: &'a [Vec<f64>],
    assumed: &'a Assumptions,
    losses: Vec<TokenLoss>,
    kl: Vec<KlTerm>,
    reductions: Vec<Weighing>,
    methods: Vec<(Configured, String, Option<Label>)>,
    credits: Vec<Rows>,
    sampler: Sampler,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        batch: &'a [Group],
        logps: &'a [Vec<f64>],
        credits: &[Credited],
        assumed: &'a Assumptions,
    ) -> Search<'a> {
        let methods = parts::token_methods(batch);
        let mut losses: Vec<TokenLoss> = Vec::new();
        for (c, credit) in credits.iter().enumerate() {
            for (m, (configured, command, label)) in methods.iter().enumerate() {
                let found = TokenLoss {
                    made_by: (m, c),
                    ..parts::token_loss(batch, logps, configured, credit, command)
                };
                let same = |l: &&mut TokenLoss| l.values == found.values && l.slopes == found.slopes;
                match losses.iter_mut().find(same) {
                    Some(same) => same.labels.extend(label.clone()),
                    None => losses.push(TokenLoss { labels: label.iter().cloned().collect(), ..found }),
                }
            }
        }
        let (kl, reductions) = (parts::kl_terms(batch, logps), parts::reductions(batch, assumed));
        let sampler = Sampler::new(batch, logps);
        let credits = credits.iter().map(|credit| credit.rows.clone()).collect();
        let mut search = Search { batch, logps, assumed, losses, kl, reductions, methods, credits, sampler };
        if let Some(words) = &assumed.correction {
            let under = |loss: &TokenLoss| Some(search.under(loss, &search.weighting(loss, words)?, words));
            search.losses = search.losses.iter().filter_map(under).collect();
        }
        search
    }

    /// Explanations of losses of tokens: no reduction, the KL coefficient fitted.
    pub(super) fn token_losses(&self, theirs: &Rows) -> Found {
        let mut tried: Vec<Candidate> =
            self.losses.iter().flat_map(|loss| self.with_each_kl(loss, theirs)).collect();
        if self.unexplained(&tried) {
            let values: Vec<&Rows> = self.kl.iter().map(|kl| &kl.values).collect();
            for loss in &self.losses {
                for (words, weighting) in self.suggested(loss, &loss.values, &values, theirs) {
                    tried.extend(self.with_each_kl(&self.under(loss, &weighting, &words), theirs));
                }
            }
        }
        self.finished("token_losses", tried, theirs)
    }

    /// Explanations of losses of tokens by one loss: without a KL term, and with each.
    fn with_each_kl(&self, loss: &TokenLoss, theirs: &Rows) -> Vec<Candidate> {
        let left = fit::sum(theirs, -1.0, &loss.values);
        let with_term = |kl: &KlTerm| {
            let beta = self.assumed.beta.or_else(|| fit::one(&kl.values, &left))?;
            let ours = fit::sum(&loss.values, beta, &kl.values);
            plausible(candidate(loss, Some(kl), None, &ours, theirs, 1.0, beta))
        };
        let alone = candidate(loss, None, None, &loss.values, theirs, 1.0, 0.0);
        [alone].into_iter().chain(self.kl.iter().filter_map(with_term)).collect()
    }

    /// Explanations of a gradient: every reduction, the KL coefficient and a common factor fitted.
    pub(super) fn gradient(&self, theirs: &Rows) -> Found {
        let mut tried = Vec::new();
        for reduction in &self.reductions {
            let kl: Vec<Rows> = self.kl.iter().map(|kl| weighed(&kl.slopes, &reduction.weights)).collect();
            for loss in &self.losses {
                let policy = weighed(&loss.slopes, &reduction.weights);
                tried.push(candidate(loss, None, Some(reduction), &policy, theirs, 1.0, 0.0));
                tried.extend(scaled(loss, reduction, &policy, theirs));
                for (term, kl) in self.kl.iter().zip(&kl) {
                    tried.extend(self.with_kl(loss, term, reduction, (&policy, kl), theirs));
                }
            }
        }
        if self.unexplained(&tried) {
            tried.extend(self.corrected_gradient(theirs));
        }
        self.finished("gradient", tried, theirs)
    }

    /// True if no explanation is within the tolerance and the correction is not known.
    fn unexplained(&self, tried: &[Candidate]) -> bool {
        self.assumed.correction.is_none() && tried.iter().all(|c| c.error > self.assumed.tolerance)
    }

    /// Explanations of a gradient under every correction of the sampler's mismatch that its tokens point to.
    fn corrected_gradient(&self, theirs: &Rows) -> Vec<Candidate> {
        let mut tried = Vec::new();
        for reduction in &self.reductions {
            let kl: Vec<Rows> = self.kl.iter().map(|kl| weighed(&kl.slopes, &reduction.weights)).collect();
            let kl: Vec<&Rows> = kl.iter().collect();
            for loss in &self.losses {
                let left = self.weights_without_zeros(loss, reduction, theirs);
                for weights in [reduction.weights.clone()].into_iter().chain(left) {
                    let policy = weighed(&loss.slopes, &weights);
                    for (words, weighting) in self.suggested(loss, &policy, &kl, theirs) {
                        tried.extend(self.gradient_under(loss, reduction, &words, &weighting, theirs));
                    }
                }
            }
        }
        tried
    }

    /// The weights of a mean over each response or micro-batch where tokens without a gradient have left it, by each distance that may have dropped
    /// them; other reductions change by one factor.
    fn weights_without_zeros(&self, loss: &TokenLoss, reduction: &Weighing, theirs: &Rows) -> Vec<Vec<f64>> {
        if reduction.reduction != Reduction::PerResponse && reduction.parts.is_none() {
            return Vec::new();
        }
        let rejected = self.sampler.rejections_of_zeros(&loss.slopes, theirs);
        let weights = |words: String| Some(self.weights_of(reduction, &self.weighting(loss, &words)?));
        let mut found: Vec<Vec<f64>> = rejected.into_iter().filter_map(weights).collect();
        found.sort_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
        found.dedup();
        found
    }

    /// Explanations under one correction. Its rejected tokens may have left the divisor.
    fn gradient_under(
        &self,
        loss: &TokenLoss,
        reduction: &Weighing,
        words: &str,
        weighting: &Weighting,
        theirs: &Rows,
    ) -> Vec<Candidate> {
        let corrected = self.under(loss, weighting, words);
        let reduction = Weighing { weights: self.weights_of(reduction, weighting), ..reduction.clone() };
        let policy = weighed(&corrected.slopes, &reduction.weights);
        let mut tried = vec![candidate(&corrected, None, Some(&reduction), &policy, theirs, 1.0, 0.0)];
        tried.extend(scaled(&corrected, &reduction, &policy, theirs));
        for term in &self.kl {
            let kept = |(row, kept): (&Vec<f64>, &Vec<bool>)| {
                row.iter().zip(kept).map(|(x, k)| if *k { *x } else { 0.0 }).collect()
            };
            let slopes: Rows = term.slopes.iter().zip(&weighting.kept).map(kept).collect();
            let kl = weighed(&slopes, &reduction.weights);
            tried.extend(self.with_kl(&corrected, term, &reduction, (&policy, &kl), theirs));
        }
        tried.into_iter().map(|candidate| normalised(candidate, weighting)).collect()
    }

    /// The weight of a token in each response where only some tokens count.
    fn weights_of(&self, reduction: &Weighing, weighting: &Weighting) -> Vec<f64> {
        let mut kept = weighting.kept.iter();
        let count = |r: &Response| {
            let count = kept.next()?.iter().filter(|k| **k).count();
            Some(count).filter(|n| *n > 0 && !(reduction.masked && r.truncated))
        };
        let mut counts = self.batch.iter().flat_map(|g| &g.responses).map(count);
        let of_group = |g: &Group| counts.by_ref().take(g.responses.len()).collect();
        let counts: Vec<_> = self.batch.iter().map(of_group).collect();
        parts::weights(reduction.reduction, &counts, reduction.parts.as_deref())
    }

    fn weighting(&self, loss: &TokenLoss, words: &str) -> Option<Weighting> {
        let signs = corrections::signs(&self.credits[loss.made_by.1]);
        corrections::weighting(self.batch, self.logps, &signs, words)
    }

    /// The corrections that the tokens of a quantity point to: with each KL term, and without one.
    fn suggested(
        &self,
        loss: &TokenLoss,
        policy: &Rows,
        kl: &[&Rows],
        theirs: &Rows,
    ) -> Vec<(String, Weighting)> {
        let signs = corrections::signs(&self.credits[loss.made_by.1]);
        let mut words: Vec<String> = Vec::new();
        for kl in kl.iter().copied().map(Some).chain([None]) {
            words.extend(self.sampler.suggestions(policy, kl, theirs, &signs, self.assumed.tolerance));
        }
        words.sort();
        words.dedup();
        let with_weights = |words: String| {
            let found = self.weighting(loss, &words)?;
            let usual = corrections::usual(self.batch, self.logps, (&signs, policy), &words, &found);
            match usual {
                Some(usual) => Some((usual.clone(), self.weighting(loss, &usual)?)),
                None => Some((words, found)),
            }
        };
        words.into_iter().filter_map(with_weights).collect()
    }

    /// The loss of a token under a correction, which multiplies the loss of every token before a ratio spreads its slope.
    fn under(&self, loss: &TokenLoss, weighting: &Weighting, words: &str) -> TokenLoss {
        let (configured, command, _) = &self.methods[loss.made_by.0];
        let rows = self.credits[loss.made_by.1].clone();
        let credits = configured.method.credit_given(self.batch, rows.clone());
        let responses = self.batch.iter().flat_map(|g| &g.responses);
        let slopes = responses.zip(credits).zip(self.logps).zip(&weighting.weights).map(
            |(((r, own), logps), weights)| {
                configured.method.loss(r, &Credit { weights: weights.clone(), ..own }, logps).dlogps
            },
        );
        let times = |(values, weights): (&Vec<f64>, &Vec<f64>)| {
            values.iter().zip(weights).map(|(v, w)| v * w).collect()
        };
        let labels =
            corrections::labels(self.batch, self.logps, &corrections::signs(&rows), &loss.slopes, weighting);
        TokenLoss {
            values: loss.values.iter().zip(&weighting.weights).map(times).collect(),
            slopes: slopes.collect(),
            command: format!("{command} {words}"),
            labels: loss.labels.clone(),
            advantages: loss.advantages.clone(),
            made_by: loss.made_by,
            correction: Some((words.to_owned(), labels)),
        }
    }

    /// Explanations of a gradient with one KL term: its coefficient fitted alone, and with a common factor.
    fn with_kl(
        &self,
        loss: &TokenLoss,
        term: &KlTerm,
        reduction: &Weighing,
        (policy, kl): (&Rows, &Rows),
        theirs: &Rows,
    ) -> Vec<Candidate> {
        let beta = self.assumed.beta.or_else(|| fit::one(kl, &fit::sum(theirs, -1.0, policy)));
        let plain = beta.map(|beta| {
            let ours = fit::sum(policy, beta, kl);
            candidate(loss, Some(term), Some(reduction), &ours, theirs, 1.0, beta)
        });
        let both = fit::two(policy, kl, theirs).filter(|(factor, _)| *factor != 0.0).map(|(factor, b)| {
            let ours = fit::sum(&fit::sum(policy, factor - 1.0, policy), b, kl);
            candidate(loss, Some(term), Some(reduction), &ours, theirs, factor, b / factor)
        });
        // A coefficient whose term is smaller than what counts as equal is the noise of a fit.
        let least = self.assumed.tolerance * fit::largest(theirs);
        let reported = |c: &Candidate| c.beta * c.factor * fit::largest(kl) > least;
        [plain, both].into_iter().flatten().filter_map(plausible).filter(reported).collect()
    }

    fn finished(&self, quantity: &'static str, tried: Vec<Candidate>, theirs: &Rows) -> Found {
        let mut found = Found::from(quantity, tried, self.assumed.tolerance);
        if !found.explained() {
            found.remainder = self.remainder(quantity, theirs);
        }
        found
    }

    /// The remainder of explanations without any fit: the simplest remainder of all, and the nearest of those that have it.
    fn remainder(&self, quantity: &str, theirs: &Rows) -> Option<(Remainder, String)> {
        // A term of another coefficient or sign is weighted like the rest.
        let reductions: Vec<(Option<&Weighing>, Vec<Rows>)> = match quantity {
            "gradient" => {
                let terms = |r: &Weighing| self.kl.iter().map(|kl| weighed(&kl.slopes, &r.weights)).collect();
                self.reductions.iter().map(|r| (Some(r), terms(r))).collect()
            }
            _ => vec![(None, self.kl.iter().map(|kl| kl.values.clone()).collect())],
        };
        let ratios = self.ratios();
        let mut best: Option<(Remainder, f64, String)> = None;
        for loss in &self.losses {
            for (reduction, kl_terms) in &reductions {
                let (ours, name) = match reduction {
                    Some(r) => (weighed(&loss.slopes, &r.weights), format!(" reduction={}", r.name)),
                    None => (loss.values.clone(), String::new()),
                };
                let left = Remainder::between(&ours, theirs, &ratios, kl_terms, self.assumed.tolerance);
                let distance = fit::difference(&ours, theirs).0;
                let better = |(other, far, _): &(Remainder, f64, String)| {
                    (left.rank(), distance) < (other.rank(), *far)
                };
                if best.as_ref().is_none_or(better) {
                    best = Some((left, distance, format!("{}{name}", loss.command)));
                }
            }
        }
        best.map(|(left, _, neighbour)| (left, neighbour))
    }

    /// The ratio of every token.
    fn ratios(&self) -> Rows {
        let responses = self.batch.iter().flat_map(|g| &g.responses).zip(self.logps);
        responses
            .map(|(r, logps)| logps.iter().zip(&r.old_logps).map(|(new, old)| (new - old).exp()).collect())
            .collect()
    }
}

/// An explanation with a KL coefficient that someone could have set: positive, and not the noise of a fit.
fn plausible(candidate: Candidate) -> Option<Candidate> {
    (candidate.beta > 1e-7 && candidate.factor > 0.0).then_some(candidate)
}

/// The explanation with weights that were divided by their mean over the batch, where its factor is the inverse of that mean.
fn normalised(candidate: Candidate, weighting: &Weighting) -> Candidate {
    let tokens: Vec<f64> = weighting.weights.iter().flatten().copied().collect();
    let firsts: Vec<f64> = weighting.weights.iter().filter_map(|row| row.first().copied()).collect();
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len().max(1) as f64;
    let inverse = |mean: f64| (mean - 1.0).abs() > 1e-6 && (candidate.factor * mean - 1.0).abs() < 1e-6;
    if !(inverse(mean(&tokens)) || inverse(mean(&firsts))) {
        return candidate;
    }
    let what =
        format!("{}; weights over their mean in the batch, which no setting here does", candidate.what);
    let mut labels = candidate.labels.clone();
    labels.push("verl rollout_is_batch_normalize=True".to_owned());
    let beta = candidate.beta * candidate.factor;
    let command =
        candidate.command.replace(&format!(" beta={:.6}", candidate.beta), &format!(" beta={beta:.6}"));
    Candidate { what, labels, command, beta, factor: 1.0, ..candidate }
}

/// The policy term alone times the factor that fits best.
fn scaled(loss: &TokenLoss, reduction: &Weighing, policy: &Rows, theirs: &Rows) -> Option<Candidate> {
    let factor = fit::one(policy, theirs).filter(|factor| *factor > 0.0)?;
    let ours = fit::sum(policy, factor - 1.0, policy);
    Some(candidate(loss, None, Some(reduction), &ours, theirs, factor, 0.0))
}

fn candidate(
    loss: &TokenLoss,
    kl: Option<&KlTerm>,
    reduction: Option<&Weighing>,
    ours: &Rows,
    theirs: &Rows,
    factor: f64,
    beta: f64,
) -> Candidate {
    let (error, place) = fit::difference(ours, theirs);
    let of_parts = reduction.is_some_and(|r| r.parts.is_some());
    let mut command = loss.command.clone();
    let policy = loss.correction.as_ref().and_then(|(words, _)| loss.command.strip_suffix(words.as_str()));
    let mut what = vec![format!("loss of a token: {}", policy.unwrap_or(&loss.command).trim_end())];
    if !loss.advantages.is_empty() {
        what.insert(0, format!("advantages: {}", loss.advantages));
    }
    if let Some((words, _)) = &loss.correction {
        what.push(format!("correction: {words}"));
    }
    if let Some(kl) = kl {
        what.push(format!("KL: {}", kl.name));
        command += &format!(" beta={beta:.6} kl={}", kl.name);
    }
    let same = reduction.map_or(Vec::new(), |reduction| reduction.same.clone());
    if let Some(reduction) = reduction {
        let each = if of_parts { " of each micro-batch" } else { "" };
        let same =
            if same.is_empty() { String::new() } else { format!(" (the same here: {})", same.join(", ")) };
        what.push(format!("reduction: {}{each}{same}", reduction.name));
        command += &format!(" reduction={}", reduction.name);
    }
    let what = what.join("; ");
    let fits = |label: &&Label| match (&label.reduction, reduction) {
        // A convention whose micro-batch is a group here.
        (Some(own), Some(_)) if of_parts => own == "group_token_mean",
        (Some(own), Some(reduction)) => {
            let mut names = std::iter::once(&reduction.name).chain(&reduction.same);
            names.any(|name| name.split(' ').next() == Some(own.as_str()))
        }
        _ => true,
    };
    let mut labels: Vec<String> = loss.labels.iter().filter(fits).map(|label| label.words.clone()).collect();
    labels.extend(loss.correction.iter().flat_map(|(_, labels)| labels).cloned());
    let correction = loss.correction.as_ref().map_or(String::new(), |(words, _)| words.clone());
    Candidate { what, command, labels, error, place, factor, beta, correction, of_parts, same }
}
