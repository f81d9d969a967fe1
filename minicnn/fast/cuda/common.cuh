// What every kernel file starts with.
//
// REAL    float or double
// INDEX   int, or long long where an array has 2^30 elements or more: 64-bit divisions are slow
//
// A kernel gets its outputs, its inputs, its options and `count`: how many outputs there are, or groups of them that are
// computed together (the places of a tile).  Each thread gathers what one of these needs and writes it: nothing is written
// twice, so there are no atomics and no barriers, and the order in which threads run does not matter.  There may be more
// of them than threads: EACH takes strides of the whole grid.
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

// A pixel (n, h, w, c), rows and columns counted from the start of the padding, and the windows that cover it: rows
// p0 .. p1 of them, columns q0 .. q1, none if the first is larger than the last.
struct Pixel {
    INDEX n, h, w, c, p0, p1, q0, q1;
};

// Pixel i of images (N, H, W, C) seen through OH x OW windows of kh x kw cells, one every sh and sw, padded by (top, left).
__device__ Pixel pixel(INDEX i, INDEX H, INDEX W, INDEX C, INDEX kh, INDEX kw, INDEX sh, INDEX sw, INDEX top,
                       INDEX left, INDEX OH, INDEX OW) {
    Pixel x;
    x.n = i / C / W / H;
    x.h = i / C / W % H + top;
    x.w = i / C % W + left;
    x.c = i % C;
    x.p0 = x.h < kh ? 0 : (x.h - kh) / sh + 1;
    x.p1 = smaller<INDEX>(OH - 1, x.h / sh);
    x.q0 = x.w < kw ? 0 : (x.w - kw) / sw + 1;
    x.q1 = smaller<INDEX>(OW - 1, x.w / sw);
    return x;
}
