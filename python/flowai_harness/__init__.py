"""The package name of the prompt guide: the functions and classes of :mod:`harn` under that name."""

from harn import *  # noqa: F403
from harn import __all__ as __all__
