//! The findings.

use super::{Effect, Effects, Numbers, PER_RESPONSE, TOKEN_MEAN};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::{
    extremes, finding, holds_or, largest, mean, percent, rounding_error, short,
};

/// Sums of a few hundred terms of size at most 1.
const EXACT: f64 = 1e-14;
/// Relative changes below this are rounding.
pub(super) const ROUNDING: f64 = 1e-12;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![reinforces(n), wrapper(n), reduction(n), with_trace(n), variance(n)]
}

fn reinforces(n: &Numbers) -> Finding {
    let constant = n.readings.iter().filter(|r| r.reading.constant);
    let change = largest(constant.flat_map(|r| &r.by_mdp).map(|e| e.change));
    finding(
        "Adding the bound to the advantage of GRPO, with a constant reduction and no trace, changes the expected update, towards unrewarded actions",
        holds_or(
            change >= EXACT,
            format!(
                "under a constant reduction the bound, which depends on the prefix only, is a baseline: E[update] is unchanged for every action, rewarded or not; a token mean and 1/T change it by up to {} and {}",
                percent(most(n, TOKEN_MEAN)),
                percent(most(n, PER_RESPONSE))
            ),
        ),
        format!(
            "{} MDPs; RLOO, centred and z-scored advantages, constant reduction, no trace: largest change of E[update] {}. Single samples do become optimistic: {:.0} % of the tokens of unrewarded responses get a positive advantage (mean over MDPs; 0 % without the bound), the rewarded ones gain as much",
            n.mdps.len(),
            rounding_error(change),
            100.0 * mean(&n.optimistic)
        ),
    )
}

/// The wrapper by brute force: all pairs of responses.
fn wrapper(n: &Numbers) -> Finding {
    let c = &n.check;
    finding(
        "The expected updates with the bound, by implied credit, equal the enumeration of all groups",
        holds_or(c.worst < 1e-12 && c.effect > 0.0, format!("off by {:e}", c.worst)),
        format!(
            "{} readings, groups of 2 on a random MDP of {} responses: {}",
            n.readings.len(),
            c.responses,
            rounding_error(c.worst)
        ),
    )
}

/// The largest relative change under a reading.
fn most(n: &Numbers, name: &str) -> f64 {
    let own = n.readings.iter().filter(|r| r.reading.name == name);
    largest(own.flat_map(|r| &r.by_mdp).map(|e| e.relative))
}

fn reduction(n: &Numbers) -> Finding {
    let (token, response) = (most(n, TOKEN_MEAN), most(n, PER_RESPONSE));
    let verdict = if token.max(response) < ROUNDING {
        Verdict::Holds
    } else {
        Verdict::HoldsWhen("the weight of a token does not depend on the length of its response; a token mean over the batch and 1/T_i let later lengths in".into())
    };
    finding(
        "Without a trace the bound is neutral under every reduction",
        verdict,
        format!(
            "largest relative change of E[update] (z-score): constant {}, token mean {}, 1/T_i {}",
            rounding_error(most(n, "z-score, constant")),
            short(token),
            short(response)
        ),
    )
}

fn with_trace(n: &Numbers) -> Finding {
    let traces = || n.readings.iter().filter(|r| r.reading.lambda.is_some());
    let effects = |lambda: f64| {
        let own = traces().find(|r| r.reading.lambda == Some(lambda));
        own.map_or(&[][..], |r: &Effects| &r.by_mdp)
    };
    let list = |lambda: f64| {
        let each = |(mdp, e): (&String, &Effect)| format!("{mdp} {:.2}", e.relative);
        n.mdps[..n.zoo].iter().zip(effects(lambda)).map(each).collect::<Vec<_>>().join(", ")
    };
    let random =
        |lambda: f64| mean(&effects(lambda).iter().skip(n.zoo).map(|e| e.relative).collect::<Vec<_>>());
    let (least, _) = extremes(traces().flat_map(|r| &r.by_mdp).map(|e| e.relative));
    finding(
        "With a trace the bound changes the expected update",
        holds_or(least > 1e-6, format!("a relative change of {least:e}")),
        format!(
            "|ΔE[g]|/|E[g]| at q = 0.9: {}, mean of the random MDPs {:.2}; at q = 0.99: {}, {:.2}. At q = 0.9 the change points against ∇J in {} of {} MDPs",
            list(0.9),
            random(0.9),
            list(0.99),
            random(0.99),
            effects(0.9).iter().filter(|e| e.cosine < 0.0).count(),
            n.mdps.len()
        ),
    )
}

fn variance(n: &Numbers) -> Finding {
    let rloo = n.readings.iter().filter(|r| r.reading.name == "RLOO");
    let ratios: Vec<f64> = rloo.flat_map(|r| &r.by_mdp).map(|e| e.variance_ratio).collect();
    let up = ratios.iter().filter(|r| **r > 1.0).count();
    let (low, high) = extremes(ratios.iter().copied());
    finding(
        "\"We can thus potentially reduce the bias from using V(s_0) by including knowledge about ΔV(s_t)\": there is no bias to reduce, only variance, and the bound reduces it",
        holds_or(
            up == 0,
            format!("no bias to reduce; and the bound raises the variance in {up} of {} MDPs", n.mdps.len()),
        ),
        format!(
            "RLOO, tr Cov(g) with over without the bound: {} to {}, mean {}",
            short(low),
            short(high),
            short(mean(&ratios))
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::{Check, Reading, readings};
    use super::*;
    use crate::experiments::common::words_after;

    /// A bound that is a baseline for every reading without a trace.
    fn baseline() -> Numbers {
        let effects = |reading: Reading| {
            let relative = f64::from(reading.lambda.is_some());
            let effect = Effect { change: relative, relative, cosine: 0.1, variance_ratio: 0.5 };
            Effects { reading, by_mdp: vec![effect] }
        };
        Numbers {
            mdps: vec!["full".into()],
            zoo: 1,
            readings: readings().map(effects).into(),
            optimistic: vec![0.5],
            check: Check { responses: 5, worst: 0.0, effect: 1.0 },
        }
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let verdicts = |change| words_after(baseline(), findings, change);
        let [h, w, f] = ["Holds", "Holds when", "Fails"];
        assert_eq!(verdicts(|_| {}), [f, h, h, h, h]);
        assert_eq!(
            verdicts(|n| n.readings[2].by_mdp[0].change = 0.1)[0],
            h,
            "the surmise is right about z-scores"
        );
        let mut per_response = baseline();
        per_response.readings[4].by_mdp[0].relative = 0.211;
        assert!(reinforces(&per_response).verdict.detail().ends_with("up to 0 % and 21.1 %"));
        assert_eq!(verdicts(|n| n.check.worst = 0.1)[1], f);
        assert_eq!(verdicts(|n| n.check.effect = 0.0)[1], f, "nothing was checked");
        assert_eq!(verdicts(|n| n.readings[4].by_mdp[0].relative = 0.1)[2], w);
        assert_eq!(verdicts(|n| n.readings[5].by_mdp[0].relative = 0.0)[3], f);
        assert_eq!(verdicts(|n| n.readings[0].by_mdp[0].variance_ratio = 1.5)[4], f);
    }
}
