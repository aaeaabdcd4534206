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
        (",", "write a name, a glob, tag:NAME or path:DIR"),
        (":", "empty term"),
        ("tag:", "nothing after 'tag:'; write tag:NAME"),
        ("flights,path:", "nothing after 'path:'; write path:DIR"),
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


def test_the_remedy_names_the_methods_that_there_are(tables):
    methods = {"state": lambda _: frozenset(), "git": lambda _: frozenset()}
    for selector, words in (
        ("", "write a name, a glob, tag:NAME, path:DIR, state:changed or git:REF"),
        ("git:", "nothing after 'git:'; write git:REF"),
    ):
        with pytest.raises(SelectionError) as caught:
            select(tables, select=[selector], methods=methods)
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("folder", "names"),
    [
        ("", "flights planes routes trains"),
        ("/tables", "flights planes routes trains"),
        ("/tables/", "flights planes routes trains"),
        ("/tables/air/flights.yml", "flights"),
        ("/tables/*/p*.yml", "planes"),
    ],
)
def test_folders_may_be_absolute_and_reached_by_a_link(tables, tmp_path, folder, names):
    root = tmp_path / "project"
    root.mkdir()
    link = tmp_path / "link"
    link.symlink_to(root)
    for base in (root, link):
        found = select(tables, select=[f"path:{base}{folder}"], root=link)
        assert " ".join(table.name for table in found) == names
    for elsewhere in (f"path:{tmp_path}", f"path:{root}-of-others{folder}"):
        with pytest.raises(SelectionError):
            select(tables, select=[elsewhere], root=link)


@pytest.mark.parametrize("path", [".", "./", "./tables", "tables/air/../air", "./air/"])
def test_folders_are_taken_however_they_are_spelled(tables, path):
    assert {"flights", "planes"} <= {table.name for table in select(tables, select=[f"path:{path}"])}
