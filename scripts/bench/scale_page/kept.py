"""What scripts/bench/scale has kept of each command: its tables, its summary, and what it took."""

import re

import scale_commands

ENDED = re.compile(r"^ended with (-?\d+) after ([\d.]+) s, ([\d.]+) s of the processor, (\d+) MiB\n"
                   r"\Z", re.MULTILINE)

APPENDS = re.compile(r"--append FOLDER/(\S+)")


def file_name(line):
    """Of the output of a command."""
    return scale_commands.Command("", "", line).name + ".txt"


class Table:
    """A table of an output.
    title  the line above it
    rows   the cells of each; the first row has the headings"""

    def __init__(self, title, rows):
        self.title, self.head, self.rows = title, rows[0], rows[1:]

    def dicts(self):
        """The rows by their headings, of which no two are alike."""
        return [dict(zip(self.head, row)) for row in self.rows]


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def tables_in(text):
    """Those in Markdown."""
    tables, title, rows = [], "", []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            if not re.fullmatch(r"[|\-]+", line):
                rows.append(cells_of(line))
        elif rows:
            tables.append(Table(title, rows))
            title, rows = line, []
        elif line:
            title = line
    return tables


def aligned_in(text, heading):
    """The table whose columns spaces part, and whose first heading this is; none: it has none."""
    rows = []
    for line in text.splitlines():
        cells = re.split(r"  +", line.strip())
        if rows and len(cells) != len(rows[0]):
            break
        if rows or (cells[0] == heading and len(cells) > 1):
            rows.append(cells)
    return Table("", rows) if rows else None


class Output:
    """Of one command."""

    def __init__(self, text):
        ended = ENDED.search(text)
        self.status, self.took_s, self.processor_s = (
            int(ended[1]), float(ended[2]), float(ended[3]))
        self.mib = int(ended[4])
        self.text = text
        self.tables = tables_in(text)

    def first(self, pattern):
        """What the pattern's group is in the first place that it matches; empty where nowhere."""
        found = re.search(pattern, self.text)
        return found[1] if found else ""


class Kept:
    """The outputs in a folder, by the commands' lines."""

    def __init__(self, folder):
        self.folder = folder
        self.outputs = {}

    def output(self, line):
        """Nothing: the command has not ended yet, however it may."""
        if line not in self.outputs:
            path = self.folder / file_name(line)
            text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
            self.outputs[line] = Output(text) if ENDED.search(text) else None
        return self.outputs[line]

    def those_of(self, lines):
        """The lines that have an output, each with it."""
        return [(line, self.output(line)) for line in lines if self.output(line)]

    def missing(self, lines):
        """Those that have not ended, but for what appends its rows to a file and has begun to."""
        return [line for line in lines if self.output(line) is None and not self.appended(line)]

    def appended(self, line):
        """What a command has appended to its file of the folder, whether it has ended or not."""
        found = APPENDS.search(line)
        path = self.folder / found[1] if found else None
        return path.read_text(encoding="utf-8") if path and path.exists() else ""

    def printed(self, line):
        """What a command has printed so far."""
        if output := self.output(line):
            return output.text
        path = (self.folder / file_name(line)).with_suffix(".draft")
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def failed(self, lines):
        return [line for line, output in self.those_of(lines) if output.status != 0]
