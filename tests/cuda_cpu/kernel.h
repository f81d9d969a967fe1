// CUDA C++ for a C++ compiler: what kernels (CuPy's and ours) use of it.  launch.c has the rest.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __shared__ static  // one block runs at a time
#define __constant__ static
#define __align__(n) __attribute__((aligned(n)))
#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define assert(condition)

struct Index { unsigned x, y, z; };
extern "C" {
extern Index gpu_thread_index, gpu_block_index, gpu_block_size, gpu_grid_size;
void gpu_block_barrier(void);
void gpu_warp_barrier(void);
unsigned gpu_fibre(void);
}
#define threadIdx gpu_thread_index
#define blockIdx gpu_block_index
#define blockDim gpu_block_size
#define gridDim gpu_grid_size
static const int warpSize = 32;

using namespace std;
template <typename A, typename B> inline typename common_type<A, B>::type min(A a, B b) { return b < a ? b : a; }
template <typename A, typename B> inline typename common_type<A, B>::type max(A a, B b) { return a < b ? b : a; }

template <typename To, typename From> inline To bits(From value) {
    static_assert(sizeof(To) == sizeof(From), "");
    To result;
    memcpy(&result, &value, sizeof result);
    return result;
}
inline float __int_as_float(int x) { return bits<float>(x); }
inline int __float_as_int(float x) { return bits<int>(x); }
inline unsigned __float_as_uint(float x) { return bits<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return bits<float>(x); }
inline double __longlong_as_double(long long x) { return bits<double>(x); }
inline long long __double_as_longlong(double x) { return bits<long long>(x); }
inline int __double2hiint(double x) { return bits<uint64_t>(x) >> 32; }
inline int __double2loint(double x) { return bits<uint64_t>(x); }
inline double __hiloint2double(int high, int low) { return bits<double>((uint64_t)(unsigned)high << 32 | (unsigned)low); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned long long)a * b >> 32; }
// Rounded by themselves: never fused with a neighbour.
__noinline__ static float __fmul_rn(float a, float b) { return a * b; }
__noinline__ static float __fadd_rn(float a, float b) { return a + b; }
__noinline__ static double __dmul_rn(double a, double b) { return a * b; }
__noinline__ static double __dadd_rn(double a, double b) { return a + b; }
template <typename T> inline T __ldg(const T* p) { return *p; }
inline float rsqrt(float x) { return 1 / sqrt(x); }
inline double rsqrt(double x) { return 1 / sqrt(x); }

// --- atomics: one thread runs at a time ---
template <typename T, typename V> inline T atomicAdd(T* p, V v) { T old = *p; *p = old + (T)v; return old; }
template <typename T, typename V> inline T atomicMax(T* p, V v) { T old = *p; if (old < (T)v) *p = v; return old; }
template <typename T, typename V> inline T atomicMin(T* p, V v) { T old = *p; if ((T)v < old) *p = v; return old; }
template <typename T, typename V> inline T atomicOr(T* p, V v) { T old = *p; *p = old | (T)v; return old; }
template <typename T, typename V> inline T atomicExch(T* p, V v) { T old = *p; *p = v; return old; }
template <typename T> inline T atomicCAS(T* p, T is, T v) { T old = *p; if (old == is) *p = v; return old; }

// --- barriers and exchange between the threads of a warp ---
inline void __syncthreads() { gpu_block_barrier(); }
inline void __syncwarp(unsigned mask = ~0u) { gpu_warp_barrier(); }
inline void __threadfence() {}
inline void __threadfence_block() {}

static struct { alignas(16) char value[16]; } gpu_lanes[1024];
template <typename T> inline T gpu_lane(T mine, unsigned from) {
    unsigned me = gpu_fibre();
    memcpy(gpu_lanes[me].value, &mine, sizeof mine);
    gpu_warp_barrier();
    T theirs;
    memcpy(&theirs, gpu_lanes[me / 32 * 32 + from].value, sizeof theirs);
    gpu_warp_barrier();
    return theirs;
}
template <typename T> inline T __shfl_sync(unsigned mask, T v, int lane, int width = 32) {
    unsigned me = gpu_fibre() % 32;
    return gpu_lane(v, me / width * width + lane % width);
}
template <typename T> inline T __shfl_xor_sync(unsigned mask, T v, int with, int width = 32) {
    return gpu_lane(v, gpu_fibre() % 32 ^ with);
}
template <typename T> inline T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32) {
    unsigned me = gpu_fibre() % 32;
    return gpu_lane(v, me % width + by < (unsigned)width ? me + by : me);
}
template <typename T> inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32) {
    unsigned me = gpu_fibre() % 32;
    return gpu_lane(v, me % width >= by ? me - by : me);
}

// --- how launch.c calls a kernel ---
template <unsigned... I> struct Numbers {};
template <unsigned N, unsigned... I> struct Upto : Upto<N - 1, N - 1, I...> {};
template <unsigned... I> struct Upto<0, I...> { typedef Numbers<I...> type; };
template <typename... A, unsigned... I> inline void gpu_call(void (*kernel)(A...), void** arguments, Numbers<I...>) {
    kernel(*(typename remove_const<A>::type*)arguments[I]...);
}
template <typename... A> inline void gpu_call(void (*kernel)(A...), void** arguments) {
    gpu_call(kernel, arguments, typename Upto<sizeof...(A)>::type());
}
template <typename F> struct Sizes;
template <typename... A> struct Sizes<void(A...)> { unsigned value[sizeof...(A) + 1] = {sizeof(A)..., 0}; };
#define GPU_KERNEL(name)                                                             \
    extern "C" void gpu_call_##name(void** arguments) { gpu_call(name, arguments); } \
    extern "C" { extern const Sizes<decltype(name)> gpu_sizes_##name; const Sizes<decltype(name)> gpu_sizes_##name; }
