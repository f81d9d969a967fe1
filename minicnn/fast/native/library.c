/* What the Python side must know about the build, and a comparison. */

#include "vector.h"

long lanes(void) { return LANES; }

long same_bytes(const void *a, const void *b, long count) { return memcmp(a, b, (size_t)count) == 0; }
