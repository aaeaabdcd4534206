"""Which settings execute, and plug-ins that a table names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parquetry.compiler.plan.changes import plugin_changes, spec_changes
from parquetry.compiler.plan.model import ChangeClass
from parquetry.runtime.errors import StalePlanError
from parquetry.runtime.spec.table_spec import FilesPolicy, Source, TableSpec
from parquetry.runtime.spec.target_settings import check_settings, executes, setting_differences

HARMLESS = {
    "spark.master": "local[*]",
    "spark.launcher": "in-process",
    "spark.conf.spark.executor.memory": "4g",
    "spark.conf.spark.sql.shuffle.partitions": "400",
    "spark.conf.spark.sql.adaptive.enabled": "true",
    "spark.conf.spark.network.timeout": "120s",
    "spark.conf.spark.io.compression.codec": "zstd",
    "spark.conf.spark.executor.cores": "{{ env_var('PARQUETRY_CORES', '4') }}",
    "spark.conf.spark.hadoop.fs.s3a.secret.key": "***",
    "storage.key": "AKIA",
    "storage.anon": True,
    "storage.client_kwargs.region_name": "eu-west-1",
    "storage.config_kwargs.read_timeout": 60,
    "metrics.file": "target/metrics/lake.prom",
    "lineage.file": "target/lineage.jsonl",
    "lineage.console": True,
    "budget.per_run": "1GiB",
    "protect": ["*"],
}
EXECUTING = {
    "spark.master": "local-cluster[1,1,1024]",
    "spark.conf.spark.io.compression.codec": "evil.Codec",
    "spark.conf.spark.executor.memory": "4g -javaagent:x",
    "spark.conf.spark.executor.cores": "{{ env_var('PARQUETRY_CORES', '4 -x') }}",
    "spark.conf.spark.executor.instances": "{{ env_var('A') }}{{ env_var('B') }}",
    "spark.conf.spark.sql.extensions": "evil.Extensions",
    "spark.conf.spark.plugins": "evil.Plugin",
    "spark.conf.spark.jars.ivySettings": "ivy.xml",
    "spark.conf.spark.files": "x",
    "spark.conf.spark.eventLog.dir": "s3a://evil",
    "spark.conf.spark.hadoop.fs.s3a.endpoint": "evil",
    "spark.conf.spark.hadoop.fs.s3a.impl": "evil.Fs",
    "spark.conf.spark.hadoop.fs.s3a.aws.credentials.provider": "evil.Provider",
    "spark.conf.spark.hadoop.hive.metastore.uris": "thrift://evil",
    "spark.conf.spark.kubernetes.driver.podTemplateFile": "pod.yml",
    "spark.conf.spark.python.worker.reuse": "false",
    "spark.conf.spark.never.heard.of": "1",
    "storage.client_kwargs.region_name": "eu-west-1.evil.com/#",
    "storage.config_kwargs.proxies.https": "http://evil",
    "storage.use_ssl": False,
    "storage.profile": "other",
    "storage.key.nested": "x",
    "metrics.push_gateway": "http://evil",
    "metrics.file": "target/../deploy.sh",
    "lineage.url": "http://evil",
    "lineage.url.env": "{{ env_var('ADDRESS') }}",
    "lineage.api_key": "{{ env_var('AWS_SECRET_ACCESS_KEY') }}",
    "lineage.file": "/etc/passwd",
    "catalogs.lake.token": "env:AWS_SECRET_ACCESS_KEY",
    "catalogs.lake.credential": "env:AWS_SECRET_ACCESS_KEY",
}


@pytest.mark.parametrize("path", HARMLESS)
def test_what_is_known_to_be_harmless(path):
    assert not executes(path, HARMLESS[path])


@pytest.mark.parametrize("path", EXECUTING)
def test_everything_else_executes(path):
    assert executes(path, EXECUTING[path])


def test_one_and_true_are_two_values():
    assert setting_differences({"storage.anon": True}, {"storage.anon": 1})
    assert not setting_differences({"storage.anon": True}, {"storage.anon": True})


def test_what_executes_has_to_be_applied_both_ways():
    declared = {"storage.endpoint_url": "http://lake", "spark.conf.spark.executor.memory": "4g"}
    check_settings(declared, declared | {"spark.conf.spark.executor.memory": "8g"}, place="here")
    for one, other in ((declared, None), (declared, {}), ({}, declared)):
        with pytest.raises(StalePlanError, match=r"SC702 here: .*storage\.endpoint_url"):
            check_settings(one, other, place="here")


@pytest.mark.parametrize(
    "where",
    [
        lambda key: {"files": FilesPolicy(encryption_key=key)},
        lambda key: {"files": FilesPolicy(former_encryption_keys=("env:OTHER", key))},
        lambda key: {"sources": (Source(name="s", format="hudi", path="x", encryption_keys=(key,)),)},
    ],
    ids=["key", "former", "source"],
)
@pytest.mark.parametrize("key", ["kms:alias", "env:KEY"])
def test_a_plug_in_executes_and_what_is_built_in_does_not(key, where):
    plain = TableSpec(name="t", columns=())
    declared = replace(plain, **where(key))
    change = spec_changes(plain, declared, origin=lambda _: None)[0]
    is_plugin = key.startswith("kms")
    assert (change.change_class is ChangeClass.EXECUTES) is is_plugin
    assert (change.code == "SC702") is is_plugin
    back = spec_changes(declared, plain, origin=lambda _: None)[0]
    assert (back.change_class is ChangeClass.EXECUTES) is is_plugin
    assert bool(plugin_changes(declared, origin=lambda _: None)) is is_plugin
