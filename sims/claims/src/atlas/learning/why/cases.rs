//! One reading of GRPO-lambda against GRPO on one task, under every regime.

use super::{CLAMP, QUANTITIES, READINGS, Regime};
use crate::atlas::learning::competitors::Competitor;
use crate::atlas::learning::exact::{Update, half_learned, with_length};
use crate::atlas::learning::results::{Cell, Trainer, TrainingResults};
use crate::training::paired;
use grpo_lambda_mdp::{Oracle, Tabular};
use grpo_lambda_stats::{Bootstrap, Interval, mean, paired_permutation};

/// One reading on one task.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    pub(crate) reading: usize,
    pub(crate) task: String,
    /// One of the ranked tasks, rather than a random one.
    pub(crate) named: bool,
    /// True if expectations are exact; else from sampled groups.
    pub(crate) exact: bool,
    /// Difference of the area against responses, per [`Regime`].
    pub(crate) gains: [Interval; 6],
    /// Paired permutation test of the tuned gain.
    pub(crate) p: f64,
    /// `p` corrected over the tasks of this reading.
    pub(crate) p_holm: f64,
    /// One per [`QUANTITIES`].
    pub(crate) quantities: [f64; QUANTITIES.len()],
}

impl Case {
    /// 1 or -1 where the interval of the gain excludes 0, else 0.
    pub(crate) fn sign(&self, regime: Regime) -> i8 {
        let gain = self.gains[regime as usize];
        i8::from(gain.low > 0.0) - i8::from(gain.high < 0.0)
    }
}

/// GRPO on a task: what all readings are compared with.
pub(super) struct GrpoOnTask {
    /// GRPO at a sixteenth of its best rate.
    slow: Cell,
    /// A policy in the middle of learning.
    half: Tabular,
    /// The correlation of advantage and expected length, initial policy.
    longer: f64,
    /// GRPO's expected update at the initial and at the half-learned policy.
    updates: [Update; 2],
}

impl GrpoOnTask {
    pub(super) fn new(trainer: &Trainer, results: &TrainingResults, t: usize) -> anyhow::Result<GrpoOnTask> {
        let (task, grpo) = (&results.tasks[t], &results.competitors[0]);
        let slow = trainer.report(grpo, task, results.cells[0][t].rate / 16.0)?;
        let (method, half) = (grpo.build(task)?, half_learned(task));
        let update = |policy| Update::new(task, method.as_ref(), policy, trainer.ctx.seed);
        let updates = [update(&task.start), update(&half)];
        let oracle = Oracle::new(&task.tree, &task.start);
        let longer = with_length(&oracle, &oracle.advantages());
        Ok(GrpoOnTask { slow, half, longer, updates })
    }
}

/// Sign flips drawn per test.
const DRAWS: usize = 4999;

/// A task with the results on it, and with what all readings share.
#[derive(Clone, Copy)]
pub(super) struct TaskResults<'a> {
    pub(super) results: &'a TrainingResults,
    pub(super) grpo: &'a GrpoOnTask,
    /// The task's place in the results.
    pub(super) task: usize,
    /// One of the ranked tasks.
    pub(super) named: bool,
}

impl Case {
    /// `None` where a quantity is not defined: an update that is 0.
    pub(super) fn new(
        trainer: &Trainer,
        on_task: TaskResults,
        reading: usize,
        bootstrap: Bootstrap,
    ) -> anyhow::Result<Option<Case>> {
        let who = on_task.find(READINGS[reading])?;
        let pairs = on_task.pairs(trainer, who)?;
        let gain = |(x, y): &(Cell, Cell)| gain(areas(x), areas(y), bootstrap);
        let Some(gains) = pairs.iter().map(gain).collect::<Option<Vec<_>>>() else { return Ok(None) };
        let (ours, grpo) = &pairs[Regime::Tuned as usize];
        let test = paired_permutation(&areas(ours), &areas(grpo), DRAWS, bootstrap.seed);
        let updates = on_task.updates(trainer, who)?;
        let quantities = on_task.quantities(&updates, ours, bootstrap)?;
        let known = quantities.iter().all(|x| x.is_finite());
        let exact = updates.iter().chain(&on_task.grpo.updates).all(|update| update.exact);
        Ok(known.then(|| Case {
            reading,
            task: on_task.results.tasks[on_task.task].name.clone(),
            named: on_task.named,
            exact,
            gains: std::array::from_fn(|i| gains[i]),
            p: test.map_or(1.0, |test| test.p),
            p_holm: 1.0,
            quantities,
        }))
    }
}

impl TaskResults<'_> {
    /// The place of a competitor in the results.
    fn find(self, name: &str) -> anyhow::Result<usize> {
        self.results.find(name).ok_or_else(|| anyhow::anyhow!("{name} does not take part"))
    }

    /// The runs of a reading and those of GRPO that they are compared with, per [`Regime`].
    fn pairs(self, trainer: &Trainer, who: usize) -> anyhow::Result<[(Cell, Cell); 6]> {
        let (task, competitor) = (&self.results.tasks[self.task], self.results.competitors[who]);
        let unit = competitor.with_unit_mean();
        let (grpo, slow) = (&self.results.cells[0][self.task], &self.grpo.slow);
        let tuned = self.results.cells[who][self.task].clone();
        let tuned_unit = trainer.report(&unit, task, trainer.choose(&unit, task)?.rate)?;
        // A rate that was run already is not run again.
        let at = |c: &Competitor, done: &[&Cell], rate: f64| match done.iter().find(|cell| cell.rate == rate)
        {
            Some(&cell) => Ok(cell.clone()),
            None => trainer.report(c, task, rate),
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
    fn updates(self, trainer: &Trainer, who: usize) -> anyhow::Result<[Update; 2]> {
        let task = &self.results.tasks[self.task];
        let method = self.results.competitors[who].build(task)?;
        let policies = [&task.start, &self.grpo.half];
        Ok(policies.map(|policy| Update::new(task, method.as_ref(), policy, trainer.ctx.seed)))
    }

    /// One per [`QUANTITIES`], of a reading with these updates and runs at its own best rate.
    fn quantities(
        self,
        ours: &[Update; 2],
        tuned: &Cell,
        bootstrap: Bootstrap,
    ) -> anyhow::Result<[f64; QUANTITIES.len()]> {
        let task = &self.results.tasks[self.task];
        let theirs = &self.grpo.updates;
        let cosine = |i: usize| ours[i].comparison.cosine - theirs[i].comparison.cosine;
        let snr = |i: usize| ours[i].comparison.signal_to_noise / theirs[i].comparison.signal_to_noise;
        let length_bias = ours[0].with_length - theirs[0].with_length;
        let (clamp, grpo) =
            (&self.results.cells[self.find(CLAMP)?][self.task], &self.results.cells[0][self.task]);
        let clamped = gain(areas(clamp), areas(grpo), bootstrap).map_or(f64::NAN, |g| g.mid);
        let ends = |cell: &Cell| cell.runs.iter().map(|run| run.last).collect::<Vec<f64>>();
        let last = match (mean(&ends(tuned)), mean(&ends(grpo))) {
            (Some(ours), Some(theirs)) => ours - theirs,
            _ => f64::NAN,
        };
        Ok([
            cosine(0),
            cosine(1),
            (ours[0].norm / theirs[0].norm).log2(),
            snr(0).log2(),
            snr(1).log2(),
            self.grpo.longer,
            length_bias,
            length_bias * self.grpo.longer,
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

/// The difference of means, runs drawn in pairs.
fn gain(x: Vec<f64>, y: Vec<f64>, bootstrap: Bootstrap) -> Option<Interval> {
    paired(bootstrap, &[x], &[y], |x, y| x - y)
}
