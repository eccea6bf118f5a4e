//! Lists with dots in them.

use num_bigint::BigInt;
use num_traits::{ToPrimitive, Zero};

use crate::node::Node;

/// Most members that dots stand for.
const MOST: usize = 1000;

/// The list with `1, 2, \ldots, 9` and `2, 4, \ldots, 10` written out; other dots stay.
pub(super) fn expanded(items: Vec<Node>) -> Vec<Node> {
    let Some(at) = items.iter().position(|item| *item == Node::Dots) else { return items };
    let whole = |at: usize| items.get(at).and_then(Node::as_integer);
    let (Some(last), Some(next)) = (at.checked_sub(1).and_then(whole), whole(at + 1)) else { return items };
    let step: BigInt = match at.checked_sub(2).and_then(whole) {
        Some(before) => last - before,
        None => BigInt::from(if next > last { 1 } else { -1 }),
    };
    let distance: BigInt = next - last;
    if step.is_zero() || !(&distance % &step).is_zero() {
        return items;
    }
    let Some(count) = (&distance / &step).to_usize().filter(|n| (1..=MOST).contains(n)) else { return items };
    let between = (1..count).map(|k| Node::whole(last + &step * BigInt::from(k)));
    items[..at].iter().cloned().chain(between).chain(items[at + 1..].iter().cloned()).collect()
}
