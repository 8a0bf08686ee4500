#!/usr/bin/env python3
"""What llm-awq itself makes of tiny random models, for tests/models/awq_golden_test.cpp.

Writes tests/models/golden_awq/<variant>/{config.json, model.safetensors, golden.safetensors}. The last holds `ids` (i64
[sequences, seqlen]) and, for each dtype the search was run in,

    <dtype>.<block>.<producer>.scale           f32 [features]      what the producer's output is divided by
    <dtype>.<block>.<linear>.codes             u8 [out, in]        of the weights that were scaled and clipped
    <dtype>.<block>.<linear>.steps, .zeros     [out, groups]

llm-awq is not part of this project: give a checkout of it (made with commit d6e797a42b9ef7778de8ee2352116e0f48a78d61). It
is run as it is, on the CPU; what is replaced from outside is listed in `quiet_cuda` and `load`.

    python3 scripts/make_awq_goldens.py LLM_AWQ_FOLDER [--out tests/models/golden_awq] [variant ...]

Needs torch, transformers and safetensors (made with torch 2.11.0, transformers 5.24.0); not used at run time.
"""

import argparse
import pathlib
import shutil
import sys
import types

import torch
from safetensors.torch import save_file
from transformers import BloomConfig, BloomForCausalLM, LlamaConfig, LlamaForCausalLM, OPTConfig, OPTForCausalLM

VOCAB, BITS, GROUP = 64, 3, 32
COMMON = dict(vocab_size=VOCAB, bos_token_id=1, eos_token_id=2, pad_token_id=3)
LLAMA = dict(**COMMON, hidden_size=64, intermediate_size=64, num_attention_heads=4, max_position_embeddings=64)

# llm-awq clips 64 rows at a time, so every linear has a multiple of that many. Two are searched in float16 too, for its rounding.
DTYPES = {"llama_mha": (torch.float32, torch.float16), "opt": (torch.float32, torch.float16)}
VARIANTS = {
    "llama_mha": lambda: LlamaForCausalLM(LlamaConfig(**LLAMA, num_key_value_heads=4, num_hidden_layers=2)),
    "llama_wide_heads": lambda: LlamaForCausalLM(
        LlamaConfig(**LLAMA, num_key_value_heads=4, num_hidden_layers=1, head_dim=32)),
    "opt": lambda: OPTForCausalLM(OPTConfig(
        **COMMON, hidden_size=64, ffn_dim=64, num_hidden_layers=1, num_attention_heads=4, max_position_embeddings=64,
        word_embed_proj_dim=64)),
    "bloom": lambda: BloomForCausalLM(BloomConfig(**COMMON, n_layer=1, hidden_size=64, n_head=4)),
}


def randomize(model, seed):
    """Weights of trained sizes, and norms that make a few columns much larger than the others."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if ("norm" in name or "ln_f" in name) and name.endswith("weight"):
            parameter.data = 0.5 + 0.1 * noise
            parameter.data[torch.randperm(len(noise), generator=generator)[:4]] *= 8
        else:
            parameter.data = noise * (parameter.shape[-1] ** -0.5 if parameter.dim() == 2 else 0.05)
    model.tie_weights()


def quiet_cuda():
    """Moves to a GPU become no moves."""
    torch.nn.Module.cuda = lambda self, *_: self
    torch.Tensor.cuda = lambda self, *_: self


def load(folder):
    """llm-awq's search without its kernels, its data set and the parts of its packages that need them."""
    sys.path.insert(0, str(folder))
    sys.modules["awq_inference_engine"] = types.ModuleType("awq_inference_engine")
    for package in ("awq", "awq.quantize"):
        module = types.ModuleType(package)
        module.__path__ = [str(folder / package.replace(".", "/"))]
        sys.modules[package] = module
    sys.modules["awq.utils.calib_data"] = types.ModuleType("awq.utils.calib_data")
    from awq.quantize import pre_quant, quantizer
    pre_quant.move_embed = lambda model, device: None
    return pre_quant, quantizer


def tuple_outputs(layer):
    """Blocks of today's transformers give a tensor; those llm-awq was written for gave a tuple."""
    forward = layer.forward

    def wrapped(*arguments, **keywords):
        output = forward(*arguments, **keywords)
        return output if isinstance(output, tuple) else (output,)

    layer.forward = wrapped
    return lambda: setattr(layer, "forward", forward)


def search(model, ids, llm_awq, bits=BITS, group=GROUP):
    """Runs the search in place; {name: tensor} of scales and of each linear's codes."""
    pre_quant, quantizer = llm_awq
    sys.modules["awq.utils.calib_data"].get_calib_dataset = lambda **_: list(ids.split(1))
    config = {"zero_point": True, "q_group_size": group}
    model.config.use_cache = False
    blocks = pre_quant.get_blocks(model)
    undo = [tuple_outputs(block) for block in blocks]
    results = pre_quant.run_awq(model, None, w_bit=bits, q_config=config)
    for restore in undo:
        restore()

    prefix = next(name for name, module in model.named_modules() if module is blocks)
    found = {}
    for producer, _, scales in results["scale"]:
        found[producer[len(prefix) + 1:] + ".scale"] = scales.float()
    for index, block in enumerate(blocks):
        for name, linear in pre_quant.get_named_linears(block).items():
            weight, steps, zeros = quantizer.pseudo_quantize_tensor(
                linear.weight.data, n_bit=bits, get_scale_zp=True, **config)
            spread = [t.float().repeat_interleave(group, 1) for t in (steps, zeros)]
            codes = (weight.float() / spread[0] + spread[1]).round()
            linear.weight.data = weight
            found[f"{index}.{name}.codes"] = codes.to(torch.uint8)
            found[f"{index}.{name}.steps"] = steps.float()
            found[f"{index}.{name}.zeros"] = zeros.to(torch.uint8)
    return {name: tensor.contiguous() for name, tensor in found.items()}


def make(name, folder, seed, llm_awq):
    model = VARIANTS[name]()
    randomize(model, seed)
    shutil.rmtree(folder, ignore_errors=True)
    model.eval().half().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)

    # 1200 tokens, of which clipping sees every second.
    ids = torch.randint(0, VOCAB, (24, 50), generator=torch.Generator().manual_seed(seed + 1000))
    golden = {"ids": ids}
    for dtype in DTYPES.get(name, (torch.float32,)):
        with torch.no_grad():
            found = search(type(model).from_pretrained(folder, dtype=dtype).eval(), ids, llm_awq)
        golden |= {f"{str(dtype).split('.')[1]}.{key}": value for key, value in found.items()}
    save_file(golden, folder / "golden.safetensors", metadata={"format": "pt"})
    for path in folder.iterdir():
        path.chmod(0o644)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("llm_awq", type=pathlib.Path)
    parser.add_argument("variants", nargs="*", choices=[[], *VARIANTS], default=[])
    parser.add_argument("--out", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent / "tests/models/golden_awq")
    arguments = parser.parse_args()
    quiet_cuda()
    llm_awq = load(arguments.llm_awq)
    for seed, name in enumerate(VARIANTS):
        if not arguments.variants or name in arguments.variants:
            make(name, arguments.out / name, seed, llm_awq)
            print(name)


if __name__ == "__main__":
    main()
