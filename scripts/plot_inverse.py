#!/usr/bin/env python3
"""Draws the CSV of bench_inverse as an SVG: where the inverse of the columns left first fails in float32, and how wrong
its pivots get, against n.

    ./build/release/bin/bench_inverse > inverse.csv && scripts/plot_inverse.py inverse.csv inverse.svg

Needs nothing but Python. One row of panels for each spectrum of H. Left: the first column whose pivot is off by more than
10 % or lost, the median over seeds; a run without one counts as n, and open marks say that at least one seed had none.
Right: the largest relative error of a pivot, the worst seed. Line styles are dampings.
"""
import csv
import math
import statistics
import sys

WIDTH, PANEL, HEIGHT = 940, 300, 250
LEFT, GAP, TOP, BOTTOM, RIGHT = 60, 90, 60, 45, 150
COLOURS = {"updates_1": "#ff7f0e", "updates_128": "#d62728", "cholesky": "#1f77b4", "fast": "#2ca02c"}
DASHES = ["", "6 4", "2 3", "8 3 2 3"]


def read(path):
    """{(spectrum, form, damping): {n: [row of each seed]}}."""
    lines = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            key = row["spectrum"], row["form"], float(row["damping"])
            lines.setdefault(key, {}).setdefault(int(row["n"]), []).append(row)
    if not lines:
        sys.exit(f"[{path}] expected lines of bench_inverse, got none")
    return lines


def first_failure(n, rows):
    """Median of the first bad column, and whether a seed had none."""
    columns = []
    for row in rows:
        bad = [int(row[key]) for key in ("first_off_10_percent", "first_lost") if row[key]]
        columns.append(min(bad) if bad else n)
    return max(statistics.median(columns), 1), max(columns) == n


def largest_error(n, rows):
    errors = [float(row["largest_error"]) for row in rows if row["largest_error"]]
    return (max(errors), False) if errors else None


def panel(out, left, top, title, lines, measure, sizes, low, high, label):
    def x(n):
        return left + PANEL * math.log2(n / sizes[0]) / max(math.log2(sizes[-1] / sizes[0]), 1)

    def y(value):
        share = (math.log10(value) - low) / (high - low)
        return top + HEIGHT * (1 - min(max(share, 0), 1))

    out.append(f'<text x="{left}" y="{top - 8}">{title}</text>')
    for power in range(low, high + 1):
        out.append(f'<line x1="{left}" x2="{left + PANEL}" y1="{y(10.0 ** power):.1f}" y2="{y(10.0 ** power):.1f}" stroke="#dddddd"/>')
        out.append(f'<text x="{left - 6}" y="{y(10.0 ** power) + 4:.1f}" text-anchor="end">{label(power)}</text>')
    for n in sizes:
        out.append(f'<text x="{x(n):.1f}" y="{top + HEIGHT + 16}" text-anchor="middle">{n}</text>')
    for (form, damping), points in lines.items():
        drawn = [(n, measure(n, rows)) for n, rows in sorted(points.items())]
        drawn = [(n, *value) for n, value in drawn if value]
        colour = COLOURS.get(form, "black")
        dash = DASHES[sorted({d for _, d in lines}, reverse=True).index(damping) % len(DASHES)]
        path = " ".join(f"{x(n):.1f},{y(value):.1f}" for n, value, _ in drawn)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="{dash}"/>')
        for n, value, is_open in drawn:
            out.append(f'<circle cx="{x(n):.1f}" cy="{y(value):.1f}" r="3" stroke="{colour}" fill="{"white" if is_open else colour}"/>')


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: plot_inverse.py INVERSE.csv OUT.svg")
    lines = read(sys.argv[1])
    sizes = sorted({n for points in lines.values() for n in points})
    spectra = list(dict.fromkeys(spectrum for spectrum, _, _ in lines))
    height = TOP + len(spectra) * (HEIGHT + TOP) + BOTTOM - TOP + 20
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">The inverse Hessian of the columns left, in float32</text>',
    ]
    for index, spectrum in enumerate(spectra):
        own = {key[1:]: points for key, points in lines.items() if key[0] == spectrum}
        top = TOP + index * (HEIGHT + TOP)
        panel(out, LEFT, top, f"first column that fails ({spectrum} spectrum); open: a seed has none", own, first_failure,
              sizes, 0, math.ceil(math.log10(sizes[-1])), lambda power: f"{10 ** power}")
        panel(out, LEFT + PANEL + GAP, top, "largest relative error of a pivot", own, largest_error, sizes, -7, 1,
              lambda power: f"1e{power}")
        out.append(f'<text x="{LEFT + PANEL / 2}" y="{top + HEIGHT + 34}" text-anchor="middle">n</text>')
    at = TOP + 10
    for form in dict.fromkeys(form for _, form, _ in lines):
        out.append(f'<text x="{WIDTH - RIGHT + 20}" y="{at}" fill="{COLOURS.get(form, "black")}">{form}</text>')
        at += 18
    for index, damping in enumerate(sorted({damping for _, _, damping in lines}, reverse=True)):
        out.append(f'<line x1="{WIDTH - RIGHT + 20}" x2="{WIDTH - RIGHT + 50}" y1="{at - 4}" y2="{at - 4}" stroke="black" '
                   f'stroke-dasharray="{DASHES[index % len(DASHES)]}"/>')
        out.append(f'<text x="{WIDTH - RIGHT + 56}" y="{at}">damping {damping:g}</text>')
        at += 18
    out.append("</svg>")
    with open(sys.argv[2], "w") as file:
        file.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
