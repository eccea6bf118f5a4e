// Products of tiles in shared memory, a warp at a time: bf16 on tensor cores, f32 with plain multiply-adds.
//
// A warp holds a product of 16 rows as tensor cores do: lane 4 g + t has, of columns 8 n + 2 t and 8 n + 2 t + 1, row g in c[n][0] and
// c[n][1], row g + 8 in c[n][2] and c[n][3].

// Numbers of 16 bytes, and between the lines of a tile: lines then begin in different banks.
#define PER (16 / sizeof(REAL))

__device__ inline u32 tile_row(u32 half) { return threadIdx.x % 32 / 4 + 8 * half; }
__device__ inline u32 tile_column(u32 n) { return 8 * n + threadIdx.x % 4 * 2; }

// The sum, and the largest, over the four lanes that hold a row.
__device__ inline float row_sum(float x) {
  x += __shfl_xor_sync(FULL, x, 1);
  return x + __shfl_xor_sync(FULL, x, 2);
}

__device__ inline float row_max(float x) {
#pragma unroll
  for (u32 far = 1; far < 4; far *= 2) {
    const float other = __shfl_xor_sync(FULL, x, far);
    x = other > x ? other : x;
  }
  return x;
}

#if BF16
// Four matrices of 8 x 8 numbers; lane l gives line l % 8 of matrix l / 8, and gets two numbers of line l / 4 of each.
__device__ inline void ldmatrix(u32 (&x)[4], const REAL* line) {
  const u32 at = (u32)__cvta_generic_to_shared(line);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at) : "memory");
}

// The same of matrices that are transposed on the way.
__device__ inline void ldmatrix_transposed(u32 (&x)[4], const REAL* line) {
  const u32 at = (u32)__cvta_generic_to_shared(line);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at) : "memory");
}

// c += a b of 16 x 16 and 16 x 8 numbers.
__device__ inline void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

// c += a b. `a` is 16 x K, its rows `a_stride` apart; `b` is K x N: its columns lie `b_stride` apart where COLUMNS, else its rows do.
template <u32 K, u32 N, bool COLUMNS>
__device__ inline void product(float (&c)[N / 8][4], const REAL* a, u32 a_stride, const REAL* b, u32 b_stride) {
#if BF16
  const u32 lane = threadIdx.x % 32;
#pragma unroll
  for (u32 k = 0; k < K; k += 16) {
    u32 x[4], y[4];
    ldmatrix(x, a + lane % 16 * a_stride + k + lane / 16 * 8);
#pragma unroll
    for (u32 n = 0; n < N; n += 16) {
      if (COLUMNS) ldmatrix(y, b + (n + lane % 8 + lane / 16 * 8) * b_stride + k + lane / 8 % 2 * 8);
      else ldmatrix_transposed(y, b + (k + lane % 16) * b_stride + n + lane / 16 * 8);
      mma(c[n / 8], x, y[0], y[1]);
      mma(c[n / 8 + 1], x, y[2], y[3]);
    }
  }
#else
  const float *low = a + tile_row(0) * a_stride, *high = a + tile_row(1) * a_stride;
#pragma unroll 4
  for (u32 k = 0; k < K; k++) {
#pragma unroll
    for (u32 n = 0; n < N / 8; n++) {
#pragma unroll
      for (u32 j = 0; j < 2; j++) {
        const u32 column = tile_column(n) + j;
        const float y = COLUMNS ? b[column * b_stride + k] : b[k * b_stride + column];
        c[n][j] += low[k] * y;
        c[n][2 + j] += high[k] * y;
      }
    }
  }
#endif
}

// The numbers of 16 bytes one place up, and `x` before them.
__device__ inline void push_front(uint4& numbers, REAL x) {
#if BF16
  numbers.w = numbers.w << 16 | numbers.z >> 16;
  numbers.z = numbers.z << 16 | numbers.y >> 16;
  numbers.y = numbers.y << 16 | numbers.x >> 16;
  numbers.x = numbers.x << 16 | x;
#else
  numbers = make_uint4(__float_as_uint(x), numbers.x, numbers.y, numbers.z);
#endif
}

// A tile of LINES lines of W numbers on its way to shared memory, in registers of THREADS threads: all its reads are under way at once, and
// beside what is computed between `load` and `put`. `at(row)` is the first number of a line, of which there are `columns`, or null. What is not
// there is 0. `wide`: lines begin at multiples of 16 bytes and `columns` is a multiple of PER.
template <u32 LINES, u32 W, u32 THREADS> struct Carried {
  static constexpr u32 PIECES = W / PER, EACH = (LINES * PIECES + THREADS - 1) / THREADS;
  uint4 pieces[EACH];

  template <class At> __device__ inline void load(u32 columns, bool wide, At at) {
#pragma unroll
    for (u32 e = 0; e < EACH; e++) {
      const u32 n = threadIdx.x + e * THREADS, i = n % PIECES * PER;
      const REAL* line = n < LINES * PIECES ? at(n / PIECES) : nullptr;
      pieces[e] = make_uint4(0, 0, 0, 0);
      if (wide) {
        if (line && i < columns) pieces[e] = *(const uint4*)(line + i);
      } else {
#pragma unroll 1
        for (u32 j = PER; j-- > 0;) push_front(pieces[e], line && i + j < columns ? line[i + j] : (REAL)0);
      }
    }
  }

  __device__ inline void put(REAL (*tile)[W + PER]) const {
#pragma unroll
    for (u32 e = 0; e < EACH; e++) {
      const u32 n = threadIdx.x + e * THREADS;
      if (n < LINES * PIECES) *(uint4*)&tile[n / PIECES][n % PIECES * PER] = pieces[e];
    }
  }
};

// Reads a tile into shared memory, at most 32 lines at a time.
template <u32 LINES, u32 W, u32 THREADS, class At>
__device__ inline void fetch(REAL (*tile)[W + PER], u32 columns, bool wide, At at) {
  constexpr u32 STEP = LINES < 32 ? LINES : 32;
#pragma unroll
  for (u32 first = 0; first < LINES; first += STEP) {
    Carried<STEP, W, THREADS> carried;
    carried.load(columns, wide, [&](u32 i) { return at(first + i); });
    carried.put(tile + first);
  }
}
