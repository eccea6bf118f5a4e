// The online form of softmax, which needs one pass.

// Of the numbers seen so far: the largest, the sum of e^(x - max), and the sum of e^(x - max) (x - max). Minus infinity adds nothing;
// a NaN, or plus infinity, makes the sums NaN. No product is fused into a sum, so that every kernel that is built from this gets the same bits.
struct OnlineSoftmax {
  float max, sum, mean;
};

__device__ inline OnlineSoftmax empty() { return OnlineSoftmax{-INFINITE, 0.0f, 0.0f}; }

// The same with `max`, which is no smaller, in place of the largest.
__device__ inline OnlineSoftmax with_max(const OnlineSoftmax& a, float max) {
  if (a.max == max) return a;
  const bool none = a.max == -INFINITE;
  const float by = none ? 0.0f : a.max - max, e = none ? 0.0f : expf(by);
  return OnlineSoftmax{max, __fmul_rn(a.sum, e), __fmul_rn(__fadd_rn(a.mean, __fmul_rn(a.sum, by)), e)};
}

__device__ inline void add(OnlineSoftmax& a, float x) {
  if (x == -INFINITE) return;
  const float by = x - a.max, e = expf(by);
  a.sum = __fadd_rn(a.sum, e);
  a.mean = __fadd_rn(a.mean, __fmul_rn(e, by));
}

// This thread's share of the first `n` numbers of a row, each multiplied by `factor`; four at a time, `wide` as in `get`.
__device__ inline OnlineSoftmax of_thread(const float* x, u32 n, float factor, bool wide) {
  OnlineSoftmax a = empty();
  for (u32 i = 4 * threadIdx.x; i < n; i += 4 * blockDim.x) {
    Four v = get(x, i, n, wide);
    float max = a.max;
#pragma unroll
    for (u32 j = 0; j < 4; j++) {
      v.at[j] = i + j < n ? __fmul_rn(v.at[j], factor) : -INFINITE;
      max = v.at[j] > max ? v.at[j] : max;
    }
    a = with_max(a, max);
#pragma unroll
    for (u32 j = 0; j < 4; j++) add(a, v.at[j]);
  }
  return a;
}

__device__ inline OnlineSoftmax warp_merged(const OnlineSoftmax& a) {
  float max = a.max;
#pragma unroll
  for (u32 far = 16; far > 0; far /= 2) {
    const float other = __shfl_xor_sync(FULL, max, far);
    max = other > max ? other : max;
  }
  const OnlineSoftmax b = with_max(a, max);
  return OnlineSoftmax{max, warp_sum(b.sum), warp_sum(b.mean)};
}

// Of all threads of the block, in every thread the same bits.
__device__ inline OnlineSoftmax block_merged(OnlineSoftmax a) {
  __shared__ OnlineSoftmax parts[32];
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  a = warp_merged(a);
  __syncthreads();  // the result before has been read
  if (lane == 0) parts[warp] = a;
  __syncthreads();
  if (warp == 0) {
    a = warp_merged(lane < blockDim.x / 32 ? parts[lane] : empty());
    if (lane == 0) parts[0] = a;
  }
  __syncthreads();
  return parts[0];
}
