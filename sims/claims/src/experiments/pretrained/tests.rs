//! Findings and tables on made-up runs.

use super::shown::{figures, findings, tables};
use super::*;
use crate::experiments::common::words;

/// Both exams of a run: `n` of 98 problems by the reward, `read` of them by the other reader, none at the start.
fn exams(n: u32, read: u32) -> [String; 4] {
    let curve = |n: u32| format!("0:0.0000 24000:{:.4}", f64::from(n) / 98.0);
    let marks = |n: u32| format!("{:025x} {:025x}", 0, (1u128 << n) - 1);
    [curve(n), curve(read), marks(n), marks(read)]
}

/// All evaluation runs of a protocol, the methods at these levels, of lengths that differ, and `less` runs left out at the end.
fn numbers(
    protocol: &str,
    levels: &[(&str, u32, u32)],
    [paper, trace, clamp]: [f64; 3],
    less: usize,
) -> Numbers {
    let study: Study<Setup> = Study::read(protocol).expect("the protocol");
    let mut rows = Vec::new();
    for method in &study.methods {
        let own = levels.iter().find(|(name, ..)| *name == method.name);
        let (n, read) = own.map_or((49, 49), |(_, n, read)| (*n, *read));
        let length = [(PAPER, paper), (TRACE, trace), (CLAMP, clamp)];
        let length = length.iter().find(|(name, _)| *name == method.name).map_or(15.0, |(_, length)| *length);
        for seed in &study.seeds.evaluation {
            let [curve, read_curve, right, read] = exams(n, read);
            let length = length + 0.1 * (seed % 3) as f64;
            rows.push(format!(
                "evaluation,{},1e-5,{seed},budget,6,24000,{length},10,1,{curve},{read_curve},0:1 24000:1,{right},{read}\n",
                method.name
            ));
        }
    }
    rows.truncate(rows.len() - less);
    let header = RUNS.lines().take(2).collect::<Vec<_>>().join("\n");
    judged(protocol, recorded(&format!("{header}\n{}", rows.concat())).expect("rows")).expect("runs")
}

/// No run of the control, whose protocol then compares nothing.
fn no_control() -> Numbers {
    numbers(RATE_PROTOCOL, &[], [15.0; 3], 1)
}

/// The runs of [`numbers`] without a control.
fn read(levels: &[(&str, u32, u32)], less: usize) -> Rates {
    read_with(levels, [30.0, 20.0, 12.0], less)
}

/// The runs of [`read`] with the lengths of GRPO-λ, the trace alone and the clamp alone; those of the others are 15.
fn read_with(levels: &[(&str, u32, u32)], lengths: [f64; 3], less: usize) -> Rates {
    Rates { chosen: numbers(PROTOCOL, levels, lengths, less), one: no_control() }
}

#[test]
fn predictions_are_read_by_both_readers() {
    let all = read(&[(CLAMP, 74, 74), (PAPER, 74, 74)], 0);
    assert_eq!(words(&findings(&all)), ["Holds", "Holds", "Holds", "Holds", "Holds", "Holds", "Holds"]);
    assert_eq!(tables(&all).iter().map(|(_, table)| table.rows.len()).collect::<Vec<_>>(), [7, 7]);
    let title = |n: &Rates| figures(n)[0].1.title.clone();
    assert_eq!(title(&all), "More accurate than GRPO on SmolLM2: GRPO + clamp, GRPO-λ as published");
    assert_eq!(title(&read(&[(CLAMP, 49, 49)], 0)), "No method is shown to differ from GRPO on SmolLM2");
    let apart = read(&[(CLAMP, 74, 74), (TRACE, 25, 25)], 0);
    assert_eq!(title(&apart), "More accurate than GRPO on SmolLM2: GRPO + clamp; less accurate: trace alone");
    // 25 of 98 problems, with a rise from 0 at the start to 20,000 of 24,000 tokens; Student's t of 97 degrees from a printed table.
    let clamp = all.chosen.pair(CLAMP, GRPO).expect("all runs");
    let (share, area) = (25.0 / 98.0, 20.0 / 24.0 / 2.0);
    let half = 1.984_723 * area * f64::sqrt(share * (1.0 - share) / 97.0);
    assert!((clamp.difference.interval.mid - share * area).abs() < 1e-4);
    let over = clamp.over_problems;
    assert!((over.mid - share * area).abs() < 1e-9 && (over.high - over.mid - half).abs() < 1e-6, "{over:?}");
    // The other reader sees no gain of GRPO-λ: none is shown.
    let contradicted = read(&[(CLAMP, 74, 74), (PAPER, 74, 37)], 0);
    let words_of = |rates: &Rates| words(&findings(rates));
    assert_eq!(words_of(&contradicted)[0], "Inconclusive");
    assert_eq!(title(&contradicted), "More accurate than GRPO on SmolLM2: GRPO + clamp");
    // A method that only the reward sees learn.
    assert_eq!(words_of(&read(&[(TRACE, 60, 0)], 0))[1], "Fails");
    // Responses of GRPO-λ that are shorter, and of the clamp that are longer; then as long as the others'.
    assert_eq!(words_of(&read_with(&[], [10.0, 20.0, 30.0], 0))[5..], ["Fails", "Fails"]);
    assert_eq!(words_of(&read_with(&[], [15.0; 3], 0))[5..], ["Inconclusive", "Inconclusive"]);
    // A clamp that loses, and GRPO-λ that beats it.
    let other = read(&[(CLAMP, 25, 25)], 0);
    assert_eq!(words(&findings(&other))[..5], ["Fails", "Holds", "Fails", "Holds", "Fails"]);
}

#[test]
fn nothing_is_concluded_before_every_run_of_the_first_five_methods_is_there() {
    let secondary = read(&[], 24);
    assert_eq!((secondary.chosen.methods.len(), secondary.chosen.compared.len()), (5, 5));
    let fewer = read(&[], 25);
    assert_eq!(words(&findings(&fewer)), ["Inconclusive"]);
    assert!(tables(&fewer).is_empty() && figures(&fewer).is_empty());
}

#[test]
fn the_control_tells_a_gain_at_one_rate_from_a_gain_at_chosen_rates() {
    let chosen = [(CLAMP, 74, 74), (RLOO, 74, 74)];
    let at_one_rate = |levels: &[(&str, u32, u32)]| {
        let one = numbers(RATE_PROTOCOL, levels, [15.0; 3], 0);
        let rates = Rates { chosen: numbers(PROTOCOL, &chosen, [15.0; 3], 0), one };
        (words(&findings(&rates))[7..].to_vec(), figures(&rates)[0].1.title.clone(), rates)
    };
    // GRPO solves 25 problems more at the rate of the others than at its own.
    let (found, title, rates) = at_one_rate(&[(GRPO, 74, 74), (CLAMP, 74, 74), (RLOO, 74, 74)]);
    assert_eq!(found, ["Holds"; 3]);
    assert_eq!(title, "More accurate than GRPO on SmolLM2: GRPO + clamp, RLOO (at one rate none)");
    let of_grpo = rates.of_grpo().expect("all runs").mid;
    assert!((of_grpo - 25.0 / 98.0 * 20.0 / 24.0 / 2.0).abs() < 1e-4, "{of_grpo}");
    assert_eq!(tables(&rates)[2].1.rows.len(), 3);
    // What is gained at one rate refutes each prediction.
    let (found, title, _) = at_one_rate(&[(CLAMP, 74, 74), (RLOO, 74, 74), (TRACE, 74, 74)]);
    assert_eq!(found, ["Fails"; 3]);
    let more = "GRPO + clamp, RLOO (at one rate GRPO + clamp, trace alone, RLOO)";
    assert_eq!(title, format!("More accurate than GRPO on SmolLM2: {more}"));
    // A gain that the other reader does not see is not shown.
    assert_eq!(at_one_rate(&[(RLOO, 74, 37)]).0, ["Holds"; 3]);
}
