use super::*;
use crate::{Optimal, Oracle, Tabular};

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(String::from).collect()
}

fn reward(pattern: &str, reward: f64) -> RewardEntry {
    RewardEntry { pattern: words(pattern), reward }
}

fn illegal(prefix: &str, tokens: &str) -> PrefixTokens {
    PrefixTokens { prefix: words(prefix), tokens: words(tokens) }
}

fn policy(prefix: &str, probabilities: &[(&str, f64)]) -> PolicyEntry {
    let probabilities = probabilities.iter().map(|&(name, p)| (name.to_string(), p)).collect();
    PolicyEntry { prefix: words(prefix), probabilities }
}

/// Tokens a, b, E; horizon 3; everything legal.
fn base() -> TableMdp {
    TableMdp { name: "t".into(), tokens: words("a b E"), eos: "E".into(), horizon: 3, ..TableMdp::default() }
}

fn message(mdp: TableMdp) -> String {
    mdp.build().unwrap_err().to_string()
}

#[test]
fn rewards_follow_the_most_specific_pattern() {
    let mdp = TableMdp {
        default_reward: 0.125,
        rewards: vec![reward("a *", 0.25), reward("a b *", 0.5), reward("a b E", 1.0)],
        ..base()
    };
    let (tree, _) = mdp.build().unwrap();
    for leaf in tree.leaves() {
        let expected = match tree.text(&tree.response(leaf)).as_str() {
            "a b E" => 1.0,
            "a b a" | "a b b" => 0.5,
            text if text.starts_with('a') => 0.25,
            _ => 0.125,
        };
        assert_eq!(tree.reward(leaf), expected);
    }
    assert_eq!(Optimal::new(&tree).j, 1.0);
}

#[test]
fn the_policy_is_uniform_except_where_an_entry_matches() {
    let mdp = TableMdp {
        illegal: vec![illegal("", "E")],
        policy: vec![
            policy("", &[("b", 0.75), ("a", 0.25)]),
            policy("*", &[("a", 0.5), ("b", 0.3), ("E", 0.2)]),
        ],
        ..base()
    };
    let (tree, policy) = mdp.build().unwrap();
    let probs = policy.probs(&tree);
    let row = |node| probs[tree.edges_of(node)].to_vec();
    for (got, want) in [(row(0), vec![0.25, 0.75]), (row(1), vec![0.5, 0.3, 0.2])] {
        assert!(got.len() == want.len() && got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-15));
    }
    let (tree, policy) = base().build().unwrap();
    assert_eq!(policy, Tabular::uniform(&tree));
    assert!((Oracle::new(&tree, &policy).survival(2) - 4.0 / 9.0).abs() < 1e-15);
}

#[test]
fn every_refusal_names_the_field_and_the_value() {
    let cases = [
        (TableMdp { name: " ".into(), ..base() }, "name = \" \": must not be empty"),
        (TableMdp { tokens: words("a a E"), ..base() }, "tokens[1] = \"a\": occurs more than once"),
        (TableMdp { tokens: words("a * E"), ..base() }, "tokens[1] = \"*\": must be neither empty nor `*`"),
        (TableMdp { eos: "x".into(), ..base() }, "eos = \"x\": is not in tokens = [a, b, E]"),
        (TableMdp { horizon: 0, ..base() }, "horizon = 0 must be from 1 to 10000"),
        (TableMdp { gamma: 2.0, ..base() }, "gamma = 2 must be in [0, 1]"),
        (
            TableMdp { default_reward: -1.0, ..base() },
            "default_reward = -1: must be a probability in [0, 1] (reward_kind = binary)",
        ),
        (
            TableMdp { reward_kind: RewardKind::Real, rewards: vec![reward("*", f64::NAN)], ..base() },
            "rewards[0].reward = NaN: must be from -1e30 to 1e30",
        ),
        (
            TableMdp { rewards: vec![reward("a x", 1.0)], ..base() },
            "rewards[0].pattern = \"x\": is not in tokens = [a, b, E]",
        ),
        (
            TableMdp { rewards: vec![reward("a * b", 1.0)], ..base() },
            "rewards[0].pattern = [a * b]: `*` may only stand at the end",
        ),
        (
            TableMdp { rewards: vec![reward("a *", 1.0), reward("b *", 1.0), reward("a *", 0.0)], ..base() },
            "rewards[2].pattern = [a *]: is already given by rewards[0]",
        ),
        (
            TableMdp { rewards: vec![reward("a b", 1.0)], ..base() },
            "rewards[0].pattern = [a b]: matches no response of this MDP",
        ),
        (
            TableMdp { rewards: vec![reward("E a *", 1.0)], ..base() },
            "rewards[0].pattern = [E a *]: matches no response of this MDP",
        ),
        (
            TableMdp { illegal: vec![illegal("a b a", "E")], ..base() },
            "illegal[0].prefix = [a b a]: matches no prefix of this MDP",
        ),
        (
            TableMdp { illegal: vec![illegal("a", "a b E")], ..base() },
            "legal: no token is legal at prefix `a`",
        ),
        (
            TableMdp { illegal: vec![illegal("a", "q")], ..base() },
            "illegal[0].tokens = \"q\": is not in tokens = [a, b, E]",
        ),
        (
            TableMdp { policy: vec![policy("a E", &[("a", 1.0)])], ..base() },
            "policy[0].prefix = [a E]: matches no non-terminal prefix of this MDP",
        ),
        (
            TableMdp { policy: vec![policy("a", &[("a", 0.5), ("b", 0.5)])], ..base() },
            "policy[0].probabilities = [a, b]: must name exactly the legal tokens [a, b, E] of prefix `a`",
        ),
        (
            TableMdp { policy: vec![policy("a", &[("a", 0.5), ("b", 0.0), ("E", 0.5)])], ..base() },
            "policy[0].probabilities.b = 0: must be in (0, 1]",
        ),
        (
            TableMdp { policy: vec![policy("a", &[("a", 0.5), ("b", 0.25), ("E", 0.5)])], ..base() },
            "policy[0].probabilities = a sum of 1.25: must sum to 1",
        ),
        (
            TableMdp { policy: vec![policy("a", &[("a", 0.5), ("a", 0.5)])], ..base() },
            "policy[0].probabilities = \"a\": occurs more than once",
        ),
        (
            TableMdp { max_leaves: 3, ..base() },
            "more than max_leaves = 3 responses: lower the horizon or the number of legal tokens",
        ),
    ];
    for (mdp, expected) in cases {
        assert_eq!(message(mdp), expected);
    }
}

#[test]
fn too_many_responses_are_refused_at_once() {
    for horizon in [400, 10_000] {
        let said = message(TableMdp { horizon, ..base() });
        assert_eq!(
            said,
            "more than max_leaves = 20000000 responses: lower the horizon or the number of legal tokens"
        );
    }
}
