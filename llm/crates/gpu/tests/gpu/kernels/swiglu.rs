//! The gate of the MLP.

use grpo_lambda_decoder::model::ops::swiglu;
use grpo_lambda_gpu::kernels::{Swiglu, SwigluBackward};

use super::{bits, everywhere, numbers, wide};

#[test]
fn the_gate_and_its_gradient_agree_with_the_cpu() {
    everywhere(|b| {
        for (width, tokens) in [(1, 2), (7, 3), (33, 1), (64, 4), (4864, 2)] {
            let mut gate_up: Vec<f32> = numbers(1, 2 * tokens * width).iter().map(|x| 4.0 * x).collect();
            gate_up[0] = -100.0;
            gate_up[tokens * width / 2] = 90.0;
            let gate_up = b.rounded(&gate_up);
            let dy = b.rounded(&numbers(2, tokens * width));
            for with_bias in [false, true] {
                let bias = b.rounded(&numbers(3, 2 * width));
                let sums: Vec<f64> = gate_up
                    .iter()
                    .enumerate()
                    .map(|(i, x)| {
                        f64::from(*x) + if with_bias { f64::from(bias[i % (2 * width)]) } else { 0.0 }
                    })
                    .collect();
                let mut want = vec![0.0; tokens * width];
                swiglu::forward(&sums, width, &mut want);
                let (x, d, on_device) = (b.put(&gate_up), b.put(&dy), b.put(&bias));
                let bias = with_bias.then(|| on_device.ptr());
                let out = b.blank(tokens * width);
                let (t, n) = (tokens as u32, width as u32);
                let gate_up = x.ptr();
                b.k.launch(Swiglu { gate_up, bias, y: out.ptr_mut(), tokens: t, width: n }).unwrap();
                // Rounding the sum with the bias moves the gate by its last place, more than its share where silu is flat.
                let largest = 1.0f64;
                b.close("swiglu", &b.get(&out), &want, |i| want[i].abs().max(largest), 1e-6);

                let mut want = sums.clone();
                swiglu::backward(&mut want, width, &wide(&dy));
                let out = b.blank(2 * tokens * width);
                let (dy, dgate_up) = (d.ptr(), out.ptr_mut());
                let backward = SwigluBackward { gate_up, bias, dy, dgate_up, tokens: t, width: n };
                b.k.launch(backward).unwrap();
                let got = b.get(&out);
                b.close("swiglu_backward", &got, &want, |i| want[i].abs().max(largest), 1e-6);
                b.k.launch(SwigluBackward { dgate_up: x.ptr_mut(), ..backward }).unwrap();
                assert_eq!(bits(&b.get(&x)), bits(&got), "in place");
            }
        }
    });
}
