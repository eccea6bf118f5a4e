//! Attention and its gradients against the products and softmax that they are made of, and against finite differences.

use grpo_lambda_gpu::Dtype;
use grpo_lambda_gpu::kernels::{Attention, AttentionKeys, AttentionQueries, HeadShape, Segments, TILE};

use super::{Harness, everywhere, in_every_order, numbers, wide};
use crate::emulator::Order;

/// Tokens of every segment, and the prefix it continues.
type Layout = [(usize, Option<usize>)];

/// Rows alone, of one token, of a tile and of more than two.
const ALONE: &Layout = &[(1, None), (64, None), (130, None), (7, None)];
/// Two prefixes, one longer than a tile, one that a single row continues, and a row without.
const SHARED: &Layout =
    &[(66, None), (2, None), (3, Some(0)), (70, Some(0)), (1, Some(0)), (5, Some(1)), (4, None)];

/// A problem: its sizes, and what each token sees, itself last.
struct Problem {
    heads: HeadShape,
    lists: [Vec<u32>; 4],
    seen: Vec<Vec<usize>>,
    scale: f64,
}

fn problem(heads: HeadShape, layout: &Layout) -> Problem {
    let mut lists = [vec![0], Vec::new(), Vec::new(), Vec::new()];
    let mut seen = Vec::new();
    for (s, (len, prefix)) in layout.iter().enumerate() {
        let start = lists[0][s];
        lists[0].push(start + *len as u32);
        lists[1].push(prefix.unwrap_or(s) as u32);
        let readers: Vec<usize> = (0..layout.len()).filter(|r| layout[*r].1 == Some(s)).collect();
        lists[2]
            .extend([readers.first().map_or(0, |r| *r as u32), readers.last().map_or(0, |r| *r as u32 + 1)]);
        (0..*len as u32).step_by(TILE as usize).for_each(|first| lists[3].extend([s as u32, first]));
        for i in 0..*len {
            let before = prefix.map_or(0..0, |p| lists[0][p] as usize..lists[0][p + 1] as usize);
            seen.push(before.chain(start as usize..=start as usize + i).collect());
        }
    }
    Problem { heads, lists, seen, scale: 1.0 / f64::from(heads.dim).sqrt() }
}

/// What attention gives, and what its gradients are.
struct Results {
    out: Vec<f64>,
    log_sum: Vec<f64>,
    dqkv: Vec<f64>,
}

impl Problem {
    fn width(&self) -> usize {
        ((self.heads.query + 2 * self.heads.key) * self.heads.dim) as usize
    }

    /// Where head `h` of a token begins, and where the key and the value head that belong to it.
    fn places(&self, token: usize, h: usize) -> [usize; 3] {
        let (query, key) = (self.heads.query as usize, self.heads.key as usize);
        let g = h / (query / key);
        [h, query + g, query + key + g].map(|head| token * self.width() + head * self.heads.dim as usize)
    }

    /// `S = Q K^T`, `P = softmax(S scale)`, `O = P V`; `dV = P^T dO`, `dP = dO V^T`, `dS = P (dP - sum P dP) scale`, `dQ = dS K`,
    /// `dK = dS^T Q`.
    fn reference(&self, qkv: &[f64], dout: &[f64]) -> Results {
        let (query, dim) = (self.heads.query as usize, self.heads.dim as usize);
        let (mut out, mut log_sum) = (vec![0.0; dout.len()], Vec::new());
        let mut dqkv = vec![0.0; qkv.len()];
        let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
        for token in 0..self.seen.len() {
            for h in 0..query {
                let line = (token * query + h) * dim;
                let [q, ..] = self.places(token, h);
                let keys: Vec<[usize; 3]> = self.seen[token].iter().map(|key| self.places(*key, h)).collect();
                let of = |k: &[usize; 3]| dot(&qkv[q..q + dim], &qkv[k[1]..k[1] + dim]) * self.scale;
                let s: Vec<f64> = keys.iter().map(of).collect();
                let top = s.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum = top + s.iter().map(|s| (s - top).exp()).sum::<f64>().ln();
                let p: Vec<f64> = s.iter().map(|s| (s - sum).exp()).collect();
                let dp: Vec<f64> =
                    keys.iter().map(|k| dot(&dout[line..line + dim], &qkv[k[2]..k[2] + dim])).collect();
                let inner = dot(&p, &dp);
                for (j, [_, k, v]) in keys.into_iter().enumerate() {
                    let ds = p[j] * (dp[j] - inner) * self.scale;
                    for i in 0..dim {
                        out[line + i] += p[j] * qkv[v + i];
                        dqkv[v + i] += p[j] * dout[line + i];
                        dqkv[q + i] += ds * qkv[k + i];
                        dqkv[k + i] += ds * qkv[q + i];
                    }
                }
                log_sum.push(sum);
            }
        }
        Results { out, log_sum, dqkv }
    }

    /// The kernels' forward pass, then their backward pass.
    fn run(&self, b: &Harness, qkv: &[f32], dout: &[f32]) -> [Vec<f32>; 3] {
        let (heads, scale) = (self.heads, self.scale as f32);
        let lists = self.lists.each_ref().map(|list| b.raw(list));
        let segments = Segments {
            offsets: lists[0].ptr(),
            prefix: lists[1].ptr(),
            readers: lists[2].ptr(),
            query_tiles: lists[3].ptr(),
            key_tiles: lists[3].ptr(),
            count: self.lists[3].len() as u32 / 2,
            tokens: self.seen.len(),
            pairs: 0.0,
        };
        let (x, d, out) = (b.put(qkv), b.put(dout), b.blank(dout.len()));
        let queries = self.seen.len() * heads.query as usize;
        let (sums, inner, dqkv) = (b.raw_blank(queries), b.raw_blank(queries), b.blank(qkv.len()));
        let (qkv, dout, to) = (x.ptr(), d.ptr(), dqkv.ptr_mut());
        let log_sum = sums.ptr_mut();
        b.k.launch(Attention { qkv, segments, out: out.ptr_mut(), log_sum, heads, scale }).unwrap();
        let log_sum = sums.ptr();
        b.k.launch(AttentionQueries {
            qkv,
            out: out.ptr(),
            dout,
            log_sum,
            segments,
            inner: inner.ptr_mut(),
            dqkv: to,
            heads,
            scale,
        })
        .unwrap();
        let inner = inner.ptr();
        b.k.launch(AttentionKeys { qkv, dout, log_sum, inner, segments, dqkv: to, heads, scale }).unwrap();
        [b.get(&out), b.get_raw(&sums), b.get(&dqkv)]
    }
}

fn inputs(b: &Harness, p: &Problem) -> (Vec<f32>, Vec<f32>) {
    let width = (p.heads.query * p.heads.dim) as usize;
    let x = b.rounded(&numbers(1, p.seen.len() * p.width()));
    (x, b.rounded(&numbers(2, p.seen.len() * width)))
}

fn follows_the_products(b: &Harness, heads: HeadShape, layout: &Layout) {
    let p = problem(heads, layout);
    let (qkv, dout) = inputs(b, &p);
    let want = p.reference(&wide(&qkv), &wide(&dout));
    let [out, log_sum, dqkv] = p.run(b, &qkv, &dout);
    // In bf16 probabilities and gradients of scores are rounded before they enter a sum.
    let (few, many) = if b.dtype == Dtype::F32 { (2e-6, 2e-5) } else { (8e-3, 3e-2) };
    b.close("attention", &out, &want.out, |_| 1.0, few);
    b.close_raw("attention, log sums", &log_sum, &want.log_sum, |i| 1.0 + want.log_sum[i].abs(), 2e-6);
    b.close("attention backward", &dqkv, &want.dqkv, |i| 4.0 + want.dqkv[i].abs(), many);
}

#[test]
fn attention_and_its_gradients_follow_the_products_they_are_made_of() {
    everywhere(|b| {
        follows_the_products(b, HeadShape { query: 4, key: 2, dim: 6 }, SHARED);
        follows_the_products(b, HeadShape { query: 3, key: 1, dim: 64 }, &SHARED[..5]);
        follows_the_products(b, HeadShape { query: 2, key: 2, dim: 10 }, ALONE);
    });
    in_every_order(|b| {
        follows_the_products(b, HeadShape { query: 2, key: 1, dim: 128 }, SHARED);
        follows_the_products(b, HeadShape { query: 2, key: 1, dim: 136 }, &ALONE[2..]);
        follows_the_products(b, HeadShape { query: 1, key: 1, dim: 258 }, &SHARED[1..2]);
    });
}

/// The definition of a gradient, of everything at once: the sum of `dout out` moves as `dqkv` says.
#[test]
fn gradients_are_those_of_finite_differences() {
    let Some(b) = Harness::new(Order::Forward, Dtype::F32) else { return };
    let p = problem(HeadShape { query: 2, key: 1, dim: 4 }, &[(3, None), (2, Some(0)), (3, Some(0))]);
    let (qkv, dout) = inputs(&b, &p);
    let [.., dqkv] = p.run(&b, &qkv, &dout);
    let value = |qkv: &[f32]| -> f64 {
        let out = p.run(&b, qkv, &dout)[0].clone();
        wide(&out).iter().zip(&dout).map(|(o, d)| o * f64::from(*d)).sum()
    };
    for i in 0..qkv.len() {
        let moved = |by: f32| {
            let mut moved = qkv.clone();
            moved[i] += by;
            value(&moved)
        };
        let slope = (moved(1e-2) - moved(-1e-2)) / 2e-2;
        assert!((slope - f64::from(dqkv[i])).abs() < 2e-3, "number {i}: {slope}, not {}", dqkv[i]);
    }
}

/// Rows that continue a prefix give what rows with that prefix of their own give: outputs to the bit, gradients of the prefix as a sum.
#[test]
fn a_shared_prefix_is_its_rows_prefixes_together() {
    in_every_order(|b| {
        let heads = HeadShape { query: 4, key: 2, dim: 16 };
        let shared = problem(heads, &[(5, None), (3, Some(0)), (2, Some(0))]);
        let apart = problem(heads, &[(5, None), (8, None), (7, None)]);
        let (qkv, dout) = inputs(b, &shared);
        let places: Vec<usize> = (0..5).chain(0..5).chain(5..8).chain(0..5).chain(8..10).collect();
        let spread = |x: &[f32], width: usize| -> Vec<f32> {
            places.iter().flat_map(|t| x[t * width..(t + 1) * width].to_vec()).collect()
        };
        // The prefix itself has its own slopes once; in the rows it has none.
        let mut douts = spread(&dout, 64);
        [5..10, 13..18].into_iter().for_each(|copy| douts[copy.start * 64..copy.end * 64].fill(0.0));
        let [out, _, dqkv] = shared.run(b, &qkv, &dout);
        let [outs, _, dqkvs] = apart.run(b, &spread(&qkv, shared.width()), &douts);
        assert_eq!(outs, spread(&out, 64));
        let mut sum = vec![0.0; qkv.len()];
        for (token, dqkv) in places.iter().zip(wide(&dqkvs).chunks_exact(shared.width())) {
            sum[token * shared.width()..][..shared.width()].iter_mut().zip(dqkv).for_each(|(s, d)| *s += d);
        }
        let tolerance = if b.dtype == Dtype::F32 { 1e-5 } else { 2e-2 };
        b.close("attention, shared", &dqkv, &sum, |_| 4.0, tolerance);
    });
}
