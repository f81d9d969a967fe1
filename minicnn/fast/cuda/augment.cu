// A batch from a data set of bytes that lives on the GPU: chosen, normalised, flipped and shifted in one pass.

// A place beyond the edges 0 and size - 1, by less than size, mirrored at the edge.
__device__ INDEX mirrored(INDEX place, INDEX size) {
    return place < 0 ? -place : place < size ? place : 2 * (size - 1) - place;
}

// out (n, H, W, C): image order[first + i], times scale plus offset for each channel, mirrored if flips[first + i], moved by
// shifts[first + i] = (down, right); zeros move in or, with `reflect`, mirrored pixels.  Two roundings, not one fused: the same
// bits as on the CPU.  labels (n,) are those of the chosen images.
KERNEL augment(float* out, i64* labels, const u8* images, const i64* all_labels, const i64* order, const u8* flips,
               const i64* shifts, const float* scale, const float* offset, INDEX H, INDEX W, INDEX C, INDEX first,
               INDEX reflect, INDEX count) {
    EACH(i, count) {
        INDEX c = i % C, w = i / C % W, h = i / C / W % H, n = i / C / W / H, k = first + n;
        INDEX row = h - (INDEX)shifts[2 * k], column = w - (INDEX)shifts[2 * k + 1];
        if (reflect) row = mirrored(row, H), column = mirrored(column, W);
        bool inside = 0 <= row && row < H && 0 <= column && column < W;
        if (flips[k]) column = W - 1 - column;
        i64 at = ((order[k] * H + row) * W + column) * C + c;
        out[i] = inside ? __fadd_rn(__fmul_rn((float)images[at], scale[c]), offset[c]) : 0;
        if (h == 0 && w == 0 && c == 0) labels[n] = all_labels[order[k]];
    }
}
