//! The interpreter of a layer's program, forward and backward.

use std::sync::Arc;

use super::tape::{LayerTape, Step};
use super::{Decoder, Pass};
use crate::model::config::layer::{Norm, NormPart, Op};
use crate::model::config::{Activation, parameter};
use crate::model::gradients::Gradients;
use crate::model::ops::attention::Heads;
use crate::model::ops::buffer::Buffer;
use crate::model::ops::norm::Groups;
use crate::model::ops::{Real, attention, norm, rope, swiglu};

/// The position of every token in its row, with the rotations of all of them.
pub(crate) struct Positions<T> {
    positions: Vec<u32>,
    table: Arc<rope::Table<T>>,
}

impl<T: Real> Positions<T> {
    /// Rotates queries and keys of every token, or back.
    fn rotate(&self, heads: Heads, qkv: &mut [T], back: bool) {
        rope::rotate(qkv, heads.stride(), heads.rotated(), &self.positions, &self.table, back);
    }
}

impl<T: Real> Decoder<T> {
    /// These positions, with the rotations that they need.
    pub(crate) fn positions(&self, positions: Vec<u32>) -> Positions<T> {
        let longest = positions.iter().max().map_or(0, |p| *p as usize + 1);
        Positions { positions, table: self.table(longest) }
    }

    /// Layer `l`: from the stream at its entry to the stream at its exit.
    ///
    /// `attend(qkv, out, log_sum)` reads keys from the batch in training and from a cache in decoding.
    pub(crate) fn layer_forward(
        &self,
        l: usize,
        input: Buffer<T>,
        positions: &Positions<T>,
        mut attend: impl FnMut(&[T], &mut [T], &mut [T]),
    ) -> (Buffer<T>, Vec<Step<T>>) {
        let (heads, tokens) = (self.layer.heads, positions.positions.len());
        let mut steps: Vec<Step<T>> = Vec::with_capacity(self.layer.program.len());
        let (mut value, mut entry) = (input, 0);
        for (i, op) in self.layer.program.iter().enumerate() {
            let (output, statistics) = match op {
                Op::Norm(norm) => {
                    let (normed, scale) = self.norm(&self.groups(l, norm), &value);
                    (normed, Some(scale))
                }
                Op::Linear(_) => (self.layers[l][i].forward(&self.pool, &value), None),
                Op::Attend => {
                    let mut out = self.pool.take(tokens * heads.width());
                    let mut log_sum = self.pool.take(tokens * heads.query);
                    attend(&value, &mut out, &mut log_sum);
                    (out, Some(log_sum))
                }
                Op::Gate { activation, width } => (self.gate(*activation, *width, &value), None),
                Op::Rotate => {
                    positions.rotate(heads, &mut value, false);
                    steps.push(Step { input: None, statistics: None });
                    continue;
                }
                Op::Add => {
                    norm::add(&mut value, steps[entry].input.as_ref().expect("a block keeps its input"));
                    steps.push(Step { input: None, statistics: None });
                    entry = i + 1;
                    continue;
                }
            };
            let input = std::mem::replace(&mut value, output);
            steps.push(Step { input: self.layer.keeps(i).then_some(input), statistics });
        }
        (value, steps)
    }

    /// The input of operation `i`: taken from the tape, or recomputed from the input before it.
    fn input(&self, l: usize, steps: &mut [Step<T>], i: usize, positions: &Positions<T>) -> Buffer<T> {
        if let Some(kept) = steps[i].input.take() {
            return kept;
        }
        let Step { input, statistics } = &steps[i - 1];
        match (&self.layer.program[i - 1], input, statistics) {
            (Op::Rotate, ..) => {
                let mut value = self.input(l, steps, i - 1, positions);
                positions.rotate(self.layer.heads, &mut value, false);
                value
            }
            (Op::Norm(norm), Some(x), Some(scale)) => {
                let mut normed = self.pool.take(x.len());
                norm::recompute(&self.groups(l, norm), x, scale, &mut normed);
                normed
            }
            (Op::Gate { activation, width }, Some(gate_up), _) => self.gate(*activation, *width, gate_up),
            (op, ..) => unreachable!("the tape keeps the result of {op:?}"),
        }
    }

    /// Queries, keys and values as the attention of layer `l` read them.
    pub(super) fn attention_input(
        &self,
        l: usize,
        mut steps: Vec<Step<T>>,
        positions: &Positions<T>,
    ) -> Buffer<T> {
        let attend = self.layer.program.iter().position(|op| *op == Op::Attend);
        self.input(l, &mut steps, attend.expect("a layer attends"), positions)
    }

    /// [`Decoder::layer_forward`] over whole rows, backward: `dx` holds the gradient at its exit, then at its entry if that is `wanted`.
    pub(in crate::model) fn layer_backward(
        &self,
        l: usize,
        tape: LayerTape<T>,
        pass: &Pass<'_, T>,
        dx: &mut Buffer<T>,
        gradients: &mut Gradients<T>,
        wanted: bool,
    ) {
        let mut steps = match tape {
            LayerTape::Whole(steps) => steps,
            LayerTape::Input(input) => self.row_layer(l, input, pass).1,
        };
        let program = &self.layer.program;
        let trains = |op: &Op| op.parameters().iter().any(|p| gradients.contains(&parameter(l, &p.name)));
        let first = if wanted { None } else { program.iter().position(trains) };
        // The gradient in the value, if it is not that of the stream; the result of the attention, while it is read.
        let (mut dvalue, mut attended): (Option<Buffer<T>>, Option<Buffer<T>>) = (None, None);
        for (i, op) in program.iter().enumerate().rev() {
            let dy = dvalue.as_deref().unwrap_or(&dx[..]);
            dvalue = match op {
                Op::Norm(norm) => {
                    let input = self.input(l, &mut steps, i, &pass.positions);
                    let scale = steps[i].statistics.take().expect("a norm keeps its scales");
                    let mut d = dvalue.unwrap_or_else(|| self.copied(dx));
                    self.norm_backward(l, norm, &input, &scale, &mut d, gradients);
                    Some(d)
                }
                Op::Linear(linear) => {
                    let input = self.input(l, &mut steps, i, &pass.positions);
                    self.linear_gradients(l, linear, dy, &input, gradients);
                    attended = matches!(program[..i].last(), Some(Op::Attend)).then_some(input);
                    (first != Some(i)).then(|| self.linear_backward(l, linear, dy))
                }
                Op::Attend => {
                    let qkv = self.input(l, &mut steps, i, &pass.positions);
                    let log_sum = steps[i].statistics.take().expect("attention keeps its sums");
                    let out = attended.take().expect("a linear map reads what attention wrote");
                    Some(self.attention_backward(l, pass, [&qkv, &out, &log_sum, dy], gradients))
                }
                Op::Gate { activation, width } => {
                    let mut gate_up = self.input(l, &mut steps, i, &pass.positions);
                    match activation {
                        Activation::Silu => swiglu::backward(&mut gate_up, *width, dy),
                    }
                    Some(gate_up)
                }
                Op::Rotate => {
                    let mut d = dvalue.expect("attention gives a gradient");
                    pass.positions.rotate(self.layer.heads, &mut d, true);
                    Some(d)
                }
                Op::Add => {
                    dvalue.iter().for_each(|d| norm::add(dx, d));
                    None
                }
            };
            if first == Some(i) {
                return;
            }
        }
        dvalue.iter().for_each(|d| norm::add(dx, d));
    }

    /// The groups of a norm of layer `l`.
    fn groups(&self, l: usize, norm: &Norm) -> Groups<'_, T> {
        let weight = |part: &NormPart| (part.groups, self.weight(&parameter(l, &part.weight())));
        Groups::new(norm.width, norm.parts.iter().map(weight))
    }

    /// The normed numbers, and the scale of every group.
    pub(in crate::model) fn norm(&self, groups: &Groups<'_, T>, x: &[T]) -> (Buffer<T>, Buffer<T>) {
        let mut normed = self.pool.take(x.len());
        let mut scale = self.pool.take(x.len() / groups.stride() * groups.count());
        norm::forward(groups, x, T::from_f64(self.config.rms_norm_eps), &mut normed, &mut scale);
        (normed, scale)
    }

    /// Adds the gradients of a norm's weights to `gradients`; `d` holds the gradient in its result, then in its input.
    fn norm_backward(
        &self,
        l: usize,
        norm: &Norm,
        input: &[T],
        scale: &[T],
        d: &mut [T],
        gradients: &mut Gradients<T>,
    ) {
        let groups = self.groups(l, norm);
        let mut from = 0;
        for part in &norm.parts {
            if let Some(dw) = gradients.get(&parameter(l, &part.weight())) {
                norm::backward_weight(&groups, from..from + part.groups, input, scale, d, dw);
            }
            from += part.groups;
        }
        norm::backward(&groups, input, scale, d);
    }

    /// The product of the activated gate and up.
    fn gate(&self, activation: Activation, width: usize, gate_up: &[T]) -> Buffer<T> {
        let mut gated = self.pool.take(gate_up.len() / 2);
        match activation {
            Activation::Silu => swiglu::forward(gate_up, width, &mut gated),
        }
        gated
    }

    /// The gradient in queries, keys and values; that of the keys and values of prefixes is added to their sums.
    fn attention_backward(
        &self,
        l: usize,
        pass: &Pass<'_, T>,
        [qkv, out, log_sum, dout]: [&[T]; 4],
        gradients: &mut Gradients<T>,
    ) -> Buffer<T> {
        let mut dqkv = self.pool.take(qkv.len());
        let (offsets, contexts, mut sums) = (pass.rows.offsets(), pass.contexts(l), gradients.take_sums(l));
        let (pool, heads) = (&self.pool, self.layer.heads);
        attention::backward(pool, heads, qkv, offsets, out, log_sum, dout, &mut dqkv, &contexts, &mut sums);
        gradients.put_sums(l, sums);
        dqkv
    }

    fn copied(&self, x: &[T]) -> Buffer<T> {
        let mut copy = self.pool.take(x.len());
        copy.copy_from_slice(x);
        copy
    }
}
