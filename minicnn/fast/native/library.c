/* What the Python side must know about the build. */

#include "vector.h"

long lanes(void) { return LANES; }
