// Batch normalisation of x (rows, C), channel by channel.

KERNEL batch_norm(REAL* y, const REAL* x, const REAL* mean, const REAL* var, const REAL* gamma, const REAL* beta,
                  REAL eps, INDEX C, INDEX count) {
    EACH(i, count) {
        INDEX c = i % C;
        y[i] = (x[i] - mean[c]) * (1 / sqrt(var[c] + eps) * gamma[c]) + beta[c];
    }
}

// Sums over `length` rows at a time of g (x - mean) and of g, to sums (2, chunks, C): a thread for each chunk and
// channel, so that neighbours read neighbouring channels.
KERNEL batch_norm_sums(REAL* sums, const REAL* g, const REAL* x, const REAL* mean, INDEX rows, INDEX length, INDEX C,
                       INDEX count) {
    EACH(i, count) {
        INDEX c = i % C, first = i / C * length, last = smaller<INDEX>(first + length, rows);
        REAL sum = 0, product = 0;
        for (INDEX row = first; row < last; row++) {
            REAL value = g[row * C + c];
            sum += value;
            product += value * (x[row * C + c] - mean[c]);
        }
        sums[i] = product;
        sums[count + i] = sum;
    }
}

// gx = s (g - gbeta / M - h ggamma / M),  s = gamma / sqrt(var + eps),  h = (x - mean) / sqrt(var + eps),
// ggamma = sums[0] / sqrt(var + eps),  gbeta = sums[1], M rows, all of the whole batch.  Given moments that are fixed,
// gx = s g.  The ggamma and gbeta that are written are of `own` sums, those of this rank's part of the batch.
KERNEL batch_norm_grad(REAL* gx, REAL* ggamma, REAL* gbeta, const REAL* g, const REAL* x, const REAL* mean,
                       const REAL* var, const REAL* gamma, const REAL* own, const REAL* sums, REAL eps, REAL M,
                       INDEX fixed, INDEX C, INDEX count) {
    EACH(i, count) {
        INDEX c = i % C;
        REAL inverse = 1 / sqrt(var[c] + eps);
        REAL pull = (sums[C + c] + (x[i] - mean[c]) * inverse * inverse * sums[c]) / M;
        gx[i] = (fixed ? g[i] : g[i] - pull) * (gamma[c] * inverse);
        if (i < C) {
            ggamma[i] = own[i] * inverse;
            gbeta[i] = own[C + i];
        }
    }
}

// running = (1 - momentum) running + momentum now, of the mean and of the unbiased variance: M / (M - 1) times that of the
// batch, for M values per channel.  A thread for each channel.
KERNEL update_running(REAL* running_mean, REAL* running_var, const REAL* mean, const REAL* var, REAL momentum,
                      REAL unbiased, INDEX count) {
    EACH(c, count) {
        running_mean[c] = (1 - momentum) * running_mean[c] + momentum * mean[c];
        running_var[c] = (1 - momentum) * running_var[c] + momentum * (var[c] * unbiased);
    }
}
