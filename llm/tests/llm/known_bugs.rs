//! Bugs that trainers of this field have shipped, on our path from the sampler to the optimiser; `known_bugs.tsv` in the folder
//! above says which test is about which.

use grpo_lambda::group::Group;
use grpo_lambda::learner::Policy;
use grpo_lambda::methods;
use grpo_lambda_decoder::generate::SamplingParams;
use grpo_lambda_decoder::model::{self, Decoder, ForwardOptions, Rows, weights};
use grpo_lambda_grade::{Extraction, Gold};
use grpo_lambda_trainer::config::Config as RunConfig;
use grpo_lambda_trainer::eval;
use grpo_lambda_trainer::input::stops::Stops;
use grpo_lambda_trainer::input::task::{Split, Task};
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use grpo_lambda_trainer::step::engine::{CpuEngine, TrainingSetup};
use grpo_lambda_trainer::step::{
    LlmPolicy, PolicyError, Rollout, StepContext, StepSettings, TextReward, TrainingPrompt,
};

use crate::common::{rows, shape, train, words};

pub(super) fn decoder(shape: &model::ModelConfig) -> Decoder<f32> {
    Decoder::new(shape.clone(), weights::initialise(shape, 3, 0.3)).unwrap()
}

pub(super) fn run(settings: &[&str]) -> RunConfig {
    RunConfig::resolve("tiny", &[settings, &["rl.max_new_tokens=24"]].concat()).unwrap()
}

pub(super) fn engine(model: Decoder<f32>, config: &RunConfig) -> CpuEngine {
    CpuEngine::new(model, TrainingSetup::new(config.rl_optimiser())).unwrap()
}

/// Does `work` with the context of a configuration.
pub(super) fn with_context<T>(config: &RunConfig, work: impl FnOnce(StepContext<'_>) -> T) -> T {
    let tokens = ModelTokenizer::tiny();
    let settings = StepSettings::new(config, tokens.eos());
    let rewards = TextReward::new(&tokens, &config.reward, Extraction::Boxed, config.seed);
    work(StepContext::new(&settings, config.configured().method.as_ref(), &rewards))
}

/// What the test's model samples with this configuration at this step.
fn drawn(config: &RunConfig, prompts: &[TrainingPrompt], group_size: usize, step: u64) -> Rollout {
    let mut engine = engine(decoder(&shape()), config);
    with_context(config, |context| context.sample(&mut engine, prompts.to_vec(), group_size, step).unwrap())
}

/// Prompts of different lengths.
pub(super) fn training_prompts() -> Vec<TrainingPrompt> {
    let texts = ["3 + 4", "Tom has 3 apples.", "12"];
    let gold: Vec<Gold> = (0..3).map(|i| Task::Addition.problem(0, Split::Train, i).gold).collect();
    let one = |(number, (text, gold)): (usize, (&&str, Gold))| {
        let prompt = ModelTokenizer::tiny().prompt(text).unwrap().ids().to_vec();
        TrainingPrompt::new(prompt, gold, number as u64)
    };
    texts.iter().zip(gold).enumerate().map(one).collect()
}

/// A rollout with rewards that differ within every group.
pub(super) fn sampled(engine: &mut CpuEngine, config: &RunConfig, prompts: &[TrainingPrompt]) -> Rollout {
    let mut rollout = with_context(config, |context| context.sample(engine, prompts.to_vec(), 4, 0).unwrap());
    for group in &mut rollout.groups {
        for (i, response) in group.responses.iter_mut().enumerate() {
            response.reward = Some(f64::from(i % 2 == 0));
        }
    }
    rollout
}

fn old(batch: &[Group]) -> Vec<Vec<f64>> {
    batch.iter().flat_map(|g| &g.responses).map(|r| r.old_logps.clone()).collect()
}

/// The trainer's log-probabilities.
fn trained(
    engine: &mut CpuEngine,
    config: &RunConfig,
    rollout: &Rollout,
) -> Result<Vec<Vec<f64>>, PolicyError> {
    let all = rollout.groups.iter().map(|g| g.responses.len()).sum();
    with_context(config, |context| {
        let policy = LlmPolicy::new(engine, context, rollout, 0.0);
        policy.log_probs(&rollout.prompts, &rollout.groups, 0..all).map(|(logps, _)| logps)
    })
}

#[test]
fn sampler_and_trainer_give_a_token_the_same_bits_at_every_temperature() {
    let prompts = training_prompts();
    for temperature in ["0.3", "0.6", "1", "1.5"] {
        let config = run(&["seed=1", &format!("rl.temperature={temperature}")]);
        let mut engine = engine(decoder(&shape()), &config);
        let rollout = sampled(&mut engine, &config, &prompts);
        assert_eq!(
            trained(&mut engine, &config, &rollout).unwrap(),
            old(&rollout.groups),
            "at {temperature}"
        );
        // A trainer that forgot the temperature would be far off.
        let response = &rollout.groups[0].responses[0];
        let mut rows = Rows::new();
        let prompt = &prompts[0].tokens;
        rows.push(&[&prompt[..], &response.tokens].concat(), prompt.len());
        let plain = engine.model.score(&rows, ForwardOptions::default()).unwrap();
        let differences = plain.logps[0].iter().zip(&response.old_logps).map(|(a, b)| (a - b).abs());
        let largest = differences.fold(0.0, f64::max);
        let is_right = if temperature == "1" { largest == 0.0 } else { largest > 0.1 };
        assert!(is_right, "{largest} at {temperature}");
    }
}

#[test]
fn a_trainer_with_other_weights_or_prompts_than_the_sampler_is_stopped() {
    let prompts = training_prompts();
    let config = run(&["seed=1"]);
    let mut engine = engine(decoder(&shape()), &config);
    let rollout = sampled(&mut engine, &config, &prompts);
    let mut swapped = rollout.clone();
    swapped.prompts.swap(0, 1);
    let mismatch = |result: Result<_, PolicyError>| match result {
        Err(PolicyError::Mismatch { response, token, .. }) => (response, token),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("not noticed"),
    };
    assert_eq!(mismatch(trained(&mut engine, &config, &swapped)), (0, 0));
    let mut forged = rollout.clone();
    forged.groups[1].responses[2].tokens[3] ^= 1;
    assert_eq!(mismatch(trained(&mut engine, &config, &forged)), (6, 3));
    // Weights that moved without the sampler: an adapter not delivered, a resumed model not broadcast.
    engine.model.update(|p| p.get_mut("model.norm.weight").unwrap().data[0] *= 1.001);
    mismatch(trained(&mut engine, &config, &rollout));
}

#[test]
fn every_sampled_token_is_trained_on_the_end_token_included_and_no_other() {
    let prompts = training_prompts();
    let eos = ModelTokenizer::tiny().eos()[0];
    let (mut ends, mut cuts) = (0, 0);
    let long = RunConfig::resolve("tiny", &["seed=2", "rl.max_new_tokens=90"]).unwrap();
    // Whatever is declared as padding, the end token for one: lengths decide, not ids.
    for pad in [None, Some(eos)] {
        let model = decoder(&model::ModelConfig { pad_token_id: pad, ..shape() });
        let mut engine = engine(model, &long);
        let rollout = sampled(&mut engine, &long, &prompts);
        let logps = trained(&mut engine, &long, &rollout).unwrap();
        let batch = rollout.groups;
        let method = methods::parse("grpo", "reduction=token_mean").unwrap().method;
        let loss = methods::evaluate(method.as_ref(), &batch, &logps);
        let responses: Vec<_> = batch.iter().flat_map(|g| &g.responses).collect();
        for (response, slopes) in responses.iter().zip(&loss.dlogps) {
            let end = response.tokens.iter().position(|id| *id == eos);
            assert_eq!(
                (response.tokens.len(), slopes.len()),
                (response.old_logps.len(), response.old_logps.len())
            );
            assert!(slopes.iter().all(|d| *d != 0.0), "a token without a gradient");
            assert_eq!(response.truncated, end.is_none());
            assert!(end.is_none_or(|end| end + 1 == response.tokens.len()), "tokens after the end");
            ends += usize::from(end.is_some());
            cuts += usize::from(end.is_none());
        }
    }
    assert!(ends > 0 && cuts > 0, "{ends} ended, {cuts} were cut off: both are needed");
}

#[test]
fn micro_batches_and_recomputation_do_not_change_a_step_whatever_the_reduction() {
    let prompts = training_prompts();
    for settings in ["", "reduction=response_mean", "reduction=constant", "lambda=0.9 normalise=mean"] {
        let method = methods::parse("grpo_lambda", settings).unwrap().method;
        let step = |tokens: &str, again: bool| {
            let memory =
                [format!("memory.micro_batch_tokens={tokens}"), format!("memory.recompute_layers={again}")];
            let more = ["seed=3", "rl.inner_updates=2", &memory[0], &memory[1]];
            let config = run(&more);
            let mut engine = engine(decoder(&shape()), &config);
            let rollout = sampled(&mut engine, &config, &prompts);
            let parts = with_context(&config, |context| {
                let context = StepContext { method: method.as_ref(), ..context };
                context.step(&mut engine, &rollout, 1e-2).unwrap();
                LlmPolicy::new(&mut engine, context, &rollout, 0.0).parts(&prompts, &rollout.groups).len()
            });
            (parts, engine.model.parameters().clone())
        };
        let (whole, expected) = step("100000", false);
        for (tokens, again, least) in [("1", false, 12), ("70", false, 3), ("70", true, 3)] {
            let (parts, found) = step(tokens, again);
            assert!(whole == 1 && parts >= least, "{parts} parts");
            assert!(found == expected, "{settings}: {parts} micro-batches move the weights elsewhere");
        }
    }
}

#[test]
fn a_response_depends_on_seed_step_prompt_and_place_in_its_group_alone() {
    let prompts = training_prompts();
    let tokens = |batch: &[Group]| -> Vec<Vec<Vec<u32>>> {
        batch.iter().map(|g| g.responses.iter().map(|r| r.tokens.clone()).collect()).collect()
    };
    let (first, other) = (run(&["seed=1"]), run(&["seed=2"]));
    let whole = tokens(&drawn(&first, &prompts, 4, 0).groups);
    for (i, prompt) in prompts.iter().enumerate() {
        let alone = tokens(&drawn(&first, std::slice::from_ref(prompt), 4, 0).groups);
        assert_eq!(alone[0], whole[i], "prompt {i} alone");
        let fewer = tokens(&drawn(&first, std::slice::from_ref(prompt), 2, 0).groups);
        assert_eq!(fewer[0], whole[i][..2], "prompt {i} in a smaller group");
        for a in 0..4 {
            assert!((0..a).all(|b| whole[i][a] != whole[i][b]), "two responses of group {i} are one");
        }
    }
    assert_ne!(tokens(&drawn(&first, &prompts, 4, 1).groups), whole);
    assert_ne!(tokens(&drawn(&other, &prompts, 4, 0).groups), whole);
}

#[test]
fn an_evaluation_is_the_same_every_time_and_has_an_interval() {
    let (model, tokens) = (decoder(&shape()), ModelTokenizer::tiny());
    let sampling = SamplingParams::new(8, 1.0);
    let in_slots = |seed, slots| {
        let problems = Task::Addition.distinct(seed, Split::Test, 30);
        let answers = eval::evaluate(
            &model,
            &Stops::new(&tokens, &[]),
            (&problems, seed),
            (sampling, slots),
            &|_, _| (),
        )
        .unwrap();
        eval::Evaluation::counted(&answers)
    };
    let evaluate = |seed| in_slots(seed, 128);
    let first = evaluate(4);
    for slots in [1, 3] {
        assert_eq!(first, in_slots(4, slots), "{slots} slots");
    }
    assert_eq!(first, evaluate(4));
    assert_ne!(first.mean_length, evaluate(5).mean_length);
    // Nothing of n: Wilson's upper end is z^2 / (n + z^2).
    let (n, z2) = (first.n as f64, 1.959_963_984_540_054_f64.powi(2));
    assert!(first.correct == 0 && first.n > 0, "{first:?}");
    assert!((first.interval().unwrap().high - z2 / (n + z2)).abs() < 1e-12);
}

#[test]
fn a_run_logs_what_tells_learning_from_standing_still() {
    let dir = tempfile::tempdir().unwrap();
    let settings =
        "task.kind=addition sft.steps=40 rl.steps=3 rl.prompts_per_step=4 eval.n=2 rl.inner_updates=1";
    train(dir.path(), &[&words(settings)]).output();
    let rl = rows(dir.path(), "rl");
    assert_eq!(rl.len(), 3);
    for row in rl {
        // On-policy the ratio is 1 and nothing is clipped; that says nothing about learning, the gradient's norm does.
        assert_eq!([&row["ratio_mean"], &row["ratio_max"]].map(|x| x.as_f64()), [Some(1.0); 2]);
        assert_eq!(
            [&row["clip_fraction_low"], &row["clip_fraction_high"]].map(|x| x.as_f64()),
            [Some(0.0); 2]
        );
        let taught = row["zero_variance_groups"].as_f64() < row["groups"].as_f64();
        assert_eq!(row["grad_norm"].as_f64().unwrap() > 0.0, taught, "{row}");
        assert!(row["loss"].is_number() && row["entropy"].as_f64().unwrap() > 0.0, "{row}");
    }
}

/// Every test that `known_bugs.tsv` names exists, and no bug of the museum lacks one.
#[test]
fn the_table_of_known_bugs_names_tests_that_exist() {
    let llm = crate::common::llm();
    let table = std::fs::read_to_string(llm.join("tests/known_bugs.tsv")).unwrap();
    let mut tested = Vec::new();
    for row in table.lines().skip(1) {
        let [bug, _what, tests]: [&str; 3] = row.split('\t').collect::<Vec<_>>().try_into().unwrap();
        for named in tests.split_whitespace() {
            let (file, test) = named.split_once("::").unwrap();
            let path = match file.strip_prefix("core/") {
                Some(file) => llm.join("..").join(file),
                None => llm.join(file),
            };
            let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{named}: {e}"));
            assert!(text.contains(&format!("fn {test}(")), "{named} does not exist");
            tested.push(bug.to_owned());
        }
    }
    tested.dedup();
    assert_eq!(tested, (1..=41).map(|n| format!("B{n}")).collect::<Vec<_>>());
}
