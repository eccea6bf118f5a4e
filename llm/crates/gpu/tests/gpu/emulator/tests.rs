//! That the emulator finds what it is there to find, and does what a device does.

use std::sync::Arc;

use grpo_lambda_gpu::kernels::AddBias;
use grpo_lambda_gpu::ptr::Access;
use grpo_lambda_gpu::{
    Arg, Array, Buffer, Device, DeviceError, Dtype, Gemm, Kernels, Matrix, Ptr, PtrMut, Real,
};
use half::bf16;

use super::compiled::{Program, compiler};
use super::{Emulated, Order};

/// Kernels with one fault each.
const FAULTY: &str = r#"
typedef unsigned int u32;
#define KERNEL(name) extern "C" __global__ void name##_f32

// Thread t reads what its neighbour wrote, with and without a barrier between.
KERNEL(neighbour)(u32* out, u32 barrier) {
  __shared__ u32 box[64];
  box[threadIdx.x] = 0;
  __syncthreads();
  box[threadIdx.x] = threadIdx.x + 1;
  if (barrier) __syncthreads();
  out[threadIdx.x] = box[(threadIdx.x + 1) % 64];
}
KERNEL(divergent)(u32* out) {
  if (threadIdx.x < 7) __syncthreads();
  out[threadIdx.x] = 1;
}
KERNEL(two_barriers)(u32* out) {
  if (threadIdx.x < 7)
    __syncthreads();
  else
    __syncthreads();
  out[threadIdx.x] = 1;
}
KERNEL(half_a_warp)(u32* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, threadIdx.x, 1);
}
KERNEL(writes)(u32* out, u32 index) { out[(int)index] = 1; }
KERNEL(reads)(float* out, u32 index) { *out = out[index]; }
#undef KERNEL
#define KERNEL(threads, name) extern "C" __global__ void name##_f32
KERNEL(32, one_warp)(u32* out) { out[threadIdx.x] = 1; }
KERNEL(64, exchanges)(u32* out) {
  const u32 t = threadIdx.x;
  out[4 * t] = __shfl_sync(0xffffffffu, t, 40);
  out[4 * t + 1] = __shfl_xor_sync(0xffffffffu, t, 5);
  out[4 * t + 2] = __shfl_up_sync(0xffffffffu, t, 3);
  out[4 * t + 3] = __ballot_sync(0xffffffffu, t % 3 == 0);
}
"#;

const NAMES: [&str; 8] =
    ["neighbour", "divergent", "two_barriers", "half_a_warp", "writes", "reads", "one_warp", "exchanges"];

fn faulty(order: Order) -> Option<Arc<dyn Device>> {
    compiler().as_ref().ok()?;
    let program = Program::new("f32", FAULTY.to_owned(), NAMES.to_vec());
    Some(Arc::new(Emulated::of(order, u64::MAX, Some(program))))
}

fn launch(device: &Arc<dyn Device>, name: &'static str, args: &[Arg]) -> Result<(), DeviceError> {
    device.launch(name, Dtype::F32, (1, 1), 64, args)
}

/// An array for the results of a faulty kernel.
fn output(device: &Arc<dyn Device>, len: usize) -> Array<u32> {
    Array::new(device, "out", Dtype::F32, len).unwrap()
}

fn reason(result: Result<(), DeviceError>) -> String {
    match result {
        Err(DeviceError::Call { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_missing_barrier_changes_bits_with_the_order_of_threads_and_a_barrier_keeps_them() {
    let mut seen = [Vec::new(), Vec::new()];
    for order in [Order::Forward, Order::Reversed, Order::Shuffled(0), Order::Shuffled(1)] {
        let Some(device) = faulty(order) else { return };
        for barrier in [0, 1] {
            let out = output(&device, 64);
            launch(&device, "neighbour", &[out.ptr_mut().into(), Arg::U32(barrier)]).unwrap();
            seen[barrier as usize].push(out.read().unwrap());
        }
    }
    let with: Vec<u32> = (0..64).map(|t| (t + 1) % 64 + 1).collect();
    assert!(seen[1].iter().all(|bits| *bits == with));
    for a in 0..4 {
        for b in 0..a {
            assert_ne!(seen[0][a], seen[0][b], "orders {a} and {b}");
        }
    }
}

#[test]
fn barriers_that_not_all_threads_reach_are_errors() {
    for order in [Order::Forward, Order::Reversed] {
        let Some(device) = faulty(order) else { return };
        let out = output(&device, 64);
        let run = |name| reason(launch(&device, name, &[out.ptr_mut().into()]));
        assert!(run("divergent").starts_with("a barrier that some threads never reach"));
        assert!(run("two_barriers").starts_with("threads wait at different barriers"));
        assert!(run("half_a_warp").starts_with("a barrier that some threads never reach"));
        // An error leaves nothing behind.
        launch(&device, "neighbour", &[out.ptr_mut().into(), Arg::U32(1)]).unwrap();
    }
}

#[test]
fn shuffles_and_ballots_are_those_of_a_warp() {
    let Some(device) = faulty(Order::Shuffled(5)) else { return };
    let out = output(&device, 4 * 64);
    launch(&device, "exchanges", &[out.ptr_mut().into()]).unwrap();
    for (t, got) in out.read().unwrap().chunks_exact(4).enumerate() {
        let (warp, lane) = (t / 32 * 32, t % 32);
        let ballot = (0..32).filter(|l| (warp + l) % 3 == 0).map(|l| 1u32 << l).sum();
        let up = if lane >= 3 { t - 3 } else { t };
        assert_eq!(got, [warp as u32 + 8, (warp + (lane ^ 5)) as u32, up as u32, ballot], "thread {t}");
    }
}

#[test]
fn writes_outside_are_caught_and_reads_outside_or_of_fresh_memory_are_not_numbers() {
    let Some(device) = faulty(Order::Forward) else { return };
    let write = |index: i32| {
        // Not dropped where it was written around: dropping it would say so again.
        let out = std::mem::ManuallyDrop::new(output(&device, 10));
        let args = [out.ptr_mut().into(), Arg::U32(index as u32)];
        device.launch("writes", Dtype::F32, (1, 1), 32, &args)
    };
    write(9).unwrap();
    assert_eq!(reason(write(10)), "byte 40 of out (40 bytes) was written");
    let Some(device) = faulty(Order::Forward) else { return };
    let out = std::mem::ManuallyDrop::new(output(&device, 10));
    let args = [out.ptr_mut().into(), Arg::U32(-1i32 as u32)];
    assert_eq!(
        reason(device.launch("writes", Dtype::F32, (1, 1), 32, &args)),
        "4 bytes before out (40 bytes) were written"
    );
    let Some(device) = faulty(Order::Forward) else { return };
    let out: Array<f32> = Array::new(&device, "out", Dtype::F32, 10).unwrap();
    let args = [out.ptr_mut().into(), Arg::U32(1)];
    device.launch("reads", Dtype::F32, (1, 1), 32, &args).unwrap();
    assert!(out.read().unwrap()[0].is_nan());
}

#[test]
fn a_launch_of_the_wrong_name_threads_types_or_addresses_is_refused() {
    let Some(device) = faulty(Order::Forward) else { return };
    let out = output(&device, 64);
    let (at, barrier) = (Arg::from(out.ptr_mut()), Arg::U32(1));
    assert_eq!(reason(launch(&device, "nothing", &[at])), "no kernel has this name");
    // A pointer is told from another by what it points at, and whether that may be written.
    let floats = PtrMut::<f32>::new(out.ptr().address(), Dtype::F32).into();
    let wrong = [
        ([at, Arg::F32(1.0)], "Uf"),
        ([barrier, barrier], "ii"),
        ([floats, barrier], "Si"),
        ([out.ptr().into(), barrier], "ui"),
    ];
    for (args, given) in wrong {
        let problem = reason(launch(&device, "neighbour", &args));
        assert!(problem.starts_with(&format!("its arguments are Ui, given were {given} (")), "{problem}");
    }
    assert_eq!(reason(launch(&device, "one_warp", &[at])), "it is written for 32 threads, not 64");
    let dead = output(&device, 64).ptr_mut();
    let problem = reason(launch(&device, "neighbour", &[dead.into(), barrier]));
    assert_eq!(problem, "argument 0 points at 0 bytes that are not live");
    let address = out.ptr().address();
    assert!(reason(device.copy(address, address + 8, 16)).contains("overlap"));
    assert!(reason(device.upload(address + 250, &[0; 8])).contains("one live allocation"));
}

#[test]
fn a_pointer_to_less_than_the_launch_declares_is_refused() {
    let Some(device) = Emulated::start() else { return };
    let kernels = Kernels { device: device.clone(), dtype: Dtype::F32 };
    let (x, bias) = (output(&device, 6), output(&device, 3));
    let add = |from: usize| {
        let [x, bias] = [&x, &bias].map(|array| array.at_mut(from).address());
        let (x, bias) = (PtrMut::new(x, Dtype::F32), Ptr::new(bias, Dtype::F32));
        kernels.launch(AddBias { x, bias, rows: 2, width: 3 })
    };
    add(0).unwrap();
    assert_eq!(reason(add(1)), "argument 0 points at 24 bytes that are not live");
}

#[test]
fn too_little_memory_is_said_and_what_is_held_is_counted() {
    let Some(device) = Emulated::new(Order::Forward, 3 << 20) else { return };
    let device: Arc<dyn Device> = Arc::new(device);
    let one = Buffer::new(&device, "weights", 2 << 20).unwrap();
    assert_eq!(device.memory().unwrap(), (1 << 20, 3 << 20));
    let problem = Buffer::new(&device, "logits", (1 << 20) + 1).unwrap_err();
    let wanted = DeviceError::OutOfMemory {
        what: "logits",
        wanted: 2,
        in_use: 2,
        free: 1,
        device: "the emulator".to_owned(),
    };
    assert_eq!(problem, wanted);
    drop(one);
    Buffer::new(&device, "logits", (1 << 20) + 1).unwrap();
    assert_eq!((device.ledger().total(), device.ledger().peak().0), (0, 2 << 20));
}

#[test]
fn a_graph_does_nothing_until_it_is_replayed_and_then_all_of_it_each_time() {
    let Some(device) = Emulated::start() else { return };
    let kernels = Kernels { device: device.clone(), dtype: Dtype::F32 };
    let x = Buffer::from_slice(&device, "x", &[1.0f32, 2.0]).unwrap();
    let y = Buffer::from_slice(&device, "y", &[10.0f32, 10.0]).unwrap();
    let (bias, out) = (Ptr::new(x.address(), Dtype::F32), PtrMut::new(y.address(), Dtype::F32));
    device.begin_capture().unwrap();
    kernels.launch(AddBias { x: out, bias, rows: 1, width: 2 }).unwrap();
    device.copy(x.address(), y.address(), 4).unwrap();
    assert!(Buffer::new(&device, "z", 4).is_err());
    assert!(y.write(0, &[0.0f32]).is_err());
    assert!(device.begin_capture().is_err());
    let graph = device.end_capture().unwrap();
    assert!(device.end_capture().is_err());
    assert_eq!(y.read::<f32>(0, 2).unwrap(), [10.0, 10.0]);
    graph.replay().unwrap();
    graph.replay().unwrap();
    assert_eq!(y.read::<f32>(0, 2).unwrap(), [22.0, 14.0]);
    assert_eq!(x.read::<f32>(0, 2).unwrap(), [22.0, 2.0]);
}

/// A batch of matrices on the device, with two numbers after every row and five after every matrix.
struct Matrices<A> {
    buffer: Buffer,
    data: Vec<f32>,
    matrix: Matrix<A>,
}

impl<A: Access> Matrices<A> {
    fn new(device: &Arc<dyn Device>, batch: usize, (rows, columns): (usize, usize), dtype: Dtype) -> Self {
        // Small whole numbers: every dtype holds them and every sum exactly.
        let number = |i: usize| ((i * 7 + 3) % 11) as f32 - 5.0;
        let (stride, every) = (columns + 2, rows * (columns + 2) + 5);
        let data: Vec<f32> = (0..batch * every).map(number).collect();
        let buffer = match dtype {
            Dtype::F32 => Buffer::from_slice(device, "matrix", &data),
            Dtype::Bf16 => {
                let data: Vec<u16> = data.iter().map(|x| bf16::from_f32(*x).to_bits()).collect();
                Buffer::from_slice(device, "matrix", &data)
            }
        };
        let buffer = buffer.unwrap();
        let matrix = Matrix::new(Ptr::<Real, A>::new(buffer.address(), dtype), stride).every(every);
        Matrices { buffer, data, matrix }
    }

    /// Number `(row, column)` of matrix `which`, as stored.
    fn place(&self, which: usize, row: usize, column: usize) -> usize {
        which * self.matrix.batch_stride + row * self.matrix.stride + column
    }

    fn read(&self) -> Vec<f32> {
        match self.matrix.dtype {
            Dtype::F32 => self.buffer.read(0, self.data.len()).unwrap(),
            Dtype::Bf16 => {
                let bits = self.buffer.read::<u16>(0, self.data.len()).unwrap();
                bits.into_iter().map(|x| bf16::from_bits(x).to_f32()).collect()
            }
        }
    }
}

#[test]
fn products_honour_strides_batches_transpositions_and_dtypes() {
    let Some(device) = Emulated::start() else { return };
    let (m, n, k, batch) = (5, 7, 3, 2);
    for (dtype, result) in [(Dtype::F32, Dtype::F32), (Dtype::Bf16, Dtype::F32), (Dtype::Bf16, Dtype::Bf16)] {
        for case in 0..4 {
            let (ta, tb) = (case & 1 == 1, case & 2 == 2);
            let a = Matrices::new(&device, batch, if ta { (k, m) } else { (m, k) }, dtype);
            let b = Matrices::new(&device, batch, if tb { (n, k) } else { (k, n) }, dtype);
            let c = Matrices::new(&device, batch, (m, n), result);
            let left = if ta { a.matrix.t() } else { a.matrix };
            let right = if tb { b.matrix.t() } else { b.matrix };
            let product = Gemm::new((m, n, k), left, right, c.matrix);
            device.gemm(&Gemm { batch, alpha: 2.0, beta: 3.0, ..product }).unwrap();
            let mut want = c.data.clone();
            for i in 0..batch {
                for r in 0..m {
                    for q in 0..n {
                        let left = |t: usize| a.data[if ta { a.place(i, t, r) } else { a.place(i, r, t) }];
                        let right = |t: usize| b.data[if tb { b.place(i, q, t) } else { b.place(i, t, q) }];
                        let sum: f32 = (0..k).map(|t| left(t) * right(t)).sum();
                        let to = &mut want[c.place(i, r, q)];
                        *to = 2.0 * sum + 3.0 * *to;
                    }
                }
            }
            assert_eq!(c.read(), want, "{dtype:?} into {result:?}, transposed: {ta} and {tb}");
        }
    }
}

#[test]
fn a_product_without_beta_does_not_read_its_result() {
    let Some(device) = Emulated::start() else { return };
    let a = Array::from_slice(&device, "a", &[2.0f32]).unwrap();
    let c = Array::<f32>::new(&device, "c", Dtype::F32, 1).unwrap();
    let (factor, result) = (Matrix::new(a.ptr(), 1), Matrix::new(c.ptr_mut(), 1));
    device.gemm(&Gemm::new((1, 1, 1), factor, factor, result)).unwrap();
    assert_eq!(c.read().unwrap(), [4.0]);
}
