from __future__ import annotations

import pytest

from parquetry import project
from parquetry.project import SelectionError, select
from tests.support.spec_cases import TABLE, write_project


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    files = {}
    for path, tags in (
        ("air/flights", "gold, daily"),
        ("air/planes", "gold"),
        ("rail/trains", "daily"),
        ("routes", ""),
    ):
        name = path.rpartition("/")[2]
        files[f"tables/{path}.yml"] = TABLE.replace("name: flights", f"name: {name}") + f"tags: [{tags}]\n"
    return project.load(write_project(tmp_path_factory.mktemp("project"), files)).project.tables


@pytest.mark.parametrize(
    ("wanted", "unwanted", "names"),
    [
        ((), (), "flights planes routes trains"),
        (("flights",), (), "flights"),
        (("trains", "flights"), (), "flights trains"),
        (("*s",), ("p*",), "flights routes trains"),
        (("tag:gold",), (), "flights planes"),
        (("tag:gold,tag:daily",), (), "flights"),
        (("tag:gold,pl*", "routes"), (), "planes routes"),
        (("path:air",), (), "flights planes"),
        (("path:tables/air/",), (), "flights planes"),
        (("path:tables/routes.yml",), (), "routes"),
        (("path:*/flights.yml",), (), "flights"),
        ((), ("tag:daily", "routes"), "planes"),
        (("state:changed",), (), "trains"),
        (("state:changed, tag:gold",), (), ""),
    ],
)
def test_selected(tables, wanted, unwanted, names):
    methods = {"state": lambda value: frozenset({"trains"}) if value == "changed" else frozenset()}
    found = select(tables, select=wanted, exclude=unwanted, methods=methods)
    assert " ".join(table.name for table in found) == names


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        ("fligths", "did you mean 'flights'?"),
        ("tga:gold", "did you mean 'tag'?"),
        ("state:changed", "unknown method 'state'"),
        ("", "empty term"),
        ("flights,", "empty term"),
        ("tag:", "empty term"),
        ("tag:none", "selector 'tag:none' matches no table; tags are daily, gold"),
        ("tag:glod", "did you mean 'gold'?"),
        ("x*", "selector 'x*' matches no table; tables are flights, planes, routes, trains"),
        ("path:sea", "selector 'path:sea' matches no table; files are tables/air/flights.yml"),
        ("path:rail,tag:gold", "selector 'path:rail,tag:gold' matches no table"),
    ],
)
def test_refused(tables, selector, words):
    with pytest.raises(SelectionError) as caught:
        select(tables, select=[selector])
    assert words in str(caught.value)
    assert caught.value.exit_code == 2
