"""No value of a secret variable is in a message."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from botocore.exceptions import EndpointConnectionError

from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.workspace.opened import jobs_of
from parquetry.message import Value
from parquetry.runtime.errors import SparkStartError
from parquetry.runtime.main import execute
from parquetry.runtime.redaction import secret_options, secrets_of, without_secrets
from parquetry.runtime.storage.answers import failure
from parquetry.runtime.storage.s3 import answer_of
from parquetry.text.secret_names import is_secret_name, is_wholly_secret, masked_secret
from tests.support.project_folder import ProjectFolder


def test_values_are_masked_whole_and_those_that_are_too_short_to_be_told_from_words_stay():
    values = {f"PARQUETRY_SECRET_{name}": name.lower() for name in ("ABCD", "ABCDEF", "XY")} | {
        "HOME": "home"
    }
    assert without_secrets("abcdef, abcd, xy, home", values) == "***, ***, xy, home"


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("PARQUETRY_SECRET_FILE", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("AWS_ACCESS_KEY_ID", True),
        ("spark.hadoop.fs.s3a.secret.key", True),
        ("spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net", True),
        ("spark.ssl.keyPassword", True),
        ("key", True),
        ("SHOP_SIGNING_KEY", True),
        ("MASTER_KEY", True),
        ("spark.hadoop.fs.s3a.aws.credentials.provider", False),
        ("spark.security.credentials.hive.enabled", False),
        ("spark.sql.shuffle.partitions", False),
        ("record_key", False),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", False),
    ],
)
def test_names_say_what_is_secret(name, is_secret):
    assert is_secret_name(name) is is_secret


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("password", True),
        ("account_key", True),
        ("connection_string", True),
        ("sas_token", True),
        ("key", False),
        ("spark.ssl.keyPassword", True),
        ("spark.hadoop.fs.s3a.access.key", True),
        ("spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net", True),
        # Classes and addresses: a change of them has to be seen.
        ("spark.hadoop.fs.s3a.delegation.token.binding", False),
        ("spark.hadoop.fs.azure.account.keyprovider.lake.dfs.core.windows.net", False),
        ("spark.hadoop.fs.azure.sas.token.provider.type.lake.dfs.core.windows.net", False),
        ("spark.hadoop.fs.azure.account.oauth2.refresh.token.endpoint.lake.dfs.core.windows.net", False),
        ("token_url", False),
    ],
)
def test_a_value_is_masked_where_changes_are_shown_if_it_is_a_secret_as_a_whole(name, is_secret):
    assert is_wholly_secret(name) is is_secret


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (
            "DefaultEndpointsProtocol=https;AccountName=lake;AccountKey=a/b+c==;EndpointSuffix=core.windows.net",
            "DefaultEndpointsProtocol=https;AccountName=lake;AccountKey=***;EndpointSuffix=core.windows.net",
        ),
        (
            "BlobEndpoint=http://x:10000/a;SharedAccessSignature=sv=1&sig=2",
            "BlobEndpoint=http://x:10000/a;SharedAccessSignature=***",
        ),
        ("BlobEndpoint=http://x/a?sig=2;", "BlobEndpoint=***;"),
        ("postgresql://me:hidden@host/x?a=b", "***"),
        ("host=x password=hidden", "host=***"),
        ("hidden", "***"),
    ],
)
def test_of_a_connection_string_the_addresses_are_shown(written, shown):
    assert masked_secret("connection_string", written) == shown
    assert masked_secret("account_key", written) == "***"


@pytest.mark.parametrize(
    "password", ["https://user:pa@ss@host/x", "https://:pass@host/x", "https://a:pass@host/x"]
)
def test_a_password_in_a_url_is_masked_to_its_end(password):
    assert without_secrets(f"to {password}, b@c", {}) == "to https://***@host/x, b@c"


def test_secrets_of_options_are_those_they_refer_to_and_those_under_such_names():
    options = {
        "key": {"environment_text": "a${KEY}b${GONE}"},
        "client_kwargs": {"aws_session_token": "written", "region": "eu"},
        "hosts": ["x"],
    }
    assert secrets_of(options, {"KEY": "found"}) == {"found", "written"}
    assert secret_options(options | {"url": "https://u:p@host/x"}) == {"key", "url"}


def test_a_secret_is_masked_as_json_and_urls_spell_it_and_line_by_line():
    value = 'a"b/c\n-----BEGIN PRIVATE-----\nx'
    text = f"{value} | {json.dumps(value)} | {quote(value, safe='')} | -----BEGIN PRIVATE-----"
    assert without_secrets(text, {}, values=[value]) == '*** | "***" | *** | ***'
    assert without_secrets("https://u:p@host/x", {}) == "https://***@host/x"


def test_numbers_and_flags_are_no_secrets_unless_they_are_called_so():
    given = {"MAX_TOKENS": "4096", "TOKEN": "true", "PARQUETRY_SECRET_PIN": "1234"}
    assert without_secrets("4096 rows, true, 1234", given) == "4096 rows, true, ***"


def test_an_endpoint_that_is_secret_is_not_named(monkeypatch):
    monkeypatch.setenv("PARQUETRY_SECRET_HOST", "10.1.2.3:9000")
    error = EndpointConnectionError(endpoint_url="http://10.1.2.3:9000/lake/x")
    assert 'endpoint URL: "http://***/lake/x"' in str(
        failure("read", Value.uri("s3://lake/x"), error, answer_of(error))
    )


def test_the_failure_of_a_job_does_not_name_one(tmp_path, monkeypatch):
    monkeypatch.setenv("PARQUETRY_SECRET_TOKEN", "hunter22")
    folder = ProjectFolder.create(tmp_path / "shop")
    assert apply_plan(plan_workspace(folder.workspace(), now_ms=0), folder.workspace()).failure is None
    folder.deliver("a.csv", "order_id,city\n1,Turin\n")
    workspace = folder.workspace()
    ingest = next(job for job in jobs_of(workspace, workspace.table("orders")) if job.source)

    def session(_):
        raise SparkStartError("Spark cannot be started with {setting}", setting="spark.a=hunter22")

    with pytest.raises(SparkStartError, match=r"with spark\.a=\*\*\*$"):
        execute(ingest, session=session)
