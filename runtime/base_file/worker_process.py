"""What tasks do for the Python process that runs them, which Spark keeps for the next task."""

from __future__ import annotations

import gc
from functools import cache


@cache
def spare_loaded_modules() -> None:
    """Once per process: what is loaded by now is no longer looked at by garbage collections.

    Spark collects after every task of a worker, which costs more than a small task itself as long
    as all modules are looked through.
    """
    gc.freeze()
