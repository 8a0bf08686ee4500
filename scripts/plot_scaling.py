#!/usr/bin/env python3
"""Draws the records of experiments/scaling.yaml as an SVG: time to quantize against parameters, and what it goes into.

    scripts/plot_scaling.py results/scaling scaling.svg > scaling.md

Needs nothing but Python. Left: seconds against parameters, both axes logarithmic, with the slope of a straight line
through all models and through those above a billion. Right: the share of each phase. The same numbers go to stdout as a
table. A model of which only a part of its blocks was run is extrapolated from its two longest parts: each missing block
takes what the blocks took by which these two differ. Its mark is open and its name has a star.
"""
import json
import math
import pathlib
import sys

PHASES = ["read", "forward", "hessian", "factor", "solve", "write", "idle"]
COLOURS = ["#7f7f7f", "#3b8ed0", "#e0812b", "#b05cc6", "#3aa655", "#c9a227", "#a9a9a9"]
# Blocks of the published shapes (models/published_shapes.cpp).
BLOCKS = {
    "opt-125m": 12, "opt-350m": 24, "opt-1.3b": 24, "opt-2.7b": 32, "opt-6.7b": 32, "opt-13b": 40, "opt-30b": 48,
    "opt-66b": 64, "opt-175b": 96, "bloom-560m": 24, "bloom-1b1": 24, "bloom-1b7": 24, "bloom-3b": 30, "bloom-7b1": 30,
    "bloom-176b": 70, "llama-7b": 32, "llama-13b": 40, "llama-30b": 60, "llama-65b": 80,
    "llama-2-7b": 32, "llama-2-13b": 40, "llama-2-70b": 80, "llama-3-8b": 32, "llama-3-70b": 80,
}  # fmt: skip
HOW = ("\\* Extrapolated by blocks: time of the longest run + (blocks that are missing) x (difference of the two runs / "
       "difference of their blocks); so are its phases and parameters.")

# The page and its text follow the reader's choice of a light or a dark page.
STYLE = """<style>
.page{fill:#ffffff}.ink{fill:#222222}.faint{fill:#555555}.grid{stroke:#dddddd}.line{stroke:#1f6fb2}.mark{stroke:#1f6fb2}
.full{fill:#1f6fb2}.open{fill:#ffffff}.guide{stroke:#888888}
@media (prefers-color-scheme: dark){.page{fill:#14171a}.ink{fill:#e6e6e6}.faint{fill:#a8a8a8}.grid{stroke:#3a3f44}
.line{stroke:#6fb3ec}.mark{stroke:#6fb3ec}.full{fill:#6fb3ec}.open{fill:#14171a}.guide{stroke:#888888}}
</style>"""


def fail(where, message):
    sys.exit(f"[{where}] {message}")


def read_runs(folder):
    """{model: {blocks: (seconds, parameters, {phase: seconds})}} of all finished records."""
    runs, others = {}, set()
    paths = sorted(pathlib.Path(folder).glob("**/records/*.json"))
    for path in paths:
        record = json.loads(path.read_text())
        settings = dict(record["settings"])
        metrics = {metric["name"]: metric["value"] for metric in record["metrics"]}
        like = settings.get("model.synthetic.like")
        if record["status"] != "ok" or like is None or "seconds.quantize" not in metrics:
            continue
        if like not in BLOCKS:
            fail(path, f"expected a published shape, got {like}")
        others.add(tuple((k, v) for k, v in record["settings"] if not k.startswith("model.synthetic")))
        blocks = int(settings.get("model.synthetic.layers") or 0) or BLOCKS[like]
        parameters = metrics["bytes.weights"] * 8 / metrics["bits_per_weight.model"]
        phases = {phase: record["seconds"].get(phase, 0.0) for phase in PHASES}
        runs.setdefault(like, {})[blocks] = (metrics["seconds.quantize"], parameters, phases)
    if not runs:
        fail(folder, f"expected records of quantized models of a published shape, got none in {len(paths)} files")
    if len(others) > 1:
        fail(folder, "expected records that differ in nothing but the model, got other settings beside it")
    return runs


def whole_model(like, runs):
    """A dict of one point: what was run in full, or its two longest parts drawn out."""
    full = BLOCKS[like]
    if full in runs:
        seconds, parameters, phases = runs[full]
        return {"like": like, "blocks": str(full), "seconds": seconds, "parameters": parameters, "phases": phases,
                "extrapolated": False}  # fmt: skip
    if len(runs) < 2:
        fail(like, f"expected all {full} blocks or two runs with some of them, got one with {max(runs)}")
    few, many = sorted(runs)[-2:]

    def draw_out(a, b):
        return b + (full - many) * (b - a) / (many - few)

    phases = {phase: max(draw_out(runs[few][2][phase], runs[many][2][phase]), 0.0) for phase in PHASES}
    return {"like": like, "blocks": f"{few} and {many} of {full}", "seconds": draw_out(runs[few][0], runs[many][0]),
            "parameters": draw_out(runs[few][1], runs[many][1]), "phases": phases, "extrapolated": True}  # fmt: skip


def fit(points):
    """Slope and offset of log seconds over log parameters, by least squares; None for fewer than two models."""
    if len(points) < 2:
        return None
    xs = [math.log(point["parameters"]) for point in points]
    ys = [math.log(point["seconds"]) for point in points]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((a - x) * (b - y) for a, b in zip(xs, ys)) / sum((a - x) ** 2 for a in xs)
    return slope, y - slope * x


def label(point):
    return point["like"] + ("*" if point["extrapolated"] else "")


def count(parameters):
    return f"{parameters / 1e9:.3g} B" if parameters >= 1e9 else f"{parameters / 1e6:.3g} M"


def shares(point):
    total = sum(point["phases"].values())
    return [point["phases"][phase] / total if total > 0 else 0.0 for phase in PHASES]


def table(points, slopes):
    head = ["model", "parameters", "blocks", "seconds", "minutes"] + [f"{phase}, %" for phase in PHASES]
    rows = ["| " + " | ".join(head) + " |", "|" + " --- |" * 3 + " ---: |" * (len(head) - 3)]
    for point in points:
        cells = [label(point).replace("*", "\\*"), count(point["parameters"]), point["blocks"], f"{point['seconds']:.4g}",
                 f"{point['seconds'] / 60:.3g}"]  # fmt: skip
        rows.append("| " + " | ".join(cells + [f"{100 * share:.1f}" for share in shares(point)]) + " |")
    lines = rows + [""] + slopes
    if any(point["extrapolated"] for point in points):
        lines += ["", HOW]
    return "\n".join(lines)


class Drawing:
    def __init__(self, width, height):
        self.out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
                    f'height="{height}" font-family="sans-serif" font-size="12">', STYLE,
                    f'<rect class="page" width="{width}" height="{height}"/>']  # fmt: skip

    def text(self, x, y, text, anchor="start", kind="ink", size=None):
        font = f' font-size="{size}"' if size else ""
        self.out.append(f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{font}>{text}</text>')

    def line(self, x1, y1, x2, y2, kind, dash=""):
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.out.append(f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"{dashes}/>')

    def rect(self, x, y, width, height, colour):
        self.out.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.2f}" height="{height:.1f}" fill="{colour}"/>')


def draw_times(drawing, points, line, left, top, width, height):
    xs = [math.log10(point["parameters"]) for point in points]
    ys = [math.log10(point["seconds"]) for point in points]
    x_low, x_high = math.floor(min(xs) * 2) / 2, math.ceil(max(xs) * 2) / 2
    y_low, y_high = math.floor(min(ys)), math.ceil(max(ys))
    x_high, y_high = max(x_high, x_low + 0.5), max(y_high, y_low + 1)

    def x(parameters):
        return left + width * (math.log10(parameters) - x_low) / (x_high - x_low)

    def y(seconds):
        return top + height * (1 - (math.log10(seconds) - y_low) / (y_high - y_low))

    drawing.text(left, top - 14, "Time to quantize, seconds", size=14)
    for power in range(y_low, y_high + 1):
        drawing.line(left, y(10.0**power), left + width, y(10.0**power), "grid")
        drawing.text(left - 8, y(10.0**power) + 4, f"{10.0**power:g}", "end")
    for power in range(math.ceil(x_low), math.floor(x_high) + 1):
        drawing.line(x(10.0**power), top, x(10.0**power), top + height, "grid")
        drawing.text(x(10.0**power), top + height + 18, f"{10**power:.0e}".replace("e+0", "e").replace("e+", "e"), "middle")
    drawing.text(left + width / 2, top + height + 38, "parameters", "middle")
    if line:
        slope, offset = line
        ends = [points[0]["parameters"], points[-1]["parameters"]]
        at = [math.exp(offset + slope * math.log(parameters)) for parameters in ends]
        drawing.line(x(ends[0]), y(at[0]), x(ends[1]), y(at[1]), "guide", "6 4")
    for a, b in zip(points, points[1:]):
        drawing.line(x(a["parameters"]), y(a["seconds"]), x(b["parameters"]), y(b["seconds"]), "line")
    for point in points:
        kind = "mark open" if point["extrapolated"] else "mark full"
        at = x(point["parameters"]), y(point["seconds"])
        drawing.out.append(f'<circle class="{kind}" cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="4.5" stroke-width="2"/>')
        end = at[0] > left + 0.75 * width
        drawing.text(at[0] + (-9 if end else 9), at[1] + (-6 if end else 12), label(point), "end" if end else "start", size=11)


def draw_shares(drawing, points, left, top, width, height):
    drawing.text(left, top - 14, "Share of each phase", size=14)
    step = height / len(points)
    for i, point in enumerate(points):
        bar, at = step * 0.62, left
        y = top + step * i + (step - bar) / 2
        drawing.text(left - 8, y + bar / 2 + 4, label(point), "end")
        for share, colour in zip(shares(point), COLOURS):
            drawing.rect(at, y, share * width, bar, colour)
            at += share * width
        drawing.text(left + width + 8, y + bar / 2 + 4, f"{point['seconds']:.3g} s", kind="faint")
    for percent in (0, 50, 100):
        drawing.text(left + width * percent / 100, top + height + 18, f"{percent} %", "middle")
    at = left - 60
    for phase, colour in zip(PHASES, COLOURS):
        drawing.rect(at, top + height + 29, 10, 10, colour)
        drawing.text(at + 14, top + height + 38, phase, size=11)
        at += 22 + 7 * len(phase)


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: plot_scaling.py RESULTS OUT.svg")
    runs = read_runs(sys.argv[1])
    points = sorted((whole_model(like, of_model) for like, of_model in runs.items()), key=lambda p: p["parameters"])
    line = fit(points)
    large = fit([point for point in points if point["parameters"] >= 1e9])
    slopes = []
    if line:
        slopes.append(f"Slope of log seconds over log parameters, all {len(points)} models: {line[0]:.2f}"
                      + (f"; above a billion: {large[0]:.2f}." if large else "."))  # fmt: skip
    height = 330
    drawing = Drawing(1080, 484)
    draw_times(drawing, points, line, 70, 50, 420, height)
    draw_shares(drawing, points, 660, 50, 330, height)
    drawing.text(70, 455, " ".join(slopes), kind="faint", size=11)
    if any(point["extrapolated"] for point in points):
        drawing.text(70, 471, "* Extrapolated by blocks: the missing ones take what those took by which two shorter runs "
                     "differ.", kind="faint", size=11)  # fmt: skip
    drawing.out.append("</svg>")
    with open(sys.argv[2], "w") as file:
        file.write("\n".join(drawing.out) + "\n")
    print(table(points, slopes))


if __name__ == "__main__":
    main()
