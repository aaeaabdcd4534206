"""What the author of a branch gets of the reviewer's environment and network: nothing that nobody gave away."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager

import pytest

from tests.support.command_script import parquetry
from tests.support.project_folder import ProjectFolder

SECRETS = {
    "AWS_ACCESS_KEY_ID": "AKIADONOTPRINT",
    "AWS_SECRET_ACCESS_KEY": "top-s3cret-value",
    "AWS_SESSION_TOKEN": "session-t0ken-value",
    "PARQUETRY_SECRET_KEY": "our-s3cret-value",
    "PIN": "qz7",
}


class Listener:
    """An address that counts who connects, and closes."""

    def __init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.connections = 0
        threading.Thread(target=self._count, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.getsockname()[1]}"

    def _count(self) -> None:
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            self.connections += 1
            connection.close()


@contextmanager
def listening():
    listener = Listener()
    try:
        yield listener
    finally:
        listener.server.close()


@pytest.fixture
def listener():
    with listening() as one:
        yield one


@pytest.fixture
def shop(tmp_path):
    return ProjectFolder.create(tmp_path / "shop")


def written(folder):
    return b"\0".join(path.read_bytes() for path in folder.root.rglob("*") if path.is_file()).decode(
        "latin-1"
    )


def shown(done, folder):
    text = done.stdout + done.stderr + written(folder) + "".join(map(str, folder.root.rglob("*")))
    return [name for name, value in SECRETS.items() if value in text]


@pytest.mark.parametrize("command", ["plan", "drift", "compile", "doctor", "apply"])
@pytest.mark.parametrize("name", ["AWS_SECRET_ACCESS_KEY", "PIN", "PARQUETRY_SECRET_KEY"])
def test_a_secret_is_part_of_no_place(shop, listener, command, name):
    read = f"{{{{ env_var('{name}') }}}}"
    for target in (
        {"warehouse": f"./w-{read}"},
        {"warehouse": "s3://lake", "storage": {"endpoint_url": f"{listener.url}/{read}"}},
        {"warehouse": "s3://lake", "storage": {"client_kwargs": {"endpoint_url": f"{listener.url}/{read}"}}},
        {
            "warehouse": "s3://lake",
            "storage": {"config_kwargs": {"proxies": {"http": f"{listener.url}/{read}"}}},
        },
    ):
        shop.project(targets={"dev": target})
        more = ["--auto-approve"] if command == "apply" else []
        done = parquetry(command, *more, "-p", shop.root, **SECRETS)
        assert done.returncode == 1
        code = "PQ205" if name.startswith("PARQUETRY") else "PQ210"
        assert code in done.stdout + done.stderr
        assert shown(done, shop) == []
    assert listener.connections == 0
