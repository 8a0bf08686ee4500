"""Reads ctest's JUnit report; prints counts and the reason of every skip. Exit 1 if no test ran, one failed, or one was
skipped while data was required."""

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter


def main(report, require_data):
    cases = ElementTree.parse(report).getroot().findall("testcase")
    failed = [c.get("name") for c in cases if c.get("status") == "fail"]
    skipped = [c for c in cases if c.get("status") in ("notrun", "disabled")]
    passed = len(cases) - len(failed) - len(skipped)
    reasons = Counter()
    for case in skipped:
        output = case.findtext("system-out") or ""
        match = re.search(r"Skipped\n(.*)", output)
        reasons[match.group(1).strip() if match else "no reason given"] += 1
    for reason, count in sorted(reasons.items()):
        print(f"skipped {count}: {reason}")
    for name in failed:
        print(f"failed: {name}")
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    if passed == 0:
        print("no test ran", file=sys.stderr)
        return 1
    if skipped and require_data:
        print("--require-data: a skipped test counts as a failure", file=sys.stderr)
        return 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2] == "true"))
