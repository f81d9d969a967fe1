// Sums over the rows of x (rows, C), `length` rows at a time, to sums (chunks, C): a thread for each chunk and channel, so
// that neighbours read neighbouring channels.  minicnn/fast/cuda/sums.py adds up the chunks.

KERNEL sum_rows(REAL* sums, const REAL* x, INDEX rows, INDEX length, INDEX C, INDEX count) {
    EACH(i, count) {
        INDEX c = i % C, first = i / C * length, last = smaller<INDEX>(first + length, rows);
        REAL sum = 0;
        for (INDEX row = first; row < last; row++) sum += x[row * C + c];
        sums[i] = sum;
    }
}

// The same of (x - mean)^2.
KERNEL sum_squares(REAL* sums, const REAL* x, const REAL* mean, INDEX rows, INDEX length, INDEX C, INDEX count) {
    EACH(i, count) {
        INDEX c = i % C, first = i / C * length, last = smaller<INDEX>(first + length, rows);
        REAL sum = 0, centre = mean[c];
        for (INDEX row = first; row < last; row++) {
            REAL value = x[row * C + c] - centre;
            sum += value * value;
        }
        sums[i] = sum;
    }
}
