// Softmax cross-entropy of logits (N, classes).  A label out of range makes NaN.

// A thread for each row: its largest logit, log sum exp(logit - largest), and its loss, divided by N: -log softmax at the
// label, of which the share `smoothing` is the mean over all classes.
KERNEL cross_entropy(REAL* losses, REAL* largest, REAL* logsum, const REAL* logits, const i64* labels, INDEX classes,
                     INDEX N, REAL smoothing, INDEX count) {
    EACH(n, count) {
        const REAL* row = logits + n * classes;
        REAL best = row[0], sum = 0;
        for (INDEX k = 1; k < classes; k++)
            if (!(row[k] <= best) && best == best) best = row[k];  // NaN if there is one
        for (INDEX k = 0; k < classes; k++) sum += exp(row[k] - best);
        largest[n] = best;
        logsum[n] = log(sum);
        bool valid = 0 <= labels[n] && labels[n] < classes;
        REAL loss = valid ? (1 - smoothing) * (logsum[n] - (row[labels[n]] - best)) : (REAL)nan("");
        if (smoothing > 0)
            for (INDEX k = 0; k < classes; k++) loss += smoothing / (REAL)classes * (logsum[n] - (row[k] - best));
        losses[n] = loss / (REAL)N;
    }
}

// Whether the label is not the first of the largest logits of its row, or of those that are NaN: 1 or 0, a thread for each row.
KERNEL wrong_answers(i64* wrong, const REAL* logits, const i64* labels, INDEX classes, INDEX count) {
    EACH(n, count) {
        const REAL* row = logits + n * classes;
        INDEX best = 0;
        for (INDEX k = 1; k < classes; k++)
            if (!(row[k] <= row[best]) && row[best] == row[best]) best = k;
        wrong[n] = best != labels[n];
    }
}

// glogits = g (softmax - (1 - smoothing) onehot - smoothing / classes) / N
KERNEL cross_entropy_grad(REAL* glogits, const REAL* g, const REAL* logits, const REAL* largest, const REAL* logsum,
                          const i64* labels, INDEX classes, INDEX N, REAL smoothing, INDEX count) {
    EACH(i, count) {
        INDEX n = i / classes, k = i % classes;
        bool valid = 0 <= labels[n] && labels[n] < classes;
        REAL p = exp(logits[i] - largest[n] - logsum[n]);
        REAL target = (labels[n] == k ? 1 - smoothing : 0) + smoothing / (REAL)classes;
        glogits[i] = valid ? g[0] * (p - target) / (REAL)N : (REAL)nan("");
    }
}
