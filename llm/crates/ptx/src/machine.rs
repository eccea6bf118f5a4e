//! Blocks, warps and lanes: who executes the next instruction.
//!
//! The lanes of a warp that stand at its lowest place go on together. A warp runs until all its lanes wait at a barrier of the block or have
//! returned; then the next one runs. An [`Order`] says which warp and which lanes are first, so that a missing barrier changes numbers.

use std::cell::RefCell;

use crate::execute::{self, ALL, Lanes, lanes};
use crate::memory::{Global, Moment, Outside, Shared, Suspect, outside};
use crate::parse::{Instruction, Kernel, Op, Special};

/// The order of blocks, warps, and the lanes of a warp between the instructions that they execute together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// First to last; a warp in lockstep.
    #[default]
    Forward,
    /// Last to first; a warp's upper half before its lower.
    Reversed,
    /// Warps in another order each time, and a warp in two parts, each time others.
    Shuffled(u64),
}

/// Liberties of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Liberties {
    /// The order in which warps run.
    pub order: Order,
    /// True if tensor cores truncate and approximations are two places off.
    pub rough: bool,
    /// True if races and reads of what nobody wrote pass without an error, as on a card.
    pub lenient: bool,
}

/// A launch of a kernel.
#[derive(Clone, Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) kernel: &'a Kernel,
    /// The text of the module, for messages.
    pub(crate) lines: &'a [String],
    pub(crate) grid: (u32, u32),
    pub(crate) threads: u32,
    pub(crate) arguments: &'a [u64],
    pub(crate) liberties: Liberties,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runs,
    Waits,
    Over,
}

/// The next place of the lanes that executed an instruction.
enum Next {
    Together(usize),
    /// Each lane's own, already noted.
    Apart,
}

struct Machine<'a> {
    launch: Launch<'a>,
    memory: &'a mut Global,
    /// True where an instruction was executed.
    hits: &'a mut [bool],
    registers: Vec<Lanes>,
    shared: Shared,
    places: Vec<usize>,
    states: Vec<State>,
    /// Intervals between the barriers of each warp.
    warp_intervals: Vec<u32>,
    block: (u32, u32),
    random: u64,
}

thread_local! {
    /// Memory of the launch before, which is used again.
    static SCRATCH: RefCell<(Vec<Lanes>, Shared)> = RefCell::default();
}

/// Executes a launch.
pub(crate) fn run(launch: Launch<'_>, memory: &mut Global, hits: &mut [bool]) -> Result<(), String> {
    let (mut registers, shared) = SCRATCH.take();
    registers.clear();
    registers.resize(launch.threads.div_ceil(32) as usize * launch.kernel.registers, [0; 32]);
    let warps = launch.threads.div_ceil(32) as usize;
    let (columns, rows) = launch.grid;
    let seed = if let Order::Shuffled(seed) = launch.liberties.order { seed } else { 0 };
    let blocks = u64::from(columns) * u64::from(rows);
    let backwards = matches!(launch.liberties.order, Order::Reversed);
    let mut machine = Machine {
        registers,
        shared,
        places: vec![0; warps * 32],
        states: vec![State::Over; warps * 32],
        warp_intervals: vec![0; warps],
        block: (0, 0),
        random: (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        launch,
        memory,
        hits,
    };
    machine.fill(|special| !matches!(special, Special::BlockX | Special::BlockY));
    let done = (0..blocks).try_for_each(|number| {
        let at = if backwards { blocks - 1 - number } else { number };
        machine.block = ((at % u64::from(columns)) as u32, (at / u64::from(columns)) as u32);
        machine.run_block()
    });
    SCRATCH.set((machine.registers, machine.shared));
    done
}

/// The number in the first bytes. (Eight bytes of which some are written apart would be read again slowly.)
#[inline(always)]
fn widened<const EACH: usize>(bytes: &[u8]) -> u64 {
    match (EACH, bytes) {
        (1, [a, ..]) => u64::from(*a),
        (2, [a, b, ..]) => u64::from(u16::from_le_bytes([*a, *b])),
        (4, [a, b, c, d, ..]) => u64::from(u32::from_le_bytes([*a, *b, *c, *d])),
        (_, [a, b, c, d, e, f, g, h, ..]) => u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]),
        _ => 0,
    }
}

/// The bytes that a lane stores.
#[inline(always)]
fn taken<const EACH: usize, const N: usize>(registers: &[Lanes], i: &Instruction, lane: usize) -> [u8; N] {
    let mut bytes = [0; N];
    for n in 0..N / EACH {
        let held = registers[i.from[1 + n]][lane].to_le_bytes();
        bytes[n * EACH..(n + 1) * EACH].copy_from_slice(&held[..EACH]);
    }
    bytes
}

/// The first byte that the lanes of `on` access, and how many there are to the last; `None` if one is misaligned, or none is on.
#[inline(always)]
fn extent<const N: usize>(addresses: &Lanes, on: u32) -> Option<(u64, usize)> {
    let (mut low, mut high, mut all) = (u64::MAX, 0, 0);
    for (lane, address) in addresses.iter().enumerate() {
        // Branches would cost more.
        let off = (u64::from(on >> lane) & 1).wrapping_sub(1);
        low = low.min(address | off);
        high = high.max(address & !off);
        all |= address & !off;
    }
    (low <= high && all.is_multiple_of(N as u64))
        .then(|| (low, (high - low).saturating_add(N as u64) as usize))
}

impl Machine<'_> {
    /// Writes the registers that the machine writes, of those that are chosen.
    fn fill(&mut self, chosen: impl Fn(Special) -> bool) {
        let kernel = self.launch.kernel;
        let (columns, rows) = self.launch.grid;
        for (warp, registers) in self.registers.chunks_mut(kernel.registers.max(1)).enumerate() {
            for (register, special) in kernel.specials.iter().filter(|(_, special)| chosen(*special)) {
                registers[*register] = match *special {
                    Special::Thread => std::array::from_fn(|lane| (32 * warp + lane) as u64),
                    Special::BlockX => [u64::from(self.block.0); 32],
                    Special::BlockY => [u64::from(self.block.1); 32],
                    Special::Threads => [u64::from(self.launch.threads); 32],
                    Special::BlocksX => [u64::from(columns); 32],
                    Special::BlocksY => [u64::from(rows); 32],
                    Special::Zero => [0; 32],
                    Special::Parameter(number) => [self.launch.arguments[number]; 32],
                    Special::Constant(value) => [value; 32],
                };
            }
        }
    }

    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn fault(&self, why: &str, thread: usize, line: usize) -> String {
        let (x, y) = self.block;
        let text = self.launch.lines.get(line - 1).map_or("", String::as_str);
        format!(
            "{}: {why}: thread {thread} of block ({x}, {y}), PTX line {line}: {text}",
            self.launch.kernel.name
        )
    }

    fn run_block(&mut self) -> Result<(), String> {
        self.fill(|special| matches!(special, Special::BlockX | Special::BlockY));
        self.shared.begin(self.launch.kernel.shared);
        let threads = self.launch.threads as usize;
        self.places[..threads].fill(0);
        self.states[..threads].fill(State::Runs);
        let warps = self.warp_intervals.len();
        loop {
            let turn = self.draw() as usize;
            for number in 0..warps {
                let warp = match self.launch.liberties.order {
                    Order::Forward => number,
                    Order::Reversed => warps - 1 - number,
                    Order::Shuffled(_) if turn.is_multiple_of(2) => (number + turn) % warps,
                    Order::Shuffled(_) => (warps + turn % warps - number) % warps,
                };
                self.run_warp(warp)?;
            }
            let Some(first) = self.states.iter().position(|state| *state == State::Waits) else {
                return Ok(());
            };
            let place = self.places[first];
            let elsewhere = |t: &usize| self.states[*t] != State::Waits || self.places[*t] != place;
            if let Some(thread) = (0..threads).find(elsewhere) {
                let line = self.launch.kernel.code[place].line;
                return Err(self.fault(
                    "others wait at a barrier that this one does not reach",
                    thread,
                    line,
                ));
            }
            self.states[..threads].fill(State::Runs);
            self.places[..threads].fill(place + 1);
            self.shared.interval += 1;
        }
    }

    /// The lanes of a warp that go on before the others, and those.
    fn parts(&mut self) -> [u32; 2] {
        match self.launch.liberties.order {
            Order::Forward => [ALL, 0],
            Order::Reversed => [0xffff_0000, 0xffff],
            Order::Shuffled(_) => {
                let part = (self.draw() >> 16) as u32;
                [part, !part]
            }
        }
    }

    fn run_warp(&mut self, warp: usize) -> Result<(), String> {
        loop {
            for part in self.parts() {
                while self.run_part(warp, part)? {}
            }
            // What still runs stands at instructions of the warp.
            let Some((place, mask, _)) = self.lowest(warp, ALL, false) else { return Ok(()) };
            self.together(warp, place, mask)?;
            lanes(mask).for_each(|lane| self.places[32 * warp + lane] = place + 1);
        }
    }

    /// The lowest place of lanes that run, who is there, and the next lowest; `alone`: of those that need not wait for their warp.
    fn lowest(&self, warp: usize, part: u32, alone: bool) -> Option<(usize, u32, usize)> {
        let (mut place, mut mask, mut next) = (usize::MAX, 0, usize::MAX);
        let code = &self.launch.kernel.code;
        for lane in lanes(part) {
            let (state, at) = (self.states[32 * warp + lane], self.places[32 * warp + lane]);
            if state != State::Runs || (alone && code[at].op.of_a_warp()) {
                continue;
            }
            if at < place {
                (next, place, mask) = (place, at, 0);
            }
            if at == place {
                mask |= 1 << lane;
            } else {
                next = next.min(at);
            }
        }
        (mask != 0).then_some((place, mask, next))
    }

    /// Lets the lanes at the lowest place go on until they part, meet others or must wait; false if none can go on.
    fn run_part(&mut self, warp: usize, part: u32) -> Result<bool, String> {
        let Some((mut place, mask, next)) = self.lowest(warp, part, true) else { return Ok(false) };
        let kernel = self.launch.kernel;
        loop {
            let instruction = &kernel.code[place];
            if instruction.op.of_a_warp() {
                break;
            }
            self.hits[place] = true;
            match self.step(warp, instruction, place, mask)? {
                Next::Together(at) => place = at,
                Next::Apart => return Ok(true),
            }
            if place >= next {
                break;
            }
        }
        lanes(mask).for_each(|lane| self.places[32 * warp + lane] = place);
        Ok(true)
    }

    /// Executes an instruction for the lanes of `mask`, which stand at `place`.
    fn step(&mut self, warp: usize, i: &Instruction, place: usize, mask: u32) -> Result<Next, String> {
        let count = self.launch.kernel.registers;
        let registers = &mut self.registers[warp * count..(warp + 1) * count];
        let on = i.guard.map_or(mask, |(register, wanted)| {
            let held = &registers[register];
            lanes(mask).filter(|lane| (held[*lane] & 1 == 1) == wanted).fold(0, |on, lane| on | 1 << lane)
        });
        let first = 32 * warp;
        match i.op {
            Op::Branch if on == mask => return Ok(Next::Together(i.offset as usize)),
            Op::Branch if on == 0 => {}
            Op::Branch => {
                for lane in lanes(mask) {
                    self.places[first + lane] =
                        if on >> lane & 1 == 1 { i.offset as usize } else { place + 1 };
                }
                return Ok(Next::Apart);
            }
            Op::Return | Op::Barrier => {
                let state = if i.op == Op::Return { State::Over } else { State::Waits };
                for lane in lanes(mask) {
                    let there = on >> lane & 1 == 1;
                    self.places[first + lane] = place + usize::from(!there);
                    self.states[first + lane] = if there { state } else { State::Runs };
                }
                return Ok(Next::Apart);
            }
            Op::Load { .. } | Op::Store { .. } => self.access(warp, i, on)?,
            _ => execute::arithmetic(registers, on, i, self.launch.liberties.rough)
                .map_err(|why| self.fault(&why, first, i.line))?,
        }
        Ok(Next::Together(place + 1))
    }

    /// Says that a lane's access is none that a card allows.
    #[cold]
    fn refused(&self, at: (usize, usize), i: &Instruction, address: u64, bytes: usize) -> String {
        let why = match address % bytes as u64 {
            0 => outside(address, bytes),
            _ => format!("{bytes} bytes at {address:#x} are misaligned"),
        };
        self.fault(&why, 32 * at.0 + at.1, i.line)
    }

    #[cold]
    fn suspected(&self, at: (usize, usize), i: &Instruction, suspect: Suspect) -> Result<(), String> {
        if self.launch.liberties.lenient {
            return Ok(());
        }
        Err(self.fault(suspect.text(), 32 * at.0 + at.1, i.line))
    }

    fn now(&self, (warp, lane): (usize, usize)) -> Moment {
        Moment::new((32 * warp + lane) as u32, self.shared.interval, self.warp_intervals[warp])
    }

    /// The address that each lane accesses.
    #[inline(always)]
    fn addresses(&self, warp: usize, i: &Instruction) -> Lanes {
        let base = &self.registers[warp * self.launch.kernel.registers + i.from[0]];
        std::array::from_fn(|lane| base[lane].wrapping_add_signed(i.offset))
    }

    #[inline(always)]
    fn fetch<const N: usize>(
        &mut self,
        at: (usize, usize),
        i: &Instruction,
        shared: bool,
        address: u64,
    ) -> Result<[u8; N], String> {
        let found = if !address.is_multiple_of(N as u64) {
            Err(Outside)
        } else if shared {
            self.shared.get(address, self.now(at))
        } else {
            self.memory.get(address).map(|(bytes, all)| (bytes, (!all).then_some(Suspect::Unwritten)))
        };
        match found {
            Ok((bytes, None)) => Ok(bytes),
            Ok((bytes, Some(suspect))) => self.suspected(at, i, suspect).map(|()| bytes),
            Err(Outside) => Err(self.refused(at, i, address, N)),
        }
    }

    #[inline(always)]
    fn keep<const N: usize>(
        &mut self,
        at: (usize, usize),
        i: &Instruction,
        shared: bool,
        (address, bytes): (u64, [u8; N]),
    ) -> Result<(), String> {
        let found = if !address.is_multiple_of(N as u64) {
            Err(Outside)
        } else if shared {
            self.shared.put(address, bytes, self.now(at))
        } else {
            self.memory.put(address, &bytes).map(|()| None)
        };
        match found {
            Ok(None) => Ok(()),
            Ok(Some(suspect)) => self.suspected(at, i, suspect),
            Err(Outside) => Err(self.refused(at, i, address, N)),
        }
    }

    /// Loads or stores by the bytes of a lane, of which a number has `EACH`.
    fn access(&mut self, warp: usize, i: &Instruction, on: u32) -> Result<(), String> {
        let (shared, vector, load) = match i.op {
            Op::Load { shared, vector } => (shared, vector, true),
            Op::Store { shared, vector } => (shared, vector, false),
            _ => return Ok(()),
        };
        macro_rules! by_size {
            ($($each:literal * $vector:literal),*) => {
                match (i.ty.bits / 8, vector, load) {
                    $(
                        ($each, $vector, true) => self.load::<$each, { $each * $vector }>(warp, i, on, shared),
                        ($each, $vector, false) => self.store::<$each, { $each * $vector }>(warp, i, on, shared),
                    )*
                    _ => Err(self.fault("no access of this size", 32 * warp, i.line)),
                }
            };
        }
        by_size!(1 * 1, 2 * 1, 4 * 1, 8 * 1, 2 * 2, 4 * 2, 8 * 2, 2 * 4, 4 * 4)
    }

    fn load<const EACH: usize, const N: usize>(
        &mut self,
        warp: usize,
        i: &Instruction,
        on: u32,
        shared: bool,
    ) -> Result<(), String> {
        let first = warp * self.launch.kernel.registers;
        let addresses = self.addresses(warp, i);
        let mut left = on;
        // All in one allocation, and written.
        if let Some((low, bytes)) = extent::<N>(&addresses, on).filter(|_| !shared)
            && let Ok((data, written)) = self.memory.span(low, bytes)
        {
            for lane in lanes(on) {
                let at = (addresses[lane] - low) as usize;
                if written[at..at + N] != [true; N] {
                    break;
                }
                for n in 0..N / EACH {
                    self.registers[first + i.to[n]][lane] = widened::<EACH>(&data[at + n * EACH..at + N]);
                }
                left &= left - 1;
            }
        }
        for lane in lanes(left) {
            let bytes = self.fetch::<N>((warp, lane), i, shared, addresses[lane])?;
            for n in 0..N / EACH {
                self.registers[first + i.to[n]][lane] = widened::<EACH>(&bytes[n * EACH..]);
            }
        }
        Ok(())
    }

    fn store<const EACH: usize, const N: usize>(
        &mut self,
        warp: usize,
        i: &Instruction,
        on: u32,
        shared: bool,
    ) -> Result<(), String> {
        let first = warp * self.launch.kernel.registers;
        let addresses = self.addresses(warp, i);
        if let Some((low, all)) = extent::<N>(&addresses, on).filter(|_| !shared)
            && let Ok((data, written)) = self.memory.span(low, all)
        {
            for lane in lanes(on) {
                let at = (addresses[lane] - low) as usize;
                data[at..at + N].copy_from_slice(&taken::<EACH, N>(&self.registers[first..], i, lane));
                written[at..at + N].copy_from_slice(&[true; N]);
            }
            return Ok(());
        }
        for lane in lanes(on) {
            let bytes = taken::<EACH, N>(&self.registers[first..], i, lane);
            self.keep((warp, lane), i, shared, (addresses[lane], bytes))?;
        }
        Ok(())
    }

    /// Executes what the lanes of a warp execute together; those of `mask` are there.
    fn together(&mut self, warp: usize, place: usize, mask: u32) -> Result<(), String> {
        let kernel = self.launch.kernel;
        let i = &kernel.code[place];
        self.hits[place] = true;
        let first = mask.trailing_zeros() as usize;
        let registers = &mut self.registers[warp * kernel.registers..(warp + 1) * kernel.registers];
        let wanted = match i.op {
            Op::WarpBarrier => registers[i.from[0]][first] as u32,
            Op::Shuffle(_) => registers[i.from[3]][first] as u32,
            Op::Ballot => registers[i.from[1]][first] as u32,
            _ => ALL,
        };
        let threads = self.launch.threads as usize - 32 * warp;
        let there = if threads >= 32 { ALL } else { (1 << threads) - 1 };
        if i.guard.is_some() || wanted & there != mask {
            let why = format!("lanes {mask:08x} come to what {wanted:08x} execute together");
            return Err(self.fault(&why, 32 * warp + first, i.line));
        }
        match i.op {
            Op::WarpBarrier => self.warp_intervals[warp] += 1,
            Op::Shuffle(mode) => execute::shuffle(registers, mask, i, mode),
            Op::Ballot => execute::ballot(registers, mask, i),
            Op::LoadMatrix { transposed } => {
                let mut rows = [[0_u16; 8]; 32];
                let addresses = self.addresses(warp, i);
                for lane in lanes(mask) {
                    let bytes = self.fetch::<16>((warp, lane), i, true, addresses[lane])?;
                    for (number, two) in rows[lane].iter_mut().zip(bytes.chunks_exact(2)) {
                        *number = u16::from_le_bytes([two[0], two[1]]);
                    }
                }
                let registers = &mut self.registers[warp * kernel.registers..(warp + 1) * kernel.registers];
                execute::spread(registers, i, &rows, transposed);
            }
            _ => execute::product(registers, i, self.launch.liberties.rough),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::Module;

    /// Every thread reads what its neighbour wrote.
    const NEIGHBOUR: &str = "
.visible .entry neighbour(
	.param .u64 out
)
{
	.shared .align 4 .b8 box[256];
	ld.param.u64 %rd1, [out];
	mov.u32 %r1, %tid.x;
	shl.b32 %r2, %r1, 2;
	mov.u32 %r3, box;
	add.s32 %r4, %r3, %r2;
	setp.lt.u32 %p1, %r1, 40;
	st.shared.u32 [%r4], %r1;
	bar.sync 0;
	xor.b32 %r5, %r1, 33;
	shl.b32 %r7, %r5, 2;
	add.s32 %r8, %r3, %r7;
	ld.shared.u32 %r9, [%r8];
	cvt.u64.u32 %rd2, %r2;
	add.s64 %rd3, %rd1, %rd2;
	st.global.u32 [%rd3], %r9;
	ret;
}";

    fn outcome(text: &str, order: Order, lenient: bool) -> Result<Vec<u8>, String> {
        let module = Module::parse(text)?;
        let kernel = &module.kernels["neighbour"];
        let mut memory = Global::new();
        let out = memory.allocate(256);
        let launch = Launch {
            kernel,
            lines: &module.lines,
            grid: (1, 1),
            threads: 64,
            arguments: &[out],
            liberties: Liberties { order, rough: false, lenient },
        };
        run(launch, &mut memory, &mut vec![false; kernel.code.len()])?;
        let mut bytes = vec![0; 256];
        memory.read(out, &mut bytes)?;
        Ok(bytes.chunks_exact(4).map(|number| number[0]).collect())
    }

    #[test]
    fn a_barrier_orders_what_threads_write_and_without_it_there_is_a_race() {
        let expected: Vec<u8> = (0..64).map(|t| t ^ 33).collect();
        let open = NEIGHBOUR.replace("bar.sync 0;", "");
        for order in [Order::Forward, Order::Reversed, Order::Shuffled(3)] {
            assert_eq!(outcome(NEIGHBOUR, order, false), Ok(expected.clone()), "{order:?}");
            assert!(outcome(&open, order, false).is_err());
            assert_ne!(outcome(&open, order, true), Ok(expected.clone()), "{order:?}");
        }
        let twice = open.replace("xor.b32", "st.shared.u32 [%r3], %r1;\nxor.b32");
        let why = outcome(&twice, Order::Forward, false).expect_err("a race");
        assert!(why.contains("a write after a write") && why.contains("PTX line 15"), "{why}");
    }

    #[test]
    fn what_a_card_refuses_is_an_error_with_its_line() {
        let changed = |from: &str, to: &str| outcome(&NEIGHBOUR.replace(from, to), Order::Forward, true);
        for (from, to, expected) in [
            ("st.global.u32 [%rd3]", "st.global.u32 [%rd3+4]", "outside of every allocation"),
            ("st.global.u32 [%rd3]", "st.global.u32 [%rd3+2]", "misaligned"),
            ("bar.sync 0;", "@%p1 bar.sync 0;", "a barrier that this one does not reach"),
            ("bar.sync 0;", "@%p1 bra $on;\nbar.warp.sync -1;\n$on:\nbar.sync 0;", "execute together"),
            ("xor.b32", "xor.q32", "is not executed"),
        ] {
            let why = changed(from, to).expect_err(expected);
            assert!(why.contains(expected) && why.contains("PTX line"), "{why}");
        }
    }
}
