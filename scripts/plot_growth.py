#!/usr/bin/env python3
"""Draws the CSV of bench_growth as an SVG: seconds for a square layer against its size, both axes logarithmic.

    ./build/release/bin/bench_growth > growth.csv && scripts/plot_growth.py growth.csv growth.svg

Needs nothing but Python. The slope between the last two sizes, the power of n that time grows with there, is
written beside each method; thin lines show n^3 and n^4 through the first point. Times of a sample of rows, scaled
to all rows, have open marks.
"""
import csv
import math
import sys

WIDTH, HEIGHT = 640, 440
LEFT, RIGHT, TOP, BOTTOM = 70, 130, 40, 55
COLOURS = {"rtn": "#7f7f7f", "gptq": "#1f77b4", "obq": "#d62728"}


def read(path):
    """{method: [(n, seconds of all rows, whether it is scaled from a sample)]}, by rising n."""
    methods = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            n = int(row["n"])
            point = (n, float(row["seconds_all_rows"]), int(row["rows_solved"]) < n)
            methods.setdefault(row["method"], []).append(point)
    if not methods:
        sys.exit(f"[{path}] expected lines of bench_growth, got none")
    return {name: sorted(points) for name, points in methods.items()}


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: plot_growth.py GROWTH.csv OUT.svg")
    methods = {name: points for name, points in read(sys.argv[1]).items() if name != "rtn"}
    sizes = sorted({n for points in methods.values() for n, _, _ in points})
    times = [seconds for points in methods.values() for _, seconds, _ in points]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    span = max(math.log2(sizes[-1] / sizes[0]), 1)

    def x(n):
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log2(n / sizes[0]) / span

    def y(seconds):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (math.log10(seconds) - low) / max(high - low, 1)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="14">Time to quantize a square layer</text>',
    ]
    for power in range(low, high + 1):
        at = y(10.0**power)
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#dddddd"/>')
        out.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    for n in sizes:
        out.append(f'<text x="{x(n):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{n}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 15}" text-anchor="middle">n (columns = rows)</text>')
    out.append(f'<text x="18" y="{(TOP + HEIGHT - BOTTOM) / 2}" text-anchor="middle" '
               f'transform="rotate(-90 18 {(TOP + HEIGHT - BOTTOM) / 2})">seconds</text>')
    for name, points in methods.items():
        colour = COLOURS.get(name, "black")
        first = points[0]
        for power in (3, 4):
            end = first[1] * (sizes[-1] / first[0]) ** power
            limit = min(end, 10.0**high)
            n = first[0] * (limit / first[1]) ** (1 / power)
            out.append(f'<line x1="{x(first[0]):.1f}" y1="{y(first[1]):.1f}" x2="{x(n):.1f}" y2="{y(limit):.1f}" '
                       f'stroke="{colour}" stroke-dasharray="{"2 4" if power == 3 else "6 4"}" stroke-width="0.8"/>')
        path = " ".join(f"{x(n):.1f},{y(seconds):.1f}" for n, seconds, _ in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for n, seconds, scaled in points:
            out.append(f'<circle cx="{x(n):.1f}" cy="{y(seconds):.1f}" r="4" stroke="{colour}" stroke-width="2" '
                       f'fill="{"white" if scaled else colour}"/>')
        label = name
        if len(points) > 1:
            (n0, t0, _), (n1, t1, _) = points[-2:]
            label += f" ~ n^{math.log(t1 / t0) / math.log(n1 / n0):.1f}"
        out.append(f'<text x="{WIDTH - RIGHT + 12}" y="{y(points[-1][1]) + 4:.1f}" fill="{colour}">{label}</text>')
    out.append(f'<text x="{LEFT + 10}" y="{TOP + 14}" fill="#555555">dotted: n^3, dashed: n^4; open marks: '
               "scaled from a sample of rows</text>")
    out.append("</svg>")
    with open(sys.argv[2], "w") as file:
        file.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
