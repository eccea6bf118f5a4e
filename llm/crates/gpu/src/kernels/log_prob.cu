// Log-probabilities over a vocabulary: with z = logits / temperature, log p_j = (z_j - max z) - ln sum e^(z - max z).

// In every thread of the block the same bits, whoever asks: training and sampling agree.
__device__ inline OnlineSoftmax normaliser(const float* logits, u32 vocabulary, float inverse_temperature) {
  return block_merged(of_thread(logits, vocabulary, inverse_temperature, vocabulary % 4 == 0 && aligned(logits)));
}

__device__ inline float log_p(float logit, float inverse_temperature, float max, float log_sum) {
  return (__fmul_rn(logit, inverse_temperature) - max) - log_sum;
}

__device__ inline float entropy_of(const OnlineSoftmax& a) { return logf(a.sum) - a.mean / a.sum; }

KERNEL(1024, log_prob)(const float* logits, const u32* targets, float* out, u32 vocabulary, float inverse_temperature,
                       u32 entropy) {
  const float* line = logits + (size_t)blockIdx.x * vocabulary;
  const OnlineSoftmax all = normaliser(line, vocabulary, inverse_temperature);
  if (threadIdx.x == 0) {
    float* four = out + 4 * (size_t)blockIdx.x;
    const float log_sum = logf(all.sum);
    four[0] = log_p(line[targets[blockIdx.x]], inverse_temperature, all.max, log_sum);
    four[1] = entropy ? entropy_of(all) : 0.0f;
    four[2] = all.max;
    four[3] = log_sum;
  }
}

KERNEL(1024, log_prob_backward)(const float* logits, const u32* targets, const float* saved, const float* slopes,
                                const float* entropy_slopes, REAL* dlogits, u32 vocabulary, float inverse_temperature) {
  const size_t at = (size_t)blockIdx.x * vocabulary;
  const u32 target = targets[blockIdx.x];
  const float* four = saved + 4 * (size_t)blockIdx.x;
  const float entropy = four[1], max = four[2], log_sum = four[3];
  const float g = slopes[blockIdx.x] * inverse_temperature;
  const float h = entropy_slopes ? entropy_slopes[blockIdx.x] * inverse_temperature : 0.0f;
  const bool wide = vocabulary % 4 == 0 && aligned(logits) && aligned(dlogits);
  for (u32 i = 4 * threadIdx.x; i < vocabulary; i += 4 * blockDim.x) {
    Four v = get(logits + at, i, vocabulary, wide);
#pragma unroll
    for (u32 j = 0; j < 4; j++) {
      const float log = log_p(v.at[j], inverse_temperature, max, log_sum), p = expf(log);
      // A probability of 0 moves nothing, whatever its logarithm.
      const float slope = entropy_slopes && p > 0.0f ? g + h * (log + entropy) : g;
      const float d = -slope * p;
      v.at[j] = i + j == target ? d + g : d;
    }
    put(dlogits + at, i, vocabulary, wide, v);
  }
}
