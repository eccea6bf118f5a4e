// RMSNorm of every query head and of every key head over its own numbers, y = x r w with r = 1 / sqrt(mean x^2 + eps). A warp works on one
// head of one token at a time. The weights are [2][dim]: one of all query heads, one of all key heads.

// Fours of a head that a lane has: the widest head is 32 * 4 * HEAD_FOURS numbers.
#define HEAD_FOURS 2

struct Head {
  Four at[HEAD_FOURS];
};

// The first of a lane's numbers in its four `c`.
__device__ inline u32 head_number(u32 c) { return 4 * (threadIdx.x % 32 + 32 * c); }

// A lane's numbers of a head, 0 beyond its end; all 0 where there is none.
__device__ inline Head get_head(const REAL* head, u32 dim, bool wide) {
  Head x;
#pragma unroll
  for (u32 c = 0; c < HEAD_FOURS; c++) {
    x.at[c] = Four{{0.0f, 0.0f, 0.0f, 0.0f}};
    if (head && head_number(c) < dim) x.at[c] = get(head, head_number(c), dim, wide);
  }
  return x;
}

__device__ inline void put_head(REAL* head, u32 dim, bool wide, const Head& x) {
#pragma unroll
  for (u32 c = 0; c < HEAD_FOURS; c++)
    if (head_number(c) < dim) put(head, head_number(c), dim, wide, x.at[c]);
}

__device__ inline void add_head(Head& x, const Head& y) {
#pragma unroll
  for (u32 c = 0; c < HEAD_FOURS; c++)
#pragma unroll
    for (u32 j = 0; j < 4; j++) x.at[c].at[j] += y.at[c].at[j];
}

// r of the head that a warp has.
__device__ inline float head_scale(const Head& x, u32 dim, float eps) {
  float sum = 0.0f;
#pragma unroll
  for (u32 c = 0; c < HEAD_FOURS; c++)
#pragma unroll
    for (u32 j = 0; j < 4; j++) sum += x.at[c].at[j] * x.at[c].at[j];
  return 1.0f / sqrtf(warp_sum(sum) / (float)dim + eps);
}

KERNEL(256, head_norm)(const REAL* qkv, const REAL* bias, const REAL* weight, REAL* out, u32 tokens, u32 query, u32 key, u32 dim,
                       float eps) {
  const u32 heads = query + 2 * key, line = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, h = line % heads;
  if (line / heads >= tokens) return;
  const bool wide = dim % 4 == 0 && aligned(qkv) && aligned(bias) && aligned(weight) && aligned(out);
  Head x = get_head(qkv + (size_t)line * dim, dim, wide);
  if (bias) add_head(x, get_head(bias + h * dim, dim, wide));
  if (h < query + key) {
    const Head w = get_head(weight + (h < query ? 0 : dim), dim, wide);
    const float r = head_scale(x, dim, eps);
#pragma unroll
    for (u32 c = 0; c < HEAD_FOURS; c++)
#pragma unroll
      for (u32 j = 0; j < 4; j++) x.at[c].at[j] = x.at[c].at[j] * r * w.at[c].at[j];
  }
  put_head(out + (size_t)line * dim, dim, wide, x);
}

// The sums over a block's warps, in their order, into `out[dim]`.
__device__ inline void put_sums(const Head& sum, float* out, u32 dim) {
  __shared__ float parts[8][128 * HEAD_FOURS];
#pragma unroll
  for (u32 c = 0; c < HEAD_FOURS; c++)
#pragma unroll
    for (u32 j = 0; j < 4; j++) parts[threadIdx.x / 32][head_number(c) + j] = sum.at[c].at[j];
  __syncthreads();
  for (u32 i = threadIdx.x; i < dim; i += blockDim.x) {
    float all = 0.0f;
    for (u32 w = 0; w < blockDim.x / 32; w++) all += parts[w][i];
    out[i] = all;
  }
}

// dx = r w dy - x r^3 mean(w dy x), in the place of dy. Blocks (i, 0) have query heads, (i, 1) key heads; what they add to the gradient of
// their weight, the sum of dy x r, goes to parts[i][0] and parts[i][1].
KERNEL(256, head_norm_backward)(const REAL* qkv, const REAL* bias, const REAL* weight, REAL* dqkv, float* parts, u32 tokens, u32 query,
                                u32 key, u32 dim, float eps) {
  const u32 kind = blockIdx.y, count = kind == 0 ? query : key, first = kind == 0 ? 0 : query, heads = query + 2 * key;
  const bool wide = dim % 4 == 0 && aligned(qkv) && aligned(bias) && aligned(weight) && aligned(dqkv);
  const u32 warps = blockDim.x / 32;
  const Head w = get_head(weight + kind * dim, dim, wide);
  Head sum = get_head(nullptr, dim, wide);
  for (u32 line = blockIdx.x * warps + threadIdx.x / 32; line < tokens * count; line += gridDim.x * warps) {
    const u32 h = first + line % count;
    const size_t at = ((size_t)(line / count) * heads + h) * dim;
    Head x = get_head(qkv + at, dim, wide), d = get_head(dqkv + at, dim, wide);
    if (bias) add_head(x, get_head(bias + h * dim, dim, wide));
    const float r = head_scale(x, dim, eps);
    float inner = 0.0f;
#pragma unroll
    for (u32 c = 0; c < HEAD_FOURS; c++)
#pragma unroll
      for (u32 j = 0; j < 4; j++) inner += d.at[c].at[j] * w.at[c].at[j] * x.at[c].at[j];
    const float mean = warp_sum(inner) * r * r * r / (float)dim;
#pragma unroll
    for (u32 c = 0; c < HEAD_FOURS; c++)
#pragma unroll
      for (u32 j = 0; j < 4; j++) {
        sum.at[c].at[j] += d.at[c].at[j] * (x.at[c].at[j] * r);
        d.at[c].at[j] = r * d.at[c].at[j] * w.at[c].at[j] - mean * x.at[c].at[j];
      }
    put_head(dqkv + at, dim, wide, d);
  }
  if (parts) put_sums(sum, parts + ((size_t)blockIdx.x * 2 + kind) * dim, dim);
}

KERNEL(1024, head_norm_weight)(const float* parts, float* dweight, u32 rows, u32 width) {
  const u32 column = blockIdx.x * 32 + threadIdx.x % 32;
  float sum = 0.0f;
  if (column < width) {
#pragma unroll 4
    for (u32 row = threadIdx.x / 32; row < rows; row += blockDim.x / 32) sum += parts[(size_t)row * width + column];
  }
  add_columns(sum, dweight, width);
}
