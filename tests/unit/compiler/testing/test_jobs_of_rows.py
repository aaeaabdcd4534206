"""What jobs that read rows are asked, and what becomes of tests that they do not answer. No job reads a row."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from parquetry.compiler.testing.model import Status
from parquetry.runtime.main import JobResult
from parquetry.runtime.spec.masking import pii_columns
from parquetry.runtime.spec.row_tests import RowTestResult, RowTestsResult
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.table.applied import read_applied, write_applied
from tests.support.small_table import make_table
from tests.support.tested_layouts import by_status, under_test
from tests.support.tested_rows import answered, failures


@dataclass(slots=True)
class Passing:
    """A launcher whose jobs find no failure, or answer nothing at all."""

    answers: bool = True
    jobs: list = field(default_factory=list)

    def __call__(self, job):
        self.jobs.append(job)
        found = tuple(
            RowTestResult(
                name=test.name, failures=(0,) * (len(test.columns) if test.kind == "not_null" else 1)
            )
            for test in job.tests.tests
        )
        return JobResult(
            table=job.table, job=job.name, tested=RowTestsResult(answers=found) if self.answers else None
        )


@pytest.fixture
def table(tmp_path):
    made = make_table(tmp_path / "t")
    made.insert({"a1": (1, "a"), "a2": (None, "a")})
    made.insert({"b1": (1, "b")})
    return made


def test_a_test_that_its_job_does_not_answer_is_no_pass(table):
    found = answered(table, [{"unique": ["id"]}, {"expression": "v % 2 = 0"}], Passing(answers=False))
    assert by_status(found.outcomes) == {Status.UNMEASURED: ["unique_id", "expression"]}
    assert found.failure.exit_code == 1


@pytest.mark.parametrize("applied", [True, False])
def test_a_column_is_personal_to_the_job_if_it_is_declared_or_applied_so(table, applied):
    """A branch that takes `pii` from a column sees its values no sooner than it is applied."""

    def personal(spec, *, is_so):
        columns = tuple(replace(column, pii=is_so and column.name == "v") for column in spec.columns)
        return replace(spec, columns=columns)

    write_applied(table.store, personal(read_applied(table.store).spec, is_so=applied), number=2)
    one = under_test(table, [{"unique": ["v"]}], spec=lambda spec: personal(spec, is_so=not applied))
    launch = Passing()
    answered(table, [], launch, one=one)
    assert pii_columns(launch.jobs[0].spec.columns) == {"v"}


def test_where_failing_keys_are_kept_files_with_nulls_are_read_for_them(table):
    launch = Passing()
    counted = answered(table, [{"not_null": ["v"]}], launch)
    assert (failures(counted.outcomes[0]), launch.jobs) == ([1], [])
    answered(table, [{"not_null": ["id", "v"]}], launch, keeps=5)
    (job,) = launch.jobs
    assert [file.partition for file in job.tests.files] == ["p=a"]


def test_relationships_are_read_again_if_columns_of_the_other_table_are_others(table, tmp_path):
    other = make_table(tmp_path / "other")
    other.insert({"a1": (1, "a")})
    tests = [{"relationships": {"columns": ["v"], "to": other.store.uri}}]
    launch = Passing()
    for _ in range(2):
        answered(table, tests, launch, project=tmp_path)
    assert len(launch.jobs) == 1
    spec = read_applied(other.store).spec
    columns = (*spec.columns, Column(name="note", type="string"))
    write_applied(other.store, replace(spec, columns=columns), number=2)
    answered(table, tests, launch, project=tmp_path)
    assert len(launch.jobs) == 2
