// Dropout, with the random bits of minicnn/random.py.

// Four words of 64 bits, a function of a counter of four words and a key of two: Philox 4x64, 10 rounds.
__device__ void philox(u64* c, u64 k0, u64 k1) {
    for (int round = 0; round < 10; round++) {
        u64 high0 = __umul64hi(0xD2E7470EE14C6C93ull, c[0]), low0 = 0xD2E7470EE14C6C93ull * c[0];
        u64 high1 = __umul64hi(0xCA5A826395121157ull, c[2]), low1 = 0xCA5A826395121157ull * c[2];
        c[0] = high1 ^ c[1] ^ k0;
        c[1] = low1;
        c[2] = high0 ^ c[3] ^ k1;
        c[3] = low0;
        k0 += 0x9E3779B97F4A7C15ull;
        k1 += 0xBB67AE8584CAA73Bull;
    }
}

// Bit j of word i is set if the 16 random bits of its element reach the threshold; y = x scale there, and 0 elsewhere.  A thread
// for each block of Philox, which has bits for 16 elements; a sample has `size` elements and `blocks` words.  `before` blocks
// belong to samples of the global batch that come before these.  In a graph all of these are as they were when it was
// captured; `ahead` tells how many steps have passed since.
KERNEL dropout(REAL* y, u16* words, const REAL* x, const u64* ahead, INDEX threshold, REAL scale, INDEX size,
               INDEX blocks, u64 key0, u64 key1, u64 step, u64 before, INDEX count) {
    EACH(i, count) {
        u64 c[4] = {before + (u64)i + 1, 0, ahead ? step + *ahead : step, 1};
        philox(c, key0, key1);
        INDEX at = i % blocks * 16, first = i / blocks * size + at, left = smaller<INDEX>(16, size - at);
        unsigned word = 0;
        for (int j = 0; j < 16; j++) {
            INDEX lane = (INDEX)(c[j / 4] >> (16 * (j % 4)) & 0xFFFF);
            unsigned bit = lane >= threshold;
            word |= bit << j;
            if (j < left) y[first + j] = bit ? x[first + j] * scale : 0;
        }
        words[i] = (u16)word;
    }
}

// The same with the words: gx = g scale where a bit is set, 0 elsewhere.
KERNEL dropout_grad(REAL* gx, const REAL* g, const u16* words, REAL scale, INDEX size, INDEX blocks, INDEX count) {
    EACH(i, count) {
        INDEX at = i % size;
        u16 word = words[i / size * blocks + at / 16];
        gx[i] = word >> (at % 16) & 1 ? g[i] * scale : 0;
    }
}
