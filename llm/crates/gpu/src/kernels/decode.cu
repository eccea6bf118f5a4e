// One token of every row against the KV cache. Keys and values are [pages][key heads][PAGE][dim] each; a table [rows][width] names the pages
// of every row in the order of its tokens.

// Tokens of a page; as in decode.rs.
#define PAGE 32u

// The pages of a row, in keys or in values.
struct Paged {
  const u32* pages;
  u32 key, dim;

  // Where the numbers of a head at a position begin.
  __device__ inline size_t at(u32 head, u32 position) const {
    return (((size_t)pages[position / PAGE] * key + head) * PAGE + position % PAGE) * dim;
  }
};

KERNEL(256, decode_heads)(const REAL* qkv, const REAL* bias, const float* table, const u32* lengths, REAL* q, REAL* keys,
                          REAL* values, const u32* pages, u32 query, u32 key, u32 dim, u32 width) {
  const u32 row = blockIdx.x, position = lengths[row];
  if (position / PAGE >= width) return;
  const Paged paged = {pages + (size_t)row * width, key, dim};
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
      put_pairs(cache + paged.at(head, position), i, half, wide, pair);
    }
  }
}

// Query heads that a block works on, all of one key head; more are parted.
#define HEADS 16u

// Positions that a block works on at a time, 16 to a warp.
#define SPAN 128u

// Between the lines of a tile of probabilities: tensor cores read lines that begin in different banks; in f32 there is no room for it.
#define GAP (BF16 ? PER : 0)

// A warp's results of the query heads: their largest scores, the sums of e^(score - largest), and of the values by these.
template <u32 W> struct Results {
  float sums[HEADS][W], tops[HEADS], totals[HEADS];
};

// What remains of numbers whose largest score is `top` beside those whose is `most`. Where there are no positions there is nothing; where all
// scores are NaN, a NaN total.
__device__ inline float share(float top, float most) { return top == -INFINITE ? 0.0f : expf(top - most); }

template <u32 W>
__device__ inline void put_results(Results<W>& to, const float (&o)[W / 8][4], const float (&top)[2], const float (&total)[2]) {
#pragma unroll
  for (u32 half = 0; half < 2; half++) {
    // Four lanes hold the same two numbers; one stores them.
    if (threadIdx.x % 4 == 0) {
      to.tops[tile_row(half)] = top[half];
      to.totals[tile_row(half)] = total[half];
    }
#pragma unroll
    for (u32 n = 0; n < W / 8; n++)
#pragma unroll
      for (u32 j = 0; j < 2; j++) to.sums[tile_row(half)][tile_column(n) + j] = o[n][2 * half + j];
  }
}

template <u32 W>
__device__ inline void add_results(const Results<W>& from, float (&o)[W / 8][4], float (&top)[2], float (&total)[2]) {
#pragma unroll
  for (u32 half = 0; half < 2; half++) {
    const float other = from.tops[tile_row(half)], most = other > top[half] ? other : top[half];
    const float own = share(top[half], most), its = share(other, most);
    total[half] = total[half] * own + from.totals[tile_row(half)] * its;
#pragma unroll
    for (u32 n = 0; n < W / 8; n++)
#pragma unroll
      for (u32 j = 0; j < 2; j++) {
        float& x = o[n][2 * half + j];
        x = x * own + from.sums[tile_row(half)][tile_column(n) + j] * its;
      }
    top[half] = most;
  }
}

// The warps' results of the `heads` query heads from `head` on, those of the last four added to those of the first four, and these in their
// order: of all positions into `out`, or of a split of them into `parts`: its largest score, its sum and its numbers.
template <u32 W>
__device__ inline void combine_warps(unsigned char* room, float (&o)[W / 8][4], float (&top)[2], float (&total)[2], u32 heads,
                                     size_t head, u32 at, u32 split, u32 splits, u32 dim, REAL* out, float* parts) {
  Results<W>* results = (Results<W>*)room;
  static_assert(4 * sizeof(Results<W>) <= ROOM, "warps");
  const u32 warp = threadIdx.x / 32;
  total[0] = row_sum(total[0]);
  total[1] = row_sum(total[1]);
  __syncthreads();
  if (warp >= 4) put_results(results[warp - 4], o, top, total);
  __syncthreads();
  if (warp < 4) {
    add_results(results[warp], o, top, total);
    // A warp reads and writes its own.
    __syncwarp();
    put_results(results[warp], o, top, total);
  }
  __syncthreads();
  for (u32 n = threadIdx.x; n < heads * W; n += blockDim.x) {
    const u32 h = n / W, i = n % W;
    if (at + i >= dim) continue;
    float most = -INFINITE, all = 0.0f, x = 0.0f;
    for (u32 w = 0; w < 4; w++) most = results[w].tops[h] > most ? results[w].tops[h] : most;
    for (u32 w = 0; w < 4; w++) {
      const float part = share(results[w].tops[h], most);
      all += results[w].totals[h] * part;
      x += results[w].sums[h][i] * part;
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
                                     REAL* out, float* parts, const u32* pages, const Shape s, u32 width, u32 splits, float scale) {
  REAL(*queries)[W + PER] = (REAL(*)[W + PER])room, (*kv)[W + PER] = queries + HEADS;
  REAL(*p)[16 + GAP] = (REAL(*)[16 + GAP])(kv + SPAN);
  static_assert(sizeof(*kv) * (HEADS + SPAN) + sizeof(*p) * SPAN <= ROOM, "tiles");
  const u32 pieces = s.parts(W), chunks = (s.group() + HEADS - 1) / HEADS, row = blockIdx.x, mine = threadIdx.x / 32 * 16;
  const u32 split = blockIdx.y % splits, piece = blockIdx.y / splits % pieces, chunk = blockIdx.y / splits / pieces % chunks;
  const u32 g = blockIdx.y / splits / pieces / chunks, first = chunk * HEADS, heads = min(HEADS, s.group() - first);
  const u32 end = min(lengths[row] + 1, width * PAGE), span = ((end + SPAN - 1) / SPAN + splits - 1) / splits * SPAN;
  const u32 stop = min(end, (split + 1) * span);
  const size_t head = (size_t)row * s.query + g * s.group() + first;
  const Lines lines = {q + head * s.dim, s.dim};
  const Paged paged = {pages + (size_t)row * width, s.key, s.dim};
  const auto line = [&](const REAL* cache, u32 position, u32 at) {
    return position < stop ? cache + paged.at(g, position) + at : nullptr;
  };
  const bool wide = wide_lines(s.dim, q, keys) && wide_lines(s.dim, values, values);
  float o[W / 8][4] = {}, top[2] = {-INFINITE, -INFINITE}, total[2] = {0.0f, 0.0f};
  // The tile that is wanted next is on its way while the one before is worked on.
  Carried<SPAN, W, 256> next;
  const auto load = [&](const REAL* cache, u32 from, u32 at) {
    next.load(s.dim - at, wide, [&](u32 i) { return line(cache, from + i, at); });
  };
  load(keys, split * span, 0);
  for (u32 from = split * span; from < stop; from += SPAN) {
    float x[2][4] = {};
    for (u32 c = 0; c < pieces; c++) {
      const u32 at = c * W;
      __syncthreads();
      if (pieces > 1 || from == split * span)
        fetch<HEADS, W, 256>(queries, s.dim - at, wide, [&](u32 i) { return lines.at(i, i < heads, at); });
      next.put(kv);
      __syncthreads();
      if (c + 1 < pieces) load(keys, from, at + W);
      else load(values, from, piece * W);
      product<W, 16, true>(x, queries[0], W + PER, kv[mine], W + PER);
    }
    online_softmax<16, W>(x, scale, top, total, o, p + mine, [&](u32, u32 key) { return from + mine + key < stop; });
    __syncthreads();
    next.put(kv);
    __syncthreads();
    load(keys, from + SPAN, 0);
    product<16, W, false>(o, p[mine], 16 + GAP, kv[mine], W + PER);
  }
  combine_warps<W>(room, o, top, total, heads, head, piece * W, split, splits, s.dim, out, parts);
}

KERNEL(256, decode_attention)(const REAL* q, const REAL* keys, const REAL* values, const u32* lengths, REAL* out, float* parts,
                              const u32* pages, u32 query, u32 key, u32 dim, u32 width, u32 splits, float scale) {
  alignas(16) __shared__ unsigned char room[ROOM];
  const Shape s = {query, key, dim};
#if BF16
  if (dim > 64) attend_cached<128>(room, q, keys, values, lengths, out, parts, pages, s, width, splits, scale);
  else
#endif
    attend_cached<64>(room, q, keys, values, lengths, out, parts, pages, s, width, splits, scale);
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
      const float its = share(part[0], most);
      all += part[1] * its;
      x += part[2 + i] * its;
    }
    store(out + (size_t)blockIdx.x * dim + i, x / all);
  }
}

// The keys and values of a prompt from a position on, into the pages that a line of the table names.
KERNEL(256, fill_cache)(const REAL* qkv, const u32* offsets, const u32* source, REAL* keys, REAL* values, const u32* pages,
                        const u32* lines, const u32* begins, u32 query, u32 key, u32 dim, u32 width) {
  const u32 copy = blockIdx.x, head = blockIdx.y, prompt = source[copy], start = offsets[prompt];
  const u32 len = min(offsets[prompt + 1] - start, width * PAGE), begin = min(begins[copy], len);
  const u32 quads = (dim + 3) / 4, n = (len - begin) * quads, stride = (query + 2 * key) * dim;
  const bool wide = dim % 4 == 0 && aligned(qkv) && aligned(keys) && aligned(values);
  const Paged paged = {pages + (size_t)lines[copy] * width, key, dim};
  for (u32 at = threadIdx.x; at < n; at += blockDim.x) {
    const u32 position = begin + at / quads, i = at % quads * 4;
    const REAL* token = qkv + (size_t)(start + position) * stride + (query + head) * dim;
    const size_t to = paged.at(head, position);
    put(keys + to, i, dim, wide, get(token, i, dim, wide));
    put(values + to, i, dim, wide, get(token + key * dim, i, dim, wide));
  }
}
