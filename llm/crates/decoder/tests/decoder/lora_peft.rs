//! Adapters against PEFT: its own read by us, ours read by it. `fixtures/record_peft.py` made the recordings.

use std::path::Path;

use grpo_lambda_decoder::lora::{self, Lora, LoraSettings, TARGETS};
use grpo_lambda_decoder::model::weights::Parameters;
use grpo_lambda_decoder::model::{Decoder, ForwardOptions, Gradients, Rows};
use safetensors::SafeTensors;

use crate::parity::{Golden, checkpoint, fixtures, relative_distance};

/// Largest difference of a log-probability.
const LOGP: f64 = 2e-5;
/// Largest relative difference of a gradient, in the norm of its tensor.
const GRADIENT: f64 = 1e-4;
/// PEFT's prefix of the names.
const PREFIX: &str = "base_model.model.";

fn base() -> Decoder<f32> {
    checkpoint(&fixtures().join("qwen2_tied"))
}

fn look<'a>(adapter: &'a Parameters<f32>) -> impl Fn(&str) -> Option<&'a [f32]> + Sync + 'a {
    |name| adapter.get(name).map(|t| t.data.as_slice())
}

/// The adapter that our code saved for PEFT to load: another shape than PEFT's, every number from a formula.
fn ours() -> (LoraSettings, Parameters<f32>) {
    let targets = ["q_proj", "v_proj", "down_proj"].map(str::to_owned).to_vec();
    let settings = LoraSettings { rank: 4, alpha: 12.0, targets };
    let mut adapter = settings.initialise(base().config(), 5).unwrap();
    for (i, x) in adapter.values_mut().flat_map(|t| &mut t.data).enumerate() {
        *x += 0.03 * ((i * 37 % 11) as f32 - 5.0);
    }
    (settings, adapter)
}

fn save_ours(directory: &Path) {
    let (settings, adapter) = ours();
    lora::save(directory, &settings, &adapter, "qwen2_tied").unwrap();
}

#[test]
#[ignore = "writes the adapter that record_peft.py has PEFT load"]
fn write_ours() {
    save_ours(&fixtures().join("peft/ours"));
}

#[test]
fn our_save_is_the_one_that_peft_loaded_byte_for_byte() {
    let directory = tempfile::tempdir().unwrap();
    save_ours(directory.path());
    for file in [lora::CONFIG_FILE, lora::WEIGHTS_FILE] {
        let read = |at: &Path| std::fs::read(at.join(file)).unwrap();
        assert!(read(directory.path()) == read(&fixtures().join("peft/ours")), "{file}");
    }
}

#[test]
fn our_save_names_tensors_and_settings_as_peft_does() {
    let shape = base().config().clone();
    let directory = tempfile::tempdir().unwrap();
    let theirs = fixtures().join("peft/theirs");
    let (settings, adapter) = lora::load(&theirs, &shape).unwrap();
    assert_eq!((settings.rank, settings.alpha, settings.targets.len()), (3, 6.0, TARGETS.len()));
    lora::save(directory.path(), &settings, &adapter, "qwen2_tied").unwrap();
    let tensors = |at: &Path| {
        let bytes = std::fs::read(at.join(lora::WEIGHTS_FILE)).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let all = file.tensors().into_iter();
        all.map(|(name, t)| (name, t.shape().to_vec(), t.data().to_vec())).collect::<Vec<_>>()
    };
    let (mut a, mut b) = (tensors(directory.path()), tensors(&theirs));
    a.sort();
    b.sort();
    assert!(a == b, "the tensors PEFT saved are not those we save of them");
    assert!(a.iter().all(|(name, ..)| name.starts_with(PREFIX)));
    // Every field that we write has the value PEFT wrote; it writes more, whose defaults are those.
    let config = |at: &Path| {
        let text = std::fs::read_to_string(at.join(lora::CONFIG_FILE)).unwrap();
        serde_json::from_str::<serde_json::Map<_, _>>(&text).unwrap()
    };
    let sorted = |mut map: serde_json::Map<String, serde_json::Value>| {
        let mut targets: Vec<String> = serde_json::from_value(map["target_modules"].take()).unwrap();
        targets.sort();
        map["target_modules"] = targets.into();
        map["lora_alpha"] = map["lora_alpha"].as_f64().unwrap().into();
        map
    };
    let (ours, theirs) = (sorted(config(directory.path())), sorted(config(&theirs)));
    for (field, value) in ours {
        assert_eq!(theirs.get(&field), Some(&value), "{field}");
    }
}

/// `load_adapter` of transformers reads names without the prefix as those with it.
#[test]
fn names_without_the_prefix_are_read_unless_others_have_it() {
    let shape = base().config().clone();
    let directory = tempfile::tempdir().unwrap();
    save_ours(directory.path());
    let path = directory.path().join(lora::WEIGHTS_FILE);
    let bytes = std::fs::read(&path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let with_prefix = lora::load(directory.path(), &shape).unwrap();
    let renamed = |bare: &dyn Fn(usize) -> bool| {
        let mut names = file.names();
        names.sort();
        let tensors = names.into_iter().enumerate().map(|(i, name)| {
            let own = if bare(i) { name.strip_prefix(PREFIX).unwrap() } else { name };
            (own.to_owned(), file.tensor(name).unwrap())
        });
        std::fs::write(&path, safetensors::serialize(tensors, None).unwrap()).unwrap();
        lora::load(directory.path(), &shape)
    };
    assert!(renamed(&|_| true).unwrap() == with_prefix);
    let mixed = renamed(&|i| i == 3).unwrap_err().to_string();
    assert!(
        mixed.contains("lacks the prefix `base_model.model.`, which other names of the file have"),
        "{mixed}"
    );
}

#[test]
fn log_probs_and_gradients_of_a_and_b_are_those_of_peft() {
    for (name, base) in
        [("theirs", "qwen2_tied"), ("ours", "qwen2_tied"), ("theirs_qwen3", "qwen3_untied_v4")]
    {
        let golden = Golden::read(&fixtures().join(format!("peft/{name}.safetensors")));
        let mut model = checkpoint(&fixtures().join(base));
        let (settings, adapter) = lora::load(&fixtures().join("peft").join(name), model.config()).unwrap();
        let mut rows = Rows::new();
        let first: Vec<usize> = golden.0["from"].1.iter().map(|x| *x as usize).collect();
        for (i, first) in first.iter().enumerate() {
            rows.push(&golden.row("ids", i).iter().map(|id| *id as u32).collect::<Vec<_>>(), *first);
        }
        let scored = |tensor: &str| -> Vec<Vec<f64>> {
            first.iter().enumerate().map(|(i, first)| golden.row(tensor, i)[first - 1..].to_vec()).collect()
        };
        let worst = |found: &[Vec<f64>], tensor: &str| {
            let pairs = found.iter().flatten().zip(scored(tensor).into_iter().flatten());
            pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
        };
        let lora = Lora::new(settings, &model).unwrap();
        lora.merge(&mut model, &look(&adapter));
        let off = lora.without(&mut model, |m| m.score(&rows, ForwardOptions::default()).unwrap().logps);
        let (scores, tape) = model.forward(&rows, ForwardOptions::default()).unwrap();
        let (on, base) = (worst(&scores.logps, "logps"), worst(&off, "base_logps"));
        println!("{name}: log-probabilities differ by at most {on:.2e}, without the adapter {base:.2e}");
        assert!(on <= LOGP && base <= LOGP, "{name}: {on:e}, {base:e}");
        assert!(worst(&scores.logps, "base_logps") > 0.1, "{name}: an adapter that does little tests little");
        let mut dense = Gradients::new(model.config(), |name| lora.adapts(name));
        model.backward(tape, &scored("weights"), &mut dense);
        let gradients = lora.gradients(&mut dense, &look(&adapter));
        let recorded = golden.0.keys().filter(|k| k.starts_with("grad.")).count();
        assert_eq!(recorded, gradients.len(), "{name}");
        let mut most: f64 = 0.0;
        for (tensor, found) in &gradients {
            let (_, expected) = &golden.0[&format!("grad.{PREFIX}{tensor}")];
            assert_eq!(found.data.len(), expected.len(), "{name}: {tensor}");
            let relative = relative_distance(found.data.iter().map(|x| f64::from(*x)), expected);
            assert!(relative <= GRADIENT, "{name}: gradient of {tensor} differs by {relative:e}");
            most = most.max(relative);
        }
        println!("{name}: {recorded} gradients differ by at most {most:.2e}");
    }
}

#[test]
fn weights_merged_for_good_have_the_bits_of_the_model_in_training() {
    let mut model = base();
    let (settings, adapter) = lora::load(&fixtures().join("peft/theirs"), model.config()).unwrap();
    let mut parameters = model.parameters().clone();
    lora::merge(&settings, &adapter, model.config(), &mut parameters).unwrap();
    Lora::new(settings, &model).unwrap().merge(&mut model, &look(&adapter));
    assert!(parameters == *model.parameters() && parameters != *base().parameters());
}
