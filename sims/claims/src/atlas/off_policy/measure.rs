//! Rows and reuse of every method on every task, then trust regions.

use super::cases::{self, FIRST_STEP, UPDATES};
use super::pairs::{divergence, rate_of, tasks};
use super::row::Row;
use super::trust_region::{Pair, Synthetic, pairs, synthetic};
use crate::atlas::entrants::{Entrant, Source};
use crate::atlas::multisets::{Groups, Ratios};
use crate::experiment::Context;
use crate::training::{GROUP, Task};
use grpo_lambda::learner::{Samples, update};
use grpo_lambda::methods::{Configured, Method};
use grpo_lambda_mdp::TabularLearner;
use grpo_lambda_stats::{Interval, t_interval};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicUsize, Ordering};

pub(super) struct Numbers {
    pub(super) size: usize,
    pub(super) batches: usize,
    pub(super) rows: Vec<Row>,
    pub(super) reused: Vec<Reused>,
    pub(super) synthetic: Vec<Synthetic>,
    pub(super) pairs: Vec<Pair>,
}

/// Reuse of one method on one task, as it is tabulated.
#[derive(Serialize, Deserialize)]
pub(super) struct Reused {
    pub(super) mdp: String,
    pub(super) method: String,
    /// Gain after each update: low, mid, high.
    pub(super) gain: Vec<[f64; 3]>,
    pub(super) kl: Vec<f64>,
    /// Gain of all updates over that of the first: low, mid, high.
    pub(super) more: [f64; 3],
}

pub(super) fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let size = if context.full { 8 } else { 4 };
    let batches = if context.full { 1000 } else { 100 };
    let tasks = tasks()?;
    let mut work = Vec::new();
    for task in &tasks {
        for (entrant, configured) in cases::entrants(task)? {
            work.push(Piece { context, task, entrant, configured, size, batches });
        }
    }
    let done = AtomicUsize::new(0);
    let results: Vec<(Vec<Row>, Option<Reused>)> = work
        .par_iter()
        .map(|piece| {
            let result = (piece.rows()?, piece.reused()?);
            let n = done.fetch_add(1, Ordering::Relaxed) + 1;
            let what = format!("{}, {}", piece.task.name, piece.entrant.name);
            (context.progress)(0.9 * n as f64 / work.len() as f64, &what);
            Ok(result)
        })
        .collect::<anyhow::Result<_>>()?;
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
    entrant: &'static Entrant,
    configured: Configured,
    size: usize,
    batches: usize,
}

impl Piece<'_> {
    fn key(&self, part: &str) -> String {
        format!("{part} {} {}", self.task.name, self.entrant.name)
    }

    fn rows(&self) -> anyhow::Result<Vec<Row>> {
        let Context { store, seed, .. } = *self.context;
        store.piece(&self.key("rows"), || {
            cases::rows(self.task, self.entrant, &self.configured, self.size, seed)
        })
    }

    /// `None` if the method does not move the policy, or its evidence is not the table's, which a learner has.
    fn reused(&self) -> anyhow::Result<Option<Reused>> {
        self.context.store.piece(&self.key("reuse"), || {
            if self.entrant.source == Source::Table { self.reuse() } else { Ok(None) }
        })
    }

    fn reuse(&self) -> anyhow::Result<Option<Reused>> {
        let (tree, start) = (&self.task.tree, &self.task.start);
        let method = self.configured.method.as_ref();
        let groups = Groups::new(tree, start, start, Ratios::Sampler, self.size, self.entrant.source)?;
        let rate = rate_of(tree, start, &groups.expected(method), FIRST_STEP);
        let reuse_at = |rate| reuse(self.task, method, rate, self.batches, self.context.seed);
        let ends = |i: &Interval| [i.low, i.mid, i.high];
        Ok(rate.and_then(reuse_at).map(|reuse| Reused {
            mdp: self.task.name.to_owned(),
            method: self.entrant.name.to_owned(),
            more: ends(&reuse.more),
            gain: reuse.gain.iter().map(ends).collect(),
            kl: reuse.kl,
        }))
    }
}

/// Gains of one method on one task; index `k-1` is after `k` updates.
pub(super) struct Reuse {
    /// Mean of `J - J_0` with its 95 % t-interval.
    pub(super) gain: Vec<Interval>,
    /// Mean `KL(sampler || updated)` in nats per response.
    pub(super) kl: Vec<f64>,
    /// Mean of `J` after all updates minus `J` after the first.
    pub(super) more: Interval,
}

/// Updates `batches` batches of their own, each [`UPDATES`] times, at learning rate `rate`.
pub(super) fn reuse(task: &Task, method: &dyn Method, rate: f64, batches: usize, seed: u64) -> Option<Reuse> {
    let mut gains = vec![Vec::new(); UPDATES];
    let mut kl = vec![0.0; UPDATES];
    for i in 0..batches {
        let stream = seed.wrapping_mul(1_000_003).wrapping_add(i as u64);
        let mut learner = TabularLearner::new(&task.tree, task.start.clone(), rate, stream).with_evidence();
        let before = learner.j();
        let Ok(batch) = learner.sample(&[()], GROUP);
        for k in 0..UPDATES {
            let Ok(_) = update(&mut learner, method, &[()], &batch, 1);
            gains[k].push(learner.j() - before);
            kl[k] += divergence(&task.tree, &task.start, learner.policy()) / batches as f64;
        }
    }
    let more: Vec<f64> = gains[UPDATES - 1].iter().zip(&gains[0]).map(|(last, first)| last - first).collect();
    Some(Reuse {
        gain: gains.iter().map(|g| t_interval(g, 0.95)).collect::<Option<_>>()?,
        kl,
        more: t_interval(&more, 0.95)?,
    })
}
