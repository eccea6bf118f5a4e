//! Arithmetic of the instructions, on the 32 lanes of a warp at once.
#![allow(unsafe_code)] // a function for processors that have more instructions

use crate::parse::{Instruction, Kind, Op, Relation, Shuffle, Type};

/// A register of every lane.
pub(crate) type Lanes = [u64; 32];

/// Every lane.
pub(crate) const ALL: u32 = u32::MAX;

fn f(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn bits_of(x: f32) -> u64 {
    u64::from(x.to_bits())
}

fn d(bits: u64) -> f64 {
    f64::from_bits(bits)
}

fn bf16(bits: u64) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

/// The lanes in a mask.
pub(crate) fn lanes(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = (mask != 0).then(|| mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(lane)
    })
}

/// The low bits of a signed number, widened.
fn signed(x: u64, bits: u32) -> i64 {
    let away = 64 - bits.min(64);
    ((x << away) as i64) >> away
}

/// Writes what `g` gives for the lanes of `on`.
#[inline(always)]
fn each<const N: usize>(r: &mut [Lanes], on: u32, i: &Instruction, g: impl Fn([u64; N]) -> u64) {
    if on == ALL {
        // As many at a time as a register of the processor may hold.
        for first in (0..32).step_by(8) {
            let from: [[u64; 8]; N] = std::array::from_fn(|n| {
                let lanes = &r[i.from[n]];
                std::array::from_fn(|lane| lanes[first + lane])
            });
            let to = &mut r[i.to[0]];
            for lane in 0..8 {
                to[first + lane] = g(std::array::from_fn(|n| from[n][lane]));
            }
        }
    } else {
        for lane in lanes(on) {
            r[i.to[0]][lane] = g(std::array::from_fn(|n| r[i.from[n]][lane]));
        }
    }
}

/// An operation of two numbers, by type.
#[inline(always)]
fn two(
    r: &mut [Lanes],
    on: u32,
    i: &Instruction,
    single: impl Fn(f32, f32) -> f32,
    double: impl Fn(f64, f64) -> f64,
    signs: impl Fn(i64, i64) -> i64,
    whole: impl Fn(u64, u64) -> u64,
) {
    let (mask, bits) = (i.ty.mask(), i.ty.bits);
    match (i.ty.kind, bits) {
        (Kind::Float, 32) => each(r, on, i, |[a, b]| bits_of(single(f(a), f(b)))),
        (Kind::Float, _) => each(r, on, i, |[a, b]| double(d(a), d(b)).to_bits()),
        (Kind::Signed, _) => {
            each(r, on, i, |[a, b]| signs(signed(a, bits), signed(b, bits)) as u64 & mask);
        }
        _ => each(r, on, i, |[a, b]| whole(a & mask, b & mask) & mask),
    }
}

fn smaller<T: PartialOrd>(a: T, b: T) -> T {
    // Of a number and none, the number.
    if b < a || a.partial_cmp(&a).is_none() { b } else { a }
}

fn larger<T: PartialOrd>(a: T, b: T) -> T {
    if b > a || a.partial_cmp(&a).is_none() { b } else { a }
}

/// `a b + c` rounded downwards. The product of two `f32` is exact in `f64`, and so is the error of the sum.
fn fused_down(a: f32, b: f32, c: f32) -> f32 {
    let (p, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = p + c;
    let part = sum - p;
    let error = (p - (sum - part)) + (c - part);
    let near = sum as f32;
    let above = f64::from(near) > sum || (f64::from(near) == sum && error < 0.0);
    if above && sum.is_finite() { near.next_down() } else { near }
}

#[inline(always)]
fn compare(r: &mut [Lanes], on: u32, i: &Instruction, relation: Relation) {
    let Relation { less, equal, greater, or_nan } = relation;
    let holds = |order: Option<std::cmp::Ordering>| {
        u64::from(match order {
            None => or_nan,
            Some(std::cmp::Ordering::Less) => less,
            Some(std::cmp::Ordering::Equal) => equal,
            Some(std::cmp::Ordering::Greater) => greater,
        })
    };
    let (mask, bits) = (i.ty.mask(), i.ty.bits);
    match (i.ty.kind, bits) {
        (Kind::Float, 32) => each(r, on, i, |[a, b]| holds(f(a).partial_cmp(&f(b)))),
        (Kind::Float, _) => each(r, on, i, |[a, b]| holds(d(a).partial_cmp(&d(b)))),
        (Kind::Signed, _) => each(r, on, i, |[a, b]| holds(Some(signed(a, bits).cmp(&signed(b, bits))))),
        _ => each(r, on, i, |[a, b]| holds(Some((a & mask).cmp(&(b & mask))))),
    }
}

#[inline(always)]
fn convert(r: &mut [Lanes], on: u32, i: &Instruction, from: Type, saturate: bool) -> Result<(), String> {
    let (to, mask) = (i.ty, i.ty.mask());
    let number = |x: u64| if from.bits == 32 { f64::from(f(x)) } else { d(x) };
    match (to.kind, from.kind) {
        (Kind::Float, Kind::Float) if saturate => {
            each(r, on, i, |[x]| bits_of(if f(x).is_nan() { 0.0 } else { f(x).clamp(0.0, 1.0) }));
        }
        (Kind::Float, Kind::Float) if to.bits == 32 => each(r, on, i, |[x]| bits_of(number(x) as f32)),
        (Kind::Float, Kind::Float) => each(r, on, i, |[x]| number(x).to_bits()),
        (Kind::Float, Kind::Signed) if to.bits == 32 => {
            each(r, on, i, |[x]| bits_of(signed(x, from.bits) as f32))
        }
        (Kind::Float, Kind::Signed) => each(r, on, i, |[x]| (signed(x, from.bits) as f64).to_bits()),
        (Kind::Float, _) if to.bits == 32 => each(r, on, i, |[x]| bits_of((x & from.mask()) as f32)),
        (Kind::Float, _) => each(r, on, i, |[x]| ((x & from.mask()) as f64).to_bits()),
        (_, Kind::Float) => return Err("a conversion to a whole number".to_owned()),
        (_, Kind::Signed) => each(r, on, i, |[x]| signed(x, from.bits) as u64 & mask),
        _ => each(r, on, i, |[x]| x & from.mask() & mask),
    }
    Ok(())
}

/// Executes an instruction that has neither memory nor control in it. `rough`: approximations are two places off.
#[inline]
pub(crate) fn arithmetic(r: &mut [Lanes], on: u32, i: &Instruction, rough: bool) -> Result<(), String> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has both.
        return unsafe { wide_arithmetic(r, on, i, rough) };
    }
    any_arithmetic(r, on, i, rough)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn wide_arithmetic(r: &mut [Lanes], on: u32, i: &Instruction, rough: bool) -> Result<(), String> {
    any_arithmetic(r, on, i, rough)
}

#[inline(always)]
fn any_arithmetic(r: &mut [Lanes], on: u32, i: &Instruction, rough: bool) -> Result<(), String> {
    let (mask, bits, float) = (i.ty.mask(), i.ty.bits, i.ty.kind == Kind::Float);
    match i.op {
        Op::Move => each(r, on, i, |[a]| a & mask),
        Op::Add => two(r, on, i, |a, b| a + b, |a, b| a + b, i64::wrapping_add, u64::wrapping_add),
        Op::Subtract => two(r, on, i, |a, b| a - b, |a, b| a - b, i64::wrapping_sub, u64::wrapping_sub),
        Op::Multiply => two(r, on, i, |a, b| a * b, |a, b| a * b, i64::wrapping_mul, u64::wrapping_mul),
        Op::Divide => two(
            r,
            on,
            i,
            |a, b| a / b,
            |a, b| a / b,
            |a, b| a.checked_div(b).unwrap_or(-1),
            |a, b| a.checked_div(b).unwrap_or(u64::MAX),
        ),
        Op::Remainder => two(
            r,
            on,
            i,
            |_, _| f32::NAN,
            |_, _| f64::NAN,
            |a, b| a.checked_rem(b).unwrap_or(a),
            |a, b| a.checked_rem(b).unwrap_or(a),
        ),
        Op::Min => two(r, on, i, smaller, smaller, smaller, smaller),
        Op::Max => two(r, on, i, larger, larger, larger, larger),
        Op::MultiplyWide if i.ty.kind == Kind::Signed => {
            each(r, on, i, |[a, b]| signed(a, bits).wrapping_mul(signed(b, bits)) as u64);
        }
        Op::MultiplyWide => each(r, on, i, |[a, b]| (a & mask) * (b & mask)),
        Op::MultiplyAdd => each(r, on, i, |[a, b, c]| a.wrapping_mul(b).wrapping_add(c) & mask),
        Op::Fused { .. } if bits == 64 => each(r, on, i, |[a, b, c]| d(a).mul_add(d(b), d(c)).to_bits()),
        Op::Fused { down: true } => each(r, on, i, |[a, b, c]| bits_of(fused_down(f(a), f(b), f(c)))),
        Op::Fused { .. } => each(r, on, i, |[a, b, c]| bits_of(f(a).mul_add(f(b), f(c)))),
        Op::Negate if float => each(r, on, i, |[a]| (a ^ 1 << (bits - 1)) & mask),
        Op::Negate => each(r, on, i, |[a]| a.wrapping_neg() & mask),
        Op::Absolute if float => each(r, on, i, |[a]| a & (mask >> 1)),
        Op::Absolute => each(r, on, i, |[a]| signed(a, bits).unsigned_abs() & mask),
        Op::Not => each(r, on, i, |[a]| !a & mask),
        Op::And => each(r, on, i, |[a, b]| a & b & mask),
        Op::Or => each(r, on, i, |[a, b]| (a | b) & mask),
        Op::Xor => each(r, on, i, |[a, b]| (a ^ b) & mask),
        Op::ShiftLeft => each(r, on, i, |[a, n]| shifted(n, bits, |n| a << n) & mask),
        Op::ShiftRight if i.ty.kind == Kind::Signed => {
            each(r, on, i, |[a, n]| (signed(a, bits) >> (n as u32).min(bits - 1)) as u64 & mask);
        }
        Op::ShiftRight => each(r, on, i, |[a, n]| shifted(n, bits, |n| (a & mask) >> n)),
        Op::Permute => each(r, on, i, |[a, b, chosen]| permuted(a & mask | b << 32, chosen)),
        Op::Select => each(r, on, i, |[a, b, p]| if p & 1 == 1 { a & mask } else { b & mask }),
        Op::Compare(relation) => compare(r, on, i, relation),
        Op::Convert { from, saturate } => return convert(r, on, i, from, saturate),
        _ => return rare(r, on, i, rough),
    }
    Ok(())
}

fn shifted(by: u64, bits: u32, shift: impl Fn(u32) -> u64) -> u64 {
    let by = by as u32;
    if by >= bits { 0 } else { shift(by) }
}

/// A byte of `bytes` for each of four numbers of four bits in `chosen`: the lower three name it, the fourth spreads its sign.
fn permuted(bytes: u64, chosen: u64) -> u64 {
    let byte = |n: u64| {
        let digit = chosen >> (4 * n);
        let byte = bytes >> (8 * (digit & 7)) & 0xff;
        if digit & 8 == 0 { byte } else { 0xff * (byte >> 7) }
    };
    (0..4).map(|n| byte(n) << (8 * n)).sum()
}

fn rare(r: &mut [Lanes], on: u32, i: &Instruction, rough: bool) -> Result<(), String> {
    let mask = i.ty.mask();
    match i.op {
        Op::Pack => {
            let bits = i.ty.bits as usize / i.from_len;
            let part = (1_u64 << bits) - 1;
            for lane in lanes(on) {
                let parts = (0..i.from_len).map(|n| (r[i.from[n]][lane] & part) << (bits * n));
                r[i.to[0]][lane] = parts.sum();
            }
        }
        Op::Unpack => {
            let bits = i.ty.bits as usize / i.to_len;
            for lane in lanes(on) {
                let whole = r[i.from[0]][lane];
                (0..i.to_len).for_each(|n| r[i.to[n]][lane] = whole >> (bits * n) & ((1 << bits) - 1));
            }
        }
        Op::Exp2 => each(r, on, i, |[a]| bits_of(exp2(f(a), rough))),
        Op::Reciprocal if i.ty.bits == 32 => each(r, on, i, |[a]| bits_of(1.0 / f(a))),
        Op::Reciprocal => each(r, on, i, |[a]| (1.0 / d(a)).to_bits() & !u64::from(u32::MAX)),
        Op::Root => each(r, on, i, |[a]| bits_of(f(a).sqrt())),
        Op::InsertBits => each(r, on, i, |[a, b, at, len]| {
            let field = if len & 0xff >= 64 { u64::MAX } else { (1 << (len & 0xff)) - 1 };
            let at = (at as u32).min(63);
            (b & !(field << at) | (a & field) << at) & mask
        }),
        Op::LeadingZeros => each(r, on, i, |[a]| u64::from((a as u32).leading_zeros())),
        Op::ReverseBits => each(r, on, i, |[a]| u64::from((a as u32).reverse_bits())),
        Op::FindLeading => each(r, on, i, |[a]| match a as u32 {
            0 => u64::from(u32::MAX),
            x => u64::from(x.leading_zeros()),
        }),
        op => return Err(format!("{op:?} is not executed")),
    }
    Ok(())
}

fn exp2(x: f32, rough: bool) -> f32 {
    let y = x.exp2();
    let y = match rough && y.is_normal() && x.fract() != 0.0 {
        true if y.to_bits().is_multiple_of(2) => y.next_up().next_up(),
        true => y.next_down().next_down(),
        false => y,
    };
    if y.abs() < f32::MIN_POSITIVE { 0.0 } else { y }
}

/// Exchanges registers between the lanes of a warp, all of which are there.
pub(crate) fn shuffle(r: &mut [Lanes], on: u32, i: &Instruction, mode: Shuffle) {
    let from = r[i.from[0]];
    for lane in lanes(on) {
        let (by, bounds) = (r[i.from[1]][lane] as usize & 31, r[i.from[2]][lane] as usize);
        let (clamp, segment) = (bounds & 31, bounds >> 8 & 31);
        let last = (lane & segment) | (clamp & !segment & 31);
        let (other, inside) = match mode {
            Shuffle::Up => (lane.wrapping_sub(by), lane >= last + by),
            Shuffle::Across => (lane ^ by, lane ^ by <= last),
            Shuffle::Index => {
                let other = (lane & segment) | (by & !segment & 31);
                (other, other <= last)
            }
        };
        r[i.to[0]][lane] = from[if inside { other } else { lane }] & u64::from(u32::MAX);
        if i.to_len > 1 {
            r[i.to[1]][lane] = u64::from(inside);
        }
    }
}

pub(crate) fn ballot(r: &mut [Lanes], on: u32, i: &Instruction) {
    let votes: u64 = lanes(on).map(|lane| (r[i.from[0]][lane] & 1) << lane).sum();
    lanes(on).for_each(|lane| r[i.to[0]][lane] = votes);
}

/// `ldmatrix.x4`: `rows` are the eight numbers that each lane points at.
pub(crate) fn spread(r: &mut [Lanes], i: &Instruction, rows: &[[u16; 8]; 32], transposed: bool) {
    for lane in 0..32 {
        for matrix in 0..4 {
            let at = |j: usize| {
                let (line, column) = (lane / 4, lane % 4 * 2 + j);
                let (line, column) = if transposed { (column, line) } else { (line, column) };
                u64::from(rows[8 * matrix + line][column])
            };
            r[i.to[matrix]][lane] = at(0) | at(1) << 16;
        }
    }
}

/// `mma.m16n8k16` of bf16 into f32. `rough`: a sum is truncated, as tensor cores do, instead of rounded after every term.
pub(crate) fn product(r: &mut [Lanes], i: &Instruction, rough: bool) {
    let (mut left, mut right) = ([[0.0_f32; 16]; 16], [[0.0_f32; 16]; 8]);
    for lane in 0..32 {
        let (group, pair) = (lane / 4, lane % 4 * 2);
        for j in 0..2 {
            for q in 0..4 {
                left[group + q % 2 * 8][pair + j + q / 2 * 8] = bf16(r[i.from[q]][lane] >> (16 * j) & 0xffff);
            }
            for q in 0..2 {
                right[group][pair + j + q * 8] = bf16(r[i.from[4 + q]][lane] >> (16 * j) & 0xffff);
            }
        }
    }
    for lane in 0..32 {
        for q in 0..4 {
            let (a, b) = (&left[lane / 4 + q / 2 * 8], &right[lane % 4 * 2 + q % 2]);
            let start = f(r[i.from[6 + q]][lane]);
            let sum = if rough {
                let terms = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
                truncated(terms.fold(f64::from(start), |sum, term| sum + term))
            } else {
                a.iter().zip(b).fold(start, |sum, (a, b)| sum + a * b)
            };
            r[i.to[q]][lane] = bits_of(sum);
        }
    }
}

fn truncated(x: f64) -> f32 {
    let near = x as f32;
    if !near.is_finite() || f64::from(near.abs()) <= x.abs() {
        near
    } else if near > 0.0 {
        near.next_down()
    } else {
        near.next_up()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_rounded_downwards_is_the_largest_number_below() {
        let tiny = f32::from_bits(1);
        assert_eq!(fused_down(1.0, 1.0, tiny), 1.0);
        assert_eq!(fused_down(1.0, 1.0, -tiny), 1.0_f32.next_down());
        assert_eq!(fused_down(3.0, 5.0, 1.0), 16.0);
        assert_eq!(fused_down(0.1, 0.1, -0.01), f32::mul_add(0.1, 0.1, -0.01));
        assert_eq!(fused_down(f32::INFINITY, 1.0, 0.0), f32::INFINITY);
        // Against whole numbers: the product of 24-bit factors and a term of the same size fit into 64 bits.
        for k in 0..1000_i64 {
            let (a, b, c) = (8_388_609 + 7919 * k, 16_777_213 - 104_729 % (k + 1), -(1 << 40) + k * 65_537);
            let (c32, exact) = (c as f32, a * b + c as f32 as i64);
            let found = fused_down(a as f32, b as f32, c32);
            assert!(found as i64 <= exact && found.next_up() as i64 > exact, "{a} {b} {c}");
        }
    }

    #[test]
    fn bytes_are_chosen_by_their_numbers() {
        let bytes = 0x80_66_55_44_33_22_11_00;
        assert_eq!(permuted(bytes, 0x3210), 0x33_22_11_00);
        assert_eq!(permuted(bytes, 4180), 0x11_00_55_44);
        assert_eq!(permuted(bytes, 0xf08f), 0xff_00_00_ff);
    }

    #[test]
    fn truncation_goes_towards_zero() {
        for x in [1.0 + 0.75 * f64::from(f32::EPSILON), 1.0 + 0.25 * f64::from(f32::EPSILON)] {
            assert_eq!([truncated(x), truncated(-x)], [1.0, -1.0]);
        }
    }
}
