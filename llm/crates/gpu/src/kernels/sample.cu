// Drawing tokens. A block works on a row; the probabilities it draws from are those whose logarithms training computes.

// As `Status` in sample.rs.
#define ACTIVE 0u
#define ENDED 1u
#define TRUNCATED 2u
#define NOT_NUMBERS 3u

// The line of a row that draws nothing; as in sample.rs.
#define NO_LINE 0xffffffffu

// The probability of a prefix below which its code is used up, 2^-24, and the largest number below 1; as in systematic.rs.
#define LEAST 5.9604644775390625e-8
#define BELOW_ONE 0.99999999999999988898

// A place in the order of scores: larger for a larger score, and never 0.
__device__ inline u32 place_of(float score) {
  const u32 bits = __float_as_uint(score);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

// The tokens that may be drawn: all whose score lies above a place, and of those at it the ones up to an id. Equal scores are thus taken
// in the order of ids.
struct Kept {
  u32 place, last;

  __device__ inline bool admits(u32 at, u32 id) const { return at > place || (at == place && id <= last); }
};

// A row of probabilities up to a common factor: the likeliest token has 1, what may not be drawn 0.
struct Masses {
  const float* logits;
  float inverse_temperature, max, log_sum;
  double top;
  // The first `barred` of these are not drawn.
  const u32* ends;
  u32 barred;
  Kept kept;

  __device__ inline bool bars(u32 i) const {
    bool is = false;
    for (u32 e = 0; e < barred; e++) is = is || ends[e] == i;
    return is;
  }

  __device__ inline float score(u32 i) const {
    return bars(i) ? -INFINITE : log_p(logits[i], inverse_temperature, max, log_sum);
  }

  __device__ inline double at(u32 i) const {
    const float x = score(i);
    return kept.admits(place_of(x), i) ? exp((double)x - top) : 0.0;
  }

  // Of `from..to`, by a warp; in every lane the same bits.
  __device__ inline double sum(u32 from, u32 to) const {
    double sum = 0.0;
#pragma unroll 4
    for (u32 i = from + threadIdx.x % 32; i < to; i += 32) sum += at(i);
    return warp_sum(sum);
  }
};

// How many tokens both `masses` and `kept` admit, or their mass; in every thread of the block the same bits.
template <bool MASS> __device__ inline double weigh(const Masses& masses, const Kept& kept, u32 n) {
  double sum = 0.0;
  for (u32 i = threadIdx.x; i < n; i += blockDim.x) {
    const float x = masses.score(i);
    const u32 place = place_of(x);
    if (kept.admits(place, i) && masses.kept.admits(place, i)) sum += MASS ? exp((double)x - masses.top) : 1.0;
  }
  return block_sum(sum);
}

// The fewest of the tokens that may be drawn, the likeliest first, that weigh at least `wanted`, found bit by bit.
template <bool MASS> __device__ inline Kept fewest(const Masses& masses, u32 n, double wanted) {
  Kept found = {0, n};
#pragma unroll 1
  for (u32 bit = 0x80000000u; bit > 0; bit /= 2) {
    const Kept trial = {found.place | bit, n};
    if (weigh<MASS>(masses, trial, n) >= wanted) found = trial;
  }
  if (weigh<false>(masses, found, n) - weigh<false>(masses, Kept{found.place + 1, n}, n) <= 1.0) return found;
  u32 from = 0, to = n - 1;
#pragma unroll 1
  while (from < to) {
    const u32 middle = from + (to - from) / 2;
    if (weigh<MASS>(masses, Kept{found.place, middle}, n) >= wanted) to = middle;
    else from = middle + 1;
  }
  found.last = from;
  return found;
}

// The likeliest token and where it is first, of those that are not barred; `n` where there is none. NaN is never larger.
__device__ inline u32 first_largest(const Masses& masses, u32 n) {
  __shared__ float tops[32];
  __shared__ u32 places[32];
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float top = -INFINITE;
  u32 place = n;
  for (u32 i = threadIdx.x; i < n; i += blockDim.x) {
    const float x = masses.logits[i];
    if (x > top && !masses.bars(i)) {
      top = x;
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

// A span of tokens and the mass before it.
struct Span {
  u32 from, to;
  double below;
};

// `span` is cut in 32: the first piece whose end lies above `target` remains, or the last with any mass where rounding leaves none.
// `fraction`, unless negative, sets `target` to that share of the whole span's mass, `total`.
__device__ inline Span piece(const Masses& masses, const Span& span, double fraction, double& target, double& total) {
  __shared__ double parts[32];
  const u32 warp = threadIdx.x / 32, size = (span.to - span.from + 31) / 32;
  const u32 from = min(span.from + warp * size, span.to), to = min(from + size, span.to);
  const double sum = masses.sum(from, to);
  __syncthreads();  // the parts of the span before have been read
  if (threadIdx.x % 32 == 0) parts[warp] = sum;
  __syncthreads();
  if (fraction >= 0.0) {
    total = 0.0;
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

// The token of `span` at `target`, as a span of its own; by one warp, the same in every lane.
__device__ inline Span token_at(const Masses& masses, const Span& span, double target) {
  const u32 lane = threadIdx.x % 32;
  double below = span.below;
  Span last = {span.from, span.from + 1, below};
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
    if (possible) {
      const u32 found = beyond ? __ffs((int)beyond) - 1 : 31 - __clz((int)possible);
      const double before = __shfl_sync(FULL, up_to, (found + 31) % 32);
      last = Span{start + found, start + found + 1, found > 0 ? below + before : below};
    }
    if (beyond) break;
    below += __shfl_sync(FULL, up_to, 31);
  }
  return last;
}

KERNEL(1024, sample)(const float* logits, const u32* source, u32 vocabulary, float inverse_temperature, u32 greedy, u32 advance,
                     u32 min_new_tokens, u32 top_k, const double* top_p, u32 max_new_tokens, u32* lengths, u32* produced, u32* status,
                     const u32* limits, u32* next, double* uniforms, double* codes, u32* tokens, float* logps, float* entropies,
                     const u32* eos, u32 eos_len) {
  __shared__ u32 state[2];
  const u32 row = blockIdx.x, from = source ? source[row] : row;
  if (from == NO_LINE) return;
  if (threadIdx.x == 0) {
    state[0] = status[row];
    state[1] = produced[row];
  }
  __syncthreads();
  const u32 position = state[1];
  if (state[0] != ACTIVE) return;
  if (advance && threadIdx.x == 0) lengths[row] += 1;
  if (position >= limits[row] || position >= max_new_tokens) {
    if (threadIdx.x == 0) status[row] = TRUNCATED;
    return;
  }
  const float* line = logits + (size_t)from * vocabulary;
  const OnlineSoftmax all = normaliser(line, vocabulary, inverse_temperature);
  if (!(all.sum > 0.0f)) {  // a NaN, plus infinity, or nothing but minus infinity
    if (threadIdx.x == 0) status[row] = NOT_NUMBERS;
    return;
  }
  const float log_sum = logf(all.sum);
  const u32 barred = position < min_new_tokens ? eos_len : 0;
  Masses masses = {line, inverse_temperature, all.max, log_sum, (double)-log_sum, eos, barred, Kept{0, vocabulary}};
  const bool whole = barred == 0 && top_k >= vocabulary && !top_p;
  double mass = 1.0;
  if (!whole) {
    if (top_k < vocabulary) masses.kept = fewest<false>(masses, vocabulary, (double)top_k);
    if (top_p) masses.kept = fewest<true>(masses, vocabulary, *top_p * weigh<true>(masses, masses.kept, vocabulary));
    mass = weigh<true>(masses, masses.kept, vocabulary);
    if (!(mass > 0.0)) {  // nothing but end tokens, which may not be drawn yet
      if (threadIdx.x == 0) status[row] = NOT_NUMBERS;
      return;
    }
  }
  u32 token;
  if (greedy) {
    token = first_largest(masses, vocabulary);
  } else {
    double* const number = uniforms + (size_t)row * max_new_tokens + position;
    const double here = *number;
    double target = 0.0, total = 0.0;
    const Span part = piece(masses, Span{0, vocabulary, 0.0}, here, target, total);
    const Span drawn = token_at(masses, piece(masses, part, -1.0, target, total), target);
    token = drawn.from;
    // What is left of the row's code is the number of its next token, until the code is used up.
    if (threadIdx.x == 0 && codes[row] >= LEAST) {
      const double share = masses.at(token) / total;
      codes[row] *= share;
      if (codes[row] >= LEAST && position + 1 < max_new_tokens)
        number[1] = fmin(fmax((here - drawn.below / total) / share, 0.0), BELOW_ONE);
    }
  }
  if (threadIdx.x == 0) {
    const size_t at = (size_t)row * max_new_tokens + position;
    const float own = log_p(line[token], inverse_temperature, all.max, log_sum);
    tokens[at] = token;
    // What is left is renormalised.
    logps[at] = whole ? own : (float)((double)own - (log(mass) + masses.top));
    entropies[at] = entropy_of(all);
    next[row] = token;
    produced[row] = position + 1;
    bool ended = false;
    for (u32 e = 0; e < eos_len; e++) ended = ended || eos[e] == token;
    if (ended) status[row] = ENDED;
    else if (position + 1 >= limits[row] || position + 1 >= max_new_tokens) status[row] = TRUNCATED;
  }
}
