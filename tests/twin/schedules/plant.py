#!/usr/bin/env python3
"""Plants a bug: writes a copy of a source with the replacements that a .bug file names.

A .bug file: its first line is the source, or "HEADER in SOURCE"; its second says what is wrong.
Then pairs follow of what is in the source, once, and of what it becomes:

<<<<
what stands there
====
what it becomes
>>>>
"""

import pathlib
import re
import sys


def planted(bug, root):
    text = bug.read_text()
    place = text.splitlines()[0].split(" in ")[0]
    source = (root / place).read_text()
    for old, new in re.findall(r"^<<<<\n(.*?)\n====\n(.*?)\n?>>>>$", text, re.S | re.M):
        # Line breaks and indents are the formatter's.
        pattern = r"\s+".join(re.escape(word) for word in old.split())
        source, count = re.subn(pattern, lambda _: new, source)
        if count != 1:
            sys.exit(f"{bug}: is {count} times in {place}: {old.splitlines()[0]}")
    return source


if __name__ == "__main__":
    bug_file, root_folder, out = (pathlib.Path(one) for one in sys.argv[1:])
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(planted(bug_file, root_folder))
