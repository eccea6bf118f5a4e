//! RMSNorm and its gradients; biases and theirs.

use super::launch::{Kernel, ROW};
use crate::ptr::{Arg, Ptr, PtrMut, Real};

/// Threads of a block that sums 32 columns.
pub(super) const COLUMNS: u32 = 1024;

/// `y = x / sqrt(mean x^2 + eps) * weight`. `x` and `y` may be one.
#[derive(Clone, Copy, Debug)]
pub struct RmsNorm {
    /// `[tokens, width]`.
    pub x: Ptr<Real>,
    /// `[width]`.
    pub weight: Ptr<Real>,
    /// `[tokens, width]`.
    pub y: PtrMut<Real>,
    /// `[tokens]`: becomes `1 / sqrt(mean x^2 + eps)`, which the gradients read.
    pub scale: Option<PtrMut<f32>>,
    /// Rows.
    pub tokens: u32,
    /// Elements of a row.
    pub width: u32,
    /// Added to the mean square.
    pub eps: f32,
}

impl Kernel for RmsNorm {
    const NAME: &'static str = "rms_norm";
    const BLOCK: u32 = ROW;

    fn grid(&self) -> (u32, u32) {
        (self.tokens, 1)
    }

    fn args(&self) -> Vec<Arg> {
        vec![
            self.x.into(),
            self.weight.into(),
            self.y.into(),
            self.scale.into(),
            self.width.into(),
            self.eps.into(),
        ]
    }

    fn bytes(&self) -> f64 {
        let (rows, width) = (self.tokens as usize, self.width as usize);
        let scale = self.scale.map_or(0.0, |scale| scale.bytes(rows));
        self.x.bytes(rows * width) + self.y.bytes(rows * width) + self.weight.bytes(width) + scale
    }
}

/// `dx += ` the gradient of [`RmsNorm`] with respect to `x`.
#[derive(Clone, Copy, Debug)]
pub struct RmsNormBackward {
    /// `[tokens, width]`.
    pub x: Ptr<Real>,
    /// `[tokens]`, from [`RmsNorm`].
    pub scale: Ptr<f32>,
    /// `[width]`.
    pub weight: Ptr<Real>,
    /// `[tokens, width]`.
    pub dy: Ptr<Real>,
    /// `[tokens, width]`.
    pub dx: PtrMut<Real>,
    /// Rows.
    pub tokens: u32,
    /// Elements of a row.
    pub width: u32,
}

impl Kernel for RmsNormBackward {
    const NAME: &'static str = "rms_norm_backward";
    const BLOCK: u32 = ROW;

    fn grid(&self) -> (u32, u32) {
        (self.tokens, 1)
    }

    fn args(&self) -> Vec<Arg> {
        vec![
            self.x.into(),
            self.scale.into(),
            self.weight.into(),
            self.dy.into(),
            self.dx.into(),
            self.width.into(),
        ]
    }

    fn bytes(&self) -> f64 {
        let (rows, width) = (self.tokens as usize, self.width as usize);
        let rows_each_way =
            self.x.bytes(rows * width) + self.dy.bytes(rows * width) + 2.0 * self.dx.bytes(rows * width);
        rows_each_way + self.scale.bytes(rows) + self.weight.bytes(width)
    }
}

/// `dweight += sum_t dy x scale`.
#[derive(Clone, Copy, Debug)]
pub struct RmsNormWeight {
    /// `[tokens, width]`.
    pub x: Ptr<Real>,
    /// `[tokens]`, from [`RmsNorm`].
    pub scale: Ptr<f32>,
    /// `[tokens, width]`.
    pub dy: Ptr<Real>,
    /// `[width]`.
    pub dweight: PtrMut<f32>,
    /// Rows.
    pub tokens: u32,
    /// Elements of a row.
    pub width: u32,
}

impl Kernel for RmsNormWeight {
    const NAME: &'static str = "rms_norm_weight";
    const BLOCK: u32 = COLUMNS;

    fn grid(&self) -> (u32, u32) {
        (self.width.div_ceil(32), 1)
    }

    fn args(&self) -> Vec<Arg> {
        vec![
            self.x.into(),
            self.scale.into(),
            self.dy.into(),
            self.dweight.into(),
            self.tokens.into(),
            self.width.into(),
        ]
    }

    fn bytes(&self) -> f64 {
        let (rows, width) = (self.tokens as usize, self.width as usize);
        let read = self.x.bytes(rows * width) + self.dy.bytes(rows * width) + self.scale.bytes(rows);
        read + 2.0 * self.dweight.bytes(width)
    }
}

/// `x += bias`, row by row.
#[derive(Clone, Copy, Debug)]
pub struct AddBias {
    /// `[rows, width]`.
    pub x: PtrMut<Real>,
    /// `[width]`.
    pub bias: Ptr<Real>,
    /// Rows.
    pub rows: u32,
    /// Elements of a row.
    pub width: u32,
}

impl Kernel for AddBias {
    const NAME: &'static str = "add_bias";
    const BLOCK: u32 = ROW;

    fn grid(&self) -> (u32, u32) {
        (self.rows, 1)
    }

    fn args(&self) -> Vec<Arg> {
        vec![self.x.into(), self.bias.into(), self.width.into()]
    }

    fn bytes(&self) -> f64 {
        let (rows, width) = (self.rows as usize, self.width as usize);
        2.0 * self.x.bytes(rows * width) + self.bias.bytes(width)
    }
}

/// `out += ` the sum of the rows of `x`: the gradient of a bias.
#[derive(Clone, Copy, Debug)]
pub struct ColumnSum {
    /// `[rows, width]`.
    pub x: Ptr<Real>,
    /// `[width]`.
    pub out: PtrMut<f32>,
    /// Rows.
    pub rows: u32,
    /// Elements of a row.
    pub width: u32,
}

impl Kernel for ColumnSum {
    const NAME: &'static str = "column_sum";
    const BLOCK: u32 = COLUMNS;

    fn grid(&self) -> (u32, u32) {
        (self.width.div_ceil(32), 1)
    }

    fn args(&self) -> Vec<Arg> {
        vec![self.x.into(), self.out.into(), self.rows.into(), self.width.into()]
    }

    fn bytes(&self) -> f64 {
        let (rows, width) = (self.rows as usize, self.width as usize);
        self.x.bytes(rows * width) + 2.0 * self.out.bytes(width)
    }
}
