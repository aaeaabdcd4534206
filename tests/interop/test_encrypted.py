"""An encrypted table on Spark 3.5, with keys from a client of somebody else."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.interop.environment import spark_environment, spark_python

pytestmark = [pytest.mark.interop, pytest.mark.spark]

SCRIPT = Path(__file__).with_name("spark_encrypted.py")
DRAWER = '''
import base64, os
from pathlib import Path


class Drawer:
    """Wraps by a pad in a folder: as good as a secret store, for keys that one test uses once."""

    def wrap_key(self, key_bytes, name):
        return base64.b64encode(self._padded(key_bytes, name)).decode()

    def unwrap_key(self, wrapped_key, name):
        return self._padded(base64.b64decode(wrapped_key), name)

    def _padded(self, content, name):
        pad = Path(os.environ["DRAWER"], name).read_bytes()
        return bytes(one ^ other for one, other in zip(content, pad, strict=False))
'''


def installed_client(folder: Path) -> Path:
    """A folder as pip would leave it: the client's module and its entry point."""
    told = folder / "drawer-1.0.dist-info"
    told.mkdir(parents=True)
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: drawer\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text("[parquetry.kms_clients]\ndrawer = drawer:Drawer\n")
    (folder / "drawer.py").write_text(DRAWER)
    return folder


def test_an_encrypted_table_on_spark_3_5(tmp_path):
    python = spark_python("3.5")
    keys = tmp_path / "keys"
    keys.mkdir()
    (keys / "table").write_bytes(os.urandom(64))
    environment = spark_environment(python)
    client = installed_client(tmp_path / "site")
    environment |= {"DRAWER": str(keys), "PYTHONPATH": f"{client}{os.pathsep}{environment['PYTHONPATH']}"}
    done = subprocess.run(
        [str(python), str(SCRIPT), str(tmp_path)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    assert re.search(
        r"without the key: ..*\.parquet: the client 'drawer' did not return the key drawer:table \(",
        done.stdout,
    )
    assert "sealed on Spark 3.5" in done.stdout
