// From the hidden state of one token of every row to its queries, and to its keys and values in their place in the cache: norm, product,
// bias and rotation in one launch. Heads that are normed themselves need all their numbers at once: they go another way.
//
// A block has 64 rows and, of one head, 8 numbers `i` with the numbers `i + dim/2` they are rotated with. Its 16 warps are four for the rows
// times four that part every stretch of the sum between them.

#define PAIRS 8u
#define SUMS 4u

// The numbers of a line of `width` from `at` on, four of them, 0 where there is no line.
__device__ inline Four get_there(const REAL* line, u32 at, u32 width, bool wide) {
  if (line && at < width) return get(line, at, width, wide);
  return Four{{0.0f, 0.0f, 0.0f, 0.0f}};
}

// As if stored and read again.
__device__ inline float as_stored(float x) {
  REAL y;
  store(&y, x);
  return load(&y);
}

// 1 / sqrt(mean x^2 + eps) of the block's rows, four by a warp at a time.
__device__ inline void row_scales(const REAL* x, float* scales, u32 rows, u32 width, bool wide, float eps) {
  for (u32 first = threadIdx.x / 32 * 4; first < ROWS; first += blockDim.x / 8) {
    float sums[4] = {};
#pragma unroll 4
    for (u32 i = threadIdx.x % 32 * 4; i < width; i += 128) {
      Four v[4];
#pragma unroll
      for (u32 r = 0; r < 4; r++) v[r] = get_there(first + r < rows ? x + (size_t)(first + r) * width : nullptr, i, width, wide);
#pragma unroll
      for (u32 r = 0; r < 4; r++)
#pragma unroll
        for (u32 j = 0; j < 4; j++) sums[r] += v[r].at[j] * v[r].at[j];
    }
#pragma unroll
    for (u32 r = 0; r < 4; r++) {
      const float sum = warp_sum(sums[r]);
      if (threadIdx.x % 32 == 0) scales[first + r] = 1.0f / sqrtf(sum / (float)width + eps);
    }
  }
}

KERNEL(512, decode_qkv)(const REAL* x, const REAL* norm, const REAL* weight, const REAL* bias, const float* table, const u32* lengths,
                        REAL* q, REAL* keys, REAL* values, const u32* pages, u32 rows, u32 width, u32 query, u32 key, u32 dim,
                        u32 table_width, float eps) {
  constexpr u32 DEPTH = 512 / sizeof(REAL), LINE = DEPTH + PER, FOURS = DEPTH / 4;
  constexpr size_t TILES = (ROWS + 2 * PAIRS) * LINE * sizeof(REAL), PARTS = SUMS * ROWS * 2 * PAIRS * sizeof(float);
  alignas(16) __shared__ unsigned char room[TILES > PARTS ? TILES : PARTS];
  __shared__ float scales[ROWS];
  REAL(*a)[LINE] = (REAL(*)[LINE])room, (*b)[LINE] = a + ROWS;
  const u32 half = dim / 2, blocks = (half + PAIRS - 1) / PAIRS, h = blockIdx.x / blocks, first = blockIdx.x % blocks * PAIRS;
  const u32 from = blockIdx.y * ROWS, warp = threadIdx.x / 32, mine = warp % 4 * 16, part = warp / 4 * (DEPTH / SUMS);
  const bool wide = width % 4 == 0 && aligned(x) && aligned(norm) && aligned(weight);
  x += (size_t)from * width;
  rows -= from;
  row_scales(x, scales, rows, width, wide, eps);
  __syncthreads();
  // A thread reads four numbers of each of its rows, always of the same columns, and of its lines of the weight.
  constexpr u32 EACH = ROWS * FOURS / 512, LINES = 2 * PAIRS * FOURS / 512;
  const u32 own = threadIdx.x / FOURS, column = threadIdx.x % FOURS * 4;
  Four hidden[EACH], factors, weights[LINES];
  const auto read = [&](u32 k) {
#pragma unroll
    for (u32 e = 0; e < EACH; e++) {
      const u32 row = own + e * (512 / FOURS);
      hidden[e] = get_there(row < rows ? x + (size_t)row * width : nullptr, k + column, width, wide);
    }
    factors = get_there(norm, k + column, width, wide);
#pragma unroll
    for (u32 e = 0; e < LINES; e++) {
      const u32 line = own + e * (512 / FOURS), at = first + line % PAIRS;
      weights[e] = get_there(at < half ? weight + (size_t)(h * dim + at + line / PAIRS * half) * width : nullptr, k + column, width, wide);
    }
  };
  float c[2][4] = {};
  read(0);
  for (u32 k = 0; k < width; k += DEPTH) {
#pragma unroll
    for (u32 e = 0; e < EACH; e++) {
      const u32 row = own + e * (512 / FOURS);
      Four v = hidden[e];
#pragma unroll
      for (u32 j = 0; j < 4; j++) v.at[j] = v.at[j] * scales[row] * factors.at[j];
      store4(&a[row][column], v);
    }
#pragma unroll
    for (u32 e = 0; e < LINES; e++) store4(&b[own + e * (512 / FOURS)][column], weights[e]);
    __syncthreads();
    read(k + DEPTH);
    product<DEPTH / SUMS, 2 * PAIRS, true>(c, &a[mine][part], LINE, &b[0][part], LINE);
    __syncthreads();
  }
  float(*sums)[ROWS][2 * PAIRS] = (float(*)[ROWS][2 * PAIRS])room;
#pragma unroll
  for (u32 n = 0; n < 2; n++)
#pragma unroll
    for (u32 j = 0; j < 4; j++) sums[warp / 4][mine + tile_row(j / 2)][tile_column(n) + j % 2] = c[n][j];
  __syncthreads();
  // A pair a thread.
  const u32 row = threadIdx.x / PAIRS, i = first + threadIdx.x % PAIRS;
  if (row >= rows || i >= half) return;
  const u32 position = lengths[from + row];
  if (position / PAGE >= table_width) return;
  const Paged paged = {pages + (size_t)(from + row) * table_width, key, dim};
  float low = 0.0f, high = 0.0f;
#pragma unroll
  for (u32 n = 0; n < SUMS; n++) {
    low += sums[n][row][i - first];
    high += sums[n][row][i - first + PAIRS];
  }
  low = as_stored(low);
  high = as_stored(high);
  if (bias) {
    low += load(bias + h * dim + i);
    high += load(bias + h * dim + i + half);
  }
  if (h < query + key) {
    const float cosine = table[(size_t)position * dim + 2 * i], sine = table[(size_t)position * dim + 2 * i + 1], unturned = low;
    low = unturned * cosine - high * sine;
    high = high * cosine + unturned * sine;
  }
  const u32 cached = h < query + key ? h - query : h - query - key;
  REAL* to = h < query ? q + ((size_t)(from + row) * query + h) * dim
                       : (h < query + key ? keys : values) + paged.at(cached, position);
  store(to + i, low);
  store(to + i + half, high);
}
