//! Findings, tables and figures.

use super::Numbers;
use super::corrected::{Corrected, Prefix, VISIBLE};
use crate::experiment::Finding;
use crate::experiments::common::chart::chart;
use crate::experiments::common::claim::{claim, quoted};
use crate::experiments::common::record::{Record, table};
use crate::experiments::common::{EXACT, average, extremes, largest, rounding_error, short};
use crate::figure::{Axis, Figure, Style};
use crate::sentences::SentenceId;
use grpo_lambda_stats::table::Table;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![
        pointwise(n),
        smallest(n),
        corrected(
            "corrected",
            "Three corrections of the lemma hold at γ = 1. L1a: V(s_0) - E[V(S_t);τ>t] ≤ P(τ≤t) and |V(s_0) - \
             E[V(S_t)|τ>t]| ≤ P(τ≤t). L1b: the survival P(τ>t) is a mean of path products. L1c: the stopped \
             values V(S_t∧τ) are a martingale whose variance grows",
            &n.corrected,
        ),
        corrected(
            "discounted",
            "L1a holds for γ < 1 (tested at 0.5, 0.9, 0.99): V(s_0) - γ^t E[V(S_t);τ>t] = E[γ^(τ-1) R;τ≤t] ≤ \
             P(τ≤t)",
            &n.discounted,
        ),
        path_product(n),
        condition(n),
        success_assumption(n),
        values_differ(n),
    ]
}

/// The number of prefixes that violate the printed bound, and the largest excess.
pub(super) fn violations(prefixes: &[Prefix]) -> (usize, f64) {
    let over = prefixes.iter().filter(|p| p.violates()).count();
    (over, largest(prefixes.iter().map(Prefix::excess)))
}

fn all(n: &Numbers) -> impl Iterator<Item = &Prefix> {
    n.families.iter().flat_map(|f| &f.prefixes)
}

fn pointwise(n: &Numbers) -> Finding {
    let s = &n.smallest.worst;
    let finding = quoted(SentenceId::ValueBound).holds_or(
        !all(n).any(Prefix::violates),
        format!(
            "after one choice between A (reward 1) and B (reward 0), V(s_0) - V(s_t) = {} exceeds the bound of \
             {}",
            short(s.gap),
            short(s.bound)
        ),
    );
    finding
        .each(&n.families, |finding, f| {
            let (over, worst) = violations(&f.prefixes);
            let share = over as f64 / f.prefixes.len() as f64;
            finding
                .value(format!("{}: prefixes", f.name), f.prefixes.len())
                .value(format!("{}: share that violates it", f.name), share)
                .value(format!("{}: worst excess", f.name), worst)
        })
        .rows("prefixes", &["family", "t", "prefixes", "violations", "worst_excess"])
}

fn smallest(n: &Numbers) -> Finding {
    let s = &n.smallest;
    claim("smallest", "The smallest counterexample to the lemma has two tokens: one choice, then EOS")
        .holds_or(
            s.worst.violates() && s.prefixes == 3 && s.excess_of_two_prefixes < VISIBLE,
            "it does not, or something smaller does",
        )
        .value("prefixes", s.prefixes)
        .value("responses", s.responses)
        .value("excess", s.worst.excess())
        .value("largest excess with two prefixes", s.excess_of_two_prefixes)
        .note("The task is `lemma_counterexample` of the zoo; two prefixes are searched on a grid of all their numbers.")
}

fn corrected(key: &str, statement: &str, c: &Corrected) -> Finding {
    claim(key, statement)
        .all_within(EXACT, c.worst())
        .value("pairs of an MDP and t", c.checked)
        .value(
            "largest difference of the identities",
            rounding_error(c.identity.max(c.survival).max(c.martingale)),
        )
        .value("largest violation of the inequalities", rounding_error(c.worst()))
}

fn path_product(n: &Numbers) -> Finding {
    let apart = || all(n).map(|p| p.path_minus_survival);
    let (low, high) = apart().fold((0.0f64, 0.0f64), |(l, h), x| (l.min(x), h.max(x)));
    quoted(SentenceId::PathProduct)
        .holds_or(
            low.abs().max(high) < EXACT,
            format!("the printed product minus that probability ranges from {low:.2} to +{high:.2}"),
        )
        .value("prefixes", apart().count())
        .note("The mean of the path product under the EOS-free policy is P(τ>t) exactly.")
}

/// A condition under which the printed inequality holds.
fn condition(n: &Numbers) -> Finding {
    let meeting: Vec<&Prefix> = all(n).filter(|p| p.condition).collect();
    let broken = meeting.iter().filter(|p| p.violates()).count();
    let h = &n.hazards;
    claim("condition", "The printed inequality holds under some condition")
        .holds_when(
            false,
            broken == 0 && h.on_average == 0,
            "the prefix's path product is at most P(τ>t), and its value is at least E[V(S_t)|τ>t]. If the \
             probability of EOS does not depend on the path, the inequality also holds on average over the \
             prefixes without EOS",
            format!("{broken} prefixes meet the condition and break the bound"),
        )
        .value("random prefixes", all(n).count())
        .value("prefixes that meet the condition", meeting.len())
        .value("prefixes that meet the condition and violate the bound", broken)
        .value("path-independent hazard of 0.1: prefixes", h.prefixes)
        .value("path-independent hazard of 0.1: prefixes that violate it", h.pointwise)
        .value("path-independent hazard of 0.1: depths that violate it on average", h.on_average)
        .value("path-dependent hazard: depths", h.uneven_depths)
        .value("path-dependent hazard: depths that violate it on average", h.uneven)
}

fn success_assumption(n: &Numbers) -> Finding {
    // The step E[Σ γ^k r_k] <= P(τ<=t) needs rewards of at most 1 only; the printed reason is that all are 1.
    let s = &n.success;
    claim(
        "success_assumption",
        "Eq. 5 needs its assumption that \"every episode is successful, i.e., every EOS-token yields a reward of \
         1\"",
    )
    .holds_or(
        s.worst > EXACT,
        "the step E[Σ γ^k r_k] ≤ P(τ≤t) holds for all rewards in [0,1]. The error is in Eq. 3, where V(s_t) must \
         be γ^t E[V(S_t);τ>t]",
    )
    .value("MDPs", n.mdps)
    .value("MDPs with every reward 1", s.all_rewarded)
    .value("largest excess of E[Σ γ^k r_k] over P(τ≤t)", rounding_error(s.worst.max(0.0)))
}

/// "returns and values are the same for each timestep t. ... the return for later states have less variance".
fn values_differ(n: &Numbers) -> Finding {
    let v = &n.values;
    let detail = match v.mean_rise < EXACT {
        true => format!(
            "returns are the same, but values are not: |V(s_t) - V(s_0)| reaches {:.2}. The variance of later \
             returns is smaller on average only",
            v.moved
        ),
        false => format!("E[Var(R|S_t)] rises by {}", v.mean_rise),
    };
    quoted(SentenceId::SameReturnsAndValues)
        .holds_or(v.moved < VISIBLE && v.mean_rise < EXACT, detail)
        .value("largest rise of E[Var(R|S_t)] with t", rounding_error(v.mean_rise.max(0.0)))
        .value("prefixes", v.prefixes)
        .value("prefixes with a larger Var(R|s_t) than their parent", v.noisier)
}

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![("prefixes".into(), prefix_rows(n))]
}

fn prefix_rows(n: &Numbers) -> Table {
    let mut rows = Vec::new();
    for family in &n.families {
        let all = &family.prefixes;
        for t in 1..=all.iter().map(|p| p.t).max().unwrap_or(0) {
            let at: Vec<&Prefix> = all.iter().filter(|p| p.t == t).collect();
            let mean_of = |f: fn(&Prefix) -> f64| average(at.iter().map(|p| f(p)));
            rows.push(
                Record::default()
                    .with("family", family.name)
                    .with("t", t)
                    .with("prefixes", at.len())
                    .with("violations", at.iter().filter(|p| p.violates()).count())
                    .with("worst_excess", extremes(at.iter().map(|p| p.excess())).1)
                    .with("mean_gap", mean_of(|p| p.gap))
                    .with("mean_bound", mean_of(|p| p.bound)),
            );
        }
    }
    table(rows)
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let prefixes = &n.families[0].prefixes;
    let (over, worst) = violations(prefixes);
    let figure = Figure::new(format!(
        "Lemma 1 as printed fails: {over} of {} prefixes lie above its bound, by up to {worst:.2}; two tokens suffice",
        prefixes.len()
    ))
    .caption(
        "Exact values, γ = 1. MDPs: two symbols and EOS legal at every prefix, horizon 4, random bits as rewards, \
         standard normal logits.",
    )
    .columns(1);
    let axis = Axis::new("printed bound 1 - Π (1 - π(EOS|s))").range(-0.04, 1.04);
    let figure = chart(prefixes)
        .panels(|_| format!("{} prefixes of {} random MDPs", prefixes.len(), n.mdps))
        .x(axis)
        .y(Axis::new("V(s₀) - V(s)").range(-1.0, 1.0))
        .points(|p| if p.violates() { "above the bound" } else { "within the bound" }, |p| (p.bound, p.gap))
        .each(|panel, _| panel.styled_line("V(s₀) - V(s) = bound", Style::Dashed, [(0.0, 0.0), (1.0, 1.0)]))
        .on(figure.names(["within the bound", "above the bound"]));
    vec![(String::new(), figure)]
}

#[cfg(test)]
mod tests {
    use super::super::OfFamily;
    use super::super::corrected::{Smallest, Success};
    use super::*;
    use crate::experiments::common::words_after;

    /// A lemma without a counterexample among random prefixes.
    fn numbers() -> Numbers {
        let prefix = Prefix { t: 1, gap: 0.1, bound: 0.2, condition: true, path_minus_survival: 0.0 };
        let worst = Prefix { gap: 0.5, bound: 0.0, ..prefix };
        Numbers {
            mdps: 1,
            families: vec![OfFamily { name: "random", prefixes: vec![prefix] }],
            smallest: Smallest { prefixes: 3, responses: 2, worst, excess_of_two_prefixes: 0.0 },
            success: Success { all_rewarded: 1, worst: 0.5 },
            ..Numbers::default()
        }
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let verdicts = |change| words_after(numbers(), findings, change);
        let [h, w, f] = ["Holds", "Holds when", "Fails"];
        assert_eq!(verdicts(|_| {}), [h, h, h, h, h, w, h, h]);
        // A prefix above its bound refutes the lemma, and the condition if it meets that.
        assert_eq!(verdicts(|n| n.families[0].prefixes[0].gap = 0.9), [f, h, h, h, h, f, h, h]);
        let unconditional = |n: &mut Numbers| {
            n.families[0].prefixes[0].gap = 0.9;
            n.families[0].prefixes[0].condition = false;
        };
        assert_eq!(verdicts(unconditional), [f, h, h, h, h, w, h, h]);
        assert_eq!(verdicts(|n| n.smallest.prefixes = 4)[1], f);
        assert_eq!(verdicts(|n| n.smallest.excess_of_two_prefixes = 0.1)[1], f);
        assert_eq!(verdicts(|n| n.corrected.identity = 0.1)[2], f);
        assert_eq!(verdicts(|n| n.discounted.martingale = 0.1)[3], f);
        assert_eq!(verdicts(|n| n.families[0].prefixes[0].path_minus_survival = -0.3)[4], f);
        assert_eq!(verdicts(|n| n.hazards.on_average = 1)[5], f);
        assert_eq!(verdicts(|n| n.success.worst = 0.0)[6], f);
        assert_eq!(verdicts(|n| n.values.moved = 0.5)[7], f);
        assert_eq!(verdicts(|n| n.values.mean_rise = 0.5)[7], f);
    }
}
