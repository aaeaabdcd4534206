"""Check that Python is 3.11 or newer and has venv, and print how to get it if not."""

import importlib.util
import sys


def main() -> int:
    """Return 0 if this interpreter can create the virtual environment."""
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < (3, 11):
        print(f"parquetry needs Python 3.11 or newer; {sys.executable} is {found}.")
        print(
            "On Debian or Ubuntu: apt-get install python3.11 python3.11-venv, then: make PYTHON=python3.11 test"
        )
        return 1
    if importlib.util.find_spec("ensurepip") is None:
        name = f"python3.{sys.version_info[1]}-venv"
        print(
            f"{sys.executable} cannot make virtual environments. On Debian or Ubuntu: apt-get install {name}"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
