// In the place of cuSOLVER: the factorisations that minicnn uses, by the LAPACK that comes with SciPy.
#include "device.h"

#include <stdlib.h>
#include <string.h>

// Set by the tests: routines with Fortran's interface.
void (*gpu_sgesvd)(), (*gpu_dgesvd)(), (*gpu_spotrf)(), (*gpu_dpotrf)(), (*gpu_sgetrf)(), (*gpu_dgetrf)(), (*gpu_sgetrs)(),
    (*gpu_dgetrs)();

typedef struct {
    void* stream;
} Handle;

int cusolverDnCreate(Handle** handle) { return *handle = calloc(1, sizeof **handle), 0; }
int cusolverDnDestroy(Handle* handle) { return 0; }
int cusolverDnSetStream(Handle* handle, void* stream) { return handle->stream = stream, 0; }
int cusolverDnGetStream(Handle* handle, void** stream) { return *stream = handle->stream, 0; }

int cusolverGetProperty(int which, int* value) { return *value = which == 0 ? 11 : which == 1 ? 7 : 0, 0; }
int cusolverDnCreateGesvdjInfo(void** info) { return *info = malloc(1), 0; }
int cusolverDnDestroyGesvdjInfo(void* info) { return free(info), 0; }

typedef struct {
    char jobu, jobv, uplo;
    int m, n, lda, ldu, ldv, ldb, count;
    void *a, *values, *u, *v, *b;
    void** many;
    int *pivots, *info;
} Problem;

static int queue(Handle* handle, void (*run)(void*), Problem p) {
    return gpu_enqueue(gpu_stream(handle->stream), "cusolver", run, &p, sizeof p) ? 7 : 0;
}
static char triangle(int uplo) { return uplo ? 'U' : 'L'; }

#define SOLVERS(S, s, type)                                                                                              \
    static void s##gesvd(void* data) {                                                                                   \
        Problem* p = data;                                                                                               \
        int room = 64 * (p->m + p->n) + 256;                                                                             \
        type* work = malloc(room * sizeof *work);                                                                        \
        gpu_##s##gesvd(&p->jobu, &p->jobv, &p->m, &p->n, p->a, &p->lda, p->values, p->u, &p->ldu, p->v, &p->ldv, work, &room, \
                       p->info);                                                                                         \
        free(work);                                                                                                      \
    }                                                                                                                    \
    int cusolverDn##S##gesvd_bufferSize(Handle* h, int m, int n, int* room) { return *room = 1, 0; }                     \
    int cusolverDn##S##gesvd(Handle* h, signed char ju, signed char jv, int m, int n, type* a, int lda, type* sv, type* u, \
                             int ldu, type* v, int ldv, type* work, int room, type* rwork, int* info) {                  \
        if (m < n) return 3; /* as cuSOLVER's manual says */                                                             \
        return queue(h, s##gesvd, (Problem){.jobu = ju, .jobv = jv, .m = m, .n = n, .lda = lda, .ldu = ldu, .ldv = ldv,  \
                     .a = a, .values = sv, .u = u, .v = v, .info = info});                                                    \
    }                                                                                                                    \
    /* Many small matrices: U and V, not its transpose. */                                                               \
    static void s##gesvdj(void* data) {                                                                                  \
        Problem* p = data;                                                                                               \
        int room = 64 * (p->m + p->n) + 256, small = p->m < p->n ? p->m : p->n;                                          \
        type *work = malloc(room * sizeof *work), *vt = malloc(p->n * p->n * sizeof *vt);                                \
        for (int k = 0; k < p->count; k++) {                                                                             \
            type *u = (type*)p->u + (size_t)k * p->ldu * p->m, *v = (type*)p->v + (size_t)k * p->ldv * p->n;             \
            gpu_##s##gesvd(&p->jobu, &p->jobu, &p->m, &p->n, (type*)p->a + (size_t)k * p->lda * p->n, &p->lda,           \
                           (type*)p->values + k * small, u, &p->ldu, vt, &p->n, work, &room, p->info + k);               \
            for (int i = 0; p->jobu == 'A' && i < p->n; i++)                                                             \
                for (int j = 0; j < p->n; j++) v[j + i * p->ldv] = vt[i + j * p->n];                                     \
        }                                                                                                                \
        free(work), free(vt);                                                                                            \
    }                                                                                                                    \
    int cusolverDn##S##gesvdjBatched_bufferSize(Handle* h, int job, int m, int n, type* a, int lda, type* sv, type* u,   \
                                                int ldu, type* v, int ldv, int* room, void* info, int count) {           \
        return *room = 1, 0;                                                                                             \
    }                                                                                                                    \
    int cusolverDn##S##gesvdjBatched(Handle* h, int job, int m, int n, type* a, int lda, type* sv, type* u, int ldu,     \
                                     type* v, int ldv, type* work, int room, int* info, void* params, int count) {       \
        if (m > 32 || n > 32) return 3;                                                                                  \
        return queue(h, s##gesvdj, (Problem){.jobu = job ? 'A' : 'N', .m = m, .n = n, .lda = lda, .ldu = ldu,            \
                     .ldv = ldv, .a = a, .values = sv, .u = u, .v = v, .info = info, .count = count});                   \
    }                                                                                                                    \
    static void s##potrf(void* data) {                                                                                   \
        Problem* p = data;                                                                                               \
        if (!p->many) gpu_##s##potrf(&p->uplo, &p->n, p->a, &p->lda, p->info);                                           \
        for (int i = 0; p->many && i < p->count; i++) gpu_##s##potrf(&p->uplo, &p->n, p->many[i], &p->lda, p->info + i); \
    }                                                                                                                    \
    int cusolverDn##S##potrf_bufferSize(Handle* h, int uplo, int n, type* a, int lda, int* room) { return *room = 1, 0; } \
    int cusolverDn##S##potrf(Handle* h, int uplo, int n, type* a, int lda, type* work, int room, int* info) {            \
        return queue(h, s##potrf, (Problem){.uplo = triangle(uplo), .n = n, .lda = lda, .a = a, .info = info});          \
    }                                                                                                                    \
    int cusolverDn##S##potrfBatched(Handle* h, int uplo, int n, type** a, int lda, int* info, int count) {               \
        return queue(h, s##potrf, (Problem){.uplo = triangle(uplo), .n = n, .lda = lda, .many = (void**)a,               \
                     .count = count, .info = info});                                                                     \
    }                                                                                                                    \
    static void s##getrf(void* data) {                                                                                   \
        Problem* p = data;                                                                                               \
        gpu_##s##getrf(&p->m, &p->n, p->a, &p->lda, p->pivots, p->info);                                                 \
    }                                                                                                                    \
    int cusolverDn##S##getrf_bufferSize(Handle* h, int m, int n, type* a, int lda, int* room) { return *room = 1, 0; }   \
    int cusolverDn##S##getrf(Handle* h, int m, int n, type* a, int lda, type* work, int* pivots, int* info) {            \
        return queue(h, s##getrf, (Problem){.m = m, .n = n, .lda = lda, .a = a, .pivots = pivots, .info = info});        \
    }                                                                                                                    \
    static void s##getrs(void* data) {                                                                                   \
        Problem* p = data;                                                                                               \
        gpu_##s##getrs(&p->jobu, &p->n, &p->m, p->a, &p->lda, p->pivots, p->b, &p->ldb, p->info);                        \
    }                                                                                                                    \
    int cusolverDn##S##getrs(Handle* h, int trans, int n, int right, const type* a, int lda, const int* pivots, type* b, \
                             int ldb, int* info) {                                                                       \
        return queue(h, s##getrs, (Problem){.jobu = trans ? 'T' : 'N', .n = n, .m = right, .lda = lda, .ldb = ldb,       \
                     .a = (void*)a, .pivots = (int*)pivots, .b = b, .info = info});                                      \
    }
SOLVERS(S, s, float)
SOLVERS(D, d, double)
