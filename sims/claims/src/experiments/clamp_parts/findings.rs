//! What the numbers say.

use grpo_lambda_stats::Interval;

use super::measure::{BEYOND, CLAMP, Gain, Level, Numbers, Outcome, Overall};
use crate::experiment::Finding;
use crate::experiments::common::findings::{finding, holds_or, holds_when};
use crate::experiments::common::text::short;
use crate::experiments::common::vectors::largest;

/// The places of the arms.
const REWEIGHTING: usize = 1;
const OFFSET: usize = 2;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![helps(n), on_average(n), at_best(n), parts(n), beyond(n), twin(n), divergence(n)]
}

fn optimisers(n: &Numbers) -> Vec<&str> {
    let mut names: Vec<&str> = n.cells.iter().map(|c| c.optimiser.as_str()).collect();
    names.dedup();
    names
}

fn of<'a>(n: &'a Numbers, optimiser: &str) -> Vec<&'a Outcome> {
    n.cells.iter().filter(|c| c.optimiser == optimiser).collect()
}

fn place(c: &Outcome) -> String {
    format!("{} at {}", c.optimiser, short(c.rate))
}

fn places(cells: &[&Outcome]) -> String {
    cells.iter().map(|c| place(c)).collect::<Vec<_>>().join(", ")
}

/// The gain of an arm at every rate of every optimiser.
fn gains(n: &Numbers, arm: usize) -> String {
    let at = |c: &&Outcome| {
        let g = c.gain[arm];
        format!("{}: {:+.3} [{:+.3}, {:+.3}]", short(c.rate), g.mid, g.low, g.high)
    };
    let row = |o: &&str| format!("{}, rate {}", o, of(n, o).iter().map(at).collect::<Vec<_>>().join(", "));
    optimisers(n).iter().map(row).collect::<Vec<_>>().join(". ")
}

/// A level of GRPO and of the clamp at every rate of every optimiser.
fn levels(n: &Numbers, level: fn(&Outcome) -> Level) -> String {
    let at = |c: &&Outcome| format!("{}: {:.3} and {:.3}", short(c.rate), level(c).of[0], level(c).of[CLAMP]);
    let row = |o: &&str| format!("{}, rate {}", o, of(n, o).iter().map(at).collect::<Vec<_>>().join(", "));
    optimisers(n).iter().map(row).collect::<Vec<_>>().join(". ")
}

/// Whether an arm gains, or loses, after Holm's correction.
fn clear(c: &Outcome, arm: usize, up: bool) -> bool {
    c.p_holm[arm] <= 0.05 && (c.gain[arm].mid > 0.0) == up
}

/// The cells in which an arm gains, or loses, after Holm's correction.
fn clear_cells(n: &Numbers, arm: usize, up: bool) -> Vec<&Outcome> {
    n.cells.iter().filter(|c| clear(c, arm, up)).collect()
}

fn helps(n: &Numbers) -> Finding {
    let (up, down) = (clear_cells(n, CLAMP, true), clear_cells(n, CLAMP, false));
    finding(
        "With clamped advantages the transformer solves more additions than with GRPO at every learning rate, under SGD and under AdamW",
        holds_when(
            up.len() == n.cells.len(),
            !up.is_empty(),
            format!(
                "{}; {} of {} cells after Holm's correction, and it solves fewer in {}",
                places(&up),
                up.len(),
                n.cells.len(),
                down.len()
            ),
            format!(
                "in none of {} cells after Holm's correction; it solves fewer in {}",
                n.cells.len(),
                down.len()
            ),
        ),
        format!(
            "share of all 100 problems that the most probable response solves, less GRPO's; an answer that cannot be graded is wrong. {} paired seeds, start {:.3}. {}",
            n.seeds,
            n.start[0],
            gains(n, CLAMP)
        ),
    )
}

fn text(Interval { low, mid, high, .. }: Interval) -> String {
    format!("{mid:+.3} [{low:+.3}, {high:+.3}]")
}

fn with_p(gain: &Gain) -> String {
    format!("{}, p = {}", text(gain.interval), short(gain.p_holm))
}

/// Whether a gain is above 0 after Holm's correction.
fn above(gain: &Gain) -> bool {
    gain.p_holm <= 0.05 && gain.interval.mid > 0.0
}

/// The optimisers of which something is true.
fn where_true(n: &Numbers, of: impl Fn(&&Overall) -> bool) -> Vec<&str> {
    n.overall.iter().filter(of).map(|o| o.optimiser.as_str()).collect()
}

/// What [`Overall::gains`] are tested as.
fn family(n: &Numbers) -> String {
    format!(
        "mean over the learning rates of each seed, {} paired seeds, sign flips corrected over {} tests (an average that was chosen after single rates had been seen)",
        n.seeds,
        4 * n.overall.len()
    )
}

fn on_average(n: &Numbers) -> Finding {
    let gaining = where_true(n, |o| above(&o.gains[CLAMP - 1]));
    let of = |o: &Overall| format!("{}: {}", o.optimiser, with_p(&o.gains[CLAMP - 1]));
    finding(
        "Averaged over learning rates, with clamped advantages the transformer solves more additions than with GRPO, under SGD and under AdamW",
        holds_when(
            gaining.len() == n.overall.len(),
            !gaining.is_empty(),
            gaining.join(", "),
            "under neither after Holm's correction",
        ),
        format!(
            "gain in the share of solved problems; {}. {}",
            family(n),
            n.overall.iter().map(of).collect::<Vec<_>>().join("; ")
        ),
    )
}

fn at_best(n: &Numbers) -> Finding {
    let best = |o: &str, arm: usize| largest(of(n, o).iter().map(|c| c.accuracy.of[arm]));
    let better = where_true(n, |o| o.at_best.low > 0.0);
    let row = |o: &Overall| {
        let [grpo, clamp] = [0, CLAMP].map(|arm| best(&o.optimiser, arm));
        format!("{}: GRPO {grpo:.3}, the clamp {clamp:.3}, {}", o.optimiser, text(o.at_best))
    };
    finding(
        "It also does where each has the best of the rates that were run",
        holds_when(
            better.len() == n.overall.len(),
            !better.is_empty(),
            better.join(", "),
            "the intervals hold 0",
        ),
        format!(
            "greatest mean share of problems solved over the rates, of the same runs that chose the rate, and the paired difference: {}",
            n.overall.iter().map(row).collect::<Vec<_>>().join("; ")
        ),
    )
}

fn parts(n: &Numbers) -> Finding {
    let [reweighting, offset] = [REWEIGHTING, OFFSET].map(|arm| arm - 1);
    let more = |o: &&Overall| {
        above(&o.gains[reweighting]) && o.gains[reweighting].interval.mid > o.gains[offset].interval.mid
    };
    let by_it = where_true(n, more);
    let row = |o: &Overall| {
        format!(
            "{}: re-weighting alone {}; the offset alone {}",
            o.optimiser,
            with_p(&o.gains[reweighting]),
            with_p(&o.gains[offset])
        )
    };
    let clear = |arm: usize| [true, false].map(|up| clear_cells(n, arm, up).len());
    let ([more_r, less_r], [more_o, less_o]) = (clear(REWEIGHTING), clear(OFFSET));
    finding(
        "What the clamp gains it gains by re-weighting prompts: that part alone gains, and more than the offset alone",
        holds_when(
            by_it.len() == n.overall.len(),
            !by_it.is_empty(),
            by_it.join(", "),
            "under neither optimiser",
        ),
        format!(
            "{}. {}. Cell by cell, after Holm's correction, re-weighting alone gains in {more_r} and loses in {less_r} of {} cells, the offset alone in \
             {more_o} and {less_o}. Re-weighting only, {}. Offset only, {}",
            family(n),
            n.overall.iter().map(row).collect::<Vec<_>>().join(". "),
            n.cells.len(),
            gains(n, REWEIGHTING),
            gains(n, OFFSET)
        ),
    )
}

fn beyond(n: &Numbers) -> Finding {
    let more = where_true(n, |o| above(&o.gains[BEYOND]));
    let row = |o: &Overall| format!("{}: {}", o.optimiser, with_p(&o.gains[BEYOND]));
    finding(
        "Together the two parts gain more than the sum of what each gains alone",
        holds_when(
            more.len() == n.overall.len(),
            !more.is_empty(),
            more.join(", "),
            "not shown under either optimiser after Holm's correction",
        ),
        format!(
            "gain of both less the gains of each; {}. {}",
            family(n),
            n.overall.iter().map(row).collect::<Vec<_>>().join("; ")
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
            "gain in the twin (`clamp_gain`, shared network, final J) and on the transformer. {}",
            list.join("; ")
        ),
    )
}

fn divergence(n: &Numbers) -> Finding {
    let less = n.cells.iter().filter(|c| c.kl.of[CLAMP] < c.kl.of[0]).count();
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
    use crate::experiments::common::findings::words;

    fn numbers(gains: [f64; 4], p_holm: f64, kl: f64, twin: f64) -> Numbers {
        let at = |mid: f64| Interval { low: mid - 0.01, mid, high: mid + 0.01, level: 0.95 };
        let level = |of: [f64; 4]| Level { of };
        let last = |x: f64| level([0.5, 0.5, 0.5, x]);
        let cell = |optimiser: &str| Outcome {
            optimiser: optimiser.into(),
            rate: 1.0,
            ratio: 1.0,
            solved: Default::default(),
            accuracy: level(gains.map(|g| 0.5 + g)),
            gain: gains.map(at),
            p: [p_holm; 4],
            p_holm: [p_holm; 4],
            sampled: last(0.5),
            ungradable: last(0.0),
            entropy: last(1.0),
            kl: last(kl),
            grad_norm: last(1.0),
        };
        let all = [gains[1], gains[2], gains[3], gains[3] - gains[2] - gains[1]];
        let overall = |optimiser: &str| Overall {
            optimiser: optimiser.into(),
            gains: all.map(|mid| Gain { interval: at(mid), p_holm }),
            at_best: at(gains[3]),
        };
        Numbers {
            overall: ["SGD", "AdamW"].map(overall).to_vec(),
            cells: ["SGD", "AdamW"].map(cell).to_vec(),
            seeds: 12,
            start: [0.2; 2],
            twin: ["SGD", "AdamW"].map(|o| (o.to_owned(), 1.0, at(twin))).to_vec(),
        }
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let of = |n: Numbers| words(&findings(&n));
        assert_eq!(of(numbers([0.0, 0.2, 0.05, 0.3], 0.001, 0.3, 0.1)), ["Holds"; 7]);
        assert_eq!(of(numbers([0.0, 0.05, 0.2, -0.2], 0.001, 0.7, 0.1)), ["Fails"; 7]);
        let unclear = of(numbers([0.0, 0.2, 0.05, 0.3], 0.2, 0.3, 0.1));
        assert_eq!(unclear, ["Fails", "Fails", "Holds", "Fails", "Fails", "Holds", "Holds"]);
        let mut doubtful = numbers([0.0, 0.2, 0.05, 0.3], 0.001, 0.3, 0.1);
        doubtful.cells[0].p_holm = [0.2; 4];
        doubtful.overall[0].gains.iter_mut().for_each(|g| g.p_holm = 0.2);
        let half = of(doubtful);
        assert_eq!([half[0], half[1], half[3], half[4]], ["Holds when"; 4]);
    }
}
