//! What a policy may add to the tokens, log-probabilities and rewards of a response.
//!
//! Each kind of evidence is declared once, in the list at the end of this file. From its line follow the field of [`Evidence`], the
//! [`EvidenceKind`] with its name and its message, the check of its form ([`crate::check`]), its field in the JSON that `sim estimate`
//! reads, and its place in every [`EvidenceSource`].

/// One number per token, length `T`.
pub type PerToken = Vec<f64>;

/// One number per reasoning token: the first `R <= T` tokens. The tokens after them, which conclude and answer, have none.
pub type PerReasoningToken = Vec<f64>;

/// One value per step, in order; the first step starts at token 0.
pub type PerStep = Vec<StepValue>;

/// Some numbers per response, the same number of them for every response of a batch.
pub type PerReward = Vec<f64>;

/// One vector per token, length `T`, all of one width.
pub type StatePerToken = Vec<Vec<f64>>;

/// The value of the prefix at which a step of a response starts, estimated by completing that prefix several times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepValue {
    /// The step's first token.
    pub start: usize,
    /// Mean reward of the completions.
    pub value: f64,
}

/// The evidence of one kind that a response carries, by its form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Series<'a> {
    /// One number per token.
    PerToken(&'a [f64]),
    /// One number per reasoning token.
    PerReasoningToken(&'a [f64]),
    /// One value per step.
    PerStep(&'a [StepValue]),
    /// Some numbers per response.
    PerReward(&'a [f64]),
    /// One vector per token.
    StatePerToken(&'a [Vec<f64>]),
}

/// Where the evidence of one response comes from, asked kind by kind: a file, a simulator, a generator of test data.
///
/// [`Evidence::read`] calls the method that fits the form of each declared kind. `None` means that the response has no such evidence.
pub trait EvidenceSource {
    /// Why evidence could not be read.
    type Error;

    /// A number per token, or per reasoning token; or some numbers per response.
    ///
    /// # Errors
    /// When there is evidence of this kind that cannot be read.
    fn numbers(&mut self, kind: EvidenceKind) -> Result<Option<Vec<f64>>, Self::Error>;

    /// A value per step.
    ///
    /// # Errors
    /// As [`numbers`](EvidenceSource::numbers).
    fn steps(&mut self, kind: EvidenceKind) -> Result<Option<PerStep>, Self::Error>;

    /// A vector per token.
    ///
    /// # Errors
    /// As [`numbers`](EvidenceSource::numbers).
    fn states(&mut self, kind: EvidenceKind) -> Result<Option<StatePerToken>, Self::Error>;
}

/// A type that evidence has in a response.
trait Form: Sized {
    fn read<S: EvidenceSource>(source: &mut S, kind: EvidenceKind) -> Result<Option<Self>, S::Error>;

    /// The same form for a response of `len` tokens, every number 0.
    fn zeros(&self, len: usize) -> Self;

    /// Every number `value`, for a response of `len` tokens.
    fn constant(len: usize, value: f64) -> Self;
}

impl Form for Vec<f64> {
    fn read<S: EvidenceSource>(source: &mut S, kind: EvidenceKind) -> Result<Option<Self>, S::Error> {
        source.numbers(kind)
    }
    fn zeros(&self, len: usize) -> Self {
        Self::constant(len, 0.0)
    }
    fn constant(len: usize, value: f64) -> Self {
        vec![value; len]
    }
}

impl Form for PerStep {
    fn read<S: EvidenceSource>(source: &mut S, kind: EvidenceKind) -> Result<Option<Self>, S::Error> {
        source.steps(kind)
    }
    fn zeros(&self, len: usize) -> Self {
        Self::constant(len, 0.0)
    }
    fn constant(_: usize, value: f64) -> Self {
        vec![StepValue { start: 0, value }]
    }
}

impl Form for StatePerToken {
    fn read<S: EvidenceSource>(source: &mut S, kind: EvidenceKind) -> Result<Option<Self>, S::Error> {
        source.states(kind)
    }
    fn zeros(&self, len: usize) -> Self {
        vec![vec![0.0; self.first().map_or(0, Vec::len)]; len]
    }
    fn constant(len: usize, value: f64) -> Self {
        vec![vec![value]; len]
    }
}

/// Writes out [`Evidence`] and [`EvidenceKind`] from one line per kind:
/// `Kind => field: Form, "the kind of policy that provides it";` under the documentation of the field.
macro_rules! declare_evidence {
    ($($(#[$doc:meta])* $kind:ident => $field:ident: $form:ident, $provider:literal;)+) => {
        /// What a method may ask for beyond tokens, log-probabilities and rewards.
        ///
        /// It is filled by the policy that sampled the response. A method lists what it needs in its registry entry, and a
        /// configuration that asks for evidence its policy does not provide is refused when it is read.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Evidence {
            $($(#[$doc])* pub $field: Option<$form>,)+
        }

        /// The kinds of [`Evidence`], and two fields of a response that not every policy fills: what a method may need.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EvidenceKind {
            /// [`Response::tokens`](super::Response::tokens).
            Tokens,
            $(#[doc = concat!("[`Evidence::", stringify!($field), "`].")] $kind,)+
            /// [`Response::ref_logps`](super::Response::ref_logps): log-probabilities under a frozen reference policy.
            RefLogps,
        }

        impl Evidence {
            /// The kinds that are fields of this struct, in their order.
            pub const KINDS: [EvidenceKind; [$(EvidenceKind::$kind),+].len()] = [$(EvidenceKind::$kind),+];

            /// Every kind that `source` has.
            ///
            /// # Errors
            /// The first error of `source`.
            pub fn read<S: EvidenceSource>(source: &mut S) -> Result<Evidence, S::Error> {
                Ok(Evidence { $($field: Form::read(source, EvidenceKind::$kind)?,)+ })
            }

            /// Every kind of evidence for a response of `len` tokens, each number `value`: stand-in data for tests and benchmarks.
            pub fn constant(len: usize, value: f64) -> Evidence {
                Evidence { $($field: Some(Form::constant(len, value)),)+ }
            }

            /// The same kinds of evidence for a response of `len` tokens, every number 0.
            ///
            /// What stands in for the other responses of a group where a method sees no more of them than rewards and lengths.
            pub fn zeros(&self, len: usize) -> Evidence {
                Evidence { $($field: self.$field.as_ref().map(|series| series.zeros(len)),)+ }
            }

            /// Every kind that is present.
            pub fn series(&self) -> impl Iterator<Item = (EvidenceKind, Series<'_>)> {
                let all = [$(self.$field.as_deref().map(|series| (EvidenceKind::$kind, Series::$form(series)))),+];
                all.into_iter().flatten()
            }
        }

        impl EvidenceKind {
            /// Every kind.
            pub const ALL: [EvidenceKind; Evidence::KINDS.len() + 2] =
                [EvidenceKind::Tokens, $(EvidenceKind::$kind,)+ EvidenceKind::RefLogps];

            /// The field's name in configurations and JSON.
            pub fn name(self) -> &'static str {
                match self {
                    EvidenceKind::Tokens => "tokens",
                    $(EvidenceKind::$kind => stringify!($field),)+
                    EvidenceKind::RefLogps => "ref_logps",
                }
            }

            /// What kind of policy provides it, for a message that refuses a method.
            pub fn provided_by(self) -> &'static str {
                match self {
                    EvidenceKind::Tokens => "any policy that keeps the tokens it sampled",
                    $(EvidenceKind::$kind => $provider,)+
                    EvidenceKind::RefLogps => "a policy with a frozen reference",
                }
            }
        }
    };
}

declare_evidence! {
    /// Entropy of the full next-token distribution, `H_t = -sum_v pi(v|s_t) log pi(v|s_t)`, in nats.
    Entropies => entropies: PerToken, "a policy that keeps the entropy of each next-token distribution";

    /// A critic's state values `V(s_0) .. V(s_{T-1})`, one per token position. The value after the last token is 0.
    Values => values: PerToken, "a policy with a critic";

    /// Collision probability of the next-token distribution, `sum_v pi(v|s_t)^2`, in `(0, 1]`.
    Collisions => collisions: PerToken,
        "a policy that keeps the sum of squared probabilities of each next-token distribution";

    /// Monte-Carlo values at the starts of steps.
    Steps => steps: PerStep, "a policy that completes the prefix of each step several times";

    /// How far the answer's distribution moves when a token is masked (OAR-P).
    Shifts => shifts: PerReasoningToken, "a policy that can score an answer with one of its earlier tokens masked";

    /// Gradient times input of the answer's distribution (OAR-G).
    Saliencies => saliencies: PerReasoningToken,
        "a policy that can differentiate an answer's distribution in its input embeddings";

    /// `log pi(a_t|s_t)` of the same policy once it has seen the reference answer, in nats.
    TeacherLogps => teacher_logps: PerToken, "a policy that can score a response after seeing the reference answer";

    /// `log pi_sampler(a_t|s_t)` by the engine that sampled, where it does not compute what the trainer computes with the same weights
    /// (the trainer's own are the response's `old_logps`), in nats.
    SamplerLogps => sampler_logps: PerToken, "a sampler that reports its own log-probabilities";

    /// Rewards that belong to the response beside its own, any number of them, the same for all responses: the components of the
    /// reward (GDPO), or the reward of the greedy response to the same prompt (ReMax).
    RewardParts => reward_parts: PerReward, "a grader that reports the parts of a reward";

    /// The policy's last hidden state once it has read a token (SHEAR, ridge RLOO).
    Hidden => hidden: StatePerToken, "a policy that keeps its last hidden state at every token";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;
    use crate::group::{Group, Response};

    #[test]
    fn every_kind_is_seen_checked_and_named_apart() {
        let evidence = Evidence::constant(3, 0.5);
        assert!(evidence.series().map(|(kind, _)| kind).eq(Evidence::KINDS));
        assert_eq!(Evidence::default().series().count(), 0);
        let response = |evidence| Response { evidence, ..Response::graded(vec![-1.0; 3], 1.0) };
        let full = response(evidence.clone());
        assert!(Evidence::KINDS.into_iter().all(|kind| kind.is_in(&full)));
        let group = |evidence| Group { responses: vec![response(evidence), full.clone()] };
        let logps = vec![vec![-1.0; 3]; 2];
        assert_eq!(check::group(&group(evidence.zeros(3)), &logps, &Evidence::KINDS), Ok(()));
        for kind in Evidence::KINDS {
            let spoilt = Evidence::read(&mut OneSpoilt(kind)).expect("it cannot fail");
            let error = check::group(&group(spoilt), &logps, &[]).expect_err(kind.name()).to_string();
            assert!(error.starts_with(&format!("{}[0][0] = NaN", kind.name())), "{error}");
        }
        let mut names = EvidenceKind::ALL.map(EvidenceKind::name);
        names.sort_unstable();
        assert!(names.windows(2).all(|w| w[0] != w[1]));
    }

    /// Nothing but one kind, whose first number is none.
    struct OneSpoilt(EvidenceKind);

    impl EvidenceSource for OneSpoilt {
        type Error = ();

        fn numbers(&mut self, kind: EvidenceKind) -> Result<Option<Vec<f64>>, ()> {
            Ok((kind == self.0).then(|| vec![f64::NAN, 0.0, 0.0]))
        }
        fn steps(&mut self, kind: EvidenceKind) -> Result<Option<PerStep>, ()> {
            Ok((kind == self.0).then(|| vec![StepValue { start: 0, value: f64::NAN }]))
        }
        fn states(&mut self, kind: EvidenceKind) -> Result<Option<StatePerToken>, ()> {
            Ok((kind == self.0).then(|| vec![vec![f64::NAN]; 3]))
        }
    }
}
