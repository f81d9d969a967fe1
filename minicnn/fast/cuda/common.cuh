// What every kernel file starts with.
//
// REAL    float or double
// INDEX   int, or long long where an array has 2^30 elements or more: 64-bit divisions are slow
//
// A kernel gets its outputs, its inputs, its options and `count`: how many outputs there are, or groups of them that are
// computed together (the places of a tile).  Each thread gathers what one of these needs and writes it: nothing is written
// twice, so there are no atomics and no barriers, and the order in which threads run does not matter.  There may be more
// of them than threads: EACH takes strides of the whole grid.  That is rare, so its loop is not unrolled.
#define KERNEL extern "C" __global__ void
#define EACH(i, count)                                                                                   \
    _Pragma("unroll 1") for (INDEX i = (INDEX)blockIdx.x * (INDEX)blockDim.x + (INDEX)threadIdx.x; \
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

// i / d.  A GPU has no instruction for it: a division takes some twenty.  Given the reciprocal of d (shapes.py), it is a
// product and a shift.  64-bit indices, which are rare, are divided.
__device__ INDEX quotient(INDEX i, INDEX d, u64 reciprocal) {
    if (sizeof(INDEX) > 4) return i / d;
    return (INDEX)(__umulhi(2u * (unsigned)i, (unsigned)reciprocal) >> (unsigned)(reciprocal >> 32));
}

// Takes the last coordinate, which is below d, off a flat index: returns it, and leaves the index of the others.
__device__ INDEX split(INDEX& i, INDEX d, u64 reciprocal) {
    INDEX whole = i;
    i = quotient(whole, d, reciprocal);
    return whole - i * d;
}

// Neighbouring channels that one thread takes at once, in one access to memory.
template <typename T, int LANES>
struct alignas(LANES * sizeof(T)) Lanes {
    T at[LANES];
};

template <int LANES, typename T>
__device__ Lanes<T, LANES> load(const T* array, INDEX i) {
    return ((const Lanes<T, LANES>*)array)[i];
}

template <int LANES, typename T>
__device__ void store(T* array, INDEX i, Lanes<T, LANES> value) {
    ((Lanes<T, LANES>*)array)[i] = value;
}

// Two kernels of a template name_lanes: `name`, one channel at a time, and `name_vector`, 16 bytes of channels at a time,
// where arrays and channels allow it (`lanes` in shapes.py).  For the second, C and count are numbers of vectors.
#define WITH_LANES(name, parameters, arguments)             \
    KERNEL name parameters { name##_lanes<1> arguments; } \
    KERNEL name##_vector parameters { name##_lanes<16 / sizeof(REAL)> arguments; }

// Images (N, H, W, C) seen through OH x OW windows of kh x kw cells, one every sh and sw, padded by (top, left): as
// parameters, and handed on.
#define WINDOWS                                                                                                  \
    INDEX H, INDEX W, INDEX C, INDEX kh, INDEX kw, INDEX sh, INDEX sw, INDEX top, INDEX left, INDEX OH, INDEX OW
#define THE_WINDOWS H, W, C, kh, kw, sh, sw, top, left, OH, OW

// Reciprocals, for a thread that finds its pixel and the windows around it.
#define PER_PIXEL u64 by_C, u64 by_W, u64 by_H, u64 by_sh, u64 by_sw
#define THE_PER_PIXEL by_C, by_W, by_H, by_sh, by_sw

// A pixel (n, h, w, c), rows and columns counted from the start of the padding, and the windows that cover it: rows
// p0 .. p1 of them, columns q0 .. q1, none if the first is larger than the last.
struct Pixel {
    INDEX n, h, w, c, p0, p1, q0, q1;
};

__device__ Pixel pixel(INDEX i, WINDOWS, PER_PIXEL) {
    Pixel x;
    x.c = split(i, C, by_C);
    x.w = split(i, W, by_W) + left;
    x.h = split(i, H, by_H) + top;
    x.n = i;
    x.p0 = x.h < kh ? 0 : quotient(x.h - kh, sh, by_sh) + 1;
    x.p1 = smaller<INDEX>(OH - 1, quotient(x.h, sh, by_sh));
    x.q0 = x.w < kw ? 0 : quotient(x.w - kw, sw, by_sw) + 1;
    x.q1 = smaller<INDEX>(OW - 1, quotient(x.w, sw, by_sw));
    return x;
}
