#!/usr/bin/env python3
"""Judges the files of an output folder with tools that share nothing with the program. Prints faults, exits 1 on any.

    report_files.py json SCHEMA FOLDER      results.json against the published schema (jsonschema)
    report_files.py html FOLDER [TEXT...]   report.html: a strict parser (html5lib), structure, policy, no network; each
                                            TEXT must be on the page as text
    report_files.py svg FOLDER              plots/*.svg: well-formed, text as text, nothing outside themselves
    report_files.py tex FOLDER              table.tex: compiled where there is a pdflatex
"""
import base64
import copy
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

faults = []


def expect(condition, text):
    if not condition:
        faults.append(text)


def check_json(schema_path, folder):
    import jsonschema

    schema = json.loads(pathlib.Path(schema_path).read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)

    def no_constants(text):
        raise ValueError(f"{text} is no JSON")

    results = json.loads((pathlib.Path(folder) / "results.json").read_text(), parse_constant=no_constants)
    for error in validator.iter_errors(results):
        faults.append(f"results.json at {list(error.absolute_path)}: {error.message[:300]}")
    # Every field is described; one of a number names its unit or says that it has none.
    objects = {"results": schema, **{name: part for name, part in schema["$defs"].items() if "properties" in part}}
    for name, part in objects.items():
        for key, field in part["properties"].items():
            expect("description" in field or "$ref" in field, f"schema: {name}.{key} has no description")
        expect(part["additionalProperties"] is False, f"schema: {name} is open")
    # It tells right from wrong.
    measured = [place for place, record in enumerate(results["records"]) if record["metrics"]]
    expect(measured, "expected a record with a metric to spoil")

    def spoil(what, change):
        wrong = copy.deepcopy(results)
        change(wrong)
        expect(not validator.is_valid(wrong), f"schema: takes {what}")

    spoil("an unknown field", lambda data: data["records"][0].update(extra=1))
    spoil("a metric without unit", lambda data: data["records"][measured[0]]["metrics"][0].pop("unit"))
    spoil("null without a reason", lambda data: data["records"][measured[0]]["metrics"][0].update(value=None))
    spoil("a number as text", lambda data: data["records"][0].update(position="1"))
    spoil("another version", lambda data: data.update(schema_version=2))


def check_html(folder, texts):
    import html5lib

    text = (pathlib.Path(folder) / "report.html").read_text(encoding="utf-8")
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    page = parser.parse(text)
    everything = list(page.iter())
    names = [element.tag for element in everything if isinstance(element.tag, str)]
    for one in ("html", "head", "title", "h1", "main", "header", "script"):
        count = names.count(one)
        expect(count == 1, f"expected one <{one}>, got {count}")
    ids = [element.get("id") for element in everything if element.get("id")]
    expect(len(ids) == len(set(ids)), f"ids are given twice: {sorted({i for i in ids if ids.count(i) > 1})[:5]}")
    for element in everything:
        for key, value in element.attrib.items():
            key = str(key).rsplit("}", 1)[-1].lower()
            expect(not key.startswith("on"), f"<{element.tag}> has the handler {key}")
            if key in ("src", "href", "srcset", "action", "data", "poster", "formaction"):
                expect(value.startswith("#"), f"<{element.tag}> refers to {value[:80]}")
                expect(value[1:] in ids, f"<{element.tag}> refers to {value[:80]}, which is not on the page")
            if key == "style":
                expect("url(" not in value.replace("url(#", ""), f"<{element.tag}> loads by its style")
    expect("@import" not in text and "url(http" not in text, "the style loads something")
    policy = next(m.get("content") for m in page.iter("meta") if m.get("http-equiv") == "Content-Security-Policy")
    script = "".join(next(page.iter("script")).itertext())
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    expect(f"script-src 'sha256-{digest}'" in policy, "the policy does not name the page's own script")
    expect("default-src 'none'" in policy, "the policy lets something load")
    expect(any(m.get("name") == "viewport" for m in page.iter("meta")), "no viewport for phones")
    for media in ("prefers-color-scheme: dark", "@media print", "max-width"):
        expect(media in text, f"no style for {media}")
    parents = {child: parent for parent in everything for child in parent}
    tables = list(page.iter("table"))
    for table in tables:
        expect("scroll" in (parents[table].get("class") or ""), "a table is in no box that scrolls")
        widths = {sum(int(cell.get("colspan", 1)) for cell in row) for row in table.find("tbody")}
        first = table.find("thead")[0]
        widths.add(sum(int(cell.get("colspan", 1)) for cell in first))
        expect(len(widths) == 1, f"a table has rows of {sorted(widths)} cells")
        expect(all(cell.tag == "th" and cell.get("scope") for row in table.find("thead") for cell in row), "a title is no <th scope>")
    order = [element.get("id") for element in everything if element.get("id") in ("problems", "results", "plots", "details")]
    expect(order == ["problems", "results", "plots", "details"], f"sections come as {order}")
    whole = " ".join("".join(page.itertext()).split())
    for wanted in texts:
        expect(" ".join(wanted.split()) in whole, f"expected on the page, as text: {wanted}")


def check_svg(folder):
    files = sorted(path for path in (pathlib.Path(folder) / "plots").glob("*.svg"))
    expect(files, "expected plots, got none")
    for path in files:
        root = xml.etree.ElementTree.fromstring(path.read_text(encoding="utf-8"))
        svg = "{http://www.w3.org/2000/svg}"
        words = [element for element in root.iter(svg + "text")]
        expect(root.tag == svg + "svg" and root.get("viewBox"), f"{path.name}: no <svg viewBox>")
        expect(len(words) > 3, f"{path.name}: text is not text")
        expect("prefers-color-scheme:dark" in path.read_text() and "currentColor" in path.read_text(), f"{path.name}: one page only")
        for element in root.iter():
            expect(element.tag not in (svg + "script", svg + "image"), f"{path.name}: has {element.tag}")
            for key, value in element.attrib.items():
                expect(not key.endswith("href") or value.startswith("#"), f"{path.name}: refers to {value}")


def check_tex(folder):
    compiler = shutil.which("pdflatex")
    if not compiler:
        return
    with tempfile.TemporaryDirectory() as work:
        shutil.copy(pathlib.Path(folder) / "table.tex", work)
        (pathlib.Path(work) / "page.tex").write_text(
            "\\documentclass{article}\n\\usepackage{booktabs}\n\\usepackage{longtable}\n\\begin{document}\n"
            "\\input{table.tex}\n\\end{document}\n")  # fmt: skip
        done = subprocess.run([compiler, "-interaction=nonstopmode", "-halt-on-error", "page.tex"], cwd=work, capture_output=True)
        log = done.stdout.decode(errors="replace")
        expect(done.returncode == 0, "pdflatex: " + "\n".join(re.findall(r"^!.*(?:\n.*){3}", log, re.M)[:3]))


def main():
    kind, arguments = sys.argv[1], sys.argv[2:]
    checks = {"json": check_json, "html": lambda folder, *texts: check_html(folder, texts), "svg": check_svg, "tex": check_tex}
    checks[kind](*arguments)
    for fault in faults[:20]:
        print(fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
