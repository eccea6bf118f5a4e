//! The CPU emulator: a device without a GPU, on which the kernels' source is compiled by a C++ compiler and run thread by thread.
//!
//! It finds errors that a GPU shows only sometimes. Fresh memory is `0xFF` (NaN in both dtypes). Every allocation lies between guard
//! bytes that are checked after every launch, and every pointer of a launch must be to live memory, as much as the launch declares. A kernel's
//! arguments must have the types of its parameters, down to the elements of a pointer and whether they may be written. A barrier that not
//! all threads reach is an error, and the order in which threads run can be changed, so that a missing barrier changes bits.

mod compiled;
mod memory;
mod product;
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use compiled::Program;
use grpo_lambda_gpu::ledger::Ledger;
use grpo_lambda_gpu::{Arg, Device, DeviceError, DriverMemory, Dtype, Gemm, Graph};
use memory::Memory;

/// The order in which the threads of a block run from one barrier to the next, and blocks one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Forward,
    Reversed,
    /// Another order each time around; blocks in theirs.
    Shuffled(u64),
}

impl Order {
    fn kind(self) -> u64 {
        match self {
            Order::Forward => 0,
            Order::Reversed => 1,
            Order::Shuffled(seed) => 2 + seed,
        }
    }
}

/// A device on the CPU.
#[derive(Clone, Debug)]
pub(crate) struct Emulated {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    order: Order,
    /// A program in place of the product's kernels.
    program: Option<Program>,
    ledger: Ledger,
    memory: Memory,
    capture: Mutex<Option<Vec<Call>>>,
}

#[derive(Clone, Debug)]
enum Call {
    Launch { name: &'static str, dtype: Dtype, grid: (u32, u32), block: u32, args: Vec<Arg> },
    Gemm(Gemm),
    Copy { to: u64, from: u64, bytes: usize },
    Clear { address: u64, bytes: usize },
}

impl Emulated {
    /// A device with unlimited memory and threads in order. `None`, and a printed reason, if there is no C++ compiler.
    pub(crate) fn start() -> Option<Arc<dyn Device>> {
        Some(Arc::new(Self::new(Order::Forward, u64::MAX)?))
    }

    /// A device with `limit` bytes of memory.
    pub(crate) fn new(order: Order, limit: u64) -> Option<Self> {
        if let Err(reason) = compiled::compiler() {
            eprintln!("skipped: {reason}");
            return None;
        }
        Some(Self::of(order, limit, None))
    }

    fn of(order: Order, limit: u64, program: Option<Program>) -> Self {
        let (ledger, memory) = (Ledger::default(), Memory::new(limit));
        Emulated { inner: Arc::new(Inner { order, program, ledger, memory, capture: Mutex::new(None) }) }
    }
}

fn failed(call: impl Into<String>, reason: impl Into<String>) -> DeviceError {
    DeviceError::Call { call: call.into(), device: "the emulator".into(), reason: reason.into() }
}

impl Inner {
    fn capture(&self) -> MutexGuard<'_, Option<Vec<Call>>> {
        self.capture.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn not_capturing(&self, call: &str) -> Result<(), DeviceError> {
        if self.capture().is_some() {
            return Err(failed(call, "it may not happen while a sequence is recorded"));
        }
        Ok(())
    }

    fn run_or_capture(&self, call: Call) -> Result<(), DeviceError> {
        if let Some(calls) = self.capture().as_mut() {
            calls.push(call);
            return Ok(());
        }
        self.run(&call)
    }

    fn run(&self, call: &Call) -> Result<(), DeviceError> {
        match call {
            Call::Launch { name, dtype, grid, block, args } => {
                for (i, arg) in args.iter().enumerate() {
                    if let Arg::Pointer { address, .. } = arg
                        && !self.memory.holds(*address, arg.bytes())
                    {
                        let reason =
                            format!("argument {i} points at {} bytes that are not live", arg.bytes());
                        return Err(failed(*name, reason));
                    }
                }
                let program = self.program.as_ref().unwrap_or_else(|| compiled::kernels(*dtype));
                program
                    .launch(name, *grid, *block, self.order.kind(), args)
                    .map_err(|reason| failed(*name, reason))?;
                self.memory.check_guards().map_err(|reason| failed(*name, reason))
            }
            Call::Gemm(gemm) => product::run(gemm, |address, bytes| self.memory.holds(address, bytes))
                .map_err(|reason| failed("gemm", reason)),
            Call::Copy { to, from, bytes } => {
                let apart = to + *bytes as u64 <= *from || from + *bytes as u64 <= *to;
                if !apart {
                    return Err(failed("copy", "the two overlap"));
                }
                let mut data = vec![0; *bytes];
                self.memory.read(*from, &mut data).map_err(|reason| failed("copy", reason))?;
                self.memory.write(*to, &data).map_err(|reason| failed("copy", reason))
            }
            Call::Clear { address, bytes } => {
                self.memory.write(*address, &vec![0; *bytes]).map_err(|reason| failed("clear", reason))
            }
        }
    }
}

struct Captured {
    inner: Arc<Inner>,
    calls: Vec<Call>,
}

impl Graph for Captured {
    fn replay(&self) -> Result<(), DeviceError> {
        self.inner.not_capturing("replay")?;
        self.calls.iter().try_for_each(|call| self.inner.run(call))
    }
}

impl Device for Emulated {
    fn name(&self) -> String {
        "the emulator".to_owned()
    }

    fn allocate(&self, what: &'static str, bytes: usize) -> Result<u64, DeviceError> {
        self.inner.not_capturing("allocate")?;
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let in_use = self.inner.ledger.total();
        let free = self.inner.memory.limit.saturating_sub(in_use);
        if Ledger::rounded(bytes) > free {
            return Err(DeviceError::OutOfMemory {
                what,
                wanted: mib(Ledger::rounded(bytes)),
                in_use: mib(in_use),
                free: free >> 20,
                device: self.name(),
            });
        }
        self.inner.ledger.take(what, bytes);
        Ok(self.inner.memory.allocate(what, bytes))
    }

    fn free(&self, what: &'static str, address: u64, bytes: usize) {
        let freed = self.inner.memory.free(what, address, bytes);
        self.inner.ledger.give(what, bytes);
        if !std::thread::panicking() {
            freed.unwrap_or_else(|reason| panic!("free: {reason}"));
            assert!(self.inner.capture().is_none(), "{what} was freed while a sequence was recorded");
        }
    }

    fn ledger(&self) -> &Ledger {
        &self.inner.ledger
    }

    fn memory(&self) -> Result<(u64, u64), DeviceError> {
        let limit = self.inner.memory.limit;
        Ok((limit.saturating_sub(self.inner.ledger.total()), limit))
    }

    fn driver_memory(&self) -> Result<DriverMemory, DeviceError> {
        let ledger = &self.inner.ledger;
        Ok(DriverMemory { held: ledger.total(), peak: ledger.peak().0, outside: 0 })
    }

    fn restart_driver_peak(&self) -> Result<(), DeviceError> {
        self.inner.ledger.forget_peak();
        Ok(())
    }

    fn upload(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.inner.not_capturing("upload")?;
        self.inner.memory.write(address, bytes).map_err(|reason| failed("upload", reason))
    }

    fn download(&self, address: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.inner.not_capturing("download")?;
        self.inner.memory.read(address, bytes).map_err(|reason| failed("download", reason))
    }

    fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), DeviceError> {
        self.inner.run_or_capture(Call::Copy { to, from, bytes })
    }

    fn clear(&self, address: u64, bytes: usize) -> Result<(), DeviceError> {
        self.inner.run_or_capture(Call::Clear { address, bytes })
    }

    fn launch(
        &self,
        name: &'static str,
        dtype: Dtype,
        grid: (u32, u32),
        block: u32,
        args: &[Arg],
    ) -> Result<(), DeviceError> {
        self.inner.run_or_capture(Call::Launch { name, dtype, grid, block, args: args.to_vec() })
    }

    fn gemm(&self, gemm: &Gemm) -> Result<(), DeviceError> {
        self.inner.run_or_capture(Call::Gemm(*gemm))
    }

    fn begin_capture(&self) -> Result<(), DeviceError> {
        self.inner.not_capturing("begin_capture")?;
        *self.inner.capture() = Some(Vec::new());
        Ok(())
    }

    fn end_capture(&self) -> Result<Box<dyn Graph>, DeviceError> {
        let calls = self.inner.capture().take();
        let calls = calls.ok_or_else(|| failed("end_capture", "nothing is recorded"))?;
        Ok(Box::new(Captured { inner: self.inner.clone(), calls }))
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}
