//! The decoder against candle: operation by operation, as a whole graph that candle differentiates, and candle's own models.

mod models;
mod ops;

use grpo_lambda_decoder::model::Decoder;
use grpo_lambda_decoder::model::graph::Graph;

use super::{TEMPERATURE, configs, gradients, parameters, rows, slopes};

#[test]
fn the_candle_graph_gives_the_same_numbers() {
    for config in configs() {
        let parameters = parameters(&config);
        let decoder = Decoder::new(config.clone(), parameters.clone()).unwrap();
        let scores = decoder.score(&rows(), TEMPERATURE).unwrap();
        let slopes: Vec<f64> = slopes(&scores.logps).into_iter().flatten().collect();
        let expected = gradients(&decoder, |_| true);
        let graph = Graph::new(config.clone(), &parameters).unwrap();
        let logps = graph.log_probs(&rows(), TEMPERATURE.temperature).unwrap().to_vec1::<f64>().unwrap();
        for (a, b) in logps.iter().zip(scores.logps.iter().flatten()) {
            assert!((a - b).abs() < 1e-12, "{:?}: {a} for {b}", config.architecture);
        }
        let found = graph.gradients::<f64>(&rows(), TEMPERATURE.temperature, &slopes).unwrap();
        for (name, expected) in &expected {
            for (a, b) in found[name].data.iter().zip(&expected.data) {
                assert!((a - b).abs() < 1e-10, "{:?}, {name}: {a} for {b}", config.architecture);
            }
        }
        let logits = graph.logits(&rows()).unwrap().flatten_all().unwrap().to_vec1::<f64>().unwrap();
        let same = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12;
        assert!(logits.iter().zip(&decoder.logits(&rows()).unwrap()).all(same));
    }
}
