//! PTX text into instructions whose operands are numbered registers; a constant is a register that nothing writes.

use std::collections::{BTreeMap, HashMap};

/// The interpretation of a register's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Float,
    Signed,
    Bits,
    Predicate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) kind: Kind,
    pub(crate) bits: u32,
}

impl Type {
    fn named(name: &str) -> Option<Type> {
        if name == "pred" {
            return Some(Type { kind: Kind::Predicate, bits: 1 });
        }
        let kind = match name.get(..1)? {
            "f" => Kind::Float,
            "s" => Kind::Signed,
            "u" | "b" => Kind::Bits,
            _ => return None,
        };
        Some(Type { kind, bits: name[1..].parse().ok()? })
    }

    /// The bits that a value of this type has.
    pub(crate) fn mask(self) -> u64 {
        if self.bits >= 64 { u64::MAX } else { (1 << self.bits) - 1 }
    }
}

/// A comparison; `or_nan` also holds if one side is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Relation {
    pub(crate) less: bool,
    pub(crate) equal: bool,
    pub(crate) greater: bool,
    pub(crate) or_nan: bool,
}

impl Relation {
    fn named(name: &str) -> Option<Relation> {
        let signs = |less, equal, greater, or_nan| Some(Relation { less, equal, greater, or_nan });
        match name {
            "nan" => return signs(false, false, false, true),
            "num" => return signs(true, true, true, false),
            "lo" => return signs(true, false, false, false),
            "ls" => return signs(true, true, false, false),
            "hi" => return signs(false, false, true, false),
            "hs" => return signs(false, true, true, false),
            _ => {}
        }
        let or_nan = name.len() == 3 && name.ends_with('u');
        match name.get(..2)? {
            "eq" => signs(false, true, false, or_nan),
            "ne" => signs(true, false, true, or_nan),
            "lt" => signs(true, false, false, or_nan),
            "le" => signs(true, true, false, or_nan),
            "gt" => signs(false, false, true, or_nan),
            "ge" => signs(false, true, true, or_nan),
            _ => None,
        }
    }
}

/// The lane that a shuffle reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shuffle {
    Up,
    Across,
    Index,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Move,
    Pack,
    Unpack,
    Add,
    Subtract,
    Multiply,
    MultiplyWide,
    MultiplyAdd,
    Fused { down: bool },
    Divide,
    Remainder,
    Min,
    Max,
    Negate,
    Absolute,
    Not,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    Permute,
    Compare(Relation),
    Select,
    Convert { from: Type, saturate: bool },
    Load { shared: bool, vector: usize },
    Store { shared: bool, vector: usize },
    Branch,
    Return,
    Barrier,
    WarpBarrier,
    Shuffle(Shuffle),
    Ballot,
    LoadMatrix { transposed: bool },
    Product,
    Exp2,
    Reciprocal,
    Root,
    InsertBits,
    LeadingZeros,
    ReverseBits,
    FindLeading,
}

impl Op {
    /// True if the lanes of a warp execute it together.
    pub(crate) fn of_a_warp(self) -> bool {
        matches!(self, Op::WarpBarrier | Op::Shuffle(_) | Op::Ballot | Op::LoadMatrix { .. } | Op::Product)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Instruction {
    pub(crate) op: Op,
    pub(crate) ty: Type,
    /// The predicate, and its value for which the instruction is executed.
    pub(crate) guard: Option<(usize, bool)>,
    pub(crate) to: [usize; 4],
    pub(crate) to_len: usize,
    pub(crate) from: [usize; 10],
    pub(crate) from_len: usize,
    /// Bytes added to an address; the place of a branch.
    pub(crate) offset: i64,
    pub(crate) line: usize,
}

/// A register that the machine writes, not the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Thread,
    BlockX,
    BlockY,
    Threads,
    BlocksX,
    BlocksY,
    Zero,
    Parameter(usize),
    Constant(u64),
}

const SPECIALS: [(&str, Special); 9] = [
    ("%tid.x", Special::Thread),
    ("%ctaid.x", Special::BlockX),
    ("%ctaid.y", Special::BlockY),
    ("%ntid.x", Special::Threads),
    ("%nctaid.x", Special::BlocksX),
    ("%nctaid.y", Special::BlocksY),
    ("%tid.y", Special::Zero),
    ("%tid.z", Special::Zero),
    ("%ctaid.z", Special::Zero),
];

/// Address of the first byte of shared memory.
pub(crate) const SHARED: u64 = 0x1_0000;

/// An entry of a module.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Bytes of each parameter.
    pub parameters: Vec<usize>,
    /// The most threads of a block.
    pub threads: u32,
    /// Bytes of static shared memory.
    pub shared: usize,
    pub(crate) code: Vec<Instruction>,
    pub(crate) registers: usize,
    pub(crate) specials: Vec<(usize, Special)>,
}

/// PTX, parsed.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// Entries by name.
    pub kernels: BTreeMap<String, Kernel>,
    pub(crate) lines: Vec<String>,
}

impl Module {
    /// Parses PTX.
    ///
    /// # Errors
    /// A line that the machine does not execute, with its number.
    pub fn parse(text: &str) -> Result<Module, String> {
        let mut parser = Parser::default();
        for (at, line) in text.trim_end_matches('\0').lines().enumerate() {
            parser.module.lines.push(line.trim().to_owned());
            let line = line.split("//").next().unwrap_or_default().trim();
            if !line.is_empty() {
                parser.line(line, at + 1).map_err(|why| format!("PTX line {}: {why}: {line}", at + 1))?;
            }
        }
        Ok(parser.module)
    }
}

/// Parts between the separators that no bracket encloses.
fn split(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            _ if c == separator && depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

fn inside(text: &str) -> &str {
    text.get(1..text.len().saturating_sub(1)).unwrap_or_default()
}

#[derive(Default)]
struct Parser {
    module: Module,
    /// The entry being read.
    kernel: Option<Entry>,
    /// Alignment and bytes of the module's shared variables.
    shared: HashMap<String, (usize, usize)>,
}

#[derive(Default)]
struct Entry {
    kernel: Kernel,
    names: HashMap<String, usize>,
    parameters: Vec<String>,
    labels: HashMap<String, usize>,
    /// Branches, and the labels that they go to.
    branches: Vec<(usize, String)>,
    /// Addresses of shared variables.
    places: HashMap<String, u64>,
    in_parameters: bool,
    depth: usize,
}

type Read<T = ()> = Result<T, String>;

impl Parser {
    fn line(&mut self, line: &str, at: usize) -> Read {
        if let Some(head) = line.strip_prefix(".visible .entry ") {
            let (name, rest) = head.split_once('(').ok_or("an entry without parameters")?;
            let mut entry = Entry { in_parameters: !rest.contains(')'), ..Entry::default() };
            entry.kernel.name = name.trim().to_owned();
            entry.kernel.threads = 1024;
            self.kernel = Some(entry);
            return Ok(());
        }
        let Some(entry) = &mut self.kernel else {
            if line.starts_with(".shared") {
                let (name, align, bytes) = shared_variable(line)?;
                self.shared.insert(name, (align, bytes));
            }
            return Ok(());
        };
        if entry.in_parameters {
            entry.parameter(line)?;
        } else if let Some(rest) = line.strip_prefix(".maxntid ") {
            let first = rest.split(',').next().unwrap_or_default();
            entry.kernel.threads = first.trim().parse().map_err(|_| "no number of threads")?;
        } else if line.starts_with(".shared") {
            let (name, align, bytes) = shared_variable(line)?;
            entry.place(name, align, bytes);
        } else if line == "{" {
            entry.depth += 1;
        } else if line == "}" {
            entry.depth -= 1;
            if entry.depth == 0 {
                let kernel = self.kernel.take().ok_or("no entry")?.finish()?;
                self.module.kernels.insert(kernel.name.clone(), kernel);
            }
        } else if let Some(label) = line.strip_suffix(':') {
            entry.labels.insert(label.to_owned(), entry.kernel.code.len());
        } else if !line.starts_with('.') {
            let statement = line.strip_suffix(';').ok_or("a statement without an end")?;
            entry.statement(statement.trim(), at, &self.shared)?;
        }
        Ok(())
    }
}

/// `.shared .align 4 .b8 name[128];`: name, alignment, bytes.
fn shared_variable(line: &str) -> Read<(String, usize, usize)> {
    let words: Vec<&str> = line.trim_end_matches(';').split_whitespace().collect();
    let [_, _, align, ty, name] = words[..] else { return Err("a shared variable".to_owned()) };
    let ty = Type::named(ty.trim_start_matches('.')).ok_or("its type")?;
    let (name, count) = name.split_once('[').map_or((name, "1"), |(name, n)| (name, n.trim_end_matches(']')));
    let number = |text: &str| text.parse::<usize>().map_err(|_| format!("{text} is no number"));
    Ok((name.to_owned(), number(align)?, number(count)? * ty.bits as usize / 8))
}

impl Entry {
    fn parameter(&mut self, line: &str) -> Read {
        if line.starts_with(')') {
            self.in_parameters = false;
            return Ok(());
        }
        let words: Vec<&str> = line.trim_end_matches(',').split_whitespace().collect();
        let [_, ty, name] = words[..] else { return Err("a parameter".to_owned()) };
        let ty = Type::named(ty.trim_start_matches('.')).ok_or("its type")?;
        self.kernel.parameters.push(ty.bits as usize / 8);
        self.parameters.push(name.to_owned());
        Ok(())
    }

    fn place(&mut self, name: String, align: usize, bytes: usize) -> u64 {
        let at = self.kernel.shared.next_multiple_of(align.max(1));
        self.kernel.shared = at + bytes;
        self.places.insert(name, SHARED + at as u64);
        SHARED + at as u64
    }

    /// The register of this name; with `special`, one that the machine writes.
    fn register(&mut self, name: &str, special: Option<Special>) -> usize {
        if let Some(known) = self.names.get(name) {
            return *known;
        }
        let fresh = self.names.len();
        self.names.insert(name.to_owned(), fresh);
        self.kernel.specials.extend(special.map(|special| (fresh, special)));
        fresh
    }

    fn operand(&mut self, text: &str, shared: &HashMap<String, (usize, usize)>) -> Read<usize> {
        if text.starts_with('%') {
            let special = SPECIALS.iter().find(|(name, _)| *name == text).map(|(_, special)| *special);
            return Ok(self.register(text, special));
        }
        let hexadecimal = text.strip_prefix("0f").or(text.strip_prefix("0d")).or(text.strip_prefix("0x"));
        let value = if let Some(digits) = hexadecimal {
            u64::from_str_radix(digits, 16).map_err(|_| "no number")?
        } else if text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            text.parse::<i64>().map(|x| x as u64).or(text.parse()).map_err(|_| "no number")?
        } else if let Some(place) = self.places.get(text) {
            *place
        } else {
            let (align, bytes) = *shared.get(text).ok_or_else(|| format!("nothing is called {text}"))?;
            self.place(text.to_owned(), align, bytes)
        };
        Ok(self.register(&format!("#{value:x}"), Some(Special::Constant(value))))
    }

    fn statement(&mut self, text: &str, line: usize, shared: &HashMap<String, (usize, usize)>) -> Read {
        let (guard, text) = match text.strip_prefix('@') {
            None => (None, text),
            Some(rest) => {
                let (name, rest) = rest.split_once(char::is_whitespace).ok_or("a guard alone")?;
                let register = self.register(name.trim_start_matches('!'), None);
                (Some((register, !name.starts_with('!'))), rest.trim())
            }
        };
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let words: Vec<&str> = name.split('.').collect();
        let operands = split(rest, ',');
        let (op, ty) = operation(&words, &operands)?;
        let blank =
            Instruction { op, ty, guard, to: [0; 4], to_len: 0, from: [0; 10], from_len: 0, offset: 0, line };
        let mut made = Made { instruction: blank, entry: self, shared };
        made.operands(&words, &operands)?;
        let instruction = made.instruction;
        if op == Op::Branch {
            self.branches.push((self.kernel.code.len(), operands[0].to_owned()));
        }
        self.kernel.code.push(instruction);
        Ok(())
    }

    fn finish(mut self) -> Read<Kernel> {
        for (at, label) in self.branches {
            let place = self.labels.get(&label).ok_or_else(|| format!("no label {label}"))?;
            self.kernel.code[at].offset = *place as i64;
        }
        self.kernel.registers = self.names.len();
        match self.kernel.code.last() {
            Some(last) if matches!(last.op, Op::Return | Op::Branch) && last.guard.is_none() => {
                Ok(self.kernel)
            }
            _ => Err("an entry whose last instruction goes on".to_owned()),
        }
    }
}

/// An instruction and where its operands come from.
struct Made<'a> {
    instruction: Instruction,
    entry: &'a mut Entry,
    shared: &'a HashMap<String, (usize, usize)>,
}

impl Made<'_> {
    fn write(&mut self, text: &str) -> Read {
        let names = if text.starts_with('{') { split(inside(text), ',') } else { split(text, '|') };
        for name in names {
            let register = self.entry.operand(name, self.shared)?;
            let i = &mut self.instruction;
            *i.to.get_mut(i.to_len).ok_or("too many results")? = register;
            i.to_len += 1;
        }
        Ok(())
    }

    fn read(&mut self, text: &str) -> Read {
        let names = if text.starts_with('{') { split(inside(text), ',') } else { vec![text] };
        for name in names {
            let register = self.entry.operand(name, self.shared)?;
            let i = &mut self.instruction;
            *i.from.get_mut(i.from_len).ok_or("too many operands")? = register;
            i.from_len += 1;
        }
        Ok(())
    }

    fn address(&mut self, text: &str) -> Read {
        let (base, offset) = inside(text).split_once('+').unwrap_or((inside(text), "0"));
        self.instruction.offset = offset.parse().map_err(|_| "no offset")?;
        self.read(base)
    }

    fn operands(&mut self, words: &[&str], operands: &[&str]) -> Read {
        match self.instruction.op {
            Op::Branch | Op::Return | Op::Barrier => Ok(()),
            Op::WarpBarrier => self.read(operands[0]),
            Op::Move if words[0] == "ld" => {
                let name = inside(operands[1]);
                let number =
                    self.entry.parameters.iter().position(|p| p == name).ok_or("no such parameter")?;
                self.write(operands[0])?;
                self.instruction.from[0] = self.entry.register(name, Some(Special::Parameter(number)));
                self.instruction.from_len = 1;
                Ok(())
            }
            Op::Store { .. } => {
                self.address(operands[0])?;
                self.read(operands[1])
            }
            Op::Load { .. } | Op::LoadMatrix { .. } => {
                self.write(operands[0])?;
                self.address(operands[1])
            }
            _ => {
                self.write(operands[0])?;
                operands[1..].iter().try_for_each(|text| self.read(text))
            }
        }
    }
}

const PRODUCT: &str = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32";
/// Forms that change a result and that no kernel uses.
const REFUSED: [&str; 6] = ["hi", "cc", "rp", "rz", "volatile", "cluster"];

/// The operation of an instruction's words, and its type.
fn operation(words: &[&str], operands: &[&str]) -> Read<(Op, Type)> {
    let has = |word: &str| words.contains(&word);
    let unknown = || format!("{} is not executed", words.join("."));
    if REFUSED.into_iter().any(has) {
        return Err(unknown());
    }
    let bits = Type { kind: Kind::Bits, bits: 32 };
    let last = words.last().and_then(|word| Type::named(word));
    let ty = last.unwrap_or(bits);
    let vector = if has("v4") { 4 } else { 1 + usize::from(has("v2")) };
    let whole = |ty: Type| if ty.kind == Kind::Signed { Type { kind: Kind::Bits, ..ty } } else { ty };
    Ok(match words[0] {
        "mov" if operands[0].starts_with('{') => (Op::Unpack, ty),
        "mov" if operands[1].starts_with('{') => (Op::Pack, ty),
        "mov" => (Op::Move, whole(ty)),
        "cvta" if words == ["cvta", "to", "global", "u64"] => (Op::Move, ty),
        "ld" if has("param") => (Op::Move, whole(ty)),
        "ld" if has("shared") || has("global") => (Op::Load { shared: has("shared"), vector }, ty),
        "st" if has("shared") || has("global") => (Op::Store { shared: has("shared"), vector }, ty),
        "bra" => (Op::Branch, bits),
        "ret" => (Op::Return, bits),
        "bar" if has("sync") && operands == ["0"] => (Op::Barrier, bits),
        "bar" if has("warp") => (Op::WarpBarrier, bits),
        "shfl" => {
            let mode = match words[2] {
                "up" => Shuffle::Up,
                "bfly" => Shuffle::Across,
                "idx" => Shuffle::Index,
                _ => return Err(unknown()),
            };
            (Op::Shuffle(mode), ty)
        }
        "vote" if has("ballot") => (Op::Ballot, ty),
        "ldmatrix" if has("x4") => (Op::LoadMatrix { transposed: has("trans") }, bits),
        "mma" if words.join(".") == PRODUCT => (Op::Product, bits),
        "setp" if words.len() == 3 => (Op::Compare(Relation::named(words[1]).ok_or_else(unknown)?), ty),
        "cvt" => {
            let types: Vec<Type> = words.iter().filter_map(|word| Type::named(word)).collect();
            let [to, from] = types[..] else { return Err(unknown()) };
            (Op::Convert { from, saturate: has("sat") }, to)
        }
        name => (arithmetic(name, &has).ok_or_else(unknown)?, last.ok_or_else(unknown)?),
    })
}

fn arithmetic(name: &str, has: &dyn Fn(&str) -> bool) -> Option<Op> {
    Some(match name {
        "add" => Op::Add,
        "sub" => Op::Subtract,
        "mul" if has("wide") => Op::MultiplyWide,
        "mul" => Op::Multiply,
        "mad" => Op::MultiplyAdd,
        "fma" => Op::Fused { down: has("rm") },
        "div" => Op::Divide,
        "rem" => Op::Remainder,
        "min" => Op::Min,
        "max" => Op::Max,
        "neg" => Op::Negate,
        "abs" => Op::Absolute,
        "not" => Op::Not,
        "and" => Op::And,
        "or" => Op::Or,
        "xor" => Op::Xor,
        "shl" => Op::ShiftLeft,
        "shr" => Op::ShiftRight,
        "selp" => Op::Select,
        "ex2" => Op::Exp2,
        "rcp" => Op::Reciprocal,
        "sqrt" => Op::Root,
        "prmt" => Op::Permute,
        "bfi" => Op::InsertBits,
        "clz" => Op::LeadingZeros,
        "brev" => Op::ReverseBits,
        "bfind" if has("shiftamt") => Op::FindLeading,
        _ => return None,
    })
}
