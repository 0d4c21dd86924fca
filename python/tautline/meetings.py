"""The former place of tautline.torch.Meetings."""

from tautline.torch.meetings import Meetings

__all__ = ["Meetings"]
