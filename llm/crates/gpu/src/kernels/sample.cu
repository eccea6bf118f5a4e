// Drawing tokens. A block works on a row; the probabilities it draws from are those whose logarithms training computes.

// As `Status` in sample.rs.
#define ACTIVE 0u
#define ENDED 1u
#define TRUNCATED 2u
#define NOT_NUMBERS 3u

// The largest of the block's numbers and where it is first; NaN is never larger.
__device__ inline u32 first_largest(const float* x, u32 n) {
  __shared__ float tops[32];
  __shared__ u32 places[32];
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float top = -INFINITE;
  u32 place = n;
  for (u32 i = threadIdx.x; i < n; i += blockDim.x) {
    if (x[i] > top) {
      top = x[i];
      place = i;
    }
  }
  for (u32 round = 0; round < 2; round++) {
#pragma unroll
    for (u32 far = 16; far > 0; far /= 2) {
      const float other = __shfl_xor_sync(FULL, top, far);
      const u32 there = __shfl_xor_sync(FULL, place, far);
      if (other > top || (other == top && there < place)) {
        top = other;
        place = there;
      }
    }
    if (round == 1) break;
    if (lane == 0) {
      tops[warp] = top;
      places[warp] = place;
    }
    __syncthreads();
    top = lane < blockDim.x / 32 ? tops[lane] : -INFINITE;
    place = lane < blockDim.x / 32 ? places[lane] : n;
  }
  return place;
}

// A row of probabilities up to a common factor: the likeliest token has 1.
struct Masses {
  const float* logits;
  float inverse_temperature, max, log_sum;
  double top;

  __device__ inline double at(u32 i) const {
    return exp((double)log_p(logits[i], inverse_temperature, max, log_sum) - top);
  }

  // Of `from..to`, by a warp; in every lane the same bits.
  __device__ inline double sum(u32 from, u32 to) const {
    double sum = 0.0;
#pragma unroll 4
    for (u32 i = from + threadIdx.x % 32; i < to; i += 32) sum += at(i);
    return warp_sum(sum);
  }
};

// A span of tokens and the mass before it.
struct Span {
  u32 from, to;
  double below;
};

// `span` is cut in 32: the first piece whose end lies above `target` remains, or the last with any mass where rounding leaves none.
// `fraction`, unless negative, sets `target` to that share of the whole span's mass.
__device__ inline Span piece(const Masses& masses, const Span& span, double fraction, double& target) {
  __shared__ double parts[32];
  const u32 warp = threadIdx.x / 32, size = (span.to - span.from + 31) / 32;
  const u32 from = min(span.from + warp * size, span.to), to = min(from + size, span.to);
  const double sum = masses.sum(from, to);
  __syncthreads();  // the parts of the span before have been read
  if (threadIdx.x % 32 == 0) parts[warp] = sum;
  __syncthreads();
  if (fraction >= 0.0) {
    double total = 0.0;
#pragma unroll 4
    for (u32 w = 0; w < 32; w++) total += parts[w];
    target = fraction * total;
  }
  Span found = span;
  double below = span.below;
#pragma unroll 1
  for (u32 w = 0; w < 32; w++) {
    if (parts[w] > 0.0) {
      found = Span{min(span.from + w * size, span.to), min(span.from + (w + 1) * size, span.to), below};
      below += parts[w];
      if (target < below) break;
    }
  }
  return found;
}

// The token of `span` at `target`; by one warp, the same in every lane.
__device__ inline u32 token_at(const Masses& masses, const Span& span, double target) {
  const u32 lane = threadIdx.x % 32;
  double below = span.below;
  u32 last = span.from;
  for (u32 start = span.from; start < span.to; start += 32) {
    const double mine = start + lane < span.to ? masses.at(start + lane) : 0.0;
    double up_to = mine;
#pragma unroll
    for (u32 far = 1; far < 32; far *= 2) {
      const double before = __shfl_up_sync(FULL, up_to, far);
      if (lane >= far) up_to += before;
    }
    const u32 possible = __ballot_sync(FULL, mine > 0.0);
    const u32 beyond = __ballot_sync(FULL, mine > 0.0 && target < below + up_to);
    if (beyond) return start + __ffs((int)beyond) - 1;
    if (possible) last = start + 31 - __clz((int)possible);
    below += __shfl_sync(FULL, up_to, 31);
  }
  return last;
}

KERNEL(1024, sample)(const float* logits, const u32* source, u32 vocabulary, float inverse_temperature, u32 greedy, u32 max_new_tokens,
                     u32* produced, u32* status, const u32* limits, u32* next, const double* uniforms, u32* tokens, float* logps,
                     float* entropies, const u32* eos, u32 eos_len) {
  __shared__ u32 state[2];
  const u32 row = blockIdx.x;
  if (threadIdx.x == 0) {
    state[0] = status[row];
    state[1] = produced[row];
  }
  __syncthreads();
  const u32 position = state[1];
  if (state[0] != ACTIVE) return;
  if (position >= limits[row] || position >= max_new_tokens) {
    if (threadIdx.x == 0) status[row] = TRUNCATED;
    return;
  }
  const float* line = logits + (size_t)(source ? source[row] : row) * vocabulary;
  const OnlineSoftmax all = normaliser(line, vocabulary, inverse_temperature);
  if (!(all.sum > 0.0f)) {  // a NaN, plus infinity, or nothing but minus infinity
    if (threadIdx.x == 0) status[row] = NOT_NUMBERS;
    return;
  }
  const float log_sum = logf(all.sum);
  u32 token;
  if (greedy) {
    token = first_largest(line, vocabulary);
  } else {
    const Masses masses = {line, inverse_temperature, all.max, log_sum, (double)-log_sum};
    double target = 0.0;
    const Span part = piece(masses, Span{0, vocabulary, 0.0}, uniforms[(size_t)row * max_new_tokens + position], target);
    token = token_at(masses, piece(masses, part, -1.0, target), target);
  }
  if (threadIdx.x == 0) {
    const size_t at = (size_t)row * max_new_tokens + position;
    tokens[at] = token;
    logps[at] = log_p(line[token], inverse_temperature, all.max, log_sum);
    entropies[at] = entropy_of(all);
    next[row] = token;
    produced[row] = position + 1;
    bool ended = false;
    for (u32 e = 0; e < eos_len; e++) ended = ended || eos[e] == token;
    if (ended) status[row] = ENDED;
    else if (position + 1 >= limits[row] || position + 1 >= max_new_tokens) status[row] = TRUNCATED;
  }
}

KERNEL(256, advance)(u32 rows, u32* lengths, const u32* status, u32* active) {
  u32 mine = 0;
  for (u32 row = threadIdx.x; row < rows; row += blockDim.x) {
    if (status[row] == ACTIVE) {
      lengths[row] += 1;
      mine += 1;
    }
  }
  mine = block_sum(mine);
  if (threadIdx.x == 0) *active = mine;
}
