// Rows by index.

KERNEL(256, embed)(const u32* ids, const REAL* table, REAL* out, u32 width) {
  copy_row(table + (size_t)ids[blockIdx.x] * width, out + (size_t)blockIdx.x * width, width);
}

KERNEL(256, embed_backward)(const REAL* dx, const u32* order, const u32* starts, const u32* ids, float* dtable, u32 width) {
  const u32 from = starts[blockIdx.x], to = starts[blockIdx.x + 1];
  float* row = dtable + (size_t)ids[blockIdx.x] * width;
  const bool wide = width % 4 == 0 && aligned(dx) && aligned(row);
  for (u32 i = 4 * threadIdx.x; i < width; i += 4 * blockDim.x) {
    Four sum = get(row, i, width, wide);
#pragma unroll 4
    for (u32 t = from; t < to; t++) {
      const Four d = get(dx + (size_t)order[t] * width, i, width, wide);
#pragma unroll
      for (u32 j = 0; j < 4; j++) sum.at[j] += d.at[j];
    }
    put(row, i, width, wide, sum);
  }
}

KERNEL(256, gather_rows)(const REAL* x, const u32* index, REAL* out, u32 width) {
  copy_row(x + (size_t)index[blockIdx.x] * width, out + (size_t)blockIdx.x * width, width);
}

KERNEL(256, scatter_rows)(const REAL* x, const u32* index, REAL* out, u32 width) {
  copy_row(x + (size_t)blockIdx.x * width, out + (size_t)index[blockIdx.x] * width, width);
}
