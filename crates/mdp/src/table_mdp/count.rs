//! The number of responses of a described MDP, counted without enumerating them.

use std::collections::BTreeMap;

use super::pattern::Pattern;

/// The state that decides the legal tokens from a prefix on: the patterns that matched with an open end, and those that may still match.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    open: Vec<usize>,
    pending: Vec<usize>,
}

/// True if an MDP over `tokens` tokens has more than `limit` responses of at most `horizon` tokens; `forbidden[i]` are illegal at prefixes that match
/// `illegal[i]`.
///
/// Prefixes of one kind have the same responses behind them, and there are no more kinds than tokens in the patterns, so that the time does not grow
/// with the number of responses. Counted in floating point, which is exact up to any limit below 2^53.
pub(super) fn more_responses_than(
    limit: usize,
    (tokens, eos): (u32, u32),
    horizon: usize,
    illegal: &[Pattern],
    forbidden: &[Vec<u32>],
) -> bool {
    let all = Kind { open: Vec::new(), pending: (0..illegal.len()).collect() };
    let (mut kinds, mut responses) = (BTreeMap::from([(all, 1.0)]), 0.0);
    for depth in 0..horizon {
        let mut next: BTreeMap<Kind, f64> = BTreeMap::new();
        for (kind, count) in &kinds {
            let ends_here = |i: &&usize| illegal[**i].fixed.len() == depth;
            let matching: Vec<usize> =
                kind.open.iter().chain(kind.pending.iter().filter(ends_here)).copied().collect();
            let open: Vec<usize> = matching.iter().filter(|&&i| illegal[i].open).copied().collect();
            for token in (0..tokens).filter(|token| !matching.iter().any(|&i| forbidden[i].contains(token))) {
                if token == eos || depth + 1 == horizon {
                    responses += count;
                    continue;
                }
                let goes_on = |i: &&usize| illegal[**i].fixed.get(depth) == Some(&token);
                let pending = kind.pending.iter().filter(goes_on).copied().collect();
                *next.entry(Kind { open: open.clone(), pending }).or_default() += count;
            }
        }
        if responses > limit as f64 {
            return true;
        }
        kinds = next;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens 0, 1 and the end 2.
    fn enumerated(
        prefix: &mut Vec<u32>,
        horizon: usize,
        illegal: &[Pattern],
        forbidden: &[Vec<u32>],
    ) -> usize {
        let is_legal = |token: u32| {
            !(0..illegal.len()).any(|i| illegal[i].matches(prefix) && forbidden[i].contains(&token))
        };
        let legal: Vec<u32> = (0..3).filter(|&token| is_legal(token)).collect();
        let mut responses = 0;
        for token in legal {
            if token == 2 || prefix.len() + 1 == horizon {
                responses += 1;
            } else {
                prefix.push(token);
                responses += enumerated(prefix, horizon, illegal, forbidden);
                prefix.pop();
            }
        }
        responses
    }

    #[test]
    fn as_many_are_counted_as_there_are_whatever_is_illegal() {
        let rules: [(&[u32], bool, &[u32]); 7] = [
            (&[], false, &[2]),
            (&[0], false, &[0, 2]),
            (&[0], true, &[1]),
            (&[1], true, &[2]),
            (&[1, 0], false, &[0]),
            (&[1, 0], true, &[1]),
            (&[], true, &[1]),
        ];
        for chosen in 0..1 << rules.len() {
            let rules = rules.iter().enumerate().filter(|(i, _)| chosen >> i & 1 == 1).map(|(_, rule)| rule);
            let pattern =
                |&(fixed, open, _): &(&[u32], bool, &[u32])| Pattern { fixed: fixed.to_vec(), open };
            let illegal: Vec<Pattern> = rules.clone().map(pattern).collect();
            let forbidden: Vec<Vec<u32>> = rules.map(|(_, _, tokens)| tokens.to_vec()).collect();
            for horizon in 1..6 {
                let n = enumerated(&mut Vec::new(), horizon, &illegal, &forbidden);
                let more = |limit| more_responses_than(limit, (3, 2), horizon, &illegal, &forbidden);
                assert!(!more(n) && (n == 0 || more(n - 1)), "{n} {illegal:?} {forbidden:?} {horizon}");
            }
        }
    }
}
