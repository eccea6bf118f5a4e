// One token of every row against the KV cache; keys and values are [rows][key heads][capacity][dim] each.

KERNEL(256, decode_heads)(const REAL* qkv, const REAL* bias, const float* table, const u32* lengths, REAL* q, REAL* keys,
                          REAL* values, u32 query, u32 key, u32 dim, u32 capacity) {
  const u32 row = blockIdx.x, position = lengths[row];
  if (position >= capacity) return;
  const u32 half = dim / 2, quads = (half + 3) / 4, heads = query + 2 * key;
  const bool wide = half % 4 == 0 && aligned(qkv) && aligned(bias) && aligned(q) && aligned(keys) && aligned(values);
  const REAL* token = qkv + (size_t)row * heads * dim;
  const float* angles = table + (size_t)position * dim;
  for (u32 n = threadIdx.x; n < heads * quads; n += blockDim.x) {
    const u32 h = n / quads, i = n % quads * 4;
    Pairs pair = get_pairs(token + h * dim, i, half, wide);
    if (bias) add_pairs(pair, bias + h * dim, i, half, wide);
    if (h < query + key) rotate(pair, angles, i, half, 1.0f);
    if (h < query) {
      put_pairs(q + ((size_t)row * query + h) * dim, i, half, wide, pair);
    } else {
      REAL* cache = h < query + key ? keys : values;
      const u32 head = h < query + key ? h - query : h - query - key;
      put_pairs(cache + (((size_t)row * key + head) * capacity + position) * dim, i, half, wide, pair);
    }
  }
}

// A warp works on 32 positions at a time: LANES lanes share a position, each with QUADS fours of its numbers, so 32 / LANES positions
// are read at once.
template <u32 LANES, u32 QUADS> struct Attention {
  static constexpr u32 AT_ONCE = 32 / LANES;
  Four query[QUADS], sum[QUADS];
  float max, total;

  __device__ inline u32 number(u32 quad) const { return 4 * (threadIdx.x % LANES + quad * LANES); }

  __device__ inline void begin(const REAL* q, u32 dim, bool wide, float scale) {
    max = -INFINITE;
    total = 0.0f;
#pragma unroll
    for (u32 c = 0; c < QUADS; c++) {
      query[c] = sum[c] = Four{{0.0f, 0.0f, 0.0f, 0.0f}};
      if (number(c) < dim) query[c] = get(q, number(c), dim, wide);
#pragma unroll
      for (u32 j = 0; j < 4; j++) query[c].at[j] *= scale;
    }
  }

  // Positions `from..from + 32` of which those below `end` are seen.
  __device__ inline void read(const REAL* keys, const REAL* values, u32 from, u32 end, u32 dim, bool wide) {
    const u32 lane = threadIdx.x % 32, group = lane / LANES;
    float score = -INFINITE;
#pragma unroll 4
    for (u32 it = 0; it < LANES; it++) {
      const u32 position = from + it * AT_ONCE + group;
      float dot = 0.0f;
#pragma unroll
      for (u32 c = 0; c < QUADS; c++) {
        if (position < end && number(c) < dim) {
          const Four k = get(keys + (size_t)position * dim, number(c), dim, wide);
#pragma unroll
          for (u32 j = 0; j < 4; j++) dot += query[c].at[j] * k.at[j];
        }
      }
#pragma unroll
      for (u32 far = LANES / 2; far > 0; far /= 2) dot += __shfl_xor_sync(FULL, dot, far);
      // Lane l keeps the score of position from + l.
      const float mine = __shfl_sync(FULL, dot, lane % AT_ONCE * LANES);
      if (lane / AT_ONCE == it && from + lane < end) score = mine;
    }
    float top = score > max ? score : max;
#pragma unroll
    for (u32 far = 16; far > 0; far /= 2) {
      const float other = __shfl_xor_sync(FULL, top, far);
      top = other > top ? other : top;
    }
    const float kept = max == -INFINITE ? 0.0f : expf(max - top);
    const float p = from + lane < end ? expf(score - top) : 0.0f;
    max = top;
    total = total * kept + warp_sum(p);
#pragma unroll
    for (u32 c = 0; c < QUADS; c++)
#pragma unroll
      for (u32 j = 0; j < 4; j++) sum[c].at[j] *= kept;
#pragma unroll 4
    for (u32 it = 0; it < LANES; it++) {
      const u32 offset = it * AT_ONCE + group, position = from + offset;
      const float weight = __shfl_sync(FULL, p, offset);
#pragma unroll
      for (u32 c = 0; c < QUADS; c++) {
        if (position < end && number(c) < dim) {
          const Four v = get(values + (size_t)position * dim, number(c), dim, wide);
#pragma unroll
          for (u32 j = 0; j < 4; j++) sum[c].at[j] += weight * v.at[j];
        }
      }
    }
  }

  // The warps' results in their order.
  __device__ inline void finish(REAL* out, u32 dim) {
    __shared__ float tops[4], totals[4], sums[4][4 * LANES * QUADS];
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (u32 c = 0; c < QUADS; c++) {
#pragma unroll
      for (u32 j = 0; j < 4; j++) {
        float x = sum[c].at[j];
#pragma unroll
        for (u32 far = LANES; far < 32; far *= 2) x += __shfl_xor_sync(FULL, x, far);
        if (lane < LANES) sums[warp][number(c) + j] = x;
      }
    }
    if (lane == 0) {
      tops[warp] = max;
      totals[warp] = total;
    }
    __syncthreads();
    float top = tops[0], all = 0.0f, share[4];
    for (u32 w = 1; w < 4; w++) top = tops[w] > top ? tops[w] : top;
#pragma unroll
    for (u32 w = 0; w < 4; w++) {
      // A warp without positions has nothing; one whose scores are all NaN has a NaN total.
      share[w] = tops[w] == -INFINITE ? 0.0f : expf(tops[w] - top);
      all += totals[w] * share[w];
    }
    for (u32 i = threadIdx.x; i < dim; i += blockDim.x) {
      float x = 0.0f;
#pragma unroll
      for (u32 w = 0; w < 4; w++) x += sums[w][i] * share[w];
      store(out + i, x / all);
    }
  }
};

template <u32 LANES, u32 QUADS>
__device__ inline void attend(const REAL* q, const REAL* keys, const REAL* values, u32 end, REAL* out, u32 dim, float scale) {
  const bool wide = dim % 4 == 0 && aligned(q) && aligned(keys) && aligned(values);
  Attention<LANES, QUADS> a;
  a.begin(q, dim, wide, scale);
  for (u32 from = threadIdx.x / 32 * 32; from < end; from += 128) a.read(keys, values, from, end, dim, wide);
  a.finish(out, dim);
}

KERNEL(128, decode_attention)(const REAL* q, const REAL* keys, const REAL* values, const u32* lengths, REAL* out, u32 query, u32 key,
                              u32 dim, u32 capacity, float scale) {
  const u32 row = blockIdx.x, head = blockIdx.y, end = lengths[row] < capacity ? lengths[row] + 1 : capacity;
  const size_t at = ((size_t)row * query + head) * dim, cache = ((size_t)row * key + head / (query / key)) * capacity * dim;
  q += at;
  out += at;
  keys += cache;
  values += cache;
  if (dim <= 32) attend<8, 1>(q, keys, values, end, out, dim, scale);
  else if (dim <= 64) attend<16, 1>(q, keys, values, end, out, dim, scale);
  else if (dim <= 128) attend<32, 1>(q, keys, values, end, out, dim, scale);
  else attend<32, 2>(q, keys, values, end, out, dim, scale);
}

KERNEL(256, fill_cache)(const REAL* qkv, const u32* offsets, const u32* source, REAL* keys, REAL* values, u32 query, u32 key, u32 dim,
                        u32 capacity) {
  const u32 row = blockIdx.x, head = blockIdx.y, prompt = source[row], start = offsets[prompt], len = offsets[prompt + 1] - start;
  const u32 quads = (dim + 3) / 4, n = (len < capacity ? len : capacity) * quads, stride = (query + 2 * key) * dim;
  const bool wide = dim % 4 == 0 && aligned(qkv) && aligned(keys) && aligned(values);
  for (u32 at = threadIdx.x; at < n; at += blockDim.x) {
    const u32 position = at / quads, i = at % quads * 4;
    const REAL* token = qkv + (size_t)(start + position) * stride + (query + head) * dim;
    const size_t to = (((size_t)row * key + head) * capacity + position) * dim;
    put(keys + to, i, dim, wide, get(token, i, dim, wide));
    put(values + to, i, dim, wide, get(token + key * dim, i, dim, wide));
  }
}
