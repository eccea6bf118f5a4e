use grpo_lambda_decoder::lora::LoraSettings;
use grpo_lambda_decoder::model::Architecture::{Olmo2, Qwen2, Qwen3};
use grpo_lambda_decoder::model::ops::attention::PAGE;
use grpo_lambda_decoder::model::{
    Decoder, Decoding, ForwardOptions, Gradients, ModelConfig, ModelShape, Rows, weights,
};
use grpo_lambda_decoder::optim::AdamW;
use grpo_lambda_trainer::config::Config as RunConfig;
use grpo_lambda_trainer::plan::memory::{StepShape, cache_bytes, decided_for, estimate, tape_bytes, total};
use grpo_lambda_trainer::step::critic::Critic;

const SHAPE: ModelShape = ModelShape { vocab: 67, hidden: 48, layers: 3, heads: 6, kv_heads: 2 };

const STEP: StepShape = StepShape {
    prompts: 2,
    group: 2,
    prompt_tokens: 5,
    new_tokens: 5,
    slots: None,
    micro_batch_tokens: 1,
    reference: true,
    critic: false,
    compensated: true,
    sampled_here: true,
    evaluated: 0,
    stems: None,
};

/// Bytes of a saved optimiser, its count of steps apart.
fn state_bytes(saved: &[u8]) -> usize {
    let file = safetensors::SafeTensors::deserialize(saved).expect("its own");
    file.iter().filter(|(name, _)| *name != "steps").map(|(_, tensor)| tensor.data().len()).sum()
}

fn model(tied: bool) -> Decoder<f32> {
    of_shape(ModelConfig { tie_word_embeddings: tied, ..Qwen2.config(SHAPE) })
}

fn of_shape(config: ModelConfig) -> Decoder<f32> {
    let parameters = weights::initialise(&config, 1, 0.02);
    Decoder::new(config, parameters).expect("it fits")
}

#[test]
fn layers_are_kept_where_the_estimate_leaves_a_quarter_of_the_machine() {
    let shape = Qwen2.config(SHAPE);
    let decided = |value: &str, there: Option<f64>| {
        let value = format!("memory.recompute_layers={value}");
        let config = RunConfig::resolve("tiny", &[value.as_str()]).expect("accepted");
        decided_for(there, &config, &shape, 9).memory.recompute_layers
    };
    let tiny = RunConfig::resolve("tiny", &[] as &[&str]).expect("accepted");
    let peak = estimate(&shape, &StepShape::new(&tiny, 9), None).peak(false) as f64 / f64::from(1 << 20);
    assert_eq!([1.34, 1.33].map(|times| decided("auto", Some(times * peak))), [false, true]);
    assert!(!decided("auto", None));
    assert!(decided("true", None) && !decided("false", Some(0.0)));
}

#[test]
fn a_server_that_samples_takes_the_keys_and_values_off_this_machine() {
    let rollout = |settings: &[&str]| {
        let config = RunConfig::resolve("tiny", settings).expect("accepted");
        total(&estimate(&Qwen2.config(SHAPE), &StepShape::new(&config, 9), None).rollout)
    };
    let remote = ["rollout.engine=vllm", "rollout.url=http://127.0.0.1:1"];
    assert!(rollout(&[]) > 0 && rollout(&remote) == 0);
    // An evaluation answers more prompts at a time than a small step, up to 128 or memory.slots, and each takes keys and values of its own.
    let small = ["rl.prompts_per_step=1", "rl.group_size=2"];
    let sampled = |more: &[&str]| rollout(&[&small[..], more].concat());
    let one = sampled(&["eval.n=1"]) / 2;
    assert_eq!(sampled(&["eval.n=1000"]), 128 * one);
    assert_eq!(sampled(&["eval.n=1000", "memory.slots=9"]), 9 * one);
    assert_eq!(sampled(&["eval.n=7"]), 7 * one);
}

/// One prompt of three pages, and four responses that fill a page each.
#[test]
fn prefixes_that_others_continue_have_keys_and_values_of_their_own() {
    let new = format!("rl.max_new_tokens={PAGE}");
    let cache = |words: &[&str]| {
        let common = ["rl.prompts_per_step=1", "rl.group_size=4", "eval.n=1", &new];
        let config = RunConfig::resolve("tiny", &[&common[..], words].concat()).expect("accepted");
        estimate(&Qwen2.config(SHAPE), &StepShape::new(&config, 3 * PAGE), None).rollout[0].bytes
    };
    let plain = cache(&["method.name=grpo"]);
    let pages = |words: &[&str]| 7 * cache(words) / plain;
    // Each of four completions may continue a prefix of its own: 4 x (3 + 1).
    let vine = ["method.name=vine_ppo", "rl.completions=2"];
    assert_eq!(pages(&vine), 16);
    assert_eq!(pages(&[vine[0], vine[1], "memory.slots=2"]), 8);
    // Two prefixes of a tree with two leaves each: 2 x (3 + 2).
    assert_eq!(pages(&["method.name=spo_tree", "rl.sampling=tree", "rl.children=2,2"]), 10);
    // Two first responses, sampled again at one place each: 2 x (3 + 1).
    let search = ["rl.sampling=entropy_search", "rl.forks=1", "rl.branches=1"];
    assert_eq!(pages(&[&["method.name=tree_rl"], &search[..]].concat()), 8);
}

#[test]
fn the_tape_is_counted_to_the_byte() {
    let mut rows = Rows::new();
    let (mut tokens, mut scored) = (0, 0);
    rows.share(&[7; 35]);
    for (len, from) in [(40, 7), (3, 1), (65, 30)] {
        rows.push(&vec![5; len], from);
        tokens += len;
        scored += len - from;
    }
    let qwen3 = ModelConfig { head_dim: 12, ..Qwen3.config(SHAPE) };
    for model in [model(true), of_shape(qwen3), of_shape(Olmo2.config(SHAPE))] {
        for recompute in [false, true] {
            let options = ForwardOptions { recompute, ..ForwardOptions::default() };
            let (_, tape) = model.forward(&rows, options).expect("fits");
            assert_eq!(tape.bytes(), tape_bytes(model.config(), tokens, 35, scored, recompute));
        }
    }
}

#[test]
fn the_cache_is_counted_to_the_byte() {
    let model = model(false);
    for (prompt_tokens, new_tokens) in [(7, 20), (32, 32), (33, 40), (70, 1)] {
        let step = StepShape { prompts: 3, group: 4, prompt_tokens, new_tokens, ..STEP };
        let mut decoding = Decoding::new(&model);
        // Of other first tokens, since prompts share the full pages that they begin with.
        let prompts = [1, 2, 3].map(|token| vec![token; prompt_tokens]);
        let (first, _) = decoding.prefill(&prompts.each_ref().map(Vec::as_slice)).expect("fits");
        let mut rows = first.clone();
        rows.extend(first.iter().flat_map(|r| [*r; 3]).map(|r| decoding.fork(r)).collect::<Vec<_>>());
        for _ in 0..new_tokens {
            decoding.step(&rows, &[2; 12]).expect("fits");
        }
        assert_eq!(decoding.bytes(), cache_bytes(model.config(), &step), "{prompt_tokens} + {new_tokens}");
    }
}

#[test]
fn gradients_and_optimiser_are_as_large_as_said() {
    for tied in [true, false] {
        let model = model(tied);
        let estimate = estimate(model.config(), &STEP, None);
        let bytes = |name: &str| estimate.state.iter().find(|i| i.name == name).expect(name).bytes;
        let numbers: usize = model.parameters().values().map(|t| t.data.len()).sum();
        assert_eq!(bytes("weights"), 4 * numbers);
        assert_eq!(bytes("optimiser"), AdamW::for_model(&model, Default::default()).bytes());
        let mut gradients = Gradients::<f32>::new(model.config(), |_| true);
        let read: usize = gradients.parameters().values().map(|t| t.data.len()).sum();
        // Of a tied embedding, a row for every token of a step: 2 prompts of 5 tokens with 2 responses of 5 to each.
        let rows = if tied { 2 * (5 + 2 * 5) } else { 0 };
        assert_eq!(bytes("gradients"), 4 * (read + rows * 48));
        assert_eq!(bytes("reference model"), bytes("weights") + bytes("packed weights"));
        // A row is longer than the micro-batch: it is taken alone.
        assert_eq!(estimate.update[0].bytes, tape_bytes(model.config(), 6, 4, 5, false));
    }
}

#[test]
fn a_critic_holds_what_is_said() {
    for tied in [true, false] {
        let model = model(tied);
        let state = |critic: bool| estimate(model.config(), &StepShape { critic, ..STEP }, None).state;
        let with = state(true);
        assert!(with.iter().filter(|i| i.name != "critic").eq(&state(false)));
        let bytes = |name: &str| with.iter().find(|i| i.name == name).expect(name).bytes;
        let critic = Critic::new(model.config(), model.parameters().clone(), Default::default());
        let mut saved = Vec::new();
        critic.expect("it fits").write(&mut saved).expect("memory takes it");
        // The output matrix is the embedding, or nothing trains it.
        let untrained = if tied { 0 } else { 4 * 67 * 48 };
        // What is saved has the weights that lie in the model.
        let optimiser = state_bytes(&saved) - (bytes("weights") - untrained);
        let gradients = bytes("gradients") - untrained;
        assert_eq!(bytes("critic"), bytes("weights") + bytes("packed weights") + gradients + optimiser);
    }
}

#[test]
fn an_adapter_holds_what_its_engine_holds() {
    use grpo_lambda_trainer::step::engine::{CpuEngine, Engine, TrainingSetup};
    let model = model(true);
    let (shape, targets) = (model.config().clone(), vec!["q_proj".to_owned(), "down_proj".to_owned()]);
    let lora = LoraSettings { rank: 4, alpha: 8.0, targets };
    let estimate = estimate(&shape, &STEP, Some(&lora));
    let bytes = |name: &str| estimate.state.iter().find(|i| i.name == name).expect(name).bytes;
    let numbers: usize = model.parameters().values().map(|t| t.data.len()).sum();
    assert_eq!(bytes("weights"), 4 * numbers);
    let setup = TrainingSetup { lora: Some(lora), ..TrainingSetup::new(Default::default()) };
    let mut engine = CpuEngine::new(model, setup).expect("it fits");
    let mut saved = Vec::new();
    engine.write_optimiser(&mut saved).expect("on the CPU");
    let state = state_bytes(&saved);
    assert_eq!(bytes("optimiser"), state);
    let adapted: usize = engine.gradients().parameters().values().map(|t| t.data.len()).sum();
    assert_eq!(
        (bytes("gradients"), bytes("base"), bytes("reference")),
        (4 * adapted, 4 * adapted, 4 * adapted)
    );
    assert!(estimate.state.iter().all(|i| i.name != "reference model"));
}
