#!/usr/bin/env python3
"""Tiny packed folders of every format, with the logits transformers computes for what they dequantize to.

Writes tests/models/golden/packed_*/{config.json, weights, golden.safetensors}, beside those of make_golden_models.py and
read by the same tests. Packing here is big integers, one a row of words, from the published layout (shared/reference/
protocol.md section 7): it shares nothing with models/. These files stay as they are, so that what older versions of this
program and of others wrote stays readable.

Needs torch, transformers and safetensors (made with torch 2.11.0, transformers 5.24.0); not used at run time.

    python3 scripts/make_packed_goldens.py [--out tests/models/golden] [variant ...]
"""

import json
import shutil

import torch
from safetensors.torch import load_file, save_file
from transformers import BloomConfig, BloomForCausalLM, LlamaConfig, LlamaForCausalLM, OPTConfig, OPTForCausalLM

from make_golden_models import VOCAB, run_variants


def llama(**changes):
    return LlamaForCausalLM(LlamaConfig(**{**dict(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2), **changes}))


def opt():
    return OPTForCausalLM(OPTConfig(
        vocab_size=VOCAB, hidden_size=32, ffn_dim=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=64, bos_token_id=2, eos_token_id=2, pad_token_id=1))


def bloom():
    return BloomForCausalLM(BloomConfig(
        vocab_size=VOCAB, n_layer=2, hidden_size=32, n_head=4, bos_token_id=1, eos_token_id=2, pad_token_id=3))


# name -> (model, how it is stored). `format`: None is a folder of 2023, which names none.
VARIANTS = {
    "packed_gptq_llama": (lambda: llama(attention_bias=True), dict(format="gptq", bits=4, group=16, sym=True)),
    "packed_gptq_bloom_asym": (bloom, dict(format="gptq", bits=2, group=16, sym=False)),
    "packed_unlabelled_opt": (opt, dict(format=None, bits=8, group=-1, sym=True)),
    "packed_gptq_v2_llama_act_order": (llama, dict(format="gptq_v2", bits=3, group=16, sym=False, act_order=True)),
    "packed_gptq_v2_opt": (opt, dict(format="gptq_v2", bits=4, group=32, sym=True)),
    "packed_compressed_llama_asym": (
        lambda: llama(tie_word_embeddings=True), dict(format="compressed-tensors", bits=4, group=16, sym=False,
                                                      act_order=True)),
}


def words(values, bits):
    """The numbers of each row as one little-endian stream of 32-bit words."""
    rows = []
    for row in values.tolist():
        stream = sum(value << (bits * place) for place, value in enumerate(row))
        count = (len(row) * bits + 31) // 32
        unsigned = [(stream >> (32 * word)) & 0xFFFFFFFF for word in range(count)]
        rows.append([word - (1 << 32) if word >> 31 else word for word in unsigned])
    return torch.tensor(rows, dtype=torch.int32)


def quantized(out, inputs, how, generator):
    """Codes, scales, zero points and the group of each input, at random; weights of a size that lets positions matter."""
    levels = 1 << how["bits"]
    group = inputs if how["group"] < 0 else how["group"]
    groups = inputs // group
    codes = torch.randint(0, levels, (out, inputs), generator=generator)
    scales = ((0.5 + torch.rand(out, groups, generator=generator)) / levels).half()
    # v1 stores zero - 1, and readers disagree on a zero point of 0.
    zeros = torch.full((out, groups), levels // 2) if how["sym"] else torch.randint(
        1, levels, (out, groups), generator=generator)
    index = torch.arange(inputs) // group
    if how.get("act_order"):
        index = index[torch.randperm(inputs, generator=generator)]
    weights = scales.float()[:, index] * (codes - zeros[:, index]).float()
    return codes, scales, zeros, index, weights


def stored(codes, scales, zeros, index, how):
    bits = how["bits"]
    if how["format"] == "compressed-tensors":
        return {"weight_packed": words(codes, bits), "weight_scale": scales,
                "weight_zero_point": words(zeros.t(), bits).t().contiguous(),
                "weight_shape": torch.tensor(codes.shape), "weight_g_idx": index.int()}
    return {"qweight": words(codes, bits).t().contiguous(),
            "qzeros": words(zeros.t() - int(how["format"] != "gptq_v2"), bits),
            "scales": scales.t().contiguous(), "g_idx": index.int()}


def settings(how):
    if how["format"] == "compressed-tensors":
        weights = {"num_bits": how["bits"], "type": "int", "symmetric": how["sym"], "strategy": "group",
                   "group_size": how["group"], "actorder": "group", "dynamic": False}
        return {"quant_method": "compressed-tensors", "format": "pack-quantized", "quantization_status": "compressed",
                "ignore": ["lm_head"],
                "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": None}}}
    common = {"bits": how["bits"], "group_size": how["group"], "desc_act": bool(how.get("act_order")), "sym": how["sym"]}
    if how["format"] is None:
        return {**common, "damp_percent": 0.01, "true_sequential": True}
    return {**common, "quant_method": "gptq", "checkpoint_format": how["format"]}


def make(name, folder, seed):
    make_model, how = VARIANTS[name]
    model = make_model().eval()
    generator = torch.Generator().manual_seed(seed)
    for parameter_name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        norm_scale = ("norm" in parameter_name or "ln_f" in parameter_name) and parameter_name.endswith("weight")
        # Through float16, in which dense tensors are stored.
        parameter.data = (1 + 0.1 * noise if norm_scale else 0.3 * noise).half().float()
    model.tie_weights()

    packed = {}
    for layer, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and layer != "lm_head":
            codes, scales, zeros, index, weights = quantized(*module.weight.shape, how, generator)
            module.weight.data = weights
            packed[layer] = stored(codes, scales, zeros, index, how)
    ids = torch.randint(0, VOCAB, (2, 40), generator=generator)
    with torch.no_grad():
        logits = model(ids).logits.contiguous()

    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    tensors = {key: value.half() for key, value in load_file(folder / "model.safetensors").items()}
    for layer, parts in packed.items():
        names = [key for key in tensors if key.endswith(".weight") and layer.endswith(key.removesuffix(".weight"))]
        assert len(names) == 1, (layer, names)
        del tensors[names[0]]
        tensors.update({names[0].removesuffix("weight") + part: value for part, value in parts.items()})
    config = json.loads((folder / "config.json").read_text())
    config["dtype"] = "float16"
    if how["format"] is None:
        (folder / "quantize_config.json").write_text(json.dumps(settings(how), indent=2) + "\n")
    else:
        config["quantization_config"] = settings(how)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file({"ids": ids, "logits": logits}, folder / "golden.safetensors", metadata={"format": "pt"})
    for path in folder.iterdir():
        path.chmod(0o644)


if __name__ == "__main__":
    run_variants(__doc__, VARIANTS, make, first_seed=100)
