//! Rows (exact over groups) and reuse of every method on every task, then trust regions.

use super::pairs::{
    Fit, Pair, Synthetic, ascent, divergence, noisy, pairs, rate_of, synthetic, tasks, tempered,
};
use super::row::{Mode, Regions, Row};
use crate::atlas::entries::{ENTRIES, Entry, Family, Source, entry};
use crate::atlas::multisets::{Groups, Ratios, given};
use crate::experiment::Context;
use crate::experiments::common::{difference, norm};
use crate::training::{GROUP, Task};
use grpo_lambda::learner::{Samples, update};
use grpo_lambda::methods::{Configured, Method};
use grpo_lambda_mdp::extra_inputs::Exact;
use grpo_lambda_mdp::{Oracle, Tabular, TabularLearner};
use grpo_lambda_stats::t_interval;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

pub(super) struct Numbers {
    pub(super) size: usize,
    pub(super) batches: usize,
    pub(super) rows: Vec<Row>,
    pub(super) reused: Vec<Reused>,
    pub(super) synthetic: Vec<Synthetic>,
    pub(super) pairs: Vec<Pair>,
}

/// Reuse of one method on one task, as it is tabulated; index `k-1` is after `k` updates. Means over batches, with 95 % t-intervals as low, mid, high.
#[derive(Serialize, Deserialize)]
pub(super) struct Reused {
    pub(super) mdp: String,
    pub(super) method: String,
    /// `J - J_0`.
    pub(super) gain: Vec<[f64; 3]>,
    /// `KL(sampler || updated)` in nats per response.
    pub(super) kl: Vec<f64>,
    /// `J` after all updates minus `J` after the first.
    pub(super) more: [f64; 3],
}

pub(super) fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let size = if context.full { 8 } else { 4 };
    let batches = if context.full { 1000 } else { 100 };
    let tasks = tasks()?;
    let mut work = Vec::new();
    for task in &tasks {
        for (entry, configured) in entries(task)? {
            work.push(Piece { context, task, entry, configured, size, batches });
        }
    }
    let done = context.pieces(0.0..0.9, work.len());
    let result = |piece: &Piece| {
        let result = (piece.rows()?, piece.reused()?);
        done(&format!("{}, {}", piece.task.name, piece.entry.name));
        Ok(result)
    };
    let results = work.par_iter().map(result).collect::<anyhow::Result<Vec<_>>>()?;
    let (rows, reused): (Vec<Vec<Row>>, Vec<Option<Reused>>) = results.into_iter().unzip();
    (context.progress)(0.92, "trust region");
    Ok(Numbers {
        size,
        batches,
        rows: rows.concat(),
        reused: reused.into_iter().flatten().collect(),
        synthetic: synthetic(context.seed, if context.full { 20_000 } else { 2_000 }),
        pairs: pairs(context.seed)?,
    })
}

/// One method on one task; what it gives is kept by the store of a long run.
struct Piece<'a> {
    context: &'a Context<'a>,
    task: &'a Task,
    entry: &'static Entry,
    configured: Configured,
    size: usize,
    batches: usize,
}

impl Piece<'_> {
    fn key(&self, part: &str) -> String {
        format!("{part} {} {}", self.task.name, self.entry.name)
    }

    fn rows(&self) -> anyhow::Result<Vec<Row>> {
        let Context { store, seed, .. } = *self.context;
        store.piece(&self.key("rows"), || rows(self.task, self.entry, &self.configured, self.size, seed))
    }

    /// `None` if the method does not move the policy, or its extra inputs are not the table's, which a learner has.
    fn reused(&self) -> anyhow::Result<Option<Reused>> {
        self.context.store.piece(&self.key("reuse"), || {
            if self.entry.source == Source::Table { self.reuse() } else { Ok(None) }
        })
    }

    fn reuse(&self) -> anyhow::Result<Option<Reused>> {
        let rate = reuse_rate(self.task, self.entry, self.configured.method.as_ref())?;
        Ok(rate.and_then(|rate| self.reuse_at(rate)))
    }

    /// Updates batches of their own, each [`UPDATES`] times.
    fn reuse_at(&self, rate: f64) -> Option<Reused> {
        let (tree, start) = (&self.task.tree, &self.task.start);
        let mut gains = vec![Vec::new(); UPDATES];
        let mut kl = vec![0.0; UPDATES];
        for i in 0..self.batches {
            let stream = self.context.seed.wrapping_mul(1_000_003).wrapping_add(i as u64);
            let mut learner = TabularLearner::new(tree, start.clone(), rate, stream).with_inputs();
            let before = learner.j();
            let Ok(batch) = learner.sample(&[()], GROUP);
            for k in 0..UPDATES {
                let Ok(_) = update(&mut learner, self.configured.method.as_ref(), &[()], &batch, 1);
                gains[k].push(learner.j() - before);
                kl[k] += divergence(tree, start, learner.policy()) / self.batches as f64;
            }
        }
        let ends = |values: &[f64]| t_interval(values, 0.95).map(|i| [i.low, i.mid, i.high]);
        Some(Reused {
            mdp: self.task.name.to_owned(),
            method: self.entry.name.to_owned(),
            gain: gains.iter().map(|gain| ends(gain)).collect::<Option<_>>()?,
            kl,
            more: ends(&difference(&gains[UPDATES - 1], &gains[0]))?,
        })
    }
}

/// The rate at which the expected first update of a batch moves [`FIRST_STEP`] nats; none where the method does not move the policy.
fn reuse_rate(task: &Task, entry: &Entry, method: &dyn Method) -> anyhow::Result<Option<f64>> {
    let (tree, start) = (&task.tree, &task.start);
    let groups = Groups::new(tree, start, start, Ratios::Sampler, GROUP, entry.source)?;
    Ok(rate_of(tree, start, &groups.expected(method), FIRST_STEP))
}

/// Nats per response of the first step, of every method.
pub(super) const FIRST_STEP: f64 = 0.01;
/// Updates on one batch, and updates a sampler may be old.
pub(super) const UPDATES: usize = 8;
/// Steps at which rows of stale samplers are taken.
pub(super) const STALE: [usize; 5] = [0, 1, 2, 4, 8];
/// Temperatures of samplers; the policy that is updated has 1.
pub(super) const TEMPERATURES: [f64; 4] = [0.7, 0.9, 1.1, 1.4];
/// Noise on the sampler's logits: about what half precision, an 8-bit cache and a poor quantisation give.
const NOISE: [f64; 3] = [0.01, 0.1, 0.3];

/// Variants besides those of the whole atlas that matter off-policy only.
static MORE: &[Entry] = &[
    entry(Family::Group, "GRPO, printed clip", "grpo", "reduction=token_mean clip=printed"),
    entry(Family::Group, "GRPO, no clip", "grpo", "reduction=token_mean clip=none"),
    entry(
        Family::Trace,
        "GRPO-λ recent, no clip, no clamp",
        "grpo_lambda",
        "style=recent clip=none clamp=none",
    ),
    entry(Family::Trace, "P-trace, history (recon.)", "p_trace_reconstructed", "form=history"),
];

/// Everyone whose extra inputs that a table gives, with the method on this task.
pub(super) fn entries(task: &Task) -> anyhow::Result<Vec<(&'static Entry, Configured)>> {
    let kinds = Exact::kinds_on(&task.tree);
    let mut all = Vec::new();
    for entry in ENTRIES.iter().chain(MORE) {
        let configured = entry.build(&task.tree)?;
        if given(entry.source) && configured.require(&kinds).is_ok() {
            all.push((entry, configured));
        }
    }
    Ok(all)
}

/// All rows of one method on one task, in groups of `size`.
pub(super) fn rows(
    task: &Task,
    entry: &Entry,
    configured: &Configured,
    size: usize,
    seed: u64,
) -> anyhow::Result<Vec<Row>> {
    let method = configured.method.as_ref();
    let floor = {
        let groups = Groups::new(&task.tree, &task.start, &task.start, Ratios::Sampler, size, entry.source)?;
        1e-9 * norm(&groups.expected(method))
    };
    let mut builder = RowBuilder { task, entry, method, size, floor, rows: Vec::new() };
    builder.add_inner()?;
    builder.add_stale()?;
    builder.add_mismatched(seed)?;
    Ok(builder.rows)
}

/// The rows of one method on one task.
struct RowBuilder<'a> {
    task: &'a Task,
    entry: &'a Entry,
    method: &'a dyn Method,
    size: usize,
    /// An update below this norm is silent.
    floor: f64,
    rows: Vec<Row>,
}

impl RowBuilder<'_> {
    /// Adds the update of `current` from groups that `behaviour` samples, and returns it.
    fn add(
        &mut self,
        mode: Mode,
        x: f64,
        ratios: Ratios,
        behaviour: &Tabular,
        current: &Tabular,
    ) -> anyhow::Result<Vec<f64>> {
        let tree = &self.task.tree;
        let groups = Groups::new(tree, behaviour, current, ratios, self.size, self.entry.source)?;
        let update = groups.expected(self.method);
        let by_region = matches!(mode, Mode::Inner | Mode::Stale);
        self.rows.push(Row {
            mode,
            mdp: self.task.name.to_owned(),
            method: self.entry.name.to_owned(),
            x,
            ignored: ratios == Ratios::Ignored,
            kl: divergence(tree, behaviour, current),
            fit: Fit::new(&update, &Oracle::new(tree, current).grad_j(), self.floor),
            regions: by_region.then(|| Regions::new(&groups, self.method)),
        });
        Ok(update)
    }

    /// The method's own path on one batch, in expectation over batches.
    fn add_inner(&mut self) -> anyhow::Result<()> {
        let task = self.task;
        let mut current = task.start.clone();
        let mut rate = None;
        for k in 0..=UPDATES {
            let update = self.add(Mode::Inner, k as f64, Ratios::Sampler, &task.start, &current)?;
            let rate = *rate.get_or_insert_with(|| rate_of(&task.tree, &task.start, &update, FIRST_STEP));
            match rate {
                Some(rate) => current.step(&update, rate),
                None => break, // silent on-policy: it goes nowhere
            }
        }
        Ok(())
    }

    /// Pairs of policies that are the same for all methods.
    fn add_stale(&mut self) -> anyhow::Result<()> {
        if let Some(path) = ascent(self.task, UPDATES, FIRST_STEP) {
            for k in STALE {
                self.add(Mode::Stale, k as f64, Ratios::Sampler, &path[0], &path[k])?;
            }
        }
        Ok(())
    }

    /// Samplers with other probabilities, corrected for and ignored.
    fn add_mismatched(&mut self, seed: u64) -> anyhow::Result<()> {
        let task = self.task;
        for ratios in [Ratios::Sampler, Ratios::Ignored] {
            for tau in TEMPERATURES {
                self.add(Mode::Temperature, tau, ratios, &tempered(&task.start, tau), &task.start)?;
            }
            for (i, sigma) in NOISE.into_iter().enumerate() {
                let sampler = noisy(&task.tree, &task.start, sigma, seed.wrapping_add(i as u64));
                self.add(Mode::Noise, sigma, ratios, &sampler, &task.start)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_policy_both_ways_of_sampling_agree() {
        let task = &tasks().unwrap()[2];
        let (entry, configured) = &entries(task).unwrap()[0];
        let rows = rows(task, entry, configured, 2, 1).unwrap();
        assert_eq!(rows.len(), 9 + 5 + 2 * 7);
        assert_eq!(rows[0].fit, rows[9].fit);
        assert_eq!(rows[0].kl, 0.0);
    }

    #[test]
    fn the_expected_first_update_of_a_reused_batch_moves_what_is_said() {
        let task = &tasks().unwrap()[0];
        let (entry, configured) = &entries(task).unwrap()[0];
        let method = configured.method.as_ref();
        let rate = reuse_rate(task, entry, method).unwrap().unwrap();
        let (tree, start) = (&task.tree, &task.start);
        // Batches have eight responses.
        let groups = Groups::new(tree, start, start, Ratios::Sampler, 8, entry.source).unwrap();
        let mut moved = start.clone();
        moved.step(&groups.expected(method), rate);
        assert!((divergence(tree, start, &moved) - 0.01).abs() < 1e-9);
    }

    #[test]
    fn everyone_takes_part_but_those_whose_inputs_need_a_network_or_are_drawn() {
        let task = &tasks().unwrap()[0];
        let present: Vec<_> = entries(task).unwrap().iter().map(|(e, _)| e.name).collect();
        let missing: Vec<_> = ENTRIES.iter().map(|e| e.name).filter(|name| !present.contains(name)).collect();
        assert_eq!(missing, ["OAR-P", "OAR-G", "SHEAR", "GRPO, 1/T, with OAR's policy", "VinePPO, K = 8"]);
    }
}
