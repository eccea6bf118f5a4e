//! Where GRPO-lambda gains or loses, and which exact quantities say so beforehand.

use grpo_lambda::mdp::expected::{Expected, Situation, compare, implied, sampled};
use grpo_lambda::mdp::{Oracle, Tabular};
use grpo_lambda::stats::{Bootstrap, Interval, holm, iqm, paired_permutation, spearman};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::competitors::Competitor;
use super::field::{Cell, Field, Lab};
use crate::training::GROUP;
use crate::training::task::Task;

/// The readings of GRPO-lambda that are explained; the first is the headline's.
pub(super) const READINGS: [&str; 4] =
    ["GRPO-λ recent", "GRPO-λ both", "GRPO-λ recent, no clamp", "GRPO-λ both, no clamp"];
/// GRPO with nothing of GRPO-lambda but its clamp.
pub(super) const CLAMP: &str = "GRPO, clamp -0.1";

/// At what learning rate a reading and GRPO meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Regime {
    /// Each at its own best rate.
    Tuned,
    /// Each at its own best rate, the reading's weights divided by their mean over each response.
    TunedUnit,
    /// Both at GRPO's best rate.
    Equal,
    /// Both at GRPO's best rate, weights divided by their mean over each response.
    EqualUnit,
    /// Both at a sixteenth of GRPO's best rate.
    Cautious,
}

impl Regime {
    /// In the order of tables.
    pub(super) const ALL: [Regime; 5] =
        [Regime::Tuned, Regime::TunedUnit, Regime::Equal, Regime::EqualUnit, Regime::Cautious];

    /// The word in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Regime::Tuned => "tuned",
            Regime::TunedUnit => "tuned_unit_mean",
            Regime::Equal => "equal_rate",
            Regime::EqualUnit => "equal_rate_unit_mean",
            Regime::Cautious => "equal_rate_16th",
        }
    }
}

/// What might explain a gain: its name in tables, what it is, and whether its sign predicts that of the gain.
pub(super) struct Quantity {
    /// The word in tables.
    pub(super) name: &'static str,
    /// For a reader.
    pub(super) about: &'static str,
    /// Whether a positive value should go with a gain.
    pub(super) signed: bool,
}

const fn quantity(name: &'static str, about: &'static str, signed: bool) -> Quantity {
    Quantity { name, about, signed }
}

/// The quantities, of the reading against GRPO. All but the last are exact and known before any training.
pub(super) const QUANTITIES: [Quantity; 10] = [
    quantity("cosine", "cosine of E[g] with ∇J, less GRPO's, initial policy", true),
    quantity("cosine_half", "the same at the half-learned policy", true),
    quantity("log2_step", "log2 of |E[g]| over GRPO's, initial policy", true),
    quantity("log2_snr", "log2 of the signal to noise of the update over GRPO's, initial policy", true),
    quantity("log2_snr_half", "the same at the half-learned policy", true),
    quantity("longer_is_better", "correlation of advantage and expected length, initial policy", false),
    quantity(
        "length_bias",
        "error of the credit per sd of expected length over the rms advantage, less GRPO's",
        false,
    ),
    quantity("helpful_length_bias", "length_bias times longer_is_better", true),
    quantity("start", "J/J* of the initial policy", false),
    quantity("clamp_gain", "measured gain of GRPO with the clamp alone, each at its own best rate", true),
];

/// One reading on one task.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Case {
    /// Index into [`READINGS`].
    pub(super) reading: usize,
    /// The task.
    pub(super) task: String,
    /// One of the ranked tasks, rather than a random one.
    pub(super) named: bool,
    /// Whether expectations are exact; else from sampled groups.
    pub(super) exact: bool,
    /// Difference of the area against responses, per [`Regime`].
    pub(super) gains: [Interval; 5],
    /// Paired permutation test of the tuned gain.
    pub(super) p: f64,
    /// The same, corrected over the tasks of this reading.
    pub(super) p_holm: f64,
    /// One per [`QUANTITIES`].
    pub(super) quantities: [f64; 10],
}

impl Case {
    /// 1 or -1 where the interval of the gain excludes 0, else 0.
    pub(super) fn sign(&self, regime: Regime) -> i8 {
        let gain = self.gains[regime as usize];
        i8::from(gain.low > 0.0) - i8::from(gain.high < 0.0)
    }
}

/// How a quantity goes with the gains of a reading over tasks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Correlation {
    /// Index into [`READINGS`].
    pub(super) reading: usize,
    /// The gains.
    pub(super) regime: Regime,
    /// Index into [`QUANTITIES`].
    pub(super) quantity: usize,
    /// Spearman's rank correlation, with its interval over draws of tasks.
    pub(super) rho: Interval,
    /// Permutation test of no association.
    pub(super) p: f64,
    /// The same, corrected over the quantities.
    pub(super) p_holm: f64,
    /// Tasks.
    pub(super) tasks: usize,
    /// Of the tasks with a decided gain, how many have the quantity's sign, and how many there are.
    pub(super) agree: (usize, usize),
    /// The tasks with a decided gain of the other sign.
    pub(super) against: Vec<String>,
}

impl Correlation {
    /// Whether the association is there after correction and its interval excludes 0.
    pub(super) fn explains(&self) -> bool {
        self.p_holm <= 0.05 && !self.rho.contains(0.0)
    }
}

/// Everything about GRPO-lambda against GRPO.
pub(super) struct Why {
    /// Every reading on every task.
    pub(super) cases: Vec<Case>,
    /// Every quantity with every reading and regime.
    pub(super) correlations: Vec<Correlation>,
}

/// Compares the readings with GRPO under every regime on the tasks of both fields: the ranked ones and more.
///
/// # Errors
/// If settings are refused or the store cannot write.
pub(super) fn explain(
    lab: &Lab,
    (named, random): (&Field, &Field),
    bootstrap: Bootstrap,
    tick: &(dyn Fn() + Sync),
) -> anyhow::Result<Why> {
    let mut cases = Vec::new();
    for (reading, &name) in READINGS.iter().enumerate() {
        let of_field = |field: &Field, is_named: bool| -> anyhow::Result<Vec<Case>> {
            let case = |t: usize| {
                let case = one(lab, field, t, (reading, name), is_named, bootstrap);
                tick();
                case
            };
            (0..field.tasks.len()).into_par_iter().filter_map(|t| case(t).transpose()).collect()
        };
        let mut own = of_field(named, true)?;
        own.extend(of_field(random, false)?);
        let corrected = holm(&own.iter().map(|case| case.p).collect::<Vec<_>>());
        own.iter_mut().zip(corrected).for_each(|(case, p)| case.p_holm = p);
        cases.extend(own);
    }
    let keys: Vec<(usize, Regime)> =
        (0..READINGS.len()).flat_map(|r| Regime::ALL.into_iter().map(move |regime| (r, regime))).collect();
    let of = |&(reading, regime): &(usize, Regime)| correlate(&cases, reading, regime, bootstrap);
    let correlations = keys.par_iter().map(of).collect::<Vec<_>>().concat();
    Ok(Why { cases, correlations })
}

/// Flips and shuffles drawn per test.
const DRAWS: usize = 4999;

/// `None` where a quantity is not defined: an update that is 0.
fn one(
    lab: &Lab,
    field: &Field,
    t: usize,
    (reading, name): (usize, &str),
    named: bool,
    bootstrap: Bootstrap,
) -> anyhow::Result<Option<Case>> {
    let place = |name: &str| field.find(name).ok_or_else(|| anyhow::anyhow!("{name} does not take part"));
    let (who, clamp) = (place(name)?, place(CLAMP)?);
    let (task, competitor) = (&field.tasks[t], field.competitors[who]);
    let unit = competitor.with_unit_mean();
    let grpo = &field.cells[0][t];
    let equal = |c: &Competitor, rate: f64| lab.report(c, task, rate);
    let tuned_unit = lab.report(&unit, task, lab.choose(&unit, task)?.rate)?;
    let cautious = grpo.rate / 16.0;
    let pairs = [
        (field.cells[who][t].clone(), grpo.clone()),
        (tuned_unit, grpo.clone()),
        (equal(&competitor, grpo.rate)?, grpo.clone()),
        (equal(&unit, grpo.rate)?, grpo.clone()),
        (equal(&competitor, cautious)?, equal(&field.competitors[0], cautious)?),
    ];
    let areas = |cell: &Cell| cell.runs.iter().map(|run| run.area[0]).collect::<Vec<f64>>();
    let gain = |(x, y): &(Cell, Cell)| gain(&areas(x), &areas(y), bootstrap);
    let Some(gains) = pairs.iter().map(gain).collect::<Option<Vec<_>>>() else { return Ok(None) };
    let test = paired_permutation(&areas(&pairs[0].0), &areas(grpo), DRAWS, bootstrap.seed);

    let method = competitor.build(task)?;
    let baseline = field.competitors[0].build(task)?;
    let half = half_learned(task);
    let (mut exact, seed) = (true, lab.ctx.seed);
    let mut update = |method: &dyn grpo_lambda::methods::Method, policy: &Tabular| {
        let situation = Situation::on_policy(&task.tree, policy, GROUP);
        implied(method, &situation).unwrap_or_else(|_| {
            exact = false;
            sampled(method, &situation, SAMPLED_GROUPS, seed).estimate
        })
    };
    let pair =
        |policy: &Tabular,
         update: &mut dyn FnMut(&dyn grpo_lambda::methods::Method, &Tabular) -> Expected| {
            let oracle = Oracle::new(&task.tree, policy);
            let both = [update(method.as_ref(), policy), update(baseline.as_ref(), policy)];
            let numbers = [0, 1].map(|i| compare(&both[i], &oracle));
            let bias = [0, 1].map(|i| length_bias(&both[i], numbers[i].scale, &oracle));
            let norm = [0, 1].map(|i| both[i].update.iter().map(|x| x * x).sum::<f64>().sqrt());
            (numbers, bias, norm, longer_is_better(&oracle))
        };
    let (start, bias, norm, longer) = pair(&task.start, &mut update);
    let (later, ..) = pair(&half, &mut update);
    let helpful = (bias[0] - bias[1]) * longer;
    let clamped = gain(&(field.cells[clamp][t].clone(), grpo.clone())).map_or(f64::NAN, |g| g.mid);
    let quantities = [
        start[0].cosine - start[1].cosine,
        later[0].cosine - later[1].cosine,
        (norm[0] / norm[1]).log2(),
        (start[0].signal_to_noise / start[1].signal_to_noise).log2(),
        (later[0].signal_to_noise / later[1].signal_to_noise).log2(),
        longer,
        bias[0] - bias[1],
        helpful,
        task.start_j / task.best,
        clamped,
    ];
    let known = quantities.iter().all(|x| x.is_finite());
    Ok(known.then(|| Case {
        reading,
        task: task.name.clone(),
        named,
        exact,
        gains: std::array::from_fn(|i| gains[i]),
        p: test.map_or(1.0, |test| test.p),
        p_holm: 1.0,
        quantities,
    }))
}

/// Groups where the exact sum would take too long.
const SAMPLED_GROUPS: usize = 4000;

/// The difference of IQMs, runs drawn in pairs.
fn gain(x: &[f64], y: &[f64], bootstrap: Bootstrap) -> Option<Interval> {
    let numbers: Vec<f64> = (0..x.len()).map(|i| i as f64).collect();
    let pick = |of: &[f64], drawn: &[f64]| {
        iqm(&drawn.iter().map(|&i| of[i as usize]).collect::<Vec<_>>()).unwrap_or(f64::NAN)
    };
    bootstrap.interval(&[numbers], |drawn| pick(x, &drawn[0]) - pick(y, &drawn[0]))
}

/// Where exact gradient ascent has gone half of the way from `J` to `J*`: a policy in the middle of learning that no method
/// has chosen.
fn half_learned(task: &Task) -> Tabular {
    let mut policy = task.start.clone();
    let goal = task.start_j + 0.5 * (task.best - task.start_j);
    // Steps of one length: only the path matters. A path this long ends in a corner for certain.
    for _ in 0..2000 {
        let oracle = Oracle::new(&task.tree, &policy);
        let gradient = oracle.grad_j();
        let norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
        if oracle.j >= goal || norm == 0.0 {
            break;
        }
        policy.step(&gradient, 0.05 / norm);
    }
    policy
}

/// `Σ b f(s,a)` over edges, `b` the probability of the edge.
fn weighted(oracle: &Oracle, f: impl Fn(usize) -> f64) -> f64 {
    oracle.tree.edges().map(|e| oracle.edge_visit(e) * f(e)).sum()
}

/// A number per edge less its mean at the prefix.
fn centred(oracle: &Oracle, values: &[f64]) -> Vec<f64> {
    let mut out = values.to_vec();
    for node in oracle.tree.nodes() {
        let edges = oracle.tree.edges_of(node);
        let mean: f64 = edges.clone().map(|e| oracle.probs[e] * values[e]).sum();
        edges.for_each(|e| out[e] -= mean);
    }
    out
}

/// How much longer than its siblings each edge makes a response, in expectation.
fn lengths(oracle: &Oracle) -> Vec<f64> {
    centred(oracle, &oracle.expect_given_edge(|leaf| oracle.tree.leaf_len(leaf) as f64))
}

/// The correlation of advantage and expected length over visited edges, in `[-1, 1]`; 0 where all lengths agree.
fn longer_is_better(oracle: &Oracle) -> f64 {
    let (a, l) = (oracle.advantages(), lengths(oracle));
    let product = (weighted(oracle, |e| a[e] * a[e]) * weighted(oracle, |e| l[e] * l[e])).sqrt();
    if product > 1e-12 { weighted(oracle, |e| a[e] * l[e]) / product } else { 0.0 }
}

/// How the error of the credit, at the scale `κ` that fits best, goes with expected length: its covariance with it over the
/// root mean squares of advantage and length. Positive: longer responses get too much.
fn length_bias(expected: &Expected, scale: f64, oracle: &Oracle) -> f64 {
    let (a, l, credit) = (oracle.advantages(), lengths(oracle), centred(oracle, &expected.credit));
    let product = (weighted(oracle, |e| a[e] * a[e]) * weighted(oracle, |e| l[e] * l[e])).sqrt();
    let error = weighted(oracle, |e| (credit[e] / scale - a[e]) * l[e]);
    if product > 1e-12 { error / product } else { 0.0 }
}

/// The correlations of all quantities with the gains of a reading.
fn correlate(cases: &[Case], reading: usize, regime: Regime, bootstrap: Bootstrap) -> Vec<Correlation> {
    let own: Vec<&Case> = cases.iter().filter(|case| case.reading == reading).collect();
    let gains: Vec<f64> = own.iter().map(|case| case.gains[regime as usize].mid).collect();
    let of = |q: usize| {
        let values: Vec<f64> = own.iter().map(|case| case.quantities[q]).collect();
        let numbers: Vec<f64> = (0..own.len()).map(|i| i as f64).collect();
        let rho = bootstrap.interval(&[numbers], |drawn| {
            let pick = |of: &[f64]| drawn[0].iter().map(|&i| of[i as usize]).collect::<Vec<_>>();
            spearman(&pick(&values), &pick(&gains)).unwrap_or(0.0)
        })?;
        let decided = || own.iter().filter(|case| case.sign(regime) != 0);
        let same = |case: &&&Case| case.quantities[q] * f64::from(case.sign(regime)) > 0.0;
        let against: Vec<String> = match QUANTITIES[q].signed {
            true => decided().filter(|case| !same(case)).map(|case| case.task.clone()).collect(),
            false => Vec::new(),
        };
        Some(Correlation {
            reading,
            regime,
            quantity: q,
            rho,
            p: association(&values, &gains, bootstrap.seed),
            p_holm: 1.0,
            tasks: own.len(),
            agree: (decided().filter(same).count(), decided().count()),
            against,
        })
    };
    let mut all: Vec<Correlation> = (0..QUANTITIES.len()).filter_map(of).collect();
    let corrected = holm(&all.iter().map(|c| c.p).collect::<Vec<_>>());
    all.iter_mut().zip(corrected).for_each(|(c, p)| c.p_holm = p);
    all
}

/// Permutation test of Spearman's correlation, two-sided: the share of shuffles at least as far from 0.
fn association(x: &[f64], y: &[f64], seed: u64) -> f64 {
    let Some(observed) = spearman(x, y) else { return 1.0 };
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut shuffled = y.to_vec();
    let mut extreme = 0;
    for _ in 0..DRAWS {
        shuffled.shuffle(&mut rng);
        extreme += usize::from(spearman(x, &shuffled).is_some_and(|r| r.abs() >= observed.abs() - 1e-12));
    }
    (extreme + 1) as f64 / (DRAWS + 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::task;
    use grpo_lambda::mdp::zoo::{self, Family};
    use grpo_lambda::methods;

    #[test]
    fn length_bias_of_fork_by_hand() {
        // At the root: short (T = 2, Q .9, π .1), long (T = 50, Q .8, π .2), astray (T = 10, Q 0, π .7); elsewhere no choice.
        let tree = zoo::Fork::default().tree().unwrap();
        let policy = zoo::Fork::default().initial(&tree);
        let oracle = Oracle::new(&tree, &policy);
        let (pi, q, t) = ([0.1, 0.2, 0.7], [0.9, 0.8, 0.0], [2.0, 50.0, 10.0]);
        let mean = |x: [f64; 3]| (0..3).map(|i| pi[i] * x[i]).sum::<f64>();
        let (v, m) = (mean(q), mean(t));
        let sum = |f: &dyn Fn(usize) -> f64| (0..3).map(|i| pi[i] * f(i)).sum::<f64>();
        let product = (sum(&|i| (q[i] - v).powi(2)) * sum(&|i| (t[i] - m).powi(2))).sqrt();
        let correlation = sum(&|i| (q[i] - v) * (t[i] - m)) / product;
        assert!((longer_is_better(&oracle) - correlation).abs() < 1e-12);
        // Credit that is the advantage plus 0.01 per token, at scale 3.
        let credit = tree.edges().map(|e| if e < 3 { 3.0 * (q[e] + 0.01 * t[e]) } else { 0.0 }).collect();
        let expected = Expected { credit, update: Vec::new(), variance: Vec::new() };
        let by_hand = sum(&|i| 0.01 * (t[i] - m) * (t[i] - m)) / product;
        assert!((length_bias(&expected, 3.0, &oracle) - by_hand).abs() < 1e-12);
        // RLOO is unbiased: nothing goes with length.
        let rloo = methods::parse("rloo", "reduction=constant max_length=1");
        if let Ok(rloo) = rloo {
            let update = implied(rloo.method.as_ref(), &Situation::on_policy(&tree, &policy, GROUP)).unwrap();
            assert!(length_bias(&update, compare(&update, &oracle).scale, &oracle).abs() < 1e-9);
        }
    }

    #[test]
    fn the_half_learned_policy_is_half_way() {
        for task in task::tasks(false).unwrap() {
            let j = Oracle::new(&task.tree, &half_learned(&task)).j;
            let share = (j - task.start_j) / (task.best - task.start_j);
            assert!((0.5..0.6).contains(&share), "{}: {share}", task.name);
        }
    }

    #[test]
    fn a_planted_explanation_is_found_and_noise_is_not() {
        let level = |mid: f64| Interval { low: mid - 0.01, mid, high: mid + 0.01, level: 0.95 };
        let case = |i: usize| {
            let x = (i as f64 - 9.5) / 100.0;
            let noise = ((i * 7919) % 20) as f64 - 9.5;
            let mut quantities = [noise; 10];
            quantities[0] = x;
            Case {
                reading: 0,
                task: format!("{i}"),
                named: true,
                exact: true,
                gains: [level(x); 5],
                p: 1.0,
                p_holm: 1.0,
                quantities,
            }
        };
        let cases: Vec<Case> = (0..20).map(case).collect();
        let all = correlate(&cases, 0, Regime::Tuned, Bootstrap { resamples: 300, ..Bootstrap::default() });
        assert!(all[0].explains() && all[0].rho.mid == 1.0 && all[0].against.is_empty());
        assert_eq!(all[0].agree, (18, 18)); // |gain| <= 0.01 is not decided
        assert!(!all[1].explains(), "{:?}", all[1]);
    }
}
