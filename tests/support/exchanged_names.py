"""A process that exchanges a folder and a link for each other, as fast as it can."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

SWAPS = 4_000
# RENAME_EXCHANGE (2): at each moment there is the folder, or the link. Without it, between them there is nothing.
ATTACKER = """
import ctypes, os, sys
one, other, count = map(os.fsencode, sys.argv[1:])
rename = ctypes.CDLL(None, use_errno=True).renameat2
done = os.open(count, os.O_WRONLY | os.O_CREAT)
swaps = 0
while True:
    if rename(-100, one, -100, other, 2):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    swaps += 1
    os.pwrite(done, b"%d" % swaps, 0)
"""


class Swaps:
    """How often two names were exchanged by a process that does nothing else."""

    def __init__(self, count: Path) -> None:
        self.count = count

    def __int__(self) -> int:
        with suppress(FileNotFoundError, ValueError):
            return int(self.count.read_text())
        return 0


@contextmanager
def swapping(folder: Path, link: Path):
    count = link.with_name("count")
    attacker = subprocess.Popen([sys.executable, "-c", ATTACKER, str(folder), str(link), str(count)])
    try:
        yield Swaps(count)
        assert attacker.poll() is None, "the attacker gave up"
    finally:
        attacker.kill()
        attacker.wait()
        if folder.is_symlink():
            folder.rename(link.with_name("now"))
            link.rename(folder)
