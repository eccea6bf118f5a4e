//! Which evidence the language model provides, and at what price.

use grpo_lambda::group::EvidenceKind;

/// What the language model provides beside log-probabilities and rewards.
pub const PROVIDED: &[EvidenceKind] = &[
    EvidenceKind::Tokens,
    EvidenceKind::Entropies,
    EvidenceKind::RefLogps,
    EvidenceKind::SamplerLogps,
    EvidenceKind::Shifts,
    EvidenceKind::Saliencies,
    EvidenceKind::Hidden,
];

/// Why the language model has none of this evidence; empty for what it provides.
pub fn why_unavailable(kind: EvidenceKind) -> &'static str {
    match kind {
        EvidenceKind::Values => "llm-train trains no critic beside the policy",
        EvidenceKind::Collisions => "llm-train keeps the entropy of a distribution, not its sum of squares",
        EvidenceKind::Steps => "llm-train samples whole responses and does not complete prefixes of them",
        EvidenceKind::TeacherLogps => "llm-train does not score a response with its answer in the prompt",
        EvidenceKind::RewardParts => "llm-train adds the components of a reward before a method sees them",
        kind if PROVIDED.contains(&kind) => "",
        _ => "nothing in llm-train computes it",
    }
}

/// The computation that this evidence takes, in words; `None` where sampling provides it.
pub fn describe_cost(kind: EvidenceKind) -> Option<&'static str> {
    match kind {
        EvidenceKind::Shifts => Some(
            "one forward pass over prompt and response up to the answer per reasoning token, and one more, of every response that ends in \
             \\boxed{} and whose group's rewards differ",
        ),
        EvidenceKind::Saliencies => Some(
            "method.n_noise forward and backward passes over prompt and response up to the answer, and a clean one, of every response that \
             ends in \\boxed{} and whose group's rewards differ",
        ),
        EvidenceKind::Hidden => {
            Some("one forward pass over prompt and response, of every response whose group's rewards differ")
        }
        _ => None,
    }
}
