"""Times perplexity of a LLaMA-family folder on the CPU: gptq-bench and `transformers` in turns on the same windows, same threads.

    python scripts/bench_perplexity.py --program build/release/bin/gptq-bench --model DIR --text FILE --windows 8 --rounds 3

Needs torch and transformers in the Python that runs it. Prints seconds of each round, medians, the ratio, and both losses, as
JSON. What is timed on both sides: embedding to loss over all windows, weights loaded, nothing else.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

EXPERIMENT = """\
name: bench_perplexity
model: {{path: "{model}", dtype: float32}}
method: {{name: none}}
evaluate:
  - perplexity: {{datasets: [{{name: text, source: "tokens:{tokens}"}}], seqlen: {seqlen}, max_windows: {windows}}}
"""


def run_ours(program, folder, experiment):
    output = folder / "out"
    subprocess.run([program, "run", experiment, "--output", output, "--fresh"], check=True, capture_output=True)
    record = json.loads(next((output / "records").glob("*.json")).read_text())
    metrics = {m["name"]: m for m in record["metrics"]}
    return record["seconds"]["evaluation"], metrics["perplexity.text"]["samples"]


def run_theirs(model, windows):
    import torch

    losses = []
    start = time.perf_counter()
    with torch.inference_mode():
        for ids in windows:
            logits = model(ids[None], use_cache=False).logits[0, :-1].float()
            losses.append(torch.nn.functional.cross_entropy(logits, ids[1:]).item())
    return time.perf_counter() - start, losses


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--text", required=True, help="plain text, tokenized once and cut into windows")
    parser.add_argument("--windows", type=int, default=8)
    parser.add_argument("--seqlen", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)

    import torch
    import transformers

    torch.set_num_threads(args.threads)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=os.path.join(args.model, "tokenizer.json"))
    ids = tokenizer(pathlib.Path(args.text).read_text())["input_ids"][: args.windows * args.seqlen]
    windows = torch.tensor(ids).view(args.windows, args.seqlen)
    model = transformers.AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32).eval()

    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "ids.txt").write_text(" ".join(map(str, ids)))
        experiment = folder / "bench.yaml"
        experiment.write_text(EXPERIMENT.format(model=os.path.abspath(args.model), tokens=folder / "ids.txt",
                                                seqlen=args.seqlen, windows=args.windows))
        for _ in range(args.rounds):
            ours.append(run_ours(args.program, folder, experiment))
            theirs.append(run_theirs(model, windows))
    our_seconds, their_seconds = [s for s, _ in ours], [s for s, _ in theirs]
    print(json.dumps({
        "threads": args.threads, "windows": args.windows, "seqlen": args.seqlen,
        "torch": torch.__version__, "transformers": transformers.__version__,
        "gptq_bench_seconds": our_seconds, "transformers_seconds": their_seconds,
        "ratio_of_medians": statistics.median(our_seconds) / statistics.median(their_seconds),
        "largest_loss_difference": max(abs(a - b) for a, b in zip(ours[0][1], theirs[0][1])),
    }, indent=1))


if __name__ == "__main__":
    main()
