// What every kernel file starts with.
//
// REAL    float or double
// INDEX   int, or long long where an array has 2^30 elements or more: 64-bit divisions are slow
//
// A kernel gets its outputs, its inputs, its options and the number of its threads.  Each thread gathers what one output
// needs and writes it: nothing is written twice, so there are no atomics and no barriers, and the order in which threads
// run does not matter.  There may be more outputs than threads: EACH takes strides of the whole grid.
#define KERNEL extern "C" __global__ void
#define EACH(i, count)                                                           \
    for (INDEX i = (INDEX)blockIdx.x * (INDEX)blockDim.x + (INDEX)threadIdx.x; \
         i < count; i += (INDEX)gridDim.x * (INDEX)blockDim.x)

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned short u16;
typedef unsigned char u8;

template <typename T>
__device__ T smaller(T a, T b) {
    return a < b ? a : b;
}

template <typename T>
__device__ T larger(T a, T b) {
    return a > b ? a : b;
}

// The first of the windows of k cells, one every `stride`, that covers `at` (counted from the start of the padding).
__device__ INDEX first_window(INDEX at, INDEX k, INDEX stride) {
    return at < k ? 0 : (at - k) / stride + 1;
}
