#!/usr/bin/env python3
"""Folders that this program wrote, kept so that what it writes later and reads later can be held against them.

Writes tests/models/golden/saved_*: small models of that folder, rounded to the nearest by `gptq-bench run` with `save`,
and golden.safetensors with the logits transformers computes for what the files dequantize to. Unpacking here is big
integers, one a row of words, from the published layout (shared/reference/protocol.md section 7). These files stay as they
are: a new version adds folders, and must read the old ones to the same logits and write the same bytes for their codes.

Needs torch, transformers and safetensors (made with torch 2.11.0, transformers 5.24.0); not used at run time.

    python3 scripts/make_saved_goldens.py build/release/bin/gptq-bench [variant ...]
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from make_golden_models import VOCAB

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests/models/golden"

# name -> (source, quant, format)
VARIANTS = {
    "saved_gptq_llama": ("llama_mha", "{bits: 4, group_size: 16, symmetric: true}", "gptq"),
    "saved_gptq_v2_opt": ("opt_pre_norm", "{bits: 3, group_size: 16, symmetric: false}", "gptq_v2"),
}


def fields(words, bits, count):
    """The first `count` numbers of each row of 32-bit words, one little-endian stream a row."""
    rows = []
    for row in words.tolist():
        stream = sum((word & 0xFFFFFFFF) << (32 * place) for place, word in enumerate(row))
        rows.append([(stream >> (bits * place)) & ((1 << bits) - 1) for place in range(count)])
    return torch.tensor(rows)


def weights(tensors, layer, bits, version):
    scales = tensors[layer + ".scales"].float().t()
    index = tensors[layer + ".g_idx"].long()
    codes = fields(tensors[layer + ".qweight"].t(), bits, index.numel())
    zeros = fields(tensors[layer + ".qzeros"], bits, scales.shape[0]).t() + int(version == "gptq")
    return scales[:, index] * (codes - zeros[:, index]).float()


def dense_twin(folder, target):
    """The folder with what it dequantizes to in place of its codes, in float32."""
    tensors = load_file(folder / "model.safetensors")
    settings = json.loads((folder / "quantize_config.json").read_text())
    dense = {key: value.float() for key, value in tensors.items() if value.is_floating_point() and ".scales" not in key}
    for key in tensors:
        if key.endswith(".qweight"):
            layer = key.removesuffix(".qweight")
            dense[layer + ".weight"] = weights(tensors, layer, settings["bits"], settings["checkpoint_format"])
    config = json.loads((folder / "config.json").read_text())
    del config["quantization_config"]
    for key in ("dtype", "torch_dtype"):
        config.pop(key, None)
    (target / "config.json").write_text(json.dumps(config))
    save_file({key: value.contiguous() for key, value in dense.items()}, target / "model.safetensors",
              metadata={"format": "pt"})


def make(program, name, seed):
    source, quant, version = VARIANTS[name]
    folder = GOLDEN / name
    with tempfile.TemporaryDirectory() as temporary:
        experiment = pathlib.Path(temporary) / "save.yaml"
        experiment.write_text(
            f"name: save\nmodel: {{path: {GOLDEN / source}, dtype: float16}}\nmethod: {{name: rtn}}\n"
            f"quant: {quant}\nsave: {{path: {folder}, format: {version}}}\n")
        subprocess.run([program, "run", experiment, "--output", f"{temporary}/out"], check=True)
        twin = pathlib.Path(temporary) / "twin"
        twin.mkdir()
        dense_twin(folder, twin)
        model = AutoModelForCausalLM.from_pretrained(twin, dtype=torch.float32).eval()
        ids = torch.randint(0, VOCAB, (2, 40), generator=torch.Generator().manual_seed(seed))
        with torch.no_grad():
            logits = model(ids).logits.contiguous()
    (folder / "golden.safetensors").unlink(missing_ok=True)
    save_file({"ids": ids, "logits": logits}, folder / "golden.safetensors", metadata={"format": "pt"})
    for path in folder.iterdir():
        path.chmod(0o644)


if __name__ == "__main__":
    wanted = sys.argv[2:] or list(VARIANTS)
    for position, variant in enumerate(VARIANTS):
        if variant in wanted:
            make(pathlib.Path(sys.argv[1]).resolve(), variant, position)
