//! The reasoning and the answer of a response, in tokens.

use std::ops::Range;

use grpo_lambda_grade::answer_place;

use crate::input::tokens::{ModelTokenizer, TokenError};

/// The parts of a response: `[reasoning | conclude | answer | rest]`.
///
/// ```text
/// 3*4=12 \n \boxed { 1 2 } <eos>
/// reasoning.. conclude answer rest
/// ```
/// The answer is the text of the last box that is closed, which is also graded. The tokens that open the box conclude, all
/// tokens before them are reasoning. A token on a border belongs to the later part on its left, to the answer on its right: ` \boxed`
/// concludes, `{5` and `5}` answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseSpan {
    /// The number of reasoning tokens, which come first; 0 if the response begins with its box.
    pub reasoning: usize,
    /// The tokens of the answer, at least one.
    pub answer: Range<usize>,
}

impl ResponseSpan {
    /// The parts of a response; `None` if no box is closed or it is empty.
    ///
    /// Token borders are found by decoding the response up to them, a few times in all.
    ///
    /// ```
    /// use grpo_lambda_trainer::{input::tokens::ModelTokenizer, step::extra_inputs::ResponseSpan};
    /// let tokens = ModelTokenizer::tiny();
    /// let ids = tokens.target("3*4=12\n\\boxed{12}").unwrap().ids().to_vec(); // 7 tokens, `\boxed`, `{`, 1, 2, `}`, end
    /// assert_eq!(ResponseSpan::find(&tokens, &ids).unwrap(), Some(ResponseSpan { reasoning: 7, answer: 9..11 }));
    /// assert_eq!(ResponseSpan::find(&tokens, &ids[..9]).unwrap(), None); // the box is open
    /// ```
    pub fn find(tokens: &ModelTokenizer, ids: &[u32]) -> Result<Option<ResponseSpan>, TokenError> {
        let text = tokens.text(ids)?;
        let Some(place) = answer_place(&text).filter(|place| !place.is_empty()) else { return Ok(None) };
        // The fewest tokens whose text satisfies `reached`, which longer texts do, too.
        let fewest = |reached: &dyn Fn(usize) -> bool| {
            let (mut low, mut high) = (0, ids.len());
            while low < high {
                let middle = (low + high) / 2;
                if reached(tokens.text(&ids[..middle])?.len()) { high = middle } else { low = middle + 1 }
            }
            Ok::<usize, TokenError>(low)
        };
        // `\boxed{`, `\boxed {`, `\fbox{`
        let open = text[..place.start].rfind('\\').unwrap_or(0);
        let reasoning = fewest(&|len| len > open)?.saturating_sub(1);
        let start = fewest(&|len| len > place.start)?.saturating_sub(1);
        let end = fewest(&|len| len >= place.end)?;
        Ok((start < end).then_some(ResponseSpan { reasoning, answer: start..end }))
    }
}
