#!/usr/bin/env python3
"""Draws an output folder's plots from its tables: results.csv and layers.csv, never from anything else.

    scripts/plots DIR      ->  DIR/plots/{perplexity_bits,perplexity_size,layer_errors,phases}.svg

A plot that has nothing to show is not drawn, and an older one of its name is removed. The same tables give the same
bytes. Text stays text; page and ink follow the reader's choice of a light or a dark page; colours never stand alone,
marks and dashes differ too. Each file names in `data-inputs` the tables it was drawn from, so that `gptq-bench report`
shows no plot of other results.
"""
import csv
import hashlib
import io
import math
import pathlib
import re
import sys
import xml.sax.saxutils

import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

# Ink and page are named by colours that nothing else has, and replaced in the file.
INK, PAGE = "#010203", "none"
GRID = {"color": INK, "alpha": 0.15, "linewidth": 0.8}
# Readable on a light and on a dark page.
COLOURS = ["#2f86c9", "#c77700", "#1f9a74", "#b05cc6", "#d0453f", "#808890", "#9a8500", "#c86598"]
MARKS = ["o", "s", "^", "D", "v", "P", "X", "*"]
DASHES = ["-", "--", ":", "-."]
PHASES = ["read", "forward", "hessian", "factor", "solve", "write", "idle"]
MOST_PANELS, MOST_CELLS, MOST_BARS = 12, 6, 24
STYLE = ("<style>.gptqb-plot{color:#1d2125}.gptqb-page{fill:#ffffff}"
         "@media screen and (prefers-color-scheme:dark){.gptqb-plot{color:#e4e7ea}.gptqb-page{fill:#14171a}}</style>")
matplotlib.rcParams.update({
    "svg.fonttype": "none", "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"], "font.size": 10,
    "text.color": INK, "axes.edgecolor": INK, "axes.labelcolor": INK, "axes.titlecolor": INK, "xtick.color": INK,
    "ytick.color": INK, "axes.facecolor": PAGE, "figure.facecolor": PAGE, "savefig.facecolor": PAGE,
    "legend.frameon": False, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 11,
    "axes.titlelocation": "left", "lines.linewidth": 1.6, "text.parse_math": False,
})  # fmt: skip


def read_table(path):
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return [{key: clean(text) for key, text in row.items()} for row in csv.DictReader(file)]


def clean(text):
    """Without the apostrophe that the tables put before what a spreadsheet takes for a formula."""
    return text[1:] if text and text[0] == "'" and len(text) > 1 else text


def number(text):
    """A finite number, or None."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def shown(text, most=48):
    """Text of a record for a label: one line, printable, not too long."""
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    return text if len(text) <= most else text[: most - 1] + "…"


def model_of(row):
    path = (row.get("model.path") or "").rstrip("/")
    if path:
        return path.rsplit("/", 1)[-1]
    name = row.get("model.synthetic.like") or "synthetic " + (row.get("model.synthetic.architecture") or "")
    layers = row.get("model.synthetic.layers")
    return f"{name}, {layers} blocks" if layers else name


def is_synthetic(row):
    return any(key.startswith("model.synthetic") and value for key, value in row.items())


def label_of(row):
    method, bits, group = row.get("method.name", ""), row.get("quant.bits", ""), row.get("quant.group_size", "")
    parts = [method, f"{bits} bits" if number(bits) is not None else bits,
             "" if group in ("", None) else "rows" if group == "-1" else f"g{group}"]  # fmt: skip
    return " ".join(part for part in parts if part)


def setting_words(row, key):
    """"act_order", "no act_order", "damping 0.1"; a model by its name."""
    name, value = key.split(".")[-1], row[key]
    if key == "model.path":
        return model_of(row)
    return {"true": name, "false": f"no {name}"}.get(value, f"{name} {value}")


def labels_of(rows):
    """A label for each row, told apart by the settings in which rows of one label differ."""
    labels = []
    for row in rows:
        alike = [other for other in rows if label_of(other) == label_of(row)]
        keys = [key for key in row if re.match(r"(model|calibration|method|quant|compat)\.|overrides", key)]
        apart = [key for key in keys if len({other.get(key, "") for other in alike}) > 1 and row.get(key)]
        labels.append(shown(", ".join([label_of(row)] + [setting_words(row, key) for key in apart]), 52))
    return labels


def datasets_of(rows):
    names = []
    for row in rows:
        for key in row:
            for prefix in ("perplexity.", "expected.perplexity."):
                if key.startswith(prefix) and not key.endswith(".stderr") and key[len(prefix):] not in names:
                    names.append(key[len(prefix):])
    return names


def effective_bits(row):
    """Bits a weight of the linears with everything stored beside the codes; of the dense model its width. Of a cell that
    did not run the nominal figure: a 16-bit scale and a zero point for each group."""
    measured = number(row.get("bits_per_weight.linear"))
    if measured is not None:
        return measured
    if row.get("method.name") == "none":
        return {"float32": 32.0}.get(row.get("model.dtype", ""), 16.0)
    bits = 1.585 if row.get("quant.bits") == "ternary" else number(row.get("quant.bits"))
    group = number(row.get("quant.group_size"))
    if bits is None or group is None:
        return None
    return bits if group <= 0 else bits + (16 + bits) / group


def parameters_of(row):
    """In billions: what the model's name says (opt-1.3b, bloom-1b7, smollm2-135m), else what its weights take up."""
    found = re.search(r"(?<![\w.])(\d+)b(\d+)(?!\w)", model_of(row), re.I)
    if found:
        return float(f"{found[1]}.{found[2]}")
    found = re.search(r"(?<![\w.])(\d+(?:\.\d+)?)([mb])(?![a-z])", model_of(row), re.I)
    if found:
        return float(found[1]) * (1 if found[2].lower() == "b" else 1e-3)
    size, bits = number(row.get("bytes.weights")), number(row.get("bits_per_weight.model"))
    return size * 8 / bits / 1e9 if size and bits else None


def style_of(method, methods):
    at = methods.index(method)
    return COLOURS[at % len(COLOURS)], MARKS[at % len(MARKS)]


def grid_figure(panels, width=8.4, panel_height=3.3, columns=2):
    columns = min(columns, panels)
    lines = math.ceil(panels / columns)
    figure = Figure(figsize=(width if columns > 1 else 6.4, panel_height * lines + 0.9), layout="constrained")
    axes = [figure.add_subplot(lines, columns, i + 1) for i in range(panels)]
    for axis in axes:
        axis.grid(True, **GRID)
        axis.set_axisbelow(True)
    return figure, axes


def plain_log(axis, which="y"):
    """A logarithmic axis with numbers in plain notation, also where it spans less than a power of ten."""
    getattr(axis, f"set_{which}scale")("log")
    target = getattr(axis, f"{which}axis")
    low, high = sorted(getattr(axis, f"get_{which}lim")())
    wide = high / low > 30
    target.set_major_locator(matplotlib.ticker.LogLocator(base=10, subs=(1.0, 3.0) if wide else (1.0, 2.0, 3.0, 5.0, 7.0), numticks=12))
    target.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    target.set_minor_formatter(matplotlib.ticker.NullFormatter())
    target.set_minor_locator(matplotlib.ticker.NullLocator())


def legend(figure, handles, columns=4):
    figure.legend(handles=handles, loc="outside lower left", ncols=columns, fontsize=9)


def mark(label, colour, shape, line="none", filled=True):
    return Line2D([], [], color=colour, marker=shape, linestyle=line, label=label,
                  markerfacecolor=colour if filled else "none", markersize=6)  # fmt: skip


def draw_perplexity_bits(rows):
    rows = [row for row in rows if not is_synthetic(row) and effective_bits(row) is not None]
    methods = list(dict.fromkeys(row["method.name"] for row in rows))
    panels = []
    for model in dict.fromkeys(map(model_of, rows)):
        for dataset in datasets_of(rows):
            points = [(row, number(row.get(f"perplexity.{dataset}")), number(row.get(f"expected.perplexity.{dataset}")))
                      for row in rows if model_of(row) == model]  # fmt: skip
            points = [point for point in points if point[1] or point[2]]
            if any(row["method.name"] != "none" for row, _, _ in points):
                panels.append((model, dataset, points))
    if not panels:
        return None
    left_out = max(len(panels) - MOST_PANELS, 0)
    figure, axes = grid_figure(min(len(panels), MOST_PANELS))
    any_published = False
    for axis, (model, dataset, points) in zip(axes, panels):
        axis.set_title(shown(f"{model}, {dataset}"))
        axis.set_xlabel("bits a weight, all stored")
        axis.set_ylabel("perplexity")
        for row, ours, published in points:
            colour, shape = style_of(row["method.name"], methods)
            dense = row["method.name"] == "none"
            if dense and (ours or published):
                axis.axhline(ours or published, color=colour, linestyle="--", linewidth=1.2)
                continue
            if ours:
                axis.plot([effective_bits(row)], [ours], color=colour, marker=shape, linestyle="none", markersize=6)
            if published:
                any_published = True
                axis.plot([effective_bits(row)], [published], color=colour, marker=shape, linestyle="none", markersize=12,
                          markerfacecolor="none", markeredgewidth=1.2)  # fmt: skip
        plain_log(axis)
        axis.margins(x=0.12)
    handles = []
    for method in methods:
        colour, shape = style_of(method, methods)
        handles.append(Line2D([], [], color=colour, linestyle="--", label="dense") if method == "none"
                       else mark(shown(method), colour, shape))  # fmt: skip
    if any_published:
        handles.append(mark("ring: published", INK, "o", filled=False))
    legend(figure, handles)
    note = f"; {left_out} more panels are left out" if left_out else ""
    return figure, "Perplexity against effective bits a weight, codes, scales, zeros and indices counted" + note


def draw_perplexity_size(rows):
    rows = [row for row in rows if not is_synthetic(row) and parameters_of(row) is not None]
    lines = {}
    for row in rows:
        for dataset in datasets_of(rows):
            for kind, key in (("ours", f"perplexity.{dataset}"), ("published", f"expected.perplexity.{dataset}")):
                value = number(row.get(key))
                if value:
                    lines.setdefault(dataset, {}).setdefault((label_of(row), kind), {})[parameters_of(row)] = value
    lines = {dataset: found for dataset, found in lines.items() if len({size for line in found.values() for size in line}) > 1}
    if not lines:
        return None
    figure, axes = grid_figure(min(len(lines), MOST_PANELS))
    labels = list(dict.fromkeys(label for found in lines.values() for label, _ in found))
    any_published = False
    for axis, (dataset, found) in zip(axes, lines.items()):
        axis.set_title(shown(dataset))
        axis.set_xlabel("parameters, billions")
        axis.set_ylabel("perplexity")
        for (label, kind), line in found.items():
            at = labels.index(label)
            sizes = sorted(line)
            ours = kind == "ours"
            any_published = any_published or not ours
            axis.plot(sizes, [line[size] for size in sizes], color=COLOURS[at % len(COLOURS)], marker=MARKS[at % len(MARKS)],
                      markersize=5 if ours else 9, linestyle="-" if ours else ":",
                      markerfacecolor=COLOURS[at % len(COLOURS)] if ours else "none")  # fmt: skip
        plain_log(axis)
        plain_log(axis, "x")
    handles = [mark(shown(label), COLOURS[i % len(COLOURS)], MARKS[i % len(MARKS)], "-") for i, label in enumerate(labels)]
    if any_published:
        handles.append(mark("dotted: published", INK, "o", ":", filled=False))
    legend(figure, handles)
    return figure, "Perplexity against the size of the model"


def kind_and_block(layer):
    """("self_attn.q_proj", 3) of "model.layers.3.self_attn.q_proj"; None outside blocks."""
    found = re.match(r"(?:.*?\.)?(\d+)\.(.+)$", layer)
    return (found[2], int(found[1])) if found else None


def draw_layer_errors(rows, layers):
    cells = [row["cell_id"] for row in rows]
    labels = dict(zip(cells, labels_of(rows)))
    found = {}
    for layer in layers:
        place, error = kind_and_block(layer["layer"]), number(layer.get("relative_error"))
        if place and layer["cell_id"] in labels and layer["method"] not in ("rtn", "none") and error:
            found.setdefault(layer["cell_id"], {}).setdefault(place[0], {})[place[1]] = (
                error, number(layer.get("relative_error_rtn")), layer.get("bits"), layer.get("group_size"))  # fmt: skip
    found = {cell: found[cell] for cell in cells if cell in found}
    if not found:
        return None
    left_out = max(len(found) - MOST_CELLS, 0)
    found = dict(list(found.items())[:MOST_CELLS])
    kinds = list(dict.fromkeys(kind for cell in found.values() for kind in cell))[:MOST_PANELS]
    figure, axes = grid_figure(len(kinds), panel_height=2.6)
    for axis, kind in zip(axes, kinds):
        axis.set_title(shown(kind))
        axis.set_xlabel("block")
        axis.set_ylabel("relative error")
        rtn_drawn = set()
        for i, cell in enumerate(found.values()):
            points = sorted(cell.get(kind, {}).items())
            blocks = [block for block, _ in points]
            colour = COLOURS[i % len(COLOURS)]
            alone = len(points) == 1
            axis.plot(blocks, [point[0] for _, point in points], color=colour, marker=MARKS[i % len(MARKS)], markersize=5,
                      markevery=(i, max(len(points) // 5, 1)) if len(points) > i else None)  # fmt: skip
            rtn = [(block, point[1]) for block, point in points if point[1]]
            if rtn and tuple(rtn) not in rtn_drawn:
                rtn_drawn.add(tuple(rtn))
                axis.plot(*zip(*rtn), color=colour, linestyle=":", marker="x" if alone else None)
        plain_log(axis)
        axis.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
    handles = [mark(labels[cell], COLOURS[i % len(COLOURS)], MARKS[i % len(MARKS)], "-") for i, cell in enumerate(found)]
    handles.append(Line2D([], [], color=INK, linestyle=":", label="dotted: RTN, same settings"))
    legend(figure, handles, 2)
    note = f"; {left_out} more cells are in layers.csv" if left_out else ""
    return figure, "Error of each layer on its calibration inputs, beside that of RTN" + note


def draw_phases(rows):
    rows = [row for row in rows if row.get("method.name") != "none" and number(row.get("seconds.quantize"))]
    if not rows:
        return None
    labels = labels_of(rows)
    left_out = max(len(rows) - MOST_BARS, 0)
    rows, labels = rows[:MOST_BARS], labels[:MOST_BARS]
    phases = [phase for phase in PHASES if any(number(row.get(f"seconds.{phase}")) for row in rows)]
    if not phases:
        return None
    figure = Figure(figsize=(8.4, 1.4 + 0.34 * len(rows)), layout="constrained")
    axis = figure.add_subplot()
    axis.grid(True, axis="x", **GRID)
    axis.set_axisbelow(True)
    hatches = ["", "//", "", "\\\\", "", "..", "xx"]
    start = [0.0] * len(rows)
    for phase in phases:
        at = PHASES.index(phase)
        lengths = [number(row.get(f"seconds.{phase}")) or 0.0 for row in rows]
        axis.barh(range(len(rows)), lengths, left=start, height=0.62, color=COLOURS[at], label=phase, hatch=hatches[at],
                  edgecolor=INK, linewidth=0.4)  # fmt: skip
        start = [a + b for a, b in zip(start, lengths)]
    for y, (end, row) in enumerate(zip(start, rows)):
        axis.annotate(f"{number(row['seconds.quantize']):.3g} s", (end, y), xytext=(5, 0), textcoords="offset points", va="center", fontsize=9)
    axis.set_yticks(range(len(rows)), labels, fontsize=9)
    axis.invert_yaxis()
    axis.set_xlabel("seconds to quantize, without evaluation")
    axis.margins(x=0.1)
    figure.legend(loc="outside lower left", ncols=7, fontsize=9)
    note = f"; {left_out} more cells are in results.csv" if left_out else ""
    return figure, "Time to quantize, by phase" + note


def to_svg(figure, name, title, inputs):
    """The figure as one <svg> element whose ids no other plot has, without anything that depends on the day."""
    matplotlib.rcParams["svg.hashsalt"] = name
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = out.getvalue()
    svg = svg[svg.index("<svg"):]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    # matplotlib's style of lines would hold for the whole page.
    svg = re.sub(r"<style[^>]*>.*?</style>", "", svg, count=1, flags=re.S)
    svg = re.sub(r'\b(id=")', rf"\1{name}-", svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\1{name}-", svg)
    svg = svg.replace(INK, "currentColor")
    words = xml.sax.saxutils.escape(title)
    head = (f'<svg class="gptqb-plot" role="img" data-inputs="{inputs}" stroke-linejoin="round" stroke-linecap="butt" ')
    first_end = svg.index(">") + 1
    return (head + svg[len("<svg "):first_end] + f"<title>{words}</title>" + STYLE
            + '<rect class="gptqb-page" width="100%" height="100%"/>' + svg[first_end:])  # fmt: skip


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: scripts/plots DIR")
    folder = pathlib.Path(sys.argv[1])
    rows = read_table(folder / "results.csv")
    if not rows:
        sys.exit(f"[{folder / 'results.csv'}] expected rows, got none. Make it: gptq-bench report {folder}")
    # plot_inputs() of runner/report/plot_files.h.
    names = ("results.csv", "layers.csv", "kernels.csv")
    inputs = hashlib.sha256(b"".join((folder / name).read_bytes() for name in names if (folder / name).exists())).hexdigest()
    drawings = {
        "perplexity_bits": draw_perplexity_bits(rows),
        "perplexity_size": draw_perplexity_size(rows),
        "layer_errors": draw_layer_errors(rows, read_table(folder / "layers.csv")),
        "phases": draw_phases(rows),
    }
    (folder / "plots").mkdir(exist_ok=True)
    for name, drawing in drawings.items():
        path = folder / "plots" / f"{name}.svg"
        if drawing is None:
            path.unlink(missing_ok=True)
            continue
        part = path.with_name(f".{name}.part")
        part.write_text(to_svg(drawing[0], name, drawing[1], inputs), encoding="utf-8")
        part.replace(path)
        print(f"plots: {path}")


if __name__ == "__main__":
    main()
