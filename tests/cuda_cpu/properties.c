// What a device says of itself: an A100 of little memory.
#include "device.h"

#include <string.h>

Error cudaDeviceGetAttribute(int* value, int attribute, int device) {
    switch (attribute) {
        case 1: case 2: case 3: *value = 1024; break;   // threads of a block, along x, along y
        case 4: *value = 64; break;                     // along z
        case 5: *value = 2147483647; break;             // blocks
        case 6: case 7: *value = 65535; break;
        case 8: case 97: *value = SHARED; break;        // shared memory of a block
        case 10: *value = WARP; break;
        case 12: *value = 65536; break;                 // registers
        case 16: *value = 108; break;                   // multiprocessors
        case 39: *value = 2048; break;                  // threads of a multiprocessor
        case 75: *value = 8; break;                     // compute capability 8.0
        default: *value = 0;
    }
    return NONE;
}

struct DeviceProperties {  // the beginning of cudaDeviceProp
    char name[256], uuid[16], luid[8];
    unsigned mask;
    size_t memory, shared;
    int registers, warp;
    size_t pitch;
    int threads, block[3], grid[3], clock;
    size_t constant;
    int major, minor;
};

Error cudaGetDeviceProperties_v2(struct DeviceProperties* p, int device) {
    size_t left, total;
    cudaMemGetInfo(&left, &total);
    memset(p, 0, sizeof *p);
    strcpy(p->name, "a CPU in the place of a GPU");
    p->memory = total, p->shared = SHARED, p->registers = 65536, p->warp = WARP, p->threads = MOST_THREADS;
    p->block[0] = p->block[1] = 1024, p->block[2] = 64, p->grid[0] = 2147483647, p->grid[1] = p->grid[2] = 65535;
    p->major = 8;
    return NONE;
}
