//! What the numbers say.

use super::measure::Numbers;
use super::policy_gradients::OnMdp;
use super::rationals::Rationals;
use crate::experiment::Finding;
use crate::experiments::common::findings::{finding, finding_on, holds_or};
use crate::experiments::common::text::short;
use crate::experiments::common::vectors::{EXACT, largest};
use crate::sentences::SentenceId;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![identity(n), any_operator(n), critic_free(n), two_terms(n)]
}

/// The largest of a number over all MDPs.
fn over_mdps(n: &Numbers, of: fn(&OnMdp) -> f64) -> f64 {
    largest(n.on_mdps.iter().map(of))
}

fn identity(n: &Numbers) -> Finding {
    let worst = over_mdps(n, |m| m.worst);
    let Rationals { compared, different } = n.rationals;
    finding_on(
        SentenceId::PolicyGradientIdentity,
        holds_or(
            worst < EXACT && different == 0,
            format!(
                "largest relative difference {}, {different} of {compared} rationals differ",
                short(worst)
            ),
        ),
        format!(
            "{} identities on policy gradients of {} MDPs: largest relative difference {}; {compared} components in exact rationals: {different} differ; random numbers up to T = 8192: {}",
            n.on_mdps.iter().map(|m| m.identities).sum::<usize>(),
            n.mdps,
            short(worst),
            short(largest(n.lengths.iter().map(|l| l.difference)))
        ),
    )
}

fn any_operator(n: &Numbers) -> Finding {
    let worst = n.operators.worst;
    finding(
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
    finding(
        "A_NAE is a \"critic-free TD-error\" (the paper sets δ_t = A_NAE at every token)",
        holds_or(
            (counted - 1.0).abs() > EXACT,
            format!(
                "the TD errors of every critic sum to r - V(s₀) (largest deviation {}); δ_t = r - V(s₀) at every token sums to {} T times that: the return is counted T times",
                short(over_mdps(n, |m| m.telescoped)),
                short(counted)
            ),
        ),
        format!(
            "Σ δ_t / (r - V(s₀)): TD errors 1, A_NAE at every token T ({} at T = 8192)",
            n.lengths.last().map_or(f64::NAN, |l| l.counted_nae)
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

#[cfg(test)]
mod tests {
    use super::super::measure::{Length, Operators};
    use super::super::policy_gradients::Deltas;
    use super::*;
    use crate::experiments::common::findings::words;

    fn numbers(worst: f64, truncated: f64, counted: f64, different: usize, operators: f64) -> Numbers {
        let on_mdp = OnMdp {
            mdp: "chain",
            deltas: Deltas::Nae,
            identities: 5,
            worst,
            truncated,
            telescoped: 0.0,
            counted,
        };
        let length = Length { q: 1.0, len: 8192, difference: 0.0, counted_td: 1.0, counted_nae: 8192.0 };
        Numbers {
            mdps: 1,
            on_mdps: vec![on_mdp],
            rationals: Rationals { compared: 10, different },
            operators: Operators { names: vec!["both"], worst: operators },
            lengths: vec![length],
        }
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let of = |n: Numbers| words(&findings(&n));
        assert_eq!(of(numbers(0.0, 0.5, 1.0, 0, 0.0)), ["Holds", "Holds", "Fails", "Fails"]);
        assert_eq!(of(numbers(0.1, 0.0, 0.0, 0, 0.1)), ["Fails", "Fails", "Holds", "Holds"]);
        assert_eq!(of(numbers(0.0, 0.5, 1.0, 3, 0.0))[0], "Fails", "a single rational refutes the identity");
    }
}
