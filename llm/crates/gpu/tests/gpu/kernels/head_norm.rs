//! The norms of query and key heads.

use grpo_lambda_decoder::model::ops::attention::Heads;
use grpo_lambda_decoder::model::ops::norm::{self, Groups};
use grpo_lambda_gpu::kernels::{HeadNorm, HeadNormBackward, HeadNormWeight, HeadShape};

use super::{bits, everywhere, in_every_order, numbers, wide};

const EPS: f32 = 1e-6;

/// Heads narrower and wider than what a warp reads at once, one of a single pair, and more keys than a block has warps.
const SHAPES: [HeadShape; 5] = [
    HeadShape { query: 4, key: 2, dim: 6 },
    HeadShape { query: 1, key: 1, dim: 2 },
    HeadShape { query: 16, key: 8, dim: 128 },
    HeadShape { query: 3, key: 1, dim: 130 },
    HeadShape { query: 2, key: 2, dim: 256 },
];

fn cpu(s: HeadShape) -> Heads {
    Heads { query: s.query as usize, key: s.key as usize, dim: s.dim as usize }
}

fn groups<'a>(heads: Heads, query: &'a [f64], key: &'a [f64]) -> Groups<'a, f64> {
    Groups::new(heads.stride(), [(heads.query, query), (heads.key, key)])
}

/// Token-major numbers plus their bias, if there is one.
fn biased(x: &[f32], bias: Option<&[f32]>) -> Vec<f64> {
    let b = |i: usize| bias.map_or(0.0, |b| f64::from(b[i % b.len()]));
    x.iter().enumerate().map(|(i, x)| f64::from(*x) + b(i)).collect()
}

/// What the CPU's operation makes of a projection in `f64`, and the scales of its heads.
fn on_the_cpu(s: HeadShape, x: &[f64], weight: &[f32]) -> (Vec<f64>, Vec<f64>) {
    let (heads, weight) = (cpu(s), wide(weight));
    let (query, key) = weight.split_at(s.dim as usize);
    let (mut out, mut scale) = (vec![0.0; x.len()], vec![0.0; x.len() / heads.stride() * heads.rotated()]);
    norm::forward(&groups(heads, query, key), x, f64::from(EPS), &mut out, &mut scale);
    (out, scale)
}

#[test]
fn heads_are_normed_as_on_the_cpu_elsewhere_and_in_place() {
    everywhere(|b| {
        for s in SHAPES {
            let (tokens, width) = (5usize, cpu(s).stride());
            let [x, bias, w] = [(1, tokens * width), (2, width), (3, 2 * s.dim as usize)]
                .map(|(seed, n)| b.rounded(&numbers(seed, n)));
            for bias in [None, Some(&bias[..])] {
                let (want, _) = on_the_cpu(s, &biased(&x, bias), &w);
                let (qkv, weight, out) = (b.put(&x), b.put(&w), b.blank(x.len()));
                let on_device = bias.map(|bias| b.put(bias));
                let norm = HeadNorm {
                    qkv: qkv.ptr(),
                    bias: on_device.as_ref().map(|bias| bias.ptr()),
                    weight: weight.ptr(),
                    out: out.ptr_mut(),
                    tokens: tokens as u32,
                    heads: s,
                    eps: EPS,
                };
                b.k.launch(norm).unwrap();
                let got = b.get(&out);
                b.close("head_norm", &got, &want, |i| want[i].abs(), 6e-7);
                b.k.launch(HeadNorm { out: qkv.ptr_mut(), ..norm }).unwrap();
                assert_eq!(bits(&b.get(&qkv)), bits(&got));
            }
        }
    });
}

#[test]
fn gradients_of_head_norms_agree_with_the_cpu() {
    everywhere(|b| {
        for s in SHAPES {
            let (heads, dim) = (cpu(s), s.dim as usize);
            let (tokens, width) = (7usize, heads.stride());
            let [x, bias, w, dy] = [(4, tokens * width), (5, width), (6, 2 * dim), (7, tokens * width)]
                .map(|(seed, n)| b.rounded(&numbers(seed, n)));
            let before = numbers(8, 2 * dim);
            for bias in [None, Some(&bias[..])] {
                let qkv = biased(&x, bias);
                let (_, scale) = on_the_cpu(s, &qkv, &w);
                let weights = wide(&w);
                let (mut dx, mut dw) = (wide(&dy), wide(&before));
                let (query, key) = weights.split_at(dim);
                let norm = groups(heads, query, key);
                norm::backward(&norm, &qkv, &scale, &mut dx);
                let (of_query, of_key) = dw.split_at_mut(dim);
                for (of, dw) in [(0..heads.query, of_query), (heads.query..heads.rotated(), of_key)] {
                    norm::backward_weight(&norm, of, &qkv, &scale, &wide(&dy), dw);
                }

                let rows = HeadNormBackward::parts(tokens as u32, s);
                let [qkv, weight, out] = [&x, &w, &dy].map(|x| b.put(x));
                let on_device = bias.map(|bias| b.put(bias));
                let (parts, dweight) = (b.raw_blank::<f32>(rows as usize * 2 * dim), b.raw(&before));
                let backward = HeadNormBackward {
                    qkv: qkv.ptr(),
                    bias: on_device.as_ref().map(|bias| bias.ptr()),
                    weight: weight.ptr(),
                    dqkv: out.ptr_mut(),
                    parts: Some(parts.ptr_mut()),
                    tokens: tokens as u32,
                    heads: s,
                    eps: EPS,
                };
                b.k.launch(backward).unwrap();
                let got = b.get(&out);
                let largest = dx.iter().fold(1.0f64, |a, x| a.max(x.abs()));
                b.close("head_norm_backward", &got, &dx, |_| largest, 6e-7);
                let dweight_at = dweight.ptr_mut();
                b.k.launch(HeadNormWeight {
                    parts: parts.ptr(),
                    dweight: dweight_at,
                    rows,
                    width: 2 * s.dim,
                })
                .unwrap();
                let root = ((tokens * heads.query) as f64).sqrt();
                b.close_raw("head_norm_weight", &b.get_raw(&dweight), &dw, |_| 3.0 * root, 6e-7);
                // Without the gradient of the weights: the same bits.
                let again = b.put(&dy);
                b.k.launch(HeadNormBackward { dqkv: again.ptr_mut(), parts: None, ..backward }).unwrap();
                assert_eq!(bits(&b.get(&again)), bits(&got));
            }
        }
    });
}

/// More heads than the blocks take at once: each block takes several turns, and all of them count.
#[test]
fn a_batch_that_is_larger_than_the_grid_is_summed_whole() {
    in_every_order(|b| {
        let (s, tokens) = (HeadShape { query: 2, key: 1, dim: 2 }, 2500usize);
        let heads = cpu(s);
        assert!(tokens * heads.query > 8 * HeadNormBackward::parts(tokens as u32, s) as usize);
        let x = b.rounded(&numbers(9, tokens * heads.stride()));
        let (weight, dy) = ([1.0f32; 4], vec![1.0f32; x.len()]);
        let (_, scale) = on_the_cpu(s, &wide(&x), &weight);
        let mut want = vec![0.0; 4];
        let (of_query, of_key) = want.split_at_mut(2);
        let norm = groups(heads, &[1.0; 2], &[1.0; 2]);
        norm::backward_weight(&norm, 0..2, &wide(&x), &scale, &wide(&dy), of_query);
        norm::backward_weight(&norm, 2..3, &wide(&x), &scale, &wide(&dy), of_key);
        let rows = HeadNormBackward::parts(tokens as u32, s);
        let (qkv, weight, dqkv) = (b.put(&x), b.put(&weight), b.put(&dy));
        let (parts, dweight) = (b.raw_blank::<f32>(rows as usize * 4), b.raw(&[0.0f32; 4]));
        b.k.launch(HeadNormBackward {
            qkv: qkv.ptr(),
            bias: None,
            weight: weight.ptr(),
            dqkv: dqkv.ptr_mut(),
            parts: Some(parts.ptr_mut()),
            tokens: tokens as u32,
            heads: s,
            eps: EPS,
        })
        .unwrap();
        let dweight_at = dweight.ptr_mut();
        b.k.launch(HeadNormWeight { parts: parts.ptr(), dweight: dweight_at, rows, width: 4 }).unwrap();
        b.close_raw("head_norm_weight 2500", &b.get_raw(&dweight), &want, |_| 3.0 * 71.0, 6e-7);
    });
}

#[test]
fn one_nan_spoils_its_own_head_and_no_other() {
    everywhere(|b| {
        let (s, tokens) = (HeadShape { query: 2, key: 1, dim: 6 }, 2usize);
        let (heads, width) = (4, 24);
        let mut x = b.rounded(&numbers(10, tokens * width));
        x[width + 6 + 2] = f32::NAN; // the second query head of the second token
        let (qkv, weight, out) = (b.put(&x), b.put(&[1.0; 12]), b.blank(x.len()));
        let (bias, tokens) = (None, tokens as u32);
        let (at, weight) = (qkv.ptr(), weight.ptr());
        b.k.launch(HeadNorm { qkv: at, bias, weight, out: out.ptr_mut(), tokens, heads: s, eps: EPS })
            .unwrap();
        let spoiled = |x: Vec<f32>| -> Vec<usize> {
            x.chunks_exact(6).map(|head| head.iter().filter(|x| x.is_nan()).count()).collect()
        };
        let mut expected = vec![0; 2 * heads];
        expected[heads + 1] = 6;
        assert_eq!(spoiled(b.get(&out)), expected);
        let dqkv = b.put(&vec![1.0; x.len()]);
        let (parts, to) = (None, dqkv.ptr_mut());
        let back = HeadNormBackward { qkv: at, bias, weight, dqkv: to, parts, tokens, heads: s, eps: EPS };
        b.k.launch(back).unwrap();
        assert_eq!(spoiled(b.get(&dqkv)), expected);
    });
}
