use super::count::{Size, counted};
use super::pattern::Pattern;

/// Tokens 0, 1 and the end 2.
fn enumerated(prefix: &mut Vec<u32>, horizon: usize, illegal: &[Pattern], forbidden: &[Vec<u32>]) -> Size {
    let is_legal =
        |token: u32| !(0..illegal.len()).any(|i| illegal[i].matches(prefix) && forbidden[i].contains(&token));
    let legal: Vec<u32> = (0..3).filter(|&token| is_legal(token)).collect();
    let mut size = Size::default();
    for token in legal {
        size.edges += 1.0;
        size.prefix_tokens += prefix.len() as f64;
        if token == 2 || prefix.len() + 1 == horizon {
            size.responses += 1.0;
        } else {
            prefix.push(token);
            let behind = enumerated(prefix, horizon, illegal, forbidden);
            size.responses += behind.responses;
            size.edges += behind.edges;
            size.prefix_tokens += behind.prefix_tokens;
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
        let pattern = |&(fixed, open, _): &(&[u32], bool, &[u32])| Pattern { fixed: fixed.to_vec(), open };
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
