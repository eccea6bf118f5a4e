//! One reading of GRPO-lambda against GRPO on one task, under every regime.

use grpo_lambda::mdp::{Oracle, Tabular};
use grpo_lambda::stats::{Bootstrap, Interval, iqm, paired_permutation};

use super::quantities::{CLAMP, QUANTITIES, READINGS, Regime};
use crate::atlas::learning::competitors::Competitor;
use crate::atlas::learning::exact::{Update, half_learned, with_length};
use crate::atlas::learning::field::{Cell, Field, Lab};

/// One reading on one task.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::atlas::learning) struct Case {
    /// Index into [`READINGS`].
    pub(in crate::atlas::learning) reading: usize,
    /// The task.
    pub(in crate::atlas::learning) task: String,
    /// One of the ranked tasks, rather than a random one.
    pub(in crate::atlas::learning) named: bool,
    /// Whether expectations are exact; else from sampled groups.
    pub(in crate::atlas::learning) exact: bool,
    /// Difference of the area against responses, per [`Regime`].
    pub(in crate::atlas::learning) gains: [Interval; 6],
    /// Paired permutation test of the tuned gain.
    pub(in crate::atlas::learning) p: f64,
    /// The same, corrected over the tasks of this reading.
    pub(in crate::atlas::learning) p_holm: f64,
    /// One per [`QUANTITIES`].
    pub(in crate::atlas::learning) quantities: [f64; QUANTITIES.len()],
}

impl Case {
    /// 1 or -1 where the interval of the gain excludes 0, else 0.
    pub(in crate::atlas::learning) fn sign(&self, regime: Regime) -> i8 {
        let gain = self.gains[regime as usize];
        i8::from(gain.low > 0.0) - i8::from(gain.high < 0.0)
    }
}

/// What all readings share on a task.
pub(super) struct Ground {
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
    pub(super) fn new(lab: &Lab, field: &Field, t: usize) -> anyhow::Result<Ground> {
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

/// Sign flips drawn per test.
const DRAWS: usize = 4999;

/// A task of a field with what all readings share on it.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) field: &'a Field,
    pub(super) ground: &'a Ground,
    /// The task's place in the field.
    pub(super) task: usize,
    /// One of the ranked tasks.
    pub(super) named: bool,
}

impl Case {
    /// `None` where a quantity is not defined: an update that is 0.
    ///
    /// # Errors
    /// If settings are refused or the store cannot write.
    pub(super) fn new(
        lab: &Lab,
        place: Place,
        reading: usize,
        bootstrap: Bootstrap,
    ) -> anyhow::Result<Option<Case>> {
        let who = place.find(READINGS[reading])?;
        let pairs = place.pairs(lab, who)?;
        let gain = |(x, y): &(Cell, Cell)| gain(&areas(x), &areas(y), bootstrap);
        let Some(gains) = pairs.iter().map(gain).collect::<Option<Vec<_>>>() else { return Ok(None) };
        let (ours, grpo) = &pairs[Regime::Tuned as usize];
        let test = paired_permutation(&areas(ours), &areas(grpo), DRAWS, bootstrap.seed);
        let updates = place.updates(lab, who)?;
        let quantities = place.quantities(&updates, ours, bootstrap)?;
        let known = quantities.iter().all(|x| x.is_finite());
        let exact = updates.iter().chain(&place.ground.grpo).all(|update| update.exact);
        Ok(known.then(|| Case {
            reading,
            task: place.field.tasks[place.task].name.clone(),
            named: place.named,
            exact,
            gains: std::array::from_fn(|i| gains[i]),
            p: test.map_or(1.0, |test| test.p),
            p_holm: 1.0,
            quantities,
        }))
    }
}

impl Place<'_> {
    /// The place of a competitor in the field.
    fn find(self, name: &str) -> anyhow::Result<usize> {
        self.field.find(name).ok_or_else(|| anyhow::anyhow!("{name} does not take part"))
    }

    /// The runs of a reading and those of GRPO that they are compared with, per [`Regime`].
    fn pairs(self, lab: &Lab, who: usize) -> anyhow::Result<[(Cell, Cell); 6]> {
        let (task, competitor) = (&self.field.tasks[self.task], self.field.competitors[who]);
        let unit = competitor.with_unit_mean();
        let (grpo, slow) = (&self.field.cells[0][self.task], &self.ground.slow);
        let tuned = self.field.cells[who][self.task].clone();
        let tuned_unit = lab.report(&unit, task, lab.choose(&unit, task)?.rate)?;
        // A rate that was run already is not run again.
        let at = |c: &Competitor, done: &[&Cell], rate: f64| match done.iter().find(|cell| cell.rate == rate)
        {
            Some(&cell) => Ok(cell.clone()),
            None => lab.report(c, task, rate),
        };
        let equal = at(&competitor, &[&tuned], grpo.rate)?;
        let equal_unit = at(&unit, &[&tuned_unit], grpo.rate)?;
        let cautious = at(&competitor, &[&tuned, &equal], slow.rate)?;
        let cautious_unit = at(&unit, &[&tuned_unit, &equal_unit], slow.rate)?;
        Ok([
            (tuned, grpo.clone()),
            (tuned_unit, grpo.clone()),
            (equal, grpo.clone()),
            (equal_unit, grpo.clone()),
            (cautious, slow.clone()),
            (cautious_unit, slow.clone()),
        ])
    }

    /// The expected update of a reading at the initial and at the half-learned policy.
    fn updates(self, lab: &Lab, who: usize) -> anyhow::Result<[Update; 2]> {
        let task = &self.field.tasks[self.task];
        let method = self.field.competitors[who].build(task)?;
        let policies = [&task.start, &self.ground.half];
        Ok(policies.map(|policy| Update::new(task, method.as_ref(), policy, lab.ctx.seed)))
    }

    /// One per [`QUANTITIES`], of a reading with these updates and runs at its own best rate.
    fn quantities(
        self,
        ours: &[Update; 2],
        tuned: &Cell,
        bootstrap: Bootstrap,
    ) -> anyhow::Result<[f64; QUANTITIES.len()]> {
        let (ground, task) = (self.ground, &self.field.tasks[self.task]);
        let theirs = &ground.grpo;
        let cosine = |i: usize| ours[i].comparison.cosine - theirs[i].comparison.cosine;
        let snr = |i: usize| ours[i].comparison.signal_to_noise / theirs[i].comparison.signal_to_noise;
        let length_bias = ours[0].with_length - theirs[0].with_length;
        let (clamp, grpo) =
            (&self.field.cells[self.find(CLAMP)?][self.task], &self.field.cells[0][self.task]);
        let clamped = gain(&areas(clamp), &areas(grpo), bootstrap).map_or(f64::NAN, |g| g.mid);
        let ends = |cell: &Cell| cell.runs.iter().map(|run| run.last).collect::<Vec<f64>>();
        let last = match (iqm(&ends(tuned)), iqm(&ends(grpo))) {
            (Some(ours), Some(theirs)) => ours - theirs,
            _ => f64::NAN,
        };
        Ok([
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
        ])
    }
}

/// Areas against responses.
fn areas(cell: &Cell) -> Vec<f64> {
    cell.runs.iter().map(|run| run.area[0]).collect()
}

/// The difference of IQMs, runs drawn in pairs.
fn gain(x: &[f64], y: &[f64], bootstrap: Bootstrap) -> Option<Interval> {
    let numbers: Vec<f64> = (0..x.len()).map(|i| i as f64).collect();
    let pick = |of: &[f64], drawn: &[f64]| {
        iqm(&drawn.iter().map(|&i| of[i as usize]).collect::<Vec<_>>()).unwrap_or(f64::NAN)
    };
    bootstrap.interval(&[numbers], |drawn| pick(x, &drawn[0]) - pick(y, &drawn[0]))
}
