"""Progress for people: a line in a terminal, a bar in a notebook."""

import html
import sys
import time
from types import TracebackType
from typing import Any, Optional, TextIO

_WIDTH = 30  # of the bar, in characters
_EACH_S = 0.1  # between two updates
_EACH_LINE_S = 10.0  # if a line cannot be overwritten


def _notebook() -> Optional[Any]:
    """IPython's function that displays something, if a notebook shows it."""
    loaded = sys.modules.get("IPython")  # a program that does not run in it has not loaded it
    get_shell = getattr(loaded, "get_ipython", None)
    shell = get_shell() if get_shell is not None else None
    if shell is None or not getattr(shell, "kernel", None):
        return None
    from IPython.display import HTML, display

    def show(text: str, handle: Any) -> Any:
        if handle is None:
            return display(HTML(text), display_id=True)
        handle.update(HTML(text))
        return handle
    return show


class Progress:
    """Shows how much is done. A context manager; show() at every step.

    unit   what is counted, such as "clocks"
    total  how many there are; None: not known, and no bar is drawn
    shown  True: in a notebook, a terminal or, with a line every ten seconds, a file; None: in a
           notebook alone; False: not at all
    begin  how many had been done before
    out    where lines go, if not to a notebook
    """

    def __init__(self, unit: str, total: Optional[int], shown: Optional[bool] = None, *,
                 begin: int = 0, out: Optional[TextIO] = None) -> None:
        self._unit, self._total = unit, total
        self._notebook = None if shown is False else _notebook()
        self._out = (out or sys.stderr) if shown and self._notebook is None else None
        self._overwrites = self._out is not None and self._out.isatty()
        self._handle: Any = None
        self._begin, self._done = begin, begin
        self._figures: dict[str, Any] = {}
        self._started = time.monotonic()
        self._next = self._started
        self._length = 0

    @property
    def is_shown(self) -> bool:
        """Whether show() draws anything."""
        return self._notebook is not None or self._out is not None

    def show(self, done: int, **figures: Any) -> None:
        """done     how many, in all
        figures  what is shown with it by its name, such as loss=0.5; None is left out"""
        if not self.is_shown:
            return
        self._done = done
        self._figures = {name: value for name, value in figures.items() if value is not None}
        now = time.monotonic()
        if now >= self._next:
            self._next = now + (_EACH_S if self._notebook or self._overwrites else _EACH_LINE_S)
            self._draw()

    def _text(self) -> str:
        seconds = max(time.monotonic() - self._started, 1e-9)
        of = "" if self._total is None else f"/{self._total:,}"
        rate = (self._done - self._begin) / seconds
        parts = [f"{self._done:,}{of} {self._unit}", f"{rate:,.1f}/s"]
        if self._total is not None and rate > 0 and self._done < self._total:
            parts.append(f"{(self._total - self._done) / rate:,.0f} s left")
        parts += [f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
                  for name, value in self._figures.items()]
        return ", ".join(parts)

    def _draw(self) -> None:
        if self._notebook is not None:
            bar = "" if self._total is None else (
                f'<progress value="{self._done}" max="{max(self._total, 1)}"></progress> ')
            self._handle = self._notebook(bar + html.escape(self._text()), self._handle)
            return
        assert self._out is not None
        bar = ""
        if self._total:
            full = min(_WIDTH, _WIDTH * self._done // self._total)
            bar = f"[{'#' * full}{' ' * (_WIDTH - full)}] "
        line = bar + self._text()
        if self._overwrites:
            self._out.write("\r" + line.ljust(self._length))
            self._length = len(line)
        else:
            self._out.write(line + "\n")
        self._out.flush()

    def close(self) -> None:
        """Shows the last state."""
        if not self.is_shown:
            return
        self._draw()
        if self._overwrites and self._out is not None:
            self._out.write("\n")
            self._out.flush()
        self._notebook = self._out = None

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()
