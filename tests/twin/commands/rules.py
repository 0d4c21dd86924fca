#!/usr/bin/env python3
"""Looks whether each rule of RULES.md names tests that exist, and each rule that the twin reports
stands there."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
# Not rules of NVIDIA's: the twin's own limits.
OWN = re.compile(r"^twin$|\.not-emulated$")


def tests():
    names = set()
    for folder in ("tests/twin", "tests/gpu"):
        for path in (ROOT / folder).rglob("*.cpp"):
            for literals in re.findall(r'TEST_CASE\(\s*((?:"[^"]*"\s*)+),', path.read_text()):
                names.add("".join(re.findall(r'"([^"]*)"', literals)))
    return names


def reported():
    rules = set()
    for path in (ROOT / "tests/twin").rglob("*.?pp"):
        rules |= set(re.findall(r'report_violation\(\s*"([a-z.-]+)"', path.read_text()))
    return {rule for rule in rules if not OWN.search(rule)}


def main():
    text = (ROOT / "tests/twin/RULES.md").read_text()
    known = tests()
    wrong = [f"{rule} is reported and is not in RULES.md" for rule in sorted(reported())
             if f"`{rule}`" not in text]
    rows = 0
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(" | ")]
        if not line.startswith("| ") or len(cells) != 3 or cells[2].startswith("test"):
            continue
        rows += 1
        for name in cells[2].rstrip("|").strip().split("; "):
            name = re.sub(r" \(.*\)$", "", name)
            if name != "*real*" and name not in known:
                wrong.append(f"{cells[0][2:60]}: no test is called \"{name}\"")
    print("\n".join(wrong + [f"{rows} rules, {len(wrong)} without what they need"]))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
