//! AdamW over named parameters, with gradient clipping.
//!
//! Weights and moments are f32 whatever the model's dtype; the model receives rounded copies. Parameters are visited in
//! the order of their names, so sums do not depend on a hash map's order.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::mem;
use std::ops::Range;

use crate::model::Decoder;
use crate::model::ops::parallel;
use crate::model::weights::Parameters;
use crate::tensor_file::bytes_of;

mod state;
#[cfg(test)]
mod tests;
mod update;

use update::{Piece, SERIAL, StepConstants, run, sum_of_squares};

pub use state::{STATE_PARTS, SavedState, StateError, StateWriter, WriteStateError, has_part, write_state};

/// The parameters that decay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decay {
    /// All but biases and norms: names that end in `bias` or contain `norm` are spared, as in the transformers library.
    #[default]
    Matrices,
    /// All, as in bare torch.
    All,
}

impl Decay {
    fn applies(self, name: &str) -> bool {
        self == Decay::All || !(name.ends_with("bias") || name.contains("norm"))
    }
}

/// Settings of [`AdamW`].
#[derive(Clone, Debug, PartialEq)]
pub struct AdamWSettings {
    /// Decay of the mean of gradients.
    pub beta1: f64,
    /// Decay of the mean of squared gradients.
    pub beta2: f64,
    /// Added to the root of the mean square.
    pub epsilon: f64,
    /// Decoupled weight decay: weights shrink by `lr weight_decay` of themselves per step.
    pub weight_decay: f64,
    /// The parameters that decay.
    pub decay: Decay,
    /// Gradients whose joint norm is larger are scaled down to it.
    pub max_grad_norm: Option<f64>,
    /// Compensated summation: keep what rounding to f32 loses of each update and add it to the next (one more f32 per weight).
    ///
    /// An update of 1e-6 to a weight of 1 is 8.4 or 16.8 units in the last place: rounded equally every time, the weight
    /// moves 5 % too slowly upwards or 1 % too fast downwards.
    pub compensated: bool,
}

impl Default for AdamWSettings {
    /// Torch's values, no weight decay, clipping at 1.
    fn default() -> Self {
        AdamWSettings {
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.0,
            decay: Decay::default(),
            max_grad_norm: Some(1.0),
            compensated: true,
        }
    }
}

impl AdamWSettings {
    /// The decay of a weight of the parameter `name` in a step at rate `lr`, per unit of it.
    fn decay_of(&self, name: &str, lr: f64) -> f32 {
        if self.decay.applies(name) { (lr * self.weight_decay) as f32 } else { 0.0 }
    }

    /// The factor that clips gradients of this joint norm.
    pub fn scale(&self, grad_norm: f64) -> f64 {
        // torch.nn.utils.clip_grad_norm_ adds the same 1e-6.
        self.max_grad_norm.map_or(1.0, |max| (max / (grad_norm + 1e-6)).min(1.0))
    }

    /// The outcome of a step on these gradients, whose squares are added in the order of names.
    fn outcome(&self, gradients: &BTreeMap<&str, &[f32]>) -> StepOutcome {
        let by_name: Vec<_> = gradients.iter().collect();
        let long = by_name.iter().map(|(_, gradient)| gradient.len()).sum::<usize>() >= SERIAL;
        let squares = parallel::map(&by_name, long, |(_, gradient)| sum_of_squares(gradient));
        let mut sum = 0.0;
        for ((name, gradient), squares) in by_name.into_iter().zip(squares) {
            // Squares of f32 fit f64, however many: only a number that is not finite makes their sum so.
            if !squares.is_finite() {
                let not_finite = gradient.iter().filter(|g| !g.is_finite()).count();
                return StepOutcome::Skipped { parameter: (*name).to_owned(), not_finite };
            }
            sum += squares;
        }
        let grad_norm = sum.sqrt();
        StepOutcome::Applied { grad_norm, scale: self.scale(grad_norm) }
    }
}

/// A refused optimiser step or state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptimError {
    /// A parameter has no gradient: the backward pass did not reach it.
    #[error("parameter `{0}` received no gradient")]
    Missing(String),
    /// A gradient without a parameter.
    #[error("a gradient was given for `{0}`, which is not a parameter")]
    Unknown(String),
    /// A gradient of another size.
    #[error("the gradient of `{name}` has {found} numbers, the parameter {expected}")]
    Length {
        /// The parameter.
        name: String,
        /// Its size.
        expected: usize,
        /// The gradient's size.
        found: usize,
    },
    /// The device that computes.
    #[error(transparent)]
    Device(#[from] crate::device::DeviceError),
    /// A saved state that does not fit.
    #[error("optimiser state: {0}")]
    State(#[from] StateError),
}

/// A step that was applied, or skipped because a gradient was not finite.
#[derive(Clone, Debug, PartialEq)]
pub enum StepOutcome {
    /// Weights moved.
    Applied {
        /// Joint norm of all gradients before clipping.
        grad_norm: f64,
        /// Clipping factor of the gradients; 1 if clipping did not bind.
        scale: f64,
    },
    /// Nothing changed, neither weights nor moments nor the step count, because a gradient was NaN or infinite.
    Skipped {
        /// The first parameter, by name, with such a gradient.
        parameter: String,
        /// Count of its numbers that were not finite.
        not_finite: usize,
    },
}

#[derive(Clone, Debug, PartialEq)]
struct ParameterState {
    /// Empty where they lie in a model.
    weights: Vec<f32>,
    /// Rounding residual: the exact value is `weights + residual`. Empty unless compensated.
    residual: Vec<f32>,
    first: Vec<f32>,
    second: Vec<f32>,
}

impl ParameterState {
    /// All of it.
    fn whole(&mut self) -> Piece<'_> {
        let ParameterState { weights, residual, first, second } = self;
        Piece { weights, residual, first, second }
    }

    /// The number of weights.
    fn len(&self) -> usize {
        self.first.len()
    }

    /// In the order of [`STATE_PARTS`].
    fn arrays(&self) -> [&[f32]; 4] {
        [&self.weights, &self.residual, &self.first, &self.second]
    }
}

/// AdamW with decoupled weight decay and bias correction.
///
/// ```text
/// m = m + (1-beta1)(g - m)        v = beta2 v + (1-beta2) g^2
/// w = w - lr weight_decay w - lr/(1-beta1^t) m / (sqrt(v)/sqrt(1-beta2^t) + epsilon)
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AdamW {
    settings: AdamWSettings,
    steps: u64,
    slots: BTreeMap<String, ParameterState>,
}

impl AdamW {
    /// An optimiser of these parameters, at these weights.
    pub fn new(settings: AdamWSettings, parameters: impl IntoIterator<Item = (String, Vec<f32>)>) -> AdamW {
        let mut optimiser = AdamW { settings, steps: 0, slots: BTreeMap::new() };
        for (name, weights) in parameters {
            optimiser.add(name, weights.len(), weights);
        }
        optimiser
    }

    /// An optimiser of all parameters of a model, whose weights stay there: see [`AdamW::of_model`].
    pub fn for_model(model: &Decoder<f32>, settings: AdamWSettings) -> AdamW {
        AdamW::of_model(settings, model, |_| true, [])
    }

    /// An optimiser of those parameters of a model that `trains` chooses, and of `others`. The weights of the model's parameters stay there and are
    /// in memory once: [`AdamW::step_in`], [`AdamW::write_of`] and [`AdamW::restore_in`] take the model.
    pub fn of_model(
        settings: AdamWSettings,
        model: &Decoder<f32>,
        trains: impl Fn(&str) -> bool,
        others: impl IntoIterator<Item = (String, Vec<f32>)>,
    ) -> AdamW {
        let mut optimiser = AdamW::new(settings, others);
        for (name, tensor) in model.parameters().iter().filter(|(name, _)| trains(name)) {
            optimiser.add(name.clone(), tensor.data.len(), Vec::new());
        }
        optimiser
    }

    fn add(&mut self, name: String, len: usize, weights: Vec<f32>) {
        let residual = if self.settings.compensated { vec![0.0; len] } else { Vec::new() };
        let state = ParameterState { weights, residual, first: vec![0.0; len], second: vec![0.0; len] };
        self.slots.insert(name, state);
    }

    /// Exchanges the weights of a model's parameters with its own: takes them, or gives them back.
    fn exchange(&mut self, parameters: &mut Parameters<f32>) {
        for (name, slot) in &mut self.slots {
            if let Some(tensor) = parameters.get_mut(name) {
                mem::swap(&mut tensor.data, &mut slot.weights);
            }
        }
    }

    /// Steps applied so far; skipped ones do not count.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Names and f32 weights, in the order of names; no weights of those that lie in a model.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, &[f32])> {
        self.slots.iter().map(|(name, slot)| (name.as_str(), slot.weights.as_slice()))
    }

    /// The settings.
    pub fn settings(&self) -> &AdamWSettings {
        &self.settings
    }

    /// Bytes of all weights, residuals and moments.
    pub fn bytes(&self) -> usize {
        let numbers = |slot: &ParameterState| slot.arrays().iter().map(|values| values.len()).sum::<usize>();
        self.slots.values().map(numbers).sum::<usize>() * size_of::<f32>()
    }

    /// One of the [`STATE_PARTS`] of a parameter; `None` if it is no parameter, or has no such part.
    pub fn array(&self, part: &str, name: &str) -> Option<&[f32]> {
        let arrays = STATE_PARTS.into_iter().zip(self.slots.get(name)?.arrays());
        let (_, values) = arrays.into_iter().find(|(p, _)| *p == part)?;
        (part != "residual" || !values.is_empty()).then_some(values)
    }

    /// The f32 weights of a parameter; none of one that lies in a model.
    pub fn weights(&self, name: &str) -> Option<&[f32]> {
        self.slots.get(name).map(|slot| slot.weights.as_slice())
    }

    /// Moves every parameter against its gradient with learning rate `lr`; `gradients` may come in any order.
    ///
    /// # Errors
    /// [`OptimError`] when a gradient is missing, unknown or of the wrong size. Nothing has changed then.
    pub fn step(&mut self, lr: f64, gradients: &[(&str, &[f32])]) -> Result<StepOutcome, OptimError> {
        let by_name = self.matched(gradients)?;
        let outcome = self.settings.outcome(&by_name);
        if let StepOutcome::Applied { scale, .. } = outcome {
            self.apply(lr, &by_name, scale);
        }
        Ok(outcome)
    }

    /// [`AdamW::step`] with the weights that lie in `model`, of which [`AdamW::of_model`] made this optimiser.
    ///
    /// # Errors
    /// See [`AdamW::step`].
    pub fn step_in(
        &mut self,
        model: &mut Decoder<f32>,
        lr: f64,
        gradients: &[(&str, &[f32])],
    ) -> Result<StepOutcome, OptimError> {
        let by_name = self.matched(gradients)?;
        let outcome = self.settings.outcome(&by_name);
        if let StepOutcome::Applied { scale, .. } = outcome {
            model.update(|parameters| {
                self.exchange(parameters);
                self.apply(lr, &by_name, scale);
                self.exchange(parameters);
            });
        }
        Ok(outcome)
    }

    /// Moves every parameter against its gradient times `scale`.
    fn apply(&mut self, lr: f64, by_name: &BTreeMap<&str, &[f32]>, scale: f64) {
        self.steps += 1;
        let step = StepConstants::new(&self.settings, lr, self.steps, scale);
        let mut updates = Vec::new();
        for (name, slot) in &mut self.slots {
            let decay = self.settings.decay_of(name, lr);
            updates.extend(slot.whole().updates(by_name[name.as_str()], &step, decay));
        }
        run(updates);
    }

    /// Moves every parameter against its gradient times `scale`, to the bits of [`AdamW::step`], in pieces of at most `most` numbers: `gradient` gives the numbers of a parameter in a range, and `moved` is
    /// given its new weights from the range's start on. So neither gradients nor copies of all weights need be in memory.
    ///
    /// # Errors
    /// The errors of `gradient` and `moved`; a part of the state has changed then.
    ///
    /// # Panics
    /// When `gradient` gives another number of numbers.
    pub fn apply_in_pieces<'g, E>(
        &mut self,
        lr: f64,
        scale: f64,
        most: usize,
        mut gradient: impl FnMut(&str, Range<usize>) -> Result<Cow<'g, [f32]>, E>,
        mut moved: impl FnMut(&str, usize, &[f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.steps += 1;
        let step = StepConstants::new(&self.settings, lr, self.steps, scale);
        for (name, slot) in &mut self.slots {
            let decay = self.settings.decay_of(name, lr);
            let mut start = 0;
            for Piece { weights, residual, first, second } in slot.whole().split(most) {
                let end = start + weights.len();
                let gradient = gradient(name, start..end)?;
                assert_eq!(gradient.len(), weights.len(), "numbers of the gradient of {name}");
                let piece = Piece { weights: &mut *weights, residual, first, second };
                run(piece.updates(&gradient, &step, decay).collect());
                moved(name, start, weights)?;
                start = end;
            }
        }
        Ok(())
    }

    /// One gradient for every parameter, by name.
    fn matched<'g>(
        &self,
        gradients: &[(&'g str, &'g [f32])],
    ) -> Result<BTreeMap<&'g str, &'g [f32]>, OptimError> {
        let by_name: BTreeMap<&str, &[f32]> = gradients.iter().copied().collect();
        if let Some(name) = by_name.keys().find(|name| !self.slots.contains_key(**name)) {
            return Err(OptimError::Unknown((*name).to_owned()));
        }
        for (name, slot) in &self.slots {
            let gradient = by_name.get(name.as_str()).ok_or_else(|| OptimError::Missing(name.clone()))?;
            if gradient.len() != slot.len() {
                let (expected, found) = (slot.len(), gradient.len());
                return Err(OptimError::Length { name: name.clone(), expected, found });
            }
        }
        Ok(by_name)
    }

    /// Step count, weights and moments as a safetensors file, the same bytes for the same state.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut bytes).expect("memory takes every byte");
        bytes
    }

    /// [`AdamW::to_bytes`], array by array.
    ///
    /// # Errors
    /// When `to` refuses.
    pub fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        self.write_with(&Parameters::new(), to)
    }

    /// [`AdamW::write`] with the weights that lie in `model`.
    ///
    /// # Errors
    /// When `to` refuses.
    pub fn write_of(&self, model: &Decoder<f32>, to: &mut dyn Write) -> io::Result<()> {
        self.write_with(model.parameters(), to)
    }

    fn write_with(&self, lent: &Parameters<f32>, to: &mut dyn Write) -> io::Result<()> {
        let array = |part: &str, name: &str, to: &mut dyn Write| {
            let own = self.array(part, name).unwrap_or_default();
            let lent = lent.get(name).filter(|_| part == "weights");
            to.write_all(&bytes_of(lent.map_or(own, |tensor| &tensor.data)))
        };
        write_state(self.steps, self.sizes(), self.settings.compensated, &array, to)
    }

    /// Names and sizes.
    fn sizes(&self) -> impl Iterator<Item = (&str, usize)> {
        self.slots.iter().map(|(name, slot)| (name.as_str(), slot.len()))
    }

    /// Restores a state that [`AdamW::to_bytes`] wrote, to the bit.
    ///
    /// # Errors
    /// [`OptimError::State`] when the bytes are not such a file, or are of other parameters. Nothing has changed then.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), OptimError> {
        let state = SavedState::open(bytes, self.sizes(), self.settings.compensated)?;
        self.take_state(&state)
    }

    /// [`AdamW::restore`] with the weights that lie in `model`.
    ///
    /// # Errors
    /// See [`AdamW::restore`].
    pub fn restore_in(&mut self, model: &mut Decoder<f32>, bytes: &[u8]) -> Result<(), OptimError> {
        let state = SavedState::open(bytes, self.sizes(), self.settings.compensated)?;
        let mut taken = Ok(());
        model.update(|parameters| {
            self.exchange(parameters);
            taken = self.take_state(&state);
            self.exchange(parameters);
        });
        taken
    }

    /// Takes over a state, of which these parameters may be a part.
    ///
    /// # Errors
    /// When it lacks an array or has one of another size; a part of the state has changed then.
    pub fn take_state(&mut self, state: &SavedState<'_>) -> Result<(), OptimError> {
        for (name, ParameterState { weights, residual, first, second }) in &mut self.slots {
            for (part, values) in STATE_PARTS.into_iter().zip([weights, residual, first, second]) {
                if !has_part(part, self.settings.compensated, values.len()) {
                    continue;
                }
                let (fresh, expected) = (state.values(part, name), values.len());
                if fresh.len() != expected {
                    let (array, found) = (format!("{part}/{name}"), format!("F32 [{}]", fresh.len()));
                    return Err(StateError::Array { array, found, expected }.into());
                }
                *values = fresh;
            }
        }
        self.steps = state.steps;
        Ok(())
    }
}
