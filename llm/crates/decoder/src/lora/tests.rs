use super::*;
use crate::model::{
    Architecture::{self, Olmo2, Qwen2},
    ForwardOptions, ModelShape, Rows,
};

const SHAPE: ModelShape = ModelShape { vocab: 20, hidden: 16, layers: 2, heads: 2, kv_heads: 1 };

fn model() -> Decoder<f32> {
    of_family(Qwen2)
}

fn of_family(family: Architecture) -> Decoder<f32> {
    let config = family.config(SHAPE);
    Decoder::new(config.clone(), weights::initialise(&config, 3, 0.2)).unwrap()
}

fn settings(targets: &[&str]) -> LoraSettings {
    LoraSettings { rank: 3, alpha: 6.0, targets: targets.iter().map(|t| (*t).to_owned()).collect() }
}

fn every() -> LoraSettings {
    settings(&TARGETS.map(|(name, _)| name))
}

fn look<'a>(adapter: &'a Parameters<f32>) -> impl Fn(&str) -> Option<&'a [f32]> + Sync + 'a {
    |name| adapter.get(name).map(|t| t.data.as_slice())
}

/// An adapter with `B` not zero.
fn grown(settings: &LoraSettings, model: &Decoder<f32>) -> Parameters<f32> {
    let mut adapter = settings.initialise(model.config(), 5).unwrap();
    for (i, x) in adapter.values_mut().flat_map(|t| &mut t.data).enumerate() {
        *x += 0.02 * ((i * 37 % 11) as f32 - 5.0);
    }
    adapter
}

fn rows() -> Rows {
    let mut rows = Rows::new();
    rows.push(&[1, 2, 3, 4, 5, 6], 2);
    rows.push(&[7, 8, 9], 1);
    rows
}

fn loss(model: &Decoder<f32>) -> f64 {
    model.score(&rows(), ForwardOptions::default()).unwrap().logps.iter().flatten().sum()
}

#[test]
fn a_fresh_adapter_changes_nothing_and_without_it_the_base_comes_back_to_the_bit() {
    let mut model = model();
    let before = model.parameters().clone();
    let lora = Lora::new(every(), &model).unwrap();
    let fresh = every().initialise(model.config(), 5).unwrap();
    lora.merge(&mut model, &look(&fresh));
    assert!(*model.parameters() == before);
    let adapter = grown(&every(), &model);
    lora.merge(&mut model, &look(&adapter));
    let adapted = model.parameters().clone();
    assert!(adapted != before);
    lora.without(&mut model, |m| assert!(*m.parameters() == before));
    assert!(*model.parameters() == adapted);
}

#[test]
fn the_merged_matrix_is_w_plus_s_b_a() {
    let mut model = model();
    let chosen = settings(&["v_proj", "down_proj"]);
    let lora = Lora::new(chosen.clone(), &model).unwrap();
    let adapter = grown(&chosen, &model);
    let before = model.parameters().clone();
    lora.merge(&mut model, &look(&adapter));
    for (name, tensor) in model.parameters() {
        let module = name.strip_suffix(".weight").unwrap_or(name);
        let chosen = ["v_proj", "down_proj"].iter().any(|t| module.ends_with(t));
        assert_eq!(lora.adapts(name), chosen && name.ends_with(".weight"), "{name}");
        if !lora.adapts(name) {
            assert!(*tensor == before[name], "{name}");
            continue;
        }
        let (a, b) = (&adapter[&a_name(module)].data, &adapter[&b_name(module)].data);
        let (out, inner) = (tensor.shape[0], tensor.shape[1]);
        for i in 0..out {
            for j in 0..inner {
                let product: f64 =
                    (0..3).map(|k| f64::from(b[i * 3 + k]) * f64::from(a[k * inner + j])).sum();
                let expected = f64::from(before[name].data[i * inner + j]) + 2.0 * product;
                assert!((f64::from(tensor.data[i * inner + j]) - expected).abs() < 1e-6, "{name} {i} {j}");
            }
        }
    }
}

#[test]
fn gradients_are_those_of_finite_differences() {
    [Qwen2, Olmo2].into_iter().for_each(|family| check_gradients(of_family(family)));
}

fn check_gradients(mut model: Decoder<f32>) {
    let lora = Lora::new(every(), &model).unwrap();
    let adapter = grown(&every(), &model);
    lora.merge(&mut model, &look(&adapter));
    let (scores, tape) = model.forward(&rows(), ForwardOptions::default()).unwrap();
    let ones: Vec<Vec<f64>> = scores.logps.iter().map(|row| vec![1.0; row.len()]).collect();
    let mut dense = Gradients::new(model.config(), |name| lora.adapts(name));
    model.backward(tape, &ones, &mut dense);
    let gradients = lora.gradients(&mut dense, &look(&adapter));
    assert!(gradients.keys().eq(adapter.keys()));
    for (name, gradient) in &gradients {
        // Along the gradient itself: the slope is its squared norm, and large against what f32 rounds away.
        let square: f64 = gradient.data.iter().map(|g| f64::from(*g).powi(2)).sum();
        let step = 1e-2 / square.sqrt();
        let mut at = |sign: f64| {
            let mut moved = adapter.clone();
            for (x, g) in moved.get_mut(name).unwrap().data.iter_mut().zip(&gradient.data) {
                *x += (sign * step * f64::from(*g)) as f32;
            }
            lora.merge(&mut model, &look(&moved));
            loss(&model)
        };
        let slope = (at(1.0) - at(-1.0)) / (2.0 * step);
        assert!((slope / square - 1.0).abs() < 5e-3, "{name}: {slope} against {square}");
    }
}

#[test]
fn an_adapter_is_read_as_it_was_written() {
    let model = model();
    let adapter = grown(&every(), &model);
    let directory = tempfile::tempdir().unwrap();
    save(directory.path(), &every(), &adapter, "base").unwrap();
    let (read, tensors) = load(directory.path(), model.config()).unwrap();
    let mut sorted = every();
    sorted.targets.sort();
    assert_eq!(read, sorted);
    assert!(tensors == adapter);
}

#[test]
fn what_is_not_plain_lora_or_does_not_fit_is_refused_by_name() {
    let model = model();
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    save(at, &every(), &grown(&every(), &model), "base").unwrap();
    let text = std::fs::read_to_string(at.join(CONFIG_FILE)).unwrap();
    let refused = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        std::fs::write(at.join(CONFIG_FILE), text.replace(from, to)).unwrap();
        load(at, model.config()).unwrap_err().to_string()
    };
    let start = refused("\"init_lora_weights\": true", "\"init_lora_weights\": \"pissa_niter_4\"");
    assert!(start.contains("field `init_lora_weights` is \"pissa_niter_4\""), "{start}");
    assert!(refused("\"use_dora\": false", "\"use_dora\": true").contains("field `use_dora` is true"));
    assert!(refused("\"bias\": \"none\"", "\"bias\": \"all\"").contains("field `bias` is \"all\""));
    let later = refused("\"bias\": \"none\"", "\"bias\": \"none\", \"alora_invocation_tokens\": [3]");
    assert!(later.contains("field `alora_invocation_tokens` is [3]"), "{later}");
    assert!(refused("\"r\": 3", "\"r\": 4").contains("expected shape [4, "));
    let too_high = refused("\"r\": 3", "\"r\": 99");
    assert!(too_high.contains("rank=99 is not in 1..="), "{too_high}");
    assert!(too_high.contains("what model.layers.0."), "{too_high}");
    assert!(refused("\"q_proj\"", "\"q_prox\"").contains("did you mean `q_proj`?"));
    assert!(refused("\"q_proj\",", "").contains("not a tensor of this adapter"));
    std::fs::write(at.join(CONFIG_FILE), &text).unwrap();
    let whole = std::fs::read(at.join(WEIGHTS_FILE)).unwrap();
    std::fs::write(at.join(WEIGHTS_FILE), &whole[..whole.len() - 3]).unwrap();
    assert!(load(at, model.config()).unwrap_err().to_string().contains("damaged"));
}

#[test]
fn every_projection_of_a_layer_is_a_target() {
    let layer = Qwen2.config(SHAPE).layer();
    assert!(layer.projections().map(|p| p.name).eq(TARGETS.map(|(_, place)| place)));
}

#[test]
fn initial_tensors_depend_on_seed_and_name_alone() {
    let config = Qwen2.config(SHAPE);
    let (one, two) = (every().initialise(&config, 1).unwrap(), every().initialise(&config, 2).unwrap());
    assert!(one != two);
    let part = settings(&["q_proj"]).initialise(&config, 1).unwrap();
    assert!(part.iter().all(|(name, tensor)| one[name] == *tensor));
    for (name, tensor) in &one {
        let bound = 1.0 / (tensor.shape[1] as f32).sqrt();
        assert!(tensor.data.iter().all(|x| x.abs() <= if name.ends_with(A) { bound } else { 0.0 }));
    }
}
