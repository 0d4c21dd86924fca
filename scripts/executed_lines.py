"""How often each line of a build with --coverage was executed, according to gcov."""

import collections
import json
import pathlib
import subprocess


def executed_lines(objects, root, is_wanted):
    """Counts by source and line, for lines with code.
    objects    the folder with what was counted
    is_wanted  whether a source, by its name below root, is looked at"""
    lines = collections.defaultdict(lambda: collections.defaultdict(int))
    for data in sorted(objects.rglob("*.gcda")):
        text = subprocess.run(["gcov", "--json-format", "--stdout", data.name], cwd=data.parent,
                              check=True, capture_output=True, text=True).stdout
        for document in text.splitlines():
            report = json.loads(document)
            for file in report["files"]:
                path = (pathlib.Path(report["current_working_directory"]) / file["file"]).resolve()
                if not path.is_relative_to(root) or not is_wanted(str(path.relative_to(root))):
                    continue
                for line in file["lines"]:
                    lines[str(path.relative_to(root))][line["line_number"]] += line["count"]
    return lines
