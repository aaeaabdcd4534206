"""Spec files as cases: ``tests/schemas/{positive,negative}/KIND/NAME.yml``.

A case is put into a small project in the place of the file of its kind. A negative one ends in
comments ``# expect: FILE LINE:COLUMN CODE``, one for each finding in their order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from parquetry import project
from parquetry.project.diagnostics.model import Diagnostic
from parquetry.project.model.resolved import ResolvedProject
from tests.support.repository import TESTS

SPECS = TESTS / "schemas"

PROJECT = """\
apiVersion: parquetry/v1
kind: project
name: demo
vars: {n: 12, word: data}
targets:
  dev: {warehouse: ./warehouse}
"""
TABLE = """\
apiVersion: parquetry/v1
kind: table
name: flights
columns:
  - {name: id, type: string, nullable: false}
record_key: [id]
"""
POLICY = """\
apiVersion: parquetry/v1
kind: policy
name: standard
retention: {archive: {keep_commits: 40}}
"""
TARGETS = """\
apiVersion: parquetry/v1
kind: project
name: demo
default_target: dev
vars: {keep: 10, share: 0.5, strict: true, team: "007"}
targets:
  dev: {warehouse: ./warehouse}
  prod:
    warehouse: "s3a://{{ env_var('BUCKET') }}//lake/"
    spark:
      launcher: spark-submit
      submit_args: ["--queue", "{{ env_var('QUEUE', 'main') }}"]
      conf: {spark.executor.cores: 2, spark.ui.enabled: false, spark.secret: "k={{ env_var('PARQUETRY_SECRET_KEY') }}"}
    storage: {key: "{{ env_var('PARQUETRY_SECRET_KEY') }}", client_kwargs: {region: "{{ env_var('REGION') }}"}}
    budget: {per_run: "{{ env_var('PER_RUN') }}"}
    protect: ["fl*"]
    overrides:
      sizing: {max_file_size: "{{ env_var('CEILING') }}"}
      budget: {per_commit: 2GiB}
      tags: [prod, gold]
defaults:
  tags: [lake]
  sizing: {min_fill: "{{ var('share') }}"}
  budget: {per_apply: 1GiB}
environment: [BUCKET, QUEUE, REGION, PER_RUN, CEILING]
"""
ENVIRONMENT = {
    "BUCKET": "b",
    "PARQUETRY_SECRET_KEY": "hunter2",
    "REGION": "eu",
    "PER_RUN": "5GiB",
    "CEILING": "256MiB",
}
EXPECTATION = re.compile(r"^# expect: (\S+) (\d+):(\d+) (PQ\d{3})$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    verdict: str
    kind: str
    path: Path

    @property
    def expected(self) -> list[tuple[str, int, int, str]]:
        found = EXPECTATION.findall(self.path.read_text(encoding="utf-8"))
        return [(file, int(line), int(column), code) for file, line, column, code in found]


def _cases() -> list[Case]:
    return [
        Case(verdict=path.parts[-3], kind=path.parts[-2], path=path)
        for path in sorted(SPECS.glob("*/*/*.yml"))
    ]


CASES = _cases()


def write_project(root: Path, files: dict[str, str | bytes]) -> Path:
    """A project folder with these files over a small valid project."""
    for name, content in ({"parquetry.yml": PROJECT} | files).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def table_named(name: str, more: str = "") -> str:
    """Return the spec of a table, with more lines at its end."""
    return TABLE.replace("name: flights", f"name: {name}") + more


def loaded(root: Path, **options) -> ResolvedProject:
    """Return the project in a folder; fail if there are findings."""
    result = project.load(root, **options)
    assert result.diagnostics == ()
    assert result.project is not None
    return result.project


def codes(root: Path, **options) -> list[tuple[str, str]]:
    """Return the code and the file of each finding in a project."""
    result = project.load(root, **options)
    return [(found.code, found.file) for found in result.diagnostics]


def name_of(case: Case) -> str:
    """What tests call the case."""
    return f"{case.verdict}/{case.kind}/{case.path.stem}"


def diagnostics_of(case: Case, root: Path) -> tuple[Diagnostic, ...]:
    """What loading says about a case in its surroundings."""
    text = case.path.read_text(encoding="utf-8")
    match case.kind:
        case "project":
            files = {"parquetry.yml": text, "tables/flights.yml": TABLE}
        case "policy":
            using = TABLE + "policy: standard\n"
            files = {"policies/standard.yml": text, "tables/flights.yml": using}
        case _:
            files = {"tables/flights.yml": text, "policies/standard.yml": POLICY}
    return project.load(write_project(root, files)).diagnostics
