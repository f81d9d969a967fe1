// Devices, streams and events.
//
// Work waits in the queue of its stream.  A real GPU may do it at any time that events and synchronisation allow; this
// one does it as late as they allow ("late"), at once ("now"), or at random times between ("random").  Whoever forgot to
// wait then gets wrong numbers here, every time, and not only on the user's machine.
#define _GNU_SOURCE
#include "device.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct Event {
    Stream* stream;  // where it was recorded last, and after which piece of work; NULL if never
    uint64_t number;
    double seconds;  // when it was reached
} Event;

typedef struct Work {
    struct Work* next;
    uint64_t number;        // in the order in which the program asked for it, over all streams
    const char* name;
    void (*run)(void*);     // or NULL: then this work waits for
    Stream* stream;         // work up to
    uint64_t until;         // this number on that stream
    _Alignas(16) char data[];
} Work;

struct Stream {
    int device, blocking, alive;  // a blocking stream and the default stream wait for each other
    Work *first, **last;
    Stream* next;
    Graph* capture;  // where its work goes instead, while it is captured
};

enum { SEEN = 2 };  // devices that the program finds

static pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static __thread int current;
static Stream defaults[DEVICES];
static Stream* others;
static uint64_t numbers;
static Error errors[DEVICES];
static char explanation[500];
static enum { NOW, LATE, RANDOM, NEVER } when = LATE;
static uint64_t dice = 1;
static long waits;

void gpu_lock(void) { pthread_mutex_lock(&mutex); }
void gpu_unlock(void) { pthread_mutex_unlock(&mutex); }
int gpu_device(void) { return current; }
int gpu_idle(void) { return when == NEVER; }

// --- errors ---

const char* cudaGetErrorString(Error error);

Error gpu_error(void) { return errors[current]; }

Error gpu_fail(Error error, const char* format, ...) {
    va_list values;
    va_start(values, format);
    if (!errors[current]) {
        errors[current] = error;
        vsnprintf(explanation, sizeof explanation, format, values);
    }
    va_end(values);
    return error;
}

static void forget(Stream* stream) {
    for (Work* work; (work = stream->first); free(work)) stream->first = work->next;
    stream->last = &stream->first;
}

static void run_until(Stream* stream, uint64_t number);

// For tests: finishes all work and gives the first error, or NULL; then the devices are as new.  Real ones keep an error.
const char* gpu_finish(void) {
    Error error = NONE;
    gpu_lock();
    gpu_stream(NULL);  // makes the default streams
    for (int i = 0; i < DEVICES; i++) run_until(&defaults[i], numbers);
    for (Stream* s = others; s; s = s->next) run_until(s, numbers);
    for (int i = 0; i < DEVICES; i++) error = error ? error : errors[i], errors[i] = NONE, forget(&defaults[i]);
    for (Stream* s = others; s; s = s->next) forget(s);
    gpu_unlock();
    return error ? cudaGetErrorString(error) : NULL;
}

const char* cudaGetErrorName(Error error) {
    switch (error) {
        case NONE: return "cudaSuccess";
        case INVALID_VALUE: return "cudaErrorInvalidValue";
        case NO_MEMORY: return "cudaErrorMemoryAllocation";
        case NO_SUCH_DEVICE: return "cudaErrorInvalidDevice";
        case INVALID_HANDLE: return "cudaErrorInvalidResourceHandle";
        case NOT_READY: return "cudaErrorNotReady";
        case ILLEGAL_ADDRESS: return "cudaErrorIllegalAddress";
        case LAUNCH_FAILED: return "cudaErrorLaunchFailure";
        case NOT_SUPPORTED: return "cudaErrorNotSupported";
        case CAPTURE_UNSUPPORTED: return "cudaErrorStreamCaptureUnsupported";
        case CAPTURE_INVALIDATED: return "cudaErrorStreamCaptureInvalidated";
    }
    return "cudaErrorUnknown";
}

const char* cudaGetErrorString(Error error) {
    return error == ILLEGAL_ADDRESS || error == LAUNCH_FAILED || error == NOT_SUPPORTED ? explanation : cudaGetErrorName(error);
}

Error cuGetErrorName(Error error, const char** text) { return *text = cudaGetErrorName(error), NONE; }
Error cuGetErrorString(Error error, const char** text) { return *text = cudaGetErrorString(error), NONE; }
Error cudaGetLastError(void) { return gpu_error(); }

// A function of CUDA that is not written here (tests/cuda_cpu/build.py makes one of these for each).
Error gpu_missing(const char* name) {
    snprintf(explanation, sizeof explanation, "the CPU in the place of a GPU has no %s", name);
    fprintf(stderr, "%s\n", explanation);
    return NOT_SUPPORTED;
}

// --- devices ---

Error cudaGetDeviceCount(int* count) { return *count = SEEN, NONE; }
Error cudaGetDevice(int* device) { return *device = current, NONE; }
Error cudaSetDevice(int device) {
    if (device < 0 || device >= SEEN) return NO_SUCH_DEVICE;
    current = device;
    return NONE;
}
Error cudaDeviceCanAccessPeer(int* can, int device, int other) { return *can = 0, NONE; }
Error cudaDriverGetVersion(int* version) { return *version = 12090, NONE; }
Error cudaRuntimeGetVersion(int* version) { return *version = 12090, NONE; }

// --- streams ---

Stream* gpu_stream(void* handle) {
    static int made;
    if (!made) {
        for (int i = 0; i < DEVICES; i++) defaults[i] = (Stream){i, 1, 1, NULL, &defaults[i].first, NULL};
        made = 1;
    }
    if ((uintptr_t)handle <= 2) return &defaults[current];  // 1 and 2: the default stream by its other names
    for (Stream* s = others; s; s = s->next)
        if (s == handle) return s->alive && s->device == current ? s : NULL;
    return NULL;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

// What must be done before the work of a stream with this number may begin.
static void run_what_comes_before(Stream* stream, uint64_t number) {
    if (!stream->blocking) return;
    if (stream != &defaults[stream->device]) run_until(&defaults[stream->device], number - 1);
    else
        for (Stream* s = others; s; s = s->next)
            if (s->blocking && s->device == stream->device) run_until(s, number - 1);
}

static void run_until(Stream* stream, uint64_t number) {
    int before = current;
    while (stream->first && stream->first->number <= number) {
        Work* work = stream->first;
        run_what_comes_before(stream, work->number);
        if (!work->run) run_until(work->stream, work->until);
        if (stream->first != work) continue;
        stream->first = work->next;
        if (!stream->first) stream->last = &stream->first;
        current = stream->device;
        if (work->run && !errors[current]) gpu_guarded(work->name, work->run, work->data);
        current = before;
        free(work);
    }
}

static Work* append(Stream* stream, size_t bytes) {
    Work* work = calloc(1, sizeof *work + bytes);
    work->number = ++numbers;
    *stream->last = work;
    stream->last = &work->next;
    return work;
}

static unsigned roll(unsigned sides) {
    dice = dice * 6364136223846793005ull + 1442695040888963407ull;
    return (dice >> 33) % sides;
}

static void run_some(Stream* stream) {
    if (when == NOW) run_until(stream, numbers);
    if (when != RANDOM) return;
    if (defaults[current].first && roll(2)) run_until(&defaults[current], defaults[current].first->number);
    for (Stream* s = others; s; s = s->next)
        if (s->first && roll(2)) run_until(s, s->first->number);
}

Error gpu_enqueue(Stream* stream, const char* name, void (*run)(void*), const void* data, size_t bytes) {
    if (stream->capture) return gpu_keep(stream->capture, name, run, data, bytes);
    gpu_lock();
    Work* work = append(stream, bytes);
    work->name = name;
    work->run = run;
    memcpy(work->data, data, bytes);
    run_some(stream);
    gpu_unlock();
    return gpu_error();
}

Error gpu_launch(Stream* stream, const char* name, unsigned blocks, unsigned threads, void (*run)(void*), const void* data,
                 size_t bytes) {
    if (stream->capture) return gpu_keep(stream->capture, name, run, data, bytes);
    gpu_note(name, blocks, threads);
    return gpu_idle() ? gpu_error() : gpu_enqueue(stream, name, run, data, bytes);
}

Error gpu_wait(Stream* stream) {
    if (stream->capture) return gpu_break(stream);
    gpu_lock();
    waits++;
    run_what_comes_before(stream, numbers + 1);
    run_until(stream, numbers);
    gpu_unlock();
    return gpu_error();
}

void gpu_catch_up(void) { run_until(gpu_stream(NULL), numbers); }

Graph** gpu_capture(Stream* stream) { return &stream->capture; }
int gpu_is_blocking(const Stream* stream) { return stream->blocking; }

static Error new_stream(void** handle, int blocking) {
    gpu_lock();
    Stream* stream = calloc(1, sizeof *stream);
    *stream = (Stream){current, blocking, 1, NULL, &stream->first, others};
    *handle = others = stream;
    gpu_unlock();
    return gpu_error();
}

Error cudaStreamCreate(void** handle) { return new_stream(handle, 1); }
Error cudaStreamCreateWithFlags(void** handle, unsigned flags) { return new_stream(handle, !(flags & 1)); }
Error cudaStreamCreateWithPriority(void** handle, unsigned flags, int priority) { return new_stream(handle, !(flags & 1)); }
Error cudaStreamDestroy(void* handle) {  // returns at once; what is queued there is still done
    Stream* stream = gpu_stream(handle);
    return stream ? (stream->alive = 0, NONE) : INVALID_HANDLE;
}
Error cudaStreamSynchronize(void* handle) {
    Stream* stream = gpu_stream(handle);
    return stream ? gpu_wait(stream) : INVALID_HANDLE;
}
Error cudaStreamQuery(void* handle) {
    gpu_lock();
    Stream* stream = gpu_stream(handle);
    if (stream && stream->capture) return gpu_unlock(), gpu_break(stream);
    if (stream && stream->first) run_until(stream, stream->first->number);  // whoever asks again and again gets there
    Error error = !stream ? INVALID_HANDLE : stream->first ? NOT_READY : gpu_error();
    gpu_unlock();
    return error;
}
Error cudaDeviceSynchronize(void) {
    for (Stream* s = others; s; s = s->next) if (s->device == current && s->capture) return gpu_break(s);
    gpu_lock();
    gpu_wait(&defaults[current]);
    for (Stream* s = others; s; s = s->next) if (s->device == current) run_until(s, numbers);
    gpu_unlock();
    return gpu_error();
}

// --- events ---

Error cudaEventCreate(void** event) { return *event = calloc(1, sizeof(Event)), gpu_error(); }
Error cudaEventCreateWithFlags(void** event, unsigned flags) { return cudaEventCreate(event); }
Error cudaEventDestroy(void* event) { return NONE; }  // work may still mention it; they are small

static void reached(void* event) { (*(Event**)event)->seconds = now(); }

Error cudaEventRecord(void* handle, void* stream_handle) {
    gpu_lock();
    Stream* stream = gpu_stream(stream_handle);
    Event* event = handle;
    if (stream && stream->capture) return gpu_unlock(), gpu_break(stream);
    Error error = stream ? gpu_enqueue(stream, "record", reached, &event, sizeof event) : INVALID_HANDLE;
    if (stream) event->stream = stream, event->number = numbers;
    gpu_unlock();
    return error;
}

Error cudaStreamWaitEvent(void* handle, void* event_handle, unsigned flags) {
    gpu_lock();
    Stream* stream = gpu_stream(handle);
    Event* event = event_handle;
    if (stream && stream->capture) return gpu_unlock(), gpu_break(stream);
    if (stream && event->stream) {
        Work* work = append(stream, 0);
        work->name = "wait";
        work->stream = event->stream;
        work->until = event->number;
        run_some(stream);
    }
    gpu_unlock();
    return stream ? gpu_error() : INVALID_HANDLE;
}

Error cudaEventSynchronize(void* handle) {
    gpu_lock();
    Event* event = handle;
    waits++;
    if (event->stream) run_until(event->stream, event->number);
    gpu_unlock();
    return gpu_error();
}

Error cudaEventQuery(void* handle) {
    gpu_lock();
    Event* event = handle;
    int waiting = event->stream && event->stream->first && event->stream->first->number <= event->number;
    if (waiting) run_until(event->stream, event->stream->first->number);
    gpu_unlock();
    return waiting ? NOT_READY : gpu_error();
}

Error cudaEventElapsedTime(float* milliseconds, void* from, void* to) {
    *milliseconds = 1e3 * (((Event*)to)->seconds - ((Event*)from)->seconds);
    return gpu_error();
}

// --- for tests ---

void gpu_order(int order, uint64_t seed) {  // NOW, LATE, RANDOM or NEVER
    gpu_lock();
    when = order;
    dice = 2 * seed + 1;
    gpu_unlock();
}

long gpu_waits(void) { return waits; }  // how often the program waited for a device
