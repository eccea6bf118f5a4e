//! Findings: when each holds, with the numbers that show it.

use grpo_lambda_stats::table::significant;

use super::log::LEAST;
use super::{Advice, Check, Column, Evidence, Log};

/// All checks, the gravest first.
pub static REGISTRY: [Check; 12] = [
    Check {
        id: "constant-reward",
        title: "The reward is constant",
        sign: "the mean reward was one and the same number, or none, in each of the last 10 steps or more",
        meaning: "Nothing is learned from a reward that does not vary. The grader may not find the answers (another \
                  layout, another language), the problems may be far too hard or far too easy, or responses may be \
                  cut off before their answer.",
        advice: Advice {
            ours: "look at samples.jsonl; task.template for the layout, task.data for other problems, \
                   rl.max_new_tokens for room",
            trl: "print completions with their rewards (log_completions=True); check reward_funcs and \
                  max_completion_length",
            verl: "print responses with their scores (trainer.log_val_generations); check custom_reward_function and \
                   data.max_response_length",
        },
        needs: &[Column::Reward],
        examine: constant_reward,
    },
    Check {
        id: "no-variance",
        title: "Groups without variance",
        sign: "on average over the last tenth of the steps (10 or more) at least 90 % of the groups have equal \
               rewards, unless the run's method is known to learn from such groups",
        meaning: "With a group baseline, a group whose rewards are all equal has zero advantage, and at most a KL \
                  term moves the policy there. If nine groups in ten are like that, the effective batch is a tenth of \
                  its size. Nearly all problems are solved by now, nearly none can be, or the reward gives all \
                  responses the same score.",
        advice: Advice {
            ours: "rl.dynamic_sampling=true samples until enough groups differ; other problems (task.data, \
                   task.levels), larger rl.group_size",
            trl: "problems of another difficulty, larger num_generations, or a trainer with dynamic sampling",
            verl: "algorithm.filter_groups.enable=True (DAPO), problems of another difficulty, larger \
                   actor_rollout_ref.rollout.n",
        },
        needs: &[Column::ZeroVariance],
        examine: no_variance,
    },
    Check {
        id: "divergence",
        title: "The run diverges",
        sign: "the loss, the KL or the entropy is not finite, or the mean reward of the last tenth of the steps is \
               at most half that of the first and lies 4 standard errors below it, or such a fall is half as large while \
               the entropy rose to 1.5 times its first value",
        meaning: "The policy is worse than the one that it began with, and turns into noise. Steps are too large for \
                  what their gradients are worth.",
        advice: Advice {
            ours: "a smaller rl.lr (usual are 1e-7 to 1e-2), rl.grad_clip=1, a larger rl.group_size; go on from an \
                   earlier checkpoint",
            trl: "a smaller learning_rate, max_grad_norm=1.0 or less, a larger num_generations",
            verl: "a smaller actor_rollout_ref.actor.optim.lr, actor.grad_clip=1.0, a larger rollout.n",
        },
        needs: &[Column::Reward, Column::Loss],
        examine: divergence,
    },
    Check {
        id: "memorised",
        title: "Problems of training are solved, held-out ones are not",
        sign: "the share of right responses in training, over the last tenth of the steps (10 or more), lies more \
               than 2 standard errors above the upper end of the 95 % interval of a held-out accuracy measured in \
               those steps",
        meaning: "The answers of the training problems are learned rather than the way to them, so accuracy on the \
                  training file says nothing about other problems. Few rows and many epochs do this.",
        advice: Advice {
            ours: "more problems (task.data), fewer steps (rl.steps; checkpoint.best=true keeps the best evaluation); \
                   report llm-train compare RUN",
            trl: "more rows in train_dataset, fewer epochs; measure on an eval_dataset that shares no problem with it",
            verl: "more rows in data.train_files, fewer trainer.total_epochs; measure on data.val_files that share no \
                   problem with them",
        },
        needs: &[Column::Accuracy, Column::HeldOutHigh],
        examine: memorised,
    },
    Check {
        id: "kl-explodes",
        title: "The KL divergence explodes",
        sign: "the mean KL over the last tenth of the steps is at least 0.5 nats per token and at least 5 times that \
               of the first tenth",
        meaning: "The policy has gone far from the model that it began with, much further than a task needs; what it \
                  knew beside the task is usually lost by then, and the KL estimate is dominated by single tokens.",
        advice: Advice {
            ours: "a smaller rl.lr, a larger method.beta, rl.grad_clip=1; go on from an earlier checkpoint",
            trl: "a smaller learning_rate, a larger beta, max_grad_norm=1.0 or less",
            verl: "a smaller actor_rollout_ref.actor.optim.lr, a larger actor.kl_loss_coef, actor.grad_clip=1.0",
        },
        needs: &[Column::Kl],
        examine: kl_explodes,
    },
    Check {
        id: "entropy-collapse",
        title: "The entropy collapses",
        sign: "the mean entropy over the last tenth of the steps is at most 0.01 nats per token and at most a tenth \
               of that of the first tenth",
        meaning: "The responses of a group are all but equal, so there is nothing left to choose from and learning \
                  ends, usually well below what the model could do.",
        advice: Advice {
            ours: "a smaller rl.lr, a wider upper clip bound (method.name=dapo), a larger method.beta, \
                   rl.temperature=1; go on from an earlier checkpoint",
            trl: "a smaller learning_rate, epsilon_high=0.28, temperature=1.0, a larger beta",
            verl: "a smaller actor_rollout_ref.actor.optim.lr, actor.clip_ratio_high=0.28, actor.entropy_coeff above 0",
        },
        needs: &[Column::Entropy],
        examine: entropy_collapse,
    },
    Check {
        id: "gradient-norm",
        title: "The gradient jumps or is no number",
        sign: "a norm is not finite, an update was skipped for such a gradient, or a norm is at least 20 times the \
               median of all steps (10 or more)",
        meaning: "One step with such a gradient can undo many. It comes from a token with a probability near 0, from \
                  a group whose tiny standard deviation divides its advantages, or from 16-bit numbers that overflow.",
        advice: Advice {
            ours: "rl.grad_clip=1 or less, a smaller rl.lr; the row of the step in metrics.csv shows what else jumped",
            trl: "max_grad_norm=1.0 or less, scale_rewards=False, bf16 and not fp16",
            verl: "actor_rollout_ref.actor.grad_clip=1.0 or less, algorithm.norm_adv_by_std_in_grpo=False",
        },
        needs: &[Column::GradNorm],
        examine: gradient_norm,
    },
    Check {
        id: "ratio-off-policy",
        title: "The ratio is not 1 on-policy",
        sign: "with one update per sampled batch, which makes the ratio 1 by definition, its mean over a step differs \
               from 1 by more than 0.01",
        meaning: "The log-probabilities of the sampler are not those of the policy that is trained: stale weights, \
                  another temperature, another precision, tokens that were made anew from text. The clip then acts on \
                  an error and not on a step of the policy.",
        advice: Advice {
            ours: "dtype=f32, or the CPU; with the same seed elsewhere, report it: in this program it is a bug",
            trl: "vllm_importance_sampling_correction, the same temperature and dtype in sampler and trainer",
            verl: "actor_rollout_ref.rollout.calculate_log_probs=True and rollout correction; the same temperature \
                   and dtype",
        },
        needs: &[Column::RatioMean],
        examine: ratio_off_policy,
    },
    Check {
        id: "drift",
        title: "Sampler and trainer disagree",
        sign: "at the same weights their probabilities of a token differ by a factor of 1.05 or more, on average over \
               the last tenth of the steps",
        meaning: "The gradient is that of a policy which did not write the responses. Runs collapse of it after \
                  hundreds of steps, long after every other curve looked well. It comes from another precision, other \
                  kernels, another attention, or weights that were not sent over.",
        advice: Advice {
            ours: "dtype=f32; rl.max_logp_error stops a run at a bound of yours",
            trl: "vllm_importance_sampling_correction=True with a cap; the same dtype in vLLM and trainer",
            verl: "rollout correction (algorithm.rollout_correction), the same dtype in engine and actor",
        },
        needs: &[Column::Drift],
        examine: drift,
    },
    Check {
        id: "clip-share",
        title: "Many tokens are clipped",
        sign: "on average over the last tenth of the steps the loss of at least 20 % of the tokens sits on a clip bound",
        meaning: "A clipped token has no gradient. Where so many are clipped the policy moves much further within one \
                  batch than the surrogate is good for; healthy runs clip less than a few per cent.",
        advice: Advice {
            ours: "a smaller rl.lr or fewer rl.inner_updates; wider clip bounds only once the ratio is small",
            trl: "a smaller learning_rate, fewer num_iterations or steps_per_generation",
            verl: "a smaller actor_rollout_ref.actor.optim.lr, fewer actor.ppo_epochs, a larger ppo_mini_batch_size",
        },
        needs: &[Column::Clipped],
        examine: clip_share,
    },
    Check {
        id: "truncation",
        title: "Responses are cut off",
        sign: "on average over the last tenth of the steps at least 20 % of the responses end at the length limit",
        meaning: "A response that is cut off has no answer and gets the reward of a wrong one, whatever it was about \
                  to say. The policy learns to be short and not to be right, or, where the end is rewarded, to hide \
                  it.",
        advice: Advice {
            ours: "a larger rl.max_new_tokens; reward.overlong for a penalty that grows towards the limit instead of \
                   a cliff",
            trl: "a larger max_completion_length; mask_truncated_completions=True leaves such responses out of the loss",
            verl: "a larger data.max_response_length; reward_model.overlong_buffer (DAPO) for a penalty that grows",
        },
        needs: &[Column::Truncated],
        examine: truncation,
    },
    Check {
        id: "length-bonus",
        title: "Length grows without reward",
        sign: "responses are at least 1.5 times as long in the last tenth of the steps as in the first, while the \
               mean reward rose by less than 2 standard errors",
        meaning: "A loss that divides by the length of each response, as GRPO's does, punishes long wrong responses \
                  less than short ones: they grow although nothing is gained. Lengths that grow with the reward are \
                  another matter.",
        advice: Advice {
            ours: "a method that does not divide by each response's length: method.name=dr_grpo, or method.name=dapo \
                   with token means",
            trl: "loss_type=\"dr_grpo\" or \"dapo\"",
            verl: "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum-norm or token-mean",
        },
        needs: &[Column::Length, Column::Reward],
        examine: length_bonus,
    },
];

/// A reward that is the same at every step.
fn constant_reward(log: &Log) -> Option<Evidence> {
    let points = log.get(Column::Reward);
    let last = points.last()?;
    let is_same = |x: f64| x == last.1 || x.is_nan() && last.1.is_nan();
    let same = points.iter().rev().take_while(|p| is_same(p.1)).count();
    let first = points.get(points.len() - same)?;
    (same >= LEAST).then(|| Evidence {
        text: match last.1.is_nan() {
            true => format!("no response had a reward in any of the last {same} steps"),
            false => {
                format!("the mean reward is {} in each of the last {same} steps", significant(last.1, 3))
            }
        },
        steps: (first.0, last.0),
    })
}

/// Groups in which every response has the same reward.
fn no_variance(log: &Log) -> Option<Evidence> {
    // Share of groups from which so little is learned that most of the sampling is for nothing.
    const MOST: f64 = 0.9;
    let recent = log.recent(Column::ZeroVariance)?;
    (log.compares_groups && recent.mean() >= MOST)
        .then(|| Evidence::share(&recent, "groups have equal rewards"))
}

/// Steps at which a quantity is no number.
fn not_finite(log: &Log, mut steps: Vec<f64>, what: &str) -> Option<Evidence> {
    steps.sort_by(f64::total_cmp);
    steps.dedup();
    let text = format!("in {} of {} steps the {what} is not finite", steps.len(), log.steps);
    Some(Evidence { text, steps: (*steps.first()?, *steps.last()?) })
}

/// A run that has lost what it could do.
fn divergence(log: &Log) -> Option<Evidence> {
    // Standard errors by which the reward fell.
    const ERRORS: f64 = 4.0;
    // Share of the best tenth's reward that is left.
    const LEFT: f64 = 0.5;
    // Times the entropy of the first steps.
    const NOISE: f64 = 1.5;
    for (column, what) in [(Column::Loss, "loss"), (Column::Kl, "KL"), (Column::Entropy, "entropy")] {
        let broken = log.get(column).iter().filter(|p| !p.1.is_finite());
        if let Some(found) = not_finite(log, broken.map(|p| p.0).collect(), what) {
            return Some(found);
        }
    }
    let reward = log.ends(Column::Reward)?;
    let (early, recent) = (reward.early.mean(), reward.recent.mean());
    let noise = log.ends(Column::Entropy).filter(|e| e.recent.mean() >= NOISE * e.early.mean());
    let left = if noise.is_some() { (1.0 + LEFT) / 2.0 } else { LEFT };
    // Only a reward that began above 0 has halves.
    let fell = early > 0.0 && recent <= left * early && reward.errors() <= -ERRORS;
    fell.then(|| {
        let entropy = noise.map_or(String::new(), |e| {
            let [a, b] = [&e.early, &e.recent].map(|window| significant(window.mean(), 3));
            format!(", while the entropy rose from {a} to {b} nats per token")
        });
        let (a, b) = (significant(early, 3), significant(recent, 3));
        Evidence {
            text: format!("the mean reward fell from {a} to {b}{entropy}"),
            steps: reward.recent.steps,
        }
    })
}

/// Problems of training that are solved where held-out ones are not.
fn memorised(log: &Log) -> Option<Evidence> {
    // Standard errors of the mean over steps that the training accuracy stays above the bound.
    const ERRORS: f64 = 2.0;
    let recent = log.recent(Column::Accuracy)?;
    let (step, bound) = *log.get(Column::HeldOutHigh).last()?;
    let above = recent.mean() - ERRORS * recent.error() > bound;
    (above && step >= recent.steps.0).then(|| Evidence {
        text: format!(
            "{} % of the responses in training are right, and the held-out accuracy is at most {} % (95 % interval)",
            significant(100.0 * recent.mean(), 3),
            significant(100.0 * bound, 3)
        ),
        steps: recent.steps,
    })
}

/// A policy that has left its reference.
fn kl_explodes(log: &Log) -> Option<Evidence> {
    // Nats per token. Published runs stay below 0.1; half a nat is a policy that writes another language.
    const LARGE: f64 = 0.5;
    // Times the KL of the first steps.
    const GROWN: f64 = 5.0;
    let ends = log.ends(Column::Kl)?;
    let (early, recent) = (ends.early.mean(), ends.recent.mean());
    (recent >= LARGE && recent >= GROWN * early).then(|| Evidence::nats("KL", &ends))
}

/// A policy that says one and the same.
fn entropy_collapse(log: &Log) -> Option<Evidence> {
    // Nats per token: ten tokens in a row are the most probable ones nine times of ten.
    const SMALL: f64 = 0.01;
    // Share of the first steps' entropy.
    const FALLEN: f64 = 0.1;
    let ends = log.ends(Column::Entropy)?;
    let (early, recent) = (ends.early.mean(), ends.recent.mean());
    (recent <= SMALL && recent <= FALLEN * early).then(|| Evidence::nats("entropy", &ends))
}

/// Gradients that jump, or are no numbers.
fn gradient_norm(log: &Log) -> Option<Evidence> {
    // Times the median norm.
    const SPIKE: f64 = 20.0;
    let points = log.get(Column::GradNorm);
    let skipped = log.get(Column::Skipped).iter().filter(|p| p.1 > 0.0).map(|p| p.0);
    let broken = points.iter().filter(|p| !p.1.is_finite()).map(|p| p.0);
    if let Some(found) = not_finite(log, skipped.chain(broken).collect(), "gradient") {
        return Some(found);
    }
    let mut norms: Vec<f64> = points.iter().map(|p| p.1).collect();
    norms.sort_by(f64::total_cmp);
    let median = *norms.get(norms.len() / 2).filter(|median| norms.len() >= LEAST && **median > 0.0)?;
    let spikes: Vec<_> = points.iter().filter(|p| p.1 >= SPIKE * median).collect();
    let largest = spikes.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Evidence {
        text: format!(
            "{} of {} norms are at least {SPIKE} times the median of {}; the largest is {} at step {}",
            spikes.len(),
            points.len(),
            significant(median, 3),
            significant(largest.1, 3),
            largest.0
        ),
        steps: (spikes.first()?.0, spikes.last()?.0),
    })
}

/// Ratios other than 1 where sampler and policy are one.
fn ratio_off_policy(log: &Log) -> Option<Evidence> {
    // Distance of the mean ratio from 1 that rounding in bf16 does not reach.
    const FAR: f64 = 0.01;
    if !log.on_policy {
        return None;
    }
    let off: Vec<_> = log.get(Column::RatioMean).iter().filter(|p| (p.1 - 1.0).abs() > FAR).collect();
    let worst = off.iter().max_by(|a, b| (a.1 - 1.0).abs().total_cmp(&(b.1 - 1.0).abs()))?;
    Some(Evidence {
        text: format!(
            "the mean ratio differs from 1 in {} of {} steps; the furthest is {} at step {}",
            off.len(),
            log.get(Column::RatioMean).len(),
            significant(worst.1, 4),
            worst.0
        ),
        steps: (off.first()?.0, off.last()?.0),
    })
}

/// Sampler and trainer that disagree at the same weights.
fn drift(log: &Log) -> Option<Evidence> {
    // Factor between the two probabilities of a token, on average. bf16 alone makes about 1.01.
    const FAR: f64 = 1.05;
    let recent = log.recent(Column::Drift)?;
    let mean = recent.mean();
    (mean >= FAR).then(|| Evidence {
        text: format!(
            "their probabilities of a token differ by a factor of {} on average",
            significant(mean, 4)
        ),
        steps: recent.steps,
    })
}

/// A clip that binds for many tokens.
fn clip_share(log: &Log) -> Option<Evidence> {
    // Share of tokens.
    const MANY: f64 = 0.2;
    let clipped = log.recent(Column::Clipped)?;
    // verl does not say which bound binds.
    let split = match [Column::ClipLow, Column::ClipHigh].map(|column| log.recent(column)) {
        [Some(low), Some(high)] => {
            let [low, high] = [low, high].map(|bound| significant(100.0 * bound.mean(), 3));
            format!(" ({low} % below, {high} % above)")
        }
        _ => String::new(),
    };
    (clipped.mean() >= MANY).then(|| Evidence::share(&clipped, &format!("tokens are clipped{split}")))
}

/// Responses that are cut off.
fn truncation(log: &Log) -> Option<Evidence> {
    // Share of responses.
    const MANY: f64 = 0.2;
    // Nearly all, and yet rewarded: what is paid for may be no answer.
    const ALL: f64 = 0.9;
    let recent = log.recent(Column::Truncated)?;
    let paid = log.recent(Column::Reward).map_or(0.0, |reward| reward.mean());
    let what = if recent.mean() >= ALL && paid >= 0.5 {
        "responses are cut off, and they are rewarded all the same: read whether they give their answer (samples.jsonl)"
    } else {
        "responses are cut off"
    };
    (recent.mean() >= MANY).then(|| Evidence::share(&recent, what))
}

/// Responses that grow without being better.
fn length_bonus(log: &Log) -> Option<Evidence> {
    // Times the length of the first steps.
    const GROWN: f64 = 1.5;
    // Standard errors within which a reward has not risen.
    const ERRORS: f64 = 2.0;
    let (length, reward) = (log.ends(Column::Length)?, log.ends(Column::Reward)?);
    let (early, recent) = (length.early.mean(), length.recent.mean());
    // A reward without any spread has errors of 0: it has risen by infinitely many when it is larger at all.
    let risen = reward.rise() > 0.0 && reward.errors() >= ERRORS;
    (recent >= GROWN * early && !risen).then(|| Evidence {
        text: format!(
            "responses have {} tokens on average, after {} at first, while the mean reward went from {} to {}",
            significant(recent, 3),
            significant(early, 3),
            significant(reward.early.mean(), 3),
            significant(reward.recent.mean(), 3)
        ),
        steps: length.recent.steps,
    })
}

#[cfg(test)]
#[path = "findings_tests.rs"]
mod tests;
