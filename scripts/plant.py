"""Copies of output folders with a regression planted into their records, for scripts/gate_repeats.

    plant.py perplexity:FACTOR|time:FACTOR OUT FOLDER...

perplexity: each window's loss grows so that the perplexity grows by the factor. time: seconds and microseconds take the
factor, rates are divided by it.
"""

import json
import math
import pathlib
import sys


def plant_perplexity(record, factor):
    for metric in record["metrics"]:
        if metric["name"].startswith("perplexity."):
            metric["value"] *= factor
            metric["samples"] = [loss + math.log(factor) for loss in metric["samples"]]


def plant_time(record, factor):
    for metric in record["metrics"]:
        name = metric["name"]
        if name.startswith(("seconds.", "busy_seconds.")):
            metric["value"] *= factor
        elif name.startswith("kernels."):
            metric["value"] /= factor
    for phase in record["seconds"]:
        record["seconds"][phase] *= factor
    for row in record.get("kernels", []):
        for key in ("us", "us_p10", "us_p90"):
            row[key] *= factor
        row["samples"] = [us * factor for us in row["samples"]]


def main():
    (what, factor), out = sys.argv[1].split(":"), pathlib.Path(sys.argv[2])
    plant = {"perplexity": plant_perplexity, "time": plant_time}[what]
    for folder in map(pathlib.Path, sys.argv[3:]):
        target = out / folder.name / "records"
        target.mkdir(parents=True)
        for path in (folder / "records").glob("*.json"):
            record = json.loads(path.read_text())
            plant(record, float(factor))
            (target / path.name).write_text(json.dumps(record))


main()
