//! [`TeamEngine`]: the exact engine, with its work shared among the processes of a team.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::io::Write;
use std::iter::once;

use grpo_lambda_decoder::device::DeviceError;
use grpo_lambda_decoder::generate::{RolloutError, SampledResponse, Sampler, SamplingRequest};
use grpo_lambda_decoder::lora::LoraSettings;
use grpo_lambda_decoder::model::weights::Parameters;
use grpo_lambda_decoder::model::{Decoder, Error, ForwardOptions, ModelConfig, Rows, TokenScores};
use grpo_lambda_decoder::optim::{
    GradientSquares, OptimError, STATE_PARTS, SavedState, StepOutcome, WriteStateError, has_part, write_state,
};
use grpo_lambda_decoder::tensor_file::bytes_of;

use super::error::TeamError;
use super::leader::Team;
use super::order::{
    Order, SampleOrder, WireRows, WireSampled, WireScores, all_or_first_failure, sampled, wire_scores,
};
use super::owners::Owners;
use super::shards::{Shards, sampling_shares};
use super::share::Share;
use super::spread::spread;
use grpo_lambda_trainer::step::engine::{CpuEngine, Engine, Tape, TrainingSetup};

/// The leader's engine. Every process has the weights; each has the optimiser of its own tensors.
pub struct TeamEngine<'t> {
    /// With gradient and optimiser of the leader's own tensors.
    pub(super) inner: CpuEngine,
    team: &'t Team,
    shards: Shards,
    /// The leader's own.
    share: RefCell<Share>,
    owners: Owners,
    /// True if the workers have the reference.
    referred: bool,
    /// Rows whose gradient is in the sum.
    rows: usize,
    tickets: Cell<u64>,
}

/// The processes that compute the rows of a pass.
struct TeamTape {
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

/// A team that fails is to the loop a device that fails.
fn gone(error: impl Into<TeamError>) -> DeviceError {
    DeviceError::Missing(error.into().to_string())
}

fn failed(error: TeamError) -> Error {
    Error::Device(gone(error))
}

impl<'t> TeamEngine<'t> {
    /// `model` in training, with its gradient cut into `shards`, in a team.
    ///
    /// The optimiser is shared by tensors. That of an adapter, which is small, is the leader's alone, who merges it.
    pub fn new(
        model: Decoder<f32>,
        setup: TrainingSetup,
        team: &'t Team,
        shards: usize,
    ) -> Result<Self, Error> {
        let shards = Shards::new(shards, team.size()).map_err(failed)?;
        let sizes = model.parameters().iter().map(|(name, tensor)| (name.clone(), tensor.data.len()));
        let mut owners = Owners::balanced(sizes, if setup.lora.is_some() { 1 } else { team.size() });
        let adam = setup.adam.clone();
        let mut inner = CpuEngine::owning(model, setup, |name| owners.owner(name) == Some(0))?;
        let gradients = inner.gradients();
        owners.retain(|name, owner| owner != 0 || gradients.contains(name));
        let share = RefCell::new(Share::new(inner.shape(), &owners, shards, 0));
        let shape = inner.shape().to_json();
        let begin = Order::Begin { shape, owners: owners.clone(), adam, shards: shards.count() };
        team.tell_all(&begin).map_err(failed)?;
        inner.model.parameters().values().try_for_each(|t| team.send_tensor(&t.data)).map_err(failed)?;
        team.hear_all::<()>().map_err(failed)?;
        Ok(TeamEngine { inner, team, shards, share, owners, referred: false, rows: 0, tickets: Cell::new(0) })
    }

    /// Name, size and owner of every tensor that an optimiser has: the leader's own, which may be an adapter's, and the others'.
    fn optimised(&self) -> Vec<(&str, usize, usize)> {
        let own = self.inner.optimiser.parameters().map(|(name, weights)| (name, weights.len(), 0));
        let parameters = self.inner.model.parameters();
        let others = self.owners.iter().filter(|(_, owner)| *owner != 0);
        own.chain(others.map(|(name, owner)| (name, parameters[name].data.len(), owner))).collect()
    }

    /// All get the trained tensors as their owners have them.
    fn spread(&mut self) -> Result<(), DeviceError> {
        if self.team.size() == 1 {
            return Ok(());
        }
        // The engine has put what it moved into its model.
        spread(&mut self.inner.model, &mut **self.team.link(), &self.owners, |_| None).map_err(gone)
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

    /// Adds up the gradients of all processes, each tensor's at its owner.
    fn reduce(&mut self) -> Result<(), TeamError> {
        self.team.tell_all(&Order::Reduce)?;
        let CpuEngine { model, .. } = &self.inner;
        let mut sums = Vec::new();
        let keep = |name: &str, sum| sums.push((name.to_owned(), sum));
        self.share.get_mut().reduce(model, &mut **self.team.link(), &self.owners, keep)?;
        self.inner.set_gradients(sums);
        self.rows = 0;
        Ok(())
    }
}

impl Sampler for TeamEngine<'_> {
    /// A test of completion cannot travel: processes sample without it, and what they sampled beyond is left out here.
    fn generate(&self, request: &SamplingRequest<'_>) -> Result<Vec<Vec<SampledResponse>>, RolloutError> {
        if self.team.size() == 1 {
            return self.inner.generate(request);
        }
        request.check(self.shape().max_position_embeddings)?;
        let external = |e: TeamError| RolloutError::External(e.into());
        let shares = sampling_shares(request.prompts.len(), request.group, self.team.size());
        let order = |rank: usize| SampleOrder::new(request, &shares[rank]);
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
        if let Some(test) = request.stopping.complete {
            out.iter_mut().flatten().for_each(|response| response.end_where(test));
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
    fn shape(&self) -> &ModelConfig {
        self.inner.shape()
    }

    fn exact(&self) -> bool {
        self.inner.exact()
    }

    fn steps(&self) -> u64 {
        self.inner.steps()
    }

    fn processes(&self) -> usize {
        self.team.size()
    }

    fn forward(&self, rows: &Rows, options: ForwardOptions) -> Result<(TokenScores, Tape), Error> {
        rows.check(self.shape())?;
        let ticket = self.tickets.get() + 1;
        self.tickets.set(ticket);
        let parts = self.parts(rows.len());
        let own_parts = |rank: usize| parts.iter().filter(move |part| part.rank == rank);
        let order = |rank: usize| {
            let parts = own_parts(rank).map(|part| (part.shard, WireRows::new(rows, &part.rows))).collect();
            Order::Forward { ticket, parts, options: options.into() }
        };
        self.team.tell_each(order).map_err(failed)?;
        let own: Vec<(usize, Rows)> =
            own_parts(0).map(|part| (part.shard, WireRows::new(rows, &part.rows).rows())).collect();
        let own = self.share.borrow_mut().forward(&self.inner.model, ticket, &own, options);
        let theirs = self.team.hear_all::<Vec<WireScores>>();
        let own: Vec<WireScores> = own?.into_iter().map(wire_scores).collect();
        // Shards, and with them parts, are in the order of ranks.
        let scores = std::iter::once(own).chain(theirs.map_err(failed)?).flatten();
        let scores = assembled(rows.len(), parts.iter().map(|part| part.rows.clone()).zip(scores));
        Ok((scores, Tape::new(TeamTape { ticket, parts, rows: rows.len() })))
    }

    fn score_reference(&mut self, rows: &[Rows], options: ForwardOptions) -> Result<Vec<TokenScores>, Error> {
        if self.team.size() == 1 {
            return self.inner.score_reference(rows, options);
        }
        rows.iter().try_for_each(|rows| rows.check(self.shape()))?;
        self.refer()?;
        let size = self.team.size();
        let places = |rank: usize, batch: &Rows| (rank..batch.len()).step_by(size).collect::<Vec<usize>>();
        let batches = |rank: usize| rows.iter().map(move |rows| WireRows::new(rows, &places(rank, rows)));
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

    fn backward(&mut self, tape: Tape, dlogps: &[Vec<f64>]) -> Result<(), Error> {
        let TeamTape { ticket, parts, rows } = tape.into_inner();
        let own_dlogps = |rank: usize| {
            let rows = |part: &Part| part.rows.iter().map(|i| dlogps[*i].clone()).collect();
            parts.iter().filter(|part| part.rank == rank).map(rows).collect::<Vec<Vec<Vec<f64>>>>()
        };
        self.team.tell_each(|rank| Order::Backward { ticket, dlogps: own_dlogps(rank) }).map_err(failed)?;
        self.share.get_mut().backward(&self.inner.model, ticket, &own_dlogps(0));
        self.team.hear_all::<()>().map_err(failed)?;
        self.rows += rows;
        Ok(())
    }

    /// The leader adds the squares of all in the order of names, as one process does, and says what the step comes to.
    fn step(&mut self, rate: f64) -> Result<StepOutcome, OptimError> {
        self.reduce().map_err(gone)?;
        let team = self.team;
        let outcome = self.inner.step_with(rate, |settings, own| {
            let theirs = team.hear_all::<Vec<GradientSquares>>().map_err(gone)?;
            let mut squares: Vec<GradientSquares> = once(own).chain(theirs).flatten().collect();
            squares.sort_by(|a, b| a.name.cmp(&b.name));
            let outcome = settings.outcome(&squares);
            let scale = match outcome {
                StepOutcome::Applied { scale, .. } => Some(scale),
                StepOutcome::Skipped { .. } => None,
            };
            team.tell_all(&Order::Apply { rate, scale }).map_err(gone)?;
            Ok(outcome)
        })?;
        if let StepOutcome::Applied { .. } = outcome {
            self.spread()?;
        }
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

    /// One array of a worker's is here at a time.
    fn write_optimiser(&self, to: &mut dyn Write) -> Result<(), WriteStateError> {
        let own = &self.inner.optimiser;
        let optimised = self.optimised();
        let array = |part: &str, name: &str, to: &mut dyn Write| {
            if let Some(values) = own.array(part, name) {
                return Ok(to.write_all(&bytes_of(values))?);
            }
            let owner = self.owners.owner(name).unwrap_or(0);
            let len = self.inner.model.parameters()[name].data.len();
            let order = Order::State { part: part.to_owned(), tensor: name.to_owned() };
            Ok(to.write_all(&bytes_of(&self.team.ask(owner, &order, len).map_err(gone)?))?)
        };
        let sizes = optimised.iter().map(|(name, len, _)| (*name, *len));
        write_state(own.steps(), sizes, own.settings().compensated, &array, to)
    }

    /// Each owner gets its part, in the order of (tensor, part); then all get the weights.
    fn restore_optimiser(&mut self, state: &[u8]) -> Result<(), OptimError> {
        let compensated = self.inner.optimiser.settings().compensated;
        let optimised = self.optimised();
        let sizes = optimised.iter().map(|(name, len, _)| (*name, *len));
        let state = SavedState::open(state, sizes, compensated)?;
        self.team.tell_all(&Order::Restore { steps: state.steps }).map_err(gone)?;
        for (name, len, owner) in optimised.into_iter().filter(|(_, _, owner)| *owner != 0) {
            for part in STATE_PARTS.into_iter().filter(|part| has_part(part, compensated, len)) {
                self.team.send_tensor_to(owner, &state.values(part, name)).map_err(gone)?;
            }
        }
        self.inner.take_state(&state)?;
        Ok(self.spread()?)
    }

    fn evidence_model(&self) -> Option<&Decoder<f32>> {
        self.inner.evidence_model()
    }
}
