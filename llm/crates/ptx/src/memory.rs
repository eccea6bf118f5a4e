//! Memory, asked at every access: who may touch it, and whether anybody wrote what is read.

use crate::parse::SHARED;

/// An allocation begins at a multiple of this; between two lies at least as much that is nobody's.
const ALIGN: u64 = 512;

#[derive(Debug)]
struct Allocation {
    start: u64,
    data: Vec<u8>,
    written: Vec<bool>,
}

/// Global memory. Addresses are not used again, so what was freed stays nobody's.
#[derive(Debug)]
pub(crate) struct Global {
    /// In the order of their addresses.
    live: Vec<Allocation>,
    /// The place of the one that was found last.
    last: usize,
    next: u64,
    pub(crate) used: u64,
}

/// Bytes that are in no allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outside;

pub(crate) fn outside(address: u64, bytes: usize) -> String {
    format!("{bytes} bytes at {address:#x} are outside of every allocation")
}

/// The byte of memory that nobody wrote, which is no number as a float.
const UNWRITTEN: u8 = 0xFF;

impl Global {
    pub(crate) fn new() -> Self {
        Global { live: Vec::new(), last: 0, next: 0x7_0000_0000, used: 0 }
    }

    pub(crate) fn allocate(&mut self, bytes: usize) -> u64 {
        let start = self.next;
        self.next += (bytes as u64).next_multiple_of(ALIGN) + ALIGN;
        self.used += bytes as u64;
        self.live.push(Allocation { start, data: vec![0; bytes], written: vec![false; bytes] });
        start
    }

    /// False if nothing begins there.
    pub(crate) fn free(&mut self, address: u64) -> bool {
        let Ok(place) = self.live.binary_search_by_key(&address, |a| a.start) else { return false };
        self.used -= self.live.remove(place).data.len() as u64;
        true
    }

    #[inline(always)]
    fn find(&mut self, address: u64, bytes: usize) -> Result<(&mut Allocation, usize), Outside> {
        let holds = |a: &Allocation| {
            let at = address.checked_sub(a.start)?;
            (at.checked_add(bytes as u64)? <= a.data.len() as u64).then_some(at as usize)
        };
        if self.live.get(self.last).and_then(holds).is_none() {
            self.last = self.live.partition_point(|a| a.start <= address).saturating_sub(1);
        }
        let found = self.live.get_mut(self.last).ok_or(Outside)?;
        let at = holds(found).ok_or(Outside)?;
        Ok((found, at))
    }

    /// Fills `to` with the bytes there; what nobody wrote is no number, and the answer false.
    fn fill(&mut self, address: u64, to: &mut [u8]) -> Result<bool, Outside> {
        let (data, written) = self.span(address, to.len())?;
        to.copy_from_slice(data);
        to.iter_mut()
            .zip(&*written)
            .filter(|(_, written)| !**written)
            .for_each(|(byte, _)| *byte = UNWRITTEN);
        Ok(!written.contains(&false))
    }

    /// The bytes there, and whether somebody wrote all of them.
    pub(crate) fn get<const N: usize>(&mut self, address: u64) -> Result<([u8; N], bool), Outside> {
        let mut bytes = [0; N];
        let all = self.fill(address, &mut bytes)?;
        Ok((bytes, all))
    }

    /// The bytes from an address on, and whether somebody wrote each.
    #[inline(always)]
    pub(crate) fn span(&mut self, address: u64, bytes: usize) -> Result<(&mut [u8], &mut [bool]), Outside> {
        let (found, at) = self.find(address, bytes)?;
        Ok((&mut found.data[at..at + bytes], &mut found.written[at..at + bytes]))
    }

    pub(crate) fn put(&mut self, address: u64, bytes: &[u8]) -> Result<(), Outside> {
        let (data, written) = self.span(address, bytes.len())?;
        data.copy_from_slice(bytes);
        written.fill(true);
        Ok(())
    }

    pub(crate) fn read(&mut self, address: u64, to: &mut [u8]) -> Result<(), String> {
        self.fill(address, to).map(drop).map_err(|Outside| outside(address, to.len()))
    }

    pub(crate) fn write(&mut self, address: u64, from: &[u8]) -> Result<(), String> {
        self.put(address, from).map_err(|Outside| outside(address, from.len()))
    }

    /// Copies bytes together with whether they were written.
    pub(crate) fn copy(&mut self, to: u64, from: u64, bytes: usize) -> Result<(), String> {
        if to < from + bytes as u64 && from < to + bytes as u64 {
            return Err("a copy onto itself".to_owned());
        }
        let (data, written) = self.span(from, bytes).map_err(|Outside| outside(from, bytes))?;
        let copied = (data.to_vec(), written.to_vec());
        let (data, written) = self.span(to, bytes).map_err(|Outside| outside(to, bytes))?;
        data.copy_from_slice(&copied.0);
        written.copy_from_slice(&copied.1);
        Ok(())
    }
}

/// A thread at a moment, packed: its number, and the intervals between barriers of the blocks and of its warp. 0 is never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment(u64);

impl Moment {
    pub(crate) fn new(thread: u32, block: u32, warp: u32) -> Self {
        Moment(u64::from(block) << 32 | u64::from(warp & 0x3f_ffff) << 10 | u64::from(thread))
    }

    fn block(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn warp(self) -> u64 {
        self.0 >> 5 & 0x1f
    }

    /// True if nothing orders two accesses of these threads.
    #[inline(always)]
    fn unordered(self, other: Moment) -> bool {
        let differ = self.0 ^ other.0;
        differ >> 32 == 0 && differ & 0x3ff != 0 && (self.warp() != other.warp() || differ >> 10 == 0)
    }
}

/// Two bytes of shared memory: their last writer, and their last readers of two warps.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    writer: Moment,
    reader: Moment,
    other_reader: Moment,
}

/// Shared memory of a block. The cells are those of all blocks before: an older moment is never.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    data: Vec<u8>,
    cells: Vec<Cell>,
    /// The first interval of the block, and the one now.
    begun: u32,
    pub(crate) interval: u32,
}

/// Findings about accesses that give numbers all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suspect {
    Unwritten,
    ReadAfterWrite,
    WriteAfterWrite,
    WriteAfterRead,
}

impl Suspect {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Suspect::Unwritten => "memory that nobody wrote is read",
            Suspect::ReadAfterWrite => "a race: a read after a write without a barrier between",
            Suspect::WriteAfterWrite => "a race: a write after a write without a barrier between",
            Suspect::WriteAfterRead => "a race: a write after a read without a barrier between",
        }
    }
}

impl Shared {
    /// Begins a block that has so many bytes.
    pub(crate) fn begin(&mut self, bytes: usize) {
        self.data.clear();
        self.data.resize(bytes, UNWRITTEN);
        if self.interval > u32::MAX / 2 {
            (self.interval, self.cells) = (0, Vec::new());
        }
        self.cells.resize(self.cells.len().max(bytes.div_ceil(2)), Cell::default());
        self.interval += 1;
        self.begun = self.interval;
    }

    #[inline(always)]
    fn place(&self, address: u64, bytes: usize) -> Result<usize, Outside> {
        let at = address.wrapping_sub(SHARED) as usize;
        if at <= self.data.len() && bytes <= self.data.len() - at { Ok(at) } else { Err(Outside) }
    }

    #[inline(always)]
    pub(crate) fn get<const N: usize>(
        &mut self,
        address: u64,
        now: Moment,
    ) -> Result<([u8; N], Option<Suspect>), Outside> {
        let at = self.place(address, N)?;
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.data[at..at + N]);
        let mut suspect = None;
        let (begun, before) = (self.begun, self.interval - self.begun);
        for cell in &mut self.cells[at / 2..at / 2 + N.div_ceil(2)] {
            // Nearly all were written in this block, before its last barrier.
            let since = cell.writer.block().wrapping_sub(begun);
            if since > before {
                suspect = Some(Suspect::Unwritten);
            } else if since == before && cell.writer.unordered(now) {
                suspect = Some(Suspect::ReadAfterWrite);
            }
            if cell.reader.warp() != now.warp() {
                cell.other_reader = cell.reader;
            }
            cell.reader = now;
        }
        Ok((bytes, suspect))
    }

    #[inline(always)]
    pub(crate) fn put<const N: usize>(
        &mut self,
        address: u64,
        bytes: [u8; N],
        now: Moment,
    ) -> Result<Option<Suspect>, Outside> {
        let at = self.place(address, N)?;
        self.data[at..at + N].copy_from_slice(&bytes);
        let mut suspect = None;
        for cell in &mut self.cells[at / 2..at / 2 + N.div_ceil(2)] {
            if cell.writer.unordered(now) {
                suspect = Some(Suspect::WriteAfterWrite);
            }
            if cell.reader.unordered(now) || cell.other_reader.unordered(now) {
                suspect = Some(Suspect::WriteAfterRead);
            }
            cell.writer = now;
        }
        Ok(suspect)
    }
}
