//! The check that a card goes through, on the PTX machine; and that it finds what is wrong, and where.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use grpo_lambda_decoder::model::config::FINAL_NORM;
use grpo_lambda_decoder::model::weights::Parameters;
use grpo_lambda_decoder::model::{Decoder, ForwardOptions, Gradients, ModelConfig, Rows};
use grpo_lambda_gpu::check::{self, Extent, Finding, OTHERS};
use grpo_lambda_gpu::kernels::{names, source};
use grpo_lambda_gpu::ledger::Ledger;
use grpo_lambda_gpu::ptr::ElementType;
use grpo_lambda_gpu::{Arg, Device, DeviceError, DriverMemory, Dtype, Gemm, Graph};

use grpo_lambda_ptx::Order;

use crate::{long, machine};

const DTYPES: [Dtype; 2] = [Dtype::F32, Dtype::Bf16];
const ORDERS: [Order; 3] = [Order::Shuffled(7), Order::Reversed, Order::Shuffled(0)];

/// The fault of a [`Faulty`] device.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// The kernel does nothing.
    Skips(&'static str),
    /// The first number of this argument of the kernel is wrong by a quarter at least, or another token.
    Corrupts(&'static str, usize),
    /// The kernel writes one number past the end of its output, argument 1 of `round`.
    Oversteps,
    /// Products have a wrong first number.
    Products,
    /// A graph runs nothing.
    Replays,
    /// A capture also runs at once.
    Captures,
    /// The kernel makes the device refuse every call from then on.
    Loses(&'static str),
}

/// Another device, with a fault.
#[derive(Debug)]
struct Faulty {
    inner: Arc<dyn Device>,
    fault: Fault,
    capturing: AtomicBool,
    lost: AtomicBool,
    /// Bytes of the allocations, by address.
    live: Mutex<BTreeMap<u64, usize>>,
    seen: Mutex<Seen>,
}

struct Silent;

impl Graph for Silent {
    fn replay(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// A record of launches and answers.
#[derive(Debug, Default)]
struct Seen {
    /// Kernels and arguments that may be written; true if a launch left the argument out.
    outputs: BTreeMap<(&'static str, usize), bool>,
    /// A hash of all bytes read from the device.
    bits: DefaultHasher,
}

/// The byte of a number, and the bits of it, that a fault flips.
fn flipped(name: &str, stored: ElementType) -> (usize, u8) {
    // The exponent, if the rounding of what is stored on the way may cost more than a quarter.
    let exponent = name.starts_with("attention");
    match stored {
        ElementType::F32 => (if exponent { 3 } else { 2 }, 0x40),
        ElementType::Bf16 => (usize::from(exponent), 0x40),
        ElementType::F64 => (6, 0x08),
        ElementType::U32 => (0, 1),
    }
}

impl Faulty {
    fn new(inner: Arc<dyn Device>, fault: Fault) -> Self {
        let (capturing, lost, live, seen) = Default::default();
        Faulty { inner, fault, capturing, lost, live, seen }
    }

    fn alive(&self) -> Result<(), DeviceError> {
        if self.lost.load(Ordering::Relaxed) {
            return Err(DeviceError::Missing("an illegal memory access was encountered".to_owned()));
        }
        Ok(())
    }

    fn note(&self, name: &'static str, args: &[Arg]) {
        let mut seen = self.seen.lock().unwrap();
        for (i, arg) in args.iter().enumerate() {
            match arg {
                Arg::Pointer { writes: true, .. } => drop(seen.outputs.entry((name, i)).or_default()),
                Arg::Null => drop(seen.outputs.entry((name, i)).and_modify(|absent| *absent = true)),
                _ => {}
            }
        }
    }

    /// Asserts that these are arguments of the kernel, and that what a launch declares of an array is there.
    fn compare(&self, name: &str, dtype: Dtype, block: u32, args: &[Arg]) {
        let (threads, parameters) = declared(name, dtype);
        assert_eq!(block, threads, "{name}: threads");
        let fits = |(arg, parameter): (&Arg, &String)| given(arg).is_none_or(|given| given == *parameter);
        assert!(
            args.len() == parameters.len() && args.iter().zip(&parameters).all(fits),
            "{name}: {args:?}, {parameters:?}"
        );
        let live = self.live.lock().unwrap();
        for arg in args {
            let Arg::Pointer { address, .. } = *arg else { continue };
            let found = live.range(..=address).next_back();
            let end = address + arg.bytes() as u64;
            assert!(
                found.is_some_and(|(start, bytes)| end <= start + *bytes as u64),
                "{name}: {arg:?} has less"
            );
        }
    }

    fn flip(&self, address: u64, byte: usize, bits: u8) -> Result<(), DeviceError> {
        let mut found = [0];
        self.inner.download(address + byte as u64, &mut found)?;
        self.inner.upload(address + byte as u64, &[found[0] ^ bits])
    }
}

impl Device for Faulty {
    fn name(&self) -> String {
        "faulty".to_owned()
    }
    fn allocate(&self, what: &'static str, bytes: usize) -> Result<u64, DeviceError> {
        let address = self.inner.allocate(what, bytes)?;
        self.live.lock().unwrap().insert(address, bytes);
        Ok(address)
    }
    fn free(&self, what: &'static str, address: u64, bytes: usize) {
        self.live.lock().unwrap().remove(&address);
        self.inner.free(what, address, bytes);
    }
    fn ledger(&self) -> &Ledger {
        self.inner.ledger()
    }
    fn memory(&self) -> Result<(u64, u64), DeviceError> {
        self.inner.memory()
    }
    fn driver_memory(&self) -> Result<DriverMemory, DeviceError> {
        self.inner.driver_memory()
    }
    fn restart_driver_peak(&self) -> Result<(), DeviceError> {
        self.inner.restart_driver_peak()
    }
    fn upload(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.inner.upload(address, bytes)
    }
    fn download(&self, address: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.inner.download(address, bytes)?;
        bytes.hash(&mut self.seen.lock().unwrap().bits);
        Ok(())
    }
    fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), DeviceError> {
        self.inner.copy(to, from, bytes)
    }
    fn clear(&self, address: u64, bytes: usize) -> Result<(), DeviceError> {
        self.inner.clear(address, bytes)
    }
    fn launch(
        &self,
        name: &'static str,
        dtype: Dtype,
        grid: (u32, u32),
        block: u32,
        args: &[Arg],
    ) -> Result<(), DeviceError> {
        self.alive()?;
        self.compare(name, dtype, block, args);
        if self.fault == Fault::Skips(name) {
            return Ok(());
        }
        if self.fault == Fault::Loses(name) {
            self.lost.store(true, Ordering::Relaxed);
            return self.alive();
        }
        self.inner.launch(name, dtype, grid, block, args)?;
        if self.capturing.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.note(name, args);
        match (self.fault, args) {
            (Fault::Corrupts(wrong, argument), _) if wrong == name => {
                let Arg::Pointer { address, to, .. } = args[argument] else { return Ok(()) };
                let (byte, bits) = flipped(name, to);
                self.flip(address, byte, bits)
            }
            (Fault::Oversteps, [_, Arg::Pointer { address, .. }, Arg::U64(n)]) if name == "round" => {
                self.flip(address + n * dtype.bytes() as u64, 0, 1)
            }
            _ => Ok(()),
        }
    }
    fn gemm(&self, gemm: &Gemm) -> Result<(), DeviceError> {
        self.inner.gemm(gemm)?;
        if self.fault != Fault::Products || self.capturing.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.flip(gemm.c.address, if gemm.c.dtype == Dtype::F32 { 2 } else { 0 }, 0x40)
    }
    fn begin_capture(&self) -> Result<(), DeviceError> {
        if self.fault == Fault::Captures {
            return Ok(());
        }
        self.capturing.store(true, Ordering::Relaxed);
        self.inner.begin_capture()
    }
    fn end_capture(&self) -> Result<Box<dyn Graph>, DeviceError> {
        self.capturing.store(false, Ordering::Relaxed);
        match self.fault {
            Fault::Captures => Ok(Box::new(Silent)),
            Fault::Replays => self.inner.end_capture().map(|_| Box::new(Silent) as Box<dyn Graph>),
            _ => self.inner.end_capture(),
        }
    }
    fn synchronize(&self) -> Result<(), DeviceError> {
        self.alive()?;
        self.inner.synchronize()
    }
}

/// The threads of a kernel and the types of its parameters, in its source.
fn declared(name: &str, dtype: Dtype) -> (u32, Vec<String>) {
    let source = source(dtype);
    let (head, rest) = source.split_once(&format!(", {name})(")).expect(name);
    let threads = head.rsplit_once("KERNEL(").and_then(|(_, threads)| threads.parse().ok()).expect(name);
    let parameters = rest.split_once(')').expect(name).0.split(',');
    let real = if dtype == Dtype::F32 { "float" } else { "REAL" };
    let ty = |parameter: &str| parameter.trim().rsplit_once(' ').expect(name).0.replace("REAL", real);
    (threads, parameters.map(ty).collect())
}

/// The type of an argument as a kernel writes it; `None` for a pointer of any.
fn given(arg: &Arg) -> Option<String> {
    let ty = match arg {
        Arg::Null => return None,
        Arg::U32(_) => "u32",
        Arg::U64(_) => "u64",
        Arg::F32(_) => "float",
        Arg::Pointer { to, writes, .. } => {
            let to = match to {
                ElementType::F32 => "float*",
                ElementType::Bf16 => "REAL*",
                ElementType::F64 => "double*",
                ElementType::U32 => "u32*",
            };
            return Some(if *writes { to.to_owned() } else { format!("const {to}") });
        }
    };
    Some(ty.to_owned())
}

/// The check of one kernel on a device with this fault.
fn with(fault: Fault, dtype: Dtype, only: &str) -> Vec<Finding> {
    let device: Arc<dyn Device> = Arc::new(Faulty::new(machine::start(), fault));
    check::run(&device, dtype, Extent::Odd, Some(only))
}

/// The findings of all cases, and the device's record.
fn watched(device: Arc<dyn Device>, dtype: Dtype, extent: Extent) -> (Vec<Finding>, Seen) {
    let device = Arc::new(Faulty::new(device, Fault::None));
    let findings = check::run(&(device.clone() as Arc<dyn Device>), dtype, extent, None);
    let seen = std::mem::take(&mut *device.seen.lock().unwrap());
    (findings, seen)
}

/// The proof of every kernel: its cases pass, and the bits that they read are the same in any order of threads.
#[test]
fn every_case_of_every_kernel_passes_with_the_same_bits_in_any_order_of_threads() {
    // The search for wrong numbers runs the cases of f32 too, in one order.
    for dtype in long::of(vec![Dtype::Bf16], DTYPES.to_vec()) {
        let mut first = None;
        for order in [Order::Forward].into_iter().chain(ORDERS).take(long::of(2, 4)) {
            let (findings, seen) = watched(machine::ordered(order), dtype, Extent::Odd);
            for name in names().chain(OTHERS) {
                assert!(findings.iter().any(|f| f.kernel == name), "{name}");
            }
            let table = check::table(&findings);
            assert!(check::passed(&findings), "{order:?}\n{table}");
            let bits = seen.bits.finish();
            assert_eq!(*first.get_or_insert(bits), bits, "{dtype:?}: other bits under {order:?}");
        }
    }
}

#[test]
fn a_kernel_that_does_nothing_fails_in_both_dtypes() {
    for name in names() {
        for dtype in DTYPES {
            let findings = with(Fault::Skips(name), dtype, name);
            let table = check::table(&findings);
            assert!(!check::passed(&findings), "{name} does nothing, and passes\n{table}");
            assert!(table.contains(&format!("FAIL {name}_{}", dtype.name())), "{table}");
        }
    }
}

#[test]
fn one_wrong_number_of_any_output_of_any_kernel_is_found() {
    let (sound, seen) = watched(machine::start(), Dtype::F32, Extent::Odd);
    assert!(check::passed(&sound), "{}", check::table(&sound));
    assert!(names().all(|name| seen.outputs.keys().any(|output| output.0 == name)), "{:?}", seen.outputs);
    for (i, ((name, argument), optional)) in seen.outputs.into_iter().enumerate().step_by(long::of(7, 1)) {
        // Both types of numbers, or the two by turns.
        for dtype in DTYPES.into_iter().skip(long::of(i % 2, 0)).take(long::of(1, 2)) {
            let findings = with(Fault::Corrupts(name, argument), dtype, name);
            let failed = findings.iter().filter(|f| !f.passed()).count();
            // In some cases a row is done, nothing is drawn, or the argument is left out.
            let most = if optional { 4 } else { 2 };
            let table = check::table(&findings);
            assert!(failed * most >= findings.len(), "{name}, argument {argument}\n{table}");
        }
    }
}

#[test]
fn a_fault_of_one_kernel_is_laid_at_its_door() {
    let part = vec!["embed", "rms_norm", "swiglu", "swiglu_backward", "log_prob", "adamw", "decoder"];
    let asked = long::of(part, names().chain(OTHERS).collect());
    let fails = |name: &&str| !check::passed(&with(Fault::Corrupts("swiglu", 2), Dtype::F32, name));
    let names: Vec<&str> = asked.into_iter().filter(fails).collect();
    // A model is made of kernels.
    assert_eq!(names, ["swiglu", "decoder"]);
}

/// Another implementation that agrees passes; one that is off by a thousandth in a single log-probability, or in one gradient, does not.
#[test]
fn a_second_opinion_that_differs_is_told() {
    let device: Arc<dyn Device> = Arc::new(Faulty::new(machine::start(), Fault::None));
    let told = |logp: f64, slope: f32| {
        let reference = move |config: &ModelConfig,
                              weights: &Parameters<f32>,
                              rows: &Rows,
                              options: ForwardOptions,
                              slopes: &[Vec<f64>]| {
            let (decoder, mut sums) =
                (Decoder::new(config.clone(), weights.clone())?, Gradients::new(config, |_| true));
            let (mut scores, tape) = decoder.forward(rows, options)?;
            decoder.backward(tape, slopes, &mut sums);
            scores.logps[0][0] += logp;
            let mut sums = std::mem::take(sums.parameters());
            sums.get_mut(FINAL_NORM).unwrap().data.iter_mut().for_each(|g| *g *= 1.0 + slope);
            Ok((scores, sums))
        };
        check::against(&device, Dtype::F32, "a twin", &reference)
    };
    let agreed = told(0.0, 0.0);
    assert!(check::passed(&agreed) && agreed.len() == 5, "{}", check::table(&agreed));
    assert!(agreed.iter().all(|f| f.kernel == "decoder" && f.case.ends_with(", against a twin")));
    assert!(told(1e-3, 0.0).iter().chain(&told(0.0, 1e-3)).all(|finding| !finding.passed()));
}

/// A failure like an illegal memory access: later kernels are not blamed for it.
#[test]
fn a_device_that_a_kernel_breaks_is_asked_no_more() {
    let inner = machine::start();
    let device: Arc<dyn Device> = Arc::new(Faulty::new(inner, Fault::Loses("rms_norm")));
    let findings = check::run(&device, Dtype::F32, Extent::Odd, None);
    let (last, before) = findings.split_last().expect("findings");
    let (broken, sound) = before.split_last().expect("the case that broke it");
    assert!(sound.iter().all(Finding::passed) && !sound.is_empty());
    assert_eq!(
        (broken.kernel, last.kernel, last.case.as_str()),
        ("rms_norm", "rms_norm", "all that follows")
    );
    assert!(broken.problem.as_deref().is_some_and(|problem| problem.contains("illegal memory access")));
    assert!(last.problem.as_deref().is_some_and(|problem| problem.starts_with("not run")));
    assert!(!check::passed(&findings) && findings.iter().all(|f| f.kernel != "swiglu"));
}

#[test]
fn a_write_past_the_end_is_found() {
    for dtype in DTYPES {
        let findings = with(Fault::Oversteps, dtype, "round");
        assert!(findings.iter().all(|f| f.problem.as_deref() == Some("it wrote beyond the end of an array")));
    }
}

#[test]
fn products_and_graphs_that_are_wrong_are_found() {
    for (fault, name, dtypes) in [
        (Fault::Products, "gemm", &DTYPES[..]),
        // One number of a product off by a quarter is no more than what bf16 rounds away along a model.
        (Fault::Products, "decoder", &DTYPES[..1]),
        (Fault::Replays, "replay", &DTYPES),
        (Fault::Captures, "replay", &DTYPES),
    ] {
        for &dtype in dtypes {
            let findings = with(fault, dtype, name);
            assert!(findings.iter().all(|f| !f.passed()), "{fault:?}\n{}", check::table(&findings));
        }
    }
}

#[test]
fn what_is_not_checked_has_not_passed() {
    let device = machine::start();
    let findings = check::run(&device, Dtype::F32, Extent::Odd, Some("no such kernel"));
    assert!(findings.is_empty() && !check::passed(&findings));
}
