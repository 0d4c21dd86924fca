"""The commands that compile each source, from a build's compile_commands.json.

In a unity build (TAUTLINE_UNITY) that file has only the joined files, each of which includes the
sources that it stands for.
"""

import json
import os
import re

INCLUDED = re.compile(r'^#include "([^"]+)"$', re.MULTILINE)


def compile_commands(build):
    """The entries ("directory", "file", "command"), one for each source and command; of a joined
    file, one for each of its sources, with that source in its place. Raises OSError where the
    build is not configured."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    found = []
    for entry in entries:
        for source in sources_of(entry["file"]):
            found.append({"directory": entry["directory"], "file": source,
                          "command": entry["command"].replace(entry["file"], source)})
    return found


def sources_of(path):
    if not re.search(r"/Unity/unity_\d+_\w+\.\w+$", path):
        return [path]
    with open(path, encoding="utf-8") as file:
        return INCLUDED.findall(file.read())
