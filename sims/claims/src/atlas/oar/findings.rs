use super::measure::{Agreement, LEN, LEVEL, Numbers, REWARDS, Score, ZERO};
use crate::experiment::Finding;
use crate::experiments::common::{extremes, finding, holds_or, holds_when, short};

/// A rank correlation above this is called the same order.
const SAME: f64 = 0.9;
/// The reward that the answer decides.
const BY_ANSWER: usize = 0;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![credit(n), where_the_answer_decides(n), masking(n), gradient(n), pinsker(n)]
}

fn said(a: Agreement) -> String {
    let i = a.correlation_interval;
    format!("{} [{}, {}]", short(a.correlation), short(i.low), short(i.high))
}

/// A score against `|A|` under every reward.
fn by_reward(n: &Numbers, score: Score) -> Vec<(&'static str, Agreement)> {
    REWARDS.iter().enumerate().map(|(r, reward)| (reward.name, n.credit(r, score))).collect()
}

fn credit(n: &Numbers) -> Finding {
    let (masked, gradient) = (by_reward(n, Score::Masked), by_reward(n, Score::Gradient));
    let all = || masked.iter().chain(&gradient).map(|(_, a)| a);
    let positive = |rows: &[(&str, Agreement)]| {
        let names = rows.iter().filter(|(_, a)| a.correlation_interval.low > 0.0);
        let names: Vec<_> = names.map(|(name, _)| format!("\"{name}\"")).collect();
        if names.is_empty() { "no task".to_owned() } else { names.join(", ") }
    };
    let list = |rows: &[(&str, Agreement)]| {
        rows.iter().map(|(name, a)| format!("{name}: {}", said(*a))).collect::<Vec<_>>().join("; ")
    };
    let (low, high) = extremes(all().map(|a| a.correlation));
    finding(
        "A token that OAR scores higher has the larger advantage |A(s_t, a_t)|",
        holds_or(
            all().all(|a| a.correlation_interval.low > SAME),
            format!(
                "rank correlations between {} and {}; above 0 for OAR-P in {}, for OAR-G in {}",
                short(low),
                short(high),
                positive(&masked),
                positive(&gradient)
            ),
        ),
        format!(
            "rank correlation within a response, mean over {} policies with {} % interval. OAR-P: {}. OAR-G: {}",
            n.policies,
            LEVEL * 100.0,
            list(&masked),
            list(&gradient)
        ),
    )
}

fn where_the_answer_decides(n: &Numbers) -> Finding {
    let own = n.credit(BY_ANSWER, Score::Masked);
    let exact = n.credit(BY_ANSWER, Score::Gain);
    finding(
        "Where the answer decides the reward, OAR-P orders tokens by |A| as well as the exact answer KL of the written token does",
        holds_or(
            own.correlation_interval.high >= exact.correlation_interval.low,
            format!("OAR-P {}, the exact KL(P(z|s_{{t+1}}) || P(z|s_t)) {}", said(own), said(exact)),
        ),
        format!(
            "share of responses whose highest scored token has the largest |A| (chance {}): OAR-P {}, OAR-G {}, exact when written {}, exact in hindsight {}",
            short(1.0 / (LEN - 1) as f64),
            short(own.top),
            short(n.credit(BY_ANSWER, Score::Gradient).top),
            short(exact.top),
            short(n.credit(BY_ANSWER, Score::Hindsight).top)
        ),
    )
}

fn masking(n: &Numbers) -> Finding {
    let masked = n.hindsight(Score::Masked);
    finding(
        "Masking a token orders the tokens as the exact counterfactual does that marginalises it given all others",
        holds_or(
            masked.correlation_interval.low > SAME,
            format!(
                "rank correlation {} and not above {SAME}: the embedding of a mask is one more token, not the average over tokens",
                said(masked)
            ),
        ),
        format!("OAR-P {}; position alone {}", said(masked), said(n.hindsight(Score::Position))),
    )
}

fn gradient(n: &Numbers) -> Finding {
    let gradient = n.hindsight(Score::Gradient);
    finding(
        "OAR-G orders the tokens as the exact counterfactual does",
        holds_or(
            gradient.correlation_interval.low > SAME,
            format!("rank correlation {} and not above {SAME}", said(gradient)),
        ),
        format!(
            "8 draws {}, 1 draw {}; with the exact KL of the written token {}",
            said(gradient),
            said(n.hindsight(Score::SingleGradient)),
            said(n.gain(Score::Gradient))
        ),
    )
}

fn pinsker(n: &Numbers) -> Finding {
    let p = n.pinsker;
    let by_answer = p.by_answer <= ZERO;
    finding(
        "|A(s_t, a_t)| <= sqrt(D_t / 2) with D_t = KL(P(z|s_{t+1}) || P(z|s_t)), z the answer (Pinsker)",
        holds_when(
            by_answer && p.elsewhere <= ZERO,
            by_answer,
            "the reward is a function of the answer with values in [0, 1]",
            format!("exceeded by {}", short(p.by_answer)),
        ),
        format!(
            "largest excess of |A| over the bound where the answer decides: {}; in the other tasks: {}",
            if by_answer { "none".to_owned() } else { short(p.by_answer) },
            short(p.elsewhere)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::measure::Pinsker;
    use super::*;
    use crate::experiments::common::words;
    use grpo_lambda_stats::Interval;

    fn agreement(mid: f64) -> Agreement {
        let interval = Interval { low: mid - 0.02, mid, high: mid + 0.02, level: LEVEL };
        Agreement { correlation: mid, correlation_interval: interval, top: mid, top_interval: interval }
    }

    /// Every score agrees with everything to this extent.
    fn numbers(correlation: f64, pinsker: Pinsker) -> Numbers {
        let six = || vec![agreement(correlation); 6];
        Numbers { policies: 2, credit: vec![six(); 4], exact: vec![six(); 2], pinsker }
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let within = Pinsker { by_answer: -0.1, elsewhere: -0.1 };
        let verdicts = |n: &Numbers| words(&findings(n));
        let [h, w, f] = ["Holds", "Holds when", "Fails"];
        let good = numbers(0.97, within);
        assert_eq!(verdicts(&good), [h; 5]);
        assert_eq!(verdicts(&numbers(0.5, within)), [f, h, f, f, h]);
        let mut n = numbers(0.97, within);
        n.credit[BY_ANSWER][Score::Masked as usize] = agreement(0.2);
        assert_eq!(verdicts(&n), [f, f, h, h, h]);
        let elsewhere = Pinsker { elsewhere: 0.3, ..within };
        assert_eq!(verdicts(&numbers(0.97, elsewhere))[4], w);
        assert_eq!(verdicts(&numbers(0.97, Pinsker { by_answer: 0.3, elsewhere: 0.3 }))[4], f);
    }
}
