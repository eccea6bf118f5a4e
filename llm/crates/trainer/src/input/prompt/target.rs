//! Worked solutions as target responses.

use grpo_lambda_grade::{Extraction, Prediction};

/// The form of a template's target responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TargetStyle {
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
    pub(crate) const BOXED: TargetStyle =
        TargetStyle { before: "", between: "\n", after: "", boxed: true, free: true };
    /// After a prefilled `<think>`: the reasoning, then the answer in tags.
    pub(crate) const R1: TargetStyle = TargetStyle {
        before: " ",
        between: " </think> <answer> ",
        after: " </answer>",
        boxed: false,
        free: false,
    };
    /// [`TargetStyle::R1`] with the answer boxed.
    pub(crate) const OPEN_REASONER: TargetStyle = TargetStyle { boxed: true, ..TargetStyle::R1 };
    /// Both in tags on lines of their own.
    pub(crate) const OPEN_R1: TargetStyle = TargetStyle {
        before: "<think>\n",
        between: "\n</think>\n<answer>\n",
        after: "\n</answer>",
        boxed: true,
        free: false,
    };

    pub(super) fn worked(self, solution: &str, answer: &str) -> String {
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

    pub(super) fn answer_only(self, answer: &str) -> String {
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
fn tidy(solution: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda_grade::Gold;

    #[test]
    fn solutions_become_responses_from_which_the_answer_is_read() {
        let gsm8k = "She has 16 - 3 = <<16-3=13>>13 eggs.\nThat is $<<13*2=26>>26.\n#### 26";
        let math = "So $x = 26$, hence $\\boxed{26}$.";
        for (style, how) in [
            (TargetStyle::BOXED, Extraction::Boxed),
            (TargetStyle::R1, Extraction::Tag),
            (TargetStyle::OPEN_REASONER, Extraction::LenientTag),
            (TargetStyle::OPEN_R1, Extraction::LenientTag),
        ] {
            let how = |text: &str| {
                let text = if how == Extraction::Tag { format!("<think>{text}") } else { text.to_owned() };
                Gold::math("26").expect("an answer").grade(&Prediction::extract(&text, how))
            };
            for text in [
                style.worked(gsm8k, "26"),
                style.worked(math, "26"),
                style.worked(" ", "26"),
                style.answer_only("26"),
            ] {
                assert!(how(&text).is_equal(), "{text}");
                assert!(!text.contains("<<") && !text.contains("####"), "{text}");
            }
        }
        assert_eq!(
            TargetStyle::BOXED.worked(gsm8k, "26"),
            "She has 16 - 3 = 13 eggs.\nThat is $26.\n\\boxed{26}"
        );
        assert_eq!(TargetStyle::BOXED.worked(math, "26"), math);
        assert_eq!(
            TargetStyle::OPEN_R1.worked("a", "b"),
            "<think>\na\n</think>\n<answer>\n\\boxed{b}\n</answer>"
        );
    }

    #[test]
    fn what_is_no_annotation_stays() {
        assert_eq!(tidy("a << b and\nc >> d, <<1+1=2>>2\n#### 2"), "a << b and\nc >> d, 2");
        assert_eq!(tidy("a <<1>> without hashes"), "a <<1>> without hashes");
    }
}
