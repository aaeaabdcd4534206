"""What others wrote to a table chooses no key and no plug-in: whoever opens the table names them."""

from __future__ import annotations

import base64
import os
import pickle
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from pyarrow.parquet.encryption import CryptoFactory, EncryptionConfiguration, KmsClient, KmsConnectionConfig

import parquetry
from parquetry.compiler.reports.inspection import inspect_table
from parquetry.compiler.spec_files.adopt import adopt
from parquetry.runtime.allowed import Allowed
from parquetry.runtime.clustering.plan.due import due_clustering, schedule_clustering
from parquetry.runtime.clustering.rewrite import strategies
from parquetry.runtime.errors import InvalidDataError, KeyUnavailableError
from parquetry.runtime.parquet.encryption import encryption_properties
from parquetry.runtime.parquet.footer import read_metadata
from parquetry.runtime.parquet.key_management import kms_client
from parquetry.runtime.sources.due import preview_new_table
from parquetry.runtime.spark import cluster
from parquetry.runtime.spec import plug_ins
from parquetry.runtime.spec.clustering import ExecutionPolicy, PlanPolicy
from parquetry.runtime.spec.table_spec import Column, FilesPolicy, Source, TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.support.base_files import SECOND, Incoming, bucket, context, merging, write
from tests.support.one_process_spark import OneProcessSpark
from tests.support.planned_clustering import SORTED, apply_clustering, apply_key, table_in_debt
from tests.support.project_folder import ProjectFolder
from tests.support.repository import ROOT
from tests.support.small_table import COLUMNS as SMALL
from tests.support.small_table import FAST, SmallTable, make_table
from tests.support.timelines import change_commit

pytestmark = pytest.mark.usefixtures("on_each_version")

COLUMNS = (Column(name="n", type="bigint"),)
OURS, THEIRS = "env:PARQUETRY_OURS", "env:PARQUETRY_THEIRS"
CLEAR, SEALED = FilesPolicy(), FilesPolicy(encryption_key=OURS)


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    """The operator has both keys."""
    for number, reference in enumerate((OURS, THEIRS)):
        # The same in all tests: a process keeps keys for ten minutes.
        key = base64.b64encode(bytes([number]) * 32).decode()
        monkeypatch.setenv(reference.partition(":")[2], key)


def rows(count=9):
    return [Incoming(key=f"k{number}", values={"n": number}) for number in range(count)]


class Written(KmsClient):
    """Whoever writes a file themselves need not have the key that they name in it."""

    def wrap_key(self, key_bytes, master_key_identifier):
        return base64.b64encode(key_bytes).decode()

    def unwrap_key(self, wrapped_key, master_key_identifier):
        return base64.b64decode(wrapped_key)


def name_key(path, reference):
    """Put a file in place of one: encrypted, and with this reference in its key metadata."""
    found = pq.read_table(path, partitioning=None)
    configuration = EncryptionConfiguration(
        footer_key=reference, uniform_encryption=True, data_key_length_bits=256
    )
    factory = CryptoFactory(lambda _: Written())
    properties = factory.file_encryption_properties(KmsConnectionConfig(), configuration)
    with pq.ParquetWriter(path, found.schema, encryption_properties=properties) as writer:
        writer.write_table(found)


@pytest.fixture
def attacked(tmp_path):
    """A table, and its file for somebody to name a key in; nothing is recorded of the file."""
    table = make_table(tmp_path / "table")
    table.insert({"a": (1, "a")})
    (file,) = (tmp_path / "table").glob("p=a/*.parquet")

    def named(reference):
        name_key(file, reference)
        for sidecar in (tmp_path / "table").glob(".hoodie/.parquetry/stats/*"):
            sidecar.unlink()
        size = file.stat().st_size
        written = table.handle.timeline().completed_writes[-1].time
        change_commit(table.store, written, lambda stat: replace(stat, file_size_bytes=size))
        return file

    return SimpleNamespace(table=table, path=tmp_path / "table", name=named)


def pipe(folder):
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def there(folder):
    (folder / "there").write_text("hush")
    return folder / "there"


@pytest.mark.parametrize(
    "place",
    [there, lambda folder: folder / "missing", pipe, lambda _: "/dev/zero"],
    ids=["there", "missing", "pipe", "device"],
)
def test_a_base_file_has_no_path_read_as_a_key(tmp_path, attacked, place):
    """Nor does the answer say whether there is something at the path."""
    reference = f"file:{place(tmp_path)}"
    file = attacked.name(reference)
    with pytest.raises(KeyUnavailableError) as refused:
        inspect_table(open_store(attacked.path))
    assert f"{file}: the key {reference!r} is not declared here" in str(refused.value)
    assert "files.former_encryption_keys" in str(refused.value)


def test_a_base_file_has_no_client_loaded(attacked, monkeypatch):
    loaded = []
    point = SimpleNamespace(name="vault", load=lambda: loaded.append("vault"))
    monkeypatch.setattr(plug_ins, "entry_points", lambda group: [point])
    kms_client.cache_clear()
    attacked.name("vault:drop?all=1")
    with pytest.raises(KeyUnavailableError, match="is not declared here"):
        inspect_table(open_store(attacked.path))
    assert loaded == []


def test_a_key_of_the_operator_is_none_of_the_table(attacked):
    """The operator's environment has the key, and even a policy with keys has not this one."""
    attacked.name(THEIRS)
    with pytest.raises(KeyUnavailableError, match="PARQUETRY_THEIRS' is not declared"):
        inspect_table(open_store(attacked.path, None, SEALED_ALLOWED))


SEALED_ALLOWED = Allowed(keys=frozenset(SEALED.keys))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (pipe, "No such device"),
        (lambda _: "/dev/zero", "No such device"),
        (lambda folder: folder, "Is a directory"),
        (lambda folder: folder / "large", "File too large"),
    ],
    ids=["pipe", "device", "folder", "large"],
)
def test_key_material_is_a_small_regular_file(tmp_path, make, said):
    (tmp_path / "large").write_bytes(b"A" * 4097)
    reference = f"file:{make(tmp_path)}"
    with pytest.raises(KeyUnavailableError, match=f"cannot be read: {said}"):
        encryption_properties(reference, Allowed(keys=frozenset([reference])))


def test_a_sealed_file_of_another_table_is_not_decrypted_by_a_write(tmp_path):
    """Copied into a table in the clear, its rows would have been there in the clear after an upsert."""
    theirs = context(tmp_path / "theirs", COLUMNS, files=replace(SEALED, encryption_key=THEIRS))
    (file,) = write(theirs, bucket(theirs), rows()).files
    for files in (CLEAR, SEALED):
        ours = context(tmp_path / f"ours-{len(files.keys)}", COLUMNS, files=files, instant=SECOND)
        target = ours.store.root / file.stat.path
        target.parent.mkdir(parents=True)
        shutil.copy(theirs.store.root / file.stat.path, target)
        with pytest.raises(KeyUnavailableError, match="PARQUETRY_THEIRS' is not declared here"):
            write(ours, merging(file), [Incoming(key="k1", position=1, values={"n": 7})])
        assert list(ours.store.root.rglob("*.parquet")) == [target]


def test_keys_that_a_process_keeps_are_kept_for_each_policy(tmp_path):
    """A key encryption key that was unwrapped for one table opens no file for another."""
    ours = context(tmp_path, COLUMNS, files=SEALED)
    (file,) = write(ours, bucket(ours), rows()).files
    assert read_metadata(ours.store, file.stat.path).num_rows == 9
    for allowed in (Allowed(), Allowed(keys=frozenset([THEIRS]))):
        with pytest.raises(KeyUnavailableError, match="PARQUETRY_OURS' is not declared"):
            read_metadata(open_store(tmp_path, None, allowed), file.stat.path)


def test_an_applied_record_chooses_no_key_to_write_by(tmp_path):
    ours = context(tmp_path, COLUMNS, files=SEALED)
    forged = replace(ours, files=replace(SEALED, encryption_key=THEIRS))
    with pytest.raises(KeyUnavailableError, match="PARQUETRY_THEIRS' is not declared"):
        write(forged, bucket(forged), rows())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_files_of_a_former_key_are_read_until_they_are_rewritten(tmp_path):
    old = context(tmp_path, COLUMNS, files=SEALED)
    (file,) = write(old, bucket(old), rows()).files
    rotated = FilesPolicy(encryption_key=THEIRS, former_encryption_keys=(OURS,))
    new = context(tmp_path, COLUMNS, files=rotated, instant=SECOND)
    (merged,) = write(new, merging(file), [Incoming(key="k1", position=1, values={"n": 7})]).files
    later = open_store(tmp_path, None, Allowed(keys=frozenset([THEIRS])))
    assert read_metadata(later, merged.stat.path).num_rows == 9
    with pytest.raises(KeyUnavailableError, match="PARQUETRY_OURS' is not declared"):
        read_metadata(later, file.stat.path)


@pytest.mark.parametrize("place", ["/t", "s3://bucket/t", "gs://bucket/t"])
def test_tasks_have_what_the_driver_has(place):
    store = pickle.loads(pickle.dumps(open_store(place, {}, SEALED_ALLOWED)))
    assert store.allowed == SEALED_ALLOWED


def test_a_table_that_is_a_source_is_opened_for_the_keys_of_the_source(tmp_path):
    table = make_table(tmp_path / "other")
    apply_key(table, THEIRS)
    table.insert({"a": (1, "a")})
    source = Source(name="s", format="hudi", path="other", encryption_keys=(OURS,))
    for wanted in (source, replace(source, encryption_keys=())):
        batch = preview_new_table(wanted, directory=str(tmp_path), storage={})
        assert batch.table.store.allowed == Allowed(keys=frozenset(wanted.encryption_keys))


@pytest.fixture
def plug_in(monkeypatch):
    """An installed strategy, and how often it was loaded."""
    loaded = []

    def load():
        loaded.append("mine")
        return strategies.by_columns

    point = SimpleNamespace(name="mine", load=load)
    monkeypatch.setattr(plug_ins, "entry_points", lambda group: [point])
    return loaded


MINE = replace(SORTED, execution=ExecutionPolicy(strategy="mine", columns=("v",)))
NAMED = Allowed(strategies=frozenset(["mine"]))


def test_a_pending_plan_has_no_plug_in_loaded_that_nobody_named(tmp_path, plug_in):
    path = tmp_path / "table"
    table = table_in_debt(path, MINE)
    instant = schedule_clustering(open_table(open_store(path, None, NAMED)), timing=FAST).instant
    apply_clustering(table, SORTED)
    plug_in.clear()
    with pytest.raises(InvalidDataError, match="'mine' is a plug-in"):
        cluster.execute(OneProcessSpark(), open_table(open_store(path)), instant, timing=FAST)
    assert plug_in == []
    # The plan is withdrawn, as any that cannot be executed.
    assert open_table(open_store(path)).timeline().pending_clusterings == {}
    assert cluster.cluster(OneProcessSpark(), open_table(open_store(path)), timing=FAST).groups == 2


def test_a_pending_plan_is_executed_by_a_plug_in_that_is_named(tmp_path, plug_in):
    path = tmp_path / "table"
    table = table_in_debt(path, MINE)
    instant = schedule_clustering(open_table(open_store(path, None, NAMED)), timing=FAST).instant
    apply_clustering(table, SORTED)
    done = cluster.execute(OneProcessSpark(), open_table(open_store(path, None, NAMED)), instant, timing=FAST)
    assert done.instants == (instant,)
    assert plug_in


@pytest.mark.parametrize("section", [MINE, replace(SORTED, plan=PlanPolicy(strategy="mine"))])
def test_an_applied_record_has_no_plug_in_loaded_that_nobody_named(tmp_path, plug_in, section):
    path = tmp_path / "table"
    table_in_debt(path, section)
    with pytest.raises(InvalidDataError, match="strategy: 'mine' is a plug-in that the applied spec"):
        due_clustering(open_table(open_store(path)))
    assert inspect_table(open_store(path)).debt is None
    assert plug_in == []


def test_footers_are_decrypted_in_one_place():
    """Every other reader of Parquet gets what decrypts from `open_footer`, which asks for the policy."""
    found = {
        str(path.relative_to(ROOT))
        for folder in ("compiler", "parquetry", "project", "runtime")
        for path in (ROOT / folder).rglob("*.py")
        if "file_decryption_properties" in path.read_text() or "CryptoFactory" in path.read_text()
    }
    assert found == {"runtime/parquet/encryption.py"}


def test_a_table_made_in_python_is_adopted_with_the_key_of_its_record(tmp_path, monkeypatch):
    """No file is opened for that: the key stands in the new spec, for review."""
    project = ProjectFolder.create(tmp_path / "shop")
    place = project.root / "warehouse/people"
    spec = TableSpec(name="people", columns=SMALL, record_key=("id",), partition_by=("p",), files=SEALED)
    parquetry.create(place, spec)
    SmallTable(store=open_store(place)).insert({"a": (1, "a")})
    (file,) = place.glob("p=a/*.parquet")
    name_key(file, OURS)
    monkeypatch.delenv(OURS.partition(":")[2])
    workspace = project.workspace()
    adopt(workspace, str(place), name=None, reload=project.workspace)
    assert f'encryption_key: "{OURS}"' in (project.root / "tables/people.yml").read_text()
    assert project.workspace().table("people").spec.files == SEALED
