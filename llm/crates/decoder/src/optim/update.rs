//! One step of a parameter: its numbers in pieces that threads may take.

use super::AdamWSettings;
use crate::model::ops::parallel;
use crate::model::ops::simd::kernel;

/// Numbers below which a parameter is not worth a second thread.
pub(super) const SERIAL: usize = 1 << 15;

/// Some numbers of a parameter, one after the other.
pub(super) struct Piece<'s> {
    pub(super) weights: &'s mut [f32],
    /// Empty unless compensated.
    pub(super) residual: &'s mut [f32],
    pub(super) first: &'s mut [f32],
    pub(super) second: &'s mut [f32],
}

impl<'s> Piece<'s> {
    /// Its update, in parts that threads may take.
    pub(super) fn updates<'a>(
        self,
        gradient: &'a [f32],
        step: &'a StepConstants,
        decay: f32,
    ) -> impl Iterator<Item = Update<'a>>
    where
        's: 'a,
    {
        let parts = self.split(SERIAL).zip(gradient.chunks(SERIAL));
        parts.map(move |(piece, gradient)| Update { step, decay, gradient, piece })
    }

    /// Pieces of at most `most` numbers, at least 1.
    pub(super) fn split(self, most: usize) -> impl Iterator<Item = Piece<'s>> {
        let Piece { weights, residual, first, second } = self;
        let mut residual = residual.chunks_mut(most);
        let moments = first.chunks_mut(most).zip(second.chunks_mut(most));
        weights.chunks_mut(most).zip(moments).map(move |(weights, (first, second))| Piece {
            weights,
            residual: residual.next().unwrap_or_default(),
            first,
            second,
        })
    }
}

/// Constants of one step.
pub(super) struct StepConstants {
    beta2: f32,
    fresh1: f32,
    fresh2: f32,
    epsilon: f32,
    /// `lr / (1 - beta1^t)`.
    rate: f32,
    /// `sqrt(1 - beta2^t)`.
    root: f32,
    scale: f32,
}

impl StepConstants {
    pub(super) fn new(settings: &AdamWSettings, lr: f64, step: u64, scale: f64) -> StepConstants {
        let power = |beta: f64| beta.powf(step as f64);
        StepConstants {
            beta2: settings.beta2 as f32,
            fresh1: (1.0 - settings.beta1) as f32,
            fresh2: (1.0 - settings.beta2) as f32,
            epsilon: settings.epsilon as f32,
            rate: (lr / (1.0 - power(settings.beta1))) as f32,
            root: (1.0 - power(settings.beta2)).sqrt() as f32,
            scale: scale as f32,
        }
    }
}

/// Moves all pieces, on all threads if there are several. Every number is computed by itself.
pub(super) fn run(updates: Vec<Update<'_>>) {
    match updates.len() {
        0 | 1 => updates.into_iter().for_each(move_weights),
        _ => parallel::in_pool(|| parallel::each(updates, move_weights)),
    }
}

/// A piece of a parameter with its gradient.
pub(super) struct Update<'a> {
    pub(super) step: &'a StepConstants,
    pub(super) decay: f32,
    pub(super) gradient: &'a [f32],
    pub(super) piece: Piece<'a>,
}

kernel! {
    pub(super) fn move_weights(update: Update<'_>) {
        let Update { step, decay, gradient, piece } = update;
        let Piece { weights, residual, first, second } = piece;
        let moments = first.iter_mut().zip(second).zip(gradient);
        let change = |w: f32, ((m, v), g): ((&mut f32, &mut f32), &f32)| {
            let g = g * step.scale;
            *m += (g - *m) * step.fresh1;
            *v = *v * step.beta2 + g * g * step.fresh2;
            -(decay * w + step.rate * *m / (v.sqrt() / step.root + step.epsilon))
        };
        if residual.is_empty() {
            for (w, moment) in weights.iter_mut().zip(moments) {
                *w += change(*w, moment);
            }
        } else {
            for ((w, r), moment) in weights.iter_mut().zip(residual).zip(moments) {
                let by = *r + change(*w, moment);
                (*w, *r) = two_sum(*w, by);
            }
        }
    }
}

/// `a + b` rounded, and what the rounding lost, exactly (Knuth).
#[inline(always)]
fn two_sum(a: f32, b: f32) -> (f32, f32) {
    let sum = a + b;
    let b_kept = sum - a;
    (sum, (a - (sum - b_kept)) + (b - b_kept))
}

kernel! {
    /// Sum of squares in f64: eight running sums over positions modulo 8, then those from the first to the last.
    pub(super) fn sum_of_squares(numbers: &[f32]) -> f64 {
        let mut lanes = [0.0f64; 8];
        let (chunks, rest) = numbers.as_chunks::<8>();
        for chunk in chunks {
            for l in 0..8 {
                lanes[l] += f64::from(chunk[l]) * f64::from(chunk[l]);
            }
        }
        for (lane, x) in lanes.iter_mut().zip(rest) {
            *lane += f64::from(*x) * f64::from(*x);
        }
        lanes.iter().sum()
    }
}
