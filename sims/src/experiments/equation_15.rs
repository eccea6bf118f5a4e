//! `equation_15`: the recursion of the eligibility trace is its sum.

use grpo_lambda::table::Table;
use grpo_lambda::trace::{Recent, Trace, dense, scan};
use num_rational::Ratio;

use super::common::{EXACT, finding, holds_or, short, stream, symmetric};
use crate::experiment::{Context, Experiment, Report};
use crate::figure::{Axis, Figure, Panel};

/// The experiment.
pub static EXPERIMENT: Experiment = Experiment {
    id: "equation_15",
    title: "The recursive trace is the sum, and a triangular matrix",
    claim: "\"by defining eligibility trace as the inner sum in that equation: ε_t := Σ_{l=0..t} (γλ)^l ∇_{t-l} and converting to a recursive formula: ε_0 := ∇_0, ε_t := (γλ) ε_{t-1} + ∇_t\"",
    source: "GRPO-lambda (arXiv 2510.00194v1), Appendix A.2, Eq. 13-15",
    run,
};

const QS: [f64; 6] = [0.0, 0.3, 0.9, 0.98, 0.99, 1.0];
const LENGTHS: [usize; 10] = [1, 2, 3, 5, 8, 16, 64, 257, 768, 1024];

type Rational = Ratio<i128>;

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

fn run(context: &Context) -> anyhow::Result<Report> {
    let mut table = Table::new(&["q", "tokens", "largest_difference", "largest_trace", "relative"]);
    let mut by_length = Panel::new("Recursion against T × T matrix")
        .x(Axis::new("tokens T").log())
        .y("largest difference / largest |ε_t|");
    let mut worst = 0.0f64;
    for (i, q) in QS.into_iter().enumerate() {
        let mut rng = stream(context.seed, i as u64);
        let mut points = Vec::new();
        for len in LENGTHS {
            let x: Vec<f64> = (0..len).map(|_| symmetric(&mut rng)).collect();
            let recursive = Recent { q }.apply(&x);
            let matrix = dense(&Recent { q }, len);
            let (mut difference, mut largest) = (0.0f64, 0.0f64);
            for t in 0..len {
                let product: f64 = matrix[t].iter().zip(&x).map(|(m, x)| m * x).sum();
                difference = difference.max((product - recursive[t]).abs());
                largest = largest.max(product.abs());
            }
            let relative = difference / largest;
            table.push(vec![q.into(), len.into(), difference.into(), largest.into(), relative.into()]);
            points.push((len as f64, relative));
            worst = worst.max(difference);
        }
        if q > 0.0 {
            by_length =
                by_length.points(format!("γλ = {q}"), points.clone()).line(format!("γλ = {q}"), points);
        }
    }
    (context.progress)(0.6, "exact rationals");

    let (mut compared, mut different) = (0, 0);
    let mut rng = stream(context.seed, 100);
    for (numerator, denominator, lengths) in [
        (0, 1, 1..=32),
        (1, 2, 1..=32),
        (2, 3, 1..=24),
        (9, 10, 1..=12),
        (98, 100, 1..=8),
        (99, 100, 1..=8),
        (1, 1, 1..=32),
    ] {
        let q = Rational::new(numerator, denominator);
        for len in lengths {
            let x: Vec<Rational> =
                (0..len).map(|_| Rational::new((symmetric(&mut rng) * 64.0) as i128, 64)).collect();
            let mut recursive = x.clone();
            scan::decayed_prefix(q, &mut recursive);
            for t in 0..len {
                compared += 1;
                different += usize::from(recursive[t] != sum_of_powers(q, &x, t));
            }
        }
    }

    let mut response = Panel::new("The trace after one gradient of 1 at token 0").x("token t").y("trace ε_t");
    for q in [0.9, 0.98, 0.99] {
        let mut impulse = vec![0.0; 128];
        impulse[0] = 1.0;
        let recursive = Recent { q }.apply(&impulse);
        let column = |t: usize| Recent { q }.weight(t, 0, 128);
        response = response
            .line(format!("γλ = {q}"), (0..128).map(|t| (t as f64, column(t))))
            .points(format!("γλ = {q}"), (0..128).step_by(8).map(|t| (t as f64, recursive[t])));
    }
    let findings = vec![finding(
        "ε_t = γλ ε_{t-1} + ∇_t is Σ_l (γλ)^l ∇_{t-l}, for every γλ in [0,1] and every T",
        holds_or(
            worst < EXACT && different == 0,
            format!("largest difference {}, {different} of {compared} rationals differ", short(worst)),
        ),
        format!(
            "γλ in {QS:?}, T up to {}: recursion and dense matrix differ by at most {} in f64; {compared} traces in exact rationals: {different} differ",
            LENGTHS[9],
            short(worst)
        ),
    )];
    let figure = Figure::new("Eq. 15's recursion is the triangular matrix of Eq. 13: T multiplications instead of T(T+1)/2")
        .caption("Left: random inputs in (-1, 1), f64 (machine ε = 2.2e-16); γλ = 0, not drawn, has no difference. Right: lines are the first column of the matrix, dots the recursion.")
        .panel(by_length)
        .panel(response);
    Ok(Report { findings, tables: vec![(String::new(), table)], figures: vec![(String::new(), figure)] })
}
