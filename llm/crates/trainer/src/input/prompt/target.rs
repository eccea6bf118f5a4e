//! Worked solutions as target responses.

use grpo_lambda_grade::{Extraction, Prediction};

/// The form of a template's target responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetStyle {
    before: &'static str,
    between: &'static str,
    after: &'static str,
    /// True if the answer is boxed.
    boxed: bool,
    /// True if the reasoning may hold the answer itself.
    free: bool,
}

impl TargetStyle {
    /// The reasoning, and the answer in a box at its end.
    pub const BOXED: TargetStyle =
        TargetStyle { before: "", between: "\n", after: "", boxed: true, free: true };
    /// After a prefilled `<think>`: the reasoning, then the answer in tags.
    pub const R1: TargetStyle = TargetStyle {
        before: " ",
        between: " </think> <answer> ",
        after: " </answer>",
        boxed: false,
        free: false,
    };
    /// [`TargetStyle::R1`] with the answer boxed.
    pub const OPEN_REASONER: TargetStyle = TargetStyle { boxed: true, ..TargetStyle::R1 };
    /// Both in tags on lines of their own.
    pub const OPEN_R1: TargetStyle = TargetStyle {
        before: "<think>\n",
        between: "\n</think>\n<answer>\n",
        after: "\n</answer>",
        boxed: true,
        free: false,
    };

    pub fn worked(self, solution: &str, answer: &str) -> String {
        let solution = tidy(solution);
        let has_box = || Prediction::extract(&solution, Extraction::Boxed).answer().is_some();
        if solution.is_empty() {
            return self.answer_only(answer);
        }
        if self.free && has_box() {
            return solution;
        }
        self.put(&solution, answer)
    }

    pub fn answer_only(self, answer: &str) -> String {
        match self.free {
            true => self.answer(answer),
            false => self.put("", answer),
        }
    }

    fn put(self, reasoning: &str, answer: &str) -> String {
        format!("{}{reasoning}{}{}{}", self.before, self.between, self.answer(answer), self.after)
    }

    fn answer(self, answer: &str) -> String {
        if self.boxed { format!("\\boxed{{{answer}}}") } else { answer.to_owned() }
    }
}

/// A solution without the annotations of GSM8K's tools: `<<2+3=5>>`, and `#### 5` at the end.
pub fn tidy(solution: &str) -> String {
    let Some((text, _)) = solution.rsplit_once("####") else { return solution.trim().to_owned() };
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<<") {
        out.push_str(before);
        // An annotation is on one line; anything else is text.
        match after.split_once(">>").filter(|(inside, _)| !inside.contains('\n')) {
            Some((_, after)) => rest = after,
            None => {
                out.push_str("<<");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out.trim().to_owned()
}
