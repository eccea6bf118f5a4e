//! Findings, tables and the figure.

use super::{Length, Numbers, OnMdp};
use crate::experiment::Finding;
use crate::experiments::common::record::{Record, table};
use crate::experiments::common::{EXACT, finding_on, holds_or, keyed, largest, rounding_error, short};
use crate::figure::{Axis, Figure, Panel};
use crate::sentences::SentenceId;
use grpo_lambda_stats::table::Table;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![identity(n), any_operator(n), critic_free(n), two_terms(n)]
}

/// The largest value over all MDPs.
fn over_mdps(n: &Numbers, of: fn(&OnMdp) -> f64) -> f64 {
    largest(n.on_mdps.iter().map(of))
}

fn identity(n: &Numbers) -> Finding {
    let worst = over_mdps(n, |m| m.worst);
    finding_on(
        SentenceId::PolicyGradientIdentity,
        holds_or(worst < EXACT, format!("largest relative difference {}", short(worst))),
        format!(
            "{} identities on policy gradients of {} MDPs: largest relative difference {}; random numbers up to T = 8192: {}",
            n.on_mdps.iter().map(|m| m.identities).sum::<usize>(),
            n.mdps,
            short(worst),
            short(largest(n.lengths.iter().map(|l| l.relative_difference)))
        ),
    )
}

fn any_operator(n: &Numbers) -> Finding {
    let worst = n.operators.worst;
    keyed(
        "any_operator",
        "The same identity holds for any linear operator and any numbers, <δ, E∇> = <Eᵀδ, ∇>: it is an exchange of sums and says nothing about critics, values or λ",
        holds_or(worst < EXACT, format!("the two sides differ by {}", short(worst))),
        format!(
            "operators {}, T = 1..64, random numbers in place of TD errors and gradients: the two sides differ by at most {}",
            n.operators.names.join(", "),
            short(worst)
        ),
    )
}

fn critic_free(n: &Numbers) -> Finding {
    let counted = over_mdps(n, |m| m.counted);
    keyed(
        "critic_free",
        "A_NAE is a \"critic-free TD-error\" (the paper sets δ_t = A_NAE at every token)",
        holds_or(
            (counted - 1.0).abs() > EXACT,
            format!(
                "the TD errors of every critic sum to r - V(s₀) (largest deviation {}); δ_t = r - V(s₀) at every token sums to T times that: the return is counted T times",
                short(over_mdps(n, |m| m.telescoped))
            ),
        ),
        format!(
            "Σ δ_t / (r - V(s₀)): TD errors 1, A_NAE at every token T ({} at T = 8192)",
            n.lengths.last().map_or(f64::NAN, |l| l.return_counted_nae)
        ),
    )
}

fn two_terms(n: &Numbers) -> Finding {
    let truncated = over_mdps(n, |m| m.truncated);
    finding_on(
        SentenceId::TwoTermsOfGae,
        holds_or(
            truncated < EXACT,
            format!(
                "with these two terms alone the two sides of the theorem differ by up to {} times the gradient's norm",
                short(truncated)
            ),
        ),
        "the recursion A_t = δ_t + γλ A_{t+1} is what makes the theorem true",
    )
}

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let row = |m: &OnMdp| {
        Record::default()
            .with("mdp", m.mdp)
            .with("delta", m.deltas.name())
            .with("identities", m.identities)
            .with("largest_relative_difference", m.worst)
    };
    let identities = table(n.on_mdps.iter().map(row));
    vec![(String::new(), identities), ("lengths".into(), Table::from_rows(&n.lengths))]
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let points = |part: fn(&Length) -> f64| {
        let undiscounted = n.lengths.iter().filter(|l| l.q == 1.0);
        undiscounted.map(move |l| (l.tokens as f64, part(l)))
    };
    let counted = Panel::new("How often the return r - V(s₀) enters Σ δ_t")
        .x(Axis::new("tokens T").log())
        .y(Axis::new("Σ δ_t / (r - V(s₀))").log())
        .line("TD errors of any critic", points(|l| l.return_counted_td))
        .line("A_NAE at every token", points(|l| l.return_counted_nae));
    let most = largest(n.lengths.iter().map(|l| l.relative_difference));
    let figure = Figure::new("Theorem 1 is exact for any numbers; it does not license δ_t = A_NAE, which counts the return T times")
        .caption(format!(
            "γ = 1, TD errors of a random critic. The theorem itself has no picture: the largest difference of its two sides is {} of Σ|terms| in f64 (random numbers, T up to {}, \
             γλ = 0.9, 0.99 and 1), and 0 in exact rationals.",
            rounding_error(most),
            n.lengths.iter().map(|l| l.tokens).max().unwrap_or(0)
        ))
        .panel_size(700, 340)
        .panel(counted);
    vec![(String::new(), figure)]
}

#[cfg(test)]
mod tests {
    use super::super::{Deltas, Operators};
    use super::*;
    use crate::experiments::common::words;

    fn numbers(worst: f64, truncated: f64, counted: f64, operators: f64) -> Numbers {
        let on_mdp = OnMdp {
            mdp: "chain",
            deltas: Deltas::Nae,
            identities: 5,
            worst,
            truncated,
            telescoped: 0.0,
            counted,
        };
        let length = Length {
            q: 1.0,
            tokens: 8192,
            relative_difference: 0.0,
            return_counted_td: 1.0,
            return_counted_nae: 8192.0,
        };
        Numbers {
            mdps: 1,
            on_mdps: vec![on_mdp],
            operators: Operators { names: vec!["both"], worst: operators },
            lengths: vec![length],
        }
    }

    #[test]
    fn the_return_is_said_to_be_counted_t_times() {
        let said = critic_free(&numbers(0.0, 0.5, 1.0, 0.0)).verdict;
        assert!(said.detail().contains("at every token sums to T times that"), "{said:?}");
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let verdicts = |n: Numbers| words(&findings(&n));
        assert_eq!(verdicts(numbers(0.0, 0.5, 1.0, 0.0)), ["Holds", "Holds", "Fails", "Fails"]);
        assert_eq!(verdicts(numbers(0.1, 0.0, 0.0, 0.1)), ["Fails", "Fails", "Holds", "Holds"]);
    }
}
