//! Memory of a gradient a layer at a time, next to that of one graph. Alone in its process, whose peak it reads.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // a test that cannot read its memory should stop there

use candle_core::{DType, Device, Tensor};
use grpo_lambda_candle::model::Model;
use grpo_lambda_candle::ops;
use grpo_lambda_candle::pass::{self, Batch, Slopes};
use grpo_lambda_decoder::model::config::EMBEDDING;
use grpo_lambda_decoder::model::{Architecture::Qwen2, ForwardOptions, ModelShape, Rows, weights};

/// Resident memory in KiB: `VmRSS:` now, `VmHWM:` at the most.
fn resident(line: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix(line)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// What `work` needs beyond what is there, in MiB.
fn peak(work: impl FnOnce()) -> f64 {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = resident("VmRSS:");
    work();
    (resident("VmHWM:") - before) / 1024.0
}

#[test]
fn a_layer_at_a_time_needs_a_quarter_of_one_graph() {
    let config = Qwen2.config(ModelShape { vocab: 97, hidden: 128, layers: 12, heads: 8, kv_heads: 2 });
    let model = Model::new(&config, &weights::initialise(&config, 1, 0.1), DType::F32, &Device::Cpu).unwrap();
    let mut rows = Rows::new();
    (0..8).for_each(|i| rows.push(&(0..192).map(|t| (i * 31 + t * t * 7) % 97).collect::<Vec<u32>>(), 1));
    let by_layer = || {
        let (scores, tape) = pass::forward(&model, &rows, ForwardOptions::default()).unwrap();
        let slopes: Vec<Vec<f64>> = scores.logps.iter().map(|row| vec![-1.0; row.len()]).collect();
        pass::backward(&model, tape, &slopes, &|_| true, &mut Slopes::new()).unwrap();
    };
    let by_graph = || {
        let (whole, _variables) = model.tracking(|_| true).unwrap();
        let batch = Batch::new(&whole, &rows).unwrap();
        let hidden = batch.hidden(&whole, &batch.stream(&whole).unwrap()).unwrap().unwrap();
        let targets = Tensor::new(batch.targets(), &Device::Cpu).unwrap().unsqueeze(1).unwrap();
        let logps = ops::log_probs(&hidden, whole.get(EMBEDDING).unwrap(), 1.0).unwrap();
        drop(logps.gather(&targets, 1).unwrap().sum_all().unwrap().backward().unwrap());
    };
    // The first of all makes the threads and their buffers; what it needed and gave back is there for the second.
    by_layer();
    let (layers, graph) = (peak(by_layer), peak(by_graph));
    println!("{layers:.0} MiB a layer at a time, {graph:.0} MiB as one graph");
    assert!(4.0 * layers < graph, "{layers:.0} MiB of {graph:.0}");
}
