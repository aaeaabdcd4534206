"""Our view names the files that real Hudi meant: latest, as of, between, after clean, archive and restore."""

from __future__ import annotations

import pytest

from tests.support.judges import assert_history
from tests.support.view_reader import ViewReader

pytestmark = [pytest.mark.interop, pytest.mark.spark]


def agrees(made):
    retained = made.model.instants()[-2]
    assert_history([ViewReader()], made.table.path, made.model, from_instant=retained, thorough=True)


def test_the_view_agrees_with_the_model_of_every_operation_of_real_hudi(all_operations):
    agrees(all_operations)


def test_the_view_agrees_with_the_model_of_a_restored_and_archived_table(archived):
    agrees(archived)
