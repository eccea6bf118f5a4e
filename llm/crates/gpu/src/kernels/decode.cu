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

// Query heads that a block works on, all of one key head; more are parted.
#define HEADS 16u

// The warps' results of the `heads` query heads from `head` on, added up in their order: of all positions into `out`, or of a split of
// them into `parts`: its largest score, its sum and its numbers.
template <u32 W>
__device__ inline void combine_warps(unsigned char* room, const float (&o)[W / 8][4], const float (&top)[2], const float (&total)[2],
                                     u32 heads, size_t head, u32 at, u32 split, u32 splits, u32 dim, REAL* out, float* parts) {
  float(*sums)[HEADS][W] = (float(*)[HEADS][W])room, (*tops)[HEADS] = (float(*)[HEADS])(sums + 4), (*totals)[HEADS] = tops + 4;
  static_assert(sizeof(*sums) * 4 + sizeof(*tops) * 8 <= ROOM, "warps");
  const u32 warp = threadIdx.x / 32;
  __syncthreads();
#pragma unroll
  for (u32 half = 0; half < 2; half++) {
    const float all = row_sum(total[half]);
    tops[warp][tile_row(half)] = top[half];
    totals[warp][tile_row(half)] = all;
#pragma unroll
    for (u32 n = 0; n < W / 8; n++)
#pragma unroll
      for (u32 j = 0; j < 2; j++) sums[warp][tile_row(half)][tile_column(n) + j] = o[n][2 * half + j];
  }
  __syncthreads();
  for (u32 n = threadIdx.x; n < heads * W; n += blockDim.x) {
    const u32 h = n / W, i = n % W;
    if (at + i >= dim) continue;
    float most = -INFINITE, all = 0.0f, x = 0.0f;
    for (u32 w = 0; w < 4; w++) most = tops[w][h] > most ? tops[w][h] : most;
    for (u32 w = 0; w < 4; w++) {
      // A warp without positions has nothing; one whose scores are all NaN has a NaN total.
      const float share = tops[w][h] == -INFINITE ? 0.0f : expf(tops[w][h] - most);
      all += totals[w][h] * share;
      x += sums[w][h][i] * share;
    }
    if (splits == 1) {
      store(out + (head + h) * dim + at + i, x / all);
    } else {
      float* part = parts + ((head + h) * splits + split) * (dim + 2);
      part[2 + at + i] = x;
      if (at + i == 0) {
        part[0] = most;
        part[1] = all;
      }
    }
  }
}

template <u32 W>
__device__ inline void attend_cached(unsigned char* room, const REAL* q, const REAL* keys, const REAL* values, const u32* lengths,
                                     REAL* out, float* parts, const Shape s, u32 capacity, u32 splits, float scale) {
  REAL(*queries)[W + PER] = (REAL(*)[W + PER])room, (*kv)[W + PER] = queries + HEADS;
  REAL(*p)[16 + PER] = (REAL(*)[16 + PER])(kv + 64);
  static_assert(sizeof(*kv) * (HEADS + 64) + sizeof(*p) * 64 <= ROOM, "tiles");
  const u32 pieces = s.parts(W), chunks = (s.group() + HEADS - 1) / HEADS, row = blockIdx.x, mine = threadIdx.x / 32 * 16;
  const u32 split = blockIdx.y % splits, piece = blockIdx.y / splits % pieces, chunk = blockIdx.y / splits / pieces % chunks;
  const u32 g = blockIdx.y / splits / pieces / chunks, first = chunk * HEADS, heads = min(HEADS, s.group() - first);
  const u32 end = lengths[row] < capacity ? lengths[row] + 1 : capacity, span = ((end + 63) / 64 + splits - 1) / splits * 64;
  const u32 stop = min(end, (split + 1) * span);
  const size_t head = (size_t)row * s.query + g * s.group() + first, cache = ((size_t)row * s.key + g) * capacity * s.dim;
  const Lines lines = {q + head * s.dim, s.dim}, k = {keys + cache, s.dim}, v = {values + cache, s.dim};
  const bool wide = wide_lines(s.dim, q, keys) && wide_lines(s.dim, values, values);
  float o[W / 8][4] = {}, top[2] = {-INFINITE, -INFINITE}, total[2] = {0.0f, 0.0f};
  for (u32 from = split * span; from < stop; from += 64) {
    float x[2][4] = {};
    for (u32 c = 0; c < pieces; c++) {
      const u32 at = c * W;
      __syncthreads();
      if (pieces > 1 || from == split * span)
        fetch<HEADS, W>(queries, s.dim - at, wide, [&](u32 i) { return lines.at(i, i < heads, at); });
      fetch<64, W>(kv, s.dim - at, wide, [&](u32 i) { return k.at(from + i, from + i < stop, at); });
      __syncthreads();
      product<W, 16, true>(x, queries[0], W + PER, kv[mine], W + PER);
    }
    online_softmax<16, W>(x, scale, top, total, o, p + mine, [&](u32, u32 key) { return from + mine + key < stop; });
    __syncthreads();
    fetch<64, W>(kv, s.dim - piece * W, wide, [&](u32 i) { return v.at(from + i, from + i < stop, piece * W); });
    __syncthreads();
    product<16, W, false>(o, p[mine], 16 + PER, kv[mine], W + PER);
  }
  combine_warps<W>(room, o, top, total, heads, head, piece * W, split, splits, s.dim, out, parts);
}

KERNEL(128, decode_attention)(const REAL* q, const REAL* keys, const REAL* values, const u32* lengths, REAL* out, float* parts,
                              u32 query, u32 key, u32 dim, u32 capacity, u32 splits, float scale) {
  alignas(16) __shared__ unsigned char room[ROOM];
  const Shape s = {query, key, dim};
#if BF16
  if (dim > 64) attend_cached<128>(room, q, keys, values, lengths, out, parts, s, capacity, splits, scale);
  else
#endif
    attend_cached<64>(room, q, keys, values, lengths, out, parts, s, capacity, splits, scale);
}

// The splits of every head in their order.
KERNEL(128, decode_combine)(const float* parts, REAL* out, u32 splits, u32 dim) {
  parts += (size_t)blockIdx.x * splits * (dim + 2);
  float most = -INFINITE, all = 0.0f;
  for (u32 n = 0; n < splits; n++) most = parts[n * (dim + 2)] > most ? parts[n * (dim + 2)] : most;
  for (u32 i = threadIdx.x; i < dim; i += blockDim.x) {
    float x = 0.0f;
    all = 0.0f;
    for (u32 n = 0; n < splits; n++) {
      const float* part = parts + n * (dim + 2);
      // As of warps.
      const float share = part[0] == -INFINITE ? 0.0f : expf(part[0] - most);
      all += part[1] * share;
      x += part[2 + i] * share;
    }
    store(out + (size_t)blockIdx.x * dim + i, x / all);
  }
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
