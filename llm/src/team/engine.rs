//! [`TeamEngine`]: the exact engine, with its work shared among the processes of a team.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::io::Write;

use grpo_lambda_decoder::device::DeviceError;
use grpo_lambda_decoder::lora::LoraSettings;
use grpo_lambda_decoder::model::weights::Parameters;
use grpo_lambda_decoder::model::{Config, Decoder, Error, ForwardOptions, Rows, TokenScores};
use grpo_lambda_decoder::optim::{OptimError, StepOutcome, WriteStateError};
use grpo_lambda_decoder::rollout::{RolloutError, SampledResponse, Sampler, SamplingRequest};

use super::error::TeamError;
use super::leader::Team;
use super::order::{
    Order, SampleOrder, WireRows, WireSampled, WireScores, all_or_first_failure, sampled, wire_scores,
};
use super::shards::{Shards, sampling_shares};
use super::share::Share;
use super::tree::{Forest, Node, blocks};
use crate::step::engine::{CpuEngine, Engine};

/// The leader's engine. Workers have its weights whenever they compute.
pub struct TeamEngine<'t> {
    inner: CpuEngine,
    team: &'t Team,
    shards: Shards,
    /// The leader's own.
    share: RefCell<Share>,
    /// Names of the tensors that get a gradient, sorted.
    trained: Vec<String>,
    /// Whether the weights have moved since the workers got them.
    stale: Cell<bool>,
    /// Whether the workers have the reference.
    referred: bool,
    /// Rows whose gradient is in the sum.
    rows: usize,
    tickets: Cell<u64>,
}

/// Where the rows of a pass are computed.
pub struct TeamTape {
    ticket: u64,
    parts: Vec<Part>,
    rows: usize,
}

/// The rows of a pass that belong to one shard.
struct Part {
    rank: usize,
    shard: usize,
    /// In the pass.
    rows: Vec<usize>,
}

fn failed(error: TeamError) -> Error {
    Error::Device(DeviceError::Missing(error.to_string()))
}

impl<'t> TeamEngine<'t> {
    /// `inner`, whose gradient is cut into `shards`, in a team.
    ///
    /// # Errors
    /// When the shards cannot be shared, or a worker is gone.
    pub fn new(mut inner: CpuEngine, team: &'t Team, shards: usize) -> Result<Self, Error> {
        let shards = Shards::new(shards, team.size()).map_err(failed)?;
        let trained: Vec<String> = inner.gradients().parameters().keys().cloned().collect();
        let share = RefCell::new(Share::new(inner.shape(), &trained, shards.of(0)));
        let shape = inner.shape().to_json();
        let begin = Order::Begin { shape, trained: trained.clone(), shards: shards.count() };
        team.tell_all(&begin).map_err(failed)?;
        inner.model.parameters().values().try_for_each(|t| team.send_tensor(&t.data)).map_err(failed)?;
        team.hear_all::<()>().map_err(failed)?;
        let (stale, tickets) = (Cell::new(false), Cell::new(0));
        Ok(TeamEngine { inner, team, shards, share, trained, stale, referred: false, rows: 0, tickets })
    }

    /// Sends the workers the weights, where these have moved.
    fn refresh(&self) -> Result<(), TeamError> {
        if !self.stale.replace(false) {
            return Ok(());
        }
        self.team.tell_all(&Order::Weights)?;
        let parameters = self.inner.model.parameters();
        self.trained.iter().try_for_each(|name| self.team.send_tensor(&parameters[name].data))
    }

    /// Sends the workers the reference, once.
    fn refer(&mut self) -> Result<(), Error> {
        if !self.referred {
            let frozen = self.inner.frozen_weights()?.expect("the stage began with a reference");
            self.team.tell_all(&Order::Reference).map_err(failed)?;
            frozen.values().try_for_each(|t| self.team.send_tensor(&t.data)).map_err(failed)?;
            self.team.hear_all::<()>().map_err(failed)?;
            self.referred = true;
        }
        Ok(())
    }

    /// The parts of a pass of so many rows, which continue those before it.
    fn parts(&self, rows: usize) -> Vec<Part> {
        let part = |shard: usize| {
            let own = |i: &usize| (self.rows + i) % self.shards.count() == shard;
            Part { rank: self.shards.owner(shard), shard, rows: (0..rows).filter(own).collect() }
        };
        (0..self.shards.count()).map(part).filter(|part| !part.rows.is_empty()).collect()
    }

    /// Adds up the gradients of all processes, in the one order, into the leader's engine.
    fn reduce(&mut self) -> Result<(), TeamError> {
        self.team.tell_all(&Order::Reduce)?;
        let share = self.share.get_mut();
        share.complete(&self.inner.model);
        for name in &self.trained {
            let mut forest = Forest::default();
            share.nodes(name).into_iter().for_each(|node| forest.push(node));
            for (sums, rank) in self.team.hear_tensors()?.iter().zip(1..) {
                let blocks = blocks(self.shards.of(rank));
                let each = sums.len() / blocks.len();
                for (sum, (start, len)) in sums.chunks(each.max(1)).zip(blocks) {
                    forest.push(Node { start, len, sum: sum.to_vec() });
                }
            }
            if let [root] = forest.nodes() {
                self.inner.set_gradient(name, &root.sum);
            }
        }
        share.clear();
        self.rows = 0;
        Ok(())
    }
}

impl Sampler for TeamEngine<'_> {
    /// A test of completion cannot travel: such a request, which only an evaluation makes, is the leader's alone.
    fn generate(&self, request: &SamplingRequest<'_>) -> Result<Vec<Vec<SampledResponse>>, RolloutError> {
        if self.team.size() == 1 || request.stopping.complete.is_some() {
            return self.inner.generate(request);
        }
        request.check(self.shape().max_position_embeddings)?;
        let external = |e: TeamError| RolloutError::External(e.to_string());
        self.refresh().map_err(external)?;
        let shares = sampling_shares(request.prompts.len(), request.group, self.team.size());
        let order = |rank: usize| SampleOrder::of(request, &shares[rank]);
        self.team.tell_each(|rank| Order::Sample(order(rank))).map_err(external)?;
        let own = order(0).run(&self.inner);
        let theirs = self.team.hear_all::<WireSampled>().map_err(external)?;
        let all = std::iter::once(own).chain(theirs.into_iter().map(sampled)).collect();
        let mut out = vec![vec![SampledResponse::default(); request.group]; request.prompts.len()];
        for (share, groups) in shares.iter().zip(all_or_first_failure(all)?) {
            for (prompt, group) in share.prompts.clone().zip(groups) {
                share.responses.clone().zip(group).for_each(|(r, one)| out[prompt][r] = one);
            }
        }
        Ok(out)
    }
}

/// Scores of parts of a pass, put back in the order of its rows.
fn assembled(rows: usize, scored: impl Iterator<Item = (Vec<usize>, WireScores)>) -> TokenScores {
    let mut out = TokenScores { logps: vec![Vec::new(); rows], entropies: Vec::new() };
    for (places, (logps, entropies)) in scored {
        if !entropies.is_empty() {
            out.entropies.resize(rows, Vec::new());
        }
        places.iter().zip(logps).for_each(|(i, row)| out.logps[*i] = row);
        places.iter().zip(entropies).for_each(|(i, row)| out.entropies[*i] = row);
    }
    out
}

impl Engine for TeamEngine<'_> {
    type Tape = TeamTape;

    fn shape(&self) -> &Config {
        self.inner.shape()
    }

    fn exact(&self) -> bool {
        self.inner.exact()
    }

    fn processes(&self) -> usize {
        self.team.size()
    }

    fn forward(&self, rows: &Rows, options: ForwardOptions) -> Result<(TokenScores, TeamTape), Error> {
        rows.check(self.shape())?;
        self.refresh().map_err(failed)?;
        let ticket = self.tickets.get() + 1;
        self.tickets.set(ticket);
        let parts = self.parts(rows.len());
        let of = |rank: usize| parts.iter().filter(move |part| part.rank == rank);
        let order = |rank: usize| {
            let parts = of(rank).map(|part| (part.shard, WireRows::of(rows, &part.rows))).collect();
            Order::Forward { ticket, parts, options: options.into() }
        };
        self.team.tell_each(order).map_err(failed)?;
        let own: Vec<(usize, Rows)> =
            of(0).map(|part| (part.shard, WireRows::of(rows, &part.rows).rows())).collect();
        let own = self.share.borrow_mut().forward(&self.inner.model, ticket, &own, options);
        let theirs = self.team.hear_all::<Vec<WireScores>>();
        let own: Vec<WireScores> = own?.into_iter().map(wire_scores).collect();
        // Shards, and with them parts, are in the order of ranks.
        let scores = std::iter::once(own).chain(theirs.map_err(failed)?).flatten();
        let scores = assembled(rows.len(), parts.iter().map(|part| part.rows.clone()).zip(scores));
        Ok((scores, TeamTape { ticket, parts, rows: rows.len() }))
    }

    fn score_reference(&mut self, rows: &[Rows], options: ForwardOptions) -> Result<Vec<TokenScores>, Error> {
        if self.team.size() == 1 {
            return self.inner.score_reference(rows, options);
        }
        rows.iter().try_for_each(|rows| rows.check(self.shape()))?;
        self.refer()?;
        let size = self.team.size();
        let places = |rank: usize, batch: &Rows| (rank..batch.len()).step_by(size).collect::<Vec<usize>>();
        let batches = |rank: usize| rows.iter().map(move |rows| WireRows::of(rows, &places(rank, rows)));
        let order = |rank: usize| {
            let batches = batches(rank).filter(|rows| !rows.is_empty()).collect();
            Order::Score { batches, options: options.into() }
        };
        self.team.tell_each(order).map_err(failed)?;
        let own: Vec<Rows> = batches(0).filter(|b| !b.is_empty()).map(|b| b.rows()).collect();
        let own = self.inner.score_reference(&own, options);
        let theirs = self.team.hear_all::<Vec<WireScores>>();
        let own: Vec<WireScores> = own?.into_iter().map(wire_scores).collect();
        let mut answers: Vec<_> =
            std::iter::once(own).chain(theirs.map_err(failed)?).map(Vec::into_iter).collect();
        let mut one = |batch: &Rows| {
            let of_rank = |(rank, scores): (usize, &mut std::vec::IntoIter<WireScores>)| {
                let places = places(rank, batch);
                let scores = if places.is_empty() { None } else { scores.next() };
                scores.map(|scores| (places, scores))
            };
            assembled(batch.len(), answers.iter_mut().enumerate().filter_map(of_rank))
        };
        Ok(rows.iter().map(&mut one).collect())
    }

    fn backward(&mut self, tape: TeamTape, dlogps: &[Vec<f64>]) -> Result<(), Error> {
        let TeamTape { ticket, parts, rows } = tape;
        let of = |rank: usize| {
            let rows = |part: &Part| part.rows.iter().map(|i| dlogps[*i].clone()).collect();
            parts.iter().filter(|part| part.rank == rank).map(rows).collect::<Vec<Vec<Vec<f64>>>>()
        };
        self.team.tell_each(|rank| Order::Backward { ticket, dlogps: of(rank) }).map_err(failed)?;
        self.share.get_mut().backward(&self.inner.model, ticket, &of(0));
        self.team.hear_all::<()>().map_err(failed)?;
        self.rows += rows;
        Ok(())
    }

    fn step(&mut self, rate: f64) -> Result<StepOutcome, OptimError> {
        self.reduce().map_err(|e| OptimError::Device(DeviceError::Missing(e.to_string())))?;
        let outcome = self.inner.step(rate)?;
        self.stale.set(true);
        Ok(outcome)
    }

    fn parameters(&self) -> Result<Cow<'_, Parameters<f32>>, Error> {
        self.inner.parameters()
    }

    fn frozen_weights(&self) -> Result<Option<Cow<'_, Parameters<f32>>>, Error> {
        self.inner.frozen_weights()
    }

    fn adapter(&self) -> Result<Option<(LoraSettings, Parameters<f32>)>, Error> {
        self.inner.adapter()
    }

    fn write_optimiser(&self, to: &mut dyn Write) -> Result<(), WriteStateError> {
        self.inner.write_optimiser(to)
    }

    fn restore_optimiser(&mut self, state: &[u8]) -> Result<(), OptimError> {
        self.stale.set(true);
        self.inner.restore_optimiser(state)
    }

    fn cpu_decoder(&self) -> Option<&Decoder<f32>> {
        self.inner.cpu_decoder()
    }
}
