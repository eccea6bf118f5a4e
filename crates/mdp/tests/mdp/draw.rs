use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use source::normal;

#[allow(dead_code)]
#[path = "../../src/draw.rs"]
mod source;

#[test]
fn normal_numbers_have_mean_0_and_variance_1() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let n = 100_000;
    let draws: Vec<f64> = (0..n).map(|_| normal(&mut rng)).collect();
    let mean = draws.iter().sum::<f64>() / n as f64;
    let variance = draws.iter().map(|x| x * x).sum::<f64>() / n as f64 - mean * mean;
    assert!(mean.abs() < 0.015 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
}
