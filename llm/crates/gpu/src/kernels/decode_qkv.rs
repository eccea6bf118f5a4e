//! The first part of a layer in decoding, in one launch.

use super::heads::HeadShape;
use super::launch::Kernel;
use crate::ptr::{Arg, Ptr, PtrMut, Real};

/// [`RmsNorm`](super::RmsNorm), the product with the fused projection and [`DecodeHeads`](super::DecodeHeads) in one: queries, keys and
/// values of one token of every row from its hidden state. What they round, this rounds as well. A row that is full stays as it is.
#[derive(Clone, Copy, Debug)]
pub struct DecodeQkv {
    /// `[rows, width]`: the hidden state.
    pub x: Ptr<Real>,
    /// `[width]`: the weight of its norm.
    pub norm: Ptr<Real>,
    /// `[(query + 2 key) dim, width]`: the fused projection.
    pub weight: Ptr<Real>,
    /// `[(query + 2 key) dim]`.
    pub bias: Option<Ptr<Real>>,
    /// `[positions, dim / 2, 2]`: cosine and sine of every angle.
    pub table: Ptr<f32>,
    /// `[rows]`: the tokens before this one, which is its position.
    pub lengths: Ptr<u32>,
    /// `[rows, query dim]`.
    pub q: PtrMut<Real>,
    /// Cached keys.
    pub keys: PtrMut<Real>,
    /// Cached values.
    pub values: PtrMut<Real>,
    /// `[rows, table_width]`: the pages of every row.
    pub pages: Ptr<u32>,
    /// Rows.
    pub rows: u32,
    /// Elements of a hidden state.
    pub width: u32,
    /// How many heads of which size.
    pub heads: HeadShape,
    /// Pages that a line of the table names.
    pub table_width: u32,
    /// Added to the mean square.
    pub eps: f32,
}

impl DecodeQkv {
    /// Pairs of numbers of a head that a block works on.
    const PAIRS: u32 = 8;
    /// Rows that a block works on.
    const ROWS: u32 = 64;
}

impl Kernel for DecodeQkv {
    const NAME: &'static str = "decode_qkv";
    const BLOCK: u32 = 512;

    fn grid(&self) -> (u32, u32) {
        let HeadShape { query, key, dim } = self.heads;
        ((query + 2 * key) * (dim / 2).div_ceil(Self::PAIRS), self.rows.div_ceil(Self::ROWS))
    }

    fn args(&self) -> Vec<Arg> {
        vec![
            self.x.into(),
            self.norm.into(),
            self.weight.into(),
            self.bias.into(),
            self.table.into(),
            self.lengths.into(),
            self.q.into(),
            self.keys.into(),
            self.values.into(),
            self.pages.into(),
            self.rows.into(),
            self.width.into(),
            self.heads.query.into(),
            self.heads.key.into(),
            self.heads.dim.into(),
            self.table_width.into(),
            self.eps.into(),
        ]
    }

    fn bytes(&self) -> f64 {
        let HeadShape { query, key, dim } = self.heads;
        let (rows, width, line) =
            (self.rows as usize, self.width as usize, ((query + 2 * key) * dim) as usize);
        self.x.bytes(rows * width) + self.weight.bytes(line * width) + self.q.bytes(rows * line)
    }

    fn operations(&self) -> f64 {
        let HeadShape { query, key, dim } = self.heads;
        2.0 * f64::from(self.rows) * f64::from(self.width) * f64::from((query + 2 * key) * dim)
    }
}
