//! Rows by index: the embedding and its gradient, gathering and scattering.

use super::launch::{Kernel, ROW};
use crate::ptr::{Arg, Ptr, PtrMut, Real};

/// `out[t] = table[ids[t]]`.
#[derive(Clone, Copy, Debug)]
pub struct Embed {
    /// `[tokens]`.
    pub ids: Ptr<u32>,
    /// `[vocabulary, width]`.
    pub table: Ptr<Real>,
    /// `[tokens, width]`.
    pub out: PtrMut<Real>,
    /// Rows of `out`.
    pub tokens: u32,
    /// Elements of a row.
    pub width: u32,
}

impl Kernel for Embed {
    const NAME: &'static str = "embed";
    const BLOCK: u32 = ROW;

    fn grid(&self) -> (u32, u32) {
        (self.tokens, 1)
    }

    fn args(&self) -> Vec<Arg> {
        vec![self.ids.into(), self.table.into(), self.out.into(), self.width.into()]
    }

    fn bytes(&self) -> f64 {
        let n = self.tokens as usize * self.width as usize;
        self.out.bytes(n) + self.table.bytes(n) + self.ids.bytes(self.tokens as usize)
    }
}

/// Adds `dx` into `dtable`: the tokens of the id `ids[i]` are `order[starts[i]..starts[i + 1]]` and are added in that order.
#[derive(Clone, Copy, Debug)]
pub struct EmbedBackward {
    /// `[tokens, width]`.
    pub dx: Ptr<Real>,
    /// `[tokens]`: tokens, those of one id together.
    pub order: Ptr<u32>,
    /// `[distinct + 1]`: where in `order` each id begins.
    pub starts: Ptr<u32>,
    /// `[distinct]`.
    pub ids: Ptr<u32>,
    /// `[vocabulary, width]`.
    pub dtable: PtrMut<f32>,
    /// Tokens.
    pub tokens: u32,
    /// Ids that occur.
    pub distinct: u32,
    /// Elements of a row.
    pub width: u32,
}

impl Kernel for EmbedBackward {
    const NAME: &'static str = "embed_backward";
    const BLOCK: u32 = ROW;

    fn grid(&self) -> (u32, u32) {
        (self.distinct, 1)
    }

    fn args(&self) -> Vec<Arg> {
        vec![
            self.dx.into(),
            self.order.into(),
            self.starts.into(),
            self.ids.into(),
            self.dtable.into(),
            self.width.into(),
        ]
    }

    fn bytes(&self) -> f64 {
        let (width, tokens) = (self.width as usize, self.tokens as usize);
        self.dx.bytes(tokens * width) + 2.0 * self.dtable.bytes(self.distinct as usize * width)
    }
}

/// `out[i] = x[index[i]]`.
#[derive(Clone, Copy, Debug)]
pub struct GatherRows {
    /// Rows of `width`.
    pub x: Ptr<Real>,
    /// `[rows]`.
    pub index: Ptr<u32>,
    /// `[rows, width]`.
    pub out: PtrMut<Real>,
    /// Rows of `out`.
    pub rows: u32,
    /// Elements of a row.
    pub width: u32,
}

impl Kernel for GatherRows {
    const NAME: &'static str = "gather_rows";
    const BLOCK: u32 = ROW;

    fn grid(&self) -> (u32, u32) {
        (self.rows, 1)
    }

    fn args(&self) -> Vec<Arg> {
        vec![self.x.into(), self.index.into(), self.out.into(), self.width.into()]
    }

    fn bytes(&self) -> f64 {
        let n = self.rows as usize * self.width as usize;
        self.x.bytes(n) + self.out.bytes(n) + self.index.bytes(self.rows as usize)
    }
}

/// `out[index[i]] = x[i]`; the indices differ.
#[derive(Clone, Copy, Debug)]
pub struct ScatterRows {
    /// `[rows, width]`.
    pub x: Ptr<Real>,
    /// `[rows]`.
    pub index: Ptr<u32>,
    /// Rows of `width`.
    pub out: PtrMut<Real>,
    /// Rows of `x`.
    pub rows: u32,
    /// Elements of a row.
    pub width: u32,
}

impl Kernel for ScatterRows {
    const NAME: &'static str = "scatter_rows";
    const BLOCK: u32 = ROW;

    fn grid(&self) -> (u32, u32) {
        (self.rows, 1)
    }

    fn args(&self) -> Vec<Arg> {
        vec![self.x.into(), self.index.into(), self.out.into(), self.width.into()]
    }

    fn bytes(&self) -> f64 {
        let n = self.rows as usize * self.width as usize;
        self.x.bytes(n) + self.out.bytes(n) + self.index.bytes(self.rows as usize)
    }
}
