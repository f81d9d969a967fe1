/* What the Python side must know about the build, and a way to notice changes. */

#include "vector.h"
#ifdef BF16
#include "bf16.h"
#else
#define INSTRUCTIONS 0
#endif

long lanes(void) { return LANES; }

/* Whether products are in bf16, and the processor has instructions for that. */
long instructions(void) { return INSTRUCTIONS; }

/* 128 numbers that tell contents of memory apart: two for each of 64 strands, into which its words of 4 bytes are dealt.
   Both are changed by any change of one word, since every step can be undone; that a change of several words leaves both
   as they were has a chance of 2^-64. */
void fingerprint(const uint32_t *words, long count, uint32_t *numbers) {
    uint32_t *first = numbers, *second = numbers + 64;
    for (int j = 0; j < 64; j++) first[j] = second[j] = (uint32_t)j;
    long i = 0;
    for (; i + 64 <= count; i += 64)
        for (int j = 0; j < 64; j++) {
            first[j] = (first[j] ^ words[i + j]) * 0x9E3779B1u;
            second[j] = (second[j] + words[i + j]) * 0x85EBCA77u;
            second[j] ^= second[j] >> 15;
        }
    for (int j = 0; i < count; i++, j++) {
        first[j] = (first[j] ^ words[i]) * 0x9E3779B1u;
        second[j] = (second[j] + words[i]) * 0x85EBCA77u;
        second[j] ^= second[j] >> 15;
    }
}
