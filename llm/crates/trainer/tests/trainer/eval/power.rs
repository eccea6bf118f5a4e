use grpo_lambda_trainer::eval::power::{limits, of_single};
use grpo_lambda_trainer::eval::score::Tally;

#[test]
fn the_limits_of_the_papers_benchmarks() {
    let tallies = |right: u64, n: u64| -> Vec<Tally> {
        (0..n).map(|i| Tally { right: u64::from(i < right), graded: 1, samples: 1 }).collect()
    };
    let aime = limits(&tallies(5, 30)).expect("problems");
    assert_eq!((aime.n, aime.fewest), (30, Some(6)));
    assert!((aime.spread - 2.0 * (5.0 / 30.0) * (25.0 / 30.0)).abs() < 1e-12);
    let text = aime.sentence("as of two independent models");
    let limit = "no difference under 20.0 points (6 of 30 problems, all won by one side)";
    assert!(text.starts_with(limit), "{text}");
    let math = limits(&tallies(375, 500)).expect("problems");
    // ψ = 0.375: δ ≈ 2.8 √(0.375/500) = 0.077.
    let least = math.least.expect("enough problems");
    assert!((0.07..0.085).contains(&least), "{least}");
    assert_eq!(limits(&tallies(0, 30)).expect("problems").least, None);
    let text = limits(&tallies(2, 4)).expect("problems").sentence("x");
    assert!(text.contains("no difference can be significant (6 are needed)"), "{text}");
    assert_eq!(limits(&[]), None);
}

#[test]
fn few_discordant_problems_bound_no_larger_difference() {
    // All 4 of 4 discordant problems won by one side: 0.8 points, found 21 times in 100. A larger difference has more of them.
    let text = of_single(500, 0.008).sentence("as in these pairs");
    let end = "with 1 % of problems discordant, as in these pairs, none has an 80 % chance of being found; a larger difference makes more of them \
               discordant";
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn several_samples_are_judged_by_the_spread_over_problems() {
    let tallies: Vec<Tally> = (0..100).map(|i| Tally { right: i % 2 * 4, graded: 4, samples: 4 }).collect();
    let limits = limits(&tallies).expect("problems");
    // Var = 1/4, sd of a difference √(1/2), 2.8016 · 0.7071 / 10.
    assert!((limits.least.expect("spread") - 0.198_10).abs() < 1e-4, "{limits:?}");
    assert!(limits.sentence("x").starts_with("100 problems, 4 samples each; one under 19.8 points"));
}
