//! Numbers from their digits.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Pow, Signed};

use super::{Parser, unreadable};
use crate::lex::{Token, shown};
use crate::node::{Node, Number};
use crate::verdict::Reason;

/// Most digits of a number inside an expression.
const DIGITS: usize = 2000;

impl Parser<'_> {
    /// `52_8`, `52_{8}`.
    pub(super) fn numeral(&mut self, digits: &str) -> Result<Node, Reason> {
        self.at += 1;
        let index = self.argument_whole()?;
        let base = index.as_integer().and_then(|b| u32::try_from(b).ok()).filter(|b| (2..=36).contains(b));
        let Some(base) = base else { return unreadable("a number with an index that is not a base") };
        if digits.len() > DIGITS {
            return Err(Reason::TooLarge(format!("a number of {} digits", digits.len())));
        }
        match BigInt::parse_bytes(digits.as_bytes(), base) {
            Some(value) => Ok(Node::Numeral(value, base)),
            None => unreadable(format!("{} has a digit that base {base} does not know", shown(digits))),
        }
    }
}

/// `w + t/b`, or `w - t/b` for a negative `w`.
pub(super) fn mixed(whole: &BigInt, top: u32, bottom: u32) -> Node {
    let part = BigRational::new(top.into(), bottom.into());
    let part = if whole.is_negative() { -part } else { part };
    Node::exact(BigRational::from_integer(whole.clone()) + part)
}

/// The number that a token is.
pub(super) fn number(token: &Token) -> Result<Node, Reason> {
    let Token::Number { digits, repeating, exponent, dots } = token else {
        return unreadable("a number without digits");
    };
    let length = digits.len() + repeating.len();
    if length > DIGITS || exponent.unsigned_abs() > DIGITS as u64 {
        return Err(Reason::TooLarge(format!("a number of more than {DIGITS} digits")));
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}{repeating}");
    let Some(all_value) = BigInt::parse_bytes(all.as_bytes(), 10) else {
        return unreadable("a number without digits");
    };
    if !digits.contains('.') && repeating.is_empty() && *exponent == 0 {
        return Ok(Node::integer(all_value));
    }
    let ten = |n: usize| BigInt::from(10).pow(n as u32);
    let mut value = if repeating.is_empty() {
        BigRational::new(all_value, ten(fraction.len()))
    } else {
        // 0.ab(cd) = (abcd - ab) / (9900)
        let head = BigInt::parse_bytes(format!("0{whole}{fraction}").as_bytes(), 10).unwrap_or_default();
        let nines = ten(repeating.len()) - BigInt::one();
        BigRational::new(all_value - head, nines * ten(fraction.len()))
    };
    let scale = ten(exponent.unsigned_abs() as usize);
    value = if *exponent < 0 { value / scale } else { value * scale };
    let places = if repeating.is_empty() { Some(fraction.len() as i64 - exponent) } else { None };
    let significant = all.trim_start_matches('0').len() as u32;
    Ok(Node::Number(Number { value, places, significant, dots: *dots }))
}
