// A GPU made of a CPU: what the files of this folder share.  The functions called cuda*, cu*, nvrtc*, cublas* and
// cusolver* follow NVIDIA's documented interfaces; those called gpu_* are ours, for each other and for the tests.
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef int Error;  // cudaError_t and CUresult: the numbers that we use mean the same in both
enum {
    NONE = 0, INVALID_VALUE = 1, NO_MEMORY = 2, NO_SUCH_DEVICE = 101, BAD_IMAGE = 200, INVALID_HANDLE = 400,
    NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700, LAUNCH_FAILED = 719, NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901
};

typedef struct Stream Stream;
typedef struct Graph Graph;

// memory.c: blocks of memory between pages that nobody may touch
enum { DEVICES = 8, HOST = DEVICES };  // page-locked memory of the host lies beside that of the devices
int gpu_owner(const void* p);  // the device whose memory p points into, HOST, or -1: other memory of the program
int gpu_range_problem(const char* what, const void* p, size_t bytes, int device);  // notes the error, if there is one
void gpu_release(void* p);
const char* gpu_place(const void* p);  // in words, for messages

// queue.c: streams, events, and when work is done
void gpu_lock(void);
void gpu_unlock(void);
int gpu_device(void);  // the current device of this thread
Stream* gpu_stream(void* handle);  // of the current device, or NULL if it belongs to another
// Work for a stream: `run` gets a copy of `data` when its turn comes.
Error gpu_enqueue(Stream* stream, const char* name, void (*run)(void*), const void* data, size_t bytes);
// A launch: noted, and work for the stream unless launches are to do nothing.
Error gpu_launch(Stream* stream, const char* name, unsigned blocks, unsigned threads, void (*run)(void*), const void* data,
                 size_t bytes);
int gpu_is_blocking(const Stream* stream);  // whether it and the default stream wait for each other
Error gpu_wait(Stream* stream);  // does all that is queued there
void gpu_catch_up(void);  // does all that is queued on the default stream, which may happen at any time
Error gpu_fail(Error error, const char* format, ...);  // notes an error of the current device, as on a GPU: it stays
Error gpu_error(void);
Error gpu_missing(const char* name);  // says that there is no such function here
Error cudaMemGetInfo(size_t* left, size_t* total);
Error cudaMalloc(void** p, size_t bytes);
Error cudaFree(void* p);
int gpu_idle(void);  // whether launches are to do nothing, so that the time of the host alone can be measured
void gpu_note(const char* name, unsigned blocks, unsigned threads);  // in the record of launches

// graph.c: work that is kept
Graph** gpu_capture(Stream* stream);  // where the work of a stream goes while it is captured; NULL if it is not (queue.c)
Error gpu_keep(Graph* graph, const char* name, void (*run)(void*), const void* data, size_t bytes);
Error gpu_break(Stream* stream);  // something happened that a capture does not allow
Error cudaGraphDestroy(Graph* graph);

// What a block of threads may have.
enum { MOST_THREADS = 1024, WARP = 32, SHARED = 49152 };

// launch.c: runs `work(data)`; a wild access within ends it and becomes an error of the device
void gpu_guarded(const char* name, void (*work)(void*), void* data);
