//! Products of matrices, under the strictest rules of candle's devices, and with gradients of what is trained alone.
//!
//! Three things are asked of every product, forwards and backwards and on every device, so that a program that runs on the CPU runs on a card:
//! strides that cuBLAS takes (candle's CPU takes any), fewer numbers than candle's kernels can count, and no gradient of a frozen matrix, which
//! candle's own product computes and drops.

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CudaStorage, CustomOp2, Layout, MetalStorage, Result, Shape, Tensor, bail};

/// The numbers that candle's kernels can count.
const COUNTABLE: usize = u32::MAX as usize;

/// `x y` of two batches of matrices.
///
/// # Errors
/// When the shapes do not fit, or a device could not compute it.
pub fn product(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    x.apply_op2(y, Product)
}

struct Product;

/// Batch, rows, columns and the length of the sums.
type Sizes = (usize, usize, usize, usize);

fn sizes(x: &Layout, y: &Layout) -> Result<Sizes> {
    let (a, b) = (x.dims(), y.dims());
    let ([before @ .., m, k], [neighbour @ .., inner, n]) = (a, b) else {
        bail!("no matrices: {a:?}, {b:?}")
    };
    if before != neighbour || k != inner {
        bail!("shapes of a product: {a:?} by {b:?}");
    }
    Ok((before.iter().product(), *m, *n, *k))
}

/// Refuses what candle's CUDA backend would refuse (its `gemm_config`), or count wrongly.
fn check((batch, m, n, k): Sizes, x: &Layout, y: &Layout) -> Result<()> {
    let dense = |s: &[usize], rows: usize, columns: usize| match s {
        [.., r, c] => {
            ((*c == 1 || columns == 1) && (*r == columns || rows == 1))
                || ((*c == rows || columns == 1) && (*r == 1 || rows == 1))
        }
        _ => false,
    };
    let even = |s: &[usize], d: &[usize]| match s[..s.len() - 2] {
        [] | [_] => true,
        [outer, inner] => outer == inner * d[1] || d[0] == 1 || d[1] == 1,
        _ => false,
    };
    if !dense(x.stride(), m, k)
        || !dense(y.stride(), k, n)
        || !even(x.stride(), x.dims())
        || !even(y.stride(), y.dims())
    {
        bail!("strides of a product: {m} x {k} {:?} by {k} x {n} {:?}", x.stride(), y.stride());
    }
    if batch * m * n > COUNTABLE {
        bail!("{batch} x {m} x {n} numbers of a product are more than candle can count");
    }
    Ok(())
}

fn multiply<S: BackendStorage>(x: &S, lx: &Layout, y: &S, ly: &Layout) -> Result<(S, Shape)> {
    let sizes = sizes(lx, ly)?;
    check(sizes, lx, ly)?;
    let mut shape = lx.dims().to_vec();
    shape.pop();
    shape.push(sizes.2);
    Ok((x.matmul(y, sizes, lx, ly)?, shape.into()))
}

/// The forward pass on each device.
macro_rules! forward {
    ($($name:ident: $storage:ty),*) => {$(
        fn $name(&self, x: &$storage, lx: &Layout, y: &$storage, ly: &Layout) -> Result<($storage, Shape)> {
            multiply(x, lx, y, ly)
        }
    )*};
}

impl CustomOp2 for Product {
    fn name(&self) -> &'static str {
        "product"
    }

    forward!(cpu_fwd: CpuStorage, cuda_fwd: CudaStorage, metal_fwd: MetalStorage);

    fn bwd(
        &self,
        x: &Tensor,
        y: &Tensor,
        _: &Tensor,
        slope: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let of_x = x.track_op().then(|| product(slope, &y.detach().t()?)).transpose()?;
        let of_y = y.track_op().then(|| product(&x.detach().t()?, slope)).transpose()?;
        Ok((of_x, of_y))
    }
}
