// In the place of cuBLAS: checks what it is told, then lets the BLAS and LAPACK that come with SciPy compute.
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Set by the tests: routines with Fortran's interface.
void (*gpu_sgemm)(), (*gpu_dgemm)(), (*gpu_sgetrf)(), (*gpu_dgetrf)(), (*gpu_sgetri)(), (*gpu_dgetri)();

enum { OK = 0, BAD_VALUE = 7, UNSUPPORTED = 15 };
enum { FLOAT = 0, DOUBLE = 1, COMPUTE_FLOAT = 68, COMPUTE_DOUBLE = 70, COMPUTE_BF16 = 75, COMPUTE_TF32 = 77 };

enum { ALLOC_FAILED = 3, WORKSPACE = 4 << 20 };  // bytes that a handle takes from the device, outside of CuPy's pool

typedef struct {
    void *stream, *workspace;
    int device;
} Handle;

int cublasCreate_v2(Handle** handle) {
    void* workspace;
    if (cudaMalloc(&workspace, WORKSPACE)) return ALLOC_FAILED;
    *handle = calloc(1, sizeof **handle);
    **handle = (Handle){NULL, workspace, gpu_device()};
    return OK;
}
int cublasDestroy_v2(Handle* handle) {
    cudaFree(handle->workspace);
    free(handle);
    return OK;
}
int cublasSetStream_v2(Handle* handle, void* stream) { return handle->stream = stream, OK; }
int cublasGetStream_v2(Handle* handle, void** stream) { return *stream = handle->stream, OK; }
int cublasGetVersion_v2(Handle* handle, int* version) { return *version = 120900, OK; }
int cublasSetMathMode(Handle* handle, int mode) { return OK; }
int cublasGetMathMode(Handle* handle, int* mode) { return *mode = 0, OK; }
int cublasSetPointerMode_v2(Handle* handle, int mode) { return mode ? gpu_missing("cublas: scalars on the device"), UNSUPPORTED : OK; }
int cublasGetPointerMode_v2(Handle* handle, int* mode) { return *mode = 0, OK; }

// --- products, by columns: C = alpha op(A) op(B) + beta C, `count` times, a stride further each time ---

typedef struct {
    int type, ta, tb, m, n, k, lda, ldb, ldc, count;
    long long sa, sb, sc;
    const char *a, *b;
    char* c;
    double alpha, beta;  // a float in its first four bytes if the type is
    int compute;         // 0: as exact as the type
} Product;

// How many elements a stack of matrices by columns spans.
static size_t span(int rows, int columns, int ld, long long stride, int count) {
    return rows && columns && count ? (count - 1) * stride + (size_t)(columns - 1) * ld + rows : 0;
}

// A copy of a factor as tensor cores see it: of the 23 bits behind the point, 10 (TF32) or 7 (bf16) are left, rounded to
// the nearest, in a tie to even.
static void* rounded(const char* factor, size_t length, int compute) {
    int lost = compute == COMPUTE_TF32 ? 13 : 16;
    unsigned *copy = malloc(length * 4 + 1), most = (1u << lost) - 1;
    memcpy(copy, factor, length * 4);
    for (size_t i = 0; i < length; i++)
        if ((copy[i] >> 23 & 255) < 255)  // neither infinite nor NaN
            copy[i] = (copy[i] + (most >> 1) + (copy[i] >> lost & 1)) & ~most;
    return copy;
}

static void multiply(void* data) {
    Product* p = data;
    size_t size = p->type == DOUBLE ? 8 : 4;
    char ta = p->ta ? 'T' : 'N', tb = p->tb ? 'T' : 'N';
    int rounds = p->compute == COMPUTE_TF32 || p->compute == COMPUTE_BF16;
    for (long long i = 0; i < p->count; i++) {
        const char *a = p->a + i * p->sa * size, *b = p->b + i * p->sb * size;
        if (rounds) {
            a = rounded(a, p->ta ? span(p->k, p->m, p->lda, 0, 1) : span(p->m, p->k, p->lda, 0, 1), p->compute);
            b = rounded(b, p->tb ? span(p->n, p->k, p->ldb, 0, 1) : span(p->k, p->n, p->ldb, 0, 1), p->compute);
        }
        (p->type == DOUBLE ? gpu_dgemm : gpu_sgemm)(&ta, &tb, &p->m, &p->n, &p->k, &p->alpha, a, &p->lda, b, &p->ldb, &p->beta,
            p->c + i * p->sc * size, &p->ldc);
        if (rounds) free((void*)a), free((void*)b);
    }
}

static int product(Handle* handle, Product p, const void* alpha, const void* beta) {
    size_t size = p.type == DOUBLE ? 8 : 4;
    if (handle->device != gpu_device()) return gpu_fail(INVALID_HANDLE, "cublas: a handle of another device"), BAD_VALUE;
    if (p.m < 0 || p.n < 0 || p.k < 0 || p.count < 0 || p.lda < (p.ta ? p.k : p.m) || p.ldb < (p.tb ? p.n : p.k) ||
        p.ldc < p.m || p.lda < 1 || p.ldb < 1 || p.ldc < 1)
        return BAD_VALUE;
    gpu_lock();
    Stream* stream = gpu_stream(handle->stream);
    int device = gpu_device();
    int bad = !stream || gpu_range_problem("cublas", p.a, size * (p.ta ? span(p.k, p.m, p.lda, p.sa, p.count) : span(p.m, p.k, p.lda, p.sa, p.count)), device)
        || gpu_range_problem("cublas", p.b, size * (p.tb ? span(p.n, p.k, p.ldb, p.sb, p.count) : span(p.k, p.n, p.ldb, p.sb, p.count)), device)
        || gpu_range_problem("cublas", p.c, size * span(p.m, p.n, p.ldc, p.sc, p.count), device);
    memcpy(&p.alpha, alpha, size);
    memcpy(&p.beta, beta, size);
    if (!bad && p.m && p.n && p.count) bad = gpu_launch(stream, "cublas", p.count, p.m * p.n, multiply, &p, sizeof p);
    gpu_unlock();
    return bad ? 13 : OK;  // CUBLAS_STATUS_EXECUTION_FAILED
}

static int right_types(int a, int b, int c, int compute) {
    return a == b && b == c && (a == FLOAT ? compute == COMPUTE_FLOAT || compute == COMPUTE_TF32 || compute == COMPUTE_BF16
                                           : a == DOUBLE && compute == COMPUTE_DOUBLE);
}

int cublasGemmStridedBatchedEx(Handle* handle, int ta, int tb, int m, int n, int k, const void* alpha, const void* a,
                               int at, int lda, long long sa, const void* b, int bt, int ldb, long long sb,
                               const void* beta, void* c, int ct, int ldc, long long sc, int count, int compute, int algo) {
    if (!right_types(at, bt, ct, compute)) return UNSUPPORTED;
    return product(handle, (Product){at, ta, tb, m, n, k, lda, ldb, ldc, count, sa, sb, sc, a, b, c, .compute = compute},
                   alpha, beta);
}

int cublasGemmEx(Handle* handle, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int at, int lda,
                 const void* b, int bt, int ldb, const void* beta, void* c, int ct, int ldc, int compute, int algo) {
    return cublasGemmStridedBatchedEx(handle, ta, tb, m, n, k, alpha, a, at, lda, 0, b, bt, ldb, 0, beta, c, ct, ldc, 0, 1,
                                      compute, algo);
}

#define GEMM(name, number, type)                                                                                          \
    int name(Handle* handle, int ta, int tb, int m, int n, int k, const type* alpha, const type* a, int lda, const type* b, \
             int ldb, const type* beta, type* c, int ldc) {                                                               \
        return product(handle, (Product){number, ta, tb, m, n, k, lda, ldb, ldc, 1, 0, 0, 0, (void*)a, (void*)b, (void*)c}, \
                       alpha, beta);                                                                                      \
    }
GEMM(cublasSgemm_v2, FLOAT, float)
GEMM(cublasDgemm_v2, DOUBLE, double)

#define STRIDED(name, number, type)                                                                                       \
    int name(Handle* handle, int ta, int tb, int m, int n, int k, const type* alpha, const type* a, int lda, long long sa, \
             const type* b, int ldb, long long sb, const type* beta, type* c, int ldc, long long sc, int count) {         \
        return product(handle, (Product){number, ta, tb, m, n, k, lda, ldb, ldc, count, sa, sb, sc, (void*)a, (void*)b,    \
                       (void*)c}, alpha, beta);                                                                           \
    }
STRIDED(cublasSgemmStridedBatched, FLOAT, float)
STRIDED(cublasDgemmStridedBatched, DOUBLE, double)

// --- products of matrices that lie anywhere: arrays of pointers, on the device ---

static void multiply_each(void* data) {
    Product* p = data;
    for (int i = 0; i < p->count; i++) {
        Product one = *p;
        one.a = ((const char**)p->a)[i], one.b = ((const char**)p->b)[i], one.c = ((char**)p->c)[i], one.count = 1;
        multiply(&one);
    }
}

#define EACH(name, number, type)                                                                                          \
    int name(Handle* handle, int ta, int tb, int m, int n, int k, const type* alpha, const type** a, int lda,             \
             const type** b, int ldb, const type* beta, type** c, int ldc, int count) {                                   \
        Product p = {number, ta, tb, m, n, k, lda, ldb, ldc, count, 0, 0, 0, (void*)a, (void*)b, (void*)c};                \
        memcpy(&p.alpha, alpha, sizeof *alpha);                                                                           \
        memcpy(&p.beta, beta, sizeof *beta);                                                                              \
        return gpu_launch(gpu_stream(handle->stream), "cublas", count, m * n, multiply_each, &p, sizeof p) ? 13 : OK;      \
    }
EACH(cublasSgemmBatched, FLOAT, float)
EACH(cublasDgemmBatched, DOUBLE, double)

// --- vectors ---

typedef struct {
    int n, sx, sy;
    const void *x, *y;
    void* result;
} Dot;

#define DOT(name, type)                                                                                             \
    static void run_##name(void* data) {                                                                            \
        Dot* d = data;                                                                                              \
        type sum = 0;                                                                                               \
        for (long i = 0; i < d->n; i++) sum += ((type*)d->x)[i * d->sx] * ((type*)d->y)[i * d->sy];                 \
        *(type*)d->result = sum;                                                                                    \
    }                                                                                                               \
    int name(Handle* handle, int n, const type* x, int sx, const type* y, int sy, type* result) {                   \
        Dot d = {n, sx, sy, x, y, result};                                                                          \
        return gpu_launch(gpu_stream(handle->stream), "cublas", 1, n, run_##name, &d, sizeof d) ? 13 : OK;          \
    }
DOT(cublasSdot_v2, float)
DOT(cublasDdot_v2, double)

// --- inverses of many small matrices ---

typedef struct {
    int n, lda, ldc, count;
    void **a, **c;
    int *pivots, *info;
} Inverse;

#define INVERSES(letter, type)                                                                                     \
    static void letter##getrf(void* data) {                                                                        \
        Inverse* v = data;                                                                                         \
        for (int i = 0; i < v->count; i++)                                                                         \
            gpu_##letter##getrf(&v->n, &v->n, v->a[i], &v->lda, v->pivots + i * v->n, v->info + i);                \
    }                                                                                                              \
    static void letter##getri(void* data) {                                                                        \
        Inverse* v = data;                                                                                         \
        int room = 64 * v->n;                                                                                      \
        type* work = malloc(room * sizeof *work);                                                                  \
        for (int i = 0; i < v->count; i++) {                                                                       \
            for (int j = 0; j < v->n; j++)                                                                         \
                memcpy((type*)v->c[i] + j * v->ldc, (type*)v->a[i] + j * v->lda, v->n * sizeof *work);             \
            gpu_##letter##getri(&v->n, v->c[i], &v->ldc, v->pivots + i * v->n, work, &room, v->info + i);          \
        }                                                                                                          \
        free(work);                                                                                                \
    }

INVERSES(s, float)
INVERSES(d, double)

static int inverses(Handle* handle, void (*run)(void*), Inverse v) {
    return gpu_enqueue(gpu_stream(handle->stream), "cublas", run, &v, sizeof v) ? 13 : OK;
}
#define BATCHED(S, s)                                                                                               \
    int cublas##S##getrfBatched(Handle* h, int n, void** a, int lda, int* pivots, int* info, int count) {           \
        return inverses(h, s##getrf, (Inverse){n, lda, 0, count, a, NULL, pivots, info});                           \
    }                                                                                                               \
    int cublas##S##getriBatched(Handle* h, int n, void** a, int lda, int* pivots, void** c, int ldc, int* info, int count) { \
        return inverses(h, s##getri, (Inverse){n, lda, ldc, count, a, c, pivots, info});                            \
    }
BATCHED(S, s)
BATCHED(D, d)
