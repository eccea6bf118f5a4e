// Causal attention without its scores in memory, forwards and backwards. Tokens are those of the fused projection,
// [tokens][query + 2 key][dim]. A row may continue a prefix that it shares with other rows: it sees all of that, then itself.
//
// A block holds 64 queries, or 64 keys, of a head and goes over what they see, or are seen by, a tile at a time in a fixed order. Heads
// wider than a tile are read in parts: a block writes one part of the result and computes the scores from all.

#define ROWS 64u
#define THREADS 128u

// The place of a gradient that one block has all of.
#define WHOLE FULL

// Bytes of shared memory that a block has for its tiles: one piece for every width a kernel is built for.
#define ROOM 48896

// Where the tokens lie that a row sees: those of its prefix, then its own.
struct Seen {
  u32 prefix, shared, start, len;

  __device__ inline u32 token(u32 i) const { return i < shared ? prefix + i : start + i - shared; }
  __device__ inline u32 end() const { return shared + len; }
};

// `prefix` names the prefix of a row, or the row itself where it has none.
__device__ inline Seen seen(const u32* offsets, const u32* prefix, u32 row) {
  const u32 start = offsets[row], p = prefix[row];
  const bool shares = p != row;
  return Seen{shares ? offsets[p] : 0, shares ? offsets[p + 1] - offsets[p] : 0, start, offsets[row + 1] - start};
}

struct Shape {
  u32 query, key, dim;

  __device__ inline u32 stride() const { return (query + 2 * key) * dim; }
  __device__ inline u32 group() const { return query / key; }
  __device__ inline u32 parts(u32 width) const { return (dim + width - 1) / width; }
};

// One head of every token: its numbers from column `at` on, null for a token beyond `end`.
struct Lines {
  const REAL* first;
  u32 stride;

  __device__ inline const REAL* at(u32 token, bool there, u32 column) const {
    return there ? first + (size_t)token * stride + column : (const REAL*)0;
  }
};

__device__ inline bool wide_lines(u32 dim, const REAL* a, const REAL* b) {
  return dim % PER == 0 && (((u64)a | (u64)b) & 15) == 0;
}

// Turns a tile of scores into probabilities not yet divided by their sum, in `p`; `visible(row, key)` says which count. A NaN stays one.
template <u32 N, u32 W, u32 LINE, class Visible>
__device__ inline void online_softmax(float (&x)[N / 8][4], float scale, float (&top)[2], float (&total)[2],
                                      float (&o)[W / 8][4], REAL (*p)[LINE], Visible visible) {
#pragma unroll
  for (u32 half = 0; half < 2; half++) {
    float max = top[half], sum = 0.0f;
#pragma unroll
    for (u32 n = 0; n < N / 8; n++)
#pragma unroll
      for (u32 j = 0; j < 2; j++) {
        float& s = x[n][2 * half + j];
        s = visible(tile_row(half), tile_column(n) + j) ? s * scale : -INFINITE;
        max = s > max ? s : max;
      }
    max = row_max(max);
    const float kept = top[half] == -INFINITE ? 0.0f : expf(top[half] - max);
#pragma unroll
    for (u32 n = 0; n < N / 8; n++)
#pragma unroll
      for (u32 j = 0; j < 2; j++) {
        const float s = x[n][2 * half + j], e = s == -INFINITE ? 0.0f : expf(s - max);
        sum += e;
        store(&p[tile_row(half)][tile_column(n) + j], e);
      }
    top[half] = max;
    total[half] = total[half] * kept + sum;
#pragma unroll
    for (u32 n = 0; n < W / 8; n++)
#pragma unroll
      for (u32 j = 0; j < 2; j++) o[n][2 * half + j] *= kept;
  }
}

// The columns of a part that lie in the head, of this warp's rows below `rows`, times `factor`; `line(row)` is where column 0 goes.
template <u32 W, class Line>
__device__ inline void put_tile(const float (&c)[W / 8][4], const float (&factor)[2], u32 rows, u32 columns, Line line) {
#pragma unroll
  for (u32 half = 0; half < 2; half++) {
    const u32 row = threadIdx.x / 32 * 16 + tile_row(half);
    if (row >= rows) continue;
    auto* to = line(row);
#pragma unroll
    for (u32 n = 0; n < W / 8; n++)
#pragma unroll
      for (u32 j = 0; j < 2; j++)
        if (tile_column(n) + j < columns) store(to + tile_column(n) + j, c[n][2 * half + j] * factor[half]);
  }
}

template <u32 W, u32 N>
__device__ inline void attend_forward(unsigned char* room, const REAL* qkv, const u32* offsets, const u32* prefix, const u32* tiles, REAL* out,
                                      float* log_sum, const Shape s, float scale) {
  REAL(*q)[W + PER] = (REAL(*)[W + PER])room, (*kv)[W + PER] = q + ROWS;
  REAL(*p)[N + PER] = (REAL(*)[N + PER])(kv + N);
  static_assert(sizeof(*q) * (ROWS + N) + sizeof(*p) * ROWS <= ROOM, "tiles");
  const u32 row = tiles[2 * blockIdx.x], first = tiles[2 * blockIdx.x + 1];
  const u32 parts = s.parts(W), part = blockIdx.y % parts, head = blockIdx.y / parts, mine = threadIdx.x / 32 * 16;
  const Seen r = seen(offsets, prefix, row);
  const u32 rows = min(ROWS, r.len - first), end = r.shared + first + rows;
  const Lines queries = {qkv + head * s.dim, s.stride()}, keys = {qkv + (s.query + head / s.group()) * s.dim, s.stride()};
  const Lines values = {keys.first + s.key * s.dim, s.stride()};
  const bool wide = wide_lines(s.dim, qkv, qkv);
  float o[W / 8][4] = {}, top[2] = {-INFINITE, -INFINITE}, total[2] = {0.0f, 0.0f};
  // The tile that is wanted next is on its way while the one before is worked on.
  Carried<N, W, THREADS> next;
  const auto load = [&](const Lines& lines, u32 from, u32 at) {
    next.load(s.dim - at, wide, [&](u32 i) { return lines.at(r.token(from + i), from + i < end, at); });
  };
  load(keys, 0, 0);
  for (u32 from = 0; from < end; from += N) {
    float x[N / 8][4] = {};
    for (u32 c = 0; c < parts; c++) {
      __syncthreads();
      if (parts > 1 || from == 0)
        fetch<ROWS, W, THREADS>(q, s.dim - c * W, wide, [&](u32 i) { return queries.at(r.start + first + i, i < rows, c * W); });
      next.put(kv);
      __syncthreads();
      if (c + 1 < parts) load(keys, from, (c + 1) * W);
      else load(values, from, part * W);
      product<W, N, true>(x, q[mine], W + PER, kv[0], W + PER);
    }
    const u32 position = r.shared + first + mine;
    online_softmax<N, W>(x, scale, top, total, o, p + mine, [&](u32 i, u32 key) { return from + key <= position + i; });
    __syncthreads();
    next.put(kv);
    __syncthreads();
    if (from + N < end) load(keys, from + N, 0);
    product<N, W, false>(o, p[mine], N + PER, kv[0], W + PER);
  }
  float inverse[2];
#pragma unroll
  for (u32 half = 0; half < 2; half++) {
    const float all = row_sum(total[half]);
    const u32 i = mine + tile_row(half);
    inverse[half] = 1.0f / all;
    if (part == 0 && threadIdx.x % 4 == 0 && i < rows)
      log_sum[(size_t)(r.start + first + i) * s.query + head] = top[half] + logf(all);
  }
  put_tile<W>(o, inverse, rows, s.dim - part * W,
              [&](u32 i) { return out + ((size_t)(r.start + first + i) * s.query + head) * s.dim + part * W; });
}

// sum_i dout_i out_i of every row of the tile, by two threads a row.
__device__ inline void inner_products(const REAL* out, const REAL* dout, u32 rows, size_t first, u32 stride, u32 dim, bool wide,
                                      float* inner) {
  const u32 row = threadIdx.x / 2;
  float sum = 0.0f;
  if (row < rows) {
    const size_t at = first + (size_t)row * stride;
    for (u32 i = threadIdx.x % 2 * 4; i < dim; i += 8) {
      const Four a = get(out + at, i, dim, wide), b = get(dout + at, i, dim, wide);
#pragma unroll
      for (u32 j = 0; j < 4; j++) sum += a.at[j] * b.at[j];
    }
  }
  sum += __shfl_xor_sync(FULL, sum, 1);
  if (threadIdx.x % 2 == 0) inner[row] = sum;
}

// From scores `x` and the gradient `y` of probabilities to probabilities and the gradient of scores.
__device__ inline void scores_backward(float& x, float& y, bool visible, float scale, float log_sum, float inner) {
  const float p = visible ? expf(x * scale - log_sum) : 0.0f;
  x = p;
  y = visible ? p * (y - inner) * scale : 0.0f;
}

template <u32 N>
__device__ inline void store_tile(const float (&x)[N / 8][4], REAL (*p)[N + PER]) {
#pragma unroll
  for (u32 n = 0; n < N / 8; n++)
#pragma unroll
    for (u32 j = 0; j < 4; j++) store(&p[tile_row(j / 2)][tile_column(n) + j % 2], x[n][j]);
}

template <u32 W, u32 N>
__device__ inline void attend_queries(unsigned char* room, const REAL* qkv, const REAL* out, const REAL* dout, const float* log_sum, const u32* offsets,
                                      const u32* prefix, const u32* tiles, float* inner, REAL* dqkv, const Shape s, float scale) {
  REAL(*q)[W + PER] = (REAL(*)[W + PER])room, (*d)[W + PER] = q + ROWS, (*kv)[W + PER] = d + ROWS;
  REAL(*ds)[N + PER] = (REAL(*)[N + PER])(kv + N);
  float* inners = (float*)(ds + ROWS);
  static_assert(sizeof(*q) * (2 * ROWS + N) + (sizeof(*ds) + sizeof(float)) * ROWS <= ROOM, "tiles");
  const u32 row = tiles[2 * blockIdx.x], first = tiles[2 * blockIdx.x + 1];
  const u32 parts = s.parts(W), part = blockIdx.y % parts, head = blockIdx.y / parts, mine = threadIdx.x / 32 * 16;
  const Seen r = seen(offsets, prefix, row);
  const u32 rows = min(ROWS, r.len - first), end = r.shared + first + rows, begin = r.start + first;
  const Lines queries = {qkv + head * s.dim, s.stride()}, keys = {qkv + (s.query + head / s.group()) * s.dim, s.stride()};
  const Lines values = {keys.first + s.key * s.dim, s.stride()}, douts = {dout + head * s.dim, s.query * s.dim};
  const bool wide = wide_lines(s.dim, qkv, dout);
  inner_products(out, dout, rows, ((size_t)begin * s.query + head) * s.dim, s.query * s.dim, s.dim,
                 s.dim % 4 == 0 && aligned(out) && aligned(dout), inners);
  __syncthreads();
  float sums[2], mean[2], dq[W / 8][4] = {};
#pragma unroll
  for (u32 half = 0; half < 2; half++) {
    const u32 i = mine + tile_row(half);
    const size_t at = (size_t)(begin + i) * s.query + head;
    sums[half] = i < rows ? log_sum[at] : 0.0f;
    mean[half] = inners[i];
    if (part == 0 && threadIdx.x % 4 == 0 && i < rows) inner[at] = mean[half];
  }
  Carried<N, W, THREADS> next;
  const auto load = [&](const Lines& lines, u32 from, u32 at) {
    next.load(s.dim - at, wide, [&](u32 i) { return lines.at(r.token(from + i), from + i < end, at); });
  };
  // The part that is written comes last, so that its keys stay.
  const auto column = [&](u32 c) { return (part + c) % parts * W; };
  load(values, 0, column(1));
  for (u32 from = 0; from < end; from += N) {
    float x[N / 8][4] = {}, y[N / 8][4] = {};
    for (u32 c = 1; c <= parts; c++) {
      const u32 at = column(c);
      __syncthreads();
      if (parts > 1 || from == 0) {
        fetch<ROWS, W, THREADS>(d, s.dim - at, wide, [&](u32 i) { return douts.at(begin + i, i < rows, at); });
        fetch<ROWS, W, THREADS>(q, s.dim - at, wide, [&](u32 i) { return queries.at(begin + i, i < rows, at); });
      }
      next.put(kv);
      __syncthreads();
      load(keys, from, at);
      product<W, N, true>(y, d[mine], W + PER, kv[0], W + PER);
      __syncthreads();
      next.put(kv);
      __syncthreads();
      if (c < parts) load(values, from, column(c + 1));
      else if (from + N < end) load(values, from + N, column(1));
      product<W, N, true>(x, q[mine], W + PER, kv[0], W + PER);
    }
#pragma unroll
    for (u32 n = 0; n < N / 8; n++)
#pragma unroll
      for (u32 j = 0; j < 4; j++) {
        const u32 key = from + tile_column(n) + j % 2, position = r.shared + first + mine + tile_row(j / 2);
        scores_backward(x[n][j], y[n][j], key <= position, scale, sums[j / 2], mean[j / 2]);
      }
    store_tile<N>(y, ds + mine);
    __syncwarp();
    product<N, W, false>(dq, ds[mine], N + PER, kv[0], W + PER);
  }
  const float one[2] = {1.0f, 1.0f};
  put_tile<W>(dq, one, rows, s.dim - part * W,
              [&](u32 i) { return dqkv + (size_t)(begin + i) * s.stride() + head * s.dim + part * W; });
}

template <u32 W, u32 N>
__device__ inline void attend_keys(unsigned char* room, const REAL* qkv, const REAL* dout, const float* log_sum, const float* inner, const u32* offsets,
                                   const u32* tiles, REAL* dqkv, float* sums, const Shape s, float scale) {
  REAL(*k)[W + PER] = (REAL(*)[W + PER])room, (*v)[W + PER] = k + ROWS, (*q)[W + PER] = v + ROWS, (*d)[W + PER] = q + N;
  REAL(*p)[N + PER] = (REAL(*)[N + PER])(d + N);
  float(*of_queries)[N] = (float(*)[N])(p + ROWS);
  static_assert(sizeof(*k) * 2 * (ROWS + N) + sizeof(*p) * ROWS + sizeof(*of_queries) * 2 <= ROOM, "tiles");
  const u32 row = tiles[4 * blockIdx.x], first = tiles[4 * blockIdx.x + 1], reader = tiles[4 * blockIdx.x + 2];
  const u32 parts = s.parts(W), part = blockIdx.y % parts, g = blockIdx.y / parts, mine = threadIdx.x / 32 * 16;
  const u32 begin = offsets[row] + first, rows = min(ROWS, offsets[row + 1] - begin);
  const Lines keys = {qkv + (s.query + g) * s.dim, s.stride()}, values = {keys.first + s.key * s.dim, s.stride()};
  const bool wide = wide_lines(s.dim, qkv, dout);
  float dk[W / 8][4] = {}, dv[W / 8][4] = {};
  const auto column = [&](u32 c) { return (part + c) % parts * W; };
  // The next queries: N at a time, of one query head of this key head after the other.
  const bool itself = reader == row;
  const u32 start = offsets[reader], len = offsets[reader + 1] - start, from_first = itself ? first : 0;
  u32 h = 0, from = from_first;
  const auto advance = [&] {
    from += N;
    if (from < len) return true;
    from = from_first;
    return ++h < s.group();
  };
  // They are on their way while those before are worked on.
  Carried<N, W, THREADS> next_q, next_d;
  float next_of_query = 0.0f;
  const auto load = [&](u32 at) {
    const u32 head = g * s.group() + h;
    const Lines queries = {qkv + head * s.dim, s.stride()}, douts = {dout + head * s.dim, s.query * s.dim};
    next_q.load(s.dim - at, wide, [&](u32 i) { return queries.at(start + from + i, from + i < len, at); });
    next_d.load(s.dim - at, wide, [&](u32 i) { return douts.at(start + from + i, from + i < len, at); });
    // A thread has the sum, or the inner product, of one query.
    const u32 i = from + threadIdx.x % N;
    if (threadIdx.x < 2 * N)
      next_of_query = i < len ? (threadIdx.x < N ? log_sum : inner)[(size_t)(start + i) * s.query + head] : 0.0f;
  };
  const auto fetch_keys = [&](u32 at) {
    fetch<ROWS, W, THREADS>(k, s.dim - at, wide, [&](u32 i) { return keys.at(begin + i, i < rows, at); });
    fetch<ROWS, W, THREADS>(v, s.dim - at, wide, [&](u32 i) { return values.at(begin + i, i < rows, at); });
  };
  load(column(1));
  if (parts == 1) fetch_keys(0);
  for (bool there = from < len; there;) {
    float x[N / 8][4] = {}, y[N / 8][4] = {};
    const u32 at_query = from;
    for (u32 c = 1; c <= parts; c++) {
      const u32 at = column(c);
      __syncthreads();
      if (parts > 1) fetch_keys(at);
      next_q.put(q);
      next_d.put(d);
      if (threadIdx.x < 2 * N) of_queries[threadIdx.x / N][threadIdx.x % N] = next_of_query;
      __syncthreads();
      if (c == parts) there = advance();
      if (there) load(column(c == parts ? 1 : c + 1));
      product<W, N, true>(x, k[mine], W + PER, q[0], W + PER);
      product<W, N, true>(y, v[mine], W + PER, d[0], W + PER);
    }
#pragma unroll
    for (u32 m = 0; m < N / 8; m++)
#pragma unroll
      for (u32 j = 0; j < 4; j++) {
        const u32 query = tile_column(m) + j % 2, i = at_query + query;
        const bool visible = i < len && (!itself || first + mine + tile_row(j / 2) <= i);
        scores_backward(x[m][j], y[m][j], visible, scale, of_queries[0][query], of_queries[1][query]);
      }
    store_tile<N>(x, p + mine);
    __syncwarp();
    product<N, W, false>(dv, p[mine], N + PER, d[0], W + PER);
    __syncwarp();
    store_tile<N>(y, p + mine);
    __syncwarp();
    product<N, W, false>(dk, p[mine], N + PER, q[0], W + PER);
    __syncwarp();
  }
  const float one[2] = {1.0f, 1.0f};
  const u32 at = part * W, place = tiles[4 * blockIdx.x + 3];
  if (place == WHOLE) {
    REAL* to = dqkv + (size_t)begin * s.stride() + (s.query + g) * s.dim + at;
    put_tile<W>(dk, one, rows, s.dim - at, [&](u32 i) { return to + (size_t)i * s.stride(); });
    to += s.key * s.dim;
    put_tile<W>(dv, one, rows, s.dim - at, [&](u32 i) { return to + (size_t)i * s.stride(); });
  } else {
    float* to = sums + ((size_t)place * s.key + g) * ROWS * 2 * s.dim + at;
    put_tile<W>(dk, one, rows, s.dim - at, [&](u32 i) { return to + 2 * i * s.dim; });
    to += s.dim;
    put_tile<W>(dv, one, rows, s.dim - at, [&](u32 i) { return to + 2 * i * s.dim; });
  }
}

// The width of a tile, as the launches know it, and how many lines of it are read at a time.
#if BF16
#define BY_WIDTH(f, narrow, wide, ...) dim <= 64 ? f<64, narrow>(room, __VA_ARGS__) : f<128, wide>(room, __VA_ARGS__)
#else
#define BY_WIDTH(f, narrow, wide, ...) f<64, 16>(room, __VA_ARGS__)
#endif

KERNEL(128, attention)(const REAL* qkv, const u32* offsets, const u32* prefix, const u32* tiles, REAL* out, float* log_sum,
                       u32 query, u32 key, u32 dim, float scale) {
  alignas(16) __shared__ unsigned char room[ROOM];
  BY_WIDTH(attend_forward, 64, 64, qkv, offsets, prefix, tiles, out, log_sum, Shape{query, key, dim}, scale);
}

KERNEL(128, attention_queries)(const REAL* qkv, const REAL* out, const REAL* dout, const float* log_sum, const u32* offsets,
                               const u32* prefix, const u32* tiles, float* inner, REAL* dqkv, u32 query, u32 key, u32 dim,
                               float scale) {
  alignas(16) __shared__ unsigned char room[ROOM];
  BY_WIDTH(attend_queries, 64, 32, qkv, out, dout, log_sum, offsets, prefix, tiles, inner, dqkv, Shape{query, key, dim}, scale);
}

KERNEL(128, attention_keys)(const REAL* qkv, const REAL* dout, const float* log_sum, const float* inner, const u32* offsets,
                            const u32* tiles, REAL* dqkv, float* sums, u32 query, u32 key, u32 dim, float scale) {
  alignas(16) __shared__ unsigned char room[ROOM];
  BY_WIDTH(attend_keys, 32, 16, qkv, dout, log_sum, inner, offsets, tiles, dqkv, sums, Shape{query, key, dim}, scale);
}

// Rows of a tile that a block sums.
#define SUMMED 4u

// The sums of a tile over those who read it, in their order.
KERNEL(256, attention_keys_sum)(const float* sums, const u32* offsets, const u32* tiles, REAL* dqkv, u32 query, u32 key, u32 dim) {
  const u32 row = tiles[4 * blockIdx.x], place = tiles[4 * blockIdx.x + 2], count = tiles[4 * blockIdx.x + 3];
  const u32 g = blockIdx.y / (ROWS / SUMMED), above = blockIdx.y % (ROWS / SUMMED) * SUMMED, begin = offsets[row] + tiles[4 * blockIdx.x + 1];
  const u32 rows = min(ROWS, offsets[row + 1] - begin), line = 2 * dim;
  for (u32 n = threadIdx.x; n < SUMMED * line; n += blockDim.x) {
    const u32 i = above + n / line, column = n % line, which = column / dim;
    if (i >= rows) break;
    const float* from = sums + (((size_t)place * key + g) * ROWS + i) * line + column;
    float sum = 0.0f;
#pragma unroll 4
    for (u32 p = 0; p < count; p++) sum += from[(size_t)p * key * ROWS * line];
    store(dqkv + (size_t)(begin + i) * (query + 2 * key) * dim + (query + which * key + g) * dim + column - which * dim, sum);
  }
}
