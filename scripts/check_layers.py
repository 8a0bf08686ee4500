"""Verifies the one-way dependencies of the folders: a file may include only headers of its own layer and those below, torch
and CUDA stay where docs/architecture.md puts them, and every header has an include guard."""

import pathlib
import re
import subprocess
import sys

BELOW = {
    "common": set(),
    "kernels": {"common"},
    "methods": {"common", "kernels"},
    "models": {"common", "kernels", "methods"},
    "datasets": {"common"},
    "eval": {"common", "kernels", "methods", "models", "datasets"},
    "runner": {"common", "kernels", "methods", "models", "datasets", "eval"},
}
TORCH_FREE = {"common", "kernels", "datasets"}
YAML_ONLY_IN = {"runner"}
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^">]+)[">]')


def faults_of(path):
    layer = path.parts[0]
    text = path.read_text()
    if path.suffix in (".h", ".cuh") and "#pragma once" not in text:
        yield f"{path}: header without #pragma once"
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"\s*#\s*if.*(__CUDACC__|WITH_CUDA|HAS_CUDA)", line) and layer != "kernels":
            yield f"{path}:{number}: no #ifdef for CUDA outside kernels/; use a stub source as kernels/no_cuda.cpp"
        match = INCLUDE.match(line)
        if not match:
            continue
        target = match.group(2)
        folder = target.split("/")[0]
        if folder in BELOW and folder != layer and folder not in BELOW[layer]:
            yield f"{path}:{number}: {layer}/ must not include {target}; it lies above"
        if folder in ("ATen", "torch", "c10") and layer in TORCH_FREE and path.stem != "torch_ops":
            yield f"{path}:{number}: {layer}/ must not see torch"
        if folder == "yaml-cpp" and layer not in YAML_ONLY_IN:
            yield f"{path}:{number}: YAML belongs to runner/"
        if target == "torch/torch.h":
            yield f"{path}:{number}: torch/torch.h takes 38 s to compile; include ATen/ATen.h"


def main():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], capture_output=True,
                            text=True, check=True).stdout.split()
    sources = [pathlib.Path(f) for f in listed if f.split("/")[0] in BELOW and f.endswith((".h", ".cpp", ".cu", ".cuh"))]
    faults = [fault for path in sources if path.exists() for fault in faults_of(path)]
    print("\n".join(faults) if faults else f"{len(sources)} files keep to the layers")
    return 1 if faults or not sources else 0


if __name__ == "__main__":
    sys.exit(main())
