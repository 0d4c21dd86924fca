"""Which bound reached a target first, from the cells of a table of times."""


def soonest(bounds, cells):
    """The bounds with the shortest time as it is shown, in their order, so the tightest first: a
    bound that no worker ever meets has the very figures of a looser one.
    cells  seconds, or "1 of 2": not all runs reached the target"""
    seconds = [float(cell) if " of " not in cell else None for cell in cells]
    least = min((one for one in seconds if one is not None), default=None)
    return [bound for bound, one in zip(bounds, seconds) if one is not None and one == least]
