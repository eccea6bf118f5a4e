//! [`Exam`]: all additions, greedily and sampled, put to the weights of a run; and the length of responses.

use grpo_lambda::group::Response;
use grpo_lambda_decoder::generate::SamplingParams;
use grpo_lambda_decoder::model::ForwardOptions;
use grpo_lambda_stats::table::Cell;

use super::force::APART;
use super::lab::{Lab, LabError, Optimiser};
use super::store::Cells;
use grpo_lambda_trainer::eval::{EVAL_BATCH, EvalError, Evaluation, evaluate};
use grpo_lambda_trainer::input::task::{Problem, Split};
use grpo_lambda_trainer::step::engine::CpuEngine;
use grpo_lambda_trainer::step::micro_batch::Batch;
use grpo_lambda_trainer::step::{Rollout, TrainingPrompt, micro_batch};

/// Success rates at the start below and above which a problem is seldom and often solved.
const SELDOM: f64 = 0.25;
const OFTEN: f64 = 0.75;
/// Responses to each problem, at the start and at the end.
const SAMPLES: usize = 16;

/// The columns of an [`Exam`].
pub(super) const COLUMNS: [&str; 12] = [
    "accuracy_before",
    "accuracy",
    "ungradable",
    "sampled_before",
    "sampled",
    "seldom_solved_before",
    "seldom_solved",
    "often_solved_before",
    "often_solved",
    "entropy",
    "kl",
    "length",
];

/// All problems, at most a hundred, with what the start weights make of them.
pub(super) struct Exam {
    prompts: Vec<TrainingPrompt>,
    accuracy: f64,
    solved: Vec<f64>,
}

impl Exam {
    pub(super) fn new(lab: &Lab) -> Result<Exam, LabError> {
        let problems = lab.session.problems.distinct(Split::Test, 100)?;
        let prompt = |(number, problem): (u64, &Problem)| {
            Ok::<_, LabError>(TrainingPrompt {
                tokens: problem.encode(&lab.session.tokens)?.ids().to_vec(),
                problem: Some(problem.text().to_owned()),
                gold: problem.gold.clone(),
                number,
                others: Default::default(),
                answered: Vec::new(),
            })
        };
        let prompts = (APART..).zip(&problems).map(prompt).collect::<Result<_, _>>()?;
        let mut engine = lab.engine(Optimiser::Sgd)?.0;
        let [accuracy, _] = greedy(lab, &engine)?;
        let mut exam = Exam { prompts, accuracy, solved: Vec::new() };
        exam.solved = solved(&exam.sample(lab, &mut engine)?);
        Ok(exam)
    }

    fn sample(&self, lab: &Lab, engine: &mut CpuEngine) -> Result<Rollout, LabError> {
        lab.sample(engine, self.prompts.clone(), SAMPLES, APART)
    }

    /// The columns of the weights with which a run ended.
    pub(super) fn at(&self, lab: &Lab, engine: &mut CpuEngine) -> Result<Cells, LabError> {
        let [accuracy, ungradable] = greedy(lab, engine)?;
        let rollout = self.sample(lab, engine)?;
        let (start, end) = (&self.solved, solved(&rollout));
        let seldom = |rates: &[f64]| among(rates, start, |p| p < SELDOM);
        let often = |rates: &[f64]| among(rates, start, |p| p > OFTEN);
        let responses = || rollout.groups.iter().flat_map(|g| &g.responses);
        let entropies = responses().filter_map(|r| r.extra_inputs.entropies.as_ref()).flatten().copied();
        let values = [
            Some(self.accuracy),
            Some(accuracy),
            Some(ungradable),
            mean(start.iter().copied()),
            mean(end.iter().copied()),
            seldom(start),
            seldom(&end),
            often(start),
            often(&end),
            mean(entropies),
            kl(lab, &rollout)?,
            mean(responses().map(|r| r.len() as f64)),
        ];
        Ok(COLUMNS.into_iter().zip(values.map(Cell::from)).collect())
    }
}

/// The mean over the problems whose rate at the start is chosen; none if no problem is.
fn among(rates: &[f64], start: &[f64], chosen: fn(f64) -> bool) -> Option<f64> {
    mean(rates.iter().zip(start).filter(|(_, start)| chosen(**start)).map(|(rate, _)| *rate))
}

/// Share of right and of ungradable answers of the most probable responses.
pub(super) fn greedy(lab: &Lab, engine: &CpuEngine) -> Result<[f64; 2], LabError> {
    let problems = lab.session.problems.distinct(Split::Test, 100)?;
    let config = &lab.session.config;
    let sampling =
        SamplingParams { max_new_tokens: config.rl.max_new_tokens, min_new_tokens: 0, temperature: 0.0 };
    let stops = &lab.session.rewards.stops;
    let found = evaluate(engine, stops, (&problems, config.seed), (sampling, EVAL_BATCH), &|_, _| ());
    let found = found.map_err(|e| match e {
        EvalError::Rollout(e) => LabError::Rollout(e),
        EvalError::Token(e) => LabError::Token(e),
    })?;
    let (n, found) = (problems.len() as f64, Evaluation::counted(&found));
    Ok([found.correct as f64 / n, found.ungradable as f64 / n])
}

/// The share of right responses to each problem; one that cannot be graded is not right.
fn solved(rollout: &Rollout) -> Vec<f64> {
    let right = |r: &Response| f64::from(u8::from(r.reward == Some(1.0)));
    rollout.groups.iter().filter_map(|g| mean(g.responses.iter().map(right))).collect()
}

/// Mean over tokens of `log π - log π_start`, sampled from `π`: an estimate of the KL to the start.
fn kl(lab: &Lab, rollout: &Rollout) -> Result<Option<f64>, LabError> {
    let config = &lab.session.config;
    let prompts: Vec<&[u32]> = rollout.prompts.iter().map(|p| p.tokens.as_slice()).collect();
    let options = ForwardOptions { temperature: config.rl.temperature, ..ForwardOptions::default() };
    let mut differences = Vec::new();
    let packed = Batch::new(&prompts, &rollout.groups);
    for part in packed.parts(config.memory.micro_batch_tokens) {
        let scores = lab.start.score(&packed.rows(part.clone()), options)?.logps;
        let own = micro_batch::flat(&rollout.groups).skip(part.start).take(part.len());
        for ((_, response), start) in own.zip(scores) {
            differences.extend(response.old_logps.iter().zip(start).map(|(now, then)| now - then));
        }
    }
    Ok(mean(differences.into_iter()))
}

/// Mean length of the responses to prompts that no run trains on.
pub(super) fn length(lab: &Lab, engine: &mut CpuEngine) -> Result<f64, LabError> {
    const PROMPTS: u64 = 128;
    const GROUP: usize = 16;
    let first = 2 * APART;
    let rollout = lab.sample(engine, lab.session.prompts(first..first + PROMPTS)?, GROUP, first)?;
    let all = rollout.groups.iter().flat_map(|g| &g.responses).map(|r| r.len() as f64);
    Ok(all.sum::<f64>() / (PROMPTS as usize * GROUP) as f64)
}

pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0.0), |(sum, n), x| (sum + x, n + 1.0));
    (n > 0.0).then_some(sum / n)
}
