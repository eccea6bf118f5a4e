// The optimiser over flat arrays: the norm of gradients, the step, and rounding.

// Two numbers per block: the sum of squares, and how many numbers were not finite.
KERNEL(256, sum_of_squares)(const float* x, u64 n, double* parts) {
  const bool wide = aligned(x);
  double sum = 0.0;
  u32 bad = 0;
  const u64 every = 4 * (u64)gridDim.x * blockDim.x;
  for (u64 i = 4 * ((u64)blockIdx.x * blockDim.x + threadIdx.x); i < n; i += every) {
    const Four v = get(x + i, 0, n - i < 4 ? (u32)(n - i) : 4, wide && n - i >= 4);
#pragma unroll
    for (u32 j = 0; j < 4; j++) {
      const bool finite = v.at[j] - v.at[j] == 0.0f;
      bad += !finite;
      sum += finite ? (double)v.at[j] * (double)v.at[j] : 0.0;
    }
  }
  sum = block_sum(sum);
  const double all_bad = block_sum((double)bad);
  if (threadIdx.x == 0) {
    parts[2 * blockIdx.x] = sum;
    parts[2 * blockIdx.x + 1] = all_bad;
  }
}

// As `Rates` of the optimiser on the CPU: rate = lr / (1 - beta1^t), root = sqrt(1 - beta2^t), decay = lr weight_decay.
struct Rates {
  float beta2, fresh1, fresh2, epsilon, decay, rate, root, scale;
};

// The change of a weight; the moments move. No product is fused into a sum: the same bits as on the CPU.
__device__ inline float change(const Rates& r, float w, float& m, float& v, float gradient) {
  const float g = __fmul_rn(gradient, r.scale);
  m = __fadd_rn(m, __fmul_rn(__fadd_rn(g, -m), r.fresh1));
  v = __fadd_rn(__fmul_rn(v, r.beta2), __fmul_rn(__fmul_rn(g, g), r.fresh2));
  const float root = __fadd_rn(__fdiv_rn(__fsqrt_rn(v), r.root), r.epsilon);
  return -__fadd_rn(__fmul_rn(r.decay, w), __fdiv_rn(__fmul_rn(r.rate, m), root));
}

KERNEL(256, adamw)(float* master, float* first, float* second, float* compensation, const float* gradient, REAL* weight, u64 n,
                   float beta2, float fresh1, float fresh2, float epsilon, float decay, float rate, float root, float scale) {
  const Rates rates = {beta2, fresh1, fresh2, epsilon, decay, rate, root, scale};
  const bool all = aligned(master) && aligned(first) && aligned(second) && aligned(compensation) && aligned(gradient) && aligned(weight);
  const u64 every = 4 * (u64)gridDim.x * blockDim.x;
  for (u64 i = 4 * ((u64)blockIdx.x * blockDim.x + threadIdx.x); i < n; i += every) {
    const u32 left = n - i < 4 ? (u32)(n - i) : 4;
    const bool wide = all && left == 4;
    Four w = get(master + i, 0, left, wide), m = get(first + i, 0, left, wide), v = get(second + i, 0, left, wide);
    const Four g = get(gradient + i, 0, left, wide);
    Four r = {{0.0f, 0.0f, 0.0f, 0.0f}};
    if (compensation) r = get(compensation + i, 0, left, wide);
#pragma unroll
    for (u32 j = 0; j < 4; j++) {
      const float by = change(rates, w.at[j], m.at[j], v.at[j], g.at[j]);
      // With compensation: the exact sum is the new weight plus the new compensation (Knuth's two-sum).
      const float a = w.at[j], b = compensation ? __fadd_rn(r.at[j], by) : by, sum = __fadd_rn(a, b), kept = __fadd_rn(sum, -a);
      w.at[j] = sum;
      r.at[j] = __fadd_rn(__fadd_rn(a, -__fadd_rn(sum, -kept)), __fadd_rn(b, -kept));
    }
    put(master + i, 0, left, wide, w);
    put(first + i, 0, left, wide, m);
    put(second + i, 0, left, wide, v);
    if (compensation) put(compensation + i, 0, left, wide, r);
    put(weight + i, 0, left, wide, w);
  }
}

KERNEL(256, round)(const float* x, REAL* y, u64 n) {
  const bool all = aligned(x) && aligned(y);
  const u64 every = 4 * (u64)gridDim.x * blockDim.x;
  for (u64 i = 4 * ((u64)blockIdx.x * blockDim.x + threadIdx.x); i < n; i += every) {
    const u32 left = n - i < 4 ? (u32)(n - i) : 4;
    const bool wide = all && left == 4;
    put(y + i, 0, left, wide, get(x + i, 0, left, wide));
  }
}
