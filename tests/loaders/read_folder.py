"""Reads a packed folder by loaders that others wrote; writes what each answers.

    read_folder.py FOLDER TEXT WINDOWS TOKENS OUT LOADER...

FOLDER's own tokenizer encodes the file TEXT. For each loader OUT (safetensors) has `ids` i64 [WINDOWS, TOKENS],
`LOADER.logits` f32 [TOKENS, vocab] of the first window and `LOADER.losses` f64 [WINDOWS], the mean loss of a window's
tokens after the first.
"""

import os
import sys

from loaders import LOADERS


def main(folder, text, windows, tokens, out, *names):
    import torch
    from safetensors.torch import save_file
    from transformers import AutoTokenizer

    os.chdir(os.path.dirname(out))  # GPTQModel writes logs where it is
    with open(text, encoding="utf-8") as file:
        ids = AutoTokenizer.from_pretrained(folder)(file.read())["input_ids"]
    ids = torch.tensor(ids[: int(windows) * int(tokens)]).view(int(windows), int(tokens))
    tensors = {"ids": ids}
    for name in names:
        logits = LOADERS[name](folder)(ids.tolist())
        tensors[f"{name}.logits"] = logits[0].clone()
        losses = [torch.nn.functional.cross_entropy(row[:-1], row_ids[1:]) for row, row_ids in zip(logits, ids)]
        tensors[f"{name}.losses"] = torch.stack(losses).double()
        del logits
    save_file(tensors, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
