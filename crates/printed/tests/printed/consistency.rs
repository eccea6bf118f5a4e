use grpo_lambda_printed::Benchmark;
use grpo_lambda_printed::consistency::{rounds_to, truncates_to};

#[test]
fn a_score_is_possible_exactly_when_a_count_rounds_to_it() {
    for benchmark in Benchmark::ALL {
        let n = benchmark.items();
        let mut possible = vec![false; 1001];
        let mut cut = vec![false; 1001];
        for k in 0..=n {
            possible[((2000 * k + n) / (2 * n)) as usize] = true;
            cut[(1000 * k / n) as usize] = true;
            if (2000 * k) % n == 0 && (2000 * k / n) % 2 == 1 {
                possible[(1000 * k / n) as usize] = true;
            }
        }
        for v in 0..=1000 {
            assert_eq!(rounds_to(v, n, 1000), possible[v as usize], "{v}/1000 of {n}");
            assert_eq!(truncates_to(v, n, 1000), cut[v as usize], "{v}/1000 of {n}");
        }
    }
}
