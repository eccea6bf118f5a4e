use crate::equation::number;

/// The quantity that stands for the answer when a score measures its move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The distribution of the mean logits over the answer's tokens; moves are KL divergences from the clean one.
    Mean,
    /// The log-likelihood of the answer's tokens, their sum for a shift and their mean for a saliency, as in the authors' code; moves are
    /// differences, of either sign.
    Joint,
    /// One distribution; moves are KL divergences. The authors' code takes that of the answer's first token for a shift and that after
    /// its last token for a saliency.
    Last,
}

/// The scores that reshape, with the policy's settings for them: the numbers of the equation that the extra inputs rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TokenScores {
    /// [`ExtraInputs::shifts`](crate::group::ExtraInputs::shifts) (OAR-P).
    Shifts {
        /// The substitute for the answer.
        answer: Answer,
        /// The id that takes a token's place; none: the policy's own mask.
        mask: Option<f64>,
    },
    /// [`ExtraInputs::saliencies`](crate::group::ExtraInputs::saliencies) (OAR-G).
    Saliencies {
        /// The substitute for the answer.
        answer: Answer,
        /// Standard deviation of the perturbation of the input embeddings.
        noise: f64,
        /// Number of perturbations over which a score is averaged.
        draws: f64,
    },
}

impl TokenScores {
    /// The score of a token as an equation, `I_t = ..`.
    pub(super) fn equation(self) -> String {
        match self {
            TokenScores::Shifts { answer, mask } => {
                let by = mask.map_or("the policy's mask".to_owned(), |id| format!("token {}", number(id)));
                let when = format!("when token t is masked (by {by})");
                match answer {
                    Answer::Mean => format!(
                        "I_t = KL(P || P_t), P the softmax of the mean logits of the answer's tokens, P_t the same {when}"
                    ),
                    Answer::Joint => format!(
                        "I_t = l - l_t, l the log-likelihood of the answer's tokens, l_t the same {when}"
                    ),
                    Answer::Last => format!(
                        "I_t = KL(P || P_t), P the distribution of the answer's first token, P_t the same {when}"
                    ),
                }
            }
            TokenScores::Saliencies { answer, noise, draws } => {
                let divergence = match answer {
                    Answer::Mean => {
                        "J = KL(P || P'), P the softmax of the mean logits of the answer's tokens, P' the same"
                    }
                    Answer::Joint => {
                        "J = l - l', l the mean log-probability of the answer's tokens, l' the same"
                    }
                    Answer::Last => {
                        "J = KL(P || P'), P the distribution after the answer's last token, P' the same"
                    }
                };
                format!(
                    "I_t = |<dJ/de_t, e_t>| (gradient times input), the mean over {} draws; {divergence} with normal noise of {} on the embeddings e of the reasoning tokens",
                    number(draws),
                    number(noise)
                )
            }
        }
    }
}
