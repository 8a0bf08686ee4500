"""Trains the quickstart's language model and its tokenizer, from plain text, in minutes.

The model is a LLaMA-architecture network of at most 4M parameters (float16 safetensors with Hugging
Face names), the tokenizer a sentencepiece BPE model of 2048 pieces. Both see the files given by
--text and nothing else; the model in assets/quickstart-model was made from the head of WikiText-2's
training split and a sample of TinyStories. The last 5 % of each file is kept back for validation.

    train_quickstart_model.py --text FILES --tokenizer-only --out DIR     (needs sentencepiece)
    train_quickstart_model.py --text FILES --tokenizer FILE --out DIR --minutes 3

Several configurations are tried within the time; the one with the lowest validation loss, measured
on the weights after rounding to float16, is written. The number of steps follows from the machine's
speed and is recorded in training.json; --steps repeats a run with the same number.

Needs torch, sentencepiece, safetensors and numpy. No network.
"""

import argparse
import json
import math
import os
import re
import shutil
import time

VOCAB_SIZE = 2048
CONTEXT = 512
BOS, EOS = 1, 2
VALIDATION_SHARE = 0.05
MAX_PARAMETERS = 4_000_000

# Best guess first: a run that is short of time tries fewer. `merge_dropout` skips BPE merges at random
# in the training text (each epoch sees other cuts of the same words).
CONFIGURATIONS = [
    dict(hidden=192, layers=6, heads=6, kv_heads=2, ffn=512, dropout=0.20, merge_dropout=0.05, epochs=70),
    dict(hidden=256, layers=5, heads=4, kv_heads=2, ffn=640, dropout=0.25, merge_dropout=0.05, epochs=70),
    dict(hidden=192, layers=6, heads=6, kv_heads=2, ffn=512, dropout=0.10, merge_dropout=0.05, epochs=50),
    dict(hidden=256, layers=5, heads=4, kv_heads=2, ffn=640, dropout=0.15, merge_dropout=0.10, epochs=50),
]
TINY = [
    dict(hidden=64, layers=2, heads=4, kv_heads=2, ffn=128, dropout=0.1, merge_dropout=0.05, epochs=4),
    dict(hidden=64, layers=2, heads=4, kv_heads=2, ffn=128, dropout=0.2, merge_dropout=0.0, epochs=4),
]

LICENSE_TEXT = """The model and the tokenizer in this folder were trained by the gptq-bench project with
scripts/train_quickstart_model.py. What the project wrote and trained (weights, tokenizer, configuration)
is under the Apache License, Version 2.0.

Trained on these two texts and on nothing else:

* The head of WikiText-2 (raw), training split: its first 1,002,135 bytes, detokenized to plain English.
  WikiText-2 is text of Wikipedia's editors, under CC BY-SA 3.0 and the GFDL.
* A sample of TinyStories (317 stories, 261,693 bytes), under CDLA-Sharing-1.0.

The last 5 % of each was kept back to choose when to stop and which configuration to keep. The model has
seen none of the texts that this project evaluates on: no test or validation split of WikiText-2, no Penn
Treebank, no C4, no zero-shot task, and neither of the texts in datasets/builtin.
"""


# --- Text -------------------------------------------------------------------------------------------


def detokenize(line):
    """WikiText's spaced-out tokens as plain English: 'a 10 @,@ 000 @-@ year , " old " one' and so on."""
    line = re.sub(r" @([-,.])@ ", r"\1", line)
    line = re.sub(r" '(s|t|m|d|re|ve|ll)\b", r"'\1", line)
    line = re.sub(r"s ' ", "s' ", line)
    line = re.sub(r" ([,.;:!?%)\]])", r"\1", line)
    line = re.sub(r"([(\[$]) ", r"\1", line)
    line = re.sub(r" / ", "/", line)
    # Double quotes alternate between opening and closing within a paragraph.
    pieces = line.split('"')
    for index in range(1, len(pieces), 2):
        pieces[index] = pieces[index].strip()
    for index in range(2, len(pieces), 2):
        pieces[index] = re.sub(r"^ ([,.;:!?)])", r"\1", pieces[index])
    return '"'.join(pieces)


def plain_documents(path):
    """The file's documents: stories parted by <|endoftext|>, or WikiText's paragraphs without headings."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for odd, plain in {"\u2013": "-", "\u2014": "-", "\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'}.items():
        text = text.replace(odd, plain)
    if "<|endoftext|>" in text:
        return [story.strip() for story in text.split("<|endoftext|>") if story.strip()]
    lines = (line.strip() for line in text.split("\n"))
    return [detokenize(line) for line in lines if line and not re.fullmatch(r"= .* =", line)]


def split_text(paths):
    """(training text, validation text); documents are parted by one blank line."""
    train, validation = [], []
    for path in paths:
        documents = plain_documents(path)
        total = sum(len(document) for document in documents)
        seen = 0
        for document in documents:
            seen += len(document)
            (train if seen <= (1 - VALIDATION_SHARE) * total else validation).append(document)
    return "\n\n".join(train), "\n\n".join(validation)


def train_tokenizer(text, path):
    import sentencepiece

    with open(path, "wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([line for line in text.split("\n") if line]),
            model_writer=file,
            model_type="bpe",
            vocab_size=VOCAB_SIZE,
            character_coverage=0.9998,
            byte_fallback=True,
            split_digits=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            allow_whitespace_only_pieces=True,
            add_dummy_prefix=True,
            unk_id=0,
            bos_id=BOS,
            eos_id=EOS,
            pad_id=-1,
            max_sentence_length=1 << 20,
            num_threads=1,
            minloglevel=1,
        )


# --- Model ------------------------------------------------------------------------------------------


def build_model(cfg):
    """A LLaMA with Hugging Face's parameter names (the tied head has none of its own)."""
    import torch
    from torch import nn
    from torch.nn import functional

    hidden, heads, kv_heads = cfg["hidden"], cfg["heads"], cfg["kv_heads"]
    head_dim = hidden // heads

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(hidden))

        def forward(self, x):
            wide = x.float()
            wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
            return (wide * self.weight.float()).type_as(x)

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q_proj = nn.Linear(hidden, heads * head_dim, bias=False)
            self.k_proj = nn.Linear(hidden, kv_heads * head_dim, bias=False)
            self.v_proj = nn.Linear(hidden, kv_heads * head_dim, bias=False)
            self.o_proj = nn.Linear(heads * head_dim, hidden, bias=False)

        def forward(self, x, cos, sin):
            batch, length, _ = x.shape

            def split(y, count):
                return y.view(batch, length, count, head_dim).transpose(1, 2)

            def rotate(y):
                first, second = y.chunk(2, dim=-1)
                return y * cos + torch.cat((-second, first), dim=-1) * sin

            q = rotate(split(self.q_proj(x), heads))
            k = rotate(split(self.k_proj(x), kv_heads)).repeat_interleave(heads // kv_heads, dim=1)
            v = split(self.v_proj(x), kv_heads).repeat_interleave(heads // kv_heads, dim=1)
            y = functional.scaled_dot_product_attention(q.type_as(v), k.type_as(v), v, is_causal=True)
            return self.o_proj(y.transpose(1, 2).reshape(batch, length, hidden))

    class Mlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate_proj = nn.Linear(hidden, cfg["ffn"], bias=False)
            self.up_proj = nn.Linear(hidden, cfg["ffn"], bias=False)
            self.down_proj = nn.Linear(cfg["ffn"], hidden, bias=False)

        def forward(self, x):
            return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.input_layernorm = Norm()
            self.self_attn = Attention()
            self.post_attention_layernorm = Norm()
            self.mlp = Mlp()
            self.drop = nn.Dropout(cfg["dropout"])

        def forward(self, x, cos, sin):
            x = x + self.drop(self.self_attn(self.input_layernorm(x), cos, sin))
            return x + self.drop(self.mlp(self.post_attention_layernorm(x)))

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed_tokens = nn.Embedding(VOCAB_SIZE, hidden)
            self.layers = nn.ModuleList(Block() for _ in range(cfg["layers"]))
            self.norm = Norm()
            self.drop = nn.Dropout(cfg["dropout"])
            for name, parameter in self.named_parameters():
                if parameter.dim() == 2:
                    residual = name.endswith(("o_proj.weight", "down_proj.weight"))
                    nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * cfg["layers"]) if residual else 0.02)
            inverse = 10000.0 ** (-torch.arange(0, head_dim, 2).float() / head_dim)
            angle = torch.outer(torch.arange(CONTEXT).float(), inverse).repeat(1, 2)
            self.register_buffer("cos", angle.cos(), persistent=False)
            self.register_buffer("sin", angle.sin(), persistent=False)

        def forward(self, ids):
            """ids [batch, length] -> logits [batch, length, vocabulary]."""
            length = ids.shape[1]
            x = self.drop(self.embed_tokens(ids))
            for layer in self.layers:
                x = layer(x, self.cos[:length], self.sin[:length])
            return functional.linear(self.norm(x), self.embed_tokens.weight)

    model = Llama()
    count = sum(parameter.numel() for parameter in model.parameters())
    if count > MAX_PARAMETERS:
        raise SystemExit(f"{count} parameters, more than {MAX_PARAMETERS}")
    return model


# --- Training ---------------------------------------------------------------------------------------


class Trainer:
    """Trains one configuration after another on the same text; times are seconds."""

    def __init__(self, args, tokenizer, train_text, validation_text):
        import torch

        self.torch = torch
        self.args = args
        self.tokenizer = tokenizer
        self.train_text = train_text
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.validation_ids = torch.tensor(tokenizer.encode(validation_text), device=self.device)
        self.streams = {}

    def training_streams(self, merge_dropout):
        """The training text's ids, cut in several ways when merges are dropped at random."""
        if merge_dropout not in self.streams:
            plain = self.tokenizer.encode(self.train_text)
            cuts = [plain]
            if merge_dropout > 0:
                for _ in range(2 if self.args.tiny else 12):
                    cuts.append(self.tokenizer.encode(self.train_text, enable_sampling=True, alpha=merge_dropout))
            self.streams[merge_dropout] = [self.torch.tensor(ids, device=self.device) for ids in cuts]
        return self.streams[merge_dropout]

    def batch(self, streams, size, generator):
        """(ids [size, CONTEXT + 1]): random windows; half start with BOS, as an evaluated text does."""
        torch = self.torch
        # Half of the batches show the text as it is cut when evaluated.
        pick = 0 if len(streams) == 1 or torch.rand(1, generator=generator) < 0.5 else 1
        if pick:
            pick = int(torch.randint(1, len(streams), (1,), generator=generator))
        stream = streams[pick]
        starts = torch.randint(0, len(stream) - CONTEXT, (size, 1), generator=generator).to(self.device)
        ids = stream[starts + torch.arange(CONTEXT + 1, device=self.device)]
        ids[: size // 2, 0] = BOS
        return ids

    def autocast(self):
        return self.torch.autocast(self.device, dtype=self.torch.bfloat16, enabled=self.device == "cuda")

    def validate(self, model):
        """Mean loss in nats a token over windows of CONTEXT tokens, float32, each token after a window's
        first predicted once."""
        torch = self.torch
        model.eval()
        whole = len(self.validation_ids) // CONTEXT
        windows = self.validation_ids[: whole * CONTEXT].view(whole, CONTEXT)
        total = 0.0
        with torch.no_grad():
            for chunk in windows.split(16):
                logits = model(chunk)[:, :-1].float()
                total += torch.nn.functional.cross_entropy(
                    logits.reshape(-1, VOCAB_SIZE), chunk[:, 1:].reshape(-1), reduction="sum"
                ).item()
        model.train()
        return total / (whole * (CONTEXT - 1))

    def run(self, cfg, seconds, seed):
        """Returns (validation loss of the float16 weights, state, record)."""
        torch = self.torch
        start = time.monotonic()
        streams = self.training_streams(cfg["merge_dropout"])
        torch.manual_seed(seed)
        generator = torch.Generator().manual_seed(seed)
        model = build_model(cfg).to(self.device)
        matrices = [p for p in model.parameters() if p.dim() == 2]
        vectors = [p for p in model.parameters() if p.dim() < 2]
        optimizer = torch.optim.AdamW(
            [dict(params=matrices, weight_decay=0.1), dict(params=vectors, weight_decay=0.0)],
            lr=1.0,
            betas=(0.9, 0.98),
            fused=self.device == "cuda",
        )
        size = 4 if self.args.tiny else 32
        epoch = math.ceil(len(streams[0]) / (size * CONTEXT))
        steps = self.args.steps or cfg["epochs"] * epoch
        warmup, peak = min(100, steps // 10 + 1), 3e-3
        check_every = max(1, epoch * 2)
        curve, best, best_state = [], math.inf, None
        probe = 10
        step = 0
        while step < steps:
            if step == probe:
                # The first steps pay for start-up; the rest say how many steps fit in the time.
                self.synchronize()
                probe_start = time.monotonic()
            if step == 3 * probe and not self.args.steps:
                self.synchronize()
                pace = (time.monotonic() - probe_start) / (2 * probe)
                fit = step + int(0.9 * (seconds - (time.monotonic() - start)) / pace)
                steps = max(3 * probe + 1, min(steps, fit))
                check_every = max(1, min(check_every, steps // 10))
            progress = max(0.0, (step - warmup) / max(1, steps - warmup))
            rate = peak * min(1.0, (step + 1) / warmup) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * progress)))
            for group in optimizer.param_groups:
                group["lr"] = rate
            ids = self.batch(streams, size, generator)
            with self.autocast():
                logits = model(ids[:, :-1])
            loss = torch.nn.functional.cross_entropy(logits.float().reshape(-1, VOCAB_SIZE), ids[:, 1:].reshape(-1))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            if step % check_every == 0 or step == steps:
                value = self.validate(model)
                curve.append(dict(step=step, train=round(loss.item(), 4), validation=round(value, 4)))
                print(f"  step {step}/{steps}  train {loss.item():.3f}  validation {value:.4f}", flush=True)
                if value < best:
                    best = value
                    best_state = {name: p.detach().clone() for name, p in model.state_dict().items()}
                elif value > best + 0.15:
                    print("  stopped early", flush=True)
                    break
        half = {name: p.half() for name, p in best_state.items()}
        model.load_state_dict({name: p.float() for name, p in half.items()})
        final = self.validate(model)
        record = dict(
            configuration=cfg,
            parameters=sum(p.numel() for p in model.parameters()),
            seed=seed,
            steps_planned=steps,
            steps_run=step,
            batch_tokens=size * CONTEXT,
            epoch_steps=epoch,
            peak_learning_rate=peak,
            seconds=round(time.monotonic() - start, 1),
            validation_loss=round(best, 5),
            validation_loss_float16=round(final, 5),
            curve=curve,
        )
        return final, {name: p.cpu().contiguous() for name, p in half.items()}, record

    def synchronize(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()


# --- Files ------------------------------------------------------------------------------------------


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2)
        file.write("\n")


def write_tokenizer_config(folder):
    write_json(
        os.path.join(folder, "tokenizer_config.json"),
        {
            "tokenizer_class": "LlamaTokenizer",
            "add_bos_token": True,
            "add_eos_token": False,
            "bos_token": "<s>",
            "eos_token": "</s>",
            "unk_token": "<unk>",
            "clean_up_tokenization_spaces": False,
            "legacy": True,
            "model_max_length": CONTEXT,
        },
    )


def write_model(folder, cfg, state):
    from safetensors.torch import save_file

    weights = os.path.join(folder, "model.safetensors")
    save_file({f"model.{name}": tensor for name, tensor in state.items()}, weights, metadata={"format": "pt"})
    os.chmod(weights, 0o644)
    write_json(
        os.path.join(folder, "config.json"),
        {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": BOS,
            "eos_token_id": EOS,
            "head_dim": cfg["hidden"] // cfg["heads"],
            "hidden_act": "silu",
            "hidden_size": cfg["hidden"],
            "initializer_range": 0.02,
            "intermediate_size": cfg["ffn"],
            "max_position_embeddings": CONTEXT,
            "mlp_bias": False,
            "num_attention_heads": cfg["heads"],
            "num_hidden_layers": cfg["layers"],
            "num_key_value_heads": cfg["kv_heads"],
            "pretraining_tp": 1,
            "rms_norm_eps": 1e-05,
            "rope_scaling": None,
            "rope_theta": 10000.0,
            "tie_word_embeddings": True,
            "torch_dtype": "float16",
            "use_cache": True,
            "vocab_size": VOCAB_SIZE,
        },
    )
    write_json(os.path.join(folder, "generation_config.json"), {"bos_token_id": BOS, "eos_token_id": EOS})
    with open(os.path.join(folder, "MODEL_LICENSE"), "w", encoding="utf-8") as file:
        file.write(LICENSE_TEXT)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", nargs="+", required=True, help="text files in WikiText's raw form or TinyStories' (<|endoftext|>)")
    parser.add_argument("--out", required=True, help="folder to write")
    parser.add_argument("--tokenizer", help="sentencepiece model to use; without it one is trained")
    parser.add_argument("--tokenizer-only", action="store_true", help="train and write the tokenizer, then stop")
    parser.add_argument("--minutes", type=float, default=3.0, help="time for all configurations together")
    parser.add_argument("--steps", type=int, help="steps of each configuration, instead of what fits the time")
    parser.add_argument("--only", type=int, help="train just this configuration (0 is the first)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first configuration")
    parser.add_argument("--tiny", action="store_true", help="a model of no use, to test this script on a CPU")
    args = parser.parse_args()

    begin = time.monotonic()
    os.makedirs(args.out, exist_ok=True)
    train_text, validation_text = split_text(args.text)
    tokenizer_path = os.path.join(args.out, "tokenizer.model")
    if not args.tokenizer:
        train_tokenizer(train_text, tokenizer_path)
    elif os.path.abspath(args.tokenizer) != os.path.abspath(tokenizer_path):
        shutil.copyfile(args.tokenizer, tokenizer_path)
    write_tokenizer_config(args.out)

    import sentencepiece

    tokenizer = sentencepiece.SentencePieceProcessor(model_file=tokenizer_path)
    if tokenizer.vocab_size() != VOCAB_SIZE or tokenizer.bos_id() != BOS or tokenizer.eos_id() != EOS:
        raise SystemExit(f"'{tokenizer_path}' is not a tokenizer of {VOCAB_SIZE} pieces with bos 1 and eos 2")
    count = len(tokenizer.encode(train_text))
    print(f"training text: {len(train_text.encode())} bytes, {count} tokens; validation: {len(validation_text.encode())} bytes")
    if args.tokenizer_only:
        return

    import torch

    sentencepiece.set_random_generator_seed(args.seed)
    trainer = Trainer(args, tokenizer, train_text, validation_text)
    candidates = TINY if args.tiny else CONFIGURATIONS
    if args.only is not None:
        candidates = [candidates[args.only]]
    deadline = begin + 60 * args.minutes
    best, records = math.inf, []
    for index, cfg in enumerate(candidates):
        left = deadline - time.monotonic()
        share = left / (len(candidates) - index)
        # A configuration that cannot run its share of the time would only waste it.
        if index and share < 0.5 * records[0]["seconds"] and share < 30:
            break
        print(f"configuration {index}: {cfg}, {share:.0f} s", flush=True)
        loss, state, record = trainer.run(cfg, share, args.seed + index)
        records.append(record)
        print(f"  float16 validation loss {loss:.4f}, perplexity {math.exp(loss):.2f}", flush=True)
        if loss < best:
            best, chosen = loss, index
            write_model(args.out, cfg, state)
    write_json(
        os.path.join(args.out, "training.json"),
        dict(
            device=torch.cuda.get_device_name() if trainer.device == "cuda" else "cpu",
            torch=torch.__version__,
            seed=args.seed,
            seconds=round(time.monotonic() - begin, 1),
            text=[os.path.basename(path) for path in args.text],
            training_tokens=count,
            validation_tokens=len(trainer.validation_ids),
            chosen=chosen,
            validation_loss_float16=round(best, 5),
            runs=records,
        ),
    )
    print(f"kept configuration {chosen}, validation loss {best:.4f}, perplexity {math.exp(best):.2f}: {args.out}")


if __name__ == "__main__":
    main()
