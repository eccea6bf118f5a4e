//! What a method asks of every response, with its settings.

use grpo_lambda::assignment::Answer;
use grpo_lambda::group::EvidenceKind;
use grpo_lambda::methods::Configured;

use crate::input::tokens::ModelTokenizer;

/// Evidence to compute for every response, with its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EvidenceRequest {
    /// How far the answer moves when a token is masked.
    Shifts {
        /// What moves.
        answer: Answer,
        /// The id that takes a token's place.
        mask: u32,
    },
    /// How steeply the answer depends on a token's embedding.
    Saliencies {
        /// What moves.
        answer: Answer,
        /// Standard deviation of the perturbations.
        noise: f64,
        /// Perturbations averaged, at least 1.
        draws: u64,
    },
    /// The last layer's state at every token.
    Hidden,
}

/// A setting of the method that this model or tokenizer cannot take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("method.{key} = {value}: must be {expected}")]
pub struct EvidenceSettingError {
    /// The setting.
    pub key: &'static str,
    pub value: String,
    pub expected: String,
}

impl EvidenceRequest {
    /// The evidence that a method needs from a model with `vocabulary` tokens, if any.
    ///
    /// # Errors
    /// [`EvidenceSettingError`], for a number that is not whole or a token the model does not have.
    pub fn of(
        configured: &Configured,
        tokens: &ModelTokenizer,
        vocabulary: usize,
    ) -> Result<Option<EvidenceRequest>, EvidenceSettingError> {
        let (evidence, settings) = (configured.evidence(), &configured.settings);
        let answer = || settings.choice("pfinal");
        let whole = |key: &'static str, end: f64, expected: &dyn Fn() -> String| {
            let value = settings.optional(key);
            match value {
                Some(x) if x.fract() != 0.0 || x >= end => {
                    Err(EvidenceSettingError { key, value: x.to_string(), expected: expected() })
                }
                whole => Ok(whole),
            }
        };
        if evidence.contains(&EvidenceKind::Shifts) {
            let right = || format!("none or the id of a token, a whole number below {vocabulary}");
            let given = whole("mask_token", vocabulary as f64, &right)?.map(|id| id as u32);
            let mask = given.or(tokens.pad().filter(|&id| (id as usize) < vocabulary));
            return Ok(Some(EvidenceRequest::Shifts {
                answer: answer(),
                mask: mask.unwrap_or(tokens.eos()[0]),
            }));
        }
        if evidence.contains(&EvidenceKind::Saliencies) {
            let draws = whole("n_noise", f64::INFINITY, &|| "a whole number of at least 1".to_owned())?;
            let (noise, draws) = (settings.number("noise_std"), draws.unwrap_or(1.0) as u64);
            return Ok(Some(EvidenceRequest::Saliencies { answer: answer(), noise, draws }));
        }
        Ok(evidence.contains(&EvidenceKind::Hidden).then_some(EvidenceRequest::Hidden))
    }
}
