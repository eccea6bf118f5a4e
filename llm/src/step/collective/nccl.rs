//! Workers that are GPUs, over NCCL.
//!
//! **Compiled and linted, never run**: no machine with two GPUs, or with NCCL, has been at hand. What stands elsewhere: the kernel
//! `tree_sum` is compiled by a C compiler in the tests and equals [`TreeSum`](super::TreeSum) to the bit; the trait's contract is that of
//! [`Threads`](super::Threads), which is tested. What only hardware can show: every call into NCCL and the driver below.
//!
//! NCCL's own sum may take any association, and takes another for another number of GPUs. So it only moves numbers here
//! (all-gather, broadcast), and each worker adds along the tree.
//!
//! Every call begins with a round of headers, what each worker calls and with how many numbers: workers that have parted are told
//! apart instead of waiting for ever, and a worker that gives up says so in the round the others wait in. A worker that is killed says
//! nothing; the others wait for `patience` and then fail without knowing its rank.
//!
//! Who starts the workers hands the identifier of [`identifier`] from rank 0 to all: through memory between threads, through a file or
//! the launcher's own store between processes.
#![allow(unsafe_code)]

use std::fmt::Debug;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, DeviceRepr, DriverError, LaunchConfig, PushKernelArg,
    ValidAsZeroBits,
};
use cudarc::nccl::result::NcclError;
pub use cudarc::nccl::safe::Id;
use cudarc::nccl::safe::{Comm, NcclType};
use grpo_lambda_gpu::Buffer;

use super::{Collective, CollectiveError, Shards};

/// The kernel that adds what was gathered.
pub const TREE_SUM: &str = include_str!("tree_sum.cu");

/// Numbers that are added at a time: 16 MiB of device memory per worker.
const CHUNK: usize = 1 << 22;
const BLOCK: u32 = 256;

/// A header: call, root, numbers.
type Header = [u64; 3];
const ABORT: u64 = 0;
const ALL_REDUCE: u64 = 1;
const GATHER: u64 = 2;
const BROADCAST: u64 = 3;
const BARRIER: u64 = 4;

fn describe_call([call, root, len]: Header) -> String {
    match call {
        ALL_REDUCE => format!("all_reduce of {len} numbers"),
        GATHER => "gather".to_owned(),
        BROADCAST => format!("broadcast of {len} numbers from worker {root}"),
        BARRIER => "barrier".to_owned(),
        _ => "abort".to_owned(),
    }
}

fn driver(call: &'static str) -> impl Fn(DriverError) -> CollectiveError {
    move |e| CollectiveError::Backend { call, reason: e.to_string() }
}

fn nccl(call: &'static str) -> impl Fn(NcclError) -> CollectiveError {
    move |NcclError(code)| CollectiveError::Backend { call, reason: format!("NCCL says {code:?}") }
}

/// What makes a team of workers one: made by rank 0, given to [`Nccl::join`] by all.
///
/// # Errors
/// [`CollectiveError::Backend`], also when the library is not there.
pub fn identifier() -> Result<Id, CollectiveError> {
    libraries()?;
    Id::new().map_err(nccl("ncclGetUniqueId"))
}

/// cudarc panics when it cannot open a library; this asks first.
fn libraries() -> Result<(), CollectiveError> {
    // SAFETY: each opens a shared library and closes it again; its initialisers are those of the vendor's libraries.
    let there = unsafe {
        [
            ("libcuda", cudarc::driver::sys::is_culib_present()),
            ("libnvrtc", cudarc::nvrtc::sys::is_culib_present()),
            ("libnccl", cudarc::nccl::sys::is_culib_present()),
        ]
    };
    match there.iter().find(|(_, there)| !there) {
        None => Ok(()),
        Some((name, _)) => Err(CollectiveError::Backend {
            call: "nccl",
            reason: format!("{name} cannot be opened; its directory must be in LD_LIBRARY_PATH"),
        }),
    }
}

/// One worker's side of a team of GPUs.
pub struct Nccl {
    comm: Comm,
    stream: Arc<CudaStream>,
    tree_sum: CudaFunction,
    patience: Duration,
    broken: Option<CollectiveError>,
}

impl Nccl {
    /// Joins the team of `id` as worker `rank` of `size` with GPU `ordinal`; returns when all have joined. A call that is not answered
    /// within `patience` fails.
    ///
    /// # Errors
    /// [`CollectiveError::Workers`] and [`CollectiveError::Backend`].
    pub fn join(
        id: Id,
        rank: usize,
        size: usize,
        ordinal: usize,
        patience: Duration,
    ) -> Result<Self, CollectiveError> {
        Shards::new(size, size)?;
        libraries()?;
        let context = CudaContext::new(ordinal).map_err(driver("cuDevicePrimaryCtxRetain"))?;
        let stream = context.new_stream().map_err(driver("cuStreamCreate"))?;
        let kernel = cudarc::nvrtc::compile_ptx(TREE_SUM)
            .map_err(|e| CollectiveError::Backend { call: "nvrtc", reason: format!("{e:?}") })?;
        let module = context.load_module(kernel).map_err(driver("cuModuleLoadData"))?;
        let tree_sum = module.load_function("tree_sum").map_err(driver("cuModuleGetFunction"))?;
        let comm = Comm::from_rank(stream.clone(), rank, size, id).map_err(nccl("ncclCommInitRank"))?;
        Ok(Nccl { comm, stream, tree_sum, patience, broken: None })
    }

    /// [`Collective::all_reduce`] of `len` numbers from byte `offset` of device memory on. The memory must be that of this worker's GPU.
    ///
    /// # Panics
    /// When the buffer ends before.
    pub fn all_reduce_buffer(
        &mut self,
        buffer: &mut Buffer,
        offset: usize,
        len: usize,
    ) -> Result<(), CollectiveError> {
        assert!(offset + 4 * len <= buffer.bytes(), "{len} numbers from byte {offset} of {}", buffer.bytes());
        self.agree([ALL_REDUCE, 0, len as u64], true)?;
        let call = "all_reduce";
        let failed =
            |e: grpo_lambda_gpu::DeviceError| CollectiveError::Backend { call, reason: e.to_string() };
        // The device has a stream of its own: what it has launched must be there before it is sent.
        buffer.device().synchronize().map_err(failed)?;
        let outcome = (0..len).step_by(CHUNK).try_for_each(|start| {
            let n = CHUNK.min(len - start);
            // SAFETY: `n` numbers from there on lie in the buffer, which this call borrows to its end; any bits are an `f32`. It is
            // never dropped: the memory is the buffer's.
            let own = unsafe { self.stream.upgrade_device_ptr::<f32>(buffer.at(offset + 4 * start), n) };
            let mut own = ManuallyDrop::new(own);
            let outcome = self.add_up(&mut own, n);
            ManuallyDrop::into_inner(own).leak();
            outcome
        });
        self.remember(outcome)
    }

    /// Replaces `own` by the tree over all workers' `own`.
    fn add_up(&self, own: &mut CudaSlice<f32>, n: usize) -> Result<(), CollectiveError> {
        let size = self.comm.world_size();
        let mut gathered = self.stream.alloc_zeros::<f32>(size * n).map_err(driver("cuMemAlloc"))?;
        self.comm.all_gather(own, &mut gathered).map_err(nccl("ncclAllGather"))?;
        let (len, workers) = (n as u64, size as u32);
        let grid = (n.div_ceil(BLOCK as usize) as u32, 1, 1);
        let mut launch = self.stream.launch_builder(&self.tree_sum);
        launch.arg(&mut gathered).arg(own).arg(&len).arg(&workers);
        // SAFETY: the arguments are those of the kernel: `[workers, n]` and `[n]` floats, an unsigned 64-bit and an unsigned 32-bit
        // number; threads past `n` do nothing.
        unsafe {
            launch.launch(LaunchConfig { grid_dim: grid, block_dim: (BLOCK, 1, 1), shared_mem_bytes: 0 })
        }
        .map_err(driver("tree_sum"))?;
        self.wait("all_reduce")
    }

    /// Waits for what is in the stream, for as long as patience lasts.
    fn wait(&self, call: &'static str) -> Result<(), CollectiveError> {
        let event = self.stream.record_event(None).map_err(driver("cuEventRecord"))?;
        let start = Instant::now();
        while !event.try_is_complete().map_err(driver(call))? {
            if start.elapsed() > self.patience {
                let seconds = self.patience.as_secs();
                let reason = format!("no answer within {seconds} s; a worker has exited or hangs");
                return Err(CollectiveError::Backend { call, reason });
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        Ok(())
    }

    /// `own` of all workers, one after the other; all must give as many.
    fn gather_equal<T>(&self, own: &[T], call: &'static str) -> Result<Vec<T>, CollectiveError>
    where
        T: NcclType + DeviceRepr + ValidAsZeroBits + Clone + Debug,
    {
        if own.is_empty() {
            return Ok(Vec::new());
        }
        let sent = self.stream.clone_htod(own).map_err(driver("cuMemcpyHtoD"))?;
        let mut received =
            self.stream.alloc_zeros::<T>(self.comm.world_size() * own.len()).map_err(driver("cuMemAlloc"))?;
        self.comm.all_gather(&sent, &mut received).map_err(nccl("ncclAllGather"))?;
        self.wait(call)?;
        self.stream.clone_dtoh(&received).map_err(driver("cuMemcpyDtoH"))
    }

    /// Headers of all workers, after checking that nobody gave up and all make this call; of as many numbers when `alike`.
    fn agree(&mut self, header: Header, alike: bool) -> Result<Vec<Header>, CollectiveError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let outcome = self.gather_equal(&header, "header").and_then(|all| {
            let headers: Vec<Header> = all.as_chunks::<3>().0.to_vec();
            if let Some(rank) = headers.iter().position(|h| h[0] == ABORT) {
                let reason = "it aborted; see its own output for the reason".to_owned();
                return Err(CollectiveError::Failed { rank, reason });
            }
            let key = |h: &Header| (h[0], h[1], if alike { h[2] } else { 0 });
            match headers.iter().position(|h| key(h) != key(&headers[0])) {
                None => Ok(headers),
                Some(rank) => {
                    let (expected, found) = (describe_call(headers[0]), describe_call(headers[rank]));
                    Err(CollectiveError::Parted { rank, expected, found })
                }
            }
        });
        self.remember(outcome)
    }

    /// After one error every later call fails with it.
    fn remember<T>(&mut self, outcome: Result<T, CollectiveError>) -> Result<T, CollectiveError> {
        if let Err(error) = &outcome {
            self.broken.get_or_insert_with(|| error.clone());
        }
        outcome
    }

    fn all_reduce_host(&self, values: &mut [f32]) -> Result<(), CollectiveError> {
        for chunk in values.chunks_mut(CHUNK) {
            let mut own = self.stream.clone_htod(&*chunk).map_err(driver("cuMemcpyHtoD"))?;
            self.add_up(&mut own, chunk.len())?;
            chunk.copy_from_slice(&self.stream.clone_dtoh(&own).map_err(driver("cuMemcpyDtoH"))?);
        }
        Ok(())
    }

    /// Three rounds: how many rows, how long each, the numbers; padded to the most of any worker.
    fn gather_ragged(&self, headers: &[Header], rows: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, CollectiveError> {
        let call = "gather";
        let most = headers.iter().map(|h| h[2] as usize).max().unwrap_or(0);
        let mut lengths: Vec<u64> = rows.iter().map(|row| row.len() as u64).collect();
        lengths.resize(most, 0);
        let lengths = self.gather_equal(&lengths, call)?;
        let of = |rank: usize| &lengths[rank * most..][..headers[rank][2] as usize];
        let total = |rank: usize| of(rank).iter().sum::<u64>() as usize;
        let widest = (0..headers.len()).map(total).max().unwrap_or(0);
        let mut numbers = rows.concat();
        numbers.resize(widest, 0.0);
        let numbers = self.gather_equal(&numbers, call)?;
        let mut all = Vec::new();
        for rank in 0..headers.len() {
            let mut rest = &numbers[rank * widest..][..total(rank)];
            for len in of(rank) {
                let (row, after) = rest.split_at(*len as usize);
                all.push(row.to_vec());
                rest = after;
            }
        }
        Ok(all)
    }

    fn broadcast_host(&self, root: usize, values: &mut [f32]) -> Result<(), CollectiveError> {
        if values.is_empty() {
            return Ok(());
        }
        let mut buffer = self.stream.clone_htod(&*values).map_err(driver("cuMemcpyHtoD"))?;
        self.comm.broadcast_in_place(&mut buffer, root as i32).map_err(nccl("ncclBroadcast"))?;
        self.wait("broadcast")?;
        values.copy_from_slice(&self.stream.clone_dtoh(&buffer).map_err(driver("cuMemcpyDtoH"))?);
        Ok(())
    }
}

impl Collective for Nccl {
    fn rank(&self) -> usize {
        self.comm.rank()
    }

    fn size(&self) -> usize {
        self.comm.world_size()
    }

    fn all_reduce(&mut self, values: &mut [f32]) -> Result<(), CollectiveError> {
        self.agree([ALL_REDUCE, 0, values.len() as u64], true)?;
        let outcome = self.all_reduce_host(values);
        self.remember(outcome)
    }

    fn gather(&mut self, rows: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, CollectiveError> {
        let headers = self.agree([GATHER, 0, rows.len() as u64], false)?;
        let outcome = self.gather_ragged(&headers, rows);
        self.remember(outcome)
    }

    fn broadcast(&mut self, root: usize, values: &mut [f32]) -> Result<(), CollectiveError> {
        if root >= self.size() {
            return Err(CollectiveError::Root { root, workers: self.size() });
        }
        self.agree([BROADCAST, root as u64, values.len() as u64], true)?;
        let outcome = self.broadcast_host(root, values);
        self.remember(outcome)
    }

    fn barrier(&mut self) -> Result<(), CollectiveError> {
        self.agree([BARRIER, 0, 0], true).map(drop)
    }

    /// Says so in the next round of headers; waits for it as long as patience lasts. The others learn the rank, not the reason.
    fn abort(&mut self, reason: &str) {
        let rank = self.rank();
        let told = self.agree([ABORT, 0, 0], true);
        drop(told); // whatever came of it, this worker is done
        self.broken = Some(CollectiveError::Failed { rank, reason: reason.to_owned() });
    }
}

impl Drop for Nccl {
    fn drop(&mut self) {
        if std::thread::panicking() && self.broken.is_none() {
            self.abort("it panicked");
        }
    }
}
