// Heads: from token-major to head-major and back, rotated by their position (RoPE). The pair (i, i + dim/2) of a head is rotated by an
// angle whose cosine and sine are at table[position][i].

// Four pairs at `i` of a head: `low` at `i`, `high` at `i + half`.
struct Pairs {
  Four low, high;
};

__device__ inline Pairs get_pairs(const REAL* head, u32 i, u32 half, bool wide) {
  return Pairs{get(head, i, half, wide), get(head + half, i, half, wide)};
}

__device__ inline void put_pairs(REAL* head, u32 i, u32 half, bool wide, const Pairs& p) {
  put(head, i, half, wide, p.low);
  put(head + half, i, half, wide, p.high);
}

__device__ inline void add_pairs(Pairs& p, const REAL* bias, u32 i, u32 half, bool wide) {
  const Pairs b = get_pairs(bias, i, half, wide);
#pragma unroll
  for (u32 j = 0; j < 4; j++) {
    p.low.at[j] += b.low.at[j];
    p.high.at[j] += b.high.at[j];
  }
}

// `sign` -1 rotates back.
__device__ inline void rotate(Pairs& p, const float* angles, u32 i, u32 half, float sign) {
#pragma unroll
  for (u32 j = 0; j < 4; j++) {
    if (i + j >= half) continue;
    const float c = angles[2 * (i + j)], s = angles[2 * (i + j) + 1] * sign, x = p.low.at[j], y = p.high.at[j];
    p.low.at[j] = x * c - y * s;
    p.high.at[j] = y * c + x * s;
  }
}

// Where a token is in its row.
struct Place {
  u32 start, position, len;
};

__device__ inline Place place(const u32* row, const u32* offsets) {
  const u32 r = row[blockIdx.x], start = offsets[r];
  return Place{start, blockIdx.x - start, offsets[r + 1] - start};
}

// The head of this token in a head-major array of `heads` heads.
template <class T> __device__ inline T* head_of(T* x, const Place& p, u32 heads, u32 head, u32 dim) {
  return x + ((size_t)p.start * heads + (size_t)head * p.len + p.position) * dim;
}

KERNEL(256, split_heads)(const REAL* qkv, const REAL* bias, const float* table, const u32* row, const u32* offsets, REAL* q,
                         REAL* k, REAL* v, u32 query, u32 key, u32 dim) {
  const Place p = place(row, offsets);
  const u32 half = dim / 2, quads = (half + 3) / 4, heads = query + 2 * key;
  const bool wide = half % 4 == 0 && aligned(qkv) && aligned(bias) && aligned(q) && aligned(k) && aligned(v);
  const REAL* token = qkv + (size_t)blockIdx.x * heads * dim;
  const float* angles = table + (size_t)p.position * dim;
  for (u32 n = threadIdx.x; n < heads * quads; n += blockDim.x) {
    const u32 h = n / quads, i = n % quads * 4;
    Pairs pair = get_pairs(token + h * dim, i, half, wide);
    if (bias) add_pairs(pair, bias + h * dim, i, half, wide);
    if (h < query + key) rotate(pair, angles, i, half, 1.0f);
    REAL* to = h < query         ? head_of(q, p, query, h, dim)
               : h < query + key ? head_of(k, p, key, h - query, dim)
                                 : head_of(v, p, key, h - query - key, dim);
    put_pairs(to, i, half, wide, pair);
  }
}

KERNEL(256, split_heads_backward)(const REAL* dq, const REAL* dk, const REAL* dv, const float* table, const u32* row,
                                  const u32* offsets, REAL* dqkv, u32 query, u32 key, u32 dim) {
  const Place p = place(row, offsets);
  const u32 half = dim / 2, quads = (half + 3) / 4, heads = query + 2 * key;
  const bool wide = half % 4 == 0 && aligned(dq) && aligned(dk) && aligned(dv) && aligned(dqkv);
  REAL* token = dqkv + (size_t)blockIdx.x * heads * dim;
  const float* angles = table + (size_t)p.position * dim;
  for (u32 n = threadIdx.x; n < heads * quads; n += blockDim.x) {
    const u32 h = n / quads, i = n % quads * 4;
    const REAL* from = h < query         ? head_of(dq, p, query, h, dim)
                       : h < query + key ? head_of(dk, p, key, h - query, dim)
                                         : head_of(dv, p, key, h - query - key, dim);
    Pairs pair = get_pairs(from, i, half, wide);
    if (h < query + key) rotate(pair, angles, i, half, -1.0f);
    put_pairs(token + h * dim, i, half, wide, pair);
  }
}

KERNEL(256, merge_heads)(const REAL* x, const u32* row, const u32* offsets, REAL* out, u32 query, u32 dim) {
  const Place p = place(row, offsets);
  const bool wide = dim % 4 == 0 && aligned(x) && aligned(out);
  const u32 quads = (dim + 3) / 4;
  REAL* token = out + (size_t)blockIdx.x * query * dim;
  for (u32 n = threadIdx.x; n < query * quads; n += blockDim.x) {
    const u32 h = n / quads, i = n % quads * 4;
    put(token + h * dim, i, dim, wide, get(head_of(x, p, query, h, dim), i, dim, wide));
  }
}

KERNEL(256, merge_heads_backward)(const REAL* dout, const u32* row, const u32* offsets, REAL* dx, u32 query, u32 dim) {
  const Place p = place(row, offsets);
  const bool wide = dim % 4 == 0 && aligned(dx) && aligned(dout);
  const u32 quads = (dim + 3) / 4;
  const REAL* token = dout + (size_t)blockIdx.x * query * dim;
  for (u32 n = threadIdx.x; n < query * quads; n += blockDim.x) {
    const u32 h = n / quads, i = n % quads * 4;
    put(head_of(dx, p, query, h, dim), i, dim, wide, get(token + h * dim, i, dim, wide));
  }
}
