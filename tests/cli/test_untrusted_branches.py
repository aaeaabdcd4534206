"""What the author of a branch gets of the reviewer's environment and network: nothing that nobody gave away."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

from parquetry.compiler.errors import UnnamedPlaceError
from parquetry.compiler.security.untrusted import base_at
from parquetry.runtime.spec.table_spec import FilesPolicy
from tests.support.command_script import parquetry
from tests.support.effort import each_value_once
from tests.support.project_folder import EVENTS, ORDERS, ProjectFolder
from tests.support.s3_server import BUCKET, s3_server

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


@pytest.mark.parametrize(
    ("name", "command"),
    each_value_once(
        ["AWS_SECRET_ACCESS_KEY", "PIN", "PARQUETRY_SECRET_KEY"],
        ["plan", "drift", "compile", "doctor", "apply"],
    ),
)
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


def test_a_credential_that_is_not_declared_is_shown_nowhere(shop):
    keys = {"key": "{{ env_var('AWS_ACCESS_KEY_ID') }}", "secret": "a{{ env_var('AWS_SECRET_ACCESS_KEY') }}"}
    more = {"token": "{{ env_var('PIN') }}", "client_kwargs": {"endpoint_url": "http://127.0.0.1:9"}}
    conf = {"spark.my.setting": "{{ env_var('AWS_SESSION_TOKEN') }}"}
    allow = [
        {"setting": "storage.client_kwargs.endpoint_url", "value": "http://127.0.0.1:9", "reason": "a test"},
        {"setting": "spark.conf.spark.my.setting", "value": conf["spark.my.setting"], "reason": "a test"},
    ]
    target = {"warehouse": "s3://lake", "storage": keys | more, "spark": {"conf": conf}, "allow": allow}
    shop.project(targets={"dev": target})
    for command in (["plan"], ["compile"], ["doctor"], ["run"]):
        # Nobody answers at port 9, however often it is tried.
        done = parquetry(*command, "-p", shop.root, AWS_MAX_ATTEMPTS="1", **SECRETS)
        assert done.returncode == (0 if command == ["compile"] else 1), done.stderr
        assert shown(done, shop) == [], command
    job = json.loads((shop.root / "target/jobs/orders/create.json").read_text())
    assert job["storage"]["token"] == {"environment_text": "${PIN}"}
    assert job["spark"]["conf"]["spark.my.setting"] == {"environment_text": "${AWS_SESSION_TOKEN}"}


def git(folder, *words):
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main")
    command = ["git", "-C", str(folder.root), *identity, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder):
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "specs")


def as_base(folder, **project):
    """Commit the project, with these keys, as what `origin/main` has."""
    folder.project(**project)
    git(folder, "init", "-q")
    commit(folder)
    git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")


def untrusted(folder, *arguments, **changes):
    return parquetry("plan", "--untrusted", *arguments, "-p", folder.root, **(SECRETS | changes))


def blocked(done):
    assert done.returncode == 1, done.stdout + done.stderr
    assert "SC507" in done.stdout, done.stdout + done.stderr
    assert "parquetry apply" not in done.stdout
    return " ".join(done.stdout.split())


LAKE = {"warehouse": "s3://lake/shop"}


@pytest.mark.parametrize(
    "storage",
    [
        {"endpoint_url": "{evil}"},
        {"client_kwargs": {"endpoint_url": "{evil}"}},
        {"endpoint_url": "{good}", "config_kwargs": {"proxies": {"http": "{evil}"}}},
        {"endpoint_url": "{good}", "profile": "other"},
        {"endpoint_url": "{good}", "anon": True},
        {"endpoint_url": "{good}", "secret": "{{ env_var('PARQUETRY_SECRET_KEY') }}"},
        {},
    ],
    ids=json.dumps,
)
def test_storage_is_reached_as_the_base_says_or_not_at_all(shop, storage):
    with listening() as good, listening() as evil:
        as_base(shop, targets={"dev": LAKE | {"storage": {"endpoint_url": good.url}}})
        filled = json.loads(json.dumps(storage).replace("{evil}", evil.url).replace("{good}", good.url))
        shop.project(targets={"dev": LAKE | {"storage": filled}})
        done = untrusted(shop, "--out", shop.root / "plan.json", "--due")
        assert "differs from the default branch of origin" in blocked(done)
        assert shown(done, shop) == []
        assert (good.connections, evil.connections) == (0, 0)


@pytest.mark.parametrize(
    "location",
    [
        "s3://lake/shop-evil/orders",
        "s3://lake-evil/shop/orders",
        "s3://lake",
        "s3://lake@evil/shop/orders",
        "s3://arn:aws:s3:eu-west-1:1:accesspoint/lake/shop",
        "s3a://LAKE/shop/orders",
        "/etc",
        "file:///etc/ssl",
        "s3://lake/shop/../other",
        "file:///lake/shop/%2e%2e/%2e%2e/etc",
    ],
)
def test_a_place_that_the_base_does_not_name_is_not_opened(shop, location):
    with listening() as good:
        target = LAKE | {"storage": {"endpoint_url": good.url}}
        as_base(shop, targets={"dev": target})
        shop.orders(location=location)
        assert "does not name the location" in blocked(untrusted(shop, "-s", "orders"))
        assert "does not name the location" in blocked(untrusted(shop, "-s", "state:changed"))
        shop.orders()
        shop.project(targets={"dev": target | {"warehouse": location}})
        assert "does not name the location" in blocked(untrusted(shop))
        assert good.connections == 0


def test_links_and_notes_of_the_branch_lead_nowhere(shop, tmp_path):
    as_base(shop)
    secret = tmp_path / "secret"
    (secret / ".hoodie").mkdir(parents=True)
    (secret / ".hoodie" / "hoodie.properties").write_text("hoodie.table.name=do-not-print\n")
    (shop.root / "warehouse").mkdir()
    shop.table.symlink_to(secret)
    assert "is a link" in blocked(untrusted(shop))
    shop.table.unlink()
    (shop.table / ".hoodie").mkdir(parents=True)
    (shop.table / ".hoodie" / "hoodie.properties").symlink_to(secret / ".hoodie" / "hoodie.properties")
    done = untrusted(shop)
    assert "is a link" in blocked(done)
    shutil.rmtree(shop.root / "warehouse")
    (shop.root / "warehouse").symlink_to(tmp_path)
    assert "is a link" in blocked(untrusted(shop))
    (shop.root / "warehouse").unlink()
    (shop.root / "target").mkdir()
    notes = {"dev": {"orders": "../secret", "gone": "../secret", "other": str(secret), "s3": "s3://x/y"}}
    (shop.root / "target" / "locations.json").write_text(json.dumps(notes))
    done = untrusted(shop, "--detailed-exitcode")
    assert (done.returncode, "do-not-print" in done.stdout + done.stderr) == (3, False)


def test_the_environment_is_read_by_the_names_of_the_base(shop):
    as_base(shop, environment=["LAKE"], targets={"dev": {"warehouse": "./{{ env_var('LAKE') }}"}})
    assert untrusted(shop, "--detailed-exitcode", LAKE="warehouse").returncode == 3
    for name in ("PIN", "AWS_SECRET_ACCESS_KEY"):
        read = f"./w-{{{{ env_var('{name}') }}}}"
        shop.project(environment=["LAKE", name], targets={"dev": {"warehouse": read}})
        done = untrusted(shop, LAKE="warehouse")
        assert done.returncode == 1
        assert f"PQ210 environment variable '{name}' is not declared at the default branch" in done.stderr
        assert shown(done, shop) == []


def test_nothing_that_is_shown_depends_on_a_secret(shop):
    as_base(shop)
    test = "env_var('PARQUETRY_SECRET_KEY') == 'our-s3cret-value'"
    storage = {"secret": f"{{{{ 1 // (0 if {test} else 1) }}}}", "key": f"{{% if {test} %}}a{{% endif %}}"}
    shop.project(targets={"dev": LAKE | {"storage": storage}})
    said = [untrusted(shop, PARQUETRY_SECRET_KEY=value) for value in ("our-s3cret-value", "another")]
    assert said[0].stdout == said[1].stdout
    assert said[0].stderr == said[1].stderr


def test_keys_and_plug_ins_are_those_of_the_base(shop):
    as_base(shop)
    shop.orders(files={"encryption_key": "env:PIN"})
    assert "files.encryption_key is env:PIN, which" in blocked(untrusted(shop))
    shop.orders(files={"former_encryption_keys": ["env:PIN"]})
    assert "files.former_encryption_keys is env:PIN, which" in blocked(untrusted(shop))
    (landing,) = ORDERS["sources"]
    there = {"name": "s", "format": "hudi", "path": "./warehouse/x", "encryption_keys": ["env:PIN"]}
    shop.orders(sources=[landing, there])
    assert "sources.s.encryption_keys is env:PIN, which" in blocked(untrusted(shop))
    shop.orders()
    shop.project(applied={"signing_key": "file:/dev/stdin"})
    assert "applied.signing_key of target dev differs from" in blocked(untrusted(shop))
    shop.project()
    commit(shop)
    done = untrusted(shop, "--base", "HEAD", "--detailed-exitcode")
    assert done.returncode == 3, done.stdout
    base = base_at(shop.root, "HEAD", target=None, variables={}, environment={})
    spec = base.specs["orders"]
    theirs = replace(spec.clustering, plan=replace(spec.clustering.plan, strategy="evil"))
    with pytest.raises(UnnamedPlaceError, match=r"clustering.plan.strategy is evil"):
        base.check_plug_ins(replace(spec, extra=replace(spec.extra, clustering=theirs)))
    landing = spec.sources[0]
    base.check_source(landing)
    for path in ("/etc/*", "../x/*.csv", "s3://x/*.csv", "landings/*.csv"):
        with pytest.raises(UnnamedPlaceError):
            base.check_source(replace(landing, path=path))
    # A key of the base may become a former one, and one of another table's source.
    keys = FilesPolicy(encryption_key="env:A")
    named = replace(base, specs={"orders": replace(spec, files=keys)})
    named.check_plug_ins(replace(spec, files=FilesPolicy(former_encryption_keys=("env:A",))))
    (shop.root / "landing" / "a.csv").symlink_to("/etc/passwd")
    with pytest.raises(UnnamedPlaceError, match="is a link"):
        base.check_source(landing)


def test_queries_on_personal_columns_are_those_of_the_base(shop):
    """What a query reads would answer a guess at a value, for a table of any name at the same place."""
    columns = [column | {"pii": True} if column["name"] == "city" else column for column in ORDERS["columns"]]
    declared = [{"name": "here", "where": "city = 'Oslo'"}]
    shop.orders(columns=columns, queries=declared)
    as_base(shop)
    for guess in ("city = 'Bern'", "CITY in ('Bern', 'Oslo')", "order_id = 1 and city is null"):
        shop.orders(columns=columns, queries=[*declared, {"name": "guess", "where": guess}])
        assert "query guess uses city, which is personal" in blocked(untrusted(shop)), guess
        # Nor if the branch says that it is not personal.
        shop.orders(queries=[{"name": "guess", "where": guess}])
        assert "query guess uses city, which is personal" in blocked(untrusted(shop)), guess
    shop.orders(columns=columns, queries=[*declared, {"name": "other", "where": "order_id = 1"}])
    done = untrusted(shop)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_column_is_personal_that_is_so_in_the_table_alone(shop):
    """The base has no spec of the table any more, and the branch brings one that hides nothing."""
    personal = [
        column | {"pii": True} if column["name"] == "city" else column for column in ORDERS["columns"]
    ]
    shop.orders(columns=personal)
    as_base(shop)
    assert parquetry("apply", "--auto-approve", "-p", shop.root).returncode == 0
    shop.write("tables/events.yml", EVENTS)
    (shop.root / "tables/orders.yml").unlink()
    as_base(shop)
    shop.orders(sources=[], queries=[{"name": "guess", "where": "city = 'Bern'"}])
    assert "query guess uses city, which is personal" in blocked(untrusted(shop))
    shop.orders(sources=[])
    done = untrusted(shop)
    assert done.returncode == 0, done.stdout + done.stderr


def test_partitions_of_personal_columns_are_chosen_as_by_the_base(shop):
    """How much a choice of partitions has clustered would answer a guess, too."""
    columns = [column | {"pii": True} if column["name"] == "city" else column for column in ORDERS["columns"]]
    layout = {"columns": columns, "partition_by": ["city"]}

    def choosing(**partitions):
        return {"trigger": "async", "plan": {"partitions": partitions}}

    shop.orders(**layout, clustering=choosing(regex="city=Oslo"))
    as_base(shop)
    for guess in ({"regex": "city=B.*"}, {"selected": ["city=Bern"]}):
        shop.orders(**layout, clustering=choosing(**guess))
        assert "clustering.plan.partitions uses city, which is personal" in blocked(untrusted(shop)), guess
    for known in ({"regex": "city=Oslo"}, {"recent": 3}):
        shop.orders(**layout, clustering=choosing(**known))
        done = untrusted(shop)
        assert done.returncode == 0, done.stdout + done.stderr


def test_no_branch_or_tag_of_a_stranger_is_the_base(shop):
    as_base(shop)
    shop.orders(location="/etc")
    commit(shop)
    git(shop, "branch", "origin/main")
    blocked(untrusted(shop))
    done = untrusted(shop, "--base", "origin/main")
    assert done.returncode == 2
    assert "origin/main is ambiguous: refs/heads/origin/main and refs/remotes/origin/main" in done.stderr
    blocked(untrusted(shop, "--base", "refs/remotes/origin/main"))
    git(shop, "update-ref", "-d", "refs/remotes/origin/main")
    done = untrusted(shop)
    assert (done.returncode, "name it: --base origin/BRANCH" in done.stderr) == (2, True)
    assert untrusted(shop, "--base", "--output=x").returncode == 2


def test_a_base_without_the_project_or_the_target_names_nothing(shop):
    git(shop, "init", "-q")
    git(shop, "commit", "-q", "--allow-empty", "-m", "empty")
    blocked(untrusted(shop, "--base", "HEAD"))
    commit(shop)
    shop.project(targets={"dev": {"warehouse": "./warehouse"}, "prod": {"warehouse": "./warehouse"}})
    blocked(untrusted(shop, "--base", "HEAD", "--target", "prod"))
    shop.write("tables/broken.yml", {"kind": "table"})
    commit(shop)
    done = untrusted(shop, "--base", "HEAD")
    assert (done.returncode, "the project is not valid at HEAD: tables/broken.yml" in done.stderr) == (
        2,
        True,
    )


def test_the_target_is_the_one_of_the_base(shop):
    targets = {"dev": {"warehouse": "./warehouse"}, "prod": {"warehouse": "./prod"}}
    as_base(shop, targets=targets)
    shop.project(targets=targets, default_target="prod")
    assert "target dev" in untrusted(shop).stdout


def test_commands_that_open_things_refuse_the_project_of_a_stranger(shop):
    as_base(shop)
    for command in (
        ["drift"],
        ["doctor"],
        ["compile"],
        ["apply"],
        ["run"],
        ["inspect", "orders"],
        ["test"],
        ["ls", "-s", "state:changed"],
        ["review", "approved"],
        ["apply", "--approved-by-review"],
    ):
        done = parquetry(*command, "-p", shop.root, PARQUETRY_UNTRUSTED="1")
        assert (done.returncode, "PARQUETRY_UNTRUSTED" in done.stdout + done.stderr) != (0, False), command
        assert done.returncode in (1, 2), command
    for command in (["validate"], ["ls"], ["diff", "--base", "HEAD"], ["explain", "orders"], ["plan"]):
        assert parquetry(*command, "-p", shop.root, PARQUETRY_UNTRUSTED="1").returncode == 0, command
    done = parquetry("plan", "--base", "HEAD", "-p", shop.root)
    assert (done.returncode, "add --untrusted" in done.stderr) == (2, True)


def test_the_folder_of_the_project_is_no_link_of_the_branch(shop, tmp_path):
    as_base(shop)
    other = ProjectFolder.create(tmp_path / "other")
    as_base(other, name="private")
    (shop.root / "lake").symlink_to(other.root)
    (shop.root / "up").symlink_to(tmp_path)
    for folder in (shop.root / "lake", shop.root / "up" / "other"):
        done = parquetry("plan", "--untrusted", "-p", folder)
        assert (done.returncode, "is a link" in done.stderr, "private" in done.stdout) == (1, True, False)
    (tmp_path / "mine").symlink_to(shop.root)
    assert parquetry("plan", "--untrusted", "-p", tmp_path / "mine").returncode == 0


def test_a_plan_is_not_saved_through_a_link_of_the_branch(shop, tmp_path):
    as_base(shop)
    victim = tmp_path / "config.json"
    for content in ('{"auths": {}}', "", None):
        (shop.root / "plan.json").unlink(missing_ok=True)
        if content is None:
            victim.unlink()
        else:
            victim.write_text(content)
        (shop.root / "plan.json").symlink_to(victim)
        done = parquetry("plan", "--untrusted", "--out", "plan.json", "-p", ".", cwd=shop.root)
        assert (done.returncode, "is a link" in done.stderr) == (2, True), done.stderr
        assert (victim.read_text() if victim.exists() else None) == content
    mine = tmp_path / "mine"
    mine.mkdir()
    (tmp_path / "link").symlink_to(mine)
    assert parquetry("plan", "--out", tmp_path / "link" / "plan.json", "-p", shop.root).returncode == 0
    assert (mine / "plan.json").exists()


def test_what_the_base_names_is_planned_as_ever(tmp_path):
    shop = ProjectFolder.create(tmp_path / "shop")
    with s3_server() as options:
        keys = {"key": "{{ env_var('ACCESS') }}", "secret": "{{ env_var('PARQUETRY_SECRET_KEY') }}"}
        allow = [{"setting": "storage.endpoint_url", "value": options["endpoint_url"], "reason": "a test"}]
        target = {"warehouse": f"s3a://{BUCKET}/shop", "storage": {**options, **keys}, "allow": allow}
        as_base(shop, targets={"dev": target})
        applied = parquetry("apply", "--auto-approve", "-p", shop.root, ACCESS="AKIADONOTPRINT", **SECRETS)
        assert applied.returncode == 0, applied.stderr
        commit(shop)
        git(shop, "update-ref", "refs/remotes/origin/main", "HEAD")
        shop.orders(sizing={"max_file_size": "2MiB", "small_file_limit": "512KiB"})
        shop.write("tables/events.yml", EVENTS)
        commit(shop)
        saved = [tmp_path / "untrusted.json", tmp_path / "trusted.json"]
        mine = untrusted(shop, "--due", "--out", saved[0], ACCESS="AKIADONOTPRINT")
        assert mine.returncode == 0, mine.stdout + mine.stderr
        assert "sizing.max_file_size: 1MiB -> 2MiB" in mine.stdout
        assert "events" in mine.stdout
        parquetry("plan", "--out", saved[1], "-p", shop.root, ACCESS="AKIADONOTPRINT", **SECRETS)
        ids = [json.loads(path.read_text())["plan_id"] for path in saved]
        assert ids[0] == ids[1]
        assert shown(mine, shop) == []
        comment = parquetry("show", saved[0], "--format", "markdown").stdout
        assert "parquetry plan --untrusted" in comment
        assert "parquetry apply" not in comment


def test_guardrails_are_those_of_the_base(shop):
    rule = {
        "apiVersion": "parquetry/v1",
        "kind": "guardrail",
        "name": "large_files",
        "message": "{table.name}",
    }
    strict = "spec.sizing.max_file_size_bytes >= 67108864"
    (shop.root / "guardrails").mkdir()
    shop.write("guardrails/large_files.yml", rule | {"expression": strict, "override": "never"})
    as_base(shop)
    shop.write("guardrails/large_files.yml", rule | {"expression": "true"})
    entry = {"code": "SC801", "guardrail": "large_files", "table": "orders", "reason": "ours"}
    shop.project(allow=[entry])
    commit(shop)
    done = untrusted(shop)
    assert done.returncode == 1
    assert "guardrail large_files (guardrails/large_files.yml:" in done.stdout
    assert parquetry("plan", "-p", shop.root).returncode == 0
    (shop.root / "guardrails" / "large_files.yml").unlink()
    shop.project()
    commit(shop)
    assert untrusted(shop).returncode == 1


def test_prices_are_those_of_the_base(shop, tmp_path):
    """Whoever could make a core cheap could make a guardrail about costs pass."""
    target = {"warehouse": "./warehouse", "spark": {"master": "local[2]"}}
    as_base(shop, targets={"dev": target | {"prices": {"currency": "EUR", "core_hour": 0.05}}})
    assert parquetry("apply", "--auto-approve", "-p", shop.root).returncode == 0
    shop.project(targets={"dev": target | {"prices": {"currency": "EUR", "core_hour": 0}}})
    shop.orders(sizing={"max_file_size": "2MiB", "small_file_limit": "512KiB"})
    commit(shop)
    saved = tmp_path / "untrusted.json"
    assert untrusted(shop, "--out", saved).returncode == 0
    assert json.loads(saved.read_text())["evidence"]["costs"]["prices"]["core_hour"] == "0.05"
    assert parquetry("plan", "--out", saved, "-p", shop.root).returncode == 0
    assert json.loads(saved.read_text())["evidence"]["costs"]["prices"]["core_hour"] == "0"
