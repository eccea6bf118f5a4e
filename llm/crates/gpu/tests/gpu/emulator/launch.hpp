
// Runs blocks `from..to` of a grid, in that order, or from the last to the first where the order says so. Returns what went wrong, or null.
extern "C" const char* emulated_launch(const char* name, const char* kinds, unsigned grid_x, unsigned grid_y, unsigned threads,
                                       uint64_t from, uint64_t to, uint64_t kind, const uint64_t* args) {
  using namespace emulated;
  if (!block) {
    block = new Block;
    void* stacks = mmap(nullptr, STACK * MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) return "no memory for the stacks of a block";
    block->stacks = (char*)stacks;
  }
  Block& b = *block;
  b.error[0] = 0;
  const Named* found = nullptr;
  for (const Named& entry : TABLE)
    if (strcmp(entry.name, name) == 0) found = &entry;
  if (!found) return "no kernel has this name";
  if (!fits(found->kinds, kinds)) {
    snprintf(b.error, sizeof b.error,
             "its arguments are %s, given were %s (i: u32, l: u64, f: f32; pointers to s: f32, h: bf16, d: f64, u: u32, capitals: may be written)",
             found->kinds, kinds);
    return b.error;
  }
  if (threads == 0 || threads > MOST || threads % 32 != 0) return "a block has a multiple of 32 threads, at most 1024";
  b.size = threads;
  b.dim = {threads, 1, 1};
  b.grid = {grid_x, grid_y, 1};
  b.call = found->call;
  b.args = args;
  Order order = {kind, (kind + 1) * 0x9e3779b97f4a7c15ull};
  for (uint64_t i = from; i < to; i++) {
    const uint64_t at = kind == 1 ? from + to - 1 - i : i;
    b.index = {(unsigned)(at % grid_x), (unsigned)(at / grid_x), 0};
    if (!run_block(order)) return b.error;
  }
  return nullptr;
}
