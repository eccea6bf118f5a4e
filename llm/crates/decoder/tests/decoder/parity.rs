//! The decoder against transformers, on checkpoints that transformers wrote.
//!
//! Small recordings lie in `tests/fixtures` (made by `record.py` there); larger ones, when present, in `../shared/fixtures`
//! next to the repository or where `GRPO_LAMBDA_FIXTURES` says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use grpo_lambda_decoder::model::weights;
use grpo_lambda_decoder::model::{Decoder, Decoding, ForwardOptions, Gradients, ModelConfig, Rows};
use safetensors::SafeTensors;

use crate::recorded::{self, sketch};

/// Largest difference of a logit.
const LOGIT: f64 = 1e-4;
/// Largest relative difference of a gradient, in the norm of its parameter.
const GRADIENT: f64 = 1e-4;

const SMALL: [&str; 10] = [
    "qwen2_tied",
    "qwen2_untied_v4",
    "llama3_rope",
    "llama_bias_v4",
    "qwen2_bf16",
    "qwen3_tied",
    "qwen3_untied_v4",
    "qwen3_bias",
    "olmo2_tied",
    "olmo2_untied_v4",
];
/// Recordings with the noise of transformers.
const WITH_NOISE: [&str; 5] =
    ["qwen3_tied", "qwen3_untied_v4", "qwen3_bias", "olmo2_tied", "olmo2_untied_v4"];

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// The larger recordings, as (checkpoint, recording) pairs; says so when there are none.
fn large() -> Vec<(PathBuf, PathBuf)> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let neighbour = [3, 4, 5].map(|up| here.join("../".repeat(up)).join("shared/fixtures"));
    let named = std::env::var_os("GRPO_LAMBDA_FIXTURES").map(PathBuf::from);
    let Some(root) = named.into_iter().chain(neighbour).find(|p| p.join("qwen2_tied/ckpt").exists()) else {
        println!(
            "skipped: no ../shared/fixtures next to the repository, and GRPO_LAMBDA_FIXTURES names none"
        );
        return Vec::new();
    };
    let pair = |name| (root.join(name).join("ckpt"), root.join(name).join("golden/model.safetensors"));
    ["qwen2_tied", "llama_untied"].map(pair).to_vec()
}

/// Every recording: directory of the checkpoint, tensors, and the names under which they were recorded.
fn recordings() -> Vec<(String, Decoder<f32>, Golden)> {
    let small =
        SMALL.map(|name| (fixtures().join(name), fixtures().join(name).join("golden.safetensors.gz")));
    small
        .into_iter()
        .chain(large())
        .map(|(directory, golden)| {
            (directory.display().to_string(), checkpoint(&directory), Golden::read(&golden))
        })
        .collect()
}

pub(crate) fn checkpoint(directory: &Path) -> Decoder<f32> {
    let config = ModelConfig::load(directory).unwrap();
    let parameters = weights::load(directory, &config).unwrap();
    Decoder::new(config, parameters).unwrap()
}

/// The distance of `found` from `expected` relative to the norm of `expected`.
pub(crate) fn relative_distance(found: impl Iterator<Item = f64>, expected: &[f64]) -> f64 {
    let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    norm(&mut found.zip(expected).map(|(a, b)| a - b)) / norm(&mut expected.iter().copied())
}

/// Recorded tensors: shape and numbers.
pub(crate) struct Golden(pub(crate) BTreeMap<String, (Vec<usize>, Vec<f64>)>);

impl Golden {
    pub(crate) fn read(path: &Path) -> Self {
        let bytes = recorded::read(path);
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let number = |dtype, b: &[u8]| match dtype {
            safetensors::Dtype::F32 => f64::from(f32::from_le_bytes(b.try_into().unwrap())),
            safetensors::Dtype::I64 => i64::from_le_bytes(b.try_into().unwrap()) as f64,
            other => panic!("recorded dtype {other:?}"),
        };
        let read = |(name, view): (String, safetensors::tensor::TensorView<'_>)| {
            let size = view.dtype().bitsize() / 8;
            let data = view.data().chunks(size).map(|b| number(view.dtype(), b)).collect();
            (name, (view.shape().to_vec(), data))
        };
        Self(tensors.tensors().into_iter().map(read).collect())
    }

    /// Row `i` of a tensor whose first axis is the batch.
    pub(crate) fn row(&self, name: &str, i: usize) -> &[f64] {
        let (shape, data) = &self.0[name];
        let width = data.len() / shape[0];
        &data[i * width..(i + 1) * width]
    }

    pub(crate) fn batch(&self, name: &str) -> usize {
        self.0[name].0[0]
    }

    /// Row `i` of left-padded ids without its padding, and how long that was.
    fn unpadded(&self, ids: &str, mask: &str, i: usize) -> (Vec<u32>, usize) {
        let padding = self.row(mask, i).iter().filter(|&&m| m == 0.0).count();
        (self.row(ids, i)[padding..].iter().map(|&t| t as u32).collect(), padding)
    }
}

#[test]
fn logits_of_a_left_padded_batch_agree() {
    for (name, decoder, golden) in recordings() {
        let v = decoder.config().vocab_size;
        let mut rows = Rows::new();
        let mut expected = Vec::new();
        for i in 0..golden.batch("input_ids") {
            let (tokens, padding) = golden.unpadded("input_ids", "attention_mask", i);
            rows.push(&tokens, tokens.len());
            expected.extend_from_slice(&golden.row("logits", i)[padding * v..]);
        }
        let found = decoder.logits(&rows).unwrap();
        assert_eq!(found.len(), expected.len());
        let worst = found.iter().zip(&expected).map(|(&a, b)| (f64::from(a) - b).abs()).fold(0.0, f64::max);
        println!("{name}: logits differ by at most {worst:.2e}");
        assert!(worst <= LOGIT, "{name}: {worst:e}");
    }
}

/// The tolerances of this file lie above what f32 and the cut of the batch change in transformers itself, and far below the lead that
/// decides a greedy token.
#[test]
fn tolerances_are_above_the_noise_of_the_reference_and_below_what_decides_a_token() {
    for name in WITH_NOISE {
        let golden = Golden::read(&fixtures().join(name).join("golden.safetensors.gz"));
        let noise = |kind: &str| golden.row(&format!("noise.{kind}"), 0)[0];
        let (logits, single, grad, lead) = (noise("logits"), noise("single"), noise("grad"), noise("greedy"));
        println!("{name}: logits {logits:.1e} and {single:.1e}, gradients {grad:.1e}, lead {lead:.1e}");
        assert!(logits > 0.0 && logits.max(single) < LOGIT / 10.0, "{name}");
        assert!(grad > 0.0 && grad < GRADIENT / 10.0, "{name}");
        assert!(lead > 10.0 * LOGIT, "{name}: a greedy token is decided by {lead:e}");
    }
}

#[test]
fn greedy_generation_agrees_token_for_token() {
    for (name, decoder, golden) in recordings() {
        let rows = golden.batch("input_ids");
        let prompts: Vec<Vec<u32>> =
            (0..rows).map(|i| golden.unpadded("input_ids", "attention_mask", i).0).collect();
        // The larger recordings suppress the two end tokens of the tokenizer, the small ones suppress nothing.
        let suppressed: &[usize] = match (name.contains("shared"), name.contains("qwen2")) {
            (false, _) => &[],
            (true, true) => &[511, 509],
            (true, false) => &[510, 507],
        };
        let mut decoding = Decoding::new(&decoder);
        let prompts: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
        let (ids, mut logits) = decoding.prefill(&prompts).unwrap();
        let mut found = vec![Vec::new(); rows];
        for _ in 0..32 {
            let mut next = Vec::new();
            for i in 0..rows {
                suppressed.iter().for_each(|&t| logits.row_mut(i)[t] = f32::NEG_INFINITY);
                let row = logits.row(i);
                let best = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]).then(b.cmp(&a))).unwrap();
                found[i].push(best as f64);
                next.push(best as u32);
            }
            logits = decoding.step(&ids, &next).unwrap();
        }
        for (i, found) in found.iter().enumerate() {
            assert_eq!(found, golden.row("greedy_ids", i), "{name}, row {i}");
        }
    }
}

#[test]
fn loss_log_probs_and_every_gradient_agree() {
    for (name, decoder, golden) in recordings() {
        let mut rows = Rows::new();
        let mut labelled = 0;
        let batch = golden.batch("ce_labels");
        let small = golden.0.contains_key("ce_ids");
        let (ids, mask) = if small { ("ce_ids", "ce_mask") } else { ("ce_input_ids", "ce_attention_mask") };
        for i in 0..batch {
            let (tokens, _) = golden.unpadded(ids, mask, i);
            let scored = golden.row("ce_labels", i).iter().filter(|&&l| l != -100.0).count();
            rows.push(&tokens, tokens.len() - scored);
            labelled += scored;
        }
        for recompute in [false, true] {
            let (scores, tape) =
                decoder.forward(&rows, ForwardOptions { recompute, ..ForwardOptions::default() }).unwrap();
            if small {
                for (i, logps) in scores.logps.iter().enumerate() {
                    let recorded = golden.row("ce_logps", i);
                    for (a, b) in logps.iter().zip(&recorded[recorded.len() - logps.len()..]) {
                        assert!((a - b).abs() <= LOGIT, "{name}: log-probability {a} for {b}");
                    }
                }
                let loss = -scores.logps.iter().flatten().sum::<f64>() / labelled as f64;
                let recorded = golden.row("ce_loss", 0)[0];
                assert!((loss - recorded).abs() <= 1e-5 * recorded, "{name}: loss {loss} for {recorded}");
            }
            let slopes: Vec<Vec<f64>> =
                scores.logps.iter().map(|l| vec![-1.0 / labelled as f64; l.len()]).collect();
            let mut gradients = Gradients::new(decoder.config(), |_| true);
            decoder.backward(tape, &slopes, &mut gradients);
            let mut worst: f64 = 0.0;
            for (parameter, found) in gradients.parameters().iter() {
                // The large recordings have whole gradients.
                let (_, expected) = &golden.0[&format!("grad.{parameter}")];
                let whole = || found.data.iter().map(|x| f64::from(*x)).collect();
                let found = if small { sketch(&found.data) } else { whole() };
                assert_eq!(found.len(), expected.len(), "{name}: {parameter}");
                let relative = relative_distance(found.into_iter(), expected);
                assert!(relative <= GRADIENT, "{name}: gradient of {parameter} differs by {relative:e}");
                worst = worst.max(relative);
            }
            println!("{name}: gradients differ by at most {worst:.2e} (recompute {recompute})");
            let recorded = golden.0.keys().filter(|k| k.starts_with("grad.")).count();
            assert_eq!(recorded, gradients.parameters().len(), "{name}");
        }
    }
}
