/* What the paper proves, on examples small enough to compute exactly: minicnn/theory. */

"use strict";

/* Rademacher complexities of a class of functions on L points, values[f][i] = f(x_i), over all 2^(L-1) sign vectors up
   to sign (minicnn/theory/rademacher.py).  For each sigma and f,

       a = 2/L sum_i sigma_i [f(x_i)]+,   b = 2/L sum_i sigma_i [-f(x_i)]+;

   the mean over sigma of the largest |a - b| is R(F), of |a + b| R(|F|), of |a| R(ReLU F), and of sqrt(a^2 + b^2) that of
   a CReLU layer with d = B = 1. */
function complexities(values) {
  const points = values[0].length, count = 2 ** (points - 1);
  const total = { identity: 0, relu: 0, avr: 0, crelu: 0 };
  for (let bits = 0; bits < count; bits++) {
    const most = { identity: 0, relu: 0, avr: 0, crelu: 0 };
    for (const f of values) {
      let a = 0, b = 0;
      f.forEach((v, i) => {
        const sign = i > 0 && (bits >> (i - 1)) & 1 ? -1 : 1;
        if (v > 0) a += sign * v; else b -= sign * v;
      });
      most.identity = Math.max(most.identity, Math.abs(a - b));
      most.relu = Math.max(most.relu, Math.abs(a));
      most.avr = Math.max(most.avr, Math.abs(a + b));
      most.crelu = Math.max(most.crelu, Math.hypot(a, b));
    }
    for (const name in total) total[name] += most[name];
  }
  for (const name in total) total[name] *= 2 / points / count;
  return total;
}

/* log Gamma(x) for x > 0: Stirling's series, after x has been brought above 15 by Gamma(x + 1) = x Gamma(x). */
function logGamma(x) {
  let shift = 0;
  while (x < 15) { shift -= Math.log(x); x += 1; }
  const inverse = 1 / (x * x);
  const series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse * (1 / 1680 - inverse / 1188)))) / x;
  return shift + (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + series;
}

/* E ||x_s|| / ||x|| for the projection of x in R^D on a random subspace of dimension s; the paper has sqrt(s / D). */
function meanRatio(s, D) {
  if (s === 0) return 0;
  return Math.exp(logGamma((s + 1) / 2) - logGamma(s / 2) - logGamma((D + 1) / 2) + logGamma(D / 2));
}

/* Of one region of a 1-D signal: all shifts of the filters, a row each, numbered filter n + shift. */
function shiftMatrix(filters, D) {
  const rows = [];
  for (const f of filters)
    for (let shift = 0; shift + f.length <= D; shift++)
      rows.push(Array.from({ length: D }, (_, i) => f[i - shift] ?? 0));
  return rows;
}

/* What CReLU and a max pool over the whole region keep of x: of every filter and phase the largest response and its
   shift; phases that are never active are left out. */
function poolSignal(filters, x) {
  const kept = [];
  for (const [f, filter] of filters.entries()) {
    const r = [];
    for (let shift = 0; shift + filter.length <= x.length; shift++)
      r.push(filter.reduce((sum, v, i) => sum + v * x[shift + i], 0));
    for (const sign of [1, -1]) {
      const best = r.reduce((at, v, i) => (sign * v > sign * r[at] ? i : at), 0);
      if (sign * r[best] > 0) kept.push({ filter: f, sign, shift: best, value: r[best] });
    }
  }
  return kept;
}

/* Algorithm 2: the x' of least norm with <shifted filter, x'> = value for all that the pool has kept. */
function reconstructSignal(filters, kept, D) {
  const rows = kept.map(({ filter, shift }) => Array.from({ length: D }, (_, i) => filters[filter][i - shift] ?? 0));
  const n = rows.length, gram = { size: n, data: new Float64Array(n * n) };
  rows.forEach((a, i) => rows.forEach((b, j) => { gram.data[i * n + j] = dot(a, b); }));
  const weights = solve(gram, rows.map((_, i) => i), kept.map(one => one.value));
  return Array.from({ length: D }, (_, i) => rows.reduce((sum, row, k) => sum + weights[k] * row[i], 0));
}

/* The eigenvalues of a small symmetric matrix, by Jacobi's rotations. */
function eigenvalues(matrix) {
  const a = matrix.map(row => [...row]), n = a.length;
  for (let sweep = 0; sweep < 60; sweep++)
    for (let p = 0; p < n; p++)
      for (let q = p + 1; q < n; q++) {
        if (Math.abs(a[p][q]) < 1e-300) continue;
        const theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
        const t = (theta >= 0 ? 1 : -1) / (Math.abs(theta) + Math.hypot(theta, 1));
        const c = 1 / Math.hypot(t, 1), s = t * c;
        for (let k = 0; k < n; k++) [a[k][p], a[k][q]] = [c * a[k][p] - s * a[k][q], s * a[k][p] + c * a[k][q]];
        for (let k = 0; k < n; k++) [a[p][k], a[q][k]] = [c * a[p][k] - s * a[q][k], s * a[p][k] + c * a[q][k]];
      }
  return a.map((row, i) => row[i]).sort((x, y) => x - y);
}

/* Both bounds on ||x - x'|| / ||x|| for x = sum c_i (shifted filter i), where of every filter at most one c is positive and
   at most one negative: sqrt(1 - l / L), ours, and sqrt((L - l) / l), the paper's (minicnn/theory/pooling.py).
   used: [{filter, shift, c}]; kept: what poolSignal gave.  l is the least eigenvalue, not 0, of the Gram matrix of the
   shifts that x is made of, L the largest of that of the shifts that the pool kept for the same filters and signs. */
function poolingBounds(filters, used, kept, D) {
  const shifted = ({ filter, shift }) => Array.from({ length: D }, (_, i) => filters[filter][i - shift] ?? 0);
  const squares = list => {
    const rows = list.map(shifted);
    return rows.length ? eigenvalues(rows.map(a => rows.map(b => dot(a, b)))) : [0];
  };
  const own = squares(used), largest = own[own.length - 1];
  const l = own.find(v => v > 1e-12 * largest);
  const tilde = kept.filter(one => used.some(u => u.filter === one.filter && Math.sign(u.c) === one.sign));
  const L = Math.max(...squares(tilde));
  if (!(L >= l * (1 - 1e-12))) return { tight: NaN, paper: NaN };
  return { tight: Math.sqrt(Math.max(L - l, 0) / L), paper: Math.sqrt(Math.max(L - l, 0) / l) };
}
