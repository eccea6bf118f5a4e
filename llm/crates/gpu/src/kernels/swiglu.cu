// The gate of the MLP: y = silu(gate) up, silu(x) = x / (1 + e^-x).

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

struct GateUp {
  Four gate, up;
};

__device__ inline GateUp get_gate_up(const REAL* token, const REAL* bias, u32 i, u32 width, bool wide) {
  GateUp v = {get(token, i, width, wide), get(token + width, i, width, wide)};
  if (bias) {
    const Four b = get(bias, i, width, wide), c = get(bias + width, i, width, wide);
#pragma unroll
    for (u32 j = 0; j < 4; j++) {
      v.gate.at[j] += b.at[j];
      v.up.at[j] += c.at[j];
    }
  }
  return v;
}

KERNEL(256, swiglu)(const REAL* gate_up, const REAL* bias, REAL* y, u32 width) {
  const REAL* token = gate_up + (size_t)blockIdx.x * 2 * width;
  REAL* out = y + (size_t)blockIdx.x * width;
  const bool wide = width % 4 == 0 && aligned(gate_up) && aligned(bias) && aligned(y);
  for (u32 i = 4 * threadIdx.x; i < width; i += 4 * blockDim.x) {
    const GateUp v = get_gate_up(token, bias, i, width, wide);
    Four r;
#pragma unroll
    for (u32 j = 0; j < 4; j++) r.at[j] = v.gate.at[j] * sigmoid(v.gate.at[j]) * v.up.at[j];
    put(out, i, width, wide, r);
  }
}

KERNEL(256, swiglu_backward)(const REAL* gate_up, const REAL* bias, const REAL* dy, REAL* dgate_up, u32 width) {
  const size_t at = (size_t)blockIdx.x * 2 * width;
  const bool wide = width % 4 == 0 && aligned(gate_up) && aligned(bias) && aligned(dy) && aligned(dgate_up);
  for (u32 i = 4 * threadIdx.x; i < width; i += 4 * blockDim.x) {
    const GateUp v = get_gate_up(gate_up + at, bias, i, width, wide);
    const Four d = get(dy + (size_t)blockIdx.x * width, i, width, wide);
    GateUp r;
#pragma unroll
    for (u32 j = 0; j < 4; j++) {
      const float g = v.gate.at[j], s = sigmoid(g);
      r.gate.at[j] = d.at[j] * v.up.at[j] * (s * (1.0f + g * (1.0f - s)));
      r.up.at[j] = d.at[j] * (g * s);
    }
    put(dgate_up + at, i, width, wide, r.gate);
    put(dgate_up + at + width, i, width, wide, r.up);
  }
}
