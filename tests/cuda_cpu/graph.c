// Graphs: work that a stream keeps instead of doing it; a launch of the graph does it, as often as the program asks.
//
// One stream is captured at a time, and no other joins it through events.  What CUDA does not allow meanwhile (waiting for
// the stream, the default stream, copies from and to ordinary memory) is an error, and ends the capture.  So is, here
// alone, a copy from page-locked memory: it would be read again at every launch, when it may belong to somebody else.
#include "device.h"

#include <stdlib.h>
#include <string.h>

typedef struct Node {
    struct Node* next;
    const char* name;
    void (*run)(void*);
    size_t bytes;
    _Alignas(16) char data[];
} Node;

struct Graph {
    Node *first, **last;
    unsigned nodes;
    int device, broken, owners;  // the program destroys what was captured, and what was made ready to launch, one by one
};

Error gpu_keep(Graph* graph, const char* name, void (*run)(void*), const void* data, size_t bytes) {
    Node* node = calloc(1, sizeof *node + bytes);
    node->name = name;
    node->run = run;
    node->bytes = bytes;
    memcpy(node->data, data, bytes);
    *graph->last = node;
    graph->last = &node->next;
    graph->nodes++;
    return NONE;
}

Error gpu_break(Stream* stream) { return (*gpu_capture(stream))->broken = 1, CAPTURE_UNSUPPORTED; }

Error cudaStreamBeginCapture(void* handle, int mode) {
    Stream* stream = gpu_stream(handle);
    if (!stream) return INVALID_HANDLE;
    if (gpu_is_blocking(stream) || *gpu_capture(stream)) return CAPTURE_UNSUPPORTED;
    Graph* graph = *gpu_capture(stream) = calloc(1, sizeof *graph);
    graph->last = &graph->first;
    graph->device = gpu_device();
    graph->owners = 1;
    return NONE;
}

Error cudaStreamIsCapturing(void* handle, int* status) {
    Stream* stream = gpu_stream(handle);
    if (!stream) return INVALID_HANDLE;
    Graph* graph = *gpu_capture(stream);
    return *status = !graph ? 0 : graph->broken ? 2 : 1, NONE;
}

Error cudaStreamEndCapture(void* handle, Graph** graph) {
    Stream* stream = gpu_stream(handle);
    if (!stream || !*gpu_capture(stream)) return INVALID_VALUE;
    *graph = *gpu_capture(stream);
    *gpu_capture(stream) = NULL;
    if (!(*graph)->broken) return NONE;
    return cudaGraphDestroy(*graph), *graph = NULL, CAPTURE_INVALIDATED;
}

Error cudaGraphInstantiate(Graph** ready, Graph* graph, unsigned long long flags) {
    return graph->owners++, *ready = graph, NONE;
}

Error cudaGraphLaunch(Graph* graph, void* handle) {
    gpu_lock();
    Stream* stream = gpu_stream(handle);
    Error error = !stream || graph->device != gpu_device() ? INVALID_HANDLE : gpu_error();
    if (!error) gpu_note("graph", graph->nodes, 1);
    for (Node* node = gpu_idle() ? NULL : graph->first; node && !error; node = node->next)
        error = gpu_enqueue(stream, node->name, node->run, node->data, node->bytes);
    gpu_unlock();
    return error;
}

Error cudaGraphDestroy(Graph* graph) {
    if (--graph->owners) return NONE;
    for (Node* node; (node = graph->first); free(node)) graph->first = node->next;
    free(graph);
    return NONE;
}
Error cudaGraphExecDestroy(Graph* graph) { return cudaGraphDestroy(graph); }
