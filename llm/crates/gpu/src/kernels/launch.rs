//! Launches: the trait of a kernel's arguments, and the macro that declares them.

use std::sync::Arc;

use grpo_lambda_decoder::device::{DeviceError, Dtype};

use crate::array::Array;
use crate::device::Device;
use crate::gemm::Gemm;
use crate::ptr::{Arg, Element};

/// One launch of a kernel: its arguments by name, declared by `kernel!` next to the kernel's source.
///
/// Outputs overlap neither each other nor inputs, unless the implementor's comment says that they may.
pub trait Kernel {
    /// Name of the kernel; its entry is `NAME_f32` or `NAME_bf16`.
    const NAME: &'static str;
    /// Threads of a block.
    const BLOCK: u32;

    /// Blocks, in two dimensions. With none there is nothing to launch.
    fn grid(&self) -> (u32, u32);

    /// The arguments, in the order of the kernel's parameters.
    fn args(&self) -> Vec<Arg>;

    /// Bytes that the launch must read and write: every array once, of the cache as much as a row can hold.
    fn bytes(&self) -> f64;

    /// Operations in matrix products, a multiply-add as two.
    fn operations(&self) -> f64;

    /// Prepares the launch.
    fn prepare(&self, device: &dyn Device) -> Result<(), DeviceError>;
}

/// A field that becomes one argument or several.
pub(super) trait Pass {
    /// Appends the arguments.
    fn pass(self, args: &mut Vec<Arg>);
}

impl<T: Into<Arg>> Pass for T {
    fn pass(self, args: &mut Vec<Arg>) {
        args.push(self.into());
    }
}

impl<const N: usize> Pass for [Arg; N] {
    fn pass(self, args: &mut Vec<Arg>) {
        args.extend(self);
    }
}

/// Declares a launch: the struct, its [`Kernel`] and the bounds of its pointers, from one list of the kernel's parameters in their order.
///
/// ```text
/// kernel! {
///     /// `x += bias`, row by row.
///     AddBias "add_bias" {
///         update x: Real[rows, width],
///         read bias: Real[width],
///         size rows: u32,
///         pass width: u32,
///     }
///     threads ROW; grid (rows, 1);
/// }
/// ```
///
/// | field | becomes |
/// | --- | --- |
/// | `read x: T[sizes]` | a [`Ptr<T>`](crate::Ptr), `const T*` in the kernel, to as many elements as the product of the sizes; `[..]` if the launch does not know |
/// | `write x: T[sizes]` | a [`PtrMut<T>`](crate::PtrMut), `T*` in the kernel |
/// | `update x: T[sizes]` | a `write` of elements that the kernel reads, too |
/// | `read x: T[sizes] or null` | an `Option` of a pointer: an array that may be absent |
/// | `pass x: T`, `pass x: T = value` | an argument by value, or several: see [`Pass`] |
/// | `size x: T` | no argument: a number for the grid, the sizes and the counts |
///
/// Expressions may name the fields. After the grid may follow `bytes x[sizes], ..;`, the arrays that count in [`Kernel::bytes`] (without it
/// each pointer with its sizes, an `update` twice), `operations value;` and `before(device) result;`, which is [`Kernel::prepare`].
macro_rules! kernel {
    (
        $(#[$about:meta])*
        $kernel:ident $name:literal {
            $($(#[$doc:meta])* $mode:ident $field:ident: $type:ty $([$($size:tt)*] $(or $null:ident)?)? $(= $passed:expr)?,)*
        }
        threads $threads:expr; grid $grid:expr;
        $(bytes $($moved:ident[$($part:tt)*]),+;)?
        $(operations $operations:expr;)?
        $(before($device:ident) $before:expr;)?
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug)]
        pub struct $kernel {
            $(
                #[doc = kernel!(@doc $mode $([$($size)*])?)]
                ///
                $(#[$doc])*
                pub $field: kernel!(@type $mode $type $(, $($null)?)?),
            )*
        }

        #[allow(unused_variables)] // each expression names some fields
        impl $crate::kernels::Kernel for $kernel {
            const NAME: &'static str = $name;
            const BLOCK: u32 = $threads;

            fn grid(&self) -> (u32, u32) {
                let Self { $($field),* } = *self;
                $grid
            }

            fn args(&self) -> Vec<$crate::ptr::Arg> {
                let Self { $($field),* } = *self;
                let mut args = Vec::new();
                $(kernel!(@pass args $mode $field $([$($size)*])? $(= $passed)?);)*
                args
            }

            fn bytes(&self) -> f64 {
                let Self { $($field),* } = *self;
                kernel!(@or
                    [$(0.0 $(+ kernel!(@moved read $moved[$($part)*]))+)?]
                    0.0 $(+ kernel!(@moved $mode $field $([$($size)*])?))*
                )
            }

            fn operations(&self) -> f64 {
                let Self { $($field),* } = *self;
                kernel!(@or [$($operations)?] 0.0)
            }

            fn prepare(
                &self,
                device: &dyn $crate::device::Device,
            ) -> Result<(), grpo_lambda_decoder::device::DeviceError> {
                let Self { $($field),* } = *self;
                kernel!(@or [$({ let $device = device; $before })?] Ok(()))
            }
        }
    };

    // The rules below are for one field each: its documentation, its type, its arguments.
    (@doc pass) => { "Passed to the kernel." };
    (@doc size) => { "Not passed to the kernel." };
    (@doc $mode:ident [..]) => { concat!(stringify!($mode), ", of a size that the launch does not know.") };
    (@doc $mode:ident [$($size:tt)*]) => { concat!(stringify!($mode), ", `[", stringify!($($size)*), "]`.") };

    (@type read $($pointer:tt)*) => { kernel!(@pointer Ptr $($pointer)*) };
    (@type write $($pointer:tt)*) => { kernel!(@pointer PtrMut $($pointer)*) };
    (@type update $($pointer:tt)*) => { kernel!(@pointer PtrMut $($pointer)*) };
    (@type $mode:ident $type:ty) => { $type };
    (@pointer $pointer:ident $type:ty,) => { $crate::ptr::$pointer<$type> };
    (@pointer $pointer:ident $type:ty, null) => { Option<$crate::ptr::$pointer<$type>> };

    (@pass $args:ident size $field:ident) => {};
    (@pass $args:ident pass $field:ident) => { $crate::kernels::launch::Pass::pass($field, &mut $args) };
    (@pass $args:ident pass $field:ident = $passed:expr) => { $crate::kernels::launch::Pass::pass($passed, &mut $args) };
    (@pass $args:ident $mode:ident $field:ident $size:tt) => { kernel!(@pass $args pass $field = kernel!(@bounded $field $size)) };

    // A clause, or the default without it; the bytes of an array; an argument with its bounds.
    (@or [] $otherwise:expr) => { $otherwise };
    (@or [$given:expr] $otherwise:expr) => { $given };
    (@moved update $field:ident $size:tt) => { 2.0 * kernel!(@bounded $field $size).bytes() as f64 };
    (@moved $mode:ident $field:ident $size:tt) => { kernel!(@bounded $field $size).bytes() as f64 };
    (@moved $mode:ident $field:ident) => { 0.0 };

    (@bounded $field:ident [..]) => { $crate::ptr::Arg::from($field) };
    (@bounded $field:ident [$($size:expr),+]) => { $crate::ptr::Arg::from($field).to_elements(1 $(* $size as usize)+) };
}
pub(super) use kernel;

/// The kernels for one dtype on one device.
#[derive(Clone, Debug)]
pub struct Kernels {
    /// The device that runs them.
    pub device: Arc<dyn Device>,
    /// The dtype of weights and activations.
    pub dtype: Dtype,
}

impl Kernels {
    /// Launches a kernel, after all that was launched before.
    ///
    /// # Errors
    /// Errors if the device fails, or the kernel cannot be launched with these arguments.
    pub fn launch<K: Kernel>(&self, kernel: K) -> Result<(), DeviceError> {
        kernel.prepare(&*self.device)?;
        let grid = kernel.grid();
        if grid.0 == 0 || grid.1 == 0 {
            return Ok(());
        }
        self.device.count(K::NAME, kernel.operations(), kernel.bytes());
        self.device.launch(K::NAME, self.dtype, grid, K::BLOCK, &kernel.args())
    }

    /// Launches a matrix product, unless one of its sizes is 0.
    pub(crate) fn gemm(&self, gemm: Gemm) -> Result<(), DeviceError> {
        if gemm.m == 0 || gemm.n == 0 || gemm.k == 0 {
            return Ok(());
        }
        self.device.gemm(&gemm)
    }

    /// An array of undefined content. `what` names its use in [`crate::ledger`].
    pub(crate) fn array<T: Element>(&self, what: &'static str, len: usize) -> Result<Array<T>, DeviceError> {
        Array::new(&self.device, what, self.dtype, len)
    }
}

/// Threads of a block that works on one row.
pub(super) const ROW: u32 = 256;

/// Blocks for `n` elements of a flat array, four to a thread, at most `most`.
pub(super) fn flat_blocks(n: u64, most: u32) -> u32 {
    n.div_ceil(4 * u64::from(ROW)).clamp(1, u64::from(most)) as u32
}
