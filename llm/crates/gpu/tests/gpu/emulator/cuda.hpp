// What the kernels use of CUDA C, for a C++ compiler. A block's threads are fibers of one thread of the host: each runs until it waits, so
// barriers and shuffles really wait, and in which order the threads run between two barriers is the caller's choice.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <sys/mman.h>
#include <utility>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#define __global__
#define __device__
#define __launch_bounds__(...)
#define __shared__ static thread_local

struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline float __uint_as_float(unsigned x) { float y; memcpy(&y, &x, 4); return y; }
static inline unsigned __float_as_uint(float x) { unsigned y; memcpy(&y, &x, 4); return y; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }

namespace emulated {

#if defined(__x86_64__)
// Saves what a call must keep, leaves the stack pointer in `*from`, and goes on where `to` was left.
extern "C" void emulated_switch(void** from, void* to);
asm(R"(
  .text
  .hidden emulated_switch
  .globl emulated_switch
emulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

struct Context {
  void* stack = nullptr;
  void begin(char* bottom, size_t bytes, void (*entry)()) {
    void** top = (void**)(bottom + bytes);
    *--top = nullptr;
    *--top = (void*)entry;  // at a multiple of 16, as a call leaves it
    for (int i = 0; i < 6; i++) *--top = nullptr;
    stack = top;
  }
  void go(Context& to) { emulated_switch(&stack, to.stack); }
};
#else
struct Context {
  ucontext_t at;
  void begin(char* bottom, size_t bytes, void (*entry)()) {
    getcontext(&at);
    at.uc_stack.ss_sp = bottom;
    at.uc_stack.ss_size = bytes;
    at.uc_link = nullptr;
    makecontext(&at, entry, 0);
  }
  void go(Context& to) { swapcontext(&at, &to.at); }
};
#endif

struct Three { unsigned x = 0, y = 0, z = 0; };
enum State { READY, WAITING, OVER };

struct Thread {
  Three index;
  Context context;
  State state;
  int line;            // where it waits
  uint64_t shown[2];   // what it shows its warp, by turns
  unsigned turn;
};

constexpr unsigned MOST = 1024;
// Not a power of two, so that the stacks' ends do not share a set of the cache.
constexpr size_t STACK = (32 << 10) + 448;

struct Barrier {
  unsigned arrived;
  int line;  // of the first to arrive
};

// What a warp multiplies on tensor cores: 16 x 16 numbers, their columns in turn, and 16 x 8, their rows in turn.
struct Tiles {
  float left[16][16], right[16][8];
};

struct Block {
  Thread threads[MOST];
  Tiles tiles[MOST / 32][2];  // by turns
  unsigned size, over;
  bool forward;
  Barrier whole, warps[MOST / 32];
  Context scheduler;
  char* stacks = nullptr;
  char error[256];
  void (*call)(const uint64_t*);
  const uint64_t* args;
  Three index, dim, grid;
};

// On the heap: it lives as long as its thread of the host.
static thread_local Block* block = nullptr;
static thread_local Thread* now = nullptr;

static void stop(const char* why, int line, int other) {
  snprintf(block->error, sizeof block->error, "%s (lines %d and %d of the source)", why, line, other);
  now->context.go(block->scheduler);
}

// To the next thread at once where that is the order, and spares the way through the scheduler.
static void leave() {
  Thread* left = now;
  const unsigned next = left->index.x + 1;
  if (block->forward && next < block->size && block->threads[next].state == READY) {
    now = &block->threads[next];
    left->context.go(now->context);
  } else {
    left->context.go(block->scheduler);
  }
}

// Waits until all `threads` from `first` on have come to `line`.
static void wait(unsigned first, unsigned threads, Barrier& barrier, int line) {
  if (barrier.arrived == 0) barrier.line = line;
  if (barrier.line != line) stop("threads wait at different barriers", line, barrier.line);
  now->line = line;
  if (++barrier.arrived == threads) {
    barrier.arrived = 0;
    for (unsigned t = first; t < first + threads; t++) block->threads[t].state = READY;
  } else {
    now->state = WAITING;
    leave();
  }
}

static void block_barrier(int line) { wait(0, block->size, block->whole, line); }
static void warp_barrier(int line) {
  const unsigned warp = now->index.x / 32;
  wait(warp * 32, 32, block->warps[warp], line);
}

// Shows `x` to the warp and returns what each lane shows.
template <class T> static const Thread* show(unsigned mask, T x, unsigned& turn, int line) {
  static_assert(sizeof(T) <= 8);
  if (mask != 0xffffffffu) stop("only whole warps exchange numbers", line, line);
  turn = now->turn;
  now->turn ^= 1;
  memcpy(&now->shown[turn], &x, sizeof(T));
  const Thread* warp = &block->threads[now->index.x / 32 * 32];
  warp_barrier(line);
  return warp;
}

template <class T> static T shown(unsigned mask, T x, unsigned lane, int line) {
  unsigned turn;
  const Thread* warp = show(mask, x, turn, line);
  memcpy(&x, &warp[lane % 32].shown[turn], sizeof(T));
  return x;
}

template <class T> static T shown_across(unsigned mask, T x, unsigned far, int line) {
  return shown(mask, x, now->index.x ^ far, line);
}

template <class T> static T shown_before(unsigned mask, T x, unsigned by, int line) {
  const unsigned lane = now->index.x % 32;
  return shown(mask, x, lane >= by ? lane - by : lane, line);
}

static unsigned ballot(unsigned mask, bool x, int line) {
  unsigned turn, bits = 0;
  const Thread* warp = show(mask, (uint64_t)x, turn, line);
  for (unsigned lane = 0; lane < 32; lane++) bits |= (unsigned)warp[lane].shown[turn] << lane;
  return bits;
}

// `ldmatrix.x4`: lane l shows line l % 8 of matrix l / 8, and takes two numbers of each matrix.
static void load_matrices(unsigned (&x)[4], const unsigned short* line, bool transposed, int at) {
  if ((uintptr_t)line % 16) stop("a line of a matrix begins at no multiple of 16 bytes", at, at);
  unsigned turn;
  const Thread* warp = show(0xffffffffu, line, turn, at);
  const unsigned lane = now->index.x % 32;
  for (unsigned m = 0; m < 4; m++) {
    x[m] = 0;
    for (unsigned j = 0; j < 2; j++) {
      const unsigned own = lane / 4, other = lane % 4 * 2 + j;
      const unsigned short* from;
      memcpy(&from, &warp[8 * m + (transposed ? other : own)].shown[turn], sizeof from);
      x[m] |= (unsigned)from[transposed ? own : other] << 16 * j;
    }
  }
}

static float of_bf16(unsigned two, unsigned which) {
  const unsigned bits = two >> 16 * which << 16;
  float x;
  memcpy(&x, &bits, 4);
  return x;
}

// `mma.m16n8k16` of bf16 into f32, each sum in the order of its terms.
static void tensor_product(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, int at) {
  Thread& self = *now;
  const unsigned lane = self.index.x % 32, own = lane / 4, pair = lane % 4 * 2;
  Tiles& tiles = block->tiles[self.index.x / 32][self.turn];
  self.turn ^= 1;
  for (unsigned j = 0; j < 2; j++) {
    for (unsigned i = 0; i < 4; i++) tiles.left[i / 2 * 8 + pair + j][i % 2 * 8 + own] = of_bf16(a[i], j);
    tiles.right[pair + j][own] = of_bf16(b0, j);
    tiles.right[8 + pair + j][own] = of_bf16(b1, j);
  }
  warp_barrier(at);
  float sums[4] = {c[0], c[1], c[2], c[3]};
  for (unsigned k = 0; k < 16; k++)
    for (unsigned i = 0; i < 4; i++) sums[i] += tiles.left[k][i / 2 * 8 + own] * tiles.right[k][pair + i % 2];
  for (unsigned i = 0; i < 4; i++) c[i] = sums[i];
}

static void enter() {
  block->call(block->args);
  now->state = OVER;
  block->over += 1;
  leave();
}

// 0: first to last, 1: last to first, else: a new order, drawn from it, every time around.
struct Order {
  uint64_t kind, state;
  unsigned at(unsigned i, unsigned n, unsigned step, unsigned start) const {
    if (kind == 0) return i;
    if (kind == 1) return n - 1 - i;
    return (unsigned)(((uint64_t)i * step + start) % n);
  }
  uint64_t draw() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  }
};

static bool run_block(Order& order) {
  Block& b = *block;
  for (unsigned t = 0; t < b.size; t++) {
    Thread& thread = b.threads[t];
    thread.index = {t, 0, 0};
    thread.state = READY;
    thread.turn = 0;
    thread.context.begin(b.stacks + STACK * t, STACK, enter);
  }
  b.whole = {};
  memset(b.warps, 0, sizeof b.warps);
  b.over = 0;
  b.forward = order.kind == 0;
  while (b.over < b.size) {
    bool moved = false;
    // Odd, so prime to the size where that is a power of two; other sizes are multiples of 32 times 3, 5, ..: then 1.
    unsigned step = (unsigned)(order.draw() | 1), start = (unsigned)order.draw();
    if ((b.size & (b.size - 1)) != 0) step = 1;
    for (unsigned i = 0; i < b.size; i++) {
      Thread& thread = b.threads[order.at(i, b.size, step % b.size, start)];
      if (thread.state != READY) continue;
      moved = true;
      now = &thread;
      b.scheduler.go(thread.context);
      if (b.error[0]) return false;
    }
    if (!moved) {
      int line = 0;
      for (unsigned t = 0; t < b.size; t++)
        if (b.threads[t].state != OVER) line = b.threads[t].line;
      snprintf(b.error, sizeof b.error, "a barrier that some threads never reach (line %d of the source)", line);
      return false;
    }
  }
  return true;
}

// The letter of a parameter's type; of a pointer, the letter of what it points at, in capitals where the kernel may write it.
template <class T> struct Kind { static constexpr char letter = '?'; };
template <> struct Kind<const float*> { static constexpr char letter = 's'; };
template <> struct Kind<const unsigned short*> { static constexpr char letter = 'h'; };
template <> struct Kind<const double*> { static constexpr char letter = 'd'; };
template <> struct Kind<const unsigned*> { static constexpr char letter = 'u'; };
template <class T> struct Kind<T*> { static constexpr char letter = Kind<const T*>::letter - 'a' + 'A'; };
template <> struct Kind<unsigned> { static constexpr char letter = 'i'; };
template <> struct Kind<unsigned long long> { static constexpr char letter = 'l'; };
template <> struct Kind<float> { static constexpr char letter = 'f'; };

static bool pointer(char kind) { return strchr("shduSHDU", kind) != nullptr; }

// Whether arguments of kinds `given` are what `expected` asks for: the same, but that a null pointer is as good as any.
static bool fits(const char* expected, const char* given) {
  for (; *expected && *given; expected++, given++)
    if (*expected != *given && !(*given == '0' && pointer(*expected))) return false;
  return *expected == *given;
}

template <class T> static T taken(const uint64_t& slot) {
  T x;
  memcpy(&x, &slot, sizeof(T));
  return x;
}

template <auto F> struct Entry;
template <class... A, void (*F)(A...)> struct Entry<F> {
  static constexpr char kinds[] = {Kind<A>::letter..., 0};
  template <size_t... I> static void unpack(const uint64_t* args, std::index_sequence<I...>) { F(taken<A>(args[I])...); }
  static void call(const uint64_t* args) { unpack(args, std::index_sequence_for<A...>{}); }
};

struct Named { const char *name, *kinds; void (*call)(const uint64_t*); };

}  // namespace emulated

#define threadIdx (emulated::now->index)
#define blockIdx (emulated::block->index)
#define blockDim (emulated::block->dim)
#define gridDim (emulated::block->grid)
#define __syncthreads() emulated::block_barrier(__LINE__)
#define __syncwarp() emulated::warp_barrier(__LINE__)
#define __shfl_sync(mask, value, from) emulated::shown(mask, value, from, __LINE__)
#define __shfl_xor_sync(mask, value, far) emulated::shown_across(mask, value, far, __LINE__)
#define __shfl_up_sync(mask, value, by) emulated::shown_before(mask, value, by, __LINE__)
#define __ballot_sync(mask, value) emulated::ballot(mask, value, __LINE__)
// The instructions of tensor cores, which `tile.cu` leaves to who defines this.
#define EMULATED
#define ldmatrix(x, line) emulated::load_matrices(x, line, false, __LINE__)
#define ldmatrix_transposed(x, line) emulated::load_matrices(x, line, true, __LINE__)
#define mma(c, a, b0, b1) emulated::tensor_product(c, a, b0, b1, __LINE__)
#line 1 "kernels"
