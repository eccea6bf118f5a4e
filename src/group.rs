//! What one prompt's rollouts are: [`Response`], [`Group`] and the [`Evidence`] a policy may add.

/// What a method may ask for beyond tokens, log-probabilities and rewards.
///
/// Every field has one entry per token unless said otherwise and is filled by the policy that
/// sampled the response. A method lists what it needs in its registry entry, and a
/// configuration that asks for evidence its policy does not provide is refused when it is read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Entropy of the full next-token distribution, `H_t = -sum_v pi(v|s_t) log pi(v|s_t)`, in nats.
    pub entropies: Option<Vec<f64>>,
    /// A critic's state values `V(s_0) .. V(s_{T-1})`, one per token position. The value after the last token is 0.
    pub values: Option<Vec<f64>>,
    /// Collision probability of the next-token distribution, `sum_v pi(v|s_t)^2`, in `(0, 1]`.
    pub collisions: Option<Vec<f64>>,
    /// Monte-Carlo values at the starts of steps, in order; the first step starts at token 0.
    pub steps: Option<Vec<StepValue>>,
    /// How far the answer's distribution moves when a token is masked (OAR-P), one per reasoning token: the first `R <= T`
    /// tokens. The tokens after them, which conclude and answer, have no score.
    pub shifts: Option<Vec<f64>>,
    /// Gradient times input of the answer's distribution (OAR-G), one per reasoning token, the first `R <= T`.
    pub saliencies: Option<Vec<f64>>,
    /// `log pi(a_t|s_t)` of the same policy once it has seen the reference answer, in nats.
    pub teacher_logps: Option<Vec<f64>>,
    /// The policy's last hidden state once it has read a token (SHEAR): one vector per token, all of one width.
    pub hidden: Option<Vec<Vec<f64>>>,
}

impl Evidence {
    /// The same kinds of evidence for a response of `len` tokens, every number 0.
    ///
    /// What stands in for the other responses of a group where a method sees no more of them than rewards and lengths.
    pub fn blank(&self, len: usize) -> Evidence {
        let zeros = |v: &Option<Vec<f64>>| v.as_ref().map(|_| vec![0.0; len]);
        Evidence {
            entropies: zeros(&self.entropies),
            values: zeros(&self.values),
            collisions: zeros(&self.collisions),
            steps: self.steps.as_ref().map(|_| vec![StepValue { start: 0, value: 0.0 }]),
            shifts: zeros(&self.shifts),
            saliencies: zeros(&self.saliencies),
            teacher_logps: zeros(&self.teacher_logps),
            hidden: self.hidden.as_ref().map(|h| vec![vec![0.0; h.first().map_or(0, Vec::len)]; len]),
        }
    }

    /// Every list with one number per token, by field name; `false` where it may end before the response does.
    pub(crate) fn lists(&self) -> [(&'static str, Option<&[f64]>, bool); 6] {
        [
            ("entropies", self.entropies.as_deref(), true),
            ("values", self.values.as_deref(), true),
            ("collisions", self.collisions.as_deref(), true),
            ("shifts", self.shifts.as_deref(), false),
            ("saliencies", self.saliencies.as_deref(), false),
            ("teacher_logps", self.teacher_logps.as_deref(), true),
        ]
    }
}

/// The value of the prefix at which a step of a response starts, estimated by completing that prefix several times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepValue {
    /// The step's first token.
    pub start: usize,
    /// Mean reward of the completions.
    pub value: f64,
}

/// The kinds of [`Evidence`], to name what a method needs and a policy provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvidenceKind {
    /// [`Response::tokens`].
    Tokens,
    /// [`Evidence::entropies`].
    Entropies,
    /// [`Evidence::values`].
    Values,
    /// [`Evidence::collisions`].
    Collisions,
    /// [`Evidence::steps`].
    Steps,
    /// [`Evidence::shifts`].
    Shifts,
    /// [`Evidence::saliencies`].
    Saliencies,
    /// [`Evidence::teacher_logps`].
    TeacherLogps,
    /// [`Evidence::hidden`].
    Hidden,
    /// [`Response::ref_logps`]: log-probabilities under a frozen reference policy.
    RefLogps,
}

impl EvidenceKind {
    /// Every kind.
    pub const ALL: [EvidenceKind; 10] = [
        EvidenceKind::Tokens,
        EvidenceKind::Entropies,
        EvidenceKind::Values,
        EvidenceKind::Collisions,
        EvidenceKind::Steps,
        EvidenceKind::Shifts,
        EvidenceKind::Saliencies,
        EvidenceKind::TeacherLogps,
        EvidenceKind::Hidden,
        EvidenceKind::RefLogps,
    ];

    /// The field's name in configurations and JSON.
    pub fn name(self) -> &'static str {
        match self {
            EvidenceKind::Tokens => "tokens",
            EvidenceKind::Entropies => "entropies",
            EvidenceKind::Values => "values",
            EvidenceKind::Collisions => "collisions",
            EvidenceKind::Steps => "steps",
            EvidenceKind::Shifts => "shifts",
            EvidenceKind::Saliencies => "saliencies",
            EvidenceKind::TeacherLogps => "teacher_logps",
            EvidenceKind::Hidden => "hidden",
            EvidenceKind::RefLogps => "ref_logps",
        }
    }

    /// What kind of policy provides it, for a message that refuses a method.
    pub fn provided_by(self) -> &'static str {
        match self {
            EvidenceKind::Tokens => "any policy that keeps the tokens it sampled",
            EvidenceKind::Entropies => "a policy that keeps the entropy of each next-token distribution",
            EvidenceKind::Values => "a policy with a critic",
            EvidenceKind::Collisions => {
                "a policy that keeps the sum of squared probabilities of each next-token distribution"
            }
            EvidenceKind::Steps => "a policy that completes the prefix of each step several times",
            EvidenceKind::Shifts => "a policy that can score an answer with one of its earlier tokens masked",
            EvidenceKind::Saliencies => {
                "a policy that can differentiate an answer's distribution in its input embeddings"
            }
            EvidenceKind::TeacherLogps => {
                "a policy that can score a response after seeing the reference answer"
            }
            EvidenceKind::Hidden => "a policy that keeps its last hidden state at every token",
            EvidenceKind::RefLogps => "a policy with a frozen reference",
        }
    }

    /// Whether `response` carries it.
    pub fn is_in(self, response: &Response) -> bool {
        let evidence = &response.evidence;
        match self {
            EvidenceKind::Tokens => !response.tokens.is_empty(),
            EvidenceKind::Entropies => evidence.entropies.is_some(),
            EvidenceKind::Values => evidence.values.is_some(),
            EvidenceKind::Collisions => evidence.collisions.is_some(),
            EvidenceKind::Steps => evidence.steps.is_some(),
            EvidenceKind::Shifts => evidence.shifts.is_some(),
            EvidenceKind::Saliencies => evidence.saliencies.is_some(),
            EvidenceKind::TeacherLogps => evidence.teacher_logps.is_some(),
            EvidenceKind::Hidden => evidence.hidden.is_some(),
            EvidenceKind::RefLogps => response.ref_logps.is_some(),
        }
    }
}

/// One sampled response: `T >= 1` tokens, the last one EOS unless it was cut off at the length limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// Token ids, length `T`. May be left empty where only lengths and log-probabilities are known.
    pub tokens: Vec<u32>,
    /// `log pi_old(a_t|s_t)` under the policy that sampled, length `T`, in nats. Its length *is* the response's length.
    pub old_logps: Vec<f64>,
    /// `log pi_ref(a_t|s_t)` under the reference policy, length `T`; needed when the KL coefficient is not zero.
    pub ref_logps: Option<Vec<f64>>,
    /// The outcome reward; `None` when the response could not be graded. Such a response is left out of
    /// every group statistic and gets advantage 0, which is not the same as reward 0.
    pub reward: Option<f64>,
    /// Whether the response was cut off at the length limit instead of ending with EOS.
    pub truncated: bool,
    /// Optional per-token evidence.
    pub evidence: Evidence,
}

impl Response {
    /// A graded, finished response without tokens, reference or evidence: enough for every method that needs log-probabilities only.
    pub fn graded(old_logps: Vec<f64>, reward: f64) -> Self {
        Response {
            tokens: Vec::new(),
            old_logps,
            ref_logps: None,
            reward: Some(reward),
            truncated: false,
            evidence: Evidence::default(),
        }
    }

    /// Number of tokens `T`.
    pub fn len(&self) -> usize {
        self.old_logps.len()
    }

    /// Whether the response holds no token; no method accepts such a response.
    pub fn is_empty(&self) -> bool {
        self.old_logps.is_empty()
    }
}

/// The `g` responses to one prompt, which share their baseline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// The responses, in sampling order.
    pub responses: Vec<Response>,
}

impl Group {
    /// Rewards in response order; `None` where a response could not be graded.
    pub fn rewards(&self) -> Vec<Option<f64>> {
        self.responses.iter().map(|r| r.reward).collect()
    }
}
