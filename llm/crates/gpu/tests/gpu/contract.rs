//! The contract of [`Device`] beyond what `check` compares of products, kernels and graphs, tested on the PTX machine everywhere and on a CUDA
//! card if there is one.
//!
//! On a card: `cargo test -p grpo-lambda-gpu --features cuda --test gpu card -- --ignored`.

use std::sync::Arc;

use grpo_lambda_gpu::ptr::Access;
use grpo_lambda_gpu::{Buffer, Device, DeviceError, Dtype, Gemm, Matrix, Ptr, Real};
use half::bf16;

type Check = fn(&Arc<dyn Device>);

const CHECKS: [(&str, Check); 6] = [
    ("memory is aligned, counted, and holds what is put there", memory),
    ("the driver says what it holds and held", driver_memory),
    ("too much memory is refused in one line", too_much_memory),
    ("products of f32 are those of f32", precision),
    ("products repeat to the bit", repeated_products),
    ("a sequence refuses what it cannot hold, and runs when it is replayed", graph),
];

pub(crate) fn all(device: &Arc<dyn Device>) {
    for (statement, check) in CHECKS {
        eprintln!("{}: {statement}", device.name());
        check(device);
        device.synchronize().expect(statement);
        assert!(device.begin_capture().is_ok() && device.end_capture().is_ok(), "{statement}");
    }
}

#[test]
#[ignore = "needs a CUDA card"]
fn a_card_keeps_the_contract() {
    for dtype in [Dtype::F32, Dtype::Bf16] {
        let card = grpo_lambda_gpu::cuda::Cuda::open(0, dtype, |line| println!("{line}")).expect("a card");
        all(&(Arc::new(card) as Arc<dyn Device>));
    }
}

fn memory(device: &Arc<dyn Device>) {
    let before = device.ledger().total();
    for bytes in [0, 1, 255, 257, 65_536, 65_537, 3_000_001] {
        let [one, other] = [(); 2].map(|()| Buffer::new(device, "a test", bytes).unwrap());
        assert!([one.address(), other.address()].iter().all(|a| *a != 0 && a % 256 == 0));
        let data: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
        one.write(0, &data).unwrap();
        device.copy(other.address(), one.address(), bytes).unwrap();
        one.clear().unwrap();
        assert_eq!(other.read::<u8>(0, bytes).unwrap(), data);
        assert_eq!(one.read::<u8>(0, bytes).unwrap(), vec![0; bytes]);
        assert_eq!(device.ledger().total() - before, 2 * (bytes as u64).div_ceil(256) * 256);
    }
    assert_eq!(device.ledger().total(), before);
    // What is freed on the stream is free when the stream comes to it.
    device.synchronize().unwrap();
    let (free, total) = device.memory().unwrap();
    let held = Buffer::new(device, "a test", 256 << 20).unwrap();
    let (left, _) = device.memory().unwrap();
    assert!(free <= total && left <= free - held.bytes() as u64, "{left} of {free} left");
    drop(held);
    device.synchronize().unwrap();
    let again = device.memory().unwrap().0;
    assert!(again > left, "what is given back is free again: {again}, {left}");
}

/// The driver holds what is allocated, remembers the most it held, and begins again when asked to.
fn driver_memory(device: &Arc<dyn Device>) {
    device.restart_driver_peak().unwrap();
    let before = device.driver_memory().unwrap();
    assert_eq!(before.peak, before.held);
    let held = Buffer::new(device, "a test", 256 << 20).unwrap();
    let during = device.driver_memory().unwrap();
    assert!(during.held >= before.held + held.bytes() as u64 && during.peak >= during.held, "{during:?}");
    drop(held);
    device.synchronize().unwrap();
    assert!(device.driver_memory().unwrap().peak >= during.held);
    device.restart_driver_peak().unwrap();
    let after = device.driver_memory().unwrap();
    assert_eq!((after.held, after.peak), (before.held, before.held));
}

fn too_much_memory(device: &Arc<dyn Device>) {
    let held = device.ledger().total();
    let error = Buffer::new(device, "a test", 1 << 42).map(|_| ()).unwrap_err();
    assert!(matches!(error, DeviceError::OutOfMemory { what: "a test", wanted: 4_194_304, .. }), "{error:?}");
    assert!(!error.to_string().contains('\n'));
    assert_eq!(device.ledger().total(), held);
    // It is no reason to stop.
    assert_eq!(Buffer::from_slice(device, "a test", &[1.5_f32]).unwrap().read::<f32>(0, 1).unwrap(), [1.5]);
}

fn upload(device: &Arc<dyn Device>, dtype: Dtype, numbers: &[f32]) -> Buffer {
    match dtype {
        Dtype::F32 => Buffer::from_slice(device, "a test", numbers).unwrap(),
        Dtype::Bf16 => {
            let bits: Vec<u16> = numbers.iter().map(|x| bf16::from_f32(*x).to_bits()).collect();
            Buffer::from_slice(device, "a test", &bits).unwrap()
        }
    }
}

/// A matrix at the start of a buffer.
fn matrix<A: Access>(buffer: &Buffer, dtype: Dtype, stride: usize) -> Matrix<A> {
    Matrix::new(Ptr::<Real, A>::new(buffer.address(), dtype), stride)
}

const DTYPES: [(Dtype, Dtype); 3] =
    [(Dtype::F32, Dtype::F32), (Dtype::Bf16, Dtype::Bf16), (Dtype::Bf16, Dtype::F32)];

/// A product that TF32, with its 10 bits, gets wrong; and one whose sum is wrong when it is kept in bf16.
fn precision(device: &Arc<dyn Device>) {
    let fine = 1.0 + 2.0_f32.powi(-14);
    let a = upload(device, Dtype::F32, &[fine; 64 * 64]);
    let ones = upload(device, Dtype::F32, &[1.0; 64 * 64]);
    let c = upload(device, Dtype::F32, &[0.0; 64 * 64]);
    let (left, right) = (matrix(&a, Dtype::F32, 64), matrix(&ones, Dtype::F32, 64));
    device.gemm(&Gemm::new((64, 64, 64), left, right, matrix(&c, Dtype::F32, 64))).unwrap();
    assert_eq!(c.read::<f32>(0, 64 * 64).unwrap(), vec![64.0 * fine; 64 * 64]);
    // 1 and 4095 times 1/4096 each: in bf16 the sum would stay at 1.
    let k = 4096;
    let mut row = vec![2.0_f32.powi(-12); k];
    row[0] = 1.0;
    let a = upload(device, Dtype::Bf16, &row);
    let b = upload(device, Dtype::Bf16, &vec![1.0; k]);
    let (left, right): (Matrix, Matrix) = (matrix(&a, Dtype::Bf16, k), matrix(&b, Dtype::Bf16, k));
    device.gemm(&Gemm::new((1, 1, k), left, right.t(), matrix(&c, Dtype::F32, 1))).unwrap();
    assert_eq!(c.read::<f32>(0, 1).unwrap(), [1.0 + 4095.0 / 4096.0]);
}

fn repeated_products(device: &Arc<dyn Device>) {
    let (m, n, k) = (48, 40, 1000);
    let rough =
        |len: usize| (0..len).map(|i| ((i * 7919 % 1009) as f32 / 1009.0 - 0.5).sin()).collect::<Vec<_>>();
    for (of, into) in DTYPES {
        let [a, b] = [upload(device, of, &rough(m * k)), upload(device, of, &rough(k * n))];
        let bits = [(); 3].map(|()| {
            let c = upload(device, into, &vec![f32::NAN; m * n]);
            device
                .gemm(&Gemm::new((m, n, k), matrix(&a, of, k), matrix(&b, of, n), matrix(&c, into, n)))
                .unwrap();
            c.read::<u8>(0, m * n * into.bytes()).unwrap()
        });
        assert!(bits[0] == bits[1] && bits[1] == bits[2], "{of:?} into {into:?}");
        assert!(bits[0].iter().any(|b| *b != 0));
    }
}

/// What `check` replays is right; here is what a sequence cannot hold.
fn graph(device: &Arc<dyn Device>) {
    let x = Buffer::from_slice(device, "a test", &[1.0_f32, 2.0]).unwrap();
    device.begin_capture().unwrap();
    device.clear(x.address(), 8).unwrap();
    for refused in [
        device.allocate("a test", 8).map(|_| ()),
        device.upload(x.address(), &[0; 8]),
        device.download(x.address(), &mut [0; 8]),
        device.begin_capture(),
    ] {
        let line = refused.unwrap_err().to_string();
        assert!(line.contains("may not happen while a sequence is recorded"), "{line}");
    }
    let captured = device.end_capture().unwrap();
    assert_eq!(x.read::<f32>(0, 2).unwrap(), [1.0, 2.0], "captured, not run");
    captured.replay().unwrap();
    assert_eq!(x.read::<f32>(0, 2).unwrap(), [0.0; 2]);
    assert!(device.end_capture().is_err(), "nothing is captured");
}
