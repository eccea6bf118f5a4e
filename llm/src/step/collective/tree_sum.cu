// out[i] = the complete binary tree over part[0][i], part[1][i], ..., part[workers - 1][i]; workers is a power of two.
// part is [workers, n] and is overwritten. __fadd_rn is one rounding to nearest, whatever the compiler's flags.
extern "C" __global__ void tree_sum(float *part, float *out, unsigned long long n, unsigned int workers) {
    unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (unsigned int size = 1; size < workers; size *= 2) {
        for (unsigned int left = 0; left < workers; left += 2 * size) {
            part[left * n + i] = __fadd_rn(part[left * n + i], part[(left + size) * n + i]);
        }
    }
    out[i] = part[i];
}
