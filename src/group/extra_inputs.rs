//! Extra inputs: additions of a policy to the tokens, log-probabilities and rewards of a response.
//!
//! Each kind of extra input is declared once, in the list at the end of this file. From its entry follow the field of [`ExtraInputs`], the
//! [`InputKind`] with its name and its message, the check of its form ([`crate::check`]), its JSON field with its line of help, its neutral
//! value ([`crate::token_weights`]), and its place in every [`InputSource`].

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

/// The extra inputs of one kind that a response carries, by its form.
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

impl Series<'_> {
    /// The shape of a JSON field that holds such inputs of `g` responses with `T_i` tokens.
    const fn json(self) -> &'static str {
        match self {
            Series::PerToken(_) => "[[T_i]..]",
            Series::PerReasoningToken(_) => "[[R_i]..]",
            Series::PerStep(_) => "[[[t, v]..]..]",
            Series::PerReward(_) => "[[k]..]",
            Series::StatePerToken(_) => "[[[d]..]..]",
        }
    }
}

/// A source of the extra inputs of one response, asked kind by kind: a file, a simulator, a generator of test data.
///
/// [`ExtraInputs::read`] calls the method that fits the form of each declared kind. `None` means that the response has no such inputs.
pub trait InputSource {
    /// Why extra inputs could not be read.
    type Error;

    /// A number per token, or per reasoning token; or some numbers per response.
    ///
    /// # Errors
    /// When there is extra inputs of this kind that cannot be read.
    fn numbers(&mut self, kind: InputKind) -> Result<Option<Vec<f64>>, Self::Error>;

    /// A value per step.
    ///
    /// # Errors
    /// The errors of [`numbers`](InputSource::numbers).
    fn steps(&mut self, kind: InputKind) -> Result<Option<PerStep>, Self::Error>;

    /// A vector per token.
    ///
    /// # Errors
    /// The errors of [`numbers`](InputSource::numbers).
    fn states(&mut self, kind: InputKind) -> Result<Option<StatePerToken>, Self::Error>;
}

/// A type that extra inputs have in a response.
trait Form: Sized {
    fn read<S: InputSource>(source: &mut S, kind: InputKind) -> Result<Option<Self>, S::Error>;

    /// Every number `value`, for a response of `len` tokens.
    fn constant(len: usize, value: f64) -> Self;

    /// [`Form::constant`] of this one's width.
    fn filled(&self, len: usize, value: f64) -> Self {
        Self::constant(len, value)
    }
}

impl Form for Vec<f64> {
    fn read<S: InputSource>(source: &mut S, kind: InputKind) -> Result<Option<Self>, S::Error> {
        source.numbers(kind)
    }
    fn constant(len: usize, value: f64) -> Self {
        vec![value; len]
    }
}

impl Form for PerStep {
    fn read<S: InputSource>(source: &mut S, kind: InputKind) -> Result<Option<Self>, S::Error> {
        source.steps(kind)
    }
    fn constant(_: usize, value: f64) -> Self {
        vec![StepValue { start: 0, value }]
    }
}

impl Form for StatePerToken {
    fn read<S: InputSource>(source: &mut S, kind: InputKind) -> Result<Option<Self>, S::Error> {
        source.states(kind)
    }
    fn filled(&self, len: usize, value: f64) -> Self {
        vec![vec![value; self.first().map_or(0, Vec::len)]; len]
    }
    fn constant(len: usize, value: f64) -> Self {
        vec![vec![value]; len]
    }
}

/// Writes out [`ExtraInputs`] and [`InputKind`] from one entry per kind, under the documentation of the field.
macro_rules! declare_inputs {
    ($(
        $(#[$doc:meta])*
        $kind:ident => $field:ident: $form:ident {
            // The kind of policy that provides it.
            provider: $provider:literal,
            // The JSON field, in a few words.
            json: $json:literal,
            // The number that singles out no token where every token has this log-probability, and the same in words.
            neutral: $neutral:expr, $assumed:literal,
        }
    )+) => {
        /// Inputs of a method beyond tokens, log-probabilities and rewards.
        ///
        /// It is filled by the policy that sampled the response. A method lists what it needs in its registry entry, and a
        /// configuration that asks for extra inputs its policy does not provide is refused when it is read.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct ExtraInputs {
            $($(#[$doc])* pub $field: Option<$form>,)+
        }

        /// The kinds of [`ExtraInputs`], and two fields of a response that not every policy fills: what a method may need.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum InputKind {
            /// [`Response::tokens`](super::Response::tokens).
            Tokens,
            $(#[doc = concat!("[`ExtraInputs::", stringify!($field), "`].")] $kind,)+
            /// [`Response::ref_logps`](super::Response::ref_logps): log-probabilities under a frozen reference policy.
            RefLogps,
        }

        impl ExtraInputs {
            /// The kinds that are fields of this struct, in their order.
            pub const KINDS: [InputKind; [$(InputKind::$kind),+].len()] = [$(InputKind::$kind),+];

            /// Every kind that `source` has.
            ///
            /// # Errors
            /// The first error of `source`.
            pub fn read<S: InputSource>(source: &mut S) -> Result<ExtraInputs, S::Error> {
                Ok(ExtraInputs { $($field: Form::read(source, InputKind::$kind)?,)+ })
            }

            /// Every kind of extra input for a response of `len` tokens, each number `value`: placeholder data for tests and benchmarks.
            pub fn constant(len: usize, value: f64) -> ExtraInputs {
                ExtraInputs { $($field: Some(Form::constant(len, value)),)+ }
            }

            /// Extra inputs that single out no token of a response of `len` tokens with log-probability `logp` each; in words in
            /// [`assumed`](crate::token_weights::assumed).
            pub fn neutral(len: usize, logp: f64) -> ExtraInputs {
                let value = |number: fn(f64) -> f64| number(logp);
                ExtraInputs { $($field: Some(Form::constant(len, value($neutral))),)+ }
            }

            /// These kinds of extra inputs for a response of `len` tokens, every number `value`.
            ///
            /// With 0 it stands in for the other responses of a group where a method sees no more of them than rewards and lengths.
            pub fn filled(&self, len: usize, value: f64) -> ExtraInputs {
                ExtraInputs { $($field: self.$field.as_ref().map(|series| series.filled(len, value)),)+ }
            }

            /// These inputs, with the kinds of `other` that it lacks.
            pub fn or(self, other: ExtraInputs) -> ExtraInputs {
                ExtraInputs { $($field: self.$field.or(other.$field),)+ }
            }

            /// Every kind that is present.
            pub fn series(&self) -> impl Iterator<Item = (InputKind, Series<'_>)> {
                let all = [$(self.$field.as_deref().map(|series| (InputKind::$kind, Series::$form(series)))),+];
                all.into_iter().flatten()
            }
        }

        impl InputKind {
            /// Every kind.
            pub const ALL: [InputKind; ExtraInputs::KINDS.len() + 2] =
                [InputKind::Tokens, $(InputKind::$kind,)+ InputKind::RefLogps];

            /// The field's name in configurations and JSON.
            pub fn name(self) -> &'static str {
                match self {
                    InputKind::Tokens => "tokens",
                    $(InputKind::$kind => stringify!($field),)+
                    InputKind::RefLogps => "ref_logps",
                }
            }

            /// The shape of its JSON field for a group of responses, and what it holds; `None` for what is no extra input.
            pub fn json(self) -> Option<(&'static str, &'static str)> {
                match self {
                    $(InputKind::$kind => Some((Series::$form(&[]).json(), $json)),)+
                    InputKind::Tokens | InputKind::RefLogps => None,
                }
            }

            /// The neutral value ([`ExtraInputs::neutral`]) in words; `None` for what is no extra input.
            pub fn neutral(self) -> Option<&'static str> {
                match self {
                    $(InputKind::$kind => Some($assumed),)+
                    InputKind::Tokens | InputKind::RefLogps => None,
                }
            }

            /// The kind of policy that provides it, for a message that refuses a method.
            pub fn provided_by(self) -> &'static str {
                match self {
                    InputKind::Tokens => "any policy that keeps the tokens it sampled",
                    $(InputKind::$kind => $provider,)+
                    InputKind::RefLogps => "a policy with a frozen reference",
                }
            }
        }
    };
}

declare_inputs! {
    /// Entropy of the full next-token distribution, `H_t = -sum_v pi(v|s_t) log pi(v|s_t)`, in nats.
    Entropies => entropies: PerToken {
        provider: "a policy that keeps the entropy of each next-token distribution",
        json: "entropy of the next-token distribution, in nats",
        neutral: |_| f64::MAX, "every token has the same entropy, above any threshold",
    }

    /// A critic's state values `V(s_0) .. V(s_{T-1})`, one per token position. The value after the last token is 0.
    Values => values: PerToken {
        provider: "a policy with a critic",
        json: "a critic's value of the state before each token",
        neutral: |_| 0.5, "the critic values every prefix at 0.5",
    }

    /// Collision probability of the next-token distribution, `sum_v pi(v|s_t)^2`, in `(0, 1]`.
    Collisions => collisions: PerToken {
        provider: "a policy that keeps the sum of squared probabilities of each next-token distribution",
        json: "sum of the squared probabilities of the next-token distribution",
        neutral: |logp| logp.exp().powi(2) + (1.0 - logp.exp()).powi(2), "two tokens share the probability at every position",
    }

    /// Monte-Carlo values at the starts of steps.
    Steps => steps: PerStep {
        provider: "a policy that completes the prefix of each step several times",
        json: "first token and value of each step, from token 0 on",
        neutral: |_| 0.5, "a response is one step, from a prompt worth 0.5",
    }

    /// Shift of the answer's distribution when a token is masked (OAR-P).
    Shifts => shifts: PerReasoningToken {
        provider: "a policy that can score an answer with one of its earlier tokens masked",
        json: "shift of the answer under a mask, per reasoning token (first R_i)",
        neutral: |_| 1.0, "masking moves the answer equally at every token",
    }

    /// Gradient times input of the answer's distribution (OAR-G).
    Saliencies => saliencies: PerReasoningToken {
        provider: "a policy that can differentiate an answer's distribution in its input embeddings",
        json: "gradient times input of the answer, per reasoning token (first R_i)",
        neutral: |_| 1.0, "every token has the same saliency",
    }

    /// `log pi(a_t|s_t)` of the same policy once it has seen the reference answer, in nats.
    TeacherLogps => teacher_logps: PerToken {
        provider: "a policy that can score a response after seeing the reference answer",
        json: "log-probability once the reference answer was seen",
        neutral: |logp| logp, "the teacher agrees with the policy at every token",
    }

    /// `log pi_sampler(a_t|s_t)` by the engine that sampled, where it does not compute what the trainer computes with the same weights
    /// (the trainer's own are the response's `old_logps`), in nats.
    SamplerLogps => sampler_logps: PerToken {
        provider: "a sampler that reports its own log-probabilities",
        json: "log-probability by the engine that sampled (correction)",
        neutral: |logp| logp, "the sampler computes what the trainer computes",
    }

    /// Rewards that belong to the response besides its own, any number of them, the same for all responses: the components of the
    /// reward (GDPO), or the reward of the greedy response to the same prompt (ReMax).
    RewardParts => reward_parts: PerReward {
        provider: "a grader that reports the parts of a reward",
        json: "k further rewards: parts (gdpo), or the greedy response's (remax)",
        neutral: |_| 0.0, "every response has the same further rewards",
    }

    /// The policy's last hidden state once it has read a token (SHEAR, ridge RLOO).
    Hidden => hidden: StatePerToken {
        provider: "a policy that keeps its last hidden state at every token",
        json: "last hidden state at each token, T_i of them",
        neutral: |_| 1.0, "hidden states are the same in both responses at every token",
    }

    /// The reward of each token by a process reward model, 0 where it gives none (PRIME).
    ProcessRewards => process_rewards: PerToken {
        provider: "a policy next to a process reward model",
        json: "reward of each token by a process reward model",
        neutral: |_| 0.0, "the process reward model rewards no token",
    }
}
