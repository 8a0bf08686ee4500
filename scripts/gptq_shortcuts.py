#!/usr/bin/env python3
"""Two shortcuts of GPTQ as a program of method `external` (docs/external.md), for experiments/claims/.

    gptq_shortcuts.py diagonal|copied INPUT OUTPUT

diagonal   H without what stands beside its diagonal.
copied     w_j -= e H_ij / H_ii, H with `damping` added to its diagonal as it is, where the paper has the Cholesky factor of the
           inverse, and damping that is a share of the mean of the diagonal.

The sweep is otherwise the paper's: columns in order, the grid of a group fitted when the sweep reaches it. Needs numpy.
"""
import json
import struct
import sys

import numpy as np


def read(path):
    """Tensors of a safetensors file in float64, and its metadata."""
    with open(path, "rb") as file:
        data = file.read()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:start])
    info = header.pop("__metadata__")
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        flat = np.frombuffer(data[start + begin:start + end], np.float32)
        tensors[name] = flat.reshape(entry["shape"]).astype(np.float64)
    return tensors, info


def write(path, tensors):
    header, data = {}, b""
    for name, (dtype, value) in tensors.items():
        header[name] = {"dtype": dtype, "shape": value.shape, "data_offsets": [len(data), len(data) + value.nbytes]}
        data += value.tobytes()
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def row_of_update(shortcut, hessian, column):
    """What an error at `column` of size 1 takes from the columns after it."""
    if shortcut == "diagonal":
        return np.zeros(hessian.shape[1] - column - 1)
    return hessian[column, column + 1:] / hessian[column, column]


def grid(weights, top, dtype):
    low, high = weights.min(1).clip(max=0), weights.max(1).clip(min=0)
    empty = low == high
    low, high = np.where(empty, -1, low), np.where(empty, 1, high)
    scale = ((high - low) / top).astype(np.float32).astype(dtype).astype(np.float64)
    return scale, np.round(-low / scale).clip(0, top)


def quantize(shortcut, weight, hessian, info):
    if info["symmetric"] != "false" or info["grid_search"] != "none":
        sys.exit("gptq_shortcuts: expected an asymmetric grid without a search")
    columns, top = weight.shape[1], 2 ** int(info["bits"]) - 1
    group = int(info["group_size"]) if int(info["group_size"]) > 0 else columns
    if shortcut == "copied":
        hessian = hessian + float(info["damping"]) * np.eye(columns)
    codes, scales, zeros = np.empty(weight.shape, np.uint8), [], []
    for i in range(columns):
        if i % group == 0:
            scale, zero = grid(weight[:, i:i + group], top, info["scale_dtype"])
            scales.append(scale)
            zeros.append(zero)
        codes[:, i] = (np.round(weight[:, i] / scale) + zero).clip(0, top)
        error = weight[:, i] - scale * (codes[:, i] - zero)
        weight[:, i + 1:] -= np.outer(error, row_of_update(shortcut, hessian, i))
    return {"codes": ("U8", codes), "scales": ("F32", np.stack(scales, 1).astype(np.float32)),
            "zeros": ("U8", np.stack(zeros, 1).astype(np.uint8))}


def main(arguments):
    if len(arguments) != 3 or arguments[0] not in ("diagonal", "copied"):
        sys.exit(__doc__)
    tensors, info = read(arguments[1])
    write(arguments[2], quantize(arguments[0], tensors["weight"], tensors["hessian"], info))


if __name__ == "__main__":
    main(sys.argv[1:])
