//! The extra inputs that the language model provides, and the settings with which a method asks for them.

use grpo_lambda::assignment::Answer;
use grpo_lambda::group::InputKind;
use grpo_lambda::methods::{Configured, gdpo, remax};
use grpo_lambda_grade::Extraction;

use crate::input::tokens::ModelTokenizer;

/// The extra inputs that the language model provides besides log-probabilities and rewards.
pub const PROVIDED: &[InputKind] = &[
    InputKind::Tokens,
    InputKind::Entropies,
    InputKind::Collisions,
    InputKind::RefLogps,
    InputKind::TeacherLogps,
    InputKind::SamplerLogps,
    InputKind::RewardParts,
    InputKind::Steps,
    InputKind::Shifts,
    InputKind::Saliencies,
    InputKind::Hidden,
    InputKind::Values,
];

/// The extra inputs that the language model provides for a method: further rewards are the components of the reward or the greedy response's, which
/// only the methods made for these read.
pub fn provided(method: &Configured) -> Vec<InputKind> {
    let reads_parts = [gdpo::SPEC.name, remax::SPEC.name].contains(&method.spec.name);
    PROVIDED.iter().copied().filter(|kind| reads_parts || *kind != InputKind::RewardParts).collect()
}

/// The reason why the language model has none of these inputs; empty for extra inputs that it provides to every method.
pub fn why_unavailable(kind: InputKind) -> &'static str {
    match kind {
        InputKind::RewardParts => {
            "llm-train has the components of a reward and the greedy response's, not the rewards of an earlier visit of a prompt"
        }
        kind if PROVIDED.contains(&kind) => "",
        _ => "nothing in llm-train computes it",
    }
}

/// The computation that this input takes, in words; `None` if sampling provides it.
pub fn describe_cost(kind: InputKind) -> Option<&'static str> {
    match kind {
        InputKind::Shifts => Some(
            "one forward pass over prompt and response up to the answer per reasoning token, and one more, of every response that ends in \
             \\boxed{} and whose group's rewards differ",
        ),
        InputKind::Saliencies => Some(
            "method.n_noise forward and backward passes over prompt and response up to the answer, and a clean one, of every response that \
             ends in \\boxed{} and whose group's rewards differ",
        ),
        InputKind::Hidden => {
            Some("one forward pass over prompt and response, of every response whose group's rewards differ")
        }
        InputKind::Collisions => Some("one forward pass over prompt and response, of every response"),
        InputKind::TeacherLogps => Some(
            "one forward pass over prompt, reference answer and response, of every response: the teacher is the policy that sampled, which has read the answer",
        ),
        InputKind::Steps => Some(
            "rl.completions responses from the start of every step (rl.step_start), which responses of a group share as long as they agree",
        ),
        InputKind::RewardParts => Some(
            "none for the components of the reward (gdpo); one greedy response to every prompt for remax",
        ),
        InputKind::Values => Some(
            "a critic as large as the policy with an optimiser of its own: one forward pass over prompt and response, and critic.updates forward and \
             backward passes, of every response",
        ),
        _ => None,
    }
}

/// True if our decoder on the CPU alone computes these inputs.
pub fn is_of_the_cpu(kind: InputKind) -> bool {
    use InputKind::{Collisions, Hidden, Saliencies, Shifts, Values};
    matches!(kind, Shifts | Saliencies | Hidden | Collisions | Values)
}

/// Extra inputs to compute for every response, with their settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InputRequest {
    /// The distance that the answer moves when a token is masked.
    Shifts {
        answer: Answer,
        /// The id that takes a token's place.
        mask: u32,
    },
    /// The slope of the answer in a token's embedding.
    Saliencies {
        answer: Answer,
        /// Standard deviation of the perturbations.
        noise: f64,
        /// Perturbations averaged, at least 1.
        draws: u64,
    },
    /// The last layer's state at every token.
    Hidden,
    /// The sum of the squared probabilities of every token's distribution.
    Collisions,
}

/// A setting of the method that this model or tokenizer cannot take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("method.{key} = {value}: must be {expected}")]
pub struct InputSettingError {
    /// The setting.
    pub key: &'static str,
    pub value: String,
    pub expected: String,
}

impl InputRequest {
    /// The extra inputs that a method needs from a model with `vocabulary` tokens whose answers stand at `extraction`, if any.
    ///
    /// # Errors
    /// [`InputSettingError`], for a number that is not whole, a token the model does not have, or answers that are not in boxes.
    pub fn from_method(
        configured: &Configured,
        extraction: Extraction,
        tokens: &ModelTokenizer,
        vocabulary: usize,
    ) -> Result<Option<InputRequest>, InputSettingError> {
        let (extra_inputs, settings) = (configured.extra_inputs(), &configured.settings);
        let of_answers = [InputKind::Shifts, InputKind::Saliencies];
        if extraction != Extraction::Boxed && of_answers.iter().any(|kind| extra_inputs.contains(kind)) {
            return Err(InputSettingError {
                key: "name",
                value: configured.spec.name.to_owned(),
                expected: "a method that does not score answers, or task.extract=boxed with a template that asks for \\boxed{}, where it finds them".to_owned(),
            });
        }
        let answer = || settings.choice("pfinal");
        let whole = |key: &'static str, end: f64, expected: &dyn Fn() -> String| {
            let value = settings.optional(key);
            match value {
                Some(x) if x.fract() != 0.0 || x >= end => {
                    Err(InputSettingError { key, value: x.to_string(), expected: expected() })
                }
                whole => Ok(whole),
            }
        };
        if extra_inputs.contains(&InputKind::Shifts) {
            let right = || format!("none or the id of a token, a whole number below {vocabulary}");
            let given = whole("mask_token", vocabulary as f64, &right)?.map(|id| id as u32);
            let mask = given.or(tokens.pad().filter(|&id| (id as usize) < vocabulary));
            return Ok(Some(InputRequest::Shifts {
                answer: answer(),
                mask: mask.unwrap_or(tokens.eos()[0]),
            }));
        }
        if extra_inputs.contains(&InputKind::Saliencies) {
            let draws = whole("n_noise", f64::INFINITY, &|| "a whole number of at least 1".to_owned())?;
            let (noise, draws) = (settings.number("noise_std"), draws.unwrap_or(1.0) as u64);
            return Ok(Some(InputRequest::Saliencies { answer: answer(), noise, draws }));
        }
        let of_states =
            [(InputKind::Hidden, InputRequest::Hidden), (InputKind::Collisions, InputRequest::Collisions)];
        Ok(of_states.into_iter().find(|(kind, _)| extra_inputs.contains(kind)).map(|(_, request)| request))
    }
}
