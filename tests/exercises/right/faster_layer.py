import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


def conv2d(x, w, *, stride=1, pad=0):
    k, _, channels, filters = w.shape
    height, width = x.shape[1:3]
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    windows = sliding_window_view(padded, (k, k), axis=(1, 2))[:, ::stride, ::stride]  # (N, OH, OW, C, k, k)
    n, oh, ow = windows.shape[:3]
    columns = windows.transpose(0, 1, 2, 4, 5, 3).reshape(n * oh * ow, -1)
    matrix = w.reshape(-1, filters)

    def vjp(g):
        rows = g.reshape(-1, filters)
        gw = (columns.T @ rows).reshape(w.shape)
        blocks = (rows @ matrix.T).reshape(n, oh, ow, k, k, channels)
        image = np.zeros_like(padded)
        for i in range(k):
            for j in range(k):
                image[:, i : i + oh * stride : stride, j : j + ow * stride : stride] += blocks[:, :, :, i, j]
        return image[:, pad : pad + height, pad : pad + width], gw

    return (columns @ matrix).reshape(n, oh, ow, filters), vjp
