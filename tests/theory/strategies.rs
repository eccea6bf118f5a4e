//! Random batches and random valid settings, once for all claims.
//!
//! The stream is fixed, so a test passes or fails the same way everywhere; `PROPTEST_RNG_SEED` chooses another.

use grpo_lambda::group::{
    ExtraInputs, Group, InputKind, InputSource, PerStep, Response, StatePerToken, StepValue,
};
use grpo_lambda::methods::{BatchLoss, Configured, MethodSpec, REGISTRY, configure, evaluate};
use grpo_lambda::settings::{Kind, Param};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{RngSeed, TestRunner};
use std::convert::Infallible;
use std::ops::Range;

/// Longest response of the usual generators.
pub(crate) const MAX_LEN: usize = 40;

/// Runs `test` on `cases` values and panics with the smallest failing one.
pub(crate) fn check<S: Strategy>(cases: u32, strategy: S, test: impl Fn(S::Value))
where
    S::Value: std::fmt::Debug,
{
    check_as("", cases, strategy, test);
}

/// [`check`] on a stream of its own for each name.
pub(crate) fn check_as<S: Strategy>(name: &str, cases: u32, strategy: S, test: impl Fn(S::Value))
where
    S::Value: std::fmt::Debug,
{
    let mut config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(251_000_194 + name.bytes().map(u64::from).sum::<u64>());
    }
    let result = TestRunner::new(config).run(&strategy, |value| {
        test(value);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

/// Some groups with the current log-probabilities of their responses, in flat order.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub groups: Vec<Group>,
    pub logps: Vec<Vec<f64>>,
}

impl Batch {
    /// One group of these responses at the policy that sampled them.
    pub(crate) fn alone(responses: Vec<Response>) -> Batch {
        Batch { groups: vec![Group { responses }], logps: Vec::new() }.on_policy()
    }

    /// The places of each group's responses in flat order.
    pub(crate) fn members(&self) -> impl Iterator<Item = Range<usize>> {
        let mut end = 0;
        self.groups.iter().map(move |group| {
            let start = end;
            end += group.responses.len();
            start..end
        })
    }

    /// All responses in flat order.
    pub(crate) fn responses(&self) -> impl Iterator<Item = &Response> {
        self.groups.iter().flat_map(|g| &g.responses)
    }

    /// All tokens.
    pub(crate) fn tokens(&self) -> usize {
        self.responses().map(Response::len).sum()
    }

    /// The batch under a configured method.
    pub(crate) fn evaluate(&self, method: &Configured) -> BatchLoss {
        evaluate(method.method.as_ref(), &self.groups, &self.logps)
    }

    /// Sets the current policy to the one that sampled.
    pub(crate) fn on_policy(mut self) -> Batch {
        self.logps = self.responses().map(|r| r.old_logps.clone()).collect();
        self
    }

    /// Applies `edit` to every response (flat index, group index, response).
    pub(crate) fn with(mut self, mut edit: impl FnMut(usize, usize, &mut Response)) -> Batch {
        let mut flat = 0;
        for (g, group) in self.groups.iter_mut().enumerate() {
            for response in &mut group.responses {
                edit(flat, g, response);
                flat += 1;
            }
        }
        self
    }
}

/// A response of these tokens, of probability one half each.
pub(crate) fn worded(tokens: &[u32], reward: f64) -> Response {
    Response { tokens: tokens.to_vec(), ..Response::graded(vec![0.5f64.ln(); tokens.len()], reward) }
}

/// The numbers drawn for one token: id, `old`, a step for the policy and one for the reference, entropy, value.
type Token = (u32, f64, f64, f64, f64, f64);

fn token() -> impl Strategy<Value = Token> {
    // Three ids only, so that responses of a group share prefixes.
    (0u32..3, -5.0..-0.05, -1.0..1.0, -0.5..0.5, 0.0..3.0, -1.0..1.0)
}

/// The extra inputs of a response, made of what is drawn for its tokens. A kind without a line here gets the drawn value of each token.
struct Drawn<'a>(&'a [Token]);

impl InputSource for Drawn<'_> {
    type Error = Infallible;

    fn numbers(&mut self, kind: InputKind) -> Result<Option<Vec<f64>>, Infallible> {
        // The last third of a response has no scores.
        let reasoning = &self.0[..(2 * self.0.len()).div_ceil(3)];
        let numbers = |tokens: &[Token], f: fn(&Token) -> f64| Ok(Some(tokens.iter().map(f).collect()));
        match kind {
            InputKind::Entropies => numbers(self.0, |t| t.4),
            // The token's own square and a part of what is left.
            InputKind::Collisions => numbers(self.0, |t| t.1.exp().powi(2) + 0.4 * (1.0 - t.1.exp()).powi(2)),
            InputKind::Shifts => numbers(reasoning, |t| t.4 - 0.3),
            InputKind::Saliencies => numbers(reasoning, |t| t.5.abs() * 1e-3),
            InputKind::TeacherLogps => numbers(self.0, |t| (t.1 + t.2 * t.4).min(0.0)),
            InputKind::SamplerLogps => numbers(self.0, |t| (t.1 + 0.3 * t.5).min(0.0)),
            InputKind::RewardParts => numbers(&self.0[..self.0.len().min(1)], |t| t.5),
            _ => numbers(self.0, |t| t.5),
        }
    }

    fn steps(&mut self, _: InputKind) -> Result<Option<PerStep>, Infallible> {
        let starts = self.0.iter().enumerate().filter(|(t, token)| *t == 0 || token.0 == 0);
        Ok(Some(starts.map(|(start, token)| StepValue { start, value: token.5 }).collect()))
    }

    fn states(&mut self, _: InputKind) -> Result<Option<StatePerToken>, Infallible> {
        Ok(Some(self.0.iter().map(|t| vec![t.4, t.5]).collect()))
    }
}

/// Every kind of extra input, made of what is drawn for the tokens.
fn extra_inputs(tokens: &[Token]) -> ExtraInputs {
    let Ok(extra_inputs) = ExtraInputs::read(&mut Drawn(tokens));
    extra_inputs
}

/// Every kind of extra input for a response of `len` equal tokens.
pub(crate) fn even_inputs(len: usize) -> ExtraInputs {
    ExtraInputs {
        collisions: Some(vec![0.5; len]),
        sampler_logps: Some(vec![-0.5; len]),
        ..extra_inputs(&vec![(1, -0.7, 0.1, 0.0, 1.0, 0.5); len])
    }
}

fn reward() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![4 => select(vec![Some(0.0), Some(1.0)]), 3 => (-2.0..2.0).prop_map(Some), 1 => Just(None)]
}

fn response(max_len: usize) -> impl Strategy<Value = (Vec<Token>, Option<f64>, bool)> {
    (prop::collection::vec(token(), 1..=max_len), reward(), prop::bool::weighted(0.2))
}

/// One to three groups of two to five ragged responses with every extra input there is; steps from `old` of random size, 0 included.
pub(crate) fn batch_up_to(max_len: usize) -> impl Strategy<Value = Batch> {
    let group = prop::collection::vec(response(max_len), 2..=5);
    (prop::collection::vec(group, 1..=3), select(vec![0.0, 0.05, 0.3, 1.0])).prop_map(|(groups, distance)| {
        let mut logps = Vec::new();
        let mut build = |(tokens, reward, truncated): (Vec<Token>, Option<f64>, bool)| {
            let each = |f: fn(&Token) -> f64| tokens.iter().map(f).collect::<Vec<f64>>();
            logps.push(tokens.iter().map(|t| (t.1 + distance * t.2).min(0.0)).collect());
            Response {
                tokens: tokens.iter().map(|t| t.0).collect(),
                old_logps: each(|t| t.1),
                ref_logps: Some(each(|t| t.1 + t.3)),
                reward,
                truncated,
                extra_inputs: extra_inputs(&tokens),
            }
        };
        let groups = groups
            .into_iter()
            .map(|responses| Group { responses: responses.into_iter().map(&mut build).collect() })
            .collect();
        Batch { groups, logps }
    })
}

/// [`batch_up_to`] the usual length.
pub(crate) fn batch() -> impl Strategy<Value = Batch> {
    batch_up_to(MAX_LEN)
}

/// A batch whose responses are all graded.
pub(crate) fn graded() -> impl Strategy<Value = Batch> {
    batch().prop_map(|b| {
        b.with(|i, _, r| {
            r.reward.get_or_insert(i as f64 * 0.37);
        })
    })
}

/// A batch at the policy that sampled it.
pub(crate) fn on_policy() -> impl Strategy<Value = Batch> {
    batch().prop_map(Batch::on_policy)
}

/// Overrides of a method's defaults.
pub(crate) type Overrides = Vec<(String, String)>;

/// A finite substitute for an open bound: one unit, or as much as the default, beyond it.
fn range(param: &Param, min: f64, max: f64) -> (f64, f64, f64) {
    let default = param.default.parse().unwrap_or(if min.is_finite() { min } else { max });
    let unit = f64::abs(default).max(1.0);
    let low = if min.is_finite() { min } else { default - unit };
    let high = if max.is_finite() { max } else { default + unit };
    (low, default, high)
}

fn value(param: &Param) -> BoxedStrategy<String> {
    let number = |min: f64, max: f64| {
        let (low, default, high) = range(param, min, max);
        prop_oneof![1 => Just(low), 2 => Just(default), 1 => Just(high), 6 => low..=high]
            .prop_map(|x| x.to_string())
            .boxed()
    };
    if param.key == "matrix_length" {
        // A matrix smaller than a response is refused; one that holds every response of the tests is not.
        return select(&["none", "20000"]).prop_map(str::to_owned).boxed();
    }
    match param.kind {
        Kind::Number { min, max } => number(min, max),
        Kind::OptionalNumber { min, max } => {
            prop_oneof![2 => Just("none".to_owned()), 3 => number(min, max)].boxed()
        }
        Kind::Choice(words) => select(words).prop_map(str::to_owned).boxed(),
        Kind::Flag => any::<bool>().prop_map(|b| b.to_string()).boxed(),
    }
}

/// Random valid settings of any method, from its parameters alone.
pub(crate) fn settings(spec: &MethodSpec) -> impl Strategy<Value = Overrides> + use<> {
    let params = (spec.params)();
    let values: Vec<_> = params.iter().map(value).collect();
    values.prop_map(move |values| params.iter().map(|p| p.key.to_owned()).zip(values).collect())
}

/// The corners of a parameter: every word, both flags, the ends and the default of a range.
pub(crate) fn corners(param: &Param) -> Vec<String> {
    let numbers = |min: f64, max: f64| {
        let (low, default, high) = range(param, min, max);
        let mut corners = vec![low.to_string(), default.to_string(), high.to_string()];
        corners.dedup();
        corners
    };
    if param.key == "matrix_length" {
        return vec!["none".to_owned(), "20000".to_owned()];
    }
    match param.kind {
        Kind::Number { min, max } => numbers(min, max),
        Kind::OptionalNumber { min, max } => [vec!["none".to_owned()], numbers(min, max)].concat(),
        Kind::Choice(words) => words.iter().map(|&w| w.to_owned()).collect(),
        Kind::Flag => vec!["false".to_owned(), "true".to_owned()],
    }
}

/// True if the method has this setting.
pub(crate) fn has(spec: &MethodSpec, key: &str) -> bool {
    (spec.params)().iter().any(|p| p.key == key)
}

/// Moves the settings that are refused together: raises `clip_max` to the clip's upper bound, lowers `overlong_cache` to the limit, and takes
/// the KL penalty out of the reward where the loss has a KL term.
fn fit_together(spec: &MethodSpec, overrides: &mut Overrides) {
    let params = (spec.params)();
    let number = |overrides: &Overrides, key: &str| {
        let given = overrides.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
        let default = || params.iter().find(|p| p.key == key).map(|p| p.default.as_str());
        given.or_else(default).and_then(|v| v.parse::<f64>().ok())
    };
    let high = number(overrides, "epsilon_high");
    let limit = number(overrides, "overlong_limit");
    let bounds = [
        ("clip_max", high.map(|high| 1.0 + high..=f64::INFINITY)),
        ("overlong_cache", limit.map(|limit| 1.0..=limit)),
        ("reward_high", number(overrides, "reward_low").map(|low| low..=f64::INFINITY)),
        ("reject_high", Some(number(overrides, "reject_low").unwrap_or(1.0)..=f64::INFINITY)),
        ("reward_beta", number(overrides, "beta").filter(|beta| *beta != 0.0).map(|_| 0.0..=0.0)),
    ];
    for (key, bounds) in bounds {
        let (Some(value), Some(bounds)) = (number(overrides, key), bounds) else { continue };
        if !bounds.contains(&value) {
            overrides.retain(|(k, _)| k != key);
            overrides.push((key.to_owned(), value.clamp(*bounds.start(), *bounds.end()).to_string()));
        }
    }
}

/// Builds a method with some settings forced, where it has them.
pub(crate) fn build(spec: &MethodSpec, mut overrides: Overrides, forced: &[(&str, &str)]) -> Configured {
    for &(key, value) in forced.iter().filter(|(key, _)| has(spec, key)) {
        overrides.retain(|(k, _)| k != key);
        overrides.push((key.to_owned(), value.to_owned()));
    }
    fit_together(spec, &mut overrides);
    configure(spec.name, &overrides).unwrap_or_else(|error| panic!("{}: {error}", spec.name))
}

/// Runs `test` on every registered method under `cases` random settings and batches each, with some settings forced.
pub(crate) fn for_every_method(cases: u32, forced: &[(&str, &str)], test: impl Fn(&Configured, &Batch)) {
    for_every_method_on(cases, forced, || batch().boxed(), test);
}

/// [`for_every_method`] on batches of one's own.
pub(crate) fn for_every_method_on(
    cases: u32,
    forced: &[(&str, &str)],
    batches: impl Fn() -> BoxedStrategy<Batch>,
    test: impl Fn(&Configured, &Batch),
) {
    for &spec in REGISTRY {
        check_as(spec.name, cases, (settings(spec), batches()), |(overrides, batch)| {
            test(&build(spec, overrides, forced), &batch);
        });
    }
}
