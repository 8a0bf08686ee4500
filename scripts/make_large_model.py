#!/usr/bin/env python3
"""Writes a LLaMA checkpoint of random float16 weights, as large as wanted: something to stream from disk.

    scripts/make_large_model.py $GPTQ_BENCH_MODELS/large-8gib --gib 8

Needs nothing but Python. Blocks have the shapes of LLaMA-7B, one file each; there are as many as the size asks for. One run
of random numbers of a prime length is repeated from another place in every tensor: good for time and memory, and for
nothing else. There is no tokenizer; ids.txt beside the weights has random ids, as a dataset `tokens:` takes them.
"""
import argparse
import json
import pathlib
import random
import struct

HIDDEN, INNER, HEADS, VOCABULARY = 4096, 11008, 32, 32000
RUN = 1_048_573  # numbers that repeat; a prime, so that no two rows of a matrix are the same
DEVIATION = 0.02
IDS = 300_000

BLOCK = {
    "self_attn.q_proj": (HIDDEN, HIDDEN), "self_attn.k_proj": (HIDDEN, HIDDEN), "self_attn.v_proj": (HIDDEN, HIDDEN),
    "self_attn.o_proj": (HIDDEN, HIDDEN), "mlp.gate_proj": (INNER, HIDDEN), "mlp.up_proj": (INNER, HIDDEN),
    "mlp.down_proj": (HIDDEN, INNER), "input_layernorm": (HIDDEN,), "post_attention_layernorm": (HIDDEN,),
}  # fmt: skip
ENDS = {"model.embed_tokens": (VOCABULARY, HIDDEN), "model.norm": (HIDDEN,), "lm_head": (VOCABULARY, HIDDEN)}
ONE = struct.pack("<e", 1.0)


def size(shape):
    return 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)


def write_values(file, shape, run, start):
    left = size(shape)
    if len(shape) == 1:
        file.write(ONE * shape[0])
        return
    at = 2 * (start % RUN)
    while left > 0:
        piece = run[at : at + left]
        file.write(piece)
        left -= len(piece)
        at = 0


def write_file(path, tensors, run, start):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in tensors.items():
        end = offset + size(shape)
        header[name] = {"dtype": "F16", "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for i, shape in enumerate(tensors.values()):
            write_values(file, shape, run, start + 7919 * i)
    return offset


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--gib", type=float, default=8, help="size of all blocks together (default 8)")
    args = parser.parse_args()
    of_block = sum(size(shape) for shape in BLOCK.values())
    blocks = -(-int(args.gib * 2**30) // of_block)
    generator = random.Random(0)
    run = struct.pack(f"<{RUN}e", *(generator.gauss(0, DEVIATION) for _ in range(RUN)))
    args.out.mkdir(parents=True, exist_ok=True)
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": HIDDEN,
              "intermediate_size": INNER, "num_hidden_layers": blocks, "num_attention_heads": HEADS,
              "num_key_value_heads": HEADS, "vocab_size": VOCABULARY, "max_position_embeddings": 2048,
              "rms_norm_eps": 1e-6, "rope_theta": 1e4, "hidden_act": "silu", "tie_word_embeddings": False,
              "torch_dtype": "float16"}  # fmt: skip
    (args.out / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    index, total = {}, 0
    for part in range(blocks + 1):
        name = f"model-{part + 1:05d}-of-{blocks + 1:05d}.safetensors"
        prefix = f"model.layers.{part}."
        of_part = ENDS if part == blocks else {prefix + tensor: shape for tensor, shape in BLOCK.items()}
        tensors = {tensor + ".weight": shape for tensor, shape in of_part.items()}
        total += write_file(args.out / name, tensors, run, 104_729 * part)
        index.update(dict.fromkeys(tensors, name))
    (args.out / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": index}, indent=1) + "\n")
    ids = [str(generator.randrange(VOCABULARY)) for _ in range(IDS)]
    (args.out / "ids.txt").write_text("\n".join(ids) + "\n")
    print(f"{args.out}: {blocks} blocks, {total / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()
