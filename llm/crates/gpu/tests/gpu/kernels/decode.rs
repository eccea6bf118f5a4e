//! One token against the caches.

use grpo_lambda_gpu::Dtype;
use grpo_lambda_gpu::kernels::{
    DecodeAttention, DecodeCombine, DecodeHeads, DecodeQkv, FillCache, HeadShape, RmsNorm,
};

use super::heads::table;
use super::{bits, everywhere, numbers, wide};

/// Pages of 32 tokens in an order that is not theirs, for caches that are thought of as `[rows][key heads][capacity][dim]`.
struct Pages {
    key: usize,
    dim: usize,
    rows: usize,
    width: usize,
}

impl Pages {
    fn new(heads: HeadShape, rows: usize, capacity: usize) -> Self {
        assert_eq!(capacity % 32, 0, "whole pages");
        Pages { key: heads.key as usize, dim: heads.dim as usize, rows, width: capacity / 32 }
    }

    /// `[rows][width]`: page `n` of a row is not the one after page `n - 1`, and page 0 is nobody's.
    fn table(&self) -> Vec<u32> {
        (0..self.width * self.rows)
            .map(|n| (n % self.width * self.rows + n / self.width + 1) as u32)
            .collect()
    }

    /// The places of all numbers.
    fn places(&self) -> Vec<usize> {
        let table = self.table();
        let len = 32 * self.dim;
        let block = |n: usize| {
            let (row, head, page) = (n / self.width / self.key, n / self.width % self.key, n % self.width);
            let start = (table[row * self.width + page] as usize * self.key + head) * len;
            start..start + len
        };
        (0..self.rows * self.key * self.width).flat_map(block).collect()
    }

    /// The pages of a cache; the one that is nobody's holds 7.
    fn laid_out(&self, cache: &[f32]) -> Vec<f32> {
        let mut pages = vec![7.0; (self.rows * self.width + 1) * self.key * 32 * self.dim];
        self.places().into_iter().zip(cache).for_each(|(place, x)| pages[place] = *x);
        pages
    }

    /// The cache that lies in pages, of which nobody's is untouched.
    fn gathered(&self, pages: &[f32]) -> Vec<f32> {
        assert!(pages[..self.key * 32 * self.dim].iter().all(|x| *x == 7.0), "a page that no row has");
        self.places().into_iter().map(|place| pages[place]).collect()
    }
}

/// Number `i` of head `h` of a token's heads plus their bias, and the number it is paired with, rotated by an angle's cosine and sine.
fn rotated(heads: &[f64], dim: usize, h: usize, i: usize, angle: &[f32]) -> (f64, f64) {
    let (a, c) = (heads[h * dim + i], heads[h * dim + i + dim / 2]);
    let (cos, sin) = (f64::from(angle[0]), f64::from(angle[1]));
    (a * cos - c * sin, c * cos + a * sin)
}

#[test]
fn a_token_goes_to_its_place_in_the_caches_and_nowhere_else() {
    everywhere(|b| {
        for s in [HeadShape { query: 4, key: 2, dim: 6 }, HeadShape { query: 14, key: 2, dim: 64 }] {
            let (query, key, dim) = (s.query as usize, s.key as usize, s.dim as usize);
            let (capacity, lengths) = (64usize, [0u32, 63, 35, 64]);
            let pages = Pages::new(s, 4, capacity);
            let on_pages = b.raw(&pages.table());
            let width = (query + 2 * key) * dim;
            let x = b.rounded(&numbers(1, 4 * width));
            let bias = b.rounded(&numbers(2, width));
            let angles = table(s.dim, capacity + 1);
            for with_bias in [false, true] {
                let size = 4 * key * capacity * dim;
                let (qkv, at_bias, on_device) = (b.put(&x), b.put(&bias), b.raw(&angles));
                let blank = pages.laid_out(&vec![7.0; size]);
                let (q, keys, values) = (b.put(&vec![7.0; 4 * query * dim]), b.put(&blank), b.put(&blank));
                let lengths_on_device = b.raw(&lengths);
                b.k.launch(DecodeHeads {
                    qkv: qkv.ptr(),
                    bias: with_bias.then(|| at_bias.ptr()),
                    table: on_device.ptr(),
                    lengths: lengths_on_device.ptr(),
                    q: q.ptr_mut(),
                    keys: keys.ptr_mut(),
                    values: values.ptr_mut(),
                    pages: on_pages.ptr(),
                    rows: 4,
                    heads: s,
                    width: capacity as u32 / 32,
                })
                .unwrap();
                let mut want = [vec![7.0; 4 * query * dim], vec![7.0; size], vec![7.0; size]];
                // The row that is full stays as it was.
                for (row, position) in lengths.iter().map(|l| *l as usize).enumerate().take(3) {
                    let sum = |n: usize| {
                        f64::from(x[row * width + n]) + if with_bias { f64::from(bias[n]) } else { 0.0 }
                    };
                    let heads: Vec<f64> = (0..width).map(sum).collect();
                    for h in 0..query + 2 * key {
                        for i in 0..dim / 2 {
                            let angle = match h < query + key {
                                true => &angles[(position * dim / 2 + i) * 2..][..2],
                                false => &[1.0, 0.0],
                            };
                            let (low, high) = rotated(&heads, dim, h, i, angle);
                            let place = |head: usize| ((row * key + head) * capacity + position) * dim + i;
                            let (which, at) = match h {
                                _ if h < query => (0, (row * query + h) * dim + i),
                                _ if h < query + key => (1, place(h - query)),
                                _ => (2, place(h - query - key)),
                            };
                            want[which][at] = low;
                            want[which][at + dim / 2] = high;
                        }
                    }
                }
                let got = [b.get(&q), pages.gathered(&b.get(&keys)), pages.gathered(&b.get(&values))];
                for (got, want) in got.iter().zip(&want) {
                    b.close("decode_heads", got, want, |_| 4.0, 2e-7);
                }
            }
        }
    });
}

/// The fused first part of a layer against its parts: the norm, the product in `f64` of what the norm stored, and [`DecodeHeads`].
#[test]
fn a_hidden_state_becomes_heads_in_one_launch_as_in_three() {
    everywhere(|b| {
        for (s, rows, width) in [
            (HeadShape { query: 4, key: 2, dim: 6 }, 3usize, 18usize),
            (HeadShape { query: 2, key: 1, dim: 32 }, 70, 300),
        ] {
            let (query, key, dim) = (s.query as usize, s.key as usize, s.dim as usize);
            let (capacity, line) = (64usize, (query + 2 * key) * dim);
            let pages = Pages::new(s, rows, capacity);
            let on_pages = b.raw(&pages.table());
            // The second row is full.
            let lengths: Vec<u32> =
                (0..rows).map(|row| if row == 1 { 64 } else { row as u32 * 13 % 64 }).collect();
            let x = b.rounded(&numbers(1, rows * width));
            let [norm, bias] = [(2, width), (3, line)].map(|(seed, n)| b.rounded(&numbers(seed, n)));
            let scaled =
                numbers(4, line * width).iter().map(|x| x / (width as f32).sqrt()).collect::<Vec<_>>();
            let weight = b.rounded(&scaled);
            let [x_at, norm_at, bias_at, weight_at] = [&x, &norm, &bias, &weight].map(|x| b.put(x));
            let (angles, at) = (b.raw(&table(s.dim, capacity + 1)), b.raw(&lengths));
            let normed = b.blank(x.len());
            b.k.launch(RmsNorm {
                x: x_at.ptr(),
                weight: norm_at.ptr(),
                y: normed.ptr_mut(),
                scale: None,
                tokens: rows as u32,
                width: width as u32,
                eps: 1e-6,
            })
            .unwrap();
            let normed = wide(&b.get(&normed));
            let product = |row: &[f64]| -> Vec<f32> {
                let one = |w: &[f32]| row.iter().zip(w).map(|(x, w)| x * f64::from(*w)).sum::<f64>() as f32;
                weight.chunks_exact(width).map(one).collect()
            };
            let qkv = b.put(&normed.chunks_exact(width).flat_map(product).collect::<Vec<_>>());
            let blank = pages.laid_out(&vec![7.0; rows * key * capacity * dim]);
            let empty = || [b.put(&vec![7.0; rows * query * dim]), b.put(&blank), b.put(&blank)];
            for with_bias in [false, true] {
                let bias = with_bias.then(|| bias_at.ptr());
                let [want, found] = [empty(), empty()];
                let (table, lengths, rows, table_width) = (angles.ptr(), at.ptr(), rows as u32, 2);
                let [q, keys, values] = want.each_ref().map(|x| x.ptr_mut());
                let qkv = qkv.ptr();
                b.k.launch(DecodeHeads {
                    qkv,
                    bias,
                    table,
                    lengths,
                    q,
                    keys,
                    values,
                    pages: on_pages.ptr(),
                    rows,
                    heads: s,
                    width: table_width,
                })
                .unwrap();
                let [q, keys, values] = found.each_ref().map(|x| x.ptr_mut());
                b.k.launch(DecodeQkv {
                    x: x_at.ptr(),
                    norm: norm_at.ptr(),
                    weight: weight_at.ptr(),
                    bias,
                    table,
                    lengths,
                    q,
                    keys,
                    values,
                    pages: on_pages.ptr(),
                    rows,
                    width: width as u32,
                    heads: s,
                    table_width,
                    eps: 1e-6,
                })
                .unwrap();
                // In bf16 a sum in another order may round to the neighbour, of the product or of one normed number.
                let tolerance = if b.dtype == Dtype::F32 { 2e-6 } else { 6e-3 };
                for (found, want) in found.iter().zip(&want) {
                    b.close("decode_qkv", &b.get(found), &wide(&b.get(want)), |_| 4.0, tolerance);
                }
            }
        }
    });
}

#[test]
fn attention_over_a_cache_follows_the_equation_at_every_length() {
    everywhere(|b| {
        // Groups of one query head to more than a block takes.
        let shapes = [(4, 2, 6), (20, 1, 32), (14, 2, 64), (4, 2, 128), (1, 1, 130), (2, 1, 256)];
        for (query, key, dim) in shapes {
            let lengths = [0u32, 1, 30, 31, 32, 97, 127, 128, 299];
            let (rows, capacity) = (lengths.len(), 320usize);
            let (s, scale) = (HeadShape { query, key, dim }, 1.0 / (dim as f32).sqrt());
            let (query, key, dim) = (query as usize, key as usize, dim as usize);
            let q: Vec<f32> = numbers(3, rows * query * dim).iter().map(|x| 2.0 * x).collect();
            let q = b.rounded(&q);
            let size = rows * key * capacity * dim;
            let [mut keys, mut values] = [4, 5].map(|seed| b.rounded(&numbers(seed, size)));
            // What lies beyond a row's length is whatever memory held.
            for (i, cache) in (0..rows * key).map(|i| (i, i * capacity * dim)) {
                let from = cache + (lengths[i / key] as usize + 1) * dim;
                keys[from..cache + capacity * dim].fill(f32::NAN);
                values[from..cache + capacity * dim].fill(f32::NAN);
            }
            let mut want = vec![0.0; rows * query * dim];
            for row in 0..rows {
                for h in 0..query {
                    let at = (row * query + h) * dim;
                    let cache = (row * key + h / (query / key)) * capacity * dim;
                    let scores: Vec<f64> = (0..=lengths[row] as usize)
                        .map(|j| {
                            let k = wide(&keys[cache + j * dim..][..dim]);
                            let dot: f64 = wide(&q[at..at + dim]).iter().zip(k).map(|(a, b)| a * b).sum();
                            dot * f64::from(scale)
                        })
                        .collect();
                    let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let total: f64 = scores.iter().map(|s| (s - top).exp()).sum();
                    for (j, score) in scores.iter().enumerate() {
                        for i in 0..dim {
                            want[at + i] +=
                                (score - top).exp() / total * f64::from(values[cache + j * dim + i]);
                        }
                    }
                }
            }
            let pages = Pages::new(s, rows, capacity);
            let (keys, values) = (pages.laid_out(&keys), pages.laid_out(&values));
            let (query, keys, values) = (b.put(&q), b.put(&keys), b.put(&values));
            let (on_device, on_pages) = (b.raw(&lengths), b.raw(&pages.table()));
            for splits in [1, 2, 7] {
                let (lines, out) = (rows as u32 * s.query, b.blank(want.len()));
                let parts = b.raw_blank::<f32>((lines * splits * (s.dim + 2)) as usize);
                b.k.launch(DecodeAttention {
                    q: query.ptr(),
                    keys: keys.ptr(),
                    values: values.ptr(),
                    lengths: on_device.ptr(),
                    out: out.ptr_mut(),
                    parts: (splits > 1).then(|| parts.ptr_mut()),
                    pages: on_pages.ptr(),
                    splits,
                    rows: rows as u32,
                    heads: s,
                    width: capacity as u32 / 32,
                    scale,
                })
                .unwrap();
                if splits > 1 {
                    let (parts, out) = (parts.ptr(), out.ptr_mut());
                    b.k.launch(DecodeCombine { parts, out, lines, splits, dim: s.dim }).unwrap();
                }
                // The terms of a score are added one after the other, so its rounding grows with their number; in bf16 probabilities are
                // rounded before they enter a sum, as in training.
                let tolerance = if b.dtype == Dtype::F32 { 1e-6 * (1.0 + dim as f64 / 64.0) } else { 8e-3 };
                b.close("decode_attention", &b.get(&out), &want, |_| 1.0, tolerance);
            }
        }
    });
}

#[test]
fn a_nan_that_is_seen_spoils_its_heads_and_huge_scores_do_not_overflow() {
    everywhere(|b| {
        let (s, capacity) = (HeadShape { query: 2, key: 2, dim: 4 }, 64usize);
        let pages = Pages::new(s, 2, capacity);
        let mut keys = vec![0.0; 2 * 2 * capacity * 4];
        keys[35 * 4] = f32::NAN; // row 0, head 0, position 35
        keys[2 * capacity * 4] = 1e30; // row 1, head 0, position 0
        let values: Vec<f32> = (0..keys.len()).map(|i| (i / 4 % capacity) as f32).collect();
        let q = b.put(&[1e3; 16]);
        let (k, v, out) = (b.put(&pages.laid_out(&keys)), b.put(&pages.laid_out(&values)), b.blank(16));
        let (lengths, on_pages) = (b.raw(&[39u32, 39]), b.raw(&pages.table()));
        b.k.launch(DecodeAttention {
            q: q.ptr(),
            keys: k.ptr(),
            values: v.ptr(),
            lengths: lengths.ptr(),
            out: out.ptr_mut(),
            parts: None,
            pages: on_pages.ptr(),
            splits: 1,
            rows: 2,
            heads: s,
            width: 2,
            scale: 1.0,
        })
        .unwrap();
        let got = b.get(&out);
        assert!(got[..4].iter().all(|x| x.is_nan()), "{got:?}");
        let mean = b.rounded(&[19.5])[0];
        assert_eq!(got[4..], [[mean; 4], [0.0; 4], [mean; 4]].concat());
    });
}

#[test]
fn pages_are_filled_with_the_prompts_of_their_rows_from_a_position_on() {
    everywhere(|b| {
        for s in [HeadShape { query: 4, key: 2, dim: 6 }, HeadShape { query: 1, key: 1, dim: 64 }] {
            let (query, key, dim) = (s.query as usize, s.key as usize, s.dim as usize);
            let (offsets, capacity) = ([0u32, 3, 4, 49], 64usize);
            // Prompt, line, first position; line 4 stays as it is.
            let copies = [(2u32, 3u32, 0u32), (0, 0, 0), (0, 1, 2), (1, 5, 0), (2, 2, 32)];
            let pages = Pages::new(s, 6, capacity);
            let width = (query + 2 * key) * dim;
            let x = b.rounded(&numbers(6, 49 * width));
            let blank = vec![7.0; 6 * key * capacity * dim];
            let fill = |first: usize| {
                let mut want = blank.clone();
                for (prompt, line, begin) in copies.map(|(p, l, b)| (p as usize, l as usize, b as usize)) {
                    let tokens = offsets[prompt] as usize..offsets[prompt + 1] as usize;
                    for (p, token) in tokens.enumerate().skip(begin) {
                        for head in 0..key {
                            want[((line * key + head) * capacity + p) * dim..][..dim]
                                .copy_from_slice(&x[token * width + (first + head) * dim..][..dim]);
                        }
                    }
                }
                want
            };
            let laid_out = pages.laid_out(&blank);
            let (qkv, keys, values) = (b.put(&x), b.put(&laid_out), b.put(&laid_out));
            let (at, on_pages) = (b.raw(&offsets), b.raw(&pages.table()));
            let (source, lines) = (b.raw(&copies.map(|c| c.0)), b.raw(&copies.map(|c| c.1)));
            let begins = b.raw(&copies.map(|c| c.2));
            b.k.launch(FillCache {
                qkv: qkv.ptr(),
                offsets: at.ptr(),
                source: source.ptr(),
                keys: keys.ptr_mut(),
                values: values.ptr_mut(),
                pages: on_pages.ptr(),
                lines: lines.ptr(),
                begins: begins.ptr(),
                copies: 5,
                tokens: 63,
                heads: s,
                width: 2,
            })
            .unwrap();
            assert_eq!(bits(&pages.gathered(&b.get(&keys))), bits(&fill(query)));
            assert_eq!(bits(&pages.gathered(&b.get(&values))), bits(&fill(query + key)));
        }
    });
}
