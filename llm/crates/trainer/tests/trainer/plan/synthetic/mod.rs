mod evaluation;

use grpo_lambda_decoder::model::Architecture::Qwen2;
use grpo_lambda_decoder::model::ModelConfig as Shape;
use grpo_lambda_decoder::model::ModelShape;
use grpo_lambda_gpu::Dtype;
use grpo_lambda_gpu::dry::Work;
use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::plan::synthetic::{
    ALLOWANCE, StepPrediction, SyntheticStepError, decided, host_check, memory_check, predict,
};
use grpo_lambda_trainer::problems::MaxLengths;

const PROMPT: MaxLengths = MaxLengths { prompt: 7, example: 0 };

fn small() -> Shape {
    Qwen2.config(ModelShape { vocab: 61, hidden: 32, layers: 2, heads: 4, kv_heads: 2 })
}

fn config(more: &[&str]) -> Config {
    let base = ["rl.prompts_per_step=3", "rl.group_size=4", "rl.max_new_tokens=9", "method.name=grpo"];
    Config::resolve("tiny", &base).and_then(|config| config.with(more)).expect("accepted")
}

fn predicted(more: &[&str]) -> StepPrediction {
    predict(&small(), &config(more), Dtype::Bf16, PROMPT).expect("counted")
}

#[test]
fn long_demonstrations_are_counted_where_they_are_imitated() {
    let shape = small();
    let peak = |example: usize, more: &[&str]| {
        let longest = MaxLengths { example, ..PROMPT };
        predict(&shape, &config(more), Dtype::Bf16, longest).expect("counted")
    };
    let few = ["eval.n=1", "sft.batch=2"];
    assert_eq!(peak(0, &few).supervised, None);
    assert_eq!(peak(900, &["sft.steps=0"]).supervised, None);
    let (short, long) = (peak(30, &few), peak(900, &few));
    let supervised_peak = |p: &StepPrediction| p.supervised.as_ref().expect("counted").0;
    assert!(supervised_peak(&short) < short.update.0 && supervised_peak(&long) > long.update.0);
    assert_eq!(long.peak().0, supervised_peak(&long));
    let line = memory_check(&long, 0, &config(&few)).expect_err("refused");
    assert!(line.contains("a supervised step") && line.contains("memory.micro_batch_tokens"), "{line}");
}

#[test]
fn a_reference_is_counted_when_the_method_asks_for_one_and_none_with_an_adapter() {
    let uses = |more: &[&str]| predicted(more).state.get("reference").copied().unwrap_or(0);
    let weights = predicted(&[]).state["weights"];
    assert_eq!(uses(&[]), 0);
    assert_eq!(uses(&["method.beta=0.04"]), weights);
    assert_eq!(uses(&["method.beta=0.04", "lora.rank=2"]), 0);
}

#[test]
fn settings_move_the_memory_they_are_said_to_move() {
    // No evaluation larger than a rollout, and every row in one pass.
    let base = predicted(&["eval.n=1"]);
    assert!(base.update.0 > base.state.values().sum());
    let smaller = predicted(&["eval.n=1", "memory.micro_batch_tokens=16"]);
    assert!(smaller.update.0 < base.update.0 && smaller.sampling.0 == base.sampling.0);
    let again = predicted(&["eval.n=1", "memory.recompute_layers=true"]);
    assert!(again.update.0 < base.update.0 && again.work.total().operations > base.work.total().operations);
    let shorter = predicted(&["eval.n=1", "rl.max_new_tokens=3"]);
    assert!(shorter.sampling.0 < base.sampling.0);
    let evaluated = predicted(&["eval.n=100"]);
    assert!(evaluated.sampling.0 > base.sampling.0 && evaluated.update.0 == base.update.0);
    let adapter = predicted(&["eval.n=1", "lora.rank=2"]);
    assert!(adapter.peak().0 < base.peak().0 / 2);
    assert!(adapter.decode.products > base.decode.products);
    // A server that samples takes keys and values off the card, and leaves the update as it is.
    let served = predicted(&["eval.n=100", "rollout.engine=vllm", "rollout.url=http://127.0.0.1:1"]);
    assert_eq!((served.sampling.0, &served.sampling.1), (served.state.values().sum(), &served.state));
    assert_eq!(served.update, base.update);
    assert_eq!(served.work.forward.operations, base.work.forward.operations);
    assert_eq!((served.work.prefill, served.work.decode), Default::default());
}

/// In bf16 a weight's gradient of 4 bytes comes and its 2 bytes go back; the state of 16 bytes is read and written, the gradient read.
#[test]
fn an_optimiser_on_the_host_takes_its_bytes_from_the_card_and_the_time_of_the_link() {
    let shape = small();
    let weights: usize = shape.parameter_shapes().iter().map(|(_, s)| s.iter().product::<usize>()).sum();
    let (device, host) = (predicted(&["eval.n=1"]), predicted(&["eval.n=1", "memory.optimiser=host"]));
    let bytes = 16 * weights as u64;
    assert_eq!((device.host, host.host), (0, bytes));
    // The card's arrays have a few numbers more, for alignment.
    for (on_card, left) in [(device.update.0, host.update.0), (device.sampling.0, host.sampling.0)] {
        assert!((bytes..bytes + bytes / 20).contains(&(on_card - left)), "{} of {bytes}", on_card - left);
    }
    assert!(["master weights", "moments", "rounding residuals"].iter().all(|u| !host.state.contains_key(u)));
    let (work, c) = (host.work.optimiser, host.ceilings);
    assert_eq!((work.link, device.work.total().link), (6.0 * weights as f64, 0.0));
    let seconds = 6.0 * weights as f64 / c.link + 36.0 * weights as f64 / c.host;
    assert!(work.seconds > seconds && work.seconds < 1.1 * seconds + 1e-4, "{} of {seconds}", work.seconds);
    assert_eq!(
        predicted(&["eval.n=1", "memory.optimiser=host", "adam.compensated=false"]).host,
        bytes / 4 * 3
    );
    assert_eq!(host_check(&host, Some(bytes as f64 / f64::from(1 << 20))), Ok(()));
    let line = host_check(&host, Some(0.01)).expect_err("refused");
    assert!(line.contains("memory.optimiser=host") && line.contains("lora.rank=16"), "{line}");
    let line = memory_check(&device, 0, &config(&["eval.n=1"])).expect_err("refused");
    assert!(line.contains("memory.optimiser=host (0.0 GiB in the machine's memory instead)"), "{line}");
    let line = memory_check(&host, 0, &config(&["eval.n=1", "memory.optimiser=host"])).expect_err("refused");
    assert!(!line.contains("memory.optimiser"), "{line}");
}

/// Per layer: two norms, the heads, attention, SwiGLU and four products; embedding, last norm, head, and the sampler.
#[test]
fn a_step_of_decoding_is_counted_launch_by_launch() {
    let decode = predicted(&[]).decode;
    assert_eq!((decode.launches, decode.products), (2 * 5 + 3, 2 * 4 + 1));
    // Of 12 responses 5 run at a time: three after each other in a slot, of 8 steps each.
    let slots = predicted(&["memory.slots=5"]);
    assert_eq!((slots.decode.launches, slots.decode.products), (decode.launches, decode.products));
    assert!(slots.decode.bytes < decode.bytes && slots.work.decode == slots.decode.times(3 * 8));
}

#[test]
fn a_method_whose_questions_only_the_cpu_answers_is_refused() {
    let shape = small();
    let all = grpo_lambda::methods::REGISTRY.iter().map(|m| format!("method.name={}", m.name));
    let (mut counted, mut refused) = (0, Vec::new());
    for config in all.filter_map(|name| Config::resolve("tiny", &[name.as_str()]).ok()) {
        match predict(&shape, &config, Dtype::F32, PROMPT) {
            Ok(_) => counted += 1,
            Err(SyntheticStepError::ExtraInputs { method, .. }) => refused.push(method),
            Err(other) => panic!("{}: {other}", config.method),
        }
    }
    refused.sort_unstable();
    let of_the_cpu = ["oar_g", "oar_p", "optimal_token_baseline", "ppo", "ridge_rloo", "shear"];
    let of_nothing = ["prime", "systematic_visit"];
    let mut expected = [&of_the_cpu[..], &of_nothing].concat();
    expected.sort_unstable();
    assert_eq!(refused, expected);
    assert!(counted > 3);
    // The log-probabilities of the sampler are there wherever it samples.
    assert!(predicted(&["method.correction=token_truncate"]).update.0 > 0);
    // So are trees.
    let tree = ["method.name=spo_tree", "rl.sampling=tree", "rl.children=2,2", "rl.group_size=4"];
    assert!(predicted(&tree).decode.launches > 0);
}

#[test]
fn completions_take_memory_while_they_are_sampled_and_none_in_an_update() {
    let completed = |slots: usize| {
        let slots = format!("memory.slots={slots}");
        predicted(&["eval.n=1", "method.name=vine_ppo", "rl.completions=2", &slots])
    };
    let (plain, all, few) = (predicted(&["eval.n=1"]), completed(0), completed(2));
    // A completion is decoded after a longer prompt, of which fewer share the pages.
    assert!(all.sampling.0 > plain.sampling.0 && few.sampling.0 < all.sampling.0);
    assert_eq!(all.update.0, plain.update.0);
}

#[test]
fn an_adaptive_entropy_bonus_is_counted_as_one_that_is_on() {
    let adaptive = predicted(&["rl.entropy_target=0.2"]);
    assert_eq!(adaptive, predicted(&["rl.entropy_coef=1"]));
    assert_ne!(adaptive.work, predicted(&[]).work);
}

#[test]
fn what_does_not_fit_is_refused_in_one_line_that_names_what_decides() {
    let fits = |more: &[&str], free| memory_check(&predicted(more), free, &config(more));
    let base = predicted(&["eval.n=1"]);
    let enough = base.peak().0 + ALLOWANCE;
    assert_eq!(fits(&["eval.n=1"], enough), Ok(()));
    let line = fits(&["eval.n=1"], enough - 1).expect_err("refused");
    assert!(line.contains("an update") && line.contains("memory.recompute_layers=true"), "{line}");
    assert!(line.contains("memory.micro_batch_tokens=4096") && line.contains("lora.rank=16"), "{line}");
    let many = ["eval.n=100", "lora.rank=2", "memory.micro_batch_tokens=16"];
    let line = fits(&many, 0).expect_err("refused");
    assert!(
        line.contains("sampling") && line.contains("memory.slots=50") && !line.contains("lora"),
        "{line}"
    );
    assert!(predicted(&[&many[..], &["memory.slots=50"]].concat()).sampling.0 < predicted(&many).sampling.0);
    assert!(!line.contains('\n'));
}

/// Forward passes have the operations that follow from the shape; a launch takes the longer of its bytes and its operations, and a gap.
#[test]
fn the_work_of_a_step_is_that_of_its_shape_and_its_seconds_that_of_its_work() {
    let p = predicted(&["eval.n=1"]);
    let shape = small();
    // Of each of three prompts six tokens are shared by four rows of one more and nine; a token sees those before it and itself.
    let (tokens, scored) = (3.0 * (6.0 + 4.0 * 10.0), 3.0 * 4.0 * 9.0);
    let pairs = 3.0 * (21.0 + 4.0 * (10.0 * 6.0 + 55.0));
    let by_shape = grpo_lambda_trainer::plan::roofline::pass(&shape, tokens, scored, pairs);
    assert_eq!(p.work.forward.operations, by_shape);
    let twice = predicted(&["eval.n=1", "rl.inner_updates=2"]);
    let counts = |work: Work| (work.launches, work.products, work.operations, work.bytes);
    assert_eq!(counts(twice.work.forward), counts(p.work.forward.times(2)));
    assert_eq!(counts(twice.work.prefill), counts(p.work.prefill));
    assert_eq!(p.work.decode, p.decode.times(8));
    assert_eq!(p.work.reference, Default::default());
    let with_reference = predicted(&["eval.n=1", "method.beta=0.04"]).work.reference;
    assert_eq!(with_reference.operations, by_shape);
    for (name, work) in p.work.phases() {
        let of_phase = p.kernels.iter().filter(|((phase, _), _)| *phase == name);
        let by_kernel: f64 = of_phase.map(|(_, seconds)| seconds).sum();
        assert!((by_kernel - work.seconds).abs() < 1e-9 * work.seconds.max(1.0), "{name}: {by_kernel}");
        let (moved, done) = (work.bytes / p.ceilings.bandwidth, work.operations / p.ceilings.operations);
        let gaps = (work.launches + work.products) as f64 * p.ceilings.gap;
        if name == "reference" {
            continue;
        }
        // Decoding is a difference of two sums, so that its last digits are rounding.
        let least = (moved.max(done) + gaps) * (1.0 - 1e-12);
        assert!(work.bytes > 0.0 && work.seconds >= least, "{name}: {work:?}");
    }
}

#[test]
fn layers_are_kept_where_that_is_counted_to_fit_and_only_auto_decides() {
    let shape = small();
    let peak = |recompute: &str| {
        predicted(&["eval.n=1", "sft.steps=0", &format!("memory.recompute_layers={recompute}")]).peak().0
            + ALLOWANCE
    };
    let (kept, again) = (peak("false"), peak("true"));
    assert!(again < kept, "{again} < {kept}");
    let chosen = |value: &str, free: u64| {
        let asked = config(&["eval.n=1", "sft.steps=0", &format!("memory.recompute_layers={value}")]);
        let (chosen, predicted) = decided(&shape, &asked, Dtype::Bf16, PROMPT, free).expect("counted");
        assert_eq!(chosen.to_toml(), asked.to_toml());
        (chosen.memory.recompute_layers, predicted.peak().0 + ALLOWANCE)
    };
    assert_eq!(chosen("auto", kept), (false, kept));
    assert_eq!(chosen("auto", kept - 1), (true, again));
    // What fits neither way takes the less: the refusal names what else there is to change.
    assert_eq!(chosen("auto", 0), (true, again));
    assert_eq!((chosen("true", u64::MAX), chosen("false", 0)), ((true, again), (false, kept)));
}
