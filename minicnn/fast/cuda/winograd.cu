// Winograd's transforms of 6x6 tiles; minicnn/fast/winograd.py explains them.
//
// Tile (r, q) of image n has number t = (n rows + r) columns + q; its places lie in (36, tiles, C), a thread for each
// tile and channel, neighbouring threads on neighbouring channels.  STEP outputs per side: 4 for 3x3 filters, 2 for 5x5.
// The multiplications are written out: B has entries up to 5, A powers of 2.

// Reciprocals, for a thread that finds its tile and channel.
#define PER_TILE u64 by_channels, u64 by_columns, u64 by_rows
#define THE_PER_TILE by_channels, by_columns, by_rows

enum { WIDTH = 4 };  // of the strips of input_transform_adjoint: STRIP of winograd.py

// t = B' d for six numbers: the values at the points 0, 1, -1, 2, -2 and infinity.
__device__ void input_points(const REAL* d, REAL* t) {
    t[0] = 4 * d[0] - 5 * d[2] + d[4];
    t[1] = d[3] + d[4] - 4 * (d[1] + d[2]);
    t[2] = d[4] - d[3] + 4 * (d[1] - d[2]);
    t[3] = d[4] - d[2] + 2 * (d[3] - d[1]);
    t[4] = d[4] - d[2] + 2 * (d[1] - d[3]);
    t[5] = 4 * d[1] - 5 * d[3] + d[5];
}

// d = B t, the transpose.
__device__ void input_points_adjoint(const REAL* t, REAL* d) {
    d[0] = 4 * t[0];
    d[1] = 4 * (t[2] - t[1] + t[5]) + 2 * (t[4] - t[3]);
    d[2] = -5 * t[0] - 4 * (t[1] + t[2]) - t[3] - t[4];
    d[3] = t[1] - t[2] + 2 * (t[3] - t[4]) - 5 * t[5];
    d[4] = t[0] + t[1] + t[2] + t[3] + t[4];
    d[5] = t[5];
}

// y = A' m: row i has the i-th powers of the points; infinity sees the last row alone.
template <int STEP>
__device__ void output_points(const REAL* m, REAL* y) {
    REAL even1 = m[1] + m[2], odd1 = m[1] - m[2], even2 = m[3] + m[4], odd2 = m[3] - m[4];
    y[0] = m[0] + even1 + even2;
    y[1] = odd1 + 2 * odd2;
    if (STEP == 4) {
        y[2] = even1 + 4 * even2;
        y[STEP - 1] = odd1 + 8 * odd2;
    }
    y[STEP - 1] += m[5];
}

// m = A y, the transpose.
template <int STEP>
__device__ void output_points_adjoint(const REAL* y, REAL* m) {
    REAL even1 = y[0], odd1 = y[1], even2 = y[0], odd2 = 2 * y[1];
    if (STEP == 4) {
        even1 += y[STEP - 2];
        odd1 += y[STEP - 1];
        even2 += 4 * y[STEP - 2];
        odd2 += 8 * y[STEP - 1];
    }
    m[0] = y[0];
    m[1] = even1 + odd1;
    m[2] = even1 - odd1;
    m[3] = even2 + odd2;
    m[4] = even2 - odd2;
    m[5] = y[STEP - 1];
}

// V = B' d B: x (N, H, W, C) -> (36, tiles, C), zeros outside the image.
template <int STEP>
__device__ void input_transform(REAL* v, const REAL* x, INDEX H, INDEX W, INDEX C, INDEX top, INDEX left, INDEX rows,
                                INDEX columns, PER_TILE, INDEX count) {
    EACH(i, count) {
        INDEX n = i, c = split(n, C, by_channels), q = split(n, columns, by_columns), r = split(n, rows, by_rows);
        REAL half[36];  // B' d, by columns
        #pragma unroll
        for (int b = 0; b < 6; b++) {
            REAL d[6];
            #pragma unroll
            for (int a = 0; a < 6; a++) {
                INDEX h = r * STEP - top + a, w = q * STEP - left + b;
                bool inside = 0 <= h && h < H && 0 <= w && w < W;
                d[a] = inside ? x[((n * H + h) * W + w) * C + c] : 0;
            }
            input_points(d, half + 6 * b);
        }
        #pragma unroll
        for (int a = 0; a < 6; a++) {
            REAL d[6], t[6];
            #pragma unroll
            for (int b = 0; b < 6; b++) d[b] = half[6 * b + a];
            input_points(d, t);
            #pragma unroll
            for (int b = 0; b < 6; b++) v[(6 * a + b) * count + i] = t[b];
        }
    }
}

// gx = the sum over tiles of B gV B'.  Tiles overlap, by 6 - STEP rows and columns.  A thread goes down a strip of the
// image that is WIDTH columns wide, a row of tiles at a time, and adds up what they hold for it; what they hold for the
// rows below, it keeps for the next step.  So a tile is read by all strips that it reaches, but only once by each.
template <int STEP>
__device__ void input_transform_adjoint(REAL* gx, const REAL* gv, INDEX H, INDEX W, INDEX C, INDEX top, INDEX left,
                                        INDEX rows, INDEX columns, INDEX down, INDEX across, INDEX tiles,
                                        u64 by_channels, u64 by_across, INDEX count) {
    EACH(i, count) {
        INDEX n = i, c = split(n, C, by_channels), strip = split(n, across, by_across);
        REAL sum[6 * WIDTH];  // six rows of the strip: those of tiles r
        #pragma unroll
        for (int k = 0; k < 6 * WIDTH; k++) sum[k] = 0;
        #pragma unroll 1
        for (INDEX r = 0; r < down; r++) {
            #pragma unroll
            for (int s = -4; s < WIDTH; s += STEP) {  // the tile that starts at column s of the strip
                INDEX q = strip * (WIDTH / STEP) + s / STEP;
                if (r >= rows || q < 0 || q >= columns) continue;
                INDEX tile = (n * rows + r) * columns + q;
                REAL half[6 * WIDTH];  // gV B', the columns that lie here
                #pragma unroll
                for (int a = 0; a < 6; a++) {
                    REAL t[6], d[6];
                    #pragma unroll
                    for (int b = 0; b < 6; b++) t[b] = gv[((6 * a + b) * tiles + tile) * C + c];
                    input_points_adjoint(t, d);
                    #pragma unroll
                    for (int k = 0; k < WIDTH; k++) half[6 * k + a] = 0 <= k - s && k - s < 6 ? d[k - s] : 0;
                }
                #pragma unroll
                for (int k = 0; k < WIDTH; k++) {
                    if (k - s < 0 || k - s >= 6) continue;
                    REAL d[6];
                    input_points_adjoint(half + 6 * k, d);
                    #pragma unroll
                    for (int a = 0; a < 6; a++) sum[a * WIDTH + k] += d[a];
                }
            }
            #pragma unroll
            for (int a = 0; a < STEP; a++)
                #pragma unroll
                for (int k = 0; k < WIDTH; k++) {
                    INDEX h = r * STEP - top + a, w = strip * WIDTH - left + k;
                    if (0 <= h && h < H && 0 <= w && w < W) gx[((n * H + h) * W + w) * C + c] = sum[a * WIDTH + k];
                }
            #pragma unroll
            for (int k = 0; k < 6 * WIDTH; k++) sum[k] = k + STEP * WIDTH < 6 * WIDTH ? sum[k + STEP * WIDTH] : 0;
        }
    }
}

enum { IDENTITY, RELU, CRELU };  // what follows the convolution: ACTIVATIONS of winograd.py

// Write `value`, the response of filter f at a pixel, as the activation makes it (as in elementwise.cu).
__device__ void write_activated(REAL* y, REAL value, INDEX pixel, INDEX f, INDEX F, INDEX activation) {
    if (activation == CRELU) {
        y[pixel * 2 * F + f] = value <= 0 ? 0 : value;
        y[pixel * 2 * F + F + f] = value >= 0 ? 0 : -value;
    } else {
        y[pixel * F + f] = activation == RELU && value <= 0 ? 0 : value;
    }
}

// The gradient of that response, from the output y and its gradient g.
__device__ REAL response_gradient(const REAL* g, const REAL* y, INDEX pixel, INDEX f, INDEX F, INDEX activation) {
    if (activation == IDENTITY) return g[pixel * F + f];
    if (activation == RELU) return y[pixel * F + f] > 0 ? g[pixel * F + f] : 0;
    INDEX at = pixel * 2 * F + f;
    REAL positive = y[at] > 0 ? g[at] : 0, negative = y[at + F] > 0 ? g[at + F] : 0;
    return positive - negative;
}

// Y = A' M A + bias, activated: (36, tiles, F) -> (N, OH, OW, F), or 2 F by CReLU; without a bias its address is 0.
template <int STEP>
__device__ void output_transform(REAL* y, const REAL* m, const REAL* bias, INDEX OH, INDEX OW, INDEX F, INDEX rows,
                                 INDEX columns, INDEX activation, PER_TILE, INDEX count) {
    EACH(i, count) {
        INDEX n = i, f = split(n, F, by_channels), q = split(n, columns, by_columns), r = split(n, rows, by_rows);
        INDEX corner = (n * OH + r * STEP) * OW + q * STEP;  // the first pixel of the tile
        REAL shift = bias ? bias[f] : 0;
        REAL half[6 * STEP];  // A' M, by columns
        #pragma unroll
        for (int b = 0; b < 6; b++) {
            REAL t[6];
            #pragma unroll
            for (int a = 0; a < 6; a++) t[a] = m[(6 * a + b) * count + i];
            output_points<STEP>(t, half + STEP * b);
        }
        #pragma unroll
        for (int a = 0; a < STEP; a++) {
            REAL t[6], out[STEP];
            #pragma unroll
            for (int b = 0; b < 6; b++) t[b] = half[STEP * b + a];
            output_points<STEP>(t, out);
            #pragma unroll
            for (int k = 0; k < STEP; k++) {
                INDEX h = r * STEP + a, w = q * STEP + k;
                if (h < OH && w < OW) write_activated(y, out[k] + shift, corner + a * OW + k, f, F, activation);
            }
        }
    }
}

// gM = A gY A': (N, OH, OW, F) -> (36, tiles, F), zeros outside the image; gY from g and y, the output.
template <int STEP>
__device__ void output_transform_adjoint(REAL* gm, const REAL* g, const REAL* y, INDEX OH, INDEX OW, INDEX F, INDEX rows,
                                         INDEX columns, INDEX activation, PER_TILE, INDEX count) {
    EACH(i, count) {
        INDEX n = i, f = split(n, F, by_channels), q = split(n, columns, by_columns), r = split(n, rows, by_rows);
        INDEX corner = (n * OH + r * STEP) * OW + q * STEP;  // the first pixel of the tile
        REAL half[6 * STEP];  // A gY, by columns
        #pragma unroll
        for (int k = 0; k < STEP; k++) {
            REAL d[STEP];
            #pragma unroll
            for (int a = 0; a < STEP; a++) {
                INDEX h = r * STEP + a, w = q * STEP + k;
                d[a] = h < OH && w < OW ? response_gradient(g, y, corner + a * OW + k, f, F, activation) : 0;
            }
            output_points_adjoint<STEP>(d, half + 6 * k);
        }
        #pragma unroll
        for (int a = 0; a < 6; a++) {
            REAL d[STEP], t[6];
            #pragma unroll
            for (int k = 0; k < STEP; k++) d[k] = half[6 * k + a];
            output_points_adjoint<STEP>(d, t);
            #pragma unroll
            for (int b = 0; b < 6; b++) gm[(6 * a + b) * count + i] = t[b];
        }
    }
}

// The kernels: each transform for 3x3 filters (STEP 4) and for 5x5 (STEP 2).
#define KERNELS(STEP)                                                                                                  \
    KERNEL input_transform_##STEP(REAL* __restrict__ v, const REAL* __restrict__ x, INDEX H, INDEX W, INDEX C,         \
                                  INDEX top, INDEX left, INDEX rows, INDEX columns, PER_TILE, INDEX count) {           \
        input_transform<STEP>(v, x, H, W, C, top, left, rows, columns, THE_PER_TILE, count);                           \
    }                                                                                                                  \
    KERNEL input_transform_adjoint_##STEP(REAL* __restrict__ gx, const REAL* __restrict__ gv, INDEX H, INDEX W,        \
                                          INDEX C, INDEX top, INDEX left, INDEX rows, INDEX columns, INDEX down,       \
                                          INDEX across, INDEX tiles, u64 by_channels, u64 by_across, INDEX count) {    \
        input_transform_adjoint<STEP>(gx, gv, H, W, C, top, left, rows, columns, down, across, tiles, by_channels,     \
                                      by_across, count);                                                               \
    }                                                                                                                  \
    KERNEL output_transform_##STEP(REAL* __restrict__ y, const REAL* __restrict__ m, const REAL* __restrict__ bias,    \
                                   INDEX OH, INDEX OW, INDEX F, INDEX rows, INDEX columns, INDEX activation, PER_TILE, \
                                   INDEX count) {                                                                      \
        output_transform<STEP>(y, m, bias, OH, OW, F, rows, columns, activation, THE_PER_TILE, count);                 \
    }                                                                                                                  \
    KERNEL output_transform_adjoint_##STEP(REAL* __restrict__ gm, const REAL* __restrict__ g,                          \
                                           const REAL* __restrict__ y, INDEX OH, INDEX OW, INDEX F, INDEX rows,        \
                                           INDEX columns, INDEX activation, PER_TILE, INDEX count) {                   \
        output_transform_adjoint<STEP>(gm, g, y, OH, OW, F, rows, columns, activation, THE_PER_TILE, count);           \
    }

KERNELS(2)
KERNELS(4)
