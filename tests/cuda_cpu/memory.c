// Memory of the devices.
//
// Every device has a range of addresses of its own, and no address is used twice.  A block ends where a page ends that
// nobody may touch, and begins after such a page; new memory holds 0xff (NaN, or -1) and freed memory cannot be touched.
// So whoever reads a bit too far, reads what was never written, or uses what was freed, is found out.
#define _GNU_SOURCE
#include "device.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, ALIGNMENT = 4, POISON = 0xff };
static const size_t RANGE = 1ull << 40;  // addresses of one device
static const size_t LIMIT = 4ull << 30;  // bytes of one device

typedef struct {
    char* start;
    size_t bytes;
    int live;
} Block;

static char* base;  // where the addresses of device 0 begin; those of the others follow, then those of the host
static struct {
    Block* blocks;  // all that ever were, by address
    size_t count, room, next, used;
} memory[DEVICES + 1];

static size_t taken[DEVICES + 1];  // bytes that other programs have, so the tests say

static size_t limit(int owner) { return LIMIT - taken[owner]; }

// Other programs take all but `left` bytes of what is free, nothing if less is free.
void gpu_leave(int owner, size_t left) {
    size_t free = LIMIT - memory[owner].used;
    taken[owner] = free > left ? free - left : 0;
}

static size_t whole_pages(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

int gpu_owner(const void* p) {
    if (!base || (char*)p < base || (char*)p >= base + RANGE * (DEVICES + 1)) return -1;
    return ((char*)p - base) / RANGE;
}

// The last block that begins at or before p.
static Block* block_before(const void* p) {
    int owner = gpu_owner(p);
    if (owner < 0) return NULL;
    size_t low = 0, high = memory[owner].count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (memory[owner].blocks[middle].start <= (char*)p) low = middle + 1;
        else high = middle;
    }
    return low ? &memory[owner].blocks[low - 1] : NULL;
}

static Error reserve(int owner, size_t bytes, void** result) {
    if (!base) base = mmap(NULL, RANGE * (DEVICES + 1), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED || memory[owner].used + bytes > limit(owner)) return NO_MEMORY;
    size_t pages = whole_pages(bytes), next = memory[owner].next + PAGE;
    char* first = base + RANGE * owner + next;
    if (next + pages > RANGE - PAGE || mprotect(first, pages, PROT_READ | PROT_WRITE)) return NO_MEMORY;
    memory[owner].next = next + pages;
    memset(first, POISON, pages);
    if (memory[owner].count == memory[owner].room) {
        memory[owner].room = memory[owner].room ? 2 * memory[owner].room : 1024;
        memory[owner].blocks = realloc(memory[owner].blocks, memory[owner].room * sizeof(Block));
    }
    char* start = first + pages - (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    memory[owner].blocks[memory[owner].count++] = (Block){start, bytes, 1};
    memory[owner].used += bytes;
    *result = start;
    return NONE;
}

// Bytes in the pages of a block but outside of it, which must be as they were.
static int overwritten(const Block* block) {
    const char* end = block->start + block->bytes;
    const char* page = (char*)((uintptr_t)block->start / PAGE * PAGE);
    for (const char* p = page; p < block->start; p++) if (*p != (char)POISON) return 1;
    for (const char* p = end; (uintptr_t)p % PAGE; p++) if (*p != (char)POISON) return 1;
    return 0;
}

// Work that was queued earlier may still use the memory: a stream calls this when its turn has come.
void gpu_release(void* p) {
    Block* block = block_before(p);
    if (overwritten(block)) gpu_fail(ILLEGAL_ADDRESS, "something wrote beside %s", gpu_place(p));
    char* first = (char*)((uintptr_t)block->start / PAGE * PAGE);
    madvise(first, whole_pages(block->bytes), MADV_DONTNEED);
    mprotect(first, whole_pages(block->bytes), PROT_NONE);
}

const char* gpu_place(const void* p) {
    static char text[200];
    int owner = gpu_owner(p);
    const Block* block = block_before(p);
    if (owner < 0 || !block) return "memory that no device has";
    long offset = (char*)p - block->start;
    snprintf(text, sizeof text, "byte %ld of a%s block of %zu on %s %d", offset, block->live ? "" : " freed", block->bytes,
             owner == HOST ? "the host" : "device", owner == HOST ? 0 : owner);
    return text;
}

int gpu_range_problem(const char* what, const void* p, size_t bytes, int device) {
    int owner = gpu_owner(p);
    if (owner < 0 || bytes == 0) return 0;
    const Block* block = block_before(p);
    if (owner != HOST && owner != device)
        return gpu_fail(ILLEGAL_ADDRESS, "%s on device %d got a pointer of another device: %s", what, device, gpu_place(p));
    if (!block || !block->live || (char*)p + bytes > block->start + block->bytes)
        return gpu_fail(ILLEGAL_ADDRESS, "%s uses %zu bytes from %s", what, bytes, gpu_place(p));
    return 0;
}

static Error allocate(int owner, void** result, size_t bytes) {
    gpu_lock();
    *result = NULL;
    Error error = gpu_error();
    if (!error && bytes) error = reserve(owner, bytes, result);
    if (error == NO_MEMORY && memory[owner].used + bytes <= limit(owner)) {  // the system's limit of mappings: do what is queued
        gpu_catch_up();
        error = reserve(owner, bytes, result);
    }
    gpu_unlock();
    return error;
}

static void release_later(void* data) { gpu_release(*(void**)data); }

// The program may use the address no longer.  What is queued already may: the stream that computes frees it in its turn,
// as CuPy's pool reuses memory.  Work of another stream that is then still waiting, and uses it, is a bug.
static Error give_back(void* p) {
    if (!p) return NONE;
    gpu_lock();
    Block* block = block_before(p);
    Error error = INVALID_VALUE;
    if (block && block->live && block->start == p) {
        block->live = 0;
        memory[gpu_owner(p)].used -= block->bytes;
        error = gpu_owner(p) == HOST ? (gpu_release(p), NONE)
                                     : gpu_enqueue(gpu_stream(NULL), "free", release_later, &p, sizeof p);
    }
    gpu_unlock();
    return error;
}

Error cudaMalloc(void** p, size_t bytes) { return allocate(gpu_device(), p, bytes); }
Error cudaFree(void* p) { return give_back(p); }
Error cudaHostAlloc(void** p, size_t bytes, unsigned flags) { return allocate(HOST, p, bytes); }
Error cudaFreeHost(void* p) { return give_back(p); }

Error cudaMemGetInfo(size_t* left, size_t* total) {
    *total = LIMIT;
    *left = limit(gpu_device()) - memory[gpu_device()].used;
    return gpu_error();
}

struct PointerAttributes {  // cudaPointerAttributes
    int type, device;
    void *on_device, *on_host;
};

Error cudaPointerGetAttributes(struct PointerAttributes* result, const void* p) {
    int owner = gpu_owner(p);
    *result = (struct PointerAttributes){0, -2, NULL, NULL};
    if (owner == HOST) *result = (struct PointerAttributes){1, gpu_device(), (void*)p, (void*)p};
    else if (owner >= 0) *result = (struct PointerAttributes){2, owner, (void*)p, NULL};
    return NONE;
}

// --- copies ---

typedef struct {
    void* to;
    const void* from;
    size_t bytes;
    void* staged;  // a copy of `from`, where that is ordinary memory, which the program may change at once
} Copy;

static void copy(void* data) {
    Copy* c = data;
    memmove(c->to, c->staged ? c->staged : c->from, c->bytes);
    free(c->staged);
}

static Error enqueue_copy(void* to, const void* from, size_t bytes, int to_device, int from_device, void* handle) {
    gpu_lock();
    Stream* stream = gpu_stream(handle);
    Error error = stream ? gpu_error() : INVALID_HANDLE;
    if (!error && (gpu_range_problem("a copy", to, bytes, to_device) || gpu_range_problem("a copy", from, bytes, from_device)))
        error = gpu_error();
    int within = gpu_owner(to) >= 0 && gpu_owner(to) != HOST && gpu_owner(from) >= 0 && gpu_owner(from) != HOST;
    if (!error && *gpu_capture(stream) && !within) error = gpu_break(stream);
    if (!error && bytes) {
        Copy c = {to, from, bytes, NULL};
        if (gpu_owner(from) < 0) c.staged = memcpy(malloc(bytes), from, bytes);
        error = gpu_enqueue(stream, "copy", copy, &c, sizeof c);
        if (!error && gpu_owner(to) < 0) error = gpu_wait(stream);  // to ordinary memory: the program waits
    }
    gpu_unlock();
    return error;
}

Error cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
    return enqueue_copy(to, from, bytes, gpu_device(), gpu_device(), stream);
}

Error cudaMemcpy(void* to, const void* from, size_t bytes, int kind) {
    Error error = cudaMemcpyAsync(to, from, bytes, kind, NULL);
    return error ? error : gpu_wait(gpu_stream(NULL));
}

Error cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes, void* stream) {
    return enqueue_copy(to, from, bytes, to_device, from_device, stream);
}

Error cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t bytes) {
    Error error = enqueue_copy(to, from, bytes, to_device, from_device, NULL);
    return error ? error : gpu_wait(gpu_stream(NULL));
}

typedef struct {
    void* to;
    int value;
    size_t bytes;
} Fill;

static void fill(void* data) {
    Fill* f = data;
    memset(f->to, f->value, f->bytes);
}

Error cudaMemsetAsync(void* to, int value, size_t bytes, void* handle) {
    gpu_lock();
    Stream* stream = gpu_stream(handle);
    Error error = stream ? gpu_error() : INVALID_HANDLE;
    if (!error && gpu_range_problem("memset", to, bytes, gpu_device())) error = gpu_error();
    Fill f = {to, value, bytes};
    if (!error && bytes) error = gpu_enqueue(stream, "memset", fill, &f, sizeof f);
    gpu_unlock();
    return error;
}

Error cudaMemset(void* to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes, NULL); }
