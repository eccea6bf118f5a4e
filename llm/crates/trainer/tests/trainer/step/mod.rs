mod critic;
mod extra_inputs;
mod micro_batch;
mod tree;

use grpo_lambda::group::{Group, Response};
use grpo_lambda::learner::Policy;
use grpo_lambda::methods::Method;
use grpo_lambda::metrics::Metrics;
use grpo_lambda_decoder::model::Architecture::Qwen2;
use grpo_lambda_decoder::model::{Decoder, ForwardOptions, ModelShape, Rows, weights};
use grpo_lambda_decoder::optim::{AdamWSettings, StepOutcome};
use grpo_lambda_gpu::select::{CandleDevice, DevicePreference};
use grpo_lambda_grade::Extraction;
use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::input::task::{Problem, Split, Task};
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use grpo_lambda_trainer::step::engine::{CpuEngine, Engine, TrainingSetup};
use grpo_lambda_trainer::step::{
    LlmPolicy, OnTree, RequestedCompletions, StepContext, StepSettings, TextReward, TrainingPrompt, sft,
};
use grpo_lambda_trainer::train::{Local, Session, device, train_on};

fn start(model: Decoder<f32>, adam: AdamWSettings) -> CpuEngine {
    CpuEngine::new(model, TrainingSetup::new(adam)).unwrap()
}

fn training_prompt(tokens: &ModelTokenizer, number: u64, problem: &Problem) -> TrainingPrompt {
    let prompt = tokens.prompt(&problem.prompt).unwrap().ids().to_vec();
    let text = Some(problem.text().to_owned());
    TrainingPrompt { problem: text, ..TrainingPrompt::new(prompt, problem.gold.clone(), number) }
}

fn addition(number: u64) -> TrainingPrompt {
    training_prompt(&ModelTokenizer::tiny(), number, &Task::Addition.problem(0, Split::Train, number))
}

/// A small model with random weights of this deviation.
fn model(layers: usize, deviation: f64) -> Decoder<f32> {
    let vocab = ModelTokenizer::tiny().len();
    let shape = Qwen2.config(ModelShape { vocab, hidden: 32, layers, heads: 2, kv_heads: 1 });
    Decoder::new(shape.clone(), weights::initialise(&shape, 1, deviation)).unwrap()
}

/// The parts of a configuration that a step borrows.
struct Parts {
    config: Config,
    settings: StepSettings,
    rewards: TextReward,
}

impl Parts {
    fn new(words: &[&str]) -> Parts {
        let (tokens, config) = (ModelTokenizer::tiny(), Config::resolve("tiny", words).unwrap());
        let completions = RequestedCompletions::new(&config, &tokens);
        let settings = StepSettings { completions, ..StepSettings::new(&config, tokens.eos()) };
        let rewards = TextReward::new(&tokens, &config.reward, Extraction::Boxed, config.seed);
        Parts { config, settings, rewards }
    }

    fn context(&self) -> StepContext<'_> {
        StepContext::new(&self.settings, self.config.configured().method.as_ref(), &self.rewards)
    }
}

fn gradient(engine: &mut CpuEngine) -> Vec<f64> {
    engine.gradients().by_name().into_iter().flat_map(|(_, g)| g).map(|&x| f64::from(x)).collect()
}

/// With a limit of four tokens only `\\boxed{d}` gets a reward, so `J = mean_x pi(y_x|x)` and its gradient are known
/// without sampling. RLOO's expected update is that gradient: the mean over many sampled groups must point there.
#[test]
fn the_mean_sampled_update_is_the_gradient_of_expected_reward() {
    mean_update_is_the_gradient(&["method.name=rloo"], 0.98, 1.0);
}

#[test]
fn the_mean_update_of_systematic_groups_is_the_gradient_of_expected_reward() {
    mean_update_is_the_gradient(&["method.name=systematic_rloo", "rl.sampling=systematic"], 0.98, 1.0);
}

/// The greedy response's reward is independent of the sampled ones. It is 1 where the right answer is the likeliest of many, so that nearly every
/// sampled one has an advantage of -1: the mean has twenty times the variance of RLOO's, and a cosine of 0.94 with these samples.
#[test]
fn the_mean_update_of_remax_is_the_gradient_of_expected_reward() {
    mean_update_is_the_gradient(&["method.name=remax"], 0.9, 1.0);
}

/// The mean of its siblings takes one in eight of an edge's value.
#[test]
fn the_mean_update_of_spo_tree_on_its_own_trees_is_seven_eighths_of_the_gradient_of_expected_reward() {
    let tree = ["rl.sampling=tree", "rl.children=8,8", "rl.segment=2", "rl.group_size=64"];
    let method = ["method.name=spo_tree", "method.reduction=response_sum"];
    mean_update_is_the_gradient(&[&tree[..], &method].concat(), 0.95, 7.0 / 8.0);
}

#[test]
fn the_mean_update_of_vine_ppo_with_completions_is_the_gradient_of_expected_reward() {
    let steps = ["rl.step_start=interval", "rl.segment=1", "rl.completions=2"];
    let method = ["method.name=vine_ppo", "method.reduction=response_sum"];
    mean_update_is_the_gradient(&[&steps[..], &method].concat(), 0.95, 1.0);
}

fn mean_update_is_the_gradient(words: &[&str], least_cosine: f64, factor: f64) {
    let tokens = ModelTokenizer::tiny();
    let task = Task::Addition;
    let problems: Vec<Problem> = (0..200)
        .map(|i| task.problem(0, Split::Train, i))
        .filter(|p| p.solution.len() == 9)
        .take(8)
        .collect();
    let prompts: Vec<TrainingPrompt> =
        (0..).zip(&problems).map(|(n, p)| training_prompt(&tokens, n, p)).collect();
    let answers: Vec<Vec<u32>> =
        problems.iter().map(|p| tokens.target(&p.solution).unwrap().ids()[..4].to_vec()).collect();
    let parts = Parts::new(&[&["seed=7", "rl.max_new_tokens=4"][..], words].concat());
    let config = &parts.config;

    let mut answered = Rows::new();
    for (e, answer) in prompts.iter().zip(&answers) {
        let row: Vec<u32> = e.tokens.iter().chain(answer).copied().collect();
        answered.push(&row, e.tokens.len());
    }
    // A few supervised steps, so that correct answers are sampled at all.
    let examples: Vec<_> = prompts
        .iter()
        .zip(&answers)
        .map(|(e, a)| sft::Example { prompt: e.tokens.clone(), response: a.clone() })
        .collect();
    let mut engine = start(model(2, 0.02), config.sft_optimiser());
    for _ in 0..40 {
        sft::step(&mut engine, &examples, 5e-3, config.memory).unwrap();
    }

    let (scores, tape) = engine.forward(&answered, ForwardOptions::default()).unwrap();
    let chances: Vec<f64> = scores.logps.iter().map(|row| row.iter().sum::<f64>().exp()).collect();
    let pull: Vec<Vec<f64>> = chances.iter().map(|p| vec![-p / chances.len() as f64; 4]).collect();
    engine.backward(tape, (&pull).into()).unwrap();
    let exact = gradient(&mut engine);

    let mut engine = start(engine.model, config.rl_optimiser());
    let context = parts.context();
    let method = context.method;
    let (batches, group) = (24, 64);
    let mut reward = 0.0;
    for step in 0..batches {
        let rollout = context.sample(&mut engine, prompts.clone(), group, step).unwrap();
        let batch = &rollout.groups;
        let responses: Vec<&Response> = batch.iter().flat_map(|g| &g.responses).collect();
        reward += responses.iter().filter_map(|r| r.reward).sum::<f64>();
        let on_tree = OnTree { method, segments: &rollout.segments };
        let credits = if rollout.segments.is_empty() { method.credit(batch) } else { on_tree.credit(batch) };
        let mut policy = LlmPolicy::new(&mut engine, context, &rollout, 0.0);
        for part in policy.parts(&prompts, batch) {
            let (logps, tape) = policy.log_probs(&prompts, batch, part.clone()).unwrap();
            let dlogps: Vec<Vec<f64>> = part
                .zip(&logps)
                .map(|(i, logps)| method.loss(responses[i], &credits[i], logps).dlogps)
                .collect();
            policy.backward(tape, &dlogps).unwrap();
        }
    }
    let sampled = gradient(&mut engine);
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let cosine = dot(&sampled, &exact) / (dot(&sampled, &sampled) * dot(&exact, &exact)).sqrt();
    let length = dot(&sampled, &exact) / dot(&exact, &exact) / batches as f64;
    let expected = chances.iter().sum::<f64>() / 8.0;
    let observed = reward / (batches as f64 * 8.0 * group as f64);
    // 12288 samples of a chance near 0.16: a standard error of 0.0033. Ten times the batches give 0.9997 and 0.990.
    assert!((0.05..0.5).contains(&expected), "the start is no test: J = {expected}");
    assert!((observed - expected).abs() < 0.012, "sampled {observed}, J = {expected}");
    assert!(cosine > least_cosine && (length / factor - 1.0).abs() < 0.1, "cosine {cosine}, length {length}");
}

#[test]
fn systematic_responses_are_the_same_in_any_batch_and_slots_and_differ_by_step() {
    let words = ["rl.max_new_tokens=12", "method.name=systematic_rloo", "rl.sampling=systematic"];
    let mut engine = start(model(1, 0.2), AdamWSettings::default());
    let mut sampled = |numbers: &[u64], slots: &str, step: u64| {
        let parts = Parts::new(&[&words[..], &[slots]].concat());
        let prompts = numbers.iter().map(|n| addition(*n)).collect();
        parts.context().sample(&mut engine, prompts, 6, step).unwrap().groups
    };
    let together = sampled(&[0, 1, 2, 3], "memory.slots=0", 5);
    for (n, group) in together.iter().enumerate() {
        assert_eq!(&sampled(&[n as u64], "memory.slots=1", 5)[0], group);
    }
    let reversed: Vec<_> = sampled(&[3, 2, 1, 0], "memory.slots=5", 5).into_iter().rev().collect();
    assert_eq!(reversed, together);
    assert_ne!(sampled(&[0], "memory.slots=0", 6)[0], together[0]);
    // Codes of a set are a third apart: no two responses begin at the same place, and the sets have shifts of their own.
    let first = |g: &Group, i: usize| g.responses[i].tokens.clone();
    assert!(together.iter().all(|g| first(g, 0) != first(g, 1) && first(g, 0) != first(g, 3)));
}

/// With several updates on a rollout, one that is skipped is reported although a good one follows; the next rollout starts afresh.
#[test]
fn a_skipped_inner_update_is_not_hidden_by_the_next() {
    let parts = Parts::new(&["rl.max_new_tokens=4"]);
    let (context, prompts) = (parts.context(), vec![addition(0)]);
    let mut engine = start(model(1, 0.02), parts.config.rl_optimiser());
    let rollout = context.sample(&mut engine, prompts.clone(), 2, 0).unwrap();
    let mut policy = LlmPolicy::new(&mut engine, context, &rollout, 1e-3);
    for pull in [f64::NAN, 1.0] {
        let (logps, tape) = policy.log_probs(&prompts, &rollout.groups, 0..2).unwrap();
        let dlogps: Vec<Vec<f64>> = logps.iter().map(|row| vec![pull; row.len()]).collect();
        policy.backward(tape, &dlogps).unwrap();
        policy.step().unwrap();
    }
    let report = policy.report(Metrics::default());
    let both = matches!(report.updates[..], [StepOutcome::Skipped { .. }, StepOutcome::Applied { .. }]);
    assert!(both, "{report:?}");
    assert!(matches!(report.update(), Some(StepOutcome::Skipped { .. })));
    assert_eq!(engine.optimiser.steps(), 1);
    let rollout = context.sample(&mut engine, prompts.clone(), 2, 1).unwrap();
    let policy = LlmPolicy::new(&mut engine, context, &rollout, 1e-3);
    assert_eq!(policy.report(Metrics::default()).update(), None);
}

/// A small model with the problems of two prompts, under settings of a run.
fn rollout_of(words: &[&str]) -> (Parts, CpuEngine, grpo_lambda_trainer::step::Rollout) {
    let (tokens, parts) =
        (ModelTokenizer::tiny(), Parts::new(&[&["rl.max_new_tokens=6"][..], words].concat()));
    let mut engine = start(model(1, 0.2), parts.config.rl_optimiser());
    let prompt = |n| {
        let problem = Task::Addition.problem(0, Split::Train, n);
        let answered = problem.answered().expect("an embedded prompt holds its problem");
        assert!(answered.prompt.contains(problem.answer_only()) && !problem.prompt.contains("boxed"));
        let answered = tokens.prompt(&answered.prompt).unwrap().ids().to_vec();
        TrainingPrompt { answered, ..training_prompt(&tokens, n, &problem) }
    };
    let rollout = parts.context().sample(&mut engine, (0..2).map(prompt).collect(), 5, 3).unwrap();
    (parts, engine, rollout)
}

#[test]
fn further_rewards_are_the_components_or_the_greedy_response_s() {
    let coin = ["reward.coin=2", "reward.tag_count=0.5"];
    let (parts, _, rollout) = rollout_of(&[&coin[..], &["method.name=gdpo"]].concat());
    let weights = &parts.config.configured().settings;
    assert_eq!([weights.number("weight_2"), weights.number("weight_3")], [0.5, 2.0]);
    let responses = || rollout.groups.iter().flat_map(|g| &g.responses);
    for (response, breakdown) in responses().zip(rollout.rewards.iter().flatten()) {
        let parts = response.extra_inputs.reward_parts.as_ref().unwrap();
        assert_eq!(parts.len(), 3);
        let total = parts[0] + 0.5 * parts[1] + 2.0 * parts[2];
        assert!(breakdown.total.is_none_or(|t| (t - total).abs() < 1e-12), "{parts:?}");
    }
    let fourth = ["reward.format=0.5", "method.name=gdpo"];
    let refused = Config::resolve("tiny", &[&coin[..], &fourth].concat()).unwrap_err().to_string();
    assert!(refused.contains("reward.coin = 2: method.name=gdpo weighs the first three"), "{refused}");
    // A coin of its own: the greedy response's is not that of any sampled one.
    let (_, _, rollout) = rollout_of(&["reward.accuracy=0", "reward.coin=1", "method.name=remax"]);
    for (group, rewards) in rollout.groups.iter().zip(&rollout.rewards) {
        let baseline = group.responses[0].extra_inputs.reward_parts.clone().unwrap();
        assert!(group.responses.iter().all(|r| r.extra_inputs.reward_parts.as_ref() == Some(&baseline)));
        assert!(rewards.len() == 5 && (baseline == [0.0] || baseline == [1.0]), "{baseline:?}");
    }
    assert!(rollout.input_cost.forward > 0);
}

#[test]
fn the_teacher_is_the_policy_that_has_read_the_answer() {
    let (_, engine, rollout) = rollout_of(&["method.name=rlsd"]);
    let mut moved = 0;
    for (prompt, group) in rollout.prompts.iter().zip(&rollout.groups) {
        for response in &group.responses {
            let mut rows = Rows::new();
            rows.push(&[&prompt.answered[..], &response.tokens].concat(), prompt.answered.len());
            let expected = &engine.model.score(&rows, ForwardOptions::default()).unwrap().logps[0];
            let found = response.extra_inputs.teacher_logps.as_ref().unwrap();
            assert_eq!(found, expected);
            moved += usize::from(found != &response.old_logps);
        }
    }
    assert_eq!(moved, 10);
}

/// With advantages of 0 only the bonus moves the weights: up the mean entropy of the tokens, by its gradient.
#[test]
fn an_entropy_bonus_moves_the_weights_up_the_mean_entropy_of_the_tokens() {
    let words =
        ["method.name=grpo", "method.reduction=token_mean", "reward.accuracy=0", "reward.tag_count=1"];
    let (parts, mut engine, mut rollout) = rollout_of(&[&words[..], &["rl.entropy_coef=0.5"]].concat());
    assert_eq!(rollout.entropy_coef, 0.5);
    rollout.groups.iter_mut().flat_map(|g| &mut g.responses).for_each(|r| r.reward = Some(0.0));
    let entropy = |engine: &CpuEngine| {
        let mut rows = Rows::new();
        for (prompt, group) in rollout.prompts.iter().zip(&rollout.groups) {
            for response in &group.responses {
                rows.push(&[&prompt.tokens[..], &response.tokens].concat(), prompt.tokens.len());
            }
        }
        let options = ForwardOptions { entropy: true, ..ForwardOptions::default() };
        let entropies = engine.model.score(&rows, options).unwrap().entropies.concat();
        entropies.iter().sum::<f64>() / entropies.len() as f64
    };
    let before = entropy(&engine);
    assert!((rollout.entropy().unwrap() - before).abs() < 1e-6);
    let report = parts.context().step(&mut engine, &rollout, 1e-3).unwrap();
    let StepOutcome::Applied { .. } = report.update().unwrap() else { panic!("{report:?}") };
    assert!(entropy(&engine) > before + 1e-4, "{} after {before}", entropy(&engine));
}

#[test]
fn an_adaptive_coefficient_rises_below_the_target_and_is_off_above_it() {
    let words = ["rl.entropy_target=0.2", "rl.entropy_coef=0.01", "rl.entropy_coef_max=0.012"];
    let rl = Config::resolve("tiny", &words).unwrap().rl;
    let near = |(a, b): (f64, f64), (c, d): (f64, f64)| assert!((a - c).abs() + (b - d).abs() < 1e-15);
    near(rl.adapted(None, true), (0.01, 0.012));
    near(rl.adapted(Some(0.012), false), (0.0, 0.007));
    near(rl.adapted(Some(0.002), false), (0.0, 0.0));
    near(rl.adapted(Some(0.0), true), (0.0, 0.005));
}

/// Whoever chooses the device: the command line, or a caller of the library.
#[test]
fn what_our_decoder_on_the_cpu_alone_computes_is_refused_elsewhere_at_every_opening() {
    let candle = || CandleDevice::choose(DevicePreference::Cpu, None);
    for (words, expected) in [
        (
            &["method.name=oar_p"][..],
            "method.name=oar_p: shifts is only supported by our own decoder on the CPU",
        ),
        (&["method.name=ppo"], "method.name=ppo: values is only supported by our own decoder on the CPU"),
    ] {
        let config = Config::resolve("tiny", &[words, &["engine=candle"]].concat()).unwrap();
        let own = Config::resolve("tiny", words).unwrap();
        let run = tempfile::tempdir().unwrap();
        for error in [
            device(&config).err(),
            Session::open_on(candle(), &Local, &own, true).err(),
            train_on(candle(), &Local, &own, (run.path(), false), "test").err(),
        ] {
            let line = error.map(|e| e.to_string());
            assert!(line.as_ref().is_some_and(|line| line.contains(expected)), "{words:?}: {line:?}");
        }
        assert_eq!(std::fs::read_dir(run.path()).unwrap().count(), 0);
    }
}
