"""The metrics that `run`, `test` and `service` emit at their end, as the target declares."""

from __future__ import annotations

import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

import parquetry
from parquetry.cli.main import command_line
from parquetry.runtime.storage.open import open_store
from tests.support.project_folder import EVENTS, PROJECT, ProjectFolder
from tests.support.small_table import FAST, SmallTable


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = ProjectFolder.create(tmp_path_factory.mktemp("emission") / "shop")
    folder.write("tables/events.yml", EVENTS | {"tests": [{"max_small_files": 0}]})
    assert called(folder, "apply", "--auto-approve").exit_code == 0
    SmallTable(open_store(folder.root / "warehouse/events"), timing=FAST).insert({"a": (1, "a")})
    return folder.root


@pytest.fixture
def folder(made, tmp_path):
    shutil.copytree(made, tmp_path / "shop")
    return ProjectFolder(tmp_path / "shop")


def declare(folder, *, allowed=True, **metrics):
    """Declare where metrics go, and allow that unless ``allowed`` is False; null allows a place to be gone."""
    keys = ("file", "push_gateway")
    entries = [{"setting": f"metrics.{key}", "value": metrics.get(key), "reason": "ours"} for key in keys]
    target = {"metrics": metrics} | ({"allow": entries} if allowed else {})
    folder.project(targets={"dev": PROJECT["targets"]["dev"] | target})


def apply(folder, **metrics):
    """Declare where metrics go, and apply it."""
    declare(folder, **metrics)
    done = called(folder, "apply", "--auto-approve")
    assert done.exit_code == 0, done.output


def called(folder, *words):
    return CliRunner().invoke(command_line, [*words, "-p", str(folder.root)])


def values(text):
    """Every value by name, table and other labels, without times and what the last run changes."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "timestamp" not in sample.name and "last_run" not in sample.name
    }


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--select", "orders"),
        ("test", "--select", "events"),
        ("service", "clean", "events"),
        ("service", "savepoint", "events"),
    ],
)
def test_a_command_emits_the_metrics_of_all_tables(folder, tmp_path, words):
    out = tmp_path / "collector/lake.prom"
    expected = called(folder, *words)
    apply(folder, file=str(out))
    done = called(folder, *words)
    assert done.exit_code == expected.exit_code, done.output
    assert "warning" not in done.stderr
    found = values(out.read_text(encoding="utf-8"))
    assert found == values(called(folder, "metrics").stdout)
    assert {dict(key[1:])["table"] for key in found} == {"events", "orders"}
    assert [path.name for path in out.parent.iterdir()] == ["lake.prom"]


def test_a_relative_file_lies_in_the_project_and_below_target_it_needs_no_entry(folder):
    declare(folder, allowed=False, file="target/lake.prom")
    for _ in range(2):
        done = called(folder, "service", "clean", "events")
        assert (done.exit_code, "warning" in done.stderr) == (0, False)
    assert (folder.root / "target/lake.prom").exists()


def test_a_command_that_fails_emits_them_too(folder, tmp_path):
    apply(folder, file=str(tmp_path / "lake.prom"))
    done = called(folder, "service", "savepoint", "events", "20200101000000000")
    assert done.exit_code == 1
    assert (tmp_path / "lake.prom").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("service", "cluster", "events", "--plan-only"),
        ("service", "clean", "events", "--dry-run"),
        ("test", "--history"),
        ("plan",),
        ("inspect", "events"),
    ],
)
def test_a_command_that_only_shows_emits_nothing(folder, words):
    declare(folder, allowed=False, file="target/lake.prom")
    assert called(folder, *words).exit_code == 0
    assert not (folder.root / "target/lake.prom").exists()


def test_a_location_belongs_to_no_project(folder):
    declare(folder, allowed=False, file="target/lake.prom")
    assert called(folder, "service", "clean", str(folder.root / "warehouse/events")).exit_code == 0
    assert not (folder.root / "target/lake.prom").exists()


def test_a_run_from_python_emits_the_metrics_of_all_tables(folder, tmp_path, caplog):
    out = tmp_path / "lake.prom"
    apply(folder, file=str(out))
    project = parquetry.load(folder.root, select=["events"])
    assert project.run(only="services").failure is None
    assert values(out.read_text(encoding="utf-8")) == values(called(folder, "metrics").stdout)
    out.write_text("by hand", encoding="utf-8")
    project.run(only="services")
    assert "the metrics were not emitted: " in caplog.text
    assert out.read_text(encoding="utf-8") == "by hand"


def test_a_failure_to_emit_is_a_warning(folder, tmp_path):
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    (tmp_path / "mine.prom").write_text("by hand", encoding="utf-8")
    nowhere = (
        {"file": str(tmp_path / "file/lake.prom")},
        {"file": str(tmp_path / "mine.prom")},
        {"push_gateway": "http://127.0.0.1:1"},
    )
    for metrics in nowhere:
        apply(folder, **metrics)
        done = called(folder, "service", "clean", "events", "--quiet")
        assert done.exit_code == 0
        assert "warning: the metrics were not emitted: " in done.stderr
    assert (tmp_path / "mine.prom").read_text(encoding="utf-8") == "by hand"


class Gateway(BaseHTTPRequestHandler):
    """A push gateway that keeps what it gets in ``server.got``."""

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, body.decode()))
        self.send_response(200 if "refuse" not in self.path else 400)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def gateway():
    with ThreadingHTTPServer(("127.0.0.1", 0), Gateway) as server:
        server.got = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_a_push_gateway_gets_one_group(folder, gateway):
    address = f"http://127.0.0.1:{gateway.server_port}"
    apply(folder, push_gateway=address)
    assert called(folder, "service", "clean", "events").exit_code == 0
    ((path, body),) = gateway.got
    assert path.startswith("/metrics/job/parquetry/")
    assert "/project/shop" in path
    assert "/target/dev" in path
    assert values(body) == values(called(folder, "metrics").stdout)
    apply(folder, push_gateway=f"{address}/refuse")
    done = called(folder, "service", "clean", "events")
    assert (done.exit_code, len(gateway.got)) == (0, 2)
    assert "warning: the metrics were not emitted: " in done.stderr


def test_a_place_that_is_not_allowed_and_applied_gets_nothing(folder, gateway, tmp_path):
    tested = ("test", "--select", "events", "--quiet")
    expected = called(folder, *tested).exit_code
    places = ({"push_gateway": f"http://127.0.0.1:{gateway.server_port}"}, {"file": str(tmp_path / "x.prom")})
    for metrics in places:
        for allowed, remedy in ((False, "targets.dev: allow: ["), (True, "apply --target dev")):
            declare(folder, allowed=allowed, **metrics)
            done = called(folder, *tested)
            assert done.exit_code == expected
            assert "warning: the metrics were not emitted: SC702 " in done.stderr
            assert remedy in done.stderr
            assert called(folder, "service", "clean", "events").exit_code == 1
    assert gateway.got == []
    assert not (tmp_path / "x.prom").exists()


@pytest.mark.parametrize(
    "metrics",
    [
        {},
        {"file": ""},
        {"push_gateway": "http://user:word@host"},
        {"push_gateway": "ftp://host"},
        {"path": "x"},
    ],
)
def test_other_settings_are_refused(folder, metrics):
    declare(folder, **metrics)
    assert called(folder, "validate").exit_code == 1
