//! Rollouts of RL end at the stop strings of a template: on the CPU and on a card, in what is trained on and in what is graded.
use grpo_lambda::group::Response;
use grpo_lambda_decoder::model::{Architecture::Qwen2, Decoder, ModelConfig as Shape, weights};
use grpo_lambda_decoder::optim::StepOutcome;
use grpo_lambda_gpu::Dtype;
use grpo_lambda_grade::{Extraction, Gold};
use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::input::stops::Stops;
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use grpo_lambda_trainer::step::engine::{CpuEngine, Engine, GpuEngine, TrainingSetup};
use grpo_lambda_trainer::step::{StepContext, StepSettings, TextReward, TrainingPrompt};

use crate::common::sized;
#[cfg(target_os = "linux")]
use crate::machine;

const LIMIT: usize = 12;

fn config() -> Config {
    // The reward is 1 where the text ends with a stop string.
    let words = ["rl.max_new_tokens=12", "method.name=grpo", "reward.accuracy=0", "reward.regex=(1|4|7)$"];
    Config::resolve("tiny", &words).unwrap()
}

fn shape() -> Shape {
    Qwen2.config(sized(16, 2))
}

/// The responses of a step that ends them at `stop`, and whether it moved the weights.
fn stepped(engine: &mut dyn Engine, stop: &[String]) -> (Vec<Response>, bool) {
    let (tokens, config) = (ModelTokenizer::tiny(), config());
    let stops = Stops::new(&tokens, stop);
    let settings = StepSettings { stops: Some(stops.clone()), ..StepSettings::new(&config, tokens.eos()) };
    let mut rewards = TextReward::new(&tokens, &config.reward, Extraction::Boxed, config.seed);
    rewards.stops = stops;
    let context = StepContext::new(&settings, config.configured().method.as_ref(), &rewards);
    let ids = tokens.prompt("1+2").unwrap().ids().to_vec();
    let prompt = |number| TrainingPrompt::new(ids.clone(), Gold::from(3), number);
    let rollout = context.sample(engine, (0..4).map(prompt).collect(), 4, 0).unwrap();
    let report = context.step(engine, &rollout, 1e-3).unwrap();
    let responses = rollout.groups.into_iter().flat_map(|group| group.responses).collect();
    (responses, matches!(report.updates[..], [StepOutcome::Applied { .. }]))
}

fn cpu() -> CpuEngine {
    let setup = TrainingSetup::new(config().rl_optimiser());
    CpuEngine::new(Decoder::new(shape(), weights::initialise(&shape(), 3, 0.3)).unwrap(), setup).unwrap()
}

/// A digit, which random weights write often enough. The sampler goes on as without it, so what is trained on is a beginning of what it had
/// sampled.
#[test]
fn rollouts_end_with_the_token_that_completes_a_stop_string() {
    let tokens = ModelTokenizer::tiny();
    let stop: Vec<String> = ["1", "4", "7"].map(str::to_owned).into();
    let (whole, _) = stepped(&mut cpu(), &[]);
    let (ended, moved) = stepped(&mut cpu(), &stop);
    let mut early = 0;
    for (whole, ended) in whole.iter().zip(&ended) {
        let n = ended.tokens.len();
        assert_eq!((&ended.tokens[..], &ended.old_logps[..]), (&whole.tokens[..n], &whole.old_logps[..n]));
        let at = (1..=whole.tokens.len()).find(|n| {
            let text = tokens.text(&whole.tokens[..*n]).unwrap();
            stop.iter().any(|stop| text.contains(stop))
        });
        assert_eq!(n, at.unwrap_or(whole.tokens.len()));
        assert_eq!(ended.truncated, at.is_none() && whole.truncated);
        assert_eq!(ended.reward, Some(f64::from(at.is_some())));
        early += usize::from(n < whole.tokens.len());
    }
    assert!(moved && early > 2 && early < ended.len(), "{early} of {} ended early", ended.len());

    #[cfg(target_os = "linux")]
    {
        let device = machine::start();
        let setup = TrainingSetup::new(config().rl_optimiser());
        let parameters = weights::initialise(&shape(), 3, 0.3);
        let mut card = GpuEngine::new(&device, Dtype::F32, &shape(), &parameters, setup).unwrap();
        let (there, moved) = stepped(&mut card, &stop);
        let seen = |all: &[Response]| -> Vec<(Vec<u32>, bool, Option<f64>)> {
            all.iter().map(|r| (r.tokens.clone(), r.truncated, r.reward)).collect()
        };
        assert_eq!(seen(&there), seen(&ended));
        assert!(moved && there.iter().all(|r| r.tokens.len() <= LIMIT));
    }
}

/// `\boxed` is one token of this tokenizer.
#[test]
fn what_the_last_token_spells_beyond_a_stop_string_is_not_graded() {
    let tokens = ModelTokenizer::tiny();
    let ids = tokens.prompt("= \\boxed").unwrap().ids().to_vec();
    let texts = ["\\box".to_owned()];
    let stops = Stops::new(&tokens, &texts);
    assert_eq!(stops.text(&ids).unwrap(), "= \\box");
    let test = stops.test().unwrap();
    assert_eq!((1..=ids.len()).find(|n| test.is_complete(&ids[..*n])), Some(ids.len()));
    let later = Stops { passed_over: ids.len(), ..stops.clone() };
    let and_more = [ids.as_slice(), &ids].concat();
    let is_complete = |n: usize| later.test().unwrap().is_complete(&and_more[..n]);
    assert_eq!((1..=and_more.len()).find(|&n| is_complete(n)), Some(and_more.len()));
    assert_eq!(later.text(&and_more).unwrap(), "= \\boxed= \\box");
    assert!(Stops::new(&tokens, &[]).test().is_none());
}
