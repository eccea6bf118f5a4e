//! The size of a described MDP, counted without enumerating its responses.

use std::collections::BTreeMap;

use super::pattern::Pattern;

/// The state that decides the legal tokens from a prefix on: the patterns that matched with an open end, and those that may still match.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    open: Vec<usize>,
    pending: Vec<usize>,
}

/// The size of a described MDP, in floating point, which is exact below 2^53.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Size {
    /// Responses.
    pub responses: f64,
    /// Pairs of a prefix and a token that may follow it.
    pub edges: f64,
    /// Tokens of the prefixes of all these pairs.
    pub prefix_tokens: f64,
}

/// The size of an MDP over `tokens` tokens with responses of at most `horizon` tokens; `forbidden[i]` are illegal at prefixes that match
/// `illegal[i]`. The count stops at the first length at which there are more than `limit` responses.
///
/// Prefixes of one kind have the same responses after them, and there are no more kinds than tokens in the patterns, so that the time does not grow
/// with the number of responses.
pub(super) fn counted(
    limit: usize,
    (tokens, eos): (u32, u32),
    horizon: usize,
    illegal: &[Pattern],
    forbidden: &[Vec<u32>],
) -> Size {
    let all = Kind { open: Vec::new(), pending: (0..illegal.len()).collect() };
    let (mut kinds, mut size) = (BTreeMap::from([(all, 1.0)]), Size::default());
    for depth in 0..horizon {
        let mut next: BTreeMap<Kind, f64> = BTreeMap::new();
        for (kind, count) in &kinds {
            let ends_here = |i: &&usize| illegal[**i].fixed.len() == depth;
            let matching: Vec<usize> =
                kind.open.iter().chain(kind.pending.iter().filter(ends_here)).copied().collect();
            let open: Vec<usize> = matching.iter().filter(|&&i| illegal[i].open).copied().collect();
            for token in (0..tokens).filter(|token| !matching.iter().any(|&i| forbidden[i].contains(token))) {
                size.edges += count;
                size.prefix_tokens += count * depth as f64;
                if token == eos || depth + 1 == horizon {
                    size.responses += count;
                    continue;
                }
                let goes_on = |i: &&usize| illegal[**i].fixed.get(depth) == Some(&token);
                let pending = kind.pending.iter().filter(goes_on).copied().collect();
                *next.entry(Kind { open: open.clone(), pending }).or_default() += count;
            }
        }
        if size.responses > limit as f64 {
            break;
        }
        kinds = next;
    }
    size
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
    ) -> Size {
        let is_legal = |token: u32| {
            !(0..illegal.len()).any(|i| illegal[i].matches(prefix) && forbidden[i].contains(&token))
        };
        let legal: Vec<u32> = (0..3).filter(|&token| is_legal(token)).collect();
        let mut size = Size::default();
        for token in legal {
            size.edges += 1.0;
            size.prefix_tokens += prefix.len() as f64;
            if token == 2 || prefix.len() + 1 == horizon {
                size.responses += 1.0;
            } else {
                prefix.push(token);
                let after = enumerated(prefix, horizon, illegal, forbidden);
                size.responses += after.responses;
                size.edges += after.edges;
                size.prefix_tokens += after.prefix_tokens;
                prefix.pop();
            }
        }
        size
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
                let counted = |limit| counted(limit, (3, 2), horizon, &illegal, &forbidden);
                let responses = n.responses as usize;
                assert_eq!(counted(responses), n, "{illegal:?} {forbidden:?} {horizon}");
                assert!(n.responses == 0.0 || counted(responses - 1).responses >= n.responses);
            }
        }
    }
}
