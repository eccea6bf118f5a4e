//! One reading of GRPO-lambda against GRPO on one task, under every regime.

use super::{CLAMP, QUANTITIES, READINGS, Regime};
use crate::atlas::learning::competitors::Competitor;
use crate::atlas::learning::results::{Cell, Trainer, TrainingResults};
use crate::training::{GROUP, Task, paired};
use grpo_lambda::methods::Method;
use grpo_lambda_mdp::expected::{Comparison, Situation, compare, implied, sampled};
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

/// Groups where the exact sum would take too long.
const SAMPLED_GROUPS: usize = 4000;

/// A method's expected update at a policy.
#[derive(Clone, Copy, Debug)]
struct Update {
    /// Against the policy gradient.
    comparison: Comparison,
    /// The correlation of its credit with expected length; see [`with_length`].
    with_length: f64,
    /// `|E[g]|` at learning rate 1.
    norm: f64,
    /// True if the expectation is exact, not from [`SAMPLED_GROUPS`].
    exact: bool,
}

impl Update {
    /// The update of one group of [`GROUP`], on policy.
    fn new(task: &Task, method: &dyn Method, policy: &Tabular, seed: u64) -> Update {
        let situation = Situation::on_policy(&task.tree, policy, GROUP);
        let oracle = Oracle::new(&task.tree, policy);
        let (expected, exact) = match implied(method, &situation) {
            Ok(expected) => (expected, true),
            Err(_) => (sampled(method, &situation, SAMPLED_GROUPS, seed).estimate, false),
        };
        Update {
            comparison: compare(&expected, &oracle),
            with_length: with_length(&oracle, &expected.credit),
            norm: expected.update.iter().map(|x| x * x).sum::<f64>().sqrt(),
            exact,
        }
    }
}

/// The policy at which exact gradient ascent has gone half of the way from `J` to `J*`: one in the middle of learning that no method
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

/// Expected extra length of a response by edge, over its siblings.
fn lengths(oracle: &Oracle) -> Vec<f64> {
    centred(oracle, &oracle.expect_given_edge(|leaf| oracle.tree.leaf_len(leaf) as f64))
}

/// The correlation of credit, or of the advantage, with expected length over visited edges, both less their mean at the prefix, in
/// `[-1, 1]`; 0 where all lengths agree.
fn with_length(oracle: &Oracle, credit: &[f64]) -> f64 {
    let (c, l) = (centred(oracle, credit), lengths(oracle));
    let product = (weighted(oracle, |e| c[e] * c[e]) * weighted(oracle, |e| l[e] * l[e])).sqrt();
    if product > 1e-12 { weighted(oracle, |e| c[e] * l[e]) / product } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda::methods;
    use grpo_lambda_mdp::zoo::{self, Family};

    #[test]
    fn the_correlation_of_credit_and_length_on_fork_by_hand() {
        // At the root: short (T = 2, Q .9, π .1), long (T = 50, Q .8, π .2), astray (T = 10, Q 0, π .7); elsewhere no choice.
        let tree = zoo::Fork::default().tree().unwrap();
        let policy = zoo::Fork::default().initial(&tree);
        let oracle = Oracle::new(&tree, &policy);
        let (pi, q, t) = ([0.1, 0.2, 0.7], [0.9, 0.8, 0.0], [2.0, 50.0, 10.0]);
        let mean = |x: [f64; 3]| (0..3).map(|i| pi[i] * x[i]).sum::<f64>();
        let sum = |f: &dyn Fn(usize) -> f64| (0..3).map(|i| pi[i] * f(i)).sum::<f64>();
        let deviation = |x: [f64; 3]| sum(&|i| (x[i] - mean(x)).powi(2)).sqrt();
        let correlation =
            |x: [f64; 3]| sum(&|i| (x[i] - mean(x)) * (t[i] - mean(t))) / (deviation(x) * deviation(t));
        assert!((with_length(&oracle, &oracle.advantages()) - correlation(q)).abs() < 1e-12);
        // Credit with 0.01 per token on top.
        let padded = [0, 1, 2].map(|i| q[i] + 0.01 * t[i]);
        let credit: Vec<f64> = tree.edges().map(|e| if e < 3 { padded[e] } else { 0.0 }).collect();
        assert!((with_length(&oracle, &credit) - correlation(padded)).abs() < 1e-12);
        assert!(correlation(padded) > correlation(q) + 0.05);
        // Dr. GRPO is unbiased: its credit goes with length as the advantage does.
        let dr = methods::parse("dr_grpo", "max_length=50").unwrap();
        let task = Task::with_start("fork", "", tree.clone(), policy.clone());
        let update = Update::new(&task, dr.method.as_ref(), &policy, 1);
        assert!(update.exact && (update.with_length - correlation(q)).abs() < 1e-9);
        assert!((update.comparison.cosine - 1.0).abs() < 1e-12 && update.norm > 0.0);
    }

    #[test]
    fn the_half_learned_policy_is_half_way() {
        for task in crate::training::tasks(false).unwrap() {
            let j = Oracle::new(&task.tree, &half_learned(&task)).j;
            let share = (j - task.start_j) / (task.best - task.start_j);
            assert!((0.5..0.6).contains(&share), "{}: {share}", task.name);
        }
    }
}
