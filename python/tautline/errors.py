"""What can go wrong, as exceptions: a message is one line that says what, where and what to do."""


class TautlineError(Exception):
    """Any error of Tautline."""


class InvalidError(TautlineError, ValueError):
    """Wrong use: a field, a shape, an element type, two threads, a job that is not possible."""


class NotFoundError(TautlineError, LookupError):
    """A job, a table, a program or a key does not exist."""


class DeadlineError(TautlineError, TimeoutError):
    """No reply in time from a server or the coordinator."""


class UnavailableError(TautlineError, ConnectionError):
    """The coordinator refuses, or cannot be reached."""


class LostError(TautlineError):
    """The member was declared lost: join again."""


class MismatchError(TautlineError):
    """The two sides differ: their versions, the job, its tables."""


class StoppedError(TautlineError):
    """The job is over, or the member has left it."""


class SystemFailure(TautlineError, OSError):
    """The operating system reported an error."""


# By tautline_code; code 10, no memory, is Python's own MemoryError.
BY_CODE = {1: InvalidError, 2: NotFoundError, 3: DeadlineError, 4: UnavailableError, 5: LostError,
           6: MismatchError, 7: StoppedError, 9: SystemFailure, 10: MemoryError}
