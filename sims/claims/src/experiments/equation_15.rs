//! `equation_15`: the recursion of the eligibility trace is its sum.

use crate::experiment::{Context, Experiment, Finding, Parts};
use crate::experiments::common::claim::quoted;
use crate::experiments::common::{
    EXACT, dot, gap, indexed, largest, noise, rounding_error, stream, symmetric,
};
use crate::figure::{Axis, Figure, Panel, Style};
use crate::sentences::SentenceId;
use grpo_lambda::trace::{Recent, Trace, dense, scan};
use grpo_lambda_stats::table::Table;
use num_rational::Ratio;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use std::ops::RangeInclusive;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "equation_15",
    title: "Does the recursive trace equal the sum?",
    claim: "\"by defining eligibility trace as the inner sum in that equation: ε_t := Σ_{l=0..t} (γλ)^l ∇_{t-l} and \
        converting to a recursive formula: ε_0 := ∇_0, ε_t := (γλ) ε_{t-1} + ∇_t\"",
    source: "GRPO-λ, Appendix A.2, Eq. 13-15",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

const QS: [f64; 6] = [0.0, 0.3, 0.9, 0.98, 0.99, 1.0];
const LENGTHS: [usize; 10] = [1, 2, 3, 5, 8, 16, 64, 257, 768, 1024];
/// `γλ` as a fraction, and the lengths at which its powers fit into 128 bits.
const FRACTIONS: [(i128, i128, RangeInclusive<usize>); 7] = [
    (0, 1, 1..=32),
    (1, 2, 1..=32),
    (2, 3, 1..=24),
    (9, 10, 1..=12),
    (98, 100, 1..=8),
    (99, 100, 1..=8),
    (1, 1, 1..=32),
];
/// Tokens of the response in the figure.
const SHOWN: usize = 128;

type Rational = Ratio<i128>;

struct Numbers {
    /// Recursion against dense matrix in f64.
    cases: Vec<Case>,
    rationals: Rationals,
    impulses: Vec<Impulse>,
}

/// Recursion against dense matrix, at one `γλ` and length.
#[derive(Default, Serialize)]
struct Case {
    q: f64,
    tokens: usize,
    largest_difference: f64,
    largest_trace: f64,
    relative: f64,
}

/// The numbers of traces compared in exact rationals and of those that differ.
#[derive(Default)]
struct Rationals {
    compared: usize,
    different: usize,
}

/// The trace after one gradient of 1 at token 0.
struct Impulse {
    q: f64,
    /// The first column of the matrix.
    column: Vec<f64>,
    recursion: Vec<f64>,
}

fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let mut cases = Vec::new();
    for (i, q) in QS.into_iter().enumerate() {
        let mut rng = stream(context.seed, i as u64);
        cases.extend(LENGTHS.map(|len| against_matrix(q, len, &mut rng)));
    }
    (context.progress)(0.6, "exact rationals");
    let rationals = in_rationals(&mut stream(context.seed, 100));
    Ok(Numbers { cases, rationals, impulses: [0.9, 0.98, 0.99].map(impulse).into() })
}

fn against_matrix(q: f64, len: usize, rng: &mut ChaCha8Rng) -> Case {
    let x = noise(rng, len);
    let recursive = Recent { q }.apply(&x);
    let matrix = dense(&Recent { q }, len);
    let product: Vec<f64> = matrix.iter().map(|row| dot(row, &x)).collect();
    let largest_difference = gap(&product, &recursive);
    let largest_trace = largest(product.iter().map(|p| p.abs()));
    Case { q, tokens: len, largest_difference, largest_trace, relative: largest_difference / largest_trace }
}

/// Eq. 13 term by term in exact rationals: `(γλ)^l` by repeated multiplication.
fn sum_of_powers(q: Rational, x: &[Rational], t: usize) -> Rational {
    let mut power = Rational::from_integer(1);
    let mut sum = Rational::from_integer(0);
    for l in 0..=t {
        sum += power * x[t - l];
        power *= q;
    }
    sum
}

fn in_rationals(rng: &mut ChaCha8Rng) -> Rationals {
    let mut found = Rationals::default();
    for (numerator, denominator, lengths) in FRACTIONS {
        let q = Rational::new(numerator, denominator);
        for len in lengths {
            let x: Vec<Rational> =
                (0..len).map(|_| Rational::new((symmetric(rng) * 64.0) as i128, 64)).collect();
            let mut recursive = x.clone();
            scan::decayed_prefix(q, &mut recursive);
            found.compared += len;
            found.different += (0..len).filter(|&t| recursive[t] != sum_of_powers(q, &x, t)).count();
        }
    }
    found
}

fn impulse(q: f64) -> Impulse {
    let mut gradient = vec![0.0; SHOWN];
    gradient[0] = 1.0;
    let column = (0..SHOWN).map(|t| Recent { q }.weight(t, 0, SHOWN)).collect();
    Impulse { q, column, recursion: Recent { q }.apply(&gradient) }
}

fn findings(numbers: &Numbers) -> Vec<Finding> {
    let worst = largest(numbers.cases.iter().map(|c| c.largest_difference));
    let Rationals { compared, different } = numbers.rationals;
    vec![
        quoted(SentenceId::RecursiveTrace)
            .holds_or(worst < EXACT && different == 0, "a trace differs from the sum")
            .value("γλ", QS)
            .value("T up to", LENGTHS[9])
            .value("largest difference of recursion and dense matrix", rounding_error(worst))
            .value("traces in exact rationals", compared)
            .value("of them different", different),
    ]
}

fn tables(numbers: &Numbers) -> Vec<(String, Table)> {
    vec![(String::new(), Table::from_rows(&numbers.cases))]
}

fn figures(numbers: &Numbers) -> Vec<(String, Figure)> {
    let work = |count: fn(f64) -> f64| (0..=10).map(move |k| 2f64.powi(k)).map(move |t| (t, count(t)));
    let multiplications = Panel::new("Multiplications for a response")
        .x(Axis::new("tokens T").log())
        .y(Axis::new("multiplications").log())
        .styled_line("matrix: T(T+1)/2", Style::Dashed, work(|t| t * (t + 1.0) / 2.0))
        .styled_line("recursion: T", Style::Dotted, work(|t| t));
    let mut response = Panel::new("The trace after one gradient of 1 at token 0").x("token t").y("trace ε_t");
    for Impulse { q, column, recursion } in &numbers.impulses {
        response = response
            .line(format!("γλ = {q}"), indexed(column))
            .points(format!("γλ = {q}"), indexed(recursion).step_by(8));
    }
    let figure = Figure::new("Eq. 15's recursion is the triangular matrix of Eq. \
        13: T multiplications instead of T(T+1)/2")
        .caption(format!(
            "Left: lines are the first column of the matrix, dots the recursion. On random inputs of up to {} tokens \
             their largest difference is {} of the largest ε_t, in f64.",
            numbers.cases.iter().map(|c| c.tokens).max().unwrap_or(0),
            rounding_error(largest(numbers.cases.iter().map(|c| c.relative)))
        ))
        .panel(response)
        .panel(multiplications);
    vec![(String::new(), figure)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::common::words;

    #[test]
    fn one_difference_refutes_the_recursion() {
        let case = |largest_difference| Case { largest_difference, ..Case::default() };
        let numbers = |difference, different| Numbers {
            cases: vec![case(difference)],
            rationals: Rationals { compared: 36, different },
            impulses: Vec::new(),
        };
        assert_eq!(words(&findings(&numbers(1e-15, 0))), ["Holds"]);
        assert_eq!(words(&findings(&numbers(1e-3, 0))), ["Fails"]);
        assert_eq!(words(&findings(&numbers(1e-15, 1))), ["Fails"]);
    }
}
