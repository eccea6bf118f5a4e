//! Properties of kernels that no case of `check` has: of many draws together, and of one result under another input.

use grpo_lambda_decoder::rng::{Address, Purpose, categorical, normal};
use grpo_lambda_gpu::kernels::{LogProb, Sample, SampleState};
use grpo_lambda_gpu::{Array, Dtype, Kernels};

use crate::{long, machine};

/// Normal numbers, others for every `seed`.
fn numbers(seed: u64, len: usize) -> Vec<f32> {
    let mut stream = Address::new(seed, Purpose::Weights).generator(0);
    (0..len).map(|_| normal(&mut stream) as f32).collect()
}

fn kernels() -> Kernels {
    Kernels { device: machine::start(), dtype: Dtype::F32 }
}

fn array<T: grpo_lambda_gpu::ptr::Plain>(k: &Kernels, data: &[T]) -> Array<T> {
    Array::from_slice(&k.device, "a test", data).unwrap()
}

/// The tokens that rows draw from their lines of logits, one after the other, at these uniform numbers.
fn draws(k: &Kernels, logits: &[f32], vocabulary: usize, uniforms: &[f64], most: usize) -> Vec<u32> {
    let rows = logits.len() / vocabulary;
    let zeros = || array(k, &vec![0u32; rows]);
    let [lengths, produced, status, next] = [(); 4].map(|()| zeros());
    let (limits, uniforms) = (array(k, &vec![most as u32; rows]), array(k, uniforms));
    let codes = array(k, &vec![0f64; rows]);
    let tokens = array(k, &vec![0u32; rows * most]);
    let [logps, entropies] = [(); 2].map(|()| array(k, &vec![0f32; rows * most]));
    let (logits, eos) = (array(k, logits), array::<u32>(k, &[]));
    let state = SampleState {
        rows: rows as u32,
        max_new_tokens: most as u32,
        lengths: lengths.ptr_mut(),
        produced: produced.ptr_mut(),
        status: status.ptr_mut(),
        limits: limits.ptr(),
        next: next.ptr_mut(),
        uniforms: uniforms.ptr_mut(),
        codes: codes.ptr_mut(),
        tokens: tokens.ptr_mut(),
        logps: logps.ptr_mut(),
        entropies: entropies.ptr_mut(),
        eos: eos.ptr(),
        eos_len: 0,
    };
    for _ in 0..most {
        k.launch(Sample {
            logits: logits.ptr(),
            source: None,
            vocabulary: vocabulary as u32,
            inverse_temperature: 1.0,
            greedy: false,
            advance: false,
            min_new_tokens: 0,
            top_k: None,
            top_p: None,
            state,
        })
        .unwrap();
    }
    tokens.read().unwrap()
}

/// A case draws in the middle of a token's share; here the edges between shares are hit, too.
#[test]
fn thousands_of_draws_differ_from_the_cpu_only_where_rounding_decides() {
    let k = kernels();
    let (mut all, mut others, most) = (0, 0, 10);
    let sizes =
        long::of([(50usize, 100usize), (1000, 60), (32_003, 5)], [(50, 300), (1000, 250), (32_003, 20)]);
    for (vocabulary, rows) in sizes {
        // Flat ones too: many tokens of nearly one probability, so many edges.
        for spread in [0.3f32, 4.0] {
            let logits: Vec<f32> = numbers(3, rows * vocabulary).iter().map(|x| spread * x).collect();
            let address = |row| Address::new(4, Purpose::Rollout).prompt(vocabulary as u64).response(row);
            let uniforms: Vec<f64> = (0..rows as u64)
                .flat_map(|row| (0..most as u64).map(move |p| address(row).unit(p)))
                .collect();
            let tokens = draws(&k, &logits, vocabulary, &uniforms, most);
            for (row, line) in logits.chunks_exact(vocabulary).enumerate() {
                let top = line.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let total: f64 = line.iter().map(|x| f64::from(x - top).exp()).sum();
                let scores: Vec<f32> =
                    line.iter().map(|x| (f64::from(x - top) - total.ln()) as f32).collect();
                for p in row * most..(row + 1) * most {
                    let (got, u) = (tokens[p] as usize, uniforms[p]);
                    let want = categorical(&scores, 1.0, u).unwrap();
                    all += 1;
                    if got != want {
                        others += 1;
                        // Neighbours whose edge is at u but for the rounding of single log-probabilities.
                        let mass = |j: usize| f64::from(scores[j]).exp();
                        let total: f64 = (0..vocabulary).map(mass).sum();
                        let edge: f64 = (0..got.max(want)).map(mass).sum::<f64>() / total;
                        assert!((edge - u).abs() < 1e-6, "{got}, not {want}, at {u}: the edge is {edge}");
                    }
                }
            }
        }
    }
    println!("{others} of {all} draws differ from the CPU's");
    assert!(others * 1000 <= all, "{others} of {all}");
}

/// A case allows for the rounding of large logits; if they are held exactly, there is none.
#[test]
fn a_common_constant_and_large_logits_change_nothing_but_rounding() {
    let k = kernels();
    let logits: Vec<f32> = numbers(4, 1000).iter().map(|x| (x * 8.0).round() / 2.0).collect();
    let run = |shift: f32| {
        let x: Vec<f32> = logits.iter().map(|x| x + shift).collect();
        let (logits, targets, out) = (array(&k, &x), array(&k, &[17u32]), array(&k, &[0f32; 4]));
        k.launch(LogProb {
            logits: logits.ptr(),
            targets: targets.ptr(),
            out: out.ptr_mut(),
            tokens: 1,
            vocabulary: 1000,
            inverse_temperature: 1.0,
            entropy: true,
        })
        .unwrap();
        out.read().unwrap()
    };
    // Halves are held exactly at these sizes, so nothing is rounded away.
    for shift in [64.0, -4096.0, 1e6] {
        let (a, b) = (run(0.0), run(shift));
        assert_eq!([a[0], a[1], a[3]].map(f32::to_bits), [b[0], b[1], b[3]].map(f32::to_bits));
        assert_eq!(b[2], a[2] + shift);
    }
}
