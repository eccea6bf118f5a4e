//! Rows by index, norms, biases.

use grpo_lambda_decoder::model::ops::norm::{self, Groups};
use grpo_lambda_gpu::kernels::{
    AddBias, ColumnSum, Embed, EmbedBackward, GatherRows, RmsNorm, RmsNormBackward, RmsNormWeight,
    ScatterRows,
};

use super::{bits, everywhere, numbers, wide};

const WIDTHS: [usize; 5] = [1, 7, 33, 64, 896];

#[test]
fn rows_are_copied_by_index_to_the_bit() {
    everywhere(|b| {
        for width in WIDTHS {
            let mut table = b.rounded(&numbers(1, 11 * width));
            table[3 * width] = f32::NAN;
            table[5 * width] = -0.0;
            let index = [3u32, 10, 0, 5, 3];
            let (on_device, ids) = (b.put(&table), b.raw(&index));
            let want: Vec<f32> =
                index.iter().flat_map(|i| table[*i as usize * width..][..width].to_vec()).collect();
            for embed in [true, false] {
                let result = b.blank(5 * width);
                let (x, index, out, width) = (on_device.ptr(), ids.ptr(), result.ptr_mut(), width as u32);
                match embed {
                    true => b.k.launch(Embed { ids: index, table: x, out, tokens: 5, width }).unwrap(),
                    false => b.k.launch(GatherRows { x, index, out, rows: 5, width }).unwrap(),
                }
                assert_eq!(bits(&b.get(&result)), bits(&want), "width {width}");
            }
            // Back to other places; the rows that no index names stay.
            let index = [4u32, 0, 6, 2, 1];
            let (x, ids, result) = (b.put(&want), b.raw(&index), b.put(&vec![9.0; 7 * width]));
            let (x, out) = (x.ptr(), result.ptr_mut());
            b.k.launch(ScatterRows { x, index: ids.ptr(), out, rows: 5, width: width as u32 }).unwrap();
            let got = b.get(&result);
            for (row, got) in got.chunks_exact(width).enumerate() {
                match index.iter().position(|i| *i as usize == row) {
                    Some(i) => assert_eq!(bits(got), bits(&want[i * width..][..width])),
                    None => assert_eq!(got, vec![9.0; width]),
                }
            }
        }
    });
}

#[test]
fn gradients_of_embeddings_are_added_in_the_order_given() {
    everywhere(|b| {
        for width in WIDTHS {
            let dx = b.rounded(&numbers(2, 6 * width));
            let table = numbers(3, 5 * width);
            // Tokens 4, 0, 5 have id 3; token 2 has id 0; tokens 3, 1 have id 4.
            let (order, starts, ids) = ([4u32, 0, 5, 2, 3, 1], [0u32, 3, 4, 6], [3u32, 0, 4]);
            let mut want = table.clone();
            for (i, id) in ids.iter().enumerate() {
                for t in &order[starts[i] as usize..starts[i + 1] as usize] {
                    for j in 0..width {
                        want[*id as usize * width + j] += dx[*t as usize * width + j];
                    }
                }
            }
            let (dx, dtable) = (b.put(&dx), b.raw(&table));
            let (order, starts, ids) = (b.raw(&order), b.raw(&starts), b.raw(&ids));
            b.k.launch(EmbedBackward {
                dx: dx.ptr(),
                order: order.ptr(),
                starts: starts.ptr(),
                ids: ids.ptr(),
                dtable: dtable.ptr_mut(),
                tokens: 6,
                distinct: 3,
                width: width as u32,
            })
            .unwrap();
            assert_eq!(bits(&b.get_raw::<f32>(&dtable)), bits(&want), "width {width}");
        }
    });
}

#[test]
fn norms_agree_with_the_cpu() {
    everywhere(|b| {
        for (width, tokens) in [(1, 3), (7, 1), (33, 5), (64, 2), (896, 4), (4097, 2)] {
            let x: Vec<f32> = b.rounded(&numbers(4, tokens * width));
            let w: Vec<f32> = b.rounded(&numbers(5, width));
            let eps = 1e-6f32;
            let (mut y, mut scale) = (vec![0.0; tokens * width], vec![0.0; tokens]);
            norm::forward(&Groups::whole(&wide(&w)), &wide(&x), f64::from(eps), &mut y, &mut scale);
            let (on_device, weight, out) = (b.put(&x), b.put(&w), b.blank(x.len()));
            let saved = b.raw_blank(tokens);
            let norm = RmsNorm {
                x: on_device.ptr(),
                weight: weight.ptr(),
                y: out.ptr_mut(),
                scale: Some(saved.ptr_mut()),
                tokens: tokens as u32,
                width: width as u32,
                eps,
            };
            b.k.launch(norm).unwrap();
            let got = b.get(&out);
            b.close("rms_norm", &got, &y, |i| y[i].abs(), 6e-7);
            b.close_raw("rms_norm scale", &b.get_raw(&saved), &scale, |i| scale[i], 4e-7);
            // In place and without the scale: the same.
            b.k.launch(RmsNorm { y: on_device.ptr_mut(), scale: None, ..norm }).unwrap();
            assert_eq!(bits(&b.get(&on_device)), bits(&got));
        }
    });
}

#[test]
fn gradients_of_norms_agree_with_the_cpu_and_are_added() {
    everywhere(|b| {
        for (width, tokens) in [(1, 3), (7, 1), (33, 40), (64, 2), (896, 70)] {
            let [x, dy, before] = [6, 7, 8].map(|seed| b.rounded(&numbers(seed, tokens * width)));
            let w = b.rounded(&numbers(9, width));
            let (mut y, mut scale) = (vec![0.0; tokens * width], vec![0.0; tokens]);
            let weights = wide(&w);
            let norm = Groups::whole(&weights);
            norm::forward(&norm, &wide(&x), 1e-6, &mut y, &mut scale);
            let scale: Vec<f32> = scale.iter().map(|r| *r as f32).collect();
            let (mut want, mut dx) = (wide(&before), wide(&dy));
            norm::backward(&norm, &wide(&x), &wide(&scale), &mut dx);
            norm::add(&mut want, &dx);
            let [on_device, gradient, out, weight] = [&x, &dy, &before, &w].map(|x| b.put(x));
            let scales = b.raw(&scale);
            let (at, dy_at, saved) = (on_device.ptr(), gradient.ptr(), scales.ptr());
            let (t, n) = (tokens as u32, width as u32);
            b.k.launch(RmsNormBackward {
                x: at,
                scale: saved,
                weight: weight.ptr(),
                dy: dy_at,
                dx: out.ptr_mut(),
                tokens: t,
                width: n,
            })
            .unwrap();
            let largest = want.iter().fold(1.0f64, |a, x| a.max(x.abs()));
            b.close("rms_norm_backward", &b.get(&out), &want, |_| largest, 6e-7);

            let before = numbers(10, width);
            let mut want = wide(&before);
            norm::backward_weight(&norm, 0..1, &wide(&x), &wide(&scale), &wide(&dy), &mut want);
            let out = b.raw(&before);
            let dweight = out.ptr_mut();
            b.k.launch(RmsNormWeight { x: at, scale: saved, dy: dy_at, dweight, tokens: t, width: n })
                .unwrap();
            let root = (tokens as f64).sqrt();
            b.close_raw("rms_norm_weight", &b.get_raw(&out), &want, |_| 3.0 * root, 6e-7);
        }
    });
}

#[test]
fn biases_are_added_and_their_gradients_summed() {
    everywhere(|b| {
        for (width, rows) in [(1, 1), (7, 5), (33, 100), (896, 40)] {
            let x = b.rounded(&numbers(11, rows * width));
            let bias = b.rounded(&numbers(12, width));
            let sums: Vec<f32> = x.iter().enumerate().map(|(i, x)| x + bias[i % width]).collect();
            let (out, on_device) = (b.put(&x), b.put(&bias));
            let (rows32, width32) = (rows as u32, width as u32);
            let bias = on_device.ptr();
            b.k.launch(AddBias { x: out.ptr_mut(), bias, rows: rows32, width: width32 }).unwrap();
            assert_eq!(b.get(&out), b.rounded(&sums));

            let before = numbers(13, width);
            let mut want = wide(&before);
            norm::backward_bias(&wide(&x), width, 0, &mut want);
            let (x, out) = (b.put(&x), b.raw(&before));
            let sum = ColumnSum { x: x.ptr(), out: out.ptr_mut(), rows: rows32, width: width32 };
            b.k.launch(sum).unwrap();
            let root = (rows as f64).sqrt();
            b.close_raw("column_sum", &b.get_raw(&out), &want, |_| 3.0 * root, 4e-7);
        }
    });
}

#[test]
fn one_nan_spoils_its_own_row_and_nothing_else() {
    everywhere(|b| {
        for width in [5usize, 64] {
            let mut x = b.rounded(&numbers(14, 3 * width));
            x[width + 2] = f32::NAN;
            let w = b.put(&vec![1.0; width]);
            let (on_device, out, scale) = (b.put(&x), b.blank(3 * width), b.raw_blank(3));
            let (at, weight, tokens, row) = (on_device.ptr(), w.ptr(), 3, width as u32);
            let (y, scale) = (out.ptr_mut(), Some(scale.ptr_mut()));
            b.k.launch(RmsNorm { x: at, weight, y, scale, tokens, width: row, eps: 1e-6 }).unwrap();
            let rows = |x: Vec<f32>| -> Vec<usize> {
                x.chunks_exact(width).map(|row| row.iter().filter(|x| x.is_nan()).count()).collect()
            };
            assert_eq!(rows(b.get(&out)), [0, width, 0]);
            let out = b.put(&vec![0.0; 3 * width]);
            let (scale, dy) = (b.raw(&[1.0f32; 3]), b.put(&vec![1.0; 3 * width]));
            let (scale, dy, dx) = (scale.ptr(), dy.ptr(), out.ptr_mut());
            b.k.launch(RmsNormBackward { x: at, scale, weight, dy, dx, tokens, width: row }).unwrap();
            assert_eq!(rows(b.get(&out)), [0, width, 0]);
            let out = b.raw(&vec![0.0f32; width]);
            b.k.launch(ColumnSum { x: at, out: out.ptr_mut(), rows: tokens, width: row }).unwrap();
            let sums = b.get_raw::<f32>(&out);
            assert!(sums.iter().enumerate().all(|(i, x)| x.is_nan() == (i == 2)), "{sums:?}");
        }
    });
}
