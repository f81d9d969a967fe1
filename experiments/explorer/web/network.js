/* The operations of a network, for one image.

   A map is {height, width, channels, data}: data[(y * width + x) * channels + c], as in minicnn's (N, H, W, C) with
   N = 1.  Filters are {kh, kw, channels, filters, data} in the order (kh, kw, C, F).  Each function has the name and
   the meaning of the one in minicnn/ops. */

"use strict";

const newMap = (height, width, channels) =>
  ({ height, width, channels, data: new Float32Array(height * width * channels) });

const likeMap = (map, data) => ({ height: map.height, width: map.width, channels: map.channels, data });

/* How many windows fit.  (A pool of minicnn may round up instead; the page is given the padding that has the same effect.) */
function outputSize(size, before, after, k, stride) {
  return Math.floor((size + before + after - k) / stride) + 1;
}

/* y[p, f] = sum over the window of p, and over channels c, of x[., c] w[., c, f], plus b[f].  Zeros of x, of which
   there are many behind a CReLU, are skipped. */
function conv2d(x, layer) {
  const { w, b, stride, pad } = layer;
  const [[top, bottom], [left, right]] = pad;
  const y = newMap(outputSize(x.height, top, bottom, w.kh, stride[0]), outputSize(x.width, left, right, w.kw, stride[1]),
                   w.filters);
  const F = w.filters, C = w.channels;
  for (let row = 0; row < y.height; row++)
    for (let column = 0; column < y.width; column++) {
      const out = (row * y.width + column) * F;
      if (b) y.data.set(b, out);
      for (let i = 0; i < w.kh; i++) {
        const py = row * stride[0] - top + i;
        if (py < 0 || py >= x.height) continue;
        for (let j = 0; j < w.kw; j++) {
          const px = column * stride[1] - left + j;
          if (px < 0 || px >= x.width) continue;
          const from = (py * x.width + px) * C, tap = (i * w.kw + j) * C * F;
          for (let c = 0; c < C; c++) {
            const value = x.data[from + c];
            if (value === 0) continue;
            const weights = tap + c * F;
            for (let f = 0; f < F; f++) y.data[out + f] += value * w.data[weights + f];
          }
        }
      }
    }
  return y;
}

/* The transpose of conv2d without its bias: what enters it, from gradients or responses g of its outputs. */
function conv2dTransposed(g, layer, height, width) {
  const { w, stride, pad } = layer;
  const [[top], [left]] = pad;
  const x = newMap(height, width, w.channels);
  const F = w.filters, C = w.channels;
  for (let row = 0; row < g.height; row++)
    for (let column = 0; column < g.width; column++) {
      const at = (row * g.width + column) * F;
      for (let i = 0; i < w.kh; i++) {
        const py = row * stride[0] - top + i;
        if (py < 0 || py >= height) continue;
        for (let j = 0; j < w.kw; j++) {
          const px = column * stride[1] - left + j;
          if (px < 0 || px >= width) continue;
          const to = (py * width + px) * C, tap = (i * w.kw + j) * C * F;
          for (let c = 0; c < C; c++) {
            const weights = tap + c * F;
            let sum = 0;
            for (let f = 0; f < F; f++) sum += g.data[at + f] * w.data[weights + f];
            x.data[to + c] += sum;
          }
        }
      }
    }
  return x;
}

/* Activations.  CReLU writes two blocks of channels, [max(x, 0), max(-x, 0)]. */

const relu = x => likeMap(x, x.data.map(v => Math.max(v, 0)));
const avr = x => likeMap(x, x.data.map(Math.abs));
const leakyRelu = slope => x => likeMap(x, x.data.map(v => (v > 0 ? v : slope * v)));

function crelu(x) {
  const C = x.channels, y = newMap(x.height, x.width, 2 * C);
  for (let p = 0; p < x.height * x.width; p++)
    for (let c = 0; c < C; c++) {
      const value = x.data[p * C + c];
      y.data[2 * p * C + c] = Math.max(value, 0);
      y.data[2 * p * C + C + c] = Math.max(-value, 0);
    }
  return y;
}

/* The responses that features of CReLU come from: one half minus the other. */
function creluInverse(y) {
  const C = y.channels / 2, x = newMap(y.height, y.width, C);
  for (let p = 0; p < y.height * y.width; p++)
    for (let c = 0; c < C; c++) x.data[p * C + c] = y.data[2 * p * C + c] - y.data[2 * p * C + C + c];
  return x;
}

/* {y, switches}: the maximum of every window, and in which of its cells, i kw + j, the first one is. */
function maxPool2d(x, layer) {
  const { k, stride, pad } = layer;
  const [[top, bottom], [left, right]] = pad;
  const C = x.channels;
  const y = newMap(outputSize(x.height, top, bottom, k[0], stride[0]),
                   outputSize(x.width, left, right, k[1], stride[1]), C);
  y.data.fill(-Infinity);
  const switches = new Int32Array(y.data.length);
  for (let row = 0; row < y.height; row++)
    for (let column = 0; column < y.width; column++) {
      const out = (row * y.width + column) * C;
      for (let i = 0; i < k[0]; i++) {
        const py = row * stride[0] - top + i;
        if (py < 0 || py >= x.height) continue;
        for (let j = 0; j < k[1]; j++) {
          const px = column * stride[1] - left + j;
          if (px < 0 || px >= x.width) continue;
          const from = (py * x.width + px) * C;
          for (let c = 0; c < C; c++)
            if (x.data[from + c] > y.data[out + c]) {
              y.data[out + c] = x.data[from + c];
              switches[out + c] = i * k[1] + j;
            }
        }
      }
    }
  return { y, switches };
}

function globalMean(x) {
  const y = newMap(1, 1, x.channels), pixels = x.height * x.width;
  const sums = new Float64Array(x.channels);
  x.data.forEach((value, i) => { sums[i % x.channels] += value; });
  sums.forEach((sum, c) => { y.data[c] = sum / pixels; });
  return y;
}

/* A batch normalisation by fixed moments: one scale and one shift per channel. */
function scaleAndShift(x, layer) {
  return likeMap(x, x.data.map((v, i) => v * layer.scale[i % x.channels] + layer.shift[i % x.channels]));
}

/* Numbers (H, W, C) in a row, then y = x w + b. */
function linear(x, layer) {
  const y = newMap(1, 1, layer.b ? layer.b.length : layer.w.length / x.data.length), F = y.channels;
  if (layer.b) y.data.set(layer.b);
  x.data.forEach((value, i) => { for (let f = 0; f < F; f++) y.data[f] += value * layer.w[i * F + f]; });
  return y;
}

function softmax(logits) {
  const top = Math.max(...logits), powers = Array.from(logits, v => Math.exp(v - top));
  const total = powers.reduce((a, b) => a + b, 0);
  return powers.map(v => v / total);
}

const LAYERS = {
  conv: conv2d,
  norm: scaleAndShift,
  relu: x => relu(x),
  avr: x => avr(x),
  leaky: (x, layer) => leakyRelu(layer.slope)(x),
  crelu: x => crelu(x),
  maxpool: (x, layer) => maxPool2d(x, layer).y,
  mean: x => globalMean(x),
  linear,
};

/* What every layer makes of a normalised picture, in order; `change(name, y)` may replace the output of a layer. */
function forward(layers, x, change = (name, y) => y) {
  const found = [];
  for (const layer of layers) {
    x = change(layer.name, LAYERS[layer.kind](x, layer));
    found.push({ layer, y: x });
  }
  return found;
}
