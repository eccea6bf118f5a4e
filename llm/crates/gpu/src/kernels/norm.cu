// RMSNorm, y = x r w with r = 1 / sqrt(mean x^2 + eps), and sums over the rows of a matrix.

KERNEL(256, rms_norm)(const REAL* x, const REAL* weight, REAL* y, float* scale, u32 width, float eps) {
  const REAL* row = x + (size_t)blockIdx.x * width;
  REAL* out = y + (size_t)blockIdx.x * width;
  const bool wide = width % 4 == 0 && aligned(x) && aligned(weight) && aligned(y);
  float sum = 0.0f;
  for (u32 i = 4 * threadIdx.x; i < width; i += 4 * blockDim.x) {
    const Four v = get(row, i, width, wide);
#pragma unroll
    for (u32 j = 0; j < 4; j++) sum += v.at[j] * v.at[j];
  }
  const float r = 1.0f / sqrtf(block_sum(sum) / (float)width + eps);
  if (threadIdx.x == 0 && scale) scale[blockIdx.x] = r;
  for (u32 i = 4 * threadIdx.x; i < width; i += 4 * blockDim.x) {
    Four v = get(row, i, width, wide);
    const Four w = get(weight, i, width, wide);
#pragma unroll
    for (u32 j = 0; j < 4; j++) v.at[j] = v.at[j] * r * w.at[j];
    put(out, i, width, wide, v);
  }
}

// dx += r w dy - x r^3 mean(w dy x)
KERNEL(256, rms_norm_backward)(const REAL* x, const float* scale, const REAL* weight, const REAL* dy, REAL* dx, u32 width) {
  const size_t at = (size_t)blockIdx.x * width;
  const bool wide = width % 4 == 0 && aligned(x) && aligned(weight) && aligned(dy) && aligned(dx);
  const float r = scale[blockIdx.x];
  float sum = 0.0f;
  for (u32 i = 4 * threadIdx.x; i < width; i += 4 * blockDim.x) {
    const Four v = get(x + at, i, width, wide), w = get(weight, i, width, wide), d = get(dy + at, i, width, wide);
#pragma unroll
    for (u32 j = 0; j < 4; j++) sum += d.at[j] * w.at[j] * v.at[j];
  }
  const float c = block_sum(sum) * r * r * r / (float)width;
  for (u32 i = 4 * threadIdx.x; i < width; i += 4 * blockDim.x) {
    const Four v = get(x + at, i, width, wide), w = get(weight, i, width, wide), d = get(dy + at, i, width, wide);
    Four out = get(dx + at, i, width, wide);
#pragma unroll
    for (u32 j = 0; j < 4; j++) out.at[j] += r * d.at[j] * w.at[j] - c * v.at[j];
    put(dx + at, i, width, wide, out);
  }
}

// Lane `l` of every warp has column `32 blockIdx.x + l`; warp `w` has the rows that are `w` modulo their number. The warps' sums are added
// to `out` in their order.
__device__ inline void add_columns(float sum, float* out, u32 width) {
  __shared__ float parts[32][32];
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = blockIdx.x * 32 + lane;
  parts[warp][lane] = sum;
  __syncthreads();
  if (warp == 0 && column < width) {
    float all = 0.0f;
    for (u32 w = 0; w < blockDim.x / 32; w++) all += parts[w][lane];
    out[column] += all;
  }
}

KERNEL(1024, rms_norm_weight)(const REAL* x, const float* scale, const REAL* dy, float* dweight, u32 tokens, u32 width) {
  const u32 column = blockIdx.x * 32 + threadIdx.x % 32;
  float sum = 0.0f;
  if (column < width) {
#pragma unroll 4
    for (u32 t = threadIdx.x / 32; t < tokens; t += blockDim.x / 32) {
      const size_t at = (size_t)t * width + column;
      sum += load(dy + at) * (load(x + at) * scale[t]);
    }
  }
  add_columns(sum, dweight, width);
}

KERNEL(1024, column_sum)(const REAL* x, float* out, u32 rows, u32 width) {
  const u32 column = blockIdx.x * 32 + threadIdx.x % 32;
  float sum = 0.0f;
  if (column < width) {
#pragma unroll 4
    for (u32 t = threadIdx.x / 32; t < rows; t += blockDim.x / 32) sum += load(x + (size_t)t * width + column);
  }
  add_columns(sum, out, width);
}

KERNEL(256, add_bias)(REAL* x, const REAL* bias, u32 width) {
  REAL* row = x + (size_t)blockIdx.x * width;
  const bool wide = width % 4 == 0 && aligned(x) && aligned(bias);
  for (u32 i = 4 * threadIdx.x; i < width; i += 4 * blockDim.x) {
    Four v = get(row, i, width, wide);
    const Four b = get(bias, i, width, wide);
#pragma unroll
    for (u32 j = 0; j < 4; j++) v.at[j] += b.at[j];
    put(row, i, width, wide, v);
  }
}
