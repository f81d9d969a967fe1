/* Windows over images: what minicnn/ops/windows.py calls Windows. */

#ifndef WINDOWS_H
#define WINDOWS_H

typedef struct {
    long height, width, channels; /* of an image */
    long kh, kw;
    long down, across;  /* strides */
    long top, left;     /* padding */
    long rows, columns; /* of windows in an image */
} windows;

#endif
