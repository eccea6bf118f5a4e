use std::fs;
use std::path::PathBuf;

use half::bf16;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use super::*;
use crate::model::{Architecture::Qwen2, ModelShape};

fn small() -> ModelConfig {
    ModelConfig {
        qkv_bias: true,
        ..Qwen2.config(ModelShape { vocab: 20, hidden: 8, layers: 2, heads: 2, kv_heads: 1 })
    }
}

#[test]
fn saving_and_loading_gives_the_same_bits_single_and_sharded() {
    let config = small();
    let parameters = initialise(&config, 3, 0.02);
    let directory = tempfile::tempdir().unwrap();
    for shard_bytes in [usize::MAX, 700, usize::MAX] {
        save(directory.path(), &config, &parameters, SaveDtype::F32, shard_bytes).unwrap();
        let sharded = directory.path().join("model.safetensors.index.json").exists();
        assert_eq!(sharded, shard_bytes == 700);
        assert_eq!(sharded, !directory.path().join("model.safetensors").exists());
        let read = ModelConfig::load(directory.path()).unwrap();
        assert_eq!(read, config);
        assert!(load(directory.path(), &read).unwrap() == parameters);
        let found = inspect(directory.path(), &read).unwrap();
        assert_eq!((found.files > 1, found.dtypes), (sharded, ["F32".to_string()].into()));
    }
    save(directory.path(), &config, &parameters, SaveDtype::Bf16, usize::MAX).unwrap();
    let rounded = load(directory.path(), &config).unwrap();
    for (name, t) in &parameters {
        let expected: Vec<f32> = t.data.iter().map(|&x| bf16::from_f32(x).to_f32()).collect();
        assert_eq!(rounded[name].data, expected, "{name}");
    }
}

#[test]
fn a_checkpoint_that_does_not_fit_is_refused_by_file_and_tensor() {
    let config = small();
    let parameters = initialise(&config, 3, 0.02);
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let refused = |config: &ModelConfig| {
        let message = load(at, config).expect_err("refused").to_string();
        let by_header = inspect(at, config).expect_err("refused by its header").to_string();
        // Both say the same up to the words for damage.
        let same = |m: &str| m.split(" bytes)").next().map(str::to_owned);
        assert_eq!(same(&by_header), same(&message));
        message
    };
    assert!(refused(&config).contains("model.safetensors"));
    save(at, &config, &parameters, SaveDtype::F32, usize::MAX).unwrap();

    let wide = ModelConfig { intermediate_size: 99, ..config.clone() };
    let message = refused(&wide);
    assert!(
        message.contains("mlp.down_proj") && message.contains("[8, 99]") && message.contains("[8, 24]"),
        "{message}"
    );
    let deep = ModelConfig { num_hidden_layers: 3, ..config.clone() };
    assert!(refused(&deep).contains("layers.2") && refused(&deep).contains("missing"));
    let shallow = ModelConfig { num_hidden_layers: 1, ..config.clone() };
    assert!(refused(&shallow).contains("layers.1") && refused(&shallow).contains("not a parameter"));
    let untied = ModelConfig { tie_word_embeddings: false, ..config.clone() };
    assert!(refused(&untied).contains("lm_head.weight"));

    let path = at.join("model.safetensors");
    let good = fs::read(&path).unwrap();
    for bad in [&good[..good.len() - 5], &good[..100], &good[..4], b"not a tensor file at all"] {
        fs::write(&path, bad).unwrap();
        assert!(refused(&config).contains("model.safetensors: damaged"), "{}", refused(&config));
    }
    let ints = vec![0u8; 8 * 20 * 8];
    let view = TensorView::new(Dtype::I64, vec![20, 8], &ints).unwrap();
    fs::write(&path, safetensors::serialize([(EMBEDDING, view)], None).unwrap()).unwrap();
    assert!(refused(&config).contains("found I64"), "{}", refused(&config));
}

#[test]
fn a_tensor_in_two_files_is_refused() {
    let (config, directory) = (small(), tempfile::tempdir().unwrap());
    let at = directory.path();
    save(at, &config, &initialise(&config, 3, 0.02), SaveDtype::F32, 2000).unwrap();
    let mut files: Vec<PathBuf> = fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "safetensors"));
    files.sort();
    let [one, two] = [&files[0], &files[1]].map(|path| fs::read(path).unwrap());
    let [own, others] = [&two, &one].map(|bytes| SafeTensors::deserialize(bytes).unwrap().tensors());
    let copied = &others[0];
    let both = own.iter().chain([copied]).map(|(name, view)| (name, view));
    fs::write(&files[1], safetensors::serialize(both, None).unwrap()).unwrap();
    let expected = format!("`{}`: another file of the checkpoint holds it, too", copied.0);
    for refused in [load(at, &config).map(drop), inspect(at, &config).map(drop)] {
        let message = refused.expect_err("in two files").to_string();
        assert!(message.contains(&expected), "{message}");
    }
}

#[test]
fn initial_parameters_depend_on_seed_and_name_alone() {
    let config = small();
    let (a, b) = (initialise(&config, 1, 0.02), initialise(&config, 2, 0.02));
    assert!(a == initialise(&config, 1, 0.02) && a != b);
    let deep = initialise(&ModelConfig { num_hidden_layers: 5, ..config.clone() }, 1, 0.02);
    assert!(a.iter().all(|(name, t)| deep[name] == *t));
    let wide = initialise(
        &Qwen2.config(ModelShape { vocab: 2000, hidden: 64, layers: 1, heads: 2, kv_heads: 1 }),
        1,
        0.02,
    );
    let e = &wide[EMBEDDING].data;
    let mean = e.iter().map(|&x| f64::from(x)).sum::<f64>() / e.len() as f64;
    let variance = e.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / e.len() as f64;
    assert!(mean.abs() < 3e-4 && (variance.sqrt() - 0.02).abs() < 2e-4, "{mean} {variance}");
}
