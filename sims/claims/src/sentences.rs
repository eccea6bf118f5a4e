//! Sentences of the paper, word for word, each with the finding that tests it. Every other finding answers a question
//! of ours.

/// A sentence of the paper with the finding that tests it.
pub struct Sentence {
    pub id: SentenceId,
    /// The words as printed; formulas are set in Unicode, `[..]` marks an omission.
    pub words: &'static str,
    /// Section of the paper.
    pub place: &'static str,
    /// Id of the experiment.
    pub experiment: &'static str,
    /// Key of the finding.
    pub key: &'static str,
    /// Statement of the finding.
    pub statement: &'static str,
}

/// A sentence that nothing here tests, and why.
pub struct NotTested {
    /// The words as printed.
    pub words: &'static str,
    /// Section of the paper.
    pub place: &'static str,
    /// Reason, and the nearest test.
    pub why: &'static str,
}

macro_rules! sentences {
    ($($id:ident, $experiment:literal, $place:literal:
        $words:literal
        tested as $key:literal: $statement:literal)*) => {
        /// A tested sentence; its row in [`SENTENCES`] is that of the same position.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum SentenceId { $($id),* }

        /// The sentences that are tested, in the order of the experiments.
        pub static SENTENCES: &[Sentence] = &[$(Sentence {
            id: SentenceId::$id,
            words: $words,
            place: $place,
            experiment: $experiment,
            key: $key,
            statement: $statement,
        }),*];
    };
}

sentences! {
    PolicyGradientIdentity, "theorem_1", "Theorem 1":
        "The policy gradient estimate ĝ using traces from generalized advantage estimation A_GAE can be \
         re-parameterized with a critic-free TD-error δ_t"
        tested as "policy_gradient_identity": "Σ_t A_GAE,t ∇_t = Σ_t δ_t ε_t for any δ, any policy and any finite T"
    TwoTermsOfGae, "theorem_1", "section 2":
        "A_GAE(s_t) = δ_t + γλ δ_{t+1}, with λ∈[0,1] the weighting coefficient"
        tested as "two_terms_of_gae": "\"A_GAE(s_t) = δ_t + γλ δ_{t+1}\" (Section 2)"
    RecursiveTrace, "equation_15", "appendix A.2":
        "by defining eligibility trace as the inner sum in that equation [..] and converting to a recursive formula"
        tested as "recursive_trace": "ε_t = γλ ε_{t-1} + ∇_t is Σ_l (γλ)^l ∇_{t-l}, for every γλ in [0,1] and every T"
    TwoTraceStyles, "traces", "appendix A.3":
        "The two variants of GRPO-λ uses recent and both styles for the \
         trace-weights, which is computed with get_trace()."
        tested as "two_trace_styles": "The matrices of Eq. 17 and Eq. 18 are those of Eq. 2 and Eq. 1"
    EarlyTokensAsImportant, "figure_2", "section 3.2":
        "we propose a variation of the weighting scheme such that early tokens are considered as important as the \
         late ones"
        tested as "early_tokens_as_important": "In the trace ratio of style both, \"early tokens are considered as \
            important as the late ones\""
    WeightIsTrace, "credit_profile", "appendix A.3":
        "A less rigorous explanation of ϵ-weight variant is that the loss at each step (token) essentially gets \
         reweighted implicitly with ϵ-trace. ϵ-weight does this reweighting of the loss explicitly."
        tested as "weight_is_trace": "ϵ-trace and ϵ-weight are the same reweighting of \
            tokens, once implicit and once explicit"
    ExponentialDecay, "credit_profile", "section 3.2":
        "The discount induced by λ<1 results in an exponential decay of weighting importance as we go back in time."
        tested as "exponential_decay": "\"The discount induced by λ<1 results in an exponential decay of weighting \
            importance as we go back in time\" (in the update)"
    LargerGradients, "credit_profile", "section 4.2":
        "The accumulated log-probabilities in GRPO-λ's objective function mean their gradients are larger than for GRPO"
        tested as "larger_gradients": "\"The accumulated log-probabilities in GRPO-λ's objective function mean their \
            gradients are larger than for GRPO\""
    FallsBackToGrpo, "lambda_zero", "section 3":
        "GRPO-λ is also a generalization of GRPO, as it falls back to GRPO with λ=0."
        tested as "falls_back_to_grpo": "\"it falls back to GRPO with λ=0\""
    BiasAndVariance, "lambda_direction", "appendix A.2":
        "For λ=0, the problem reduces to the (unbiased) TD(0) function. As we increase λ towards 1, we reduce the \
         variance of our estimator but increase the bias."
        tested as "bias_and_variance": "For λ=0, the problem reduces to the (unbiased) TD(0) function. As we increase \
            λ towards 1, we reduce the variance of our estimator but increase the bias."
    ValueBound, "lemma_1", "Lemma 1":
        "ΔV(s_t) ≤ E[Σ_{k=0}^{t-1} γ^k r_k] ≤ 1 - Π_{k=0}^{t-1} Σ_{a_k≠a^EOS} π_θ(a_k|s_k)"
        tested as "value_bound": "ΔV(s_t) ≡ V(s_0) - V(s_t) ≤ 1 - ∏_{k=0}^{t-1} Σ_{a_k≠a^EOS} π_θ(a_k|s_k)"
    PathProduct, "lemma_1", "Lemma 1":
        "probability of not generating at least one EOS-token in t timesteps"
        tested as "path_product": "\"probability of not generating at least one EOS-token in t timesteps\": the \
            product along a path equals P(τ>t)"
    SameReturnsAndValues, "lemma_1", "section 3.2":
        "Assuming γ=1, in our setting, returns and values are the same for each timestep t."
        tested as "same_returns_and_values": "\"Assuming γ=1, in our setting, returns and values are the same for \
            each timestep t. On one hand, the return for later states have less variance\" (section 3.2)"
    ClippedObjective, "clip_form", "Algorithm 1":
        "coef_2 ← clamp(coef_1, 1±ϵ_clip) [..] ℓ ← -min(coef_1, coef_2) δ"
        tested as "clipped_objective": "Algorithm 1's -min(coef₁, coef₂) δ is the main text's clipped objective"
    DivergenceOfTheClamp, "addition", "section 4.2":
        "With the proposed clamping, the KL-divergence is stable, albeit higher than GRPO."
        tested as "divergence_of_the_clamp": "\"the KL-divergence is stable, albeit higher than GRPO\" with trace and \
            clamp, on addition at one rate, without a KL term and with the paper's (β = 0.04)"
    EveryVariationGains, "paper_audit", "abstract":
        "all the variations provide significant gains over GRPO"
        tested as "every_variation_gains": "\"all the variations provide significant gains over GRPO\" (abstract), \
            judged by the printed benchmark scores"
    AverageGain, "paper_audit", "section 4.3":
        "We observe that the average improvement that GRPO-λ has over GRPO is quite significant."
        tested as "average_gain": "\"the average improvement that GRPO-λ has over GRPO is quite significant\" \
            (Section 4.3), for recent/ε-trace/0.99"
    Table1IsAnAverage, "paper_audit", "caption of Table 1":
        "Average performance for each evaluation benchmark across the different training datasets."
        tested as "table1_is_an_average": "Table 1 is the average of Tables 3-6 over the training data sets"
    Table1OnlyLambda, "paper_audit", "caption of Table 1":
        "This table only contains GRPO-λ, not the variations introduced in subsection 3.2."
        tested as "table1_only_lambda": "the GRPO-λ rows of Table 1 (\"only contains GRPO-λ, not the variations\") \
            are the same configuration on every model"
    ThreePoints, "paper_audit", "abstract":
        "the resulting average performance on AIME24, Math500, OlympiadMath, MinervaMath, and AMC improves over GRPO \
         by over 3 points"
        tested as "three_points": "\"improves over GRPO by over 3 points\" (abstract), in the mean over four models"
    SevenBGain, "paper_audit", "abstract":
        "a 4.5 points improvement on the 7B model"
        tested as "seven_b_gain": "\"a 4.5 points improvement on the 7B model\" (abstract)"
    FivePoints, "paper_audit", "section 4.3":
        "GRPO-λ resulting in an improvement of over 5 points (0.0552) across the benchmarks"
        tested as "five_points": "MathRL-16k gives \"an improvement of over 5 points (0.0552)\" (Section 4.3)"
    OrzMathIsWorse, "paper_audit", "section 4.3":
        "models that have been trained on the ORZMath57K perform far worse on the evaluation tasks than the models \
         trained on other benchmarks. This is consistent across multiple model architectures and sizes, be it for \
         GRPO and for GRPO-λ."
        tested as "orz_math_is_worse": "\"models that have been trained on the ORZMath57K perform far worse\", \
            \"consistent across multiple model architectures and sizes, be it for GRPO and for GRPO-λ\" (Section 4.3)"
    MathRlIsBest, "paper_audit", "section 4.3":
        "post-training on the MathRL-16k dataset results in particularly good performance on the evaluation \
         benchmarks for both GRPO and GRPO-λ"
        tested as "math_rl_is_best": "\"post-training on the MathRL-16k dataset results in particularly good \
            performance on the evaluation benchmarks for both GRPO and GRPO-λ\" (Section 4.3)"
    GapGrowsWithSize, "paper_audit", "section 5":
        "Table 1 indicates that the improvement gap between GRPO-λ and GRPO is larger on the 3B and 7B models than \
         the 1.5B models"
        tested as "gap_grows_with_size": "\"Table 1 indicates that the improvement gap between GRPO-λ and GRPO is \
            larger on the 3B and 7B models than the 1.5B models\" (Section 5)"
    ThreeBIsWorse, "paper_audit", "section 4.3":
        "the 3B model performs worse on the evaluation benchmarks than the smaller 1.5B models"
        tested as "three_b_is_worse": "\"the 3B model performs worse on the evaluation benchmarks than the smaller \
            1.5B models\" (Section 4.3)"
}

impl SentenceId {
    /// The words, their place and the statement tested.
    pub const fn sentence(self) -> &'static Sentence {
        &SENTENCES[self as usize]
    }
}

/// The sentences that are not tested.
pub static NOT_TESTED: &[NotTested] = &[
    NotTested {
        words: "GRPO-λ learns faster and improves 30-40% better than GRPO on mathematical benchmarks tasks",
        place: "section 1",
        why: "the training of these language models is not repeated here; `learning` tests the sentence on small \
            exact tasks",
    },
    NotTested {
        words: "the average gap between the different variants of GRPO-λ and GRPO to be around 20-50%",
        place: "section 4.2",
        why: "training is not repeated here; the abstract says 30-40% of the same plots",
    },
    NotTested {
        words: "regardless of the value for λ, the weighting update (ϵ-trace, ϵ-weight) or the type of trace (both, \
            recent) used, GRPO-λ has a higher training accuracy than GRPO",
        place: "appendix C",
        why: "training is not repeated here",
    },
    NotTested {
        words: "Negative returns encourage π to move as far as possible from the corresponding trajectory, which can \
            act as a destructive force on model parameters.",
        place: "section 4.2",
        why: "a tabular policy has no parameters that could be destroyed; `clamp` and `clamp_gain` test what the \
            clamp does instead",
    },
    NotTested {
        words: "Comparison of the average generation length during evaluation between GRPO and GRPO-λ",
        place: "figures 12 to 15",
        why: "our copy of the paper lacks the curves of these figures, which average over hyperparameters. \
            `length_bonus` predicts longer responses for GRPO-λ than for GRPO, unless the average includes \
            ϵ-weight or 1/T per response",
    },
    NotTested {
        words: "drastically improving the credit assignment through rapid value propagation towards earlier tokens",
        place: "section 1",
        why: "the sentence names no quantity; `length_bias`, `length_bonus` and the atlas compare the update \
            with ∇J",
    },
    NotTested {
        words: "although the computational overhead increases linearly with the sequence length, it is negligible \
            compared to the overall LLM post-training process",
        place: "section 3",
        why: "the sentence is about the authors' implementation; here a trace costs O(T)",
    },
];

/// The sentence that a finding tests.
pub fn tested_by(experiment: &str, key: &str) -> Option<&'static Sentence> {
    SENTENCES.iter().find(|s| s.experiment == experiment && s.key == key)
}

/// The verdict on a sentence of the paper, from that on the finding.
pub fn verdict(word: &str) -> &str {
    match word {
        "Holds" => "TRUE",
        "Holds when" => "TRUE IF",
        "Inconclusive" => "INCONCLUSIVE",
        "Fails" => "FALSE AS PRINTED",
        unknown => unknown,
    }
}
