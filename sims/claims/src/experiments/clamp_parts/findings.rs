//! The findings.

use super::{APART, BEYOND, ByArm, CLAMP, Gain, Nested, Numbers, Outcome};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::{Shown, finding, gains_everywhere, holds_or, holds_when, interval, short};

/// The places of the arms.
const REWEIGHTING: usize = 1;
const OFFSET: usize = 2;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![at_nested_rates(n), helps(n), parts(n), beyond(n), twin(n), divergence(n)]
}

/// A text of the cells at every rate of every optimiser.
fn by_rate(n: &Numbers, text: impl Fn(&Outcome) -> String) -> String {
    let row = |cells: &[Outcome]| {
        let rates: Vec<String> = cells.iter().map(|c| format!("{}: {}", short(c.rate), text(c))).collect();
        format!("{}, rate {}", cells[0].optimiser, rates.join(", "))
    };
    n.cells.chunk_by(|a, b| a.optimiser == b.optimiser).map(row).collect::<Vec<_>>().join(". ")
}

fn by_optimiser(n: &Numbers, separator: &str, text: impl Fn(&Nested) -> String) -> String {
    let row = |o: &Nested| format!("{}: {}", o.optimiser, text(o));
    n.nested.iter().map(row).collect::<Vec<_>>().join(separator)
}

/// The verdict on gains that are said to be there, all of them, under every optimiser.
fn under_all(n: &Numbers, gains: &[usize], counterexample: &str) -> Verdict {
    let under = |o: &Nested| {
        let shown: Vec<Shown> = gains.iter().map(|&k| o.gains[k].shown()).collect();
        let worst = [Shown::Loss, Shown::Neither].into_iter().find(|s| shown.contains(s));
        worst.unwrap_or(Shown::Gain)
    };
    let shown: Vec<Shown> = n.nested.iter().map(under).collect();
    let gaining = n.nested.iter().zip(&shown).filter(|(_, s)| **s == Shown::Gain);
    let names: Vec<&str> = gaining.map(|(o, _)| o.optimiser.as_str()).collect();
    gains_everywhere(&shown, names.join(", "), counterexample)
}

fn place(c: &Outcome) -> String {
    format!("{} at {}", c.optimiser, short(c.rate))
}

/// The gain of an arm at every rate of every optimiser.
fn gains(n: &Numbers, arm: usize) -> String {
    by_rate(n, |c| interval(c.gain[arm]))
}

/// A level of GRPO and of the clamp at every rate of every optimiser.
fn levels(n: &Numbers, level: fn(&Outcome) -> ByArm) -> String {
    by_rate(n, |c| format!("{:.3} and {:.3}", level(c)[0], level(c)[CLAMP]))
}

/// The gain of an arm in every cell, after Holm's correction.
fn shown(n: &Numbers, arm: usize) -> Vec<Shown> {
    n.cells.iter().map(|c| Shown::by_p(c.gain[arm].mid, c.p_holm[arm])).collect()
}

/// The numbers of cells in which an arm gains, and loses.
fn counts(shown: &[Shown]) -> [usize; 2] {
    [Shown::Gain, Shown::Loss].map(|which| which.count(shown))
}

fn helps(n: &Numbers) -> Finding {
    let shown = shown(n, CLAMP);
    let [up, down] = counts(&shown);
    let gaining = n.cells.iter().zip(&shown).filter(|(_, s)| **s == Shown::Gain);
    let places: Vec<String> = gaining.map(|(c, _)| place(c)).collect();
    finding(
        "With clamped advantages the transformer solves more additions than with GRPO at every learning rate, under SGD and under AdamW",
        gains_everywhere(
            &shown,
            format!(
                "{}; {up} of {} cells after Holm's correction, and it solves fewer in {down}",
                places.join(", "),
                n.cells.len()
            ),
            format!("in none of {} cells after Holm's correction; it solves fewer in {down}", n.cells.len()),
        ),
        format!(
            "share of the hundred training problems that the most probable response solves, less GRPO's; an answer that cannot be graded is wrong. {} paired seeds, start {:.3}. {}",
            n.seeds,
            n.start[0],
            gains(n, CLAMP)
        ),
    )
}

fn with_p(gain: &Gain) -> String {
    format!("{}, p = {}", interval(gain.interval), short(gain.p_holm))
}

impl Gain {
    /// Reads the corrected p.
    fn shown(&self) -> Shown {
        Shown::by_p(self.interval.mid, self.p_holm)
    }
}

/// The words for the choice of rates and the correction.
fn family(n: &Numbers, tests: usize) -> String {
    format!(
        "rates chosen on the other seeds, for each arm; {} paired seeds, sign flips corrected over {tests} tests (this comparison was fixed after the runs had been seen)",
        n.seeds
    )
}

fn at_nested_rates(n: &Numbers) -> Finding {
    let levels = |o: &Nested| {
        format!(
            "GRPO {:.3}, the clamp {:.3}, {}",
            o.accuracy[0],
            o.accuracy[CLAMP],
            with_p(&o.gains[CLAMP - 1])
        )
    };
    finding(
        "With clamped advantages the transformer solves more additions than with GRPO where every seed has the rate that the other seeds choose, under SGD and under AdamW",
        under_all(n, &[CLAMP - 1], "under neither after Holm's correction"),
        format!(
            "share of the hundred training problems that the most probable response solves, and its gain; {}. {}",
            family(n, n.nested.len()),
            by_optimiser(n, "; ", levels)
        ),
    )
}

fn parts(n: &Numbers) -> Finding {
    let [reweighting, offset] = [REWEIGHTING, OFFSET].map(|arm| arm - 1);
    let both = |o: &Nested| {
        let [reweighting, offset, apart] = [reweighting, offset, APART].map(|part| with_p(&o.gains[part]));
        format!(
            "re-weighting alone {reweighting}; the offset alone {offset}; re-weighting less the offset {apart}"
        )
    };
    let [[more_r, less_r], [more_o, less_o]] = [REWEIGHTING, OFFSET].map(|arm| counts(&shown(n, arm)));
    finding(
        "What the clamp gains it gains by its contrast within a group, which re-weights prompts: that part alone gains, and more than the offset alone",
        under_all(n, &[reweighting, APART], "both are shown under neither optimiser"),
        format!(
            "{}, the difference of the parts over {}. {}. Cell by cell, after Holm's correction, re-weighting alone gains in {more_r} and loses in {less_r} of {} cells, the offset alone in \
             {more_o} and {less_o}. Re-weighting only, {}. Offset only, {}",
            family(n, 3 * n.nested.len()),
            n.nested.len(),
            by_optimiser(n, ". ", both),
            n.cells.len(),
            gains(n, REWEIGHTING),
            gains(n, OFFSET)
        ),
    )
}

fn beyond(n: &Numbers) -> Finding {
    finding(
        "Together the two parts gain more than the sum of what each gains alone",
        under_all(n, &[BEYOND], "not shown under either optimiser after Holm's correction"),
        format!(
            "gain of both less the gains of each; {}. {}",
            family(n, 3 * n.nested.len()),
            by_optimiser(n, "; ", |o| with_p(&o.gains[BEYOND]))
        ),
    )
}

/// The clamp's gain in the tabular twin at the same multiple of the reference rate.
fn in_twin(n: &Numbers, c: &Outcome) -> Option<f64> {
    let same = n.twin.iter().find(|(o, ratio, _)| *o == c.optimiser && (ratio - c.ratio).abs() < 1e-9);
    same.map(|(_, _, gain)| gain.mid)
}

fn twin(n: &Numbers) -> Finding {
    let pairs: Vec<(&Outcome, f64)> = n.cells.iter().filter_map(|c| Some((c, in_twin(n, c)?))).collect();
    let same = |(c, twin): &&(&Outcome, f64)| (c.gain[CLAMP].mid > 0.0) == (*twin > 0.0);
    let agree = pairs.iter().filter(same).count();
    let list: Vec<String> = pairs
        .iter()
        .map(|(c, twin)| format!("{}: {:+.3}, here {:+.3}", place(c), twin, c.gain[CLAMP].mid))
        .collect();
    finding(
        "The tabular twin of the task predicts the sign of the clamp's gain at each multiple of the best rate",
        holds_or(agree == pairs.len() && !pairs.is_empty(), format!("in {agree} of {} cells", pairs.len())),
        format!(
            "gain in the twin (`clamp_gain`, shared network, area) and on the transformer; a coin would agree in half of the cells. {}",
            list.join("; ")
        ),
    )
}

fn divergence(n: &Numbers) -> Finding {
    let less = n.cells.iter().filter(|c| c.kl[CLAMP] < c.kl[0]).count();
    finding(
        "The clamp keeps the policy nearer to the start (mean log π/π_start of its own tokens)",
        holds_when(
            less == n.cells.len(),
            2 * less > n.cells.len(),
            format!("in {less} of {} cells", n.cells.len()),
            format!("only in {less} of {} cells", n.cells.len()),
        ),
        format!(
            "nats per token, GRPO and the clamp. {}. Entropy, nats per token: {}. Mean norm of the gradient: {}",
            levels(n, |c| c.kl),
            levels(n, |c| c.entropy),
            levels(n, |c| c.grad_norm)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::common::words;
    use grpo_lambda_stats::Interval;

    fn numbers(gains: [f64; 4], p_holm: f64, kl: f64, twin: f64) -> Numbers {
        let at = |mid: f64| Interval { low: mid - 0.01, mid, high: mid + 0.01, level: 0.95 };
        let last = |x: f64| [0.5, 0.5, 0.5, x];
        let cell = |optimiser: &str| Outcome {
            optimiser: optimiser.into(),
            rate: 1.0,
            ratio: 1.0,
            solved: Default::default(),
            accuracy: gains.map(|g| 0.5 + g),
            gain: gains.map(at),
            p: [p_holm; 4],
            p_holm: [p_holm; 4],
            sampled: last(0.5),
            ungradable: last(0.0),
            entropy: last(1.0),
            kl: last(kl),
            grad_norm: last(1.0),
        };
        let (beyond, apart) = (gains[3] - gains[2] - gains[1], gains[1] - gains[2]);
        let all = [gains[1], gains[2], gains[3], beyond, apart];
        let nested = |optimiser: &str| Nested {
            optimiser: optimiser.into(),
            gains: all.map(|mid| Gain { interval: at(mid), p: p_holm, p_holm }),
            accuracy: gains.map(|g| 0.5 + g),
        };
        Numbers {
            nested: ["SGD", "AdamW"].map(nested).to_vec(),
            cells: ["SGD", "AdamW"].map(cell).to_vec(),
            seeds: 12,
            start: [0.2; 2],
            twin: ["SGD", "AdamW"].map(|o| (o.to_owned(), 1.0, at(twin))).to_vec(),
        }
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let verdicts = |n: Numbers| words(&findings(&n));
        assert_eq!(verdicts(numbers([0.0, 0.2, 0.05, 0.3], 0.001, 0.3, 0.1)), ["Holds"; 6]);
        assert_eq!(verdicts(numbers([0.0, 0.05, 0.2, -0.2], 0.001, 0.7, 0.1)), ["Fails"; 6]);
        let unclear = verdicts(numbers([0.0, 0.2, 0.05, 0.3], 0.2, 0.3, 0.1));
        assert_eq!(unclear, ["Not told", "Not told", "Not told", "Not told", "Holds", "Holds"]);
        let mut alike = numbers([0.0, 0.2, 0.05, 0.3], 0.001, 0.3, 0.1);
        alike.nested.iter_mut().for_each(|o| o.gains[APART].p_holm = 0.2);
        assert_eq!(verdicts(alike)[2], "Not told", "both parts gain, and neither is shown to gain more");
        let mut doubtful = numbers([0.0, 0.2, 0.05, 0.3], 0.001, 0.3, 0.1);
        doubtful.cells[0].p_holm = [0.2; 4];
        doubtful.nested[0].gains.iter_mut().for_each(|g| g.p_holm = 0.2);
        let half = verdicts(doubtful);
        assert_eq!(half[..4], ["Holds when"; 4]);
    }
}
