//! The findings.

use super::run::Kind;
use super::{Numbers, Outcome, RATIOS, RUNS};
use crate::experiment::Finding;
use crate::experiments::common::findings::{finding, holds_or, holds_when};
use crate::experiments::common::text::short;
use crate::experiments::common::vectors::largest;

/// The places of the arms.
const REWEIGHTING: usize = 1;
const OFFSET: usize = 2;
const CLAMP: usize = 3;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![helps(n), parts(n), shared(n), offset(n), solved(n)]
}

pub(super) fn cells(n: &Numbers, shared: bool, kind: Kind) -> Vec<&Outcome> {
    n.cells.iter().filter(|c| c.shared == shared && c.kind == kind).collect()
}

fn said(cell: &Outcome, arm: usize) -> String {
    let g = cell.gain[arm];
    format!("{:+.3} [{:+.3}, {:+.3}]", g.mid, g.low, g.high)
}

fn place(cell: &Outcome) -> String {
    let policy = if cell.shared { "shared" } else { "table" };
    format!("{policy}, {}, {} of the best rate", cell.kind.name(), cell.ratio)
}

/// An arm's gain at every rate.
fn row(n: &Numbers, shared: bool, kind: Kind, arm: usize) -> String {
    let gain = |c: &&Outcome| format!("{}: {}", c.ratio, said(c, arm));
    cells(n, shared, kind).iter().map(gain).collect::<Vec<_>>().join(", ")
}

/// An arm's gain at every rate, under both optimisers.
fn rows(n: &Numbers, shared: bool, arm: usize) -> String {
    format!("SGD: {}; AdamW: {}", row(n, shared, Kind::Sgd, arm), row(n, shared, Kind::AdamW, arm))
}

/// The weight by arm of a prompt at success rate `p`.
fn weights_at(n: &Numbers, p: f64) -> [f64; 4] {
    n.weights.iter().find(|(q, _)| (q - p).abs() < 1e-9).map_or([f64::NAN; 4], |(_, w)| *w)
}

/// The greatest mean final J over the rates: of GRPO, of the clamp.
fn greatest(n: &Numbers, kind: Kind) -> String {
    let level = |arm: usize| largest(cells(n, true, kind).iter().map(|c| c.level[arm]));
    format!("{:.3} and {:.3}", level(0), level(CLAMP))
}

fn better(cell: &Outcome) -> bool {
    cell.gain[CLAMP].mid > 0.0 && cell.p_holm <= 0.05
}

fn helps(n: &Numbers) -> Finding {
    let all: Vec<&Outcome> = n.cells.iter().filter(|c| c.shared).collect();
    let yes: Vec<&&Outcome> = all.iter().filter(|c| better(c)).collect();
    let no = all.iter().filter(|c| c.gain[CLAMP].mid < 0.0 && c.p_holm <= 0.05).count();
    let list = yes.iter().map(|c| place(c)).collect::<Vec<_>>().join("; ");
    let worst = all.iter().min_by(|a, b| a.gain[CLAMP].mid.total_cmp(&b.gain[CLAMP].mid));
    finding(
        "The clamp helps a policy that answers many prompts from shared parameters",
        holds_when(
            yes.len() == all.len(),
            !yes.is_empty(),
            format!("{list}; it hurts in {no} of {} cells", all.len()),
            format!(
                "it helps in none of {} cells after Holm's correction and hurts in {no}, most at {}",
                all.len(),
                worst.map_or(String::new(), |c| format!("{}: {}", place(c), said(c, CLAMP)))
            ),
        ),
        format!(
            "final J less GRPO's, {RUNS} paired runs of {} updates, start J = 0.4, {} learning rates over GRPO's best. SGD: {}. AdamW: {}. Greatest mean final J over the rates, GRPO and the clamp: SGD {}, AdamW {}",
            n.updates,
            RATIOS.len(),
            row(n, true, Kind::Sgd, CLAMP),
            row(n, true, Kind::AdamW, CLAMP),
            greatest(n, Kind::Sgd),
            greatest(n, Kind::AdamW)
        ),
    )
}

fn parts(n: &Numbers) -> Finding {
    let shared: Vec<&Outcome> = n.cells.iter().filter(|c| c.shared).collect();
    let rms = |arm: usize| {
        (shared.iter().map(|c| c.gain[arm].mid.powi(2)).sum::<f64>() / shared.len() as f64).sqrt()
    };
    let rest = shared
        .iter()
        .map(|c| (c.gain[CLAMP].mid - c.gain[REWEIGHTING].mid - c.gain[OFFSET].mid).powi(2))
        .sum::<f64>();
    let numbers = format!(
        "root mean square over {} cells of the effect on final J: re-weighting {}, offset {}, both {}, what does not add up {}. Re-weighting only, {}. Offset only, {}",
        shared.len(),
        short(rms(REWEIGHTING)),
        short(rms(OFFSET)),
        short(rms(CLAMP)),
        short((rest / shared.len() as f64).sqrt()),
        rows(n, true, REWEIGHTING),
        rows(n, true, OFFSET)
    );
    finding(
        "What the clamp does it does by re-weighting prompts: that part moves the final J more than the offset does",
        holds_or(
            rms(REWEIGHTING) > rms(OFFSET),
            format!("re-weighting {}, offset {}", short(rms(REWEIGHTING)), short(rms(OFFSET))),
        ),
        numbers,
    )
}

fn shared(n: &Numbers) -> Finding {
    let pairs: Vec<(&Outcome, &Outcome)> = Kind::ALL
        .into_iter()
        .flat_map(|kind| cells(n, true, kind).into_iter().zip(cells(n, false, kind)))
        .collect();
    let more = pairs.iter().filter(|(s, t)| s.gain[CLAMP].mid > t.gain[CLAMP].mid).count();
    let apart = pairs.iter().filter(|(s, t)| s.gain[CLAMP].low > t.gain[CLAMP].high).count();
    finding(
        "The clamp gains more where prompts share parameters than in a table with the same start",
        holds_when(
            apart == pairs.len(),
            apart > 0,
            format!(
                "the intervals are apart in {apart} of {} cells; the mean is greater in {more}",
                pairs.len()
            ),
            format!(
                "no interval is above the table's; the mean is greater in {more} of {} cells",
                pairs.len()
            ),
        ),
        format!("the clamp's gain in the table, {}", rows(n, false, CLAMP)),
    )
}

fn offset(n: &Numbers) -> Finding {
    let moved = largest(n.weights.iter().map(|(_, w)| (w[OFFSET] - w[0]).abs()));
    let [low, half, high] = [0.1, 0.5, 0.9].map(|p| weights_at(n, p));
    finding(
        "The offset of the clamp has no effect on average: it pushes up whatever was sampled",
        holds_or(
            moved < 1e-12,
            format!(
                "it re-weights prompts, too, since it depends on how many are right: at success rate 0.1, 0.5 and 0.9 it changes the multiple of ∇p from {:.3}, {:.3}, {:.3} to {:.3}, {:.3}, {:.3}",
                low[0], half[0], high[0], low[OFFSET], half[OFFSET], high[OFFSET]
            ),
        ),
        format!("exact, G = 8; largest change of the multiple {}", short(moved)),
    )
}

fn solved(n: &Numbers) -> Finding {
    let share = |p: f64| weights_at(n, p)[CLAMP] / weights_at(n, p)[0];
    let [start_low, start_mid, start_high] = n.start;
    let falls = n.weights.windows(2).all(|w| w[1].1[CLAMP] / w[1].1[0] <= w[0].1[CLAMP] / w[0].1[0] + 1e-12);
    finding(
        "The more often a prompt is solved, the less of its weight the clamp leaves: a curriculum towards unsolved prompts",
        holds_or(falls, "the share of the weight that is left rises somewhere"),
        format!(
            "share of the expected update left at success rate 0.02, 0.5, 0.9, 0.98: {:.3}, {:.3}, {:.3}, {:.3}; quartiles of the success rates at the start: {start_low:.2}, {start_mid:.2}, {start_high:.2}",
            share(0.02),
            share(0.5),
            share(0.9),
            share(0.98)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::weights::ARMS;
    use super::*;
    use crate::experiments::common::findings::words;
    use grpo_lambda_stats::Interval;

    fn numbers(gains: [f64; ARMS.len()], table: f64, p: f64, weights: [f64; 2]) -> Numbers {
        let at = |mid: f64| Interval { low: mid - 0.01, mid, high: mid + 0.01, level: 0.95 };
        let cell = |(shared, kind)| Outcome {
            shared,
            kind,
            ratio: 1.0,
            rate: 1.0,
            level: [0.5; ARMS.len()],
            gain: if shared { gains.map(at) } else { [at(0.0), at(0.0), at(0.0), at(table)] },
            p,
            p_holm: p,
        };
        let all = [true, false].into_iter().flat_map(|shared| Kind::ALL.map(|kind| (shared, kind)));
        Numbers {
            cells: all.map(cell).collect(),
            updates: 1,
            start: [0.0; 3],
            weights: vec![(0.1, [1.0, 1.0, weights[0], 0.9]), (0.5, [1.0, 1.0, 1.0, weights[1]])],
        }
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let verdicts = |n: Numbers| words(&findings(&n));
        assert_eq!(verdicts(numbers([0.0, 0.2, 0.05, 0.2], 0.0, 0.001, [1.0, 0.5])), ["Holds"; 5]);
        assert_eq!(verdicts(numbers([0.0, 0.05, 0.2, -0.2], 0.1, 0.001, [1.5, 0.95])), ["Fails"; 5]);
        // A gain that does not survive the correction is none.
        assert_eq!(verdicts(numbers([0.0, 0.2, 0.05, 0.2], 0.0, 0.2, [1.0, 0.5]))[0], "Fails");
    }
}
