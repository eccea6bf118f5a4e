//! Search for the convention that explains given numbers: advantages, losses of tokens, a gradient or a loss, on a known batch.
//!
//! [`diagnose`] is a pure search. Advantages are compared with those of every entry of [`super::all`]. A loss is the product of three choices, the
//! loss of a token, the KL term and the reduction; all combinations are tried, the KL coefficient and a common factor (gradient accumulation,
//! data-parallel workers) are fitted where the numbers determine them.

mod advantages;
mod corrections;
mod fit;
mod losses;
mod parts;
mod remainder;

pub use corrections::SETTINGS as CORRECTION_SETTINGS;
pub use fit::largest_difference;
pub use remainder::Remainder;

use grpo_lambda::group::{Group, InputKind};

/// Numbers per token, response by response in flat order.
pub type Rows = Vec<Vec<f64>>;

/// Another trainer's numbers on a batch; unknown ones are `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Theirs {
    /// The advantage of every token.
    pub advantages: Option<Rows>,
    /// The loss of every token before the reduction, the KL term in it.
    pub token_losses: Option<Rows>,
    /// The derivative of the loss by every log-probability.
    pub gradient: Option<Rows>,
    /// The loss: of the batch alone, or one number per group, which are shares that add up or the batch's loss again and again. Empty where
    /// it is unknown.
    pub loss: Vec<f64>,
}

impl Theirs {
    /// The number of every group, where several groups were given the same one: a trainer has one loss, and it stands on every line.
    fn repeated_loss(&self) -> Option<f64> {
        let [first, others @ ..] = &self.loss[..] else { return None };
        let repeated = !others.is_empty() && *first != 0.0 && others.iter().all(|x| x == first);
        repeated.then_some(*first)
    }

    /// The batch's loss, as it is most likely meant; none where it is unknown.
    pub fn batch_loss(&self) -> Option<f64> {
        self.repeated_loss().or_else(|| (!self.loss.is_empty()).then(|| self.loss.iter().sum()))
    }
}

/// The search's assumptions.
#[derive(Clone, Debug, PartialEq)]
pub struct Assumptions {
    /// Largest difference that counts as equal, relative to the largest of their numbers. Numbers in 32 bits differ by about 1e-6.
    pub tolerance: f64,
    /// The KL coefficient, where it is known; a loss alone cannot determine it.
    pub beta: Option<f64>,
    /// The constant length of Dr. GRPO, where it is known.
    pub max_length: Option<f64>,
    /// The correction of the sampler's mismatch, in settings, where it is known: `correction=token_truncate correction_high=3`.
    pub correction: Option<String>,
    /// The micro-batch of every response, from 0, where the loss is the mean of that of several.
    pub parts: Option<Vec<usize>>,
}

impl Default for Assumptions {
    fn default() -> Assumptions {
        Assumptions { tolerance: 1e-5, beta: None, max_length: None, correction: None, parts: None }
    }
}

impl Assumptions {
    /// With the micro-batch of every response, in flat order.
    ///
    /// # Errors
    /// If a number below the largest is no response's.
    pub fn with_parts(self, parts: Vec<usize>) -> Result<Assumptions, String> {
        let last = parts.iter().max().copied().unwrap_or(0);
        match (0..=last.min(parts.len())).find(|part| !parts.contains(part)) {
            Some(gap) => {
                Err(format!("parts: no response has {gap}; number the micro-batches from 0 without a gap"))
            }
            None => Ok(Assumptions { parts: Some(parts), ..self }),
        }
    }
}

/// One explanation of their numbers.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Candidate {
    /// The explanation in words: an advantage, or loss of a token, KL term and reduction.
    pub what: String,
    /// Method and settings that compute it here; where several do, one of them.
    pub command: String,
    /// The conventions of which the advantages or the loss of a token are these.
    pub labels: Vec<String>,
    /// Largest difference from their numbers, relative to the largest of these.
    pub error: f64,
    /// The place of that difference: response and token, from 0; none for a loss.
    pub place: Option<(usize, usize)>,
    /// Their numbers over ours: 1 but where the whole batch was scaled.
    pub factor: f64,
    /// The KL coefficient, 0 without a KL term.
    pub beta: f64,
    /// The correction of the sampler's mismatch in the command; empty for none.
    pub correction: String,
    /// True if the command computes it on each micro-batch, and the loss is their mean.
    pub of_parts: bool,
    /// The reductions that give the same as the command's on this batch.
    pub same: Vec<String>,
}

impl Candidate {
    /// The number of conventions that it stands for: its own, and those that coincide on this batch.
    pub fn count(&self) -> usize {
        1 + self.same.len()
    }
}

/// The search's result for one quantity.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Found {
    /// The name of the quantity, as a field of [`Theirs`].
    pub quantity: &'static str,
    /// Every explanation within the tolerance: more than one where conventions coincide on this batch.
    pub matches: Vec<Candidate>,
    /// The best explanation where none is within the tolerance.
    pub nearest: Option<Candidate>,
    /// The unexplained rest, with the method and settings it was taken next to.
    pub remainder: Option<(Remainder, String)>,
    /// Number of explanations tried.
    pub tried: usize,
    /// The suspicion that their numbers do not stand where they belong, or the way in which they were read; empty for none.
    pub note: String,
}

impl Found {
    /// True if an explanation is within the tolerance.
    pub fn explained(&self) -> bool {
        !self.matches.is_empty()
    }

    /// From all explanations that were tried, the best first. Those count as matches that the numbers cannot tell from the best.
    fn from(quantity: &'static str, mut tried: Vec<Candidate>, tolerance: f64) -> Found {
        tried.sort_by(|a, b| a.error.total_cmp(&b.error).then(a.command.len().cmp(&b.command.len())));
        let count = tried.iter().map(Candidate::count).sum();
        let best = tried.first().map_or(f64::INFINITY, |c| c.error);
        if best > tolerance {
            return Found {
                quantity,
                matches: Vec::new(),
                nearest: tried.into_iter().next(),
                remainder: None,
                tried: count,
                note: String::new(),
            };
        }
        // Numbers known to the last bit tell conventions apart that differ by less than the tolerance.
        let equal = tolerance.min((INDISTINGUISHABLE * best).max(ROUNDING));
        tried.retain(|c| c.error <= equal);
        let tried = simplest(tried);
        Found { quantity, matches: tried, nearest: None, remainder: None, tried: count, note: String::new() }
    }
}

/// The simplest of explanations that differ in nothing but a factor of the whole batch: those without one, else those whose factor or its inverse is a
/// whole number, as steps of accumulation and workers are.
fn simplest(matches: Vec<Candidate>) -> Vec<Candidate> {
    let near = |x: f64, y: f64| (x - y).abs() <= 1e-5 * y.abs();
    let whole = |x: f64| near(x, x.round()) && x.round() >= 1.0;
    let plain = |c: &Candidate| near(c.factor, 1.0);
    let counted = |c: &Candidate| whole(c.factor) || whole(1.0 / c.factor);
    let kept: Vec<Candidate> = match (matches.iter().any(plain), matches.iter().any(counted)) {
        (true, _) => matches.into_iter().filter(plain).collect(),
        (_, true) => matches.into_iter().filter(counted).collect(),
        _ => matches,
    };
    let mut found: Vec<Candidate> = Vec::new();
    for candidate in kept {
        if !found.iter().any(|c| c.what == candidate.what && c.command == candidate.command) {
            found.push(candidate);
        }
    }
    found
}

/// Two explanations whose errors are within this factor of each other are not distinguished.
const INDISTINGUISHABLE: f64 = 30.0;
/// An error that is rounding in 64 bits.
const ROUNDING: f64 = 1e-12;

/// The search's result for each given quantity.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Diagnosis {
    /// Result for the advantages.
    pub advantages: Option<Found>,
    /// Result for the losses of tokens.
    pub token_losses: Option<Found>,
    /// Result for the gradient.
    pub gradient: Option<Found>,
    /// Result for the loss.
    pub loss: Option<Found>,
}

impl Diagnosis {
    /// The results in the order of the quantities.
    pub fn found(&self) -> impl Iterator<Item = &Found> {
        [&self.advantages, &self.token_losses, &self.gradient, &self.loss].into_iter().flatten()
    }
}

/// Finds the convention that gives `theirs`, computed on `batch` at log-probabilities `logps` in flat order.
///
/// A loss is explained with their advantages where these are given, else with the advantages of each convention in turn.
///
/// # Panics
/// If a list of `theirs` or `logps` does not have one entry per token, or the known micro-batches not one per response.
pub fn diagnose(batch: &[Group], logps: &[Vec<f64>], theirs: &Theirs, assumed: &Assumptions) -> Diagnosis {
    let lengths: Vec<usize> = batch.iter().flat_map(|g| &g.responses).map(|r| r.len()).collect();
    let rows = [&theirs.advantages, &theirs.token_losses, &theirs.gradient];
    for rows in rows.into_iter().flatten() {
        assert!(rows.iter().map(Vec::len).eq(lengths.iter().copied()), "one number per token");
    }
    assert!(assumed.parts.iter().all(|parts| parts.len() == lengths.len()), "one micro-batch per response");
    let known = advantages::known(batch);
    let credits = match &theirs.advantages {
        Some(given) => vec![advantages::Credited::given(given.clone())],
        None => known.clone(),
    };
    let search = losses::Search::new(batch, logps, &credits, assumed);
    let missing = missing(batch, theirs);
    let reported = |found: Found| match found.explained() || !found.note.is_empty() || missing.is_empty() {
        true => found,
        false => Found { note: missing.clone(), ..found },
    };
    let gradient = theirs.gradient.as_ref().map(|given| search.gradient(given));
    let hidden = losses::Hidden::new(gradient.as_ref(), assumed);
    let refuted = |found: Found| match gradient.as_ref().is_some_and(|g| !g.explained()) && found.explained()
    {
        true if found.note.is_empty() => Found { note: BY_CHANCE.to_owned(), ..found },
        _ => found,
    };
    let loss = search.batch_loss(theirs, &hidden).map(reported).map(refuted);
    Diagnosis {
        advantages: theirs
            .advantages
            .as_ref()
            .map(|given| advantages::explain(batch, &known, given, assumed)),
        token_losses: theirs.token_losses.as_ref().map(|given| reported(search.token_losses(given))),
        gradient: gradient.map(reported),
        loss,
    }
}

/// The inputs that would decide what nothing explains, in words; empty where none is missing.
fn missing(batch: &[Group], theirs: &Theirs) -> String {
    let responses = || batch.iter().flat_map(|g| &g.responses);
    let lacks = |kind: InputKind| responses().any(|r| !kind.is_in(r));
    let all = [
        (theirs.advantages.is_none(), IN_ORDER),
        (lacks(InputKind::SamplerLogps), OF_SAMPLER),
        (lacks(InputKind::RefLogps), OF_REFERENCE),
    ];
    all.into_iter().filter(|(lacks, _)| *lacks).map(|(_, text)| text).collect::<Vec<_>>().join("; ")
}

const BY_CHANCE: &str =
    "nothing gives the gradient, so that what gives the one number of the loss may do so by chance";
const OF_SAMPLER: &str =
    "a correction of the sampler's mismatch, or a mask by it, shows only with sampler_logps";
const OF_REFERENCE: &str = "a KL term shows only with ref_logps";
const IN_ORDER: &str = "the rows were read in the order of the batch, as only advantages would show if they stand in another; give these, \
     too (grpo_lambda.trl.record does)";

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(what: &str, error: f64, factor: f64) -> Candidate {
        let (what, command) = (what.to_owned(), what.to_owned());
        Candidate {
            what,
            command,
            labels: Vec::new(),
            error,
            place: None,
            factor,
            beta: 0.0,
            correction: String::new(),
            of_parts: false,
            same: Vec::new(),
        }
    }

    fn kept(tried: &[Candidate]) -> Vec<&str> {
        let found = Found::from("gradient", tried.to_vec(), 1e-6);
        assert_eq!((found.tried, found.nearest), (tried.len(), None));
        let name = |c: Candidate| tried.iter().position(|t| *t == c).expect("one of them");
        found.matches.into_iter().map(name).map(|i| tried[i].what.as_str()).collect()
    }

    #[test]
    fn of_explanations_that_fit_equally_those_without_a_factor_stay_then_those_with_a_whole_one() {
        let [plain, near] = [candidate("plain", 1e-13, 1.0), candidate("near", 1e-13, 1.0 + 5e-6)];
        let [twice, third] = [candidate("twice", 1e-13, 2.0), candidate("third", 1e-13, 1.0 / 3.0)];
        let [odd, turned] = [candidate("odd", 1e-13, 0.7), candidate("turned", 1e-13, -2.0)];
        let all = [&odd, &third, &near, &twice, &plain, &turned].map(Clone::clone);
        assert_eq!(kept(&all), ["near", "plain"]);
        assert_eq!(kept(&[odd.clone(), third.clone(), twice.clone(), turned.clone()]), ["third", "twice"]);
        assert_eq!(kept(&[odd.clone(), twice.clone()]), ["twice"]);
        assert_eq!(kept(&[odd.clone(), third]), ["third"]);
        // Whole within the same share of a large number.
        assert_eq!(kept(&[odd.clone(), candidate("many", 1e-13, 64.0005)]), ["many"]);
        assert_eq!(kept(&[odd.clone(), candidate("no number", 1e-13, 64.005)]), ["odd", "no number"]);
        assert_eq!(kept(&[odd.clone(), turned]), ["odd", "turned"]);
        // One explanation is reported once; the same words under another command are another.
        let other = Candidate { command: "with other settings".to_owned(), ..odd.clone() };
        assert_eq!(kept(&[odd.clone(), odd.clone(), other]), ["odd", "odd"]);
    }

    #[test]
    fn explanations_that_fit_worse_are_dropped_and_none_within_the_tolerance_leaves_the_nearest() {
        let [best, equal, worse] =
            [1e-11, 2.9e-10, 3.1e-10].map(|error| candidate(&format!("{error}"), error, 1.0));
        assert_eq!(kept(&[worse.clone(), equal, best]), ["0.00000000001", "0.00000000029"]);
        let at = Found::from("loss", vec![candidate("at", 1e-6, 1.0)], 1e-6);
        assert_eq!((at.matches.len(), at.nearest), (1, None));
        let above =
            Found::from("loss", vec![candidate("far", 2e-6, 1.0), candidate("near", 1.1e-6, 1.0)], 1e-6);
        assert_eq!(above.matches, []);
        assert_eq!(above.nearest.map(|c| c.what).as_deref(), Some("near"));
    }
}
