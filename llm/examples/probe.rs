//! Time and memory of a forward and backward pass, and the speed of decoding, at three sizes: `cargo run --release -p grpo-lambda-llm --example probe`.
//!
//! 32 rows of 128 tokens, vocabulary 512, every token scored; decoding: 4 prompts of 32 tokens with 8 responses of 64 each.
//! Arguments: threads (1), repetitions (5), `checkpoint`.

use grpo_lambda_llm::model::{Config, Decoder, Decoding, Gradients, Options, Rows, weights};
use std::time::Instant;

/// CPU seconds of this process, all threads.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or_default();
    let field =
        |i: usize| after.split_whitespace().nth(i).and_then(|x| x.parse::<f64>().ok()).unwrap_or(f64::NAN);
    (field(11) + field(12)) / 100.0
}

/// Peak resident memory in MiB, since the last reset.
fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmHWM")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|x| x.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1024.0
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument =
        |i: usize, default: usize| std::env::args().nth(i).and_then(|a| a.parse().ok()).unwrap_or(default);
    let (threads, repetitions) = (argument(1, 1), argument(2, 5));
    let checkpoint = std::env::args().any(|a| a == "checkpoint");
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    println!("threads {threads}, 32 rows x 128 tokens, vocabulary 512, checkpoint {checkpoint}");
    for (hidden, layers, heads) in [(128, 4, 4), (256, 6, 8), (512, 8, 8)] {
        let config = Config::qwen2(512, hidden, layers, heads, heads / 2);
        let decoder = Decoder::new(config.clone(), weights::initialise(&config, 1, 0.02))?;
        let count: usize = decoder.parameters().values().map(|t| t.data.len()).sum();
        let mut rows = Rows::new();
        for i in 0..32u32 {
            let tokens: Vec<u32> = (0..128).map(|t| (i * 131 + t * t * 7 + t) % 512).collect();
            rows.push(&tokens, 1);
        }
        let slopes = vec![vec![-1.0 / 4064.0; 127]; 32];
        let mut gradients = Gradients::new(&config, |_| true);
        let options = Options { checkpoint, ..Options::default() };
        // The peak of each size on its own.
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        let (mut forward, mut backward) = (Vec::new(), Vec::new());
        let mut cpu = 0.0;
        for repetition in 0..=repetitions {
            if repetition == 1 {
                cpu = cpu_seconds();
            }
            gradients.clear();
            let start = Instant::now();
            let (_, tape) = decoder.forward(&rows, options)?;
            forward.push(start.elapsed().as_secs_f64());
            let start = Instant::now();
            decoder.backward(tape, &slopes, &mut gradients);
            backward.push(start.elapsed().as_secs_f64());
        }
        let cpu = (cpu_seconds() - cpu) / repetitions as f64;
        let median = |x: &mut Vec<f64>| {
            x.remove(0);
            x.sort_by(f64::total_cmp);
            x[x.len() / 2]
        };
        let (f, b) = (median(&mut forward), median(&mut backward));
        // Twice a multiply-add: three products of every weight with every token, and attention.
        let flops = 6.0 * count as f64 * 4096.0;
        println!(
            "hidden {hidden}, {layers} layers, {:.2} M parameters: forward {f:.3} s, backward {b:.3} s, CPU {cpu:.3} s, \
             {:.0} GFLOP/s, peak {:.0} MiB",
            count as f64 / 1e6,
            flops / (f + b) / 1e9,
            peak_mib()
        );
        let mut best = f64::INFINITY;
        let mut cpu = 0.0;
        for repetition in 0..=repetitions {
            if repetition == 1 {
                cpu = cpu_seconds();
            }
            let start = Instant::now();
            let mut decoding = Decoding::new(&decoder);
            let prompts: Vec<Vec<u32>> =
                (0..4).map(|p| (0..32).map(|t| (p * 37 + t * 11) % 512).collect()).collect();
            let prompts: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
            let (first, _) = decoding.prefill(&prompts)?;
            let rows: Vec<_> = first.iter().flat_map(|&row| [row; 8]).map(|row| decoding.fork(row)).collect();
            for t in 0..64 {
                let tokens: Vec<u32> = (0..32).map(|r| (r * 17 + t * 5) % 512).collect();
                decoding.step(&rows, &tokens)?.log_softmax(1.0);
            }
            best = best.min(start.elapsed().as_secs_f64());
        }
        let cpu = (cpu_seconds() - cpu) / repetitions as f64;
        println!(
            "    decoding 32 x 64 tokens: best {best:.3} s, CPU {cpu:.3} s, {:.0} tokens per CPU second",
            2048.0 / cpu
        );
    }
    Ok(())
}
