// As much of CUDA C++ as the kernels of minicnn/fast/cuda use, for a C++ compiler: threads run one after the other, in
// an order that jumps between blocks.  Who relies on the order of threads, or on one seeing what another wrote, fails.
#include <cmath>
#include <cstdint>
#include <numeric>

#define __global__
#define __device__ static inline

struct Dim { unsigned x; };
static Dim blockIdx, threadIdx, blockDim, gridDim;

using std::exp;
using std::log;
using std::sqrt;

static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned long long)a * b >> 32; }
static inline float __fmul_rn(float a, float b) { return a * b; }  // compiled without contraction
static inline float __fadd_rn(float a, float b) { return a + b; }

// Calls f with the values that `arguments` point to, as cuLaunchKernel takes them, for every thread of the grid: thread
// number (first + i stride) mod all for i = 0, 1, ..., with a stride that has no divisor in common with their number.
template <typename... A, size_t... I>
static void run(void (*f)(A...), void** arguments, uint64_t blocks, uint64_t threads, uint64_t seed,
                std::index_sequence<I...>) {
    uint64_t all = blocks * threads, stride = seed % all | 1, at = seed / 7 % all;
    while (std::gcd(stride, all) != 1) stride += 2;
    blockDim.x = threads;
    gridDim.x = blocks;
    for (uint64_t i = 0; i < all; i++, at = (at + stride) % all) {
        blockIdx.x = at / threads;
        threadIdx.x = at % threads;
        f(*(A*)arguments[I]...);
    }
}

template <typename... A>
static void run(void (*f)(A...), void** arguments, uint64_t blocks, uint64_t threads, uint64_t seed) {
    run(f, arguments, blocks, threads, seed, std::index_sequence_for<A...>());
}

#define LAUNCHER(name)                                                                                             \
    extern "C" void launch_##name(void** arguments, uint64_t blocks, uint64_t threads, uint64_t seed) {            \
        run(name, arguments, blocks, threads, seed);                                                               \
    }
