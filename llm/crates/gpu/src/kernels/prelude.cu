// What all kernels share. REAL is the dtype of weights and activations (BF16 is 1 or 0, NAME(x) is x_bf16 or x_f32);
// everything is computed in float. Sums run in one fixed order: over a thread's own numbers first, then
// over its warp by halves, then over the warps.

typedef unsigned int u32;
typedef unsigned long long u64;

#define KERNEL(threads, name) extern "C" __global__ void __launch_bounds__(threads, 1) NAME(name)
#define FULL 0xffffffffu
#define INFINITE __uint_as_float(0x7f800000u)

struct Four {
  float at[4];
};

__device__ inline float load(const float* p) { return *p; }
__device__ inline void store(float* p, float x) { *p = x; }
__device__ inline bool aligned(const float* p) { return ((u64)p & 15) == 0; }

__device__ inline Four load4(const float* p) {
  const float4 v = *(const float4*)p;
  return Four{{v.x, v.y, v.z, v.w}};
}

__device__ inline void store4(float* p, const Four& v) {
  *(float4*)p = make_float4(v.at[0], v.at[1], v.at[2], v.at[3]);
}

#if BF16
typedef unsigned short REAL;

__device__ inline float widened(u32 bits) { return __uint_as_float(bits << 16); }

// To nearest, ties to even; a NaN stays one.
__device__ inline u32 rounded(float x) {
  const u32 bits = __float_as_uint(x);
  if (x != x) return bits >> 16 | 0x40u;
  return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

__device__ inline float load(const REAL* p) { return widened(*p); }
__device__ inline void store(REAL* p, float x) { *p = (REAL)rounded(x); }
__device__ inline bool aligned(const REAL* p) { return ((u64)p & 7) == 0; }

__device__ inline Four load4(const REAL* p) {
  const uint2 v = *(const uint2*)p;
  return Four{{widened(v.x & 0xffffu), widened(v.x >> 16), widened(v.y & 0xffffu), widened(v.y >> 16)}};
}

__device__ inline void store4(REAL* p, const Four& v) {
  *(uint2*)p = make_uint2(rounded(v.at[0]) | rounded(v.at[1]) << 16, rounded(v.at[2]) | rounded(v.at[3]) << 16);
}
#else
typedef float REAL;
#endif

// The four numbers from `i` on of a row of `n`, 0 beyond its end. `wide`: `n` is a multiple of 4 and the row is aligned.
template <class T> __device__ inline Four get(const T* row, u32 i, u32 n, bool wide) {
  if (wide) return load4(row + i);
  Four v;
#pragma unroll
  for (u32 j = 0; j < 4; j++) v.at[j] = i + j < n ? load(row + i + j) : 0.0f;
  return v;
}

template <class T> __device__ inline void put(T* row, u32 i, u32 n, bool wide, const Four& v) {
  if (wide) return store4(row + i, v);
#pragma unroll
  for (u32 j = 0; j < 4; j++)
    if (i + j < n) store(row + i + j, v.at[j]);
}

// One copy of `n` numbers by a block.
template <class T> __device__ inline void copy_row(const T* from, T* to, size_t n) {
  if (n % 4 == 0 && aligned(from) && aligned(to)) {
    for (size_t i = 4 * (size_t)threadIdx.x; i < n; i += 4 * blockDim.x) {
#if BF16
      *(uint2*)(to + i) = *(const uint2*)(from + i);
#else
      *(float4*)(to + i) = *(const float4*)(from + i);
#endif
    }
  } else {
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) to[i] = from[i];
  }
}

// The sum over a warp, in every lane the same bits.
template <class T> __device__ inline T warp_sum(T x) {
#pragma unroll
  for (u32 far = 16; far > 0; far /= 2) x += __shfl_xor_sync(FULL, x, far);
  return x;
}

// The sum over a block, in every thread the same bits.
template <class T> __device__ inline T block_sum(T x) {
  __shared__ T parts[32];
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  x = warp_sum(x);
  __syncthreads();  // the parts of the sum before have been read
  if (lane == 0) parts[warp] = x;
  __syncthreads();
  x = parts[0];
  for (u32 w = 1; w < blockDim.x / 32; w++) x += parts[w];
  return x;
}
