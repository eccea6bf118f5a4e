//! Findings.

use super::{BothWays, GROUP, Numbers};
use crate::experiment::Finding;
use crate::experiments::common::{EXACT, finding, holds_or, largest, rounding_error, short};

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![credit(n), fixed_length(n), preferences(n), per_response(n)]
}

fn credit(n: &Numbers) -> Finding {
    let c = &n.oracle_credit;
    let [brief, long] = c.credit;
    finding(
        "Under the trace the choice with the greater Q gets the greater expected credit",
        holds_or(
            (brief > long) == (c.q[0] > c.q[1]),
            format!(
                "short answer Q = {}, T = 2: credit {brief:.2}; long answer Q = {}, T = 50: credit {long:.1}",
                c.q[0], c.q[1]
            ),
        ),
        format!(
            "Fork, V0 = {}, γ = 1, λ = 0.99, ω = E[(r-V0) c_0(T)]: short {brief:.2}, long {long:.1}, true advantages {} and {}",
            short(c.v0),
            short(c.advantage[0]),
            short(c.advantage[1])
        ),
    )
}

fn fixed_length(n: &Numbers) -> Finding {
    let worst = largest(n.fixed_length.iter().map(|f| f.off));
    finding(
        "Fixed length T: the expected update of GRPO-lambda is (G-1)/G Σ_k c_k ∇_(k)J, each depth of ∇J rescaled by its column sum",
        holds_or(worst < EXACT, format!("off by {worst:e}")),
        format!(
            "{} cases (6 MDPs, recent and both, λ = 0.9 and 0.99, G = {GROUP}, no std, no clamp): largest difference {}; same stationary points for a tabular policy, another direction",
            n.fixed_length.len(),
            rounding_error(worst)
        ),
    )
}

fn preferences(n: &Numbers) -> Finding {
    let names = |inverted: fn(&BothWays) -> bool| -> Vec<&str> {
        n.methods.iter().filter(|m| inverted(m)).map(|m| m.name.as_str()).collect()
    };
    let short_better = names(|m| m.short_better.inverts());
    let long_better = names(|m| m.long_better.inverts());
    let neither = names(|m| !m.short_better.inverts() && !m.long_better.inverts());
    let paper = n.methods.iter().find(|m| m.name.starts_with("recent as"));
    let paper = paper.map_or([f64::NAN; 2], |m| m.short_better.credit);
    finding(
        "The actual expected updates keep the order of the two answers (Q = 0.9 and 0.8, T = 2 and 50, equally likely, V0 = 0.25, G = 8)",
        holds_or(
            short_better.len() + long_better.len() == 0,
            format!(
                "{} of {} variants push the worse long answer up more than the better short one, {} the worse short answer",
                short_better.len(),
                n.methods.len(),
                long_better.len()
            ),
        ),
        format!(
            "the paper's setting: credits {} (short, Q = 0.9) and {} (long, Q = 0.8). Inverting towards short: {}. Inverting neither way: {}",
            short(paper[0]),
            short(paper[1]),
            long_better.join("; "),
            neither.join("; ")
        ),
    )
}

fn per_response(n: &Numbers) -> Finding {
    let cosines = || n.per_response.iter().map(|m| m.cosine);
    let list: Vec<String> = n.per_response.iter().map(|m| format!("{} {:.3}", m.mdp, m.cosine)).collect();
    finding(
        "Dividing each response by its own length (1/T_i) leaves a multiple of ∇J",
        holds_or(
            cosines().all(|c| c > 1.0 - 1e-9),
            format!("cosine with ∇J down to {:.3}", cosines().fold(1.0, f64::min)),
        ),
        format!(
            "cosine with ∇J: {}; instead E[g] = (G-1)/G (∇E[r/T] - V0 ∇E[1/T]), off by {}",
            list.join(", "),
            rounding_error(largest(n.per_response.iter().map(|m| m.off)))
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::{FixedLength, OracleCredit, PerResponse, Preference};
    use super::*;
    use crate::experiments::common::words;

    fn numbers(credit: [f64; 2], off: f64, step: [f64; 2], cosine: f64) -> Numbers {
        let preference = |step, q| Preference { credit, step, q };
        Numbers {
            fixed_length: vec![FixedLength {
                mdp: "pivot",
                len: 4,
                style: "recent",
                lambda: 0.9,
                cosine: 0.9,
                off,
            }],
            oracle_credit: OracleCredit { v0: 0.25, q: [0.9, 0.8], advantage: [0.65, 0.55], credit },
            methods: vec![BothWays {
                name: "recent as in the paper".into(),
                short_better: preference(step, [0.9, 0.8]),
                long_better: preference([0.1, 0.2], [0.8, 0.9]),
            }],
            regions: Vec::new(),
            by_lambda: Vec::new(),
            per_response: vec![PerResponse { mdp: "fork".into(), mean_length: 10.0, cosine, off: 0.0 }],
        }
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let verdicts = |n: Numbers| words(&findings(&n));
        assert_eq!(verdicts(numbers([2.0, 1.0], 0.0, [0.2, 0.1], 1.0)), ["Holds"; 4]);
        assert_eq!(verdicts(numbers([1.0, 20.0], 0.1, [0.1, 0.2], 0.97)), ["Fails"; 4]);
    }
}
