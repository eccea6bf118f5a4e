//! Training on a data set, as a user starts it.

use std::collections::BTreeSet;

use grpo_lambda_decoder::generate::{Responses, SampledResponse, Sampler, SamplingParams, SamplingRequest};
use grpo_lambda_grade::Prediction;
use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::eval::benchmark::Benchmark;
use grpo_lambda_trainer::eval::completion::ResponseOutcome;
use grpo_lambda_trainer::eval::evaluate;
use grpo_lambda_trainer::eval::sampler::BenchmarkSampler;
use grpo_lambda_trainer::input::stops::Stops;
use grpo_lambda_trainer::input::task::Split;
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use grpo_lambda_trainer::problems::{Problems, Stage, TaskError};
use grpo_lambda_trainer::step::{RewardFunction, TrainingPrompt};
use grpo_lambda_trainer::train::{Session, Stage as TrainingStage};

use crate::common::{Done, Place, assert_has, assert_same_run, stop_after, with, words};

/// Sums as a data set, with a checkpoint to start from.
fn inputs() -> Place {
    let inputs = Place::with_model();
    inputs.sums("train.jsonl", 0..60);
    inputs
}

impl Place {
    fn sums(&self, name: &str, sums: impl Iterator<Item = u32>) {
        let row = |i: u32| {
            let (a, b) = (i / 9, i % 9);
            format!(
                "{{\"question\":\"{a}+{b}=?\",\"answer\":\"{a}+{b}=<<{a}+{b}={s}>>{s}\\n#### {s}\"}}\n",
                s = a + b
            )
        };
        self.write(name, sums.map(row).collect::<String>());
    }

    fn settings(&self, more: &[&str]) -> Vec<String> {
        let (data, model) = (self.at("train.jsonl"), self.at("model"));
        let own =
            format!("task.kind=dataset task.data={} model.checkpoint={}", data.display(), model.display());
        let small = "threads=1 eval.n=5 eval.every=2 sft.steps=12 sft.batch=8 rl.steps=6 rl.prompts_per_step=4 rl.group_size=4 \
                     rl.max_new_tokens=12 checkpoint.every=3 checkpoint.keep=99 method.beta=0.04";
        words(&own).into_iter().chain(with(small, more)).map(str::to_owned).collect()
    }

    fn train(&self, run: &str, more: &[&str]) -> Done {
        let settings = self.settings(more);
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        self.run_with(&format!("train --run {run}"), &settings, "")
    }

    fn config(&self, more: &[&str]) -> Config {
        Config::resolve("tiny", &self.settings(more)).unwrap()
    }

    fn problems(&self, more: &[&str]) -> Result<(Problems, Vec<String>), TaskError> {
        let mut said = Vec::new();
        let problems = Problems::open(&self.config(more), &ModelTokenizer::tiny(), 1000, &mut |line| {
            said.push(line.to_owned())
        })?;
        Ok((problems, said))
    }
}

/// Two epochs of supervised learning and RL from its own order, taken up again at every checkpoint: the same bytes.
#[test]
fn a_run_on_a_data_set_continues_to_the_bytes_of_an_unbroken_one() {
    let inputs = inputs();
    let done = inputs.train("whole", &[]);
    assert!(done.output().contains("after GRPO-lambda"), "{}", done.stderr);
    done.tells("60 rows; layout GSM8K: problem `question`");
    let continued = |last: u64, more: &[&str], whole: &str| {
        let run = format!("broken-{last}-{}", more.len());
        inputs.train(&run, more).output();
        stop_after(&inputs.at(&run), last);
        let again = inputs.train(&run, more);
        again.tells(&format!("continuing from step {last}"));
        assert_same_run(&inputs.at(&run), &inputs.at(whole));
    };
    continued(6, &[], "whole");
    continued(15, &[], "whole");
    // With dynamic sampling, whose further prompts depend on the step alone, of a model that is right at times.
    let learnt = ["sft.steps=60", "sft.lr=0.005", "sft.batch=16"];
    let more = [&learnt[..], &["rl.dynamic_sampling=true"]].concat();
    inputs.train("learnt", &learnt).output();
    inputs.train("resampled", &more).output();
    let samples = ["learnt", "resampled"].map(|run| inputs.read(&format!("{run}/samples.jsonl")));
    assert_ne!(samples[0], samples[1], "no group was replaced");
    continued(63, &more, "resampled");
}

#[test]
fn answers_are_read_and_compared_as_the_task_says() {
    let inputs = inputs();
    let verdict = |more: &[&str], response: &dyn Fn(&str) -> String| {
        let (problems, _) = inputs.problems(more).unwrap();
        let problem = problems.distinct(Split::Test, 1).unwrap().remove(0);
        assert_eq!(
            problem.extraction,
            problems.extraction(),
            "reward and held-out accuracy read in the same way"
        );
        problem.gold.grade_text(&response(&problem.gold.to_string()), problem.extraction).equal
    };
    let prose = |answer: &str| format!("So the answer is {answer}.");
    let equation = |answer: &str| format!("so \\boxed{{2x = 2({answer})}}");
    assert_eq!(verdict(&[], &prose), None, "the template asks for a box");
    assert_eq!(verdict(&["task.extract=free"], &prose), Some(true));
    assert_ne!(verdict(&[], &equation), Some(true));
    assert_eq!(verdict(&["task.rules=lenient"], &equation), Some(true));
    assert_ne!(verdict(&["task.rules=lenient,-solutions"], &equation), Some(true));
    let refused = |word: &str| Config::resolve("tiny", &inputs.settings(&[word])).unwrap_err().to_string();
    assert_has(&refused("task.rules=lenient,-percnt"), "-percnt");
    assert_has(&refused("task.extract=boxd"), "boxd");
}

/// Says the same to every prompt.
struct Says(SampledResponse);

impl Sampler for Says {
    fn generate(&self, request: &SamplingRequest<'_>) -> Responses {
        Ok(request.prompts.iter().map(|_| vec![self.0.clone(); request.group]).collect())
    }
}

/// `x+1` stands in the words around every problem and in one problem itself, where it is no answer: for the reward, for held-out accuracy and for
/// an evaluation in the same way.
#[test]
fn a_response_has_one_verdict_in_training_and_in_evaluation() {
    let inputs = inputs();
    let row = |problem: &str| format!("{}\n", serde_json::json!({"question": problem, "answer": "1+x"}));
    let asked = |i: u32| format!("{i} and what of x?");
    inputs.write("train.jsonl", (0..40).map(|i| row(&asked(i))).collect::<String>());
    inputs.write("test.jsonl", row("what is x + 1?") + &row("what of x?"));
    let template = inputs.write("t.jinja", "give it as x + 1 is: {{ messages[-1].content }}");
    let more = [format!("task.template={template}"), format!("task.test={}", inputs.text("test.jsonl"))];
    let session = Session::open(&inputs.config(&more.each_ref().map(String::as_str))).unwrap();
    let tokens = ModelTokenizer::tiny();
    let said = tokens.target("\\boxed{x+1}").unwrap().ids().to_vec();
    let said = SampledResponse { logps: vec![0.0; said.len()], tokens: said, ..Default::default() };

    let prompt = session.prompts(0..1).unwrap().remove(0);
    let reward = session.rewards.rewards(0, &prompt, std::slice::from_ref(&said)).unwrap()[0].total;
    assert_eq!(reward, Some(1.0), "{:?}", prompt.problem);
    let model = Says(said.clone());
    let problems = session.problems.distinct(Split::Test, 9).unwrap();
    let sampling = SamplingParams::new(60, 0.0);
    let stops = Stops::new(&tokens, &[]);
    let held_out = evaluate(&model, &stops, (&problems, 0), (sampling, 1), &|_, _| ()).unwrap();
    let benchmark = Benchmark::of_rows("rows", session.problems.rows(Split::Test, 9).unwrap());
    let settings = crate::eval::greedy_settings();
    let sampler = BenchmarkSampler { model: &model, settings: &settings, stops: &stops, slots: 1 };
    let ids: Vec<_> = problems.iter().map(|p| p.encode(&tokens).unwrap()).collect();
    let evaluated = sampler.generate(&benchmark, 0, &ids, None).unwrap().concat();
    for ((problem, held_out), evaluated) in problems.iter().zip(held_out).zip(evaluated) {
        let right = problem.text() == "what of x?";
        let expected = if right { ResponseOutcome::Right } else { ResponseOutcome::Wrong };
        assert_eq!((held_out.verdict, evaluated.verdict), (expected, expected), "{}", problem.text());
        let asked = TrainingPrompt { problem: Some(problem.text().to_owned()), ..prompt.clone() };
        let reward = session.rewards.rewards(0, &asked, std::slice::from_ref(&said)).unwrap()[0].total;
        assert_eq!(reward, Some(f64::from(u8::from(right))), "{}", problem.text());
    }
    assert_eq!(problems.len(), 2);
}

/// Every sampled reward is what the sum says, worked out here.
#[test]
fn responses_are_graded_against_the_answers_of_the_rows() {
    let inputs = inputs();
    let settings = ["sft.steps=150", "sft.lr=0.005", "sft.batch=16", "checkpoint.every=1000", "eval.every=0"];
    inputs.train("run", &settings).output();
    let mut rewards = BTreeSet::new();
    for sample in inputs.lines::<serde_json::Value>("run/samples.jsonl") {
        let (prompt, response) = (sample["prompt"].as_str().unwrap(), sample["response"].as_str().unwrap());
        let (a, b) = prompt.strip_suffix("=?\n").and_then(|sum| sum.split_once('+')).unwrap();
        let sum = a.parse::<u32>().unwrap() + b.parse::<u32>().unwrap();
        let boxed = response.rsplit_once("\\boxed{").and_then(|(_, after)| after.split_once('}'));
        let right = boxed.is_some_and(|(inside, _)| inside == sum.to_string());
        // An answer that is no number cannot be compared and has no reward.
        match sample["reward"].as_f64() {
            Some(reward) => assert_eq!(reward, f64::from(u8::from(right)), "{sample}"),
            None => assert!(!right, "{sample}"),
        }
        rewards.insert(right);
    }
    assert_eq!(rewards.len(), 2, "both right and wrong responses, or this test shows nothing");
}

#[test]
fn every_epoch_has_every_row_once_and_stages_have_their_own_order() {
    let inputs = inputs();
    let (problems, _) = inputs.problems(&[]).unwrap();
    let held_out = problems.distinct(Split::Test, 100).unwrap();
    let validation = problems.distinct(Split::Validation, 100).unwrap();
    let n = 60 - held_out.len() - validation.len();
    let read = |stage, epoch: usize| -> Vec<String> {
        let first = (epoch * n) as u64;
        (first..first + n as u64).map(|i| problems.problem(stage, i).unwrap().prompt).collect()
    };
    let set = |prompts: &[String]| prompts.iter().cloned().collect::<BTreeSet<_>>();
    let (first, second) = (read(Stage::Sft, 0), read(Stage::Sft, 1));
    assert_eq!((set(&first).len(), set(&first)), (n, set(&second)));
    assert!(first != second && first != read(Stage::Rl, 0));
    assert!(held_out.iter().chain(&validation).all(|p| !set(&first).contains(&p.prompt)));
    assert!(!held_out.is_empty() && !validation.is_empty());
    // Another run's seed reads in another order and is measured on the same problems.
    let (other, _) = inputs.problems(&["seed=5"]).unwrap();
    assert_ne!(other.problem(Stage::Sft, 0).unwrap().prompt, first[0]);
    assert_eq!(other.distinct(Split::Test, 100).unwrap(), held_out);
    // Fewer of them are the first of them.
    assert_eq!(problems.distinct(Split::Test, 2).unwrap(), held_out[..2]);
}

/// The prompts that the steps of RL ask for, with and without dynamic sampling, whose further rounds have rows of other epochs: no group of such a
/// model has a right response, so that the first round is taken.
#[test]
fn the_steps_of_rl_read_every_row_once_an_epoch() {
    let inputs = inputs();
    let (problems, _) = inputs.problems(&[]).unwrap();
    let n = problems.sizes().unwrap()[0];
    for dynamic in ["rl.dynamic_sampling=false", "rl.dynamic_sampling=true"] {
        let more = ["rl.prompts_per_step=1", "rl.group_size=2", "rl.max_new_tokens=1", dynamic];
        let session = Session::open(&inputs.config(&more)).unwrap();
        let mut engine = session.engine(TrainingStage::Rl).unwrap();
        let mut asked =
            |step: usize| session.rollout(engine.as_mut(), step as u64).unwrap().prompts.remove(0).tokens;
        let read: Vec<Vec<u32>> = (0..2 * n).map(&mut asked).collect();
        let set = |tokens: &[Vec<u32>]| tokens.iter().cloned().collect::<BTreeSet<_>>();
        assert_eq!((set(&read[..n]).len(), set(&read[..n])), (n, set(&read[n..])), "{dynamic}");
    }
}

/// A teacher reads the answer below the problem, so rows are longer with one.
#[test]
fn rows_that_a_teacher_cannot_read_are_refused_before_the_first_step() {
    let inputs = inputs();
    let long = "1".repeat(300);
    let rows = |last: &str| {
        (0..20)
            .map(|i| format!("{{\"question\":\"{i}+1=?\",\"answer\":\"{}\"}}\n", i + 1))
            .chain([last.to_owned()])
            .collect::<String>()
    };
    let problems = |more: &[&str]| {
        inputs.problems(&[&["sft.steps=0", "rl.max_new_tokens=800"], more].concat()).map(|_| ())
    };
    let refused = |more: &[&str]| problems(more).unwrap_err().to_string();
    let rlsd = "method.name=rlsd";
    // Wherever the split puts it, one of these rows is of the training split.
    let last: String =
        (0..9).map(|i| format!("{{\"question\":\"{i}*7=?\",\"answer\":\"{long}\"}}\n")).collect();
    inputs.write("train.jsonl", rows(&last));
    problems(&[]).unwrap();
    let line = refused(&[rlsd]);
    assert_has(
        &line,
        "train.jsonl:2 … the prompt with the answer, which the teacher reads, has 3 … with 800 new ones it exceeds the model's limit of 1000 … task.on_bad_row=skip",
    );
    problems(&[rlsd, "task.on_bad_row=skip"]).unwrap();
    problems(&[rlsd, "rl.steps=0"]).unwrap();
    let last: String = (0..9).map(|i| format!("{{\"question\":\"{i}z7=?\",\"answer\":\"7\"}}\n")).collect();
    inputs.write("train.jsonl", rows(&last));
    inputs.write("t.jinja", "{{ messages[-1].content | replace('z', '*') }}");
    let template = format!("task.template={}", inputs.at("t.jinja").display());
    problems(&[&template]).unwrap();
    assert_has(
        &refused(&[rlsd, &template]),
        "train.jsonl:2 … the teacher of this method reads has no place; choose another template",
    );
}

#[test]
fn held_out_rows_of_a_file_are_not_trained_on() {
    let inputs = inputs();
    inputs.sums("test.jsonl", 55..70);
    let test = format!("task.test={}", inputs.at("test.jsonl").display());
    let (problems, said) = inputs.problems(&[&test]).unwrap();
    assert_has(&said.join("\n"), "train.jsonl: 5 rows are held-out problems and are not trained on");
    let held_out = problems.distinct(Split::Test, 100).unwrap();
    assert_eq!((held_out.len(), problems.distinct(Split::Validation, 9).unwrap().len()), (15, 0));
    for i in 0..55 {
        let problem = problems.problem(Stage::Sft, i).unwrap();
        assert!(held_out.iter().all(|p| p.prompt != problem.prompt), "{problem:?}");
    }
}

#[test]
fn what_is_imitated_is_graded_right_under_every_template() {
    let inputs = inputs();
    for template in ["no", "line", "qwen_math", "r1", "open_reasoner"] {
        let (problems, _) = inputs.problems(&[&format!("task.template={template}")]).unwrap();
        let problem = problems.problem(Stage::Sft, 3).unwrap();
        for response in [problem.solution.as_str(), problem.answer_only()] {
            let said = Prediction::extract(response, problems.extraction());
            assert!(problem.gold.grade(&said).is_equal(), "{template}: {response}");
        }
        assert!(!problem.solution.contains("<<") && problem.solution.len() > problem.answer_only().len());
    }
}
