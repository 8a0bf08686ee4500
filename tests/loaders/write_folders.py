"""Quantizes a tiny random LLaMA with the tools of others, and says what their own loaders answer.

    write_folders.py TOOL OUT

OUT/dense is the model. For each variant of TOOL (gptqmodel, llmcompressor) OUT/NAME is the folder that the tool wrote, and
OUT/NAME.safetensors holds `ids` i64 [1, tokens] and `logits` f32 [tokens, vocab] of the tool's own loader, in float32.
"""

import os
import sys

import loaders  # first: it sets the environment
import tiny_llama

# What shared/models/packed does not hold.
GPTQMODEL = {
    "w4_sym_act_order_v1": dict(bits=4, group_size=32, sym=True, desc_act=True, act_group_aware=False, format="gptq"),
    "w4_sym_group_aware_v1": dict(bits=4, group_size=32, sym=True, desc_act=False, act_group_aware=True, format="gptq"),
    "w4_asym_v1": dict(bits=4, group_size=32, sym=False, desc_act=False, format="gptq"),
    "w4_asym_act_order_v2": dict(bits=4, group_size=32, sym=False, desc_act=True, act_group_aware=False, format="gptq_v2"),
    "w4_row_v1": dict(bits=4, group_size=-1, sym=True, desc_act=False, act_group_aware=False, format="gptq"),
    "w3_sym_v1": dict(bits=3, group_size=32, sym=True, desc_act=False, format="gptq"),
    "w3_asym_act_order_v2": dict(bits=3, group_size=32, sym=False, desc_act=True, act_group_aware=False, format="gptq_v2"),
    "w2_sym_v1": dict(bits=2, group_size=32, sym=True, desc_act=False, format="gptq"),
    "w8_asym_v2": dict(bits=8, group_size=32, sym=False, desc_act=False, format="gptq_v2"),
    "mixed_v1": dict(
        bits=4, group_size=32, sym=True, desc_act=False, format="gptq",
        dynamic={r"+:.*\.down_proj$": {"bits": 8, "group_size": 16}, r"-:.*\.v_proj$": {}}),
}
LLMCOMPRESSOR = {
    "w4_asym_group": dict(num_bits=4, symmetric=False, strategy="group", group_size=32),
    "w4_asym_act_order": dict(num_bits=4, symmetric=False, strategy="group", group_size=32, actorder="weight"),
    "w4_sym_row": dict(num_bits=4, symmetric=True, strategy="channel"),
    "w8_asym_group": dict(num_bits=8, symmetric=False, strategy="group", group_size=32),
}


def write_gptqmodel(dense, out):
    module = loaders.import_gptqmodel()
    for name, settings in GPTQMODEL.items():
        # Its packing in C++ would be compiled first, which takes two minutes.
        config = module.QuantizeConfig(offload_to_disk=False, device="cpu", pack_impl="original", **settings)
        model = module.GPTQModel.load(dense, config)
        rows = [{"input_ids": ids, "attention_mask": [1] * len(ids)} for ids in tiny_llama.calibration()]
        model.quantize(rows, batch_size=1, backend=module.BACKEND.TORCH)
        model.save(os.path.join(out, name))
        yield name, loaders.gptqmodel(os.path.join(out, name))


def write_llmcompressor(dense, out):
    import torch
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from datasets import Dataset
    from llmcompressor import oneshot
    from llmcompressor.modifiers.quantization import GPTQModifier
    from transformers import AutoModelForCausalLM

    for name, settings in LLMCOMPRESSOR.items():
        model = AutoModelForCausalLM.from_pretrained(dense, dtype=torch.float32)
        rows = [{"input_ids": ids, "attention_mask": [1] * len(ids)} for ids in tiny_llama.calibration()]
        scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(type="int", **settings))
        oneshot(
            model=model, dataset=Dataset.from_list(rows), max_seq_length=64, num_calibration_samples=len(rows),
            recipe=[GPTQModifier(config_groups={"group_0": scheme}, ignore=["lm_head"])])
        model.save_pretrained(os.path.join(out, name), save_compressed=True)
        yield name, loaders.compressed_tensors(os.path.join(out, name))


def main(tool, out):
    from safetensors.torch import save_file
    import torch

    os.chdir(out)  # GPTQModel writes logs where it is
    dense = os.path.join(out, "dense")
    tiny_llama.make(dense)
    write = {"gptqmodel": write_gptqmodel, "llmcompressor": write_llmcompressor}[tool]
    for name, logits in write(dense, out):
        ids = tiny_llama.probe()
        save_file({"ids": torch.tensor(ids), "logits": logits(ids)[0].clone()}, os.path.join(out, name + ".safetensors"))


if __name__ == "__main__":
    main(*sys.argv[1:])
