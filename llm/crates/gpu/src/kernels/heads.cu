// Heads rotated by their position (RoPE). The pair (i, i + dim/2) of a head is rotated by an
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

// Queries and keys of a token rotated, plus a bias; `out` may be `qkv`.
KERNEL(256, rotate_heads)(const REAL* qkv, const REAL* bias, const float* table, const u32* positions, REAL* out, u32 query, u32 key,
                          u32 dim, float sign) {
  // Values stay as they are: nothing is to be done for them in place and without a bias.
  const u32 half = dim / 2, quads = (half + 3) / 4, all = query + 2 * key, heads = bias || out != qkv ? all : query + key;
  const bool wide = half % 4 == 0 && aligned(qkv) && aligned(bias) && aligned(out);
  const size_t at = (size_t)blockIdx.x * all * dim;
  const float* angles = table + (size_t)positions[blockIdx.x] * dim;
  for (u32 n = threadIdx.x; n < heads * quads; n += blockDim.x) {
    const u32 h = n / quads, i = n % quads * 4;
    Pairs pair = get_pairs(qkv + at + h * dim, i, half, wide);
    if (bias) add_pairs(pair, bias + h * dim, i, half, wide);
    if (h < query + key) rotate(pair, angles, i, half, sign);
    put_pairs(out + at + h * dim, i, half, wide, pair);
  }
}
