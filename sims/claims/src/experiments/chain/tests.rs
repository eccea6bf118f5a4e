//! Findings, tables and figures on made-up runs.

use super::findings::findings;
use super::*;
use crate::experiments::common::words;

/// A curve that has a level from the first token to the budget.
fn level(accuracy: f64) -> String {
    format!("0:{accuracy:.4} 500000:{accuracy:.4}")
}

/// All evaluation runs of the protocol, the methods at these levels above RLOO's, 0.5, with a little noise.
fn runs(gains: &[(&str, f64)]) -> String {
    let study: Study<toml::Table> = Study::read(PROTOCOL).expect("the protocol");
    let mut text =
        "# c\nstage,method,rate,seed,ended,steps,tokens,length,start_steps,seconds,curve,explained\n"
            .to_owned();
    for (k, method) in study.methods.iter().enumerate() {
        let gain = gains.iter().find(|(name, _)| *name == method.name).map_or(0.0, |(_, gain)| *gain);
        for seed in &study.seeds.evaluation {
            let noise = 0.001 * ((seed * 7 + k as u64 * 3) % 5) as f64;
            let curve = level(0.5 + gain + noise);
            text += &format!("evaluation,{},0.0005,{seed},budget,1,500000,35,0,1,{curve},\n", method.name);
        }
    }
    text
}

fn read(gains: &[(&str, f64)]) -> Numbers {
    judged(PROTOCOL, &runs(gains)).expect("runs")
}

/// Gains under which every prediction holds.
const AS_PREDICTED: [(&str, f64); 7] = [
    (VERIFIER, 0.1),
    (TEXTBOOK, 0.03),
    (PERMUTED, -0.05),
    (CLAMP, 0.07),
    (TRACE, -0.03),
    (PAPER, 0.04),
    (SETS, -0.03),
];

#[test]
fn predictions_and_gains_are_read_after_a_gate_that_is_passed() {
    let n = read(&AS_PREDICTED);
    let found = findings(&n);
    let keys: Vec<&str> = found.iter().map(|finding| finding.key.as_str()).collect();
    let wanted = "gate predictions baseline trace clamp tempo textbook against_clamp paper sets";
    assert_eq!(keys.join(" "), wanted);
    let mut expected = ["Holds"; 10];
    expected[9] = "Fails";
    assert_eq!(words(&found), expected);
    assert_eq!(found[1].values["outcomes"], "P1, P2, P3, P4, P5 held");
    assert_eq!(tables(&n).iter().map(|(_, table)| table.rows.len()).collect::<Vec<_>>(), [10, 12, 240]);
    // A trace that gains refutes P3; a clamp without an effect refutes P4, and then GRPO-λ beats it.
    let with = |changed: &[(&'static str, f64)]| {
        let kept =
            AS_PREDICTED.into_iter().filter(|(name, _)| changed.iter().all(|(other, _)| other != name));
        read(&kept.chain(changed.iter().copied()).collect::<Vec<_>>())
    };
    let gains = findings(&with(&[(TRACE, 0.03)]));
    assert_eq!((gains[3].verdict.word(), gains[1].verdict.word()), ("Fails", "Fails"));
    assert_eq!(gains[1].values["outcomes"], "P1, P2, P4, P5 held; P3 failed");
    let none = findings(&with(&[(CLAMP, 0.0)]));
    assert_eq!(none[4].verdict.word(), "Fails");
    // Equal levels are equivalent, no gain.
    let same = findings(&with(&[(TEXTBOOK, 0.0)]));
    assert_eq!((same[6].verdict.word(), same[2].verdict.word()), ("Fails", "Holds"));
    assert!(same[6].verdict.detail().contains("equivalent within 0.02"));
}

#[test]
fn a_gate_that_fails_leaves_one_finding_and_no_verdict() {
    for (verifier, permuted) in [(0.0, -0.05), (0.05, 0.06)] {
        let n = read(&[(VERIFIER, verifier), (PERMUTED, permuted), (CLAMP, 0.07)]);
        assert_eq!(words(&findings(&n)), ["Fails"]);
        let compared = tables(&n).into_iter().find(|(name, _)| name == "compared").expect("comparisons").1;
        let verdict = compared.column("verdict").expect("a column");
        assert!(compared.rows.len() == 12 && compared.rows.iter().all(|row| row[verdict] == "".into()));
        assert!(figures(&n)[0].1.title.contains("not passed"));
    }
}

#[test]
fn nothing_is_concluded_before_every_run_is_there() {
    let all = runs(&AS_PREDICTED);
    let (fewer, _) = all.trim_end().rsplit_once('\n').expect("lines");
    let n = judged(PROTOCOL, fewer).expect("runs");
    assert!(n.methods.is_empty() && n.gate.is_empty() && n.family.is_empty() && tables(&n).is_empty());
}

#[test]
fn sign_flips_without_an_interval_tell_nothing() {
    let mut n = read(&AS_PREDICTED);
    let sets = n.family.iter_mut().find(|c| c.pair.method == SETS).expect("sets");
    // All seeds lower, one of them far: the interval holds 0, the sign flips do not.
    let values: Vec<f64> = (0..24).map(|k| if k == 0 { -2.0 } else { -0.01 }).collect();
    sets.difference = Difference::new(&values, &[0.0; 24], 0.95).expect("pairs");
    assert!(sets.difference.interval.high > 0.0 && sets.difference.p < 0.001);
    assert_eq!(findings(&n)[9].verdict.word(), "Inconclusive");
}

#[test]
fn noise_and_cosine_are_over_those_of_rloo() {
    // RLOO: variance 4 at |m|² = <m, T> = |T|² = 1. The arm: variance 2 at half of the length, cosine 0.5 / (0.5 · 1) = 1.
    let row = |seed: u32, arm: &str, square: f64, mean: f64, along: f64| {
        format!("{seed},start,{arm},{square},1,{mean},{along},1,0.5,1,0.25\n")
    };
    let both = |seed| row(seed, "rloo", 5.0, 1.0, 1.0) + &row(seed, VERIFIER, 3.0, 0.25, 0.5);
    let header = "# c\nseed,place,arm,square,own_square,mean_square,along,gradient_square,credit_before,credit_after,rank_correlation\n";
    let updates = updates::updates(&format!("{header}{}{}", both(1), both(2))).expect("sums");
    let update = &updates[1];
    assert!((update.noise.mid - 2.0).abs() < 1e-12 && (update.cosine.mid - 1.0).abs() < 1e-12, "{update:?}");
    assert_eq!(
        (update.credit_after_over_before, update.rank_correlation, update.seeds),
        (2.0, Some(0.25), 2)
    );
    let found = findings(&Numbers { updates, ..read(&AS_PREDICTED) });
    assert_eq!(found[10].verdict.word(), "Fails", "twice RLOO's noise is not less");
}
