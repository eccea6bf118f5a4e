//! Attention over the rows of a batch, and its gradients.

use grpo_lambda_decoder::model::Rows;
use grpo_lambda_decoder::model::ops::attention::{self, Context};
use grpo_lambda_decoder::model::ops::buffer::Pool;

use super::HEADS;
use super::array::TestArray;
use super::case::{Case, Checker, Result, largest};
use super::heads::{label, on_the_cpu};
use crate::batch::Batch;
use crate::kernels::{Attention, AttentionKeys, AttentionKeysSum, AttentionQueries, HeadShape};
use crate::ptr::Real;

/// Heads wider than those of the other kernels.
const WIDER: HeadShape = HeadShape { query: 1, key: 1, dim: 258 };

/// Tokens of rows, each list after the prefix that its rows continue.
type Layout = &'static [(usize, &'static [usize])];

/// Layouts, and the factor of their queries: rows of several tiles, of one token, and one that a tile ends; a prefix of several tiles; scores
/// whose exponentials overflow unless the largest is subtracted.
const LAYOUTS: [(Layout, f64); 3] =
    [(&[(5, &[3, 1]), (0, &[70, 64, 1])], 1.0), (&[(67, &[66, 9])], 1.0), (&[(9, &[5])], 64.0)];

pub(super) fn check(checker: &mut Checker) {
    let heads = checker.extent.sizes(&HEADS);
    // The two widest of the other kernels take long and have no edge here.
    let here = heads.iter().filter(|heads| heads.dim <= 134 && heads.query < 20).chain([&WIDER]);
    for heads in here.copied() {
        for (layout, steepness) in LAYOUTS {
            let tokens: usize = layout.iter().map(|(prefix, rows)| prefix + rows.iter().sum::<usize>()).sum();
            let sizes = label(heads, &format!("over {tokens} tokens"));
            let problem = |c: &mut Case<'_>| Problem::new(c, heads, layout, steepness);
            checker.case("attention", &sizes, |c| problem(c)?.forward(c));
            checker.case("attention_queries", &sizes, |c| problem(c)?.queries(c));
            checker.case("attention_keys", &sizes, |c| problem(c)?.keys(c));
            checker.case("attention_keys_sum", &sizes, |c| problem(c)?.keys(c));
        }
    }
}

/// A projection of a batch.
struct Problem {
    heads: HeadShape,
    rows: Rows,
    batch: Batch,
    /// The first token of every segment of the batch, and the end of the last.
    offsets: Vec<usize>,
    qkv: TestArray<Real>,
    scale: f32,
    /// The largest magnitude of a score.
    scores: f64,
}

/// The inputs of the backward pass besides the projection.
struct Given {
    out: TestArray<Real>,
    dout: TestArray<Real>,
    log_sum: TestArray<f32>,
    /// `dout . out` of every query head.
    inner: Vec<f64>,
    /// The gradient of the projection.
    expected: Vec<f64>,
}

impl Problem {
    fn new(c: &mut Case<'_>, heads: HeadShape, layout: Layout, steepness: f64) -> Result<Self> {
        let mut rows = Rows::new();
        for (prefix, lengths) in layout {
            rows.share(&vec![0; *prefix]);
            lengths.iter().for_each(|len| rows.push(&vec![0; *len], *len));
        }
        let batch = Batch::new(c.device(), &rows)?;
        let lengths = rows.prefixes().iter().map(Vec::len);
        let mut offsets = vec![0];
        for len in lengths.chain(rows.offsets().windows(2).map(|pair| pair[1] - pair[0])) {
            offsets.push(offsets[offsets.len() - 1] + len);
        }
        let cpu = on_the_cpu(heads);
        let mut qkv = c.normals(batch.tokens() * cpu.stride());
        for token in qkv.chunks_exact_mut(cpu.stride()) {
            token[..cpu.width()].iter_mut().for_each(|x| *x *= steepness);
        }
        let scale = 1.0 / f64::from(heads.dim).sqrt();
        let scores = steepness * f64::from(heads.dim).sqrt();
        Ok(Problem { heads, rows, batch, offsets, qkv: c.array(qkv)?, scale: scale as f32, scores })
    }

    /// The tokens that every segment sees before its own.
    fn before(&self) -> Vec<&[f64]> {
        let (prefixes, stride) = (self.rows.prefixes().len(), on_the_cpu(self.heads).stride());
        let tokens = |p: usize| &self.qkv.initial[self.offsets[p] * stride..self.offsets[p + 1] * stride];
        let rows = (0..self.rows.len()).map(|i| self.rows.prefix(i).map_or(&[][..], tokens));
        std::iter::repeat_n(&[][..], prefixes).chain(rows).collect()
    }

    /// The output and the log-sums of the CPU.
    fn attended(&self) -> (Vec<f64>, Vec<f64>) {
        let (cpu, tokens) = (on_the_cpu(self.heads), self.batch.tokens());
        let (mut out, mut log_sum) = (vec![0.0; tokens * cpu.width()], vec![0.0; tokens * cpu.query]);
        let (qkv, before) = (&self.qkv.initial, self.before());
        attention::forward(&Pool::default(), cpu, qkv, &self.offsets, &before, &mut out, &mut log_sum);
        (out, log_sum)
    }

    /// The gradient of the CPU: of the rows first, then of the prefixes they continue.
    fn gradient(&self, out: &[f64], log_sum: &[f64], dout: &[f64]) -> Vec<f64> {
        let (cpu, pool, qkv) = (on_the_cpu(self.heads), Pool::default(), &self.qkv.initial);
        let prefixes = self.rows.prefixes();
        let first = self.offsets[prefixes.len()];
        let mut sums: Vec<Vec<f64>> = prefixes.iter().map(|p| vec![0.0; p.len() * cpu.cached()]).collect();
        let mut dqkv = vec![0.0; qkv.len()];
        let (of_prefixes, of_rows) = dqkv.split_at_mut(first * cpu.stride());
        let before = self.before().split_off(prefixes.len());
        let sum = |i: usize| self.rows.prefix(i).unwrap_or(0);
        let contexts = before.into_iter().enumerate();
        let contexts: Vec<_> =
            contexts.map(|(i, before)| Context { before, sum: sum(i), own: &[] }).collect();
        attention::backward(
            &pool,
            cpu,
            &qkv[first * cpu.stride()..],
            self.rows.offsets(),
            &out[first * cpu.width()..],
            &log_sum[first * cpu.query..],
            &dout[first * cpu.width()..],
            of_rows,
            &contexts,
            &mut sums,
        );
        let contexts: Vec<_> = sums.iter().map(|own| Context { before: &[], sum: 0, own }).collect();
        let offsets = &self.offsets[..=prefixes.len()];
        attention::backward(&pool, cpu, qkv, offsets, out, log_sum, dout, of_prefixes, &contexts, &mut []);
        dqkv
    }

    fn forward(&self, c: &mut Case<'_>) -> Result {
        let (expected, sums) = self.attended();
        let (out, log_sum) = (c.blank(expected.len())?, c.blank(sums.len())?);
        let Problem { heads, scale, .. } = *self;
        let (qkv, segments, to) = (self.qkv.ptr(), self.batch.segments(), out.out());
        c.launch(Attention { qkv, segments, out: to, log_sum: log_sum.out(), heads, scale })?;
        let most = largest(&expected);
        c.near_stored(&out, (most * (2.0 + 2.0 * self.scores), most), &expected)?;
        c.near(&log_sum, largest(&sums) + self.scores, &sums)
    }

    fn given(&self, c: &mut Case<'_>) -> Result<Given> {
        let (out, log_sum) = self.attended();
        let (out, log_sum) = (c.array::<Real>(out)?, c.array::<f32>(log_sum)?);
        let dout = c.random::<Real>(out.initial.len())?;
        let dim = self.heads.dim as usize;
        let heads = out.initial.chunks_exact(dim).zip(dout.initial.chunks_exact(dim));
        let inner = heads.map(|(out, dout)| out.iter().zip(dout).map(|(a, b)| a * b).sum()).collect();
        let expected = self.gradient(&out.initial, &log_sum.initial, &dout.initial);
        Ok(Given { out, dout, log_sum, inner, expected })
    }

    /// Compares the numbers of `dqkv` that are `written`, by their place in a token; the others must be as they were.
    fn compare(
        &self,
        c: &mut Case<'_>,
        dqkv: &TestArray<Real>,
        expected: &[f64],
        written: std::ops::Range<usize>,
    ) -> Result {
        let (stride, most) = (on_the_cpu(self.heads).stride(), largest(expected));
        let both = expected.iter().zip(&dqkv.initial).enumerate();
        let merged = both.map(|(i, (new, old))| if written.contains(&(i % stride)) { *new } else { *old });
        c.near_stored(dqkv, (most * (2.0 + 2.0 * self.scores), most), &merged.collect::<Vec<_>>())
    }

    fn queries(&self, c: &mut Case<'_>) -> Result {
        let given = self.given(c)?;
        let (inner, dqkv) = (c.blank(given.inner.len())?, c.random::<Real>(given.expected.len())?);
        c.launch(AttentionQueries {
            qkv: self.qkv.ptr(),
            out: given.out.ptr(),
            dout: given.dout.ptr(),
            log_sum: given.log_sum.ptr(),
            segments: self.batch.segments(),
            inner: inner.out(),
            dqkv: dqkv.out(),
            heads: self.heads,
            scale: self.scale,
        })?;
        c.near(&inner, largest(&given.inner), &given.inner)?;
        self.compare(c, &dqkv, &given.expected, 0..on_the_cpu(self.heads).width())
    }

    /// Both kernels of the gradients of keys and values.
    fn keys(&self, c: &mut Case<'_>) -> Result {
        let given = self.given(c)?;
        let (inner, dqkv) = (c.array::<f32>(given.inner)?, c.random::<Real>(given.expected.len())?);
        let (segments, heads) = (self.batch.segments(), self.heads);
        let sums = c.blank::<f32>(segments.sums(heads))?;
        c.launch(AttentionKeys {
            qkv: self.qkv.ptr(),
            dout: given.dout.ptr(),
            log_sum: given.log_sum.ptr(),
            inner: inner.ptr(),
            segments,
            dqkv: dqkv.out(),
            sums: Some(sums.out()),
            heads,
            scale: self.scale,
        })?;
        c.launch(AttentionKeysSum { sums: sums.ptr(), segments, dqkv: dqkv.out(), heads })?;
        let cpu = on_the_cpu(heads);
        self.compare(c, &dqkv, &given.expected, cpu.width()..cpu.stride())
    }
}
