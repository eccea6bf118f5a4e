//! That the emulator finds what it is there to find, and does what a device does.

use std::sync::Arc;

use grpo_lambda_gpu::{Arg, Buffer, Device, DeviceError, Dtype, Gemm, Kernels, Matrix};
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
            let out = Buffer::new(&device, "out", 64 * 4).unwrap();
            launch(&device, "neighbour", &[Arg::Address(out.address()), Arg::U32(barrier)]).unwrap();
            seen[barrier as usize].push(out.read::<u32>(0, 64).unwrap());
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
        let out = Buffer::new(&device, "out", 64 * 4).unwrap();
        let run = |name| reason(launch(&device, name, &[Arg::Address(out.address())]));
        assert!(run("divergent").starts_with("a barrier that some threads never reach"));
        assert!(run("two_barriers").starts_with("threads wait at different barriers"));
        assert!(run("half_a_warp").starts_with("a barrier that some threads never reach"));
        // An error leaves nothing behind.
        launch(&device, "neighbour", &[Arg::Address(out.address()), Arg::U32(1)]).unwrap();
    }
}

#[test]
fn shuffles_and_ballots_are_those_of_a_warp() {
    let Some(device) = faulty(Order::Shuffled(5)) else { return };
    let out = Buffer::new(&device, "out", 4 * 64 * 4).unwrap();
    launch(&device, "exchanges", &[Arg::Address(out.address())]).unwrap();
    for (t, got) in out.read::<u32>(0, 256).unwrap().chunks_exact(4).enumerate() {
        let (warp, lane) = (t / 32 * 32, t % 32);
        let ballot = (0..32).filter(|l| (warp + l) % 3 == 0).map(|l| 1u32 << l).sum();
        let up = if lane >= 3 { t - 3 } else { t };
        assert_eq!(got, [warp as u32 + 8, (warp + (lane ^ 5)) as u32, up as u32, ballot], "thread {t}");
    }
}

#[test]
fn writes_outside_are_caught_and_reads_outside_or_of_fresh_memory_are_not_numbers() {
    let Some(device) = faulty(Order::Forward) else { return };
    let run = |index: i32| {
        // Not dropped where it was written around: dropping it would say so again.
        let out = std::mem::ManuallyDrop::new(Buffer::new(&device, "out", 40).unwrap());
        device.launch(
            "writes",
            Dtype::F32,
            (1, 1),
            32,
            &[Arg::Address(out.address()), Arg::U32(index as u32)],
        )
    };
    run(9).unwrap();
    assert_eq!(reason(run(10)), "byte 40 of out (40 bytes) was written");
    let Some(device) = faulty(Order::Forward) else { return };
    let out = std::mem::ManuallyDrop::new(Buffer::new(&device, "out", 40).unwrap());
    let args = [Arg::Address(out.address()), Arg::U32(-1i32 as u32)];
    assert_eq!(
        reason(device.launch("writes", Dtype::F32, (1, 1), 32, &args)),
        "4 bytes before out (40 bytes) were written"
    );
    let Some(device) = faulty(Order::Forward) else { return };
    let out = Buffer::new(&device, "out", 40).unwrap();
    let args = [Arg::Address(out.address()), Arg::U32(1)];
    device.launch("reads", Dtype::F32, (1, 1), 32, &args).unwrap();
    assert!(out.read::<f32>(0, 1).unwrap()[0].is_nan());
}

#[test]
fn a_launch_of_the_wrong_name_threads_types_or_addresses_is_refused() {
    let Some(device) = faulty(Order::Forward) else { return };
    let out = Buffer::new(&device, "out", 256).unwrap();
    let at = Arg::Address(out.address());
    assert_eq!(reason(launch(&device, "nothing", &[at])), "no kernel has this name");
    let problem = reason(launch(&device, "neighbour", &[at, Arg::F32(1.0)]));
    assert_eq!(problem, "its arguments are pi, given were pf (p: pointer, i: u32, l: u64, f: f32)");
    assert_eq!(reason(launch(&device, "one_warp", &[at])), "it is written for 32 threads, not 64");
    let dead = Buffer::new(&device, "dead", 256).unwrap().address();
    let problem = reason(launch(&device, "neighbour", &[Arg::Address(dead), Arg::U32(1)]));
    assert_eq!(problem, "argument 0 points at no live memory");
    assert!(reason(device.copy(out.address(), out.address() + 8, 16)).contains("overlap"));
    assert!(reason(device.upload(out.address() + 250, &[0; 8])).contains("one live allocation"));
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
fn a_recording_does_nothing_until_it_is_replayed_and_then_all_of_it_each_time() {
    let Some(device) = Emulated::start() else { return };
    let kernels = Kernels { device: device.clone(), dtype: Dtype::F32 };
    let x = Buffer::of(&device, "x", &[1.0f32, 2.0]).unwrap();
    let y = Buffer::of(&device, "y", &[10.0f32, 10.0]).unwrap();
    device.begin_recording().unwrap();
    kernels.add_bias(y.address(), x.address(), 1, 2).unwrap();
    device.copy(x.address(), y.address(), 4).unwrap();
    assert!(Buffer::new(&device, "z", 4).is_err());
    assert!(y.write(0, &[0.0f32]).is_err());
    assert!(device.begin_recording().is_err());
    let recording = device.end_recording().unwrap();
    assert!(device.end_recording().is_err());
    assert_eq!(y.read::<f32>(0, 2).unwrap(), [10.0, 10.0]);
    recording.replay().unwrap();
    recording.replay().unwrap();
    assert_eq!(y.read::<f32>(0, 2).unwrap(), [22.0, 14.0]);
    assert_eq!(x.read::<f32>(0, 2).unwrap(), [22.0, 2.0]);
}

#[test]
fn products_honour_strides_batches_transpositions_and_dtypes() {
    let Some(device) = Emulated::start() else { return };
    let (m, n, k, batch) = (5, 7, 3, 2);
    for (dtype, result) in [(Dtype::F32, Dtype::F32), (Dtype::Bf16, Dtype::F32), (Dtype::Bf16, Dtype::Bf16)] {
        for case in 0..4 {
            let (ta, tb) = (case & 1 == 1, case & 2 == 2);
            // Small whole numbers: every dtype holds them and every sum exactly.
            let number = |i: usize| ((i * 7 + 3) % 11) as f32 - 5.0;
            let upload = |rows: usize, columns: usize, dtype: Dtype| {
                let (stride, every) = (columns + 2, rows * (columns + 2) + 5);
                let data: Vec<f32> = (0..batch * every).map(number).collect();
                let buffer = match dtype {
                    Dtype::F32 => Buffer::of(&device, "matrix", &data),
                    Dtype::Bf16 => {
                        let data: Vec<u16> = data.iter().map(|x| bf16::from_f32(*x).to_bits()).collect();
                        Buffer::of(&device, "matrix", &data)
                    }
                };
                let buffer = buffer.unwrap();
                let matrix = Matrix::new(buffer.address(), dtype, stride).every(every);
                (buffer, data, matrix, stride, every)
            };
            let (_a, da, a, sa, ea) = if ta { upload(k, m, dtype) } else { upload(m, k, dtype) };
            let (_b, db, b, sb, eb) = if tb { upload(n, k, dtype) } else { upload(k, n, dtype) };
            let (c, dc, matrix, sc, ec) = upload(m, n, result);
            let a = if ta { a.t() } else { a };
            let b = if tb { b.t() } else { b };
            let product = Gemm { batch, alpha: 2.0, beta: 3.0, ..Gemm::new((m, n, k), a, b, matrix) };
            device.gemm(&product).unwrap();
            let got: Vec<f32> = match result {
                Dtype::F32 => c.read(0, dc.len()).unwrap(),
                Dtype::Bf16 => {
                    let bits = c.read::<u16>(0, dc.len()).unwrap();
                    bits.into_iter().map(|x| bf16::from_bits(x).to_f32()).collect()
                }
            };
            let mut want = dc;
            for i in 0..batch {
                for r in 0..m {
                    for q in 0..n {
                        let left = |t: usize| da[i * ea + if ta { t * sa + r } else { r * sa + t }];
                        let right = |t: usize| db[i * eb + if tb { q * sb + t } else { t * sb + q }];
                        let sum: f32 = (0..k).map(|t| left(t) * right(t)).sum();
                        let to = &mut want[i * ec + r * sc + q];
                        *to = 2.0 * sum + 3.0 * *to;
                    }
                }
            }
            assert_eq!(got, want, "{dtype:?} into {result:?}, transposed: {ta} and {tb}");
        }
    }
}

#[test]
fn a_product_without_beta_does_not_read_its_result() {
    let Some(device) = Emulated::start() else { return };
    let a = Buffer::of(&device, "a", &[2.0f32]).unwrap();
    let c = Buffer::new(&device, "c", 4).unwrap();
    let at = |buffer: &Buffer| Matrix::new(buffer.address(), Dtype::F32, 1);
    device.gemm(&Gemm::new((1, 1, 1), at(&a), at(&a), at(&c))).unwrap();
    assert_eq!(c.read::<f32>(0, 1).unwrap(), [4.0]);
}
