//! Kernels over the vocabulary: log-probabilities and their gradient, and drawing tokens.

use grpo_lambda::systematic::Code;
use grpo_lambda_decoder::distribution::{Distribution, greedy};
use grpo_lambda_decoder::model::ops::log_prob::log_softmax;
use grpo_lambda_decoder::rng::{below, unit};
use grpo_lambda_decoder::truncation::Truncation;
use rand::Rng;

use super::array::{TestArray, single};
use super::case::{Case, Checker, Result};
use crate::kernels::{LogProb, LogProbBackward, Sample, SampleState, Status};

/// Tokens and vocabulary: of odd sizes, of whole vectors, and that of Qwen2.5.
const SIZES: [(usize, usize); 5] = [(1, 1), (4, 11), (3, 44), (2, 1029), (1, QWEN)];
/// Vocabularies of draws: of one token, and smaller and larger than a warp, a block, and the tokens of a thread.
const VOCABULARIES: [usize; 5] = [1, 5, 70, 2100, QWEN];
const QWEN: usize = 151_936;
/// The inverse of a temperature that is no power of two.
const INVERSE: f32 = 1.25;
/// The magnitude of the terms of a log-probability: of logits of deviation 3.
const LOGITS: f64 = 32.0;
/// Most tokens of a response.
const MOST: usize = 8;

pub(super) fn check(checker: &mut Checker) {
    for (n, vocabulary) in checker.extent.sizes(&SIZES) {
        for entropy in [false, true] {
            let what = format!("{n} x {vocabulary}{}", if entropy { " with entropy" } else { "" });
            checker.case("log_prob", &what, |c| log_prob(c, n, vocabulary, entropy));
            checker.case("log_prob_backward", what, |c| log_prob_backward(c, n, vocabulary, entropy));
        }
    }
    for vocabulary in checker.extent.sizes(&VOCABULARIES) {
        for (name, draw) in DRAWS {
            checker.case("sample", format!("{vocabulary} {name}"), |c| drawn(c, vocabulary, draw));
        }
        if vocabulary > 4 {
            checker.case("sample", format!("{vocabulary} at its edges"), |c| edges(c, vocabulary));
            checker.case("sample", format!("{vocabulary} at edges of shares"), |c| shares(c, vocabulary));
        }
    }
}

/// The log-probabilities of lines of logits.
fn log_ps(logits: &[f64], vocabulary: usize) -> Vec<f64> {
    let mut log_ps = logits.to_vec();
    log_softmax(&mut log_ps, vocabulary, f64::from(INVERSE));
    log_ps
}

/// The largest tempered logit of a line, and the logarithm of the sum of exponentials above it.
fn normaliser(logits: &[f64], log_ps: &[f64]) -> [f64; 2] {
    let top = (0..logits.len()).fold(0, |a, b| if logits[b] > logits[a] { b } else { a });
    [logits[top] * f64::from(INVERSE), -log_ps[top]]
}

fn entropy(log_ps: &[f64]) -> f64 {
    log_ps.iter().map(|l| if *l == f64::NEG_INFINITY { 0.0 } else { -l * l.exp() }).sum()
}

/// Logits with one that has no probability; of four lines one has a NaN and one an infinity, which spoil no other; of two lines one is far from
/// 0, in numbers that are held exactly, which costs no digit of its probabilities.
fn logits(c: &mut Case<'_>, n: usize, vocabulary: usize) -> Result<TestArray<f32>> {
    let mut numbers: Vec<f64> = c.normals(n * vocabulary).into_iter().map(|x| 3.0 * x).collect();
    if vocabulary > 10 {
        numbers[vocabulary - 1] = f64::NEG_INFINITY;
    }
    if n == 2 {
        numbers[vocabulary..].iter_mut().for_each(|x| *x = (2.0 * *x).round() / 2.0 + 4096.0);
    }
    if n == 4 {
        (numbers[vocabulary + 5], numbers[2 * vocabulary + 7]) = (f64::NAN, f64::INFINITY);
    }
    c.array(numbers)
}

fn log_prob(c: &mut Case<'_>, n: usize, vocabulary: usize, with_entropy: bool) -> Result {
    let logits = logits(c, n, vocabulary)?;
    let (targets, out) = (c.below(n, vocabulary)?, c.blank::<f32>(4 * n)?);
    c.launch(LogProb {
        logits: logits.ptr(),
        targets: targets.ptr(),
        out: out.out(),
        tokens: n as u32,
        vocabulary: vocabulary as u32,
        inverse_temperature: INVERSE,
        entropy: with_entropy,
    })?;
    let (all, found) = (log_ps(&logits.initial, vocabulary), out.read()?);
    let mut expected = Vec::new();
    for (t, (logits, log_ps)) in
        logits.initial.chunks_exact(vocabulary).zip(all.chunks_exact(vocabulary)).enumerate()
    {
        let target = log_ps[targets.whole()[t] as usize];
        let [max, log_sum] = normaliser(logits, log_ps);
        expected.extend([target, if with_entropy { entropy(log_ps) } else { 0.0 }]);
        // Without a distribution they are what makes a NaN of the two before.
        expected.extend(if log_sum.is_finite() {
            [max, log_sum]
        } else {
            [found[4 * t + 2], found[4 * t + 3]]
        });
    }
    c.near(&out, LOGITS, &expected)
}

fn log_prob_backward(c: &mut Case<'_>, n: usize, vocabulary: usize, with_entropy: bool) -> Result {
    let logits = logits(c, n, vocabulary)?;
    let (targets, slopes) = (c.below(n, vocabulary)?, c.random::<f32>(n)?);
    let of_entropy = c.random::<f32>(n)?;
    let log_ps = log_ps(&logits.initial, vocabulary);
    let lines = logits.initial.chunks_exact(vocabulary).zip(log_ps.chunks_exact(vocabulary));
    let saved =
        lines.flat_map(|(logits, log_ps)| [[0.0, entropy(log_ps)], normaliser(logits, log_ps)].concat());
    let (saved, out) = (c.array::<f32>(saved.collect())?, c.blank(n * vocabulary)?);
    c.launch(LogProbBackward {
        logits: logits.ptr(),
        targets: targets.ptr(),
        saved: saved.ptr(),
        slopes: slopes.ptr(),
        entropy_slopes: with_entropy.then(|| of_entropy.ptr()),
        dlogits: out.out(),
        tokens: n as u32,
        vocabulary: vocabulary as u32,
        inverse_temperature: INVERSE,
    })?;
    let mut expected = Vec::new();
    for (t, line) in log_ps.chunks_exact(vocabulary).enumerate() {
        let (h, g) = (entropy(line), slopes.initial[t]);
        let by_entropy = if with_entropy { of_entropy.initial[t] } else { 0.0 };
        expected.extend(line.iter().enumerate().map(|(j, log_p)| {
            let (p, hit) = (log_p.exp(), f64::from(u8::from(targets.whole()[t] as usize == j)));
            let of_entropy = if p == 0.0 { 0.0 } else { p * (log_p + h) };
            (g * (hit - p) - by_entropy * of_entropy) * f64::from(INVERSE)
        }));
    }
    c.near(&out, LOGITS, &expected)
}

/// The arrays of a [`SampleState`].
struct State {
    rows: usize,
    lengths: TestArray<u32>,
    produced: TestArray<u32>,
    status: TestArray<u32>,
    limits: TestArray<u32>,
    next: TestArray<u32>,
    uniforms: TestArray<f64>,
    codes: TestArray<f64>,
    tokens: TestArray<u32>,
    logps: TestArray<f32>,
    entropies: TestArray<f32>,
    eos: TestArray<u32>,
}

/// The start of a row: tokens so far, status, limit.
type Start = (usize, Status, usize);

impl State {
    /// Rows with these starts; `uniforms` are of the position that each is at, `codes` those of rows that are decoded from one.
    fn new(c: &Case<'_>, rows: &[Start], uniforms: &[f64], codes: &[f64], eos: &[usize]) -> Result<Self> {
        let n = rows.len();
        let mut all = vec![0.9; n * MOST];
        for (row, (start, u)) in rows.iter().zip(uniforms).enumerate() {
            all[row * MOST + start.0] = *u;
        }
        Ok(State {
            rows: n,
            lengths: c.integers((0..n).map(|row| 7 + row))?,
            produced: c.integers(rows.iter().map(|row| row.0))?,
            status: c.integers(rows.iter().map(|row| row.1 as usize))?,
            limits: c.integers(rows.iter().map(|row| row.2))?,
            next: c.blank(n)?,
            uniforms: c.array(all)?,
            codes: c.array(codes.to_vec())?,
            tokens: c.blank(n * MOST)?,
            logps: c.blank(n * MOST)?,
            entropies: c.blank(n * MOST)?,
            eos: c.integers(eos.iter().copied())?,
        })
    }

    /// A draw from these logits, each row from its own line.
    fn plain(&self, logits: &TestArray<f32>, vocabulary: usize) -> Sample {
        Sample {
            logits: logits.ptr(),
            source: None,
            vocabulary: vocabulary as u32,
            inverse_temperature: INVERSE,
            greedy: false,
            advance: false,
            min_new_tokens: 0,
            top_k: None,
            top_p: None,
            state: SampleState {
                rows: self.rows as u32,
                max_new_tokens: MOST as u32,
                lengths: self.lengths.out(),
                produced: self.produced.out(),
                status: self.status.out(),
                limits: self.limits.ptr(),
                next: self.next.out(),
                uniforms: self.uniforms.out(),
                codes: self.codes.out(),
                tokens: self.tokens.out(),
                logps: self.logps.out(),
                entropies: self.entropies.out(),
                eos: self.eos.ptr(),
                eos_len: self.eos.initial.len() as u32,
            },
        }
    }

    /// Compares tokens, counts and states with those after each row's draw, if it drew a token.
    fn expect(&self, c: &mut Case<'_>, draws: &[Option<usize>], after: &[Status]) -> Result {
        let produced =
            self.produced.initial.iter().zip(draws).map(|(n, draw)| n + f64::from(u8::from(draw.is_some())));
        let (mut next, mut tokens) = (self.next.initial.clone(), self.tokens.initial.clone());
        for (row, draw) in draws.iter().enumerate() {
            let Some(token) = draw else { continue };
            next[row] = *token as f64;
            tokens[row * MOST + self.produced.initial[row] as usize] = *token as f64;
        }
        c.exact(&self.next, &next)?;
        c.exact(&self.tokens, &tokens)?;
        c.exact(&self.produced, &produced.collect::<Vec<_>>())?;
        c.exact(&self.status, &after.iter().map(|status| f64::from(*status as u32)).collect::<Vec<_>>())?;
        c.exact(&self.limits, &self.limits.initial)
    }
}

/// The settings of a draw.
#[derive(Clone, Copy)]
struct Draw {
    truncation: Truncation,
    /// True if it is too early to end.
    early: bool,
    greedy: bool,
    /// True for rows that are decoded from codes.
    coded: bool,
}

const PLAIN: Draw =
    Draw { truncation: Truncation { top_k: None, top_p: None }, early: false, greedy: false, coded: false };

const fn cut(top_k: Option<usize>, top_p: Option<f64>) -> Draw {
    Draw { truncation: Truncation { top_k, top_p }, ..PLAIN }
}

const DRAWS: [(&str, Draw); 8] = [
    ("drawn", PLAIN),
    ("greedy", Draw { greedy: true, ..PLAIN }),
    ("from codes", Draw { coded: true, ..PLAIN }),
    ("too early to end", Draw { early: true, ..PLAIN }),
    ("of the 3 likeliest", cut(Some(3), None)),
    ("of the likeliest 0.35, early", Draw { early: true, ..cut(None, Some(0.35)) }),
    ("of the likeliest 0.8 of 40", cut(Some(40), Some(0.8))),
    ("of the 2 likeliest, greedy, early", Draw { early: true, greedy: true, ..cut(Some(2), None) }),
];

/// A token drawn with these scores, and the number that gives it with its place among the numbers that do, from 0 to 1: so far from their ends
/// that `f32` draws it, too. `None` without one.
fn draw(c: &mut Case<'_>, scores: &[f32], likeliest: bool) -> Option<(usize, f64, f64)> {
    if likeliest {
        return Some((greedy(scores).ok()?, 0.0, 0.0));
    }
    loop {
        let u = unit(c.rng.next_u64());
        let distribution = Distribution::new(scores, 1.0).ok()?;
        let token = distribution.token(u);
        let (from, share) = distribution.interval(token);
        if (u - from).min(from + share - u) > 1e-6 {
            return Some((token, u, (u - from) / share));
        }
    }
}

/// The numbers that give `token`: where they begin, and their share.
fn interval(scores: &[f32], token: usize) -> (f64, f64) {
    Distribution::new(scores, 1.0).expect("finite scores").interval(token)
}

/// Draws from a flat line, a peaked one, one with ties, and one of end tokens alone, in the opposite order, as on the CPU; and a row without a
/// line, which stays.
fn drawn(c: &mut Case<'_>, vocabulary: usize, how: Draw) -> Result {
    let ends: Vec<usize> = [1, 4, 40, 41, 42, 300, 301].into_iter().filter(|end| *end < vocabulary).collect();
    let end_alone = |j: usize| if ends.contains(&j) { 1.0 } else { f64::NEG_INFINITY };
    let mut numbers: Vec<f64> = (0..vocabulary).map(end_alone).collect();
    numbers.extend(c.normals(vocabulary).iter().map(|x| (2.0 * x).round()));
    numbers.extend(c.normals(vocabulary).iter().map(|x| 3.0 * x));
    numbers.extend(c.normals(vocabulary).iter().map(|x| 0.3 * x));
    let logits = c.array::<f32>(numbers)?;
    let all = log_ps(&logits.initial, vocabulary);
    let line = |row: usize| &all[(3 - row) * vocabulary..][..vocabulary];
    let mut draws = Vec::new();
    for row in 0..4 {
        let mut scores = single(line(row));
        if how.early {
            ends.iter().for_each(|end| scores[*end] = f32::NEG_INFINITY);
        }
        how.truncation.apply(&mut scores);
        let drawn = draw(c, &scores, how.greedy);
        draws.push(drawn.map(|(token, u, rest)| (token, u, rest, interval(&scores, token).1)));
    }
    let uniforms: Vec<f64> = draws.iter().map(|draw| draw.map_or(0.5, |draw| draw.1)).chain([0.5]).collect();
    let code = |row: usize| if how.coded { [1.0, 1.5 * Code::LEAST, 0.0][row % 3] } else { 0.0 };
    let codes: Vec<f64> = (0..5).map(code).collect();
    let state = State::new(c, &[(2, Status::Active, MOST); 5], &uniforms, &codes, &ends)?;
    let source = c.integers([3, 2, 1, 0, Sample::NO_LINE as usize])?;
    let top_p = c.array(vec![how.truncation.top_p.unwrap_or(1.0)])?;
    c.launch(Sample {
        source: Some(source.ptr()),
        greedy: how.greedy,
        advance: true,
        min_new_tokens: if how.early { 3 } else { 0 },
        top_k: how.truncation.top_k.map(|k| k as u32),
        top_p: how.truncation.top_p.map(|_| top_p.ptr()),
        ..state.plain(&logits, vocabulary)
    })?;
    let tokens: Vec<Option<usize>> = draws.iter().map(|draw| draw.map(|draw| draw.0)).chain([None]).collect();
    let after = |(row, token): (usize, &Option<usize>)| match token {
        Some(token) if ends.contains(token) => Status::Ended,
        None if row < 4 => Status::NotNumbers,
        Some(_) | None => Status::Active,
    };
    state.expect(c, &tokens, &tokens.iter().enumerate().map(after).collect::<Vec<_>>())?;
    let lengths = state.lengths.initial.iter().enumerate();
    c.exact(
        &state.lengths,
        &lengths.map(|(row, len)| len + f64::from(u8::from(row < 4))).collect::<Vec<_>>(),
    )?;
    let (mut logps, mut entropies) = (state.logps.initial.clone(), state.entropies.initial.clone());
    let (mut left, mut numbers, found) = (codes, state.uniforms.initial.clone(), state.uniforms.read()?);
    for (row, drawn) in draws.iter().enumerate() {
        let Some((_, _, rest, share)) = drawn else { continue };
        (logps[row * MOST + 2], entropies[row * MOST + 2]) = (share.ln(), entropy(line(row)));
        left[row] *= share;
        // What is left of a code is the next number, unless it is used up.
        if left[row] >= Code::LEAST {
            let next = row * MOST + 3;
            c.number(found[next], *rest, 1e-6 / share);
            numbers[next] = found[next];
        }
    }
    c.compare(&state.logps, &logps, |value| 1e-6 * (1.0 + value.abs()))?;
    c.compare(&state.entropies, &entropies, |value| 1e-6 * (1.0 + value.abs()))?;
    c.compare(&state.codes, &left, |value| 1e-6 * value)?;
    c.exact(&state.uniforms, &numbers)?;
    if how.truncation.is_none() && !how.early {
        as_trained(c, &logits, &state, &tokens)?;
    }
    Ok(())
}

/// The log-probabilities and entropies of drawn tokens are those of training, to the bit.
fn as_trained(c: &mut Case<'_>, logits: &TestArray<f32>, state: &State, tokens: &[Option<usize>]) -> Result {
    let vocabulary = logits.initial.len() / 4;
    let targets = c.integers((0..4).map(|line| tokens[3 - line].unwrap_or(0)))?;
    let out = c.blank::<f32>(16)?;
    c.launch(LogProb {
        logits: logits.ptr(),
        targets: targets.ptr(),
        out: out.out(),
        tokens: 4,
        vocabulary: vocabulary as u32,
        inverse_temperature: INVERSE,
        entropy: true,
    })?;
    let (trained, logps, entropies) = (out.read()?, state.logps.read()?, state.entropies.read()?);
    for row in (0..4).filter(|row| tokens[*row].is_some()) {
        c.number(logps[row * MOST + 2], trained[4 * (3 - row)], 0.0);
        c.number(entropies[row * MOST + 2], trained[4 * (3 - row) + 1], 0.0);
    }
    Ok(())
}

/// Rows that draw token after token at the edge of a token's share, or near it: a token's share has the number, up to the rounding of the sum
/// of the shares before it.
fn shares(c: &mut Case<'_>, vocabulary: usize) -> Result {
    const ROWS: usize = 16;
    let offsets: [f64; MOST] = [0.0, 1e-9, -1e-9, 1e-7, -1e-7, 1e-5, -1e-5, 1e-3];
    // Flat lines, too: many tokens of nearly one probability, so many edges.
    let numbers = c.normals(ROWS * vocabulary).into_iter().enumerate();
    let spread = |(i, x): (usize, f64)| if (i / vocabulary).is_multiple_of(2) { 0.3 * x } else { 4.0 * x };
    let logits = c.array::<f32>(numbers.map(spread).collect())?;
    let scores = single(&log_ps(&logits.initial, vocabulary));
    let mut uniforms = Vec::new();
    for line in scores.chunks_exact(vocabulary) {
        for offset in offsets {
            let (edge, _) = interval(line, below(&mut c.rng, vocabulary as u64) as usize);
            uniforms.push((edge + offset).clamp(0.0, 1.0 - f64::EPSILON));
        }
    }
    let state = State::new(c, &[(0, Status::Active, MOST); ROWS], &[], &[0.0; ROWS], &[])?;
    state.uniforms.write(&uniforms)?;
    (0..MOST).try_for_each(|_| c.launch(state.plain(&logits, vocabulary)))?;
    for (i, (token, u)) in state.tokens.read()?.into_iter().zip(uniforms).enumerate() {
        let line = &scores[i / MOST * vocabulary..][..vocabulary];
        let outside = if token < vocabulary as f64 {
            let (from, share) = interval(line, token as usize);
            (from - u).max(u - from - share).max(0.0)
        } else {
            f64::INFINITY
        };
        c.number(outside, 0.0, 1e-6);
    }
    c.exact(&state.produced, &[MOST as f64; ROWS])
}

/// Uniform numbers at both ends, with tokens at both ends that cannot be drawn; rows that reach their limit, are at it or have ended; and rows
/// without a distribution.
fn edges(c: &mut Case<'_>, vocabulary: usize) -> Result {
    use Status::{Active, Ended, NotNumbers, Truncated};
    let last = 1.0 - f64::EPSILON / 2.0;
    let rows: [(Start, f64, Option<usize>, Status); 8] = [
        ((0, Active, MOST), 0.0, Some(2), Active),
        ((0, Active, MOST), last, Some(vocabulary - 3), Active),
        ((4, Active, 5), 0.0, Some(2), Truncated),
        ((5, Active, 5), 0.5, None, Truncated),
        ((2, Truncated, 2), 0.5, None, Truncated),
        ((1, Ended, MOST), 0.5, None, Ended),
        ((1, Active, MOST), 0.5, None, NotNumbers),
        ((1, Active, MOST), 0.5, None, NotNumbers),
    ];
    let logit = |i: usize| if i < 2 || i + 2 >= vocabulary { f64::NEG_INFINITY } else { 0.5 };
    let mut numbers: Vec<f64> = (0..8 * vocabulary).map(|i| logit(i % vocabulary)).collect();
    (numbers[6 * vocabulary + 2], numbers[7 * vocabulary + 2]) = (f64::NAN, f64::INFINITY);
    let logits = c.array::<f32>(numbers)?;
    let state = State::new(c, &rows.map(|row| row.0), &rows.map(|row| row.1), &[0.0; 8], &[])?;
    c.launch(state.plain(&logits, vocabulary))?;
    state.expect(c, &rows.map(|row| row.2), &rows.map(|row| row.3))
}
