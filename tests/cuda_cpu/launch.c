// Modules and launches.
//
// compiler.py makes a shared library of CUDA source; its path takes the place of machine code (a "cubin").  For each
// kernel the library has  gpu_call_NAME(void** arguments)  for one thread, and  gpu_sizes_NAME , the sizes of its arguments.
// Kernels without barriers run one thread after the other, in an order that jumps.  In kernels with
// barriers the threads of a block are fibres: each has a stack, and at a barrier it lets the others run.
#define _GNU_SOURCE
#include "device.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <xmmintrin.h>

typedef struct { unsigned x, y, z; } Index;
Index gpu_thread_index, gpu_block_index, gpu_block_size, gpu_grid_size;  // threadIdx, blockIdx, blockDim, gridDim

enum { STACK = 1 << 16 };
_Alignas(16) char gpu_shared[SHARED];  // for  extern __shared__

int gpu_flush;  // whether numbers below 1e-38 (1e-308 in double) become 0

// --- errors within kernels ---

static __thread sigjmp_buf escape;
static __thread const char* running;  // the name of the work, or NULL
static struct sigaction former[NSIG];

static void on_signal(int number, siginfo_t* info, void* context) {
    if (!running) {  // a fault of the program itself: as if we were not there
        sigaction(number, &former[number], NULL);
        return;
    }
    gpu_fail(number == SIGSEGV ? ILLEGAL_ADDRESS : LAUNCH_FAILED, "%s touched %s", running,
             number == SIGSEGV ? gpu_place(info->si_addr) : "a number that cannot be divided");
    siglongjmp(escape, 1);
}

void gpu_guarded(const char* name, void (*work)(void*), void* data) {
    static int ready;
    if (!ready) {
        struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
        sigaction(SIGSEGV, &action, &former[SIGSEGV]);
        sigaction(SIGFPE, &action, &former[SIGFPE]);
        ready = 1;
    }
    unsigned rounding = _mm_getcsr();
    running = name;
    if (gpu_flush) _mm_setcsr(rounding | 0x8040);
    if (!sigsetjmp(escape, 1)) work(data);
    _mm_setcsr(rounding);
    running = NULL;
}

// --- modules ---

typedef struct {
    void* library;
    int device;
} Module;

typedef struct {
    char name[128];
    void (*call)(void**);
    const unsigned* sizes;  // of the arguments, then 0
    int barriers, device;
} Function;

Error cuModuleLoadData(Module** result, const char* image) {
    Module* module = calloc(1, sizeof *module);
    module->library = dlopen(image, RTLD_NOW | RTLD_LOCAL);
    module->device = gpu_device();
    if (!module->library) return fprintf(stderr, "%s\n", dlerror()), BAD_IMAGE;
    *result = module;
    return NONE;
}
Error cuModuleLoadDataEx(Module** result, const char* image, unsigned n, void* names, void* values) {
    return cuModuleLoadData(result, image);
}
Error cuModuleUnload(Module* module) { return NONE; }

Error cuModuleGetFunction(Function** result, Module* module, const char* name) {
    Function* f = calloc(1, sizeof *f);
    char symbol[200];
    snprintf(f->name, sizeof f->name, "%s", name);
    snprintf(symbol, sizeof symbol, "gpu_call_%s", name);
    f->call = (void (*)(void**))dlsym(module->library, symbol);
    snprintf(symbol, sizeof symbol, "gpu_sizes_%s", name);
    f->sizes = dlsym(module->library, symbol);
    f->barriers = *(int*)dlsym(module->library, "gpu_barriers");
    f->device = module->device;
    if (!f->call || !f->sizes) return NOT_FOUND;
    *result = f;
    return NONE;
}

Error cuInit(unsigned flags) { return NONE; }
Error cuCtxGetDevice(int* device) { return *device = gpu_device(), NONE; }
static char contexts[DEVICES];  // only their addresses matter
Error cuCtxGetCurrent(void** context) { return *context = &contexts[gpu_device()], NONE; }
Error cuFuncGetAttribute(int* value, int attribute, Function* f) { return *value = 0, NONE; }
Error cuFuncSetAttribute(Function* f, int attribute, int value) { return NONE; }

// --- fibres ---

static struct {
    enum { READY, AT_BLOCK_BARRIER, AT_WARP_BARRIER, DONE } state;
    void* stack;  // where it goes on
} fibres[MOST_THREADS];
static void* scheduler;
static unsigned fibre;
static char* stacks;
static Function* function;
static void** arguments;

// Saves the registers that a call must preserve and the place where they lie; goes on where `to` says.
void gpu_switch(void** from, void* to);
__asm__(
    "gpu_switch:\n"
    "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
    "  mov %rsp, (%rdi)\n  mov %rsi, %rsp\n"
    "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n  ret\n");

static void begin(void) {
    function->call(arguments);
    fibres[fibre].state = DONE;
    gpu_switch(&fibres[fibre].stack, scheduler);
}

static void pause_at(int barrier) {
    unsigned me = fibre;
    fibres[me].state = barrier;
    gpu_switch(&fibres[me].stack, scheduler);
}
void gpu_block_barrier(void) { pause_at(AT_BLOCK_BARRIER); }
void gpu_warp_barrier(void) { pause_at(AT_WARP_BARRIER); }
unsigned gpu_fibre(void) { return fibre; }

// The threads of a group go on once all of them that still run wait at the same kind of barrier.
static int let_go(unsigned first, unsigned end, int barrier) {
    unsigned waiting = 0;
    for (unsigned t = first; t < end; t++) {
        if (fibres[t].state == DONE) continue;
        if (fibres[t].state != (unsigned)barrier) return 0;
        waiting++;
    }
    for (unsigned t = first; t < end && waiting; t++) if (fibres[t].state != DONE) fibres[t].state = READY;
    return waiting > 0;
}

static void set_thread(unsigned t) {
    gpu_thread_index = (Index){t % gpu_block_size.x, t / gpu_block_size.x % gpu_block_size.y,
                               t / gpu_block_size.x / gpu_block_size.y};
}

static void run_block_of_fibres(unsigned threads) {
    if (!stacks) stacks = mmap(NULL, (size_t)STACK * MOST_THREADS, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (unsigned t = 0; t < threads; t++) {
        void** top = (void**)(stacks + (size_t)STACK * (t + 1)) - 2;
        top[0] = (void*)begin;  // where `ret` goes; below are six registers
        fibres[t].stack = top - 6;
        fibres[t].state = READY;
    }
    for (int moved = 1; moved;) {
        moved = 0;
        for (unsigned i = 0; i < threads; i++) {
            unsigned t = threads - 1 - i;  // the last first: code that relies on the order of threads fails
            if (fibres[t].state != READY) continue;
            fibre = t;
            set_thread(t);
            gpu_switch(&scheduler, fibres[t].stack);
            moved = 1;
        }
        for (unsigned t = 0; t < threads; t += WARP)
            moved |= let_go(t, t + WARP < threads ? t + WARP : threads, AT_WARP_BARRIER);
        moved |= let_go(0, threads, AT_BLOCK_BARRIER);
    }
    for (unsigned t = 0; t < threads; t++)
        if (fibres[t].state != DONE) gpu_fail(LAUNCH_FAILED, "%s: threads wait at different barriers for ever", function->name);
}

// --- launches ---

typedef struct {
    Function* function;
    Index grid, block;
    unsigned offsets[64];
    _Alignas(16) char values[4096];
} Launch;

static void set_block(uint64_t b) {
    gpu_block_index = (Index){b % gpu_grid_size.x, b / gpu_grid_size.x % gpu_grid_size.y,
                              b / gpu_grid_size.x / gpu_grid_size.y};
}

static uint64_t divisor(uint64_t a, uint64_t b) { return b ? divisor(b, a % b) : a; }

static void run(void* data) {
    Launch* launch = data;
    void* pointers[64];
    function = launch->function;
    for (int i = 0; function->sizes[i]; i++) pointers[i] = launch->values + launch->offsets[i];
    arguments = pointers;
    gpu_thread_index = (Index){0, 0, 0};
    gpu_grid_size = launch->grid;
    gpu_block_size = launch->block;
    uint64_t blocks = (uint64_t)launch->grid.x * launch->grid.y * launch->grid.z;
    uint64_t threads = (uint64_t)launch->block.x * launch->block.y * launch->block.z;
    if (function->barriers) {
        for (uint64_t b = blocks; b-- > 0;) {
            set_block(b);
            run_block_of_fibres(threads);
        }
        return;
    }
    // Whole blocks in an order that jumps, and their threads backwards, begun in the middle.
    uint64_t stride = blocks * 2 / 3 + 1, b = blocks / 3;
    while (divisor(stride, blocks) != 1) stride++;
    for (uint64_t i = 0; i < blocks; i++, b = (b + stride) % blocks) {
        set_block(b);
        for (unsigned k = 0, t = threads / 2; k < threads; k++, t = t ? t - 1 : threads - 1) {
            if (launch->block.y * launch->block.z == 1) gpu_thread_index.x = t;
            else set_thread(t);
            function->call(arguments);
        }
    }
}

// A pointer to device memory, as an argument or at the start of one (CuPy's arrays begin with it), must be valid here.
static int bad_pointer(const char* kernel, const void* value, unsigned size) {
    void* p;
    if (size < sizeof p) return 0;
    memcpy(&p, value, sizeof p);
    return gpu_range_problem(kernel, p, 1, gpu_device());
}

Error cuLaunchKernel(Function* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                     unsigned shared, void* handle, void** values, void** extra) {
    gpu_lock();
    Stream* stream = gpu_stream(handle);
    Error error = gpu_error();
    if (!error && (!stream || f->device != gpu_device())) error = INVALID_HANDLE;
    if (!error && (!gx || !gy || !gz || gx > 2147483647u || gy > 65535 || gz > 65535 || !bx || !by || !bz ||
                   (uint64_t)bx * by * bz > MOST_THREADS || bz > 64 || shared > SHARED || extra))
        error = INVALID_VALUE;
    if (!error) {
        Launch launch = {f, {gx, gy, gz}, {bx, by, bz}};
        size_t room = 0;
        for (int i = 0; f->sizes[i]; i++) {
            if (bad_pointer(f->name, values[i], f->sizes[i])) error = gpu_error();
            memcpy(launch.values + room, values[i], f->sizes[i]);
            launch.offsets[i] = room;
            room += (f->sizes[i] + 15) / 16 * 16;
        }
        if (!error)
            error = gpu_launch(stream, f->name, gx * gy * gz, bx * by * bz, run, &launch, offsetof(Launch, values) + room);
    }
    gpu_unlock();
    return error;
}

// --- the record of launches, for tests ---

static struct {
    char name[128];
    unsigned blocks, threads;
} record[1 << 16];
static unsigned long noted;

void gpu_note(const char* name, unsigned blocks, unsigned threads) {
    unsigned long i = noted++ % (1 << 16);
    snprintf(record[i].name, sizeof record[i].name, "%s", name);
    record[i].blocks = blocks;
    record[i].threads = threads;
}

unsigned long gpu_noted(void) { return noted; }
const char* gpu_record(unsigned long i, unsigned* blocks, unsigned* threads) {
    i %= 1 << 16;
    *blocks = record[i].blocks;
    *threads = record[i].threads;
    return record[i].name;
}
