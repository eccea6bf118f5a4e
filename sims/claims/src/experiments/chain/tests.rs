//! Findings, tables and figures on made-up runs.

use super::findings::{CheckLine, on_check_lines};
use super::rows::{BySeed, PairRow};
use super::*;
use crate::experiments::common::words;
use grpo_lambda_trials::Difference;

const PROTOCOL: &str = "version = 5\n[[cells]]\nname = \"single\"\n[[cells]]\nname = \"mixed\"\narms = [\"rloo\", \"grpo\"]\n\
    [exam]\ntarget = 0.8\n[seeds]\nevaluation = [1, 2, 3, 4, 5, 6, 7, 8]\n\
    [[arms]]\nname = \"rloo\"\n[[arms]]\nname = \"oracle\"\n[[arms]]\nname = \"anti_oracle\"\n[[arms]]\nname = \"grpo\"\n\
    [[arms]]\nname = \"lambda_mean1\"\n[[arms]]\nname = \"vine_ppo\"\n[[arms]]\nname = \"critic\"\nfoil = true\n[[arms]]\nname = \"grpo_clamp\"\nfoil = true\n";

/// Runs of arms that need a factor of RLOO's tokens, with noise; on the last seed neither RLOO nor the oracle reaches the target.
fn runs(arms: &[(&str, f64)]) -> String {
    let mut text = "# c\ncell,stage,arm,rate,seed,tokens,reached,length\n".to_owned();
    for (arm, factor) in [("rloo", 1.0)].iter().chain(arms) {
        for seed in 1..=8u32 {
            let own = 1.0 + 0.01 * f64::from((seed * 7 + arm.len() as u32) % 5);
            let tokens = 1000.0 * f64::from(seed) * factor * own;
            let missed = seed == 8 && ["rloo", "oracle"].contains(arm);
            let reached = if missed { String::new() } else { tokens.to_string() };
            text += &format!("single,evaluation,{arm},0.1,{seed},{tokens},{reached},35\n");
        }
    }
    text
}

fn read(arms: &[(&str, f64)], updates: &str) -> Numbers {
    let header = "# c\nseed,place,arm,square,own_square,mean_square,along,gradient_square,credit_before,credit_after,rank_correlation\n";
    let (runs, updates) = (runs(arms), format!("{header}{updates}"));
    let earlier = "# c\ncell,stage,arm,rate,seed,tokens,reached,length\n";
    numbers(PROTOCOL, [earlier, &runs], &updates, Verdict::Holds).expect("it is read")
}

#[test]
fn a_gate_that_fails_leaves_one_finding_and_the_controls() {
    let n = read(&[("oracle", 0.6), ("anti_oracle", 1.3), ("grpo", 1.0), ("vine_ppo", 0.5)], "");
    assert_eq!(words(&findings(&n)), ["Not told"]);
    assert!(n.cell("single").is_none());
    assert_eq!(tables(&n)[0].1.rows.len(), 3);
    // A pair of which neither reached the target is left out.
    let compare = |arm, with| n.cells[0].compare(arm, with).expect("compared");
    assert_eq!((compare("oracle", "rloo").pairs(), compare("oracle", "rloo").missed), (7, [0, 0]));
    // A run that missed the target counts with the tokens that it had.
    let missed = [("rloo", "grpo"), ("grpo", "rloo")].map(|(arm, with)| {
        let compared = compare(arm, with);
        (compared.pairs(), compared.missed)
    });
    assert_eq!(missed, [(8, [1, 0]), (8, [0, 1])]);
    // Before all runs of the controls are there nothing is said.
    assert!(findings(&read(&[("oracle", 0.3)], "")).is_empty());
}

#[test]
fn the_predictions_are_read_behind_a_gate_that_is_passed() {
    let arms = |trace| {
        [
            ("oracle", 0.4),
            ("anti_oracle", 1.3),
            ("grpo", 1.0),
            ("lambda_mean1", trace),
            ("vine_ppo", 0.8),
            ("critic", 0.5),
        ]
    };
    let n = read(&arms(1.0), "");
    // The gate, the same tokens as GRPO, paid values pay.
    assert_eq!(words(&findings(&n)), ["Holds", "Holds", "Holds"]);
    assert_eq!(n.cells[0].arm("vine_ppo").and_then(Arm::reading), Some(Reading::Lower));
    assert!(n.cells[1].arms.is_empty(), "no run of the second cell");
    // A trace with half of the gain: not the same.
    let half = read(&arms(0.4f64.sqrt()), "");
    assert_eq!(words(&findings(&half)), ["Holds", "Fails", "Holds"]);
    assert!(findings(&half)[1].note.contains("fewer tokens than GRPO's are shown"));
    let share = half.cells[0].share_of_headroom("lambda_mean1").expect("a share");
    assert!((share.mid - 0.5).abs() < 0.02 && share.low < share.mid && share.mid < share.high, "{share:?}");
    // Holm counts the four arms of the family with runs, not the foil: the least p of 2/2^8 is multiplied by four.
    let p = |arm: &str| {
        half.cells[0]
            .arm(arm)
            .and_then(|a| a.over_reference.as_ref())
            .map(|c| c.ratio.corrected)
            .expect("a p")
    };
    assert!((p("vine_ppo") - 5.0 * 2.0 / 256.0).abs() < 1e-12 && (p("critic") - 2.0 / 256.0).abs() < 1e-12);
}

#[test]
fn a_gate_that_one_rule_passes_and_the_other_does_not_holds_under_a_condition() {
    let n = read(&[("oracle", 0.47), ("anti_oracle", 1.3), ("grpo", 1.0)], "");
    let found = findings(&n);
    assert_eq!(words(&found), ["Holds when"]);
    let rows = [Rule::One, Rule::LeftOut].map(|rule| n.gate_under(rule).expect("a row"));
    assert_eq!(rows.each_ref().map(|row| row.gate.as_str()), ["void", "passed"]);
    assert_eq!(rows.each_ref().map(|row| row.pairs), [8, 7]);
    // The pair of which neither arrives is a logarithm of 0 more in the mean.
    assert!((rows[0].tokens.ln() - rows[1].tokens.ln() * 7.0 / 8.0).abs() < 1e-9);
    assert!(found[0].verdict.detail().contains(&format!("{:.3}", rows[0].tokens)), "{found:?}");
}

#[test]
fn verifier_credit_is_compared_with_the_clamp_and_seed_by_seed() {
    let arms = |clamp| [("oracle", 0.4), ("anti_oracle", 1.3), ("grpo", 1.0), ("grpo_clamp", clamp)];
    for (clamp, expected) in [(0.8, "Holds"), (0.2, "Fails"), (0.4, "Not told")] {
        let n = read(&arms(clamp), "");
        assert_eq!(words(&findings(&n)), ["Holds", expected], "{clamp}");
        let pairs = tables(&n).into_iter().find(|(name, _)| name == "pairs").expect("pairs").1;
        let pairs: Vec<PairRow> = pairs.to_rows().expect("typed rows");
        let by_seed = |arm: &str| BySeed::new(pairs.iter().filter(|pair| pair.arm == arm));
        let (own, permuted) = (by_seed("oracle"), by_seed("anti_oracle"));
        assert_eq!((own.fewer.len(), own.more.len(), own.neither, own.seeds()), (7, 0, 1, 8));
        assert_eq!((permuted.fewer.len(), permuted.more.len()), (0, 8));
        assert!(
            own.said().expect("fewer").ends_with("of RLOO's tokens on 7 of 8 seeds")
                && permuted.said().is_none()
        );
    }
    // On the seed on which verifier credit does not arrive permuted credit does, with more tokens than were spent there.
    let wins = |permuted| {
        let pairs = shown::pair_rows(&read(&[("oracle", 0.4), ("anti_oracle", permuted)], ""));
        rows::permuted_wins(&pairs, 5)
    };
    assert_eq!((wins(1.3), wins(0.3)), (vec![], (1..=8).collect()));
}

#[test]
fn check_lines_help_and_mislead_only_where_lengths_and_tokens_say_so() {
    let around = |mid: f64| Interval { low: mid - 0.1, mid, high: mid + 0.1, level: LEVEL };
    let at = |tokens: f64, longer: f64| {
        let (interval, longer) = (around(tokens), around(longer));
        let values = vec![tokens; 8];
        let ratio = Difference { values, interval, narrow: interval, p: 0.01, corrected: 0.01 };
        CheckLine { longer, tokens: Compared { missed: [0, 0], ratio } }
    };
    for (useful, harmful, expected) in [
        (at(-0.5, 1.0), at(0.5, 1.0), "Holds"),
        (at(-0.5, 1.0), at(0.5, 0.0), "Not told"),
        (at(-0.5, 1.0), at(0.5, -1.0), "Fails"),
        (at(0.0, 1.0), at(0.5, 1.0), "Not told"),
        (at(0.5, 1.0), at(0.5, 1.0), "Fails"),
        (at(-0.5, 1.0), at(-0.5, 1.0), "Fails"),
    ] {
        assert_eq!(on_check_lines(&useful, &harmful).word(), expected);
    }
}

#[test]
fn noise_and_cosine_are_over_those_of_rloo() {
    // RLOO: variance 4 at |m|² = <m, T> = |T|² = 1. The arm: variance 2 at half of the length, cosine 0.5 / (0.5 · 1) = 1.
    let row = |seed: u32, arm: &str, square: f64, mean: f64, along: f64| {
        format!("{seed},start,{arm},{square},1,{mean},{along},1,0.5,1,0.25\n")
    };
    let both = |seed| row(seed, "rloo", 5.0, 1.0, 1.0) + &row(seed, "systematic_rloo", 3.0, 0.25, 0.5);
    let n = read(&[], &(both(1) + &both(2)));
    let update = &n.updates[1];
    assert!((update.noise - 2.0).abs() < 1e-12 && (update.cosine - 1.0).abs() < 1e-12, "{update:?}");
    assert_eq!(
        (update.credit_after_over_before, update.rank_correlation, update.seeds),
        (2.0, Some(0.25), 2)
    );
    assert_eq!(words(&findings(&n)), ["Fails"], "twice RLOO's noise is not 0.9 to 0.98 of it");
}
