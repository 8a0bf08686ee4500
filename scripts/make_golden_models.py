#!/usr/bin/env python3
"""Tiny random models with the logits transformers computes for them, one folder per variant.

Writes tests/models/golden/<variant>/{config.json, model.safetensors or shards, golden.safetensors}. The last holds `ids`
(i64 [2, seqlen]), `logits` (f32 [2, seqlen, vocab], the stored weights computed in float32) and, for variants in half
precision, `logits_model_dtype` (the same in the checkpoint's dtype).

Needs torch, transformers and safetensors (made with torch 2.11.0, transformers 5.24.0); not used at run time.

    python3 scripts/make_golden_models.py [--out tests/models/golden] [variant ...]
"""

import argparse
import pathlib
import shutil

import torch
from safetensors.torch import save_file
from transformers import (
    BloomConfig, BloomForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, OPTConfig,
    OPTForCausalLM,
)

VOCAB = 48
LLAMA = dict(
    vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2,
)
OPT = dict(
    vocab_size=VOCAB, hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4,
    max_position_embeddings=64, bos_token_id=2, eos_token_id=2, pad_token_id=1,
)
BLOOM = dict(vocab_size=VOCAB, n_layer=2, bos_token_id=1, eos_token_id=2, pad_token_id=3)


def llama(**changes):
    return LlamaForCausalLM(LlamaConfig(**{**LLAMA, **changes}))


def llama3_rope(factor):
    return {"rope_type": "llama3", "rope_theta": 10000.0, "factor": factor, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 16}


# name -> (model, stored dtype, largest shard)
VARIANTS = {
    "llama_mha": lambda: (llama(num_key_value_heads=4), torch.float32, None),
    "llama_gqa_tied": lambda: (llama(tie_word_embeddings=True), torch.float16, None),
    "llama_one_kv_head": lambda: (llama(num_key_value_heads=1), torch.float16, None),
    "llama_linear": lambda: (
        llama(rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}), torch.float16, None),
    "llama_dynamic": lambda: (
        llama(rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}), torch.float16, None),
    "llama_llama3_8": lambda: (llama(head_dim=16, rope_parameters=llama3_rope(8.0)), torch.float16, None),
    "llama_llama3_32": lambda: (llama(head_dim=16, rope_parameters=llama3_rope(32.0)), torch.float16, None),
    "llama_yarn": lambda: (
        llama(head_dim=16, rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                                            "original_max_position_embeddings": 16}), torch.float16, None),
    "llama_biases": lambda: (llama(attention_bias=True, mlp_bias=True), torch.float16, None),
    "llama_bf16_sharded": lambda: (llama(), torch.bfloat16, "12kB"),
    "mistral": lambda: (
        MistralForCausalLM(MistralConfig(**{**LLAMA, "rms_norm_eps": 1e-6}, sliding_window=48)), torch.float16, None),
    "opt_pre_norm": lambda: (OPTForCausalLM(OPTConfig(**OPT)), torch.float16, None),
    "opt_350m": lambda: (
        OPTForCausalLM(OPTConfig(**OPT, do_layer_norm_before=False, word_embed_proj_dim=16)), torch.float16, None),
    "bloom_8_heads": lambda: (BloomForCausalLM(BloomConfig(**BLOOM, hidden_size=32, n_head=8)), torch.float16, None),
    "bloom_6_heads": lambda: (BloomForCausalLM(BloomConfig(**BLOOM, hidden_size=24, n_head=6)), torch.float16, None),
    "bloom_post_norm": lambda: (
        BloomForCausalLM(BloomConfig(**BLOOM, hidden_size=24, n_head=3, apply_residual_connection_post_layernorm=True)),
        torch.bfloat16, None),
}


def randomize(model, seed):
    """Weights large enough that attention looks somewhere and positions matter; norms and biases that are not 1 and 0."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        norm_scale = ("norm" in name or "ln_f" in name) and name.endswith("weight")
        parameter.data = 1 + 0.1 * noise if norm_scale else 0.3 * noise
    model.tie_weights()


def make(name, folder, seed):
    model, dtype, shard = VARIANTS[name]()
    randomize(model, seed)
    model = model.eval().to(dtype)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, **({"max_shard_size": shard} if shard else {}))
    (folder / "generation_config.json").unlink(missing_ok=True)

    generator = torch.Generator().manual_seed(seed + 1000)
    ids = torch.randint(0, VOCAB, (2, 40), generator=generator)
    golden = {"ids": ids}
    with torch.no_grad():
        if dtype != torch.float32:
            golden["logits_model_dtype"] = model(ids).logits.float().contiguous()
        golden["logits"] = type(model).from_pretrained(folder, dtype=torch.float32)(ids).logits.contiguous()
    if name not in ("llama_gqa_tied", "llama_bf16_sharded", "opt_pre_norm", "bloom_6_heads", "bloom_post_norm"):
        golden.pop("logits_model_dtype", None)  # two dtypes and all families are enough
    save_file(golden, folder / "golden.safetensors", metadata={"format": "pt"})
    for path in folder.iterdir():
        path.chmod(0o644)


def run_variants(description, variants, make_variant, first_seed=0):
    """The command line of a script that makes goldens: all variants, or those that are named, each with a seed of its own."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variants", nargs="*", choices=[[], *variants], default=[])
    parser.add_argument("--out", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent / "tests/models/golden")
    arguments = parser.parse_args()
    for seed, name in enumerate(variants, first_seed):
        if not arguments.variants or name in arguments.variants:
            make_variant(name, arguments.out / name, seed)
            print(name)


if __name__ == "__main__":
    run_variants(__doc__, VARIANTS, make)
