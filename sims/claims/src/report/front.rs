//! The answer of the front page: at most 120 words and 12 numbers, with the figure of the second point.

use super::answer::{cosines, long_budget, random_rewards};
use super::chain;
use super::data::{Data, Difference, LearningRow, rows};
use super::markdown::wrapped;
use crate::experiments::learning::scores::Regime;
use crate::experiments::learning::variant::PAPER;
use crate::experiments::length_bonus::spread::{PAPER as PAPER_ON_TASKS, REDUCTIONS};
use anyhow::ensure;
use grpo_lambda::advantage::ClampPart;
use std::path::Path;

/// The tasks on which the paper's settings lower the expected reward under a reduction, and all.
fn lowered(folder: &Path, reduction: usize) -> anyhow::Result<[usize; 2]> {
    let all = cosines(folder, PAPER_ON_TASKS, REDUCTIONS[reduction].1)?;
    let lowered = all.iter().filter(|(cosine, _)| *cosine < 0.0);
    let where_shorter =
        lowered.clone().all(|(_, longer_is_better)| longer_is_better.is_some_and(|c| c < 0.0));
    ensure!(
        where_shorter,
        "length_bonus_tasks.csv: a reversed task rewards longer responses, against the front page"
    );
    Ok([lowered.count(), all.len()])
}

/// The words without a number.
fn check(folder: &Path) -> anyhow::Result<()> {
    let learning = Data::<LearningRow>::read(folder, "learning.csv")?;
    let best = rows!(learning, regime = Regime::OwnBest.name(), method = PAPER[0])?[0];
    ensure!(
        best.gain_low_over_tasks <= 0.0 || best.p_over_tasks > 0.05,
        "learning.csv: a gain of the trace is shown, against the front page"
    );
    long_budget(folder)?;
    let (longer, _) = random_rewards(folder, ClampPart::Both)?;
    ensure!(longer > 0.0, "noise_rewards.csv: trace and clamp shorten responses, against the front page");
    Ok(())
}

/// The table of runs: the accuracy of the clamp, the trace and both, minus GRPO's at the same rate.
fn runs(folder: &Path) -> anyhow::Result<String> {
    let [clamp, trace, both] = chain::minus_grpo(folder)?;
    let at_one_rate = |method, verdict| anyhow::Ok(Difference::at_one_rate(folder, method, verdict)?.mid);
    Ok(format!(
        "\n| runs | clamp | trace | both |\n| --- | --- | --- | --- |\n\
         | chains, small model | {clamp:+.3} | {trace:+.3} | {both:+.3} |\n\
         | sums, SmolLM2-135M | {:+.3} (equivalent) | {:+.3} | {:+.3} |\n",
        at_one_rate("grpo_clamp", "equivalent")?,
        at_one_rate("trace", "lower")?,
        Difference::pretrained(folder, "grpo_lambda", "lower")?.mid,
    ))
}

/// The answer as Markdown.
pub(super) fn front(folder: &Path) -> anyhow::Result<String> {
    check(folder)?;
    let [token_mean, all] = lowered(folder, 0)?;
    let [per_response, _] = lowered(folder, 1)?;
    let items = [
        "**The trace cannot find the wrong token**: it depends on position and length (a theorem)."
            .to_owned(),
        format!(
            "**Trace and clamp together favour long responses.** Averaged over tokens, the update lowers the reward on \
             {token_mean} of {all} tasks; averaged by response, on {per_response}. The paper names neither average."
        ),
        format!(
            "**At tuned rates the trace is not shown to help**; the table shows accuracy minus GRPO's at one rate. On chains a verifier's credit beats RLOO by {:.3}.",
            chain::of_verifier(folder)?
        ),
    ];
    let mut text = wrapped(
        "",
        "",
        "No, as far as tested: the clamp helps at times, and GRPO can use it. GRPO-λ weighs tokens by position (the *trace*) and raises \
         advantages below -0.1 to -0.1 (the *clamp*).",
    ) + "\n";
    for item in items {
        text += &wrapped("- ", "  ", &item);
    }
    text += &runs(folder)?;
    text += "\n[Five points with their scope](paper/README.md#the-answer), [the paper](paper/paper.pdf).\n";
    let figure = format!(
        "The average update lowers the reward on {token_mean} of {all} tasks (token mean), \
         all of which reward short responses"
    );
    Ok(format!("{text}\n![{figure}](paper/figures/length_bonus_tasks.png)\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_page_answers_in_120_words_and_12_numbers() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../paper/data");
        let front = front(&folder).expect("the committed data");
        let (answer, _) = front.split_once("\n[Five points").expect("a link after the answer");
        let words = answer.split_whitespace().filter(|word| !["-", "|", "---"].contains(word)).count();
        let is_number = |word: &&str| word.trim_matches(['(', ')', ',', '.', ';']).parse::<f64>().is_ok();
        let numbers = answer.split_whitespace().filter(is_number).count();
        assert!(words <= 120 && numbers <= 12, "{words} words, {numbers} numbers: {answer}");
    }
}
