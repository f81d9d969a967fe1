/* From features back to pictures, with nothing learned: least squares and Algorithm 2 of the paper. */

"use strict";

const dot = (a, b) => { let sum = 0; for (let i = 0; i < a.length; i++) sum += a[i] * b[i]; return sum; };

/* The image of least ||known (T x - z)||^2, where T is the convolution without its bias, z are responses without it, and
   `known` is 1 where a response is known and 0 elsewhere (null: all are).  Conjugate gradients from 0, which find the
   solution of least norm where there are many: minicnn/theory/reconstruction.py, least_squares.

   A generator: it yields x after every step, so that a page can show it and stop. */
function* leastSquares(layer, z, known, height, width, steps) {
  const masked = y => { if (known) for (let i = 0; i < y.data.length; i++) y.data[i] *= known[i]; return y; };
  const plain = { ...layer, b: null };
  const x = newMap(height, width, layer.w.channels);
  const r = masked(likeMap(z, z.data.slice()));
  let g = conv2dTransposed(r, plain, height, width);
  const p = likeMap(g, g.data.slice());
  let gg = dot(g.data, g.data);
  const enough = gg * 1e-12;
  for (let step = 0; step < steps && gg > enough; step++) {
    const q = masked(conv2d(p, plain));
    const a = gg / dot(q.data, q.data);
    for (let i = 0; i < x.data.length; i++) x.data[i] += a * p.data[i];
    for (let i = 0; i < r.data.length; i++) r.data[i] -= a * q.data[i];
    g = conv2dTransposed(r, plain, height, width);
    const before = gg;
    gg = dot(g.data, g.data);
    for (let i = 0; i < p.data.length; i++) p.data[i] = g.data[i] + gg / before * p.data[i];
    yield x;
  }
  yield x;
}

/* The responses of a convolution without its bias, from its CReLU features. */
function responses(y, layer) {
  const z = creluInverse(y), F = z.channels;
  if (layer.b) for (let i = 0; i < z.data.length; i++) z.data[i] -= layer.b[i % F];
  return z;
}

/* Which responses are known from features of which some phases are kept: keep(f, sign) for filter f and sign 1 or -1.
   A response of 0 is known to both phases together. */
function knownResponses(y, keep) {
  const z = creluInverse(y), F = z.channels;
  const kept = [1, -1].map(sign => Array.from({ length: F }, (_, f) => keep(f, sign)));
  return Float32Array.from(z.data, (v, i) => {
    const [plus, minus] = [kept[0][i % F], kept[1][i % F]];
    return v > 0 ? +plus : v < 0 ? +minus : +(plus && minus);
  });
}

/* Algorithm 2.  The region of a pooling window is a patch of the input; of every filter and phase, the pool keeps one
   response, and the switches say where in the window it was.  So <shifted filter, patch> is known for up to 2 F shifted
   filters, and x' is the patch of least norm that has these products: W^ (W^' W^)^-1 z.  Where regions overlap, their
   patches are averaged (minicnn/analysis/inversion.py, _through_pool). */
function throughPool(conv, pool, pooled, switches, height, width) {
  const { w } = conv, F = w.filters, C = w.channels;
  const [[top], [left]] = conv.pad, [[poolTop], [poolLeft]] = pool.pad;
  const gram = shiftedProducts(conv, pool);
  const total = newMap(height, width, C), count = new Float32Array(height * width);
  const columns = [], z = [];
  for (let row = 0; row < pooled.height; row++)
    for (let column = 0; column < pooled.width; column++) {
      columns.length = z.length = 0;
      const at = (row * pooled.width + column) * 2 * F;
      for (let f = 0; f < F; f++) {
        const known = [];
        for (const phase of [f, F + f]) {
          const value = pooled.data[at + phase];
          if (value <= 0) continue; // a phase that was never active says nothing
          known.push([switches[at + phase] * F + f, (phase < F ? value : -value) - (conv.b ? conv.b[f] : 0)]);
        }
        // with wrong switches both phases may be at one place: the mean is what fits best
        if (known.length === 2 && known[0][0] === known[1][0]) known.splice(0, 2, [known[0][0], (known[0][1] + known[1][1]) / 2]);
        for (const [number, value] of known) { columns.push(number); z.push(value); }
      }
      const weights = solve(gram, columns, z);
      // the corner of the patch in the image, whose cells beyond the image are dropped
      const y0 = (row * pool.stride[0] - poolTop) * conv.stride[0] - top;
      const x0 = (column * pool.stride[1] - poolLeft) * conv.stride[1] - left;
      const ph = (pool.k[0] - 1) * conv.stride[0] + w.kh, pw = (pool.k[1] - 1) * conv.stride[1] + w.kw;
      for (let i = 0; i < ph; i++)
        for (let j = 0; j < pw; j++)
          if (y0 + i >= 0 && y0 + i < height && x0 + j >= 0 && x0 + j < width) count[(y0 + i) * width + x0 + j]++;
      columns.forEach((number, n) => {
        const f = number % F, cell = Math.floor(number / F);
        const down = Math.floor(cell / pool.k[1]) * conv.stride[0], across = (cell % pool.k[1]) * conv.stride[1];
        for (let i = 0; i < w.kh; i++) {
          const py = y0 + down + i;
          if (py < 0 || py >= height) continue;
          for (let j = 0; j < w.kw; j++) {
            const px = x0 + across + j;
            if (px < 0 || px >= width) continue;
            const to = (py * width + px) * C, tap = (i * w.kw + j) * C * F + f;
            for (let c = 0; c < C; c++) total.data[to + c] += weights[n] * w.data[tap + c * F];
          }
        }
      });
    }
  for (let i = 0; i < total.data.length; i++) total.data[i] /= Math.max(1, count[Math.floor(i / C)]);
  return total;
}

/* <shifted filter, shifted filter> for all cells of a pooling window and all filters, numbered cell F + filter. */
function shiftedProducts(conv, pool) {
  if (pool.gram) return pool.gram; // the same for every picture
  const { w } = conv, F = w.filters, C = w.channels, cells = pool.k[0] * pool.k[1], size = cells * F;
  const gram = { size, data: new Float64Array(size * size) };
  for (let one = 0; one < cells; one++)
    for (let two = 0; two < cells; two++) {
      const down = (Math.floor(two / pool.k[1]) - Math.floor(one / pool.k[1])) * conv.stride[0];
      const across = (two % pool.k[1] - one % pool.k[1]) * conv.stride[1];
      for (let i = Math.max(0, down); i < Math.min(w.kh, w.kh + down); i++)
        for (let j = Math.max(0, across); j < Math.min(w.kw, w.kw + across); j++)
          for (let c = 0; c < C; c++) {
            const a = ((i * w.kw + j) * C + c) * F, b = (((i - down) * w.kw + j - across) * C + c) * F;
            for (let f = 0; f < F; f++) {
              const value = w.data[a + f], row = (one * F + f) * size + two * F;
              for (let g = 0; g < F; g++) gram.data[row + g] += value * w.data[b + g];
            }
          }
    }
  pool.gram = gram;
  return gram;
}

/* G v = z for the chosen rows and columns of a Gram matrix, by Cholesky; columns that depend on others get next to
   nothing, by a little on the diagonal. */
function solve(gram, columns, z) {
  const n = columns.length, L = new Float64Array(n * n), v = Float64Array.from(z);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = gram.data[columns[i] * gram.size + columns[j]] * (i === j ? 1 + 1e-9 : 1);
      for (let k = 0; k < j; k++) sum -= L[i * n + k] * L[j * n + k];
      L[i * n + j] = i === j ? Math.sqrt(Math.max(sum, 1e-12)) : sum / L[j * n + j];
    }
  }
  for (let i = 0; i < n; i++) {
    for (let k = 0; k < i; k++) v[i] -= L[i * n + k] * v[k];
    v[i] /= L[i * n + i];
  }
  for (let i = n - 1; i >= 0; i--) {
    for (let k = i + 1; k < n; k++) v[i] -= L[k * n + i] * v[k];
    v[i] /= L[i * n + i];
  }
  return v;
}

/* ||x - x'|| / ||x||, the paper's reconstruction ratio. */
function ratio(x, estimate) {
  let error = 0, norm = 0;
  x.data.forEach((v, i) => { error += (v - estimate.data[i]) ** 2; norm += v * v; });
  return norm ? Math.sqrt(error / norm) : error ? Infinity : 0;
}

/* In dB, of pictures in bytes; Infinity if they are equal. */
function psnr(bytes, estimate) {
  let error = 0;
  bytes.forEach((v, i) => { error += ((v - estimate[i]) / 255) ** 2; });
  return error ? 10 * Math.log10(bytes.length / error) : Infinity;
}
