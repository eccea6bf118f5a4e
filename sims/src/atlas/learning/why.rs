//! Where GRPO-lambda gains or loses, and which exact quantities say so beforehand.

use grpo_lambda::mdp::{Oracle, Tabular};
use grpo_lambda::stats::{Bootstrap, Interval, holm, iqm, paired_permutation, spearman};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::competitors::Competitor;
use super::exact::{Update, half_learned, with_length};
use super::field::{Cell, Field, Lab};

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
    /// Both at a sixteenth of GRPO's best rate, weights divided by their mean over each response.
    CautiousUnit,
}

impl Regime {
    /// In the order of tables.
    pub(super) const ALL: [Regime; 6] = [
        Regime::Tuned,
        Regime::TunedUnit,
        Regime::Equal,
        Regime::EqualUnit,
        Regime::Cautious,
        Regime::CautiousUnit,
    ];

    /// The word in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Regime::Tuned => "tuned",
            Regime::TunedUnit => "tuned_unit_mean",
            Regime::Equal => "equal_rate",
            Regime::EqualUnit => "equal_rate_unit_mean",
            Regime::Cautious => "equal_rate_16th",
            Regime::CautiousUnit => "equal_rate_16th_unit_mean",
        }
    }
}

/// What might explain a gain: its name in tables, what it is, and whether its sign predicts that of the gain.
pub(super) struct Quantity {
    /// The word in tables.
    pub(super) name: &'static str,
    /// For a reader of the table of correlations.
    pub(super) about: &'static str,
    /// Whether a positive value should go with a gain.
    pub(super) signed: bool,
}

const fn quantity(name: &'static str, about: &'static str, signed: bool) -> Quantity {
    Quantity { name, about, signed }
}

/// The quantities, of the reading against GRPO. All but the last two are exact and known before any training.
pub(super) const QUANTITIES: [Quantity; 11] = [
    quantity("cosine", "cosine of E[g] with ∇J, less GRPO's, initial policy", true),
    quantity("cosine_half", "the same at the half-learned policy", true),
    quantity("log2_step", "log2 of |E[g]| over GRPO's, initial policy", true),
    quantity("log2_snr", "log2 of the signal to noise of the update over GRPO's, initial policy", true),
    quantity("log2_snr_half", "the same at the half-learned policy", true),
    quantity("longer_is_better", "correlation of advantage and expected length, initial policy", false),
    quantity("length_bias", "correlation of credit and expected length, less GRPO's, initial policy", false),
    quantity("helpful_length_bias", "length_bias times longer_is_better", true),
    quantity("start", "J/J* of the initial policy", false),
    quantity("clamp_gain", "measured gain of GRPO with the clamp alone, each at its own best rate", true),
    quantity(
        "final_gain",
        "measured difference of J/J* after the last update, each at its own best rate",
        true,
    ),
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
    pub(super) gains: [Interval; 6],
    /// Paired permutation test of the tuned gain.
    pub(super) p: f64,
    /// The same, corrected over the tasks of this reading.
    pub(super) p_holm: f64,
    /// One per [`QUANTITIES`].
    pub(super) quantities: [f64; 11],
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
    let grounds = |field: &Field| -> anyhow::Result<Vec<Ground>> {
        (0..field.tasks.len()).into_par_iter().map(|t| Ground::new(lab, field, t)).collect()
    };
    let (of_named, of_random) = (grounds(named)?, grounds(random)?);
    let mut cases = Vec::new();
    for (reading, &name) in READINGS.iter().enumerate() {
        let of_field = |field: &Field, ground: &[Ground], is_named: bool| -> anyhow::Result<Vec<Case>> {
            let case = |t: usize| {
                let case = one(lab, (field, &ground[t]), t, (reading, name), is_named, bootstrap);
                tick();
                case
            };
            (0..field.tasks.len()).into_par_iter().filter_map(|t| case(t).transpose()).collect()
        };
        let mut own = of_field(named, &of_named, true)?;
        own.extend(of_field(random, &of_random, false)?);
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

/// What all readings share on a task.
struct Ground {
    /// GRPO at a sixteenth of its best rate.
    slow: Cell,
    /// A policy in the middle of learning.
    half: Tabular,
    /// The correlation of advantage and expected length, initial policy.
    longer: f64,
    /// GRPO's expected update at the initial and at the half-learned policy.
    grpo: [Update; 2],
}

impl Ground {
    fn new(lab: &Lab, field: &Field, t: usize) -> anyhow::Result<Ground> {
        let (task, grpo) = (&field.tasks[t], &field.competitors[0]);
        let slow = lab.report(grpo, task, field.cells[0][t].rate / 16.0)?;
        let (method, half) = (grpo.build(task)?, half_learned(task));
        let update = |policy| Update::new(task, method.as_ref(), policy, lab.ctx.seed);
        let updates = [update(&task.start), update(&half)];
        let oracle = Oracle::new(&task.tree, &task.start);
        let longer = with_length(&oracle, &oracle.advantages());
        Ok(Ground { slow, half, longer, grpo: updates })
    }
}

/// Flips and shuffles drawn per test.
const DRAWS: usize = 4999;

/// `None` where a quantity is not defined: an update that is 0.
fn one(
    lab: &Lab,
    (field, ground): (&Field, &Ground),
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
    let tuned = field.cells[who][t].clone();
    let tuned_unit = lab.report(&unit, task, lab.choose(&unit, task)?.rate)?;
    // A rate that was run already is not run again.
    let at = |c: &Competitor, done: &[&Cell], rate: f64| match done.iter().find(|cell| cell.rate == rate) {
        Some(&cell) => Ok(cell.clone()),
        None => lab.report(c, task, rate),
    };
    let equal = at(&competitor, &[&tuned], grpo.rate)?;
    let equal_unit = at(&unit, &[&tuned_unit], grpo.rate)?;
    let cautious = at(&competitor, &[&tuned, &equal], ground.slow.rate)?;
    let cautious_unit = at(&unit, &[&tuned_unit, &equal_unit], ground.slow.rate)?;
    let pairs = [
        (tuned, grpo.clone()),
        (tuned_unit, grpo.clone()),
        (equal, grpo.clone()),
        (equal_unit, grpo.clone()),
        (cautious, ground.slow.clone()),
        (cautious_unit, ground.slow.clone()),
    ];
    let areas = |cell: &Cell| cell.runs.iter().map(|run| run.area[0]).collect::<Vec<f64>>();
    let gain = |(x, y): &(Cell, Cell)| gain(&areas(x), &areas(y), bootstrap);
    let Some(gains) = pairs.iter().map(gain).collect::<Option<Vec<_>>>() else { return Ok(None) };
    let test = paired_permutation(&areas(&pairs[0].0), &areas(grpo), DRAWS, bootstrap.seed);

    let method = competitor.build(task)?;
    let policies = [&task.start, &ground.half];
    let ours = policies.map(|policy| Update::new(task, method.as_ref(), policy, lab.ctx.seed));
    let theirs = &ground.grpo;
    let cosine = |i: usize| ours[i].comparison.cosine - theirs[i].comparison.cosine;
    let snr = |i: usize| ours[i].comparison.signal_to_noise / theirs[i].comparison.signal_to_noise;
    let length_bias = ours[0].with_length - theirs[0].with_length;
    let clamped = gain(&(field.cells[clamp][t].clone(), grpo.clone())).map_or(f64::NAN, |g| g.mid);
    let ends = |cell: &Cell| cell.runs.iter().map(|run| run.last).collect::<Vec<f64>>();
    let last = match (iqm(&ends(&pairs[0].0)), iqm(&ends(grpo))) {
        (Some(ours), Some(theirs)) => ours - theirs,
        _ => f64::NAN,
    };
    let quantities = [
        cosine(0),
        cosine(1),
        (ours[0].norm / theirs[0].norm).log2(),
        snr(0).log2(),
        snr(1).log2(),
        ground.longer,
        length_bias,
        length_bias * ground.longer,
        task.start_j / task.best,
        clamped,
        last,
    ];
    let known = quantities.iter().all(|x| x.is_finite());
    Ok(known.then(|| Case {
        reading,
        task: task.name.clone(),
        named,
        exact: ours.iter().chain(theirs).all(|update| update.exact),
        gains: std::array::from_fn(|i| gains[i]),
        p: test.map_or(1.0, |test| test.p),
        p_holm: 1.0,
        quantities,
    }))
}

/// The difference of IQMs, runs drawn in pairs.
fn gain(x: &[f64], y: &[f64], bootstrap: Bootstrap) -> Option<Interval> {
    let numbers: Vec<f64> = (0..x.len()).map(|i| i as f64).collect();
    let pick = |of: &[f64], drawn: &[f64]| {
        iqm(&drawn.iter().map(|&i| of[i as usize]).collect::<Vec<_>>()).unwrap_or(f64::NAN)
    };
    bootstrap.interval(&[numbers], |drawn| pick(x, &drawn[0]) - pick(y, &drawn[0]))
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

    #[test]
    fn a_planted_explanation_is_found_and_noise_is_not() {
        let level = |mid: f64| Interval { low: mid - 0.01, mid, high: mid + 0.01, level: 0.95 };
        let case = |i: usize| {
            let x = (i as f64 - 9.5) / 100.0;
            let noise =
                [3, 17, 8, 12, 0, 19, 5, 10, 14, 1, 7, 16, 2, 11, 18, 6, 13, 4, 9, 15][i] as f64 - 9.5;
            let mut quantities = [noise; 11];
            quantities[0] = x;
            Case {
                reading: 0,
                task: format!("{i}"),
                named: true,
                exact: true,
                gains: [level(x); 6],
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
