//! Trees and completions that the sampler makes, recomputed.

use std::collections::BTreeSet;

use super::{addition, model, start};
use grpo_lambda::group::Group;
use grpo_lambda::methods::Method;
use grpo_lambda_decoder::generate::{Responses, SampledResponse, SamplingRequest};
use grpo_lambda_decoder::model::{ForwardOptions, Rows};
use grpo_lambda_decoder::optim::AdamWSettings;
use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::input::stops::Stops;
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use grpo_lambda_trainer::reward::RewardBreakdown;
use grpo_lambda_trainer::step::engine::{CpuEngine, Engine, WeightFollower};
use grpo_lambda_trainer::step::{
    OnTree, RequestedCompletions, RewardFunction, Rewards, Rollout, SharedPrefixes, StepContext,
    StepSettings, StepStarts, TrainingPrompt,
};
use std::cell::RefCell;

const TREE: &[&str] = &["rl.sampling=tree", "rl.children=2,3,2", "rl.segment=3", "rl.group_size=12"];
const SEARCH: &[&str] = &["rl.sampling=entropy_search", "rl.forks=2", "rl.branches=2", "rl.group_size=10"];

/// A reward that a response's first tokens decide, which keeps what it graded.
#[derive(Default)]
struct ByTokens {
    first: usize,
    graded: RefCell<Vec<Vec<Vec<u32>>>>,
}

impl ByTokens {
    fn reward(&self, tokens: &[u32]) -> f64 {
        f64::from(tokens.iter().take(self.first).fold(7u32, |sum, token| (sum * 31 + token) % 11))
    }
}

impl RewardFunction for ByTokens {
    fn rewards(&self, _: u64, _: &TrainingPrompt, responses: &[SampledResponse]) -> Rewards {
        self.graded.borrow_mut().push(responses.iter().map(|r| r.tokens.clone()).collect());
        let reward =
            |r: &SampledResponse| RewardBreakdown { total: Some(self.reward(&r.tokens)), components: vec![] };
        Ok(responses.iter().map(reward).collect())
    }
}

/// A model that ends a response early now and then.
fn engine() -> CpuEngine {
    start(model(1, 0.4), AdamWSettings::default())
}

fn sampled(
    engine: &mut CpuEngine,
    rewards: &dyn RewardFunction,
    numbers: &[u64],
    words: &[&str],
) -> (Config, Rollout) {
    sampled_with(engine, rewards, numbers, (words, &[]))
}

fn sampled_with(
    engine: &mut CpuEngine,
    rewards: &dyn RewardFunction,
    numbers: &[u64],
    (words, stops): (&[&str], &[String]),
) -> (Config, Rollout) {
    let tokens = ModelTokenizer::tiny();
    let config = Config::resolve("tiny", &[&["rl.max_new_tokens=12"], words].concat()).unwrap();
    // Many end tokens, so that responses end at every level of a tree.
    let eos: Vec<u32> = (0..tokens.len() as u32).filter(|id| id % 9 == 4).collect();
    let completions = RequestedCompletions::new(&config, &tokens);
    let stops = Some(Stops::new(&tokens, stops));
    let settings = StepSettings { completions, stops, ..StepSettings::new(&config, &eos) };
    let context = StepContext::new(&settings, config.configured().method.as_ref(), rewards);
    let prompts = numbers.iter().map(|n| addition(*n)).collect();
    let rollout = context.sample(engine, prompts, config.rl.group_size, 5).unwrap();
    (config, rollout)
}

const METHODS: [&str; 3] =
    ["method.name=spo_tree", "method.name=tree_rl", "method.name=tree_rpo_reconstructed"];

#[test]
fn the_leaves_of_a_tree_have_the_log_probabilities_of_the_model_and_share_what_was_written_once() {
    let (mut engine, rewards) = (engine(), ByTokens { first: 99, ..ByTokens::default() });
    for shape in [TREE, SEARCH] {
        let (config, rollout) =
            sampled(&mut engine, &rewards, &[0, 1, 2, 3], &[shape, &METHODS[..1]].concat());
        let (mut written, mut early) = (0, 0);
        for ((prompt, group), segments) in rollout.prompts.iter().zip(&rollout.groups).zip(&rollout.segments)
        {
            let exact = shape == TREE;
            let leaves = group.responses.len();
            assert!(if exact { leaves == config.rl.group_size } else { (2..=10).contains(&leaves) });
            let mut known = std::collections::BTreeMap::new();
            for (response, names) in group.responses.iter().zip(segments) {
                let mut rows = Rows::new();
                rows.push(&[&prompt.tokens[..], &response.tokens].concat(), prompt.tokens.len());
                let options = ForwardOptions { entropy: true, ..ForwardOptions::default() };
                let scores = engine.model.score(&rows, options).unwrap();
                assert_eq!(response.old_logps, scores.logps[0]);
                // The scorer sums in f32.
                let entropies = response.extra_inputs.entropies.as_ref().unwrap();
                let off = entropies.iter().zip(&scores.entropies[0]).map(|(a, b)| (a - b).abs());
                assert!(entropies.len() == names.len() && off.fold(0.0, f64::max) < 1e-5);
                assert_eq!(response.reward, Some(rewards.reward(&response.tokens)));
                assert_eq!(
                    (names.len(), response.truncated),
                    (response.tokens.len(), response.tokens.len() == 12 && response.tokens[11] % 9 != 4)
                );
                early += usize::from(response.tokens.len() <= 6);
                // A segment is the same tokens after the same tokens, wherever it is met.
                for t in 0..names.len() {
                    let path = known.entry((names[t], t)).or_insert(&response.tokens[..=t]);
                    assert_eq!(*path, &response.tokens[..=t]);
                }
            }
            written += known.len();
            if exact {
                let own: BTreeSet<u32> =
                    known.keys().filter(|(_, t)| *t == 0).map(|(name, _)| *name).collect();
                assert_eq!(own.len(), 2, "two children of the root");
                assert!(known.keys().all(|(name, t)| known.contains_key(&(*name, (t / 3).min(2) * 3))));
            }
        }
        assert_eq!(rollout.sampled_tokens, written);
        let tokens: usize = rollout.groups.iter().flat_map(|g| &g.responses).map(|r| r.tokens.len()).sum();
        assert!(written < tokens && early > 0, "{written} {tokens} {early}");
    }
}

/// `A` of every token from the leaves below its segment and below the segment before it, leaf by leaf.
fn recomputed(method: &str, group: &Group, segments: &[Vec<u32>]) -> Vec<Vec<f64>> {
    let n = group.responses.len() as f64;
    let rewards: Vec<f64> = group.responses.iter().map(|r| r.reward.unwrap()).collect();
    let total: f64 = rewards.iter().sum();
    let value = |i: usize| match method {
        "method.name=tree_rl" => rewards[i] - (total - rewards[i]) / (n - 1.0),
        _ => rewards[i],
    };
    let mean = |below: &dyn Fn(&Vec<u32>) -> bool| {
        let leaves: Vec<usize> = (0..segments.len()).filter(|i| below(&segments[*i])).collect();
        leaves.iter().map(|i| value(*i)).sum::<f64>() / leaves.len() as f64
    };
    let valued = |name: Option<u32>| mean(&|leaf| name.is_none_or(|name| leaf.contains(&name)));
    let parent = |leaf: &[u32], name: u32| leaf.iter().take_while(|own| **own != name).last().copied();
    let token = |leaf: &Vec<u32>, name: u32| {
        let before = parent(leaf, name);
        let (own, up) = (valued(Some(name)), valued(before));
        let siblings: BTreeSet<u32> = segments
            .iter()
            .flat_map(|leaf| leaf.iter().copied().filter(|other| parent(leaf, *other) == before))
            .collect();
        match method {
            "method.name=spo_tree" => own - up,
            "method.name=tree_rl" => (own - up) + own,
            _ => {
                let values: Vec<f64> = siblings.iter().map(|s| valued(Some(*s))).collect();
                let (k, sum) = (values.len() as f64, values.iter().sum::<f64>());
                let spread = values.iter().map(|v| (v - sum / k).powi(2)).sum::<f64>() / (k - 1.0);
                if values.len() < 2 { 0.0 } else { (own - sum / k) / (spread.sqrt() + 1e-4) }
            }
        }
    };
    segments.iter().map(|leaf| leaf.iter().map(|name| token(leaf, *name)).collect()).collect()
}

#[test]
fn the_credit_of_a_token_is_that_of_the_leaves_below_its_segment() {
    let (mut engine, rewards) = (engine(), ByTokens { first: 99, ..ByTokens::default() });
    for shape in [TREE, SEARCH] {
        for method in METHODS {
            let (config, rollout) = sampled(&mut engine, &rewards, &[0, 1, 2], &[shape, &[method]].concat());
            let own = OnTree { method: config.configured().method.as_ref(), segments: &rollout.segments };
            let mut credits = own.credit(&rollout.groups).into_iter();
            let (mut tokens, mut credited) = (0, 0);
            for (group, segments) in rollout.groups.iter().zip(&rollout.segments) {
                for wanted in recomputed(method, group, segments) {
                    let found = credits.next().unwrap().advantages;
                    assert_eq!(found.len(), wanted.len());
                    for (found, wanted) in found.iter().zip(&wanted) {
                        assert!((found - wanted).abs() < 1e-12, "{method}: {found} {wanted}");
                        (tokens, credited) = (tokens + 1, credited + usize::from(*found != 0.0));
                    }
                }
            }
            // On the prefix tree of the same tokens, credit stands where they part alone.
            let parting: usize = config
                .configured()
                .method
                .credit(&rollout.groups)
                .iter()
                .flat_map(|c| &c.advantages)
                .filter(|a| **a != 0.0)
                .count();
            assert!(
                3 * credited > 2 * tokens && parting <= credited,
                "{method}: {credited} of {tokens}, {parting}"
            );
        }
    }
}

#[test]
fn trees_and_completions_are_the_same_in_any_batch_and_slots() {
    let rewards = ByTokens { first: 99, ..ByTokens::default() };
    let completed = ["method.name=vine_ppo", "rl.step_start=interval", "rl.completions=2", "rl.group_size=3"];
    let mut engine = engine();
    for words in [&[TREE, &METHODS[..1]].concat()[..], &[SEARCH, &METHODS[1..2]].concat(), &completed] {
        let mut sample = |numbers: &[u64], slots: &str| {
            let rollout = sampled(&mut engine, &rewards, numbers, &[words, &[slots]].concat()).1;
            (rollout.groups, rollout.segments)
        };
        let (groups, segments) = sample(&[0, 1, 2, 3], "memory.slots=0");
        for n in 0..4 {
            let (alone, own) = sample(&[n as u64], "memory.slots=1");
            assert_eq!((&alone[0], own.first()), (&groups[n], segments.get(n)));
        }
        let (mut reversed, _) = sample(&[3, 2, 1, 0], "memory.slots=5");
        reversed.reverse();
        assert_eq!(reversed, groups);
    }
}

/// Completions come prefix by prefix, in the order in which a prefix is met first.
#[test]
fn the_value_of_a_step_is_the_mean_reward_of_completions_of_its_prefix() {
    let mut engine = engine();
    for words in
        [["method.name=vine_ppo", "rl.step_start=interval"], ["method.name=spo_chain", "method.sure=0.2"]]
    {
        for first in [2, 99] {
            let rewards = ByTokens { first, ..ByTokens::default() };
            let more = ["rl.segment=2", "rl.completions=3", "rl.group_size=6"];
            let (_, rollout) = sampled(&mut engine, &rewards, &[0, 1], &[&words[..], &more].concat());
            let (mut written, mut steps) = (0, 0);
            for (group, graded) in rollout.groups.iter().zip(rewards.graded.borrow().iter()) {
                let mut further = graded[group.responses.len()..].chunks(3);
                let mut known = std::collections::BTreeMap::new();
                for response in &group.responses {
                    written += response.tokens.len();
                    let own = response.extra_inputs.steps.as_ref().unwrap();
                    assert_eq!(own[0].start, 0);
                    for step in own {
                        let prefix = &response.tokens[..step.start];
                        let completed = known.entry(prefix).or_insert_with(|| {
                            let completed = further.next().unwrap();
                            written += completed.iter().map(|c| c.len() - prefix.len()).sum::<usize>();
                            completed
                        });
                        assert!(completed.iter().all(|c| c.starts_with(prefix) && c.len() > prefix.len()));
                        let mean = completed.iter().map(|c| rewards.reward(c)).sum::<f64>() / 3.0;
                        assert_eq!(step.value, mean);
                        // Tokens that decide the reward are in the prefix.
                        assert!(step.start < first || step.value == response.reward.unwrap());
                        steps += 1;
                    }
                    if words[0] == "method.name=vine_ppo" {
                        let places: Vec<usize> = own.iter().map(|s| s.start).collect();
                        assert_eq!(places, (0..response.tokens.len()).step_by(2).collect::<Vec<_>>());
                    }
                }
                assert_eq!(further.next(), None);
            }
            assert_eq!(rollout.sampled_tokens, written);
            assert!(steps > 20 && rollout.input_cost.forward > written - 60, "{steps}");
        }
    }
}

/// [`ByTokens`], which leaves out a part of the responses.
struct Partly(ByTokens, u32);

impl Partly {
    fn reward(&self, tokens: &[u32]) -> Option<f64> {
        (tokens.iter().sum::<u32>() % 4 >= self.1).then(|| self.0.reward(tokens))
    }
}

impl RewardFunction for Partly {
    fn rewards(&self, step: u64, prompt: &TrainingPrompt, responses: &[SampledResponse]) -> Rewards {
        let mut all = self.0.rewards(step, prompt, responses)?;
        all.iter_mut().zip(responses).for_each(|(own, response)| own.total = self.reward(&response.tokens));
        Ok(all)
    }
}

#[test]
fn completions_without_a_reward_leave_a_value_and_steps_without_a_value_get_no_credit_of_their_own() {
    let mut engine = engine();
    let words = [
        "method.name=vine_ppo",
        "rl.step_start=interval",
        "rl.segment=2",
        "rl.completions=2",
        "rl.group_size=6",
    ];
    let (mut fewer, mut late, mut never) = (0, 0, 0);
    for (left_out, prompts) in [(2, &[0, 1, 2, 3][..]), (4, &[0])] {
        let rewards = Partly(ByTokens { first: 99, ..ByTokens::default() }, left_out);
        let (_, rollout) = sampled(&mut engine, &rewards, prompts, &words);
        for (group, graded) in rollout.groups.iter().zip(rewards.0.graded.borrow().iter()) {
            let mut further = graded[group.responses.len()..].chunks(2);
            let mut known = std::collections::BTreeMap::new();
            for response in &group.responses {
                let mut expected = Vec::new();
                for start in (0..response.tokens.len()).step_by(2) {
                    let prefix = &response.tokens[..start];
                    let completed = known.entry(prefix).or_insert_with(|| further.next().unwrap());
                    let own: Vec<f64> = completed.iter().filter_map(|c| rewards.reward(c)).collect();
                    fewer += usize::from(own.len() == 1);
                    if !own.is_empty() {
                        expected.push((start, own.iter().sum::<f64>() / own.len() as f64));
                    }
                }
                let found = response.extra_inputs.steps.as_ref().unwrap();
                let found: Vec<(usize, f64)> = found.iter().map(|s| (s.start, s.value)).collect();
                match expected.first() {
                    Some((0, _)) => assert_eq!(found, expected),
                    Some((_, value)) => {
                        late += 1;
                        assert_eq!((found[0], &found[1..]), ((0, *value), &expected[..]));
                    }
                    None => {
                        never += 1;
                        assert_eq!(found, [(0, response.reward.unwrap_or(0.0))]);
                    }
                }
            }
        }
    }
    assert!(fewer > 5 && late > 0 && never >= 6, "{fewer} {late} {never}");
}

/// Samples in the engine's place, and keeps the bound of every request.
#[derive(Default)]
struct Bounds(RefCell<Vec<Option<usize>>>);

impl WeightFollower for Bounds {
    fn generate(&self, engine: &dyn Engine, request: &SamplingRequest<'_>) -> Responses {
        self.0.borrow_mut().push(request.slots);
        engine.generate(request)
    }
}

#[test]
fn no_more_completions_are_decoded_at_a_time_than_responses_or_slots() {
    let (tokens, rewards) = (ModelTokenizer::tiny(), ByTokens::default());
    let mut engine = engine();
    for (slots, expected) in [(0, [None, Some(6)]), (4, [Some(4); 2]), (99, [Some(99), Some(6)])] {
        let slots = format!("memory.slots={slots}");
        let words = ["method.name=vine_ppo", "rl.max_new_tokens=12", "rl.group_size=3", &slots];
        let config = Config::resolve("tiny", &words).unwrap();
        let completions = RequestedCompletions::new(&config, &tokens);
        let settings = StepSettings { completions, ..StepSettings::new(&config, &[]) };
        let bounds = Bounds::default();
        let context = StepContext::new(&settings, config.configured().method.as_ref(), &rewards);
        let context = StepContext { follower: Some(&bounds), ..context };
        context.sample(&mut engine, vec![addition(0), addition(1)], 3, 5).unwrap();
        assert_eq!(bounds.0.into_inner(), expected);
    }
}

#[test]
fn steps_start_after_lines_and_after_every_so_many_unsure_tokens() {
    let tokens = ModelTokenizer::tiny();
    let ids = |text: &str| tokens.target(text).unwrap().ids().to_vec();
    let lines = ids("1+2=3\n4\n");
    let response = SampledResponse {
        logps: vec![-1.0; lines.len()],
        tokens: lines.clone(),
        ..SampledResponse::default()
    };
    let breaks: Vec<usize> =
        (1..lines.len()).filter(|t| tokens.text(&lines[t - 1..*t]).unwrap().contains('\n')).collect();
    let found = StepStarts::Lines(tokens).places(&response).unwrap();
    assert_eq!(found, [vec![0], breaks.clone()].concat());
    assert!(!breaks.is_empty());
    // Sure of every third token: the others end a step by twos.
    let logps = (0..9).map(|t| if t % 3 == 0 { -0.01 } else { -1.0 }).collect();
    let response = SampledResponse { logps, tokens: vec![5; 9], ..SampledResponse::default() };
    assert_eq!(StepStarts::Unsure { every: 2, sure: 0.9 }.places(&response).unwrap(), [0, 3, 6]);
    assert_eq!(StepStarts::Interval(4).places(&response).unwrap(), [0, 4, 8]);
}

#[test]
fn the_tokens_where_a_group_parts_are_counted() {
    let response = |tokens: &[u32]| grpo_lambda::group::Response {
        tokens: tokens.to_vec(),
        ..grpo_lambda::group::Response::graded(vec![-1.0; tokens.len()], 1.0)
    };
    // 1 is shared by two, which part at the second token; all part at the first.
    let group = Group { responses: [&[1, 2, 3][..], &[1, 4, 5, 6], &[7]].map(response).to_vec() };
    let equal = Group { responses: [&[1, 2][..], &[1, 2]].map(response).to_vec() };
    assert_eq!(SharedPrefixes::new(&[group, equal]), SharedPrefixes { tokens: 12, shared: 6, parting: 5 });
}

/// Every pair of letters ends a response, and with segments of one token it stands on either side of a fork.
#[test]
fn a_stop_string_that_a_fork_divides_ends_a_leaf() {
    let letters = || 'a'..='z';
    let pairs: Vec<String> = letters().flat_map(|a| letters().map(move |b| format!("{a}{b}"))).collect();
    let tokens = ModelTokenizer::tiny();
    let (mut engine, rewards) = (engine(), ByTokens { first: 99, ..ByTokens::default() });
    let words = [&TREE[..2], &["rl.segment=1", "rl.group_size=12"], &METHODS[..1]].concat();
    let (_, rollout) = sampled_with(&mut engine, &rewards, &[0, 1, 2, 3, 4, 5, 6, 7], (&words, &pairs));
    let is_stopped = |ids: &[u32]| {
        let text = tokens.text(ids).unwrap();
        pairs.iter().any(|pair| text.contains(pair.as_str()))
    };
    let mut divided = 0;
    for (group, segments) in rollout.groups.iter().zip(&rollout.segments) {
        for (response, names) in group.responses.iter().zip(segments) {
            let last = response.tokens.len() - 1;
            assert!(!is_stopped(&response.tokens[..last]), "it went on after its end");
            let ended = is_stopped(&response.tokens);
            assert!(!(ended && response.truncated));
            divided += usize::from(ended && last > 0 && names[last] != names[last - 1]);
        }
    }
    assert!(divided > 0, "no stop string stands on both sides of a fork");
}
