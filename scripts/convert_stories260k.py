"""Makes a Hugging Face folder from llama2.c's stories260K (v0 weights, flat tokenizer file).

    convert_stories260k.py --model stories260K.bin[.xz] --tokenizer tok512.bin --out DIR

Writes config.json, model.safetensors (float32, tied head), tokenizer.model (sentencepiece protobuf) and
tokenizer_config.json. Needs only Python's standard library: tests run it.

llama2.c rotates adjacent rows of q and k, Hugging Face the two halves of a head: the rows are reordered.
"""

import argparse
import json
import lzma
import os
import struct
import sys

ROPE_THETA = 10000.0
NORM_EPS = 1e-05


def fail(message):
    sys.exit(f"convert_stories260k: {message}")


def read_bytes(path):
    if not os.path.isfile(path):
        fail(f"no file '{path}'")
    opener = lzma.open if path.endswith(".xz") else open
    with opener(path, "rb") as file:
        return file.read()


# --- Weights ----------------------------------------------------------------------------------------


def halves_order(heads, head_dim):
    """For each row in Hugging Face's order, its row in llama2.c's order."""
    half = head_dim // 2
    return [h * head_dim + 2 * (i % half) + i // half for h in range(heads) for i in range(head_dim)]


def reorder_rows(data, order):
    width = len(data) // len(order)
    return b"".join(data[row * width : (row + 1) * width] for row in order)


def read_weights(data):
    """(configuration, {name: (shape, float32 bytes)}) from a v0 file: seven int32, then the arrays."""
    if len(data) < 28:
        fail("the weights file is shorter than its header")
    dim, hidden, layers, heads, kv_heads, vocab, context = struct.unpack_from("<7i", data)
    if vocab < 0:
        fail("expected a shared classifier, got a model with one of its own")
    head_dim = dim // heads
    kv_dim = kv_heads * head_dim
    position = 28

    def take(*shape):
        nonlocal position
        size = 4
        for n in shape:
            size *= n
        position += size
        return shape, data[position - size : position]

    def take_layers(*shape):
        return [take(*shape) for _ in range(layers)]

    embed = take(vocab, dim)
    input_norm = take_layers(dim)
    q, k = take_layers(dim, dim), take_layers(kv_dim, dim)
    v, o = take_layers(kv_dim, dim), take_layers(dim, dim)
    post_norm = take_layers(dim)
    gate, down, up = take_layers(hidden, dim), take_layers(dim, hidden), take_layers(hidden, dim)
    final_norm = take(dim)
    take(2, context, head_dim // 2)  # tables of cosines and sines
    if position != len(data):
        fail(f"expected {position} bytes of weights, got {len(data)}")

    def reordered(tensor, count):
        return tensor[0], reorder_rows(tensor[1], halves_order(count, head_dim))

    tensors = {"model.embed_tokens.weight": embed, "model.norm.weight": final_norm}
    for layer in range(layers):
        parts = {
            "input_layernorm": input_norm[layer],
            "self_attn.q_proj": reordered(q[layer], heads),
            "self_attn.k_proj": reordered(k[layer], kv_heads),
            "self_attn.v_proj": v[layer],
            "self_attn.o_proj": o[layer],
            "post_attention_layernorm": post_norm[layer],
            "mlp.gate_proj": gate[layer],
            "mlp.up_proj": up[layer],
            "mlp.down_proj": down[layer],
        }
        tensors.update({f"model.layers.{layer}.{part}.weight": tensor for part, tensor in parts.items()})
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "head_dim": head_dim,
        "hidden_act": "silu",
        "hidden_size": dim,
        "intermediate_size": hidden,
        "max_position_embeddings": context,
        "mlp_bias": False,
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": kv_heads,
        "rms_norm_eps": NORM_EPS,
        "rope_scaling": None,
        "rope_theta": ROPE_THETA,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "vocab_size": vocab,
    }
    return config, tensors


def write_safetensors(path, tensors):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        for _, data in tensors.values():
            file.write(data)


# --- Tokenizer --------------------------------------------------------------------------------------


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def integer_field(number, value):
    return varint(number << 3) + varint(value)


def bytes_field(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value


def float_field(number, value):
    return varint(number << 3 | 5) + struct.pack("<f", value)


def read_pieces(data, count):
    """[(piece, score, type)] from the flat file: its longest length, then score, length and bytes a piece.
    llama2.c writes spaces for sentencepiece's markers and puts newlines around <s> and </s>."""
    normal, unknown, control, byte = 1, 2, 3, 6
    pieces, position = [], 4
    for index in range(count):
        if position + 8 > len(data):
            fail(f"the tokenizer file ends before piece {index} of {count}")
        score, length = struct.unpack_from("<fi", data, position)
        raw = data[position + 8 : position + 8 + length]
        position += 8 + length
        if index == 0:
            pieces.append((b"<unk>", score, unknown))
        elif index < 3:
            pieces.append((raw.strip(b"\n"), score, control))
        elif index < 259:
            if raw != b"<0x%02X>" % (index - 3):
                fail(f"expected the token of byte {index - 3}, got {raw!r}")
            pieces.append((raw, score, byte))
        else:
            pieces.append((raw.replace(b" ", "\u2581".encode()), score, normal))
    if position != len(data):
        fail(f"expected {position} bytes of tokenizer, got {len(data)}")
    return pieces


def sentencepiece_model(pieces):
    """The ModelProto: pieces (1), trainer spec (2), normalizer spec (3); fields left out have the format's
    own defaults. Whitespace is kept as it is, as llama2.c's encoder keeps it."""
    bpe = 2
    out = b""
    for piece, score, kind in pieces:
        out += bytes_field(1, bytes_field(1, piece) + float_field(2, score) + integer_field(3, kind))
    trainer = integer_field(3, bpe) + integer_field(4, len(pieces))
    trainer += integer_field(25, 1)  # split_digits
    trainer += integer_field(35, 1)  # byte_fallback
    trainer += integer_field(40, 0) + integer_field(41, 1) + integer_field(42, 2)  # unk, bos, eos
    normalizer = bytes_field(1, b"identity")
    normalizer += integer_field(3, 1)  # add_dummy_prefix
    normalizer += integer_field(4, 0)  # remove_extra_whitespaces
    normalizer += integer_field(5, 1)  # escape_whitespaces
    return out + bytes_field(2, trainer) + bytes_field(3, normalizer)


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2)
        file.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="weights, llama2.c v0 format, plain or .xz")
    parser.add_argument("--tokenizer", required=True, help="llama2.c's flat tokenizer file")
    parser.add_argument("--out", required=True, help="folder to write; made if missing")
    args = parser.parse_args()

    config, tensors = read_weights(read_bytes(args.model))
    pieces = read_pieces(read_bytes(args.tokenizer), config["vocab_size"])
    os.makedirs(args.out, exist_ok=True)
    write_safetensors(os.path.join(args.out, "model.safetensors"), tensors)
    with open(os.path.join(args.out, "tokenizer.model"), "wb") as file:
        file.write(sentencepiece_model(pieces))
    write_json(
        os.path.join(args.out, "tokenizer_config.json"),
        {
            "tokenizer_class": "LlamaTokenizer",
            "add_bos_token": True,
            "add_eos_token": False,
            "bos_token": "<s>",
            "eos_token": "</s>",
            "unk_token": "<unk>",
            "clean_up_tokenization_spaces": False,
            "legacy": True,
        },
    )
    write_json(os.path.join(args.out, "config.json"), config)


if __name__ == "__main__":
    main()
