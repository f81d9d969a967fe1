// In the place of Thrust, inside of CuPy's module `thrust`: sorts along the last axis, with NaN behind all numbers.
#include "device.h"

#include <stdlib.h>

enum { INT64 = 6, UINT64 = 7, FLOAT32 = 9, FLOAT64 = 10 };  // CuPy's numbers of types

#define ORDER(type)                                                                          \
    static int order_##type(const void* left, const void* right) {                           \
        type a = *(type*)left, b = *(type*)right;                                            \
        if (a != a || b != b) return (a != a) - (b != b);                                    \
        return (a > b) - (a < b);                                                            \
    }
typedef long long i64;
typedef unsigned long long u64;
ORDER(float)
ORDER(double)
ORDER(i64)
ORDER(u64)

typedef struct {
    int type;
    char* data;
    long rows, length;
} Sort;

static void sort(void* data) {
    static int (*const orders[])(const void*, const void*) = {
        [INT64] = order_i64, [UINT64] = order_u64, [FLOAT32] = order_float, [FLOAT64] = order_double};
    Sort* s = data;
    size_t size = s->type == FLOAT32 ? 4 : 8;
    for (long i = 0; i < s->rows; i++) qsort(s->data + i * s->length * size, s->length, size, orders[s->type]);
}

// `shape` is a std::vector<long>, which begins with pointers to its start and its end.
void gpu_sort(int type, void* data, size_t* keys, long** shape, long stream, void* memory) {
    if (type != INT64 && type != UINT64 && type != FLOAT32 && type != FLOAT64) {
        gpu_fail(NOT_SUPPORTED, "no sort for CuPy's type number %d", type);
        return;
    }
    Sort s = {type, data, 1, 0};
    for (long* p = shape[0]; p < shape[1]; p++) s.rows *= s.length ? s.length : 1, s.length = *p;
    gpu_enqueue(gpu_stream((void*)stream), "sort", sort, &s, sizeof s);
}
