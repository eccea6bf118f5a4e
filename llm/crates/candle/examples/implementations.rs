//! Time and memory of one forward and backward pass, by implementation: what hand-written passes and recomputation are worth.
//!
//! `cargo run --release -p grpo-lambda-candle --example implementations -- graph|layers|own|recompute`
//!
//! 8 layers of width 256, 16 rows of 256 tokens, vocabulary 512, every token scored, one thread. One implementation a process, because the
//! peak of memory is the process's: `own` is the CPU's decoder, `recompute` the decoder without kept activations, `layers` the engine on candle's
//! tensors, which differentiates a layer at a time, and `graph` one candle graph of the same operations.

use candle_core::{DType, Device, Tensor};
use cpu_time::ProcessTime;
use grpo_lambda_candle::model::Model;
use grpo_lambda_candle::ops;
use grpo_lambda_candle::pass::{self, Batch, Slopes};
use grpo_lambda_decoder::model::config::EMBEDDING;
use grpo_lambda_decoder::model::{
    Architecture::Qwen2, Decoder, ForwardOptions, Gradients, ModelShape, Rows, weights,
};

const REPETITIONS: usize = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global()?;
    let name = std::env::args().nth(1).unwrap_or_default();
    let config = Qwen2.config(ModelShape { vocab: 512, hidden: 256, layers: 8, heads: 8, kv_heads: 4 });
    let parameters = weights::initialise(&config, 1, 0.02);
    let mut rows = Rows::new();
    for i in 0..16u32 {
        let tokens: Vec<u32> = (0..256).map(|t| (i * 131 + t * t * 7 + t) % 512).collect();
        rows.push(&tokens, 1);
    }
    let slope = -1.0 / (16.0 * 255.0);
    let mut pass: Box<dyn FnMut() -> Result<f64, Box<dyn std::error::Error>>> = match name.as_str() {
        "own" | "recompute" => {
            let options = ForwardOptions { recompute: name == "recompute", ..ForwardOptions::default() };
            let mut gradients = Gradients::new(&config, |_| true);
            let decoder = Decoder::new(config, parameters)?;
            Box::new(move || {
                gradients.clear();
                let (_, tape) = decoder.forward(&rows, options)?;
                decoder.backward(tape, &vec![vec![slope; 255]; 16], &mut gradients);
                Ok(norm(gradients.parameters().values().flat_map(|t| &t.data)))
            })
        }
        "graph" | "layers" => {
            let model = Model::new(&config, &parameters, DType::F32, &Device::Cpu)?;
            drop(parameters);
            let by_layer = name == "layers";
            Box::new(move || {
                let mut slopes = Slopes::new();
                if by_layer {
                    let (_, tape) = pass::forward(&model, &rows, ForwardOptions::default())?;
                    pass::backward(&model, tape, &vec![vec![slope; 255]; 16], &|_| true, &mut slopes)?;
                } else {
                    slopes = graph(&model, &rows, slope)?;
                }
                let numbers = slopes.values().map(|t| t.flatten_all()?.to_vec1::<f32>());
                let numbers = numbers.collect::<candle_core::Result<Vec<_>>>()?;
                Ok(norm(numbers.iter().flatten()))
            })
        }
        other => {
            return Err(format!("`{other}`: graph, layers, own or recompute").into());
        }
    };
    let first = pass()?;
    let clock = ProcessTime::now();
    for _ in 0..REPETITIONS {
        pass()?;
    }
    let seconds = clock.elapsed().as_secs_f64() / REPETITIONS as f64;
    let peak = peak_rss_mib().unwrap_or(f64::NAN);
    println!("{name:9}  {seconds:.2} CPU s  peak {peak:.0} MiB  gradient norm {first:.8}");
    Ok(())
}

/// The gradient by one graph of everything.
fn graph(model: &Model, rows: &Rows, slope: f64) -> candle_core::Result<Slopes> {
    let (whole, variables) = model.tracking(|_| true)?;
    let batch = Batch::new(&whole, rows)?;
    let Some(hidden) = batch.hidden(&whole, &batch.stream(&whole)?)? else { return Ok(Slopes::new()) };
    let targets = Tensor::new(batch.targets(), &Device::Cpu)?.unsqueeze(1)?;
    let logps = ops::log_probs(&hidden, whole.get(EMBEDDING)?, 1.0)?.gather(&targets, 1)?;
    let mut store = (logps * slope)?.sum_all()?.backward()?;
    Ok(variables.into_iter().filter_map(|(name, v)| Some((name, store.remove(&v)?.detach()))).collect())
}

fn norm<'a>(gradient: impl Iterator<Item = &'a f32>) -> f64 {
    gradient.map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt()
}

/// Peak resident memory of this process, where the system tells.
fn peak_rss_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<f64>().ok()? / 1024.0)
}
