//! Every kernel against its twin.
use grpo_lambda_llm::gpu::{Buffer, Dtype, Kernels};

use crate::emulator::{Emulated, Order};
use grpo_lambda_llm::gpu::Device;
use std::sync::Arc;

#[test]
fn a_norm_runs() {
    for order in [Order::Forward, Order::Reversed, Order::Shuffled(3)] {
        let Some(device) = Emulated::new(order, u64::MAX) else { return };
        let device: Arc<dyn Device> = Arc::new(device);
        for dtype in [Dtype::F32, Dtype::Bf16] {
            let k = Kernels { device: device.clone(), dtype };
            let x = Buffer::zeros(&device, "x", 2 * 7 * dtype.bytes()).unwrap();
            let w = Buffer::zeros(&device, "w", 7 * dtype.bytes()).unwrap();
            let s = Buffer::of(&device, "s", &[7.0f32; 2]).unwrap();
            k.rms_norm(x.address(), w.address(), x.address(), s.address(), 2, 7, 1e-2).unwrap();
            assert_eq!(s.read::<f32>(0, 2).unwrap(), [10.0; 2]);
            let logits = Buffer::of(&device, "l", &vec![1.0f32; 2 * 32000]).unwrap();
            let targets = Buffer::of(&device, "l", &[5u32, 7]).unwrap();
            let out = Buffer::new(&device, "l", 32).unwrap();
            let t = std::time::Instant::now();
            k.log_prob(logits.address(), targets.address(), out.address(), 2, 32000, 1.0, true).unwrap();
            eprintln!("{:?} {:?}", out.read::<f32>(0, 8), t.elapsed());
        }
    }
}
