from __future__ import annotations

import pytest

from tests.support import hudi_history
from tests.support.hudi_spark import HudiSpark
from tests.support.judges import HudiRs, RealHudi
from tests.support.local_spark import local_spark


@pytest.fixture(scope="session")
def hudi_15(tmp_path_factory):
    with HudiSpark("0.15.0", tmp_path_factory.mktemp("hudi-0.15.0")) as hudi:
        yield hudi
        _report(hudi)


@pytest.fixture(scope="session")
def hudi_12(tmp_path_factory):
    with HudiSpark("1.2.0", tmp_path_factory.mktemp("hudi-1.2.0")) as hudi:
        yield hudi
        _report(hudi)


@pytest.fixture(scope="session")
def hudi_10(tmp_path_factory):
    with HudiSpark("1.0.2", tmp_path_factory.mktemp("hudi-1.0.2")) as hudi:
        yield hudi
        _report(hudi)


@pytest.fixture(scope="session", params=["0.15.0", "1.2.0"])
def hudi(request):
    """Each real Hudi in turn."""
    return request.getfixturevalue({"0.15.0": "hudi_15", "1.2.0": "hudi_12"}[request.param])


@pytest.fixture(scope="session")
def judges(hudi_15, hudi_12):
    """hudi-rs and both real Hudis."""
    return [HudiRs(), RealHudi(hudi_15), RealHudi(hudi_12)]


@pytest.fixture(scope="session")
def all_operations(hudi, tmp_path_factory):
    """A table of each real Hudi with every operation; tests that write take a copy."""
    return hudi_history.all_operations(hudi, tmp_path_factory.mktemp("made") / "all_operations")


@pytest.fixture(scope="session")
def archived(hudi, tmp_path_factory):
    """A table of each real Hudi with a restore and archive logs; tests that write take a copy."""
    return hudi_history.archived(hudi, tmp_path_factory.mktemp("made") / "archived")


def _report(hudi):
    seconds = sum(spent for _, spent in hudi.calls)
    print(f"\nHudi {hudi.version}: {len(hudi.calls)} calls in {seconds:.0f} s")


@pytest.fixture(scope="session")
def spark():
    """The Spark under which parquetry itself writes."""
    session = local_spark("interop")
    yield session
    session.stop()
