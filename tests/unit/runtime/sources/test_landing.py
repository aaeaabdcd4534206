"""Links in a landing folder: those that lead to what is in it are followed, others are refused."""

from __future__ import annotations

import os
from contextlib import contextmanager

import pytest

from parquetry.runtime.errors import InvalidDataError, SourceChangedError, StorageError
from parquetry.runtime.sources.due import check_unchanged
from parquetry.runtime.sources.landing import LandingFolder
from parquetry.runtime.sources.listing import list_files, open_file
from parquetry.runtime.spec.table_spec import Source
from tests.support.exchanged_names import SWAPS, swapping


@pytest.fixture
def store(tmp_path) -> LandingFolder:
    (tmp_path / "in/p").mkdir(parents=True)
    (tmp_path / "in/p/f").write_bytes(b"x")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/private").write_text("private")
    return LandingFolder(str(tmp_path / "in"))


def listed(store, prefix=""):
    return [info.path for info in store.list(prefix, recursive=True)]


def test_listing_ends_when_links_go_in_circles(store):
    (store.root / "p/again").symlink_to(store.root)
    (store.root / "p/up").symlink_to("..")
    assert listed(store) == ["p/f"]


def test_a_file_is_listed_once_and_by_its_own_name_whatever_links_lead_to_it(store):
    for name in ("a", "z"):
        (store.root / name).symlink_to(store.root / "p")
    (store.root / "p/self").symlink_to(store.root)
    assert listed(store) == ["p/f"]
    assert listed(store, "p") == ["p/f"]
    assert listed(store, "a") == ["a/f"]
    assert store.list_folders("") == ["a", "p", "z"]


@pytest.mark.parametrize("backwards", [False, True])
def test_of_two_links_to_one_folder_the_first_by_name_counts(store, monkeypatch, backwards):
    (store.root / "_kept").mkdir()
    (store.root / "_kept/f").write_bytes(b"x")
    for name in ("z", "b", "m"):
        (store.root / f"p/{name}").symlink_to(store.root / "_kept")
    scandir = os.scandir

    @contextmanager
    def in_some_order(path):
        with scandir(path) as entries:
            yield sorted(entries, key=lambda entry: entry.name, reverse=backwards)

    monkeypatch.setattr(os, "scandir", in_some_order)
    assert listed(store, "p") == ["p/b/f", "p/f"]


def test_a_link_to_itself_is_named(store):
    (store.root / "p/loop").symlink_to("loop")
    for action in (store.list, store.list_folders):
        with pytest.raises(StorageError, match=r"cannot check .*/p/loop: .*; remove the loop of symbolic"):
            action("p")


OUTSIDE = {
    "a file": ("p/l.csv", "../../outside/private"),
    "a file, by its whole path": ("p/l.csv", "{tmp}/outside/private"),
    "a folder": ("p/l", "../../outside"),
    "a folder, by its whole path": ("p/l", "{tmp}/outside"),
    "up and down": ("p/l.csv", "../../in/p/f"),
    "nowhere": ("p/l.csv", "/nowhere"),
    "the folder above": ("p/l", "{tmp}"),
    "by way of another link": ("p/l.csv", "_way/private"),
    "what begins alike": ("p/l.csv", "{tmp}/in-other/x"),
    "the top": ("l", "/"),
}


@pytest.mark.parametrize("link", OUTSIDE)
@pytest.mark.parametrize("pattern", ["in", "in/**", "in/**/*.csv", "in/{path}"])
def test_a_link_that_leads_outside_is_an_error_with_its_place(store, tmp_path, link, pattern):
    path, to = OUTSIDE[link]
    (store.root / "p/_way").symlink_to("../../outside")
    (store.root / path).symlink_to(to.format(tmp=tmp_path))
    # A source may be a link to a folder: its files are where that leads, and none has been named by another.
    if pattern == "in/{path}" and (store.root / path).is_dir():
        pattern = "in/p/*"
        (store.root / path).rename(store.root / "p/l")
        path = "p/l"
    with pytest.raises(
        StorageError, match=rf"/in/{path}' is a link, and leads out of .*; replace it by a copy"
    ):
        list_files(f"{tmp_path}/{pattern.format(path=path)}")


def test_a_hidden_link_is_passed_over_as_other_hidden_names(store):
    (store.root / "p/_link").symlink_to("../../outside")
    (store.root / "p/.link").symlink_to("../../outside/private")
    assert listed(store) == ["p/f"]


def test_a_link_that_leads_to_nothing_inside_is_passed_over(store):
    (store.root / "p/l").symlink_to("gone")
    assert listed(store) == ["p/f"]


def test_what_was_found_is_read_and_only_if_it_is_inside(store, tmp_path):
    (store.root / "p/day").symlink_to("../_kept")
    (store.root / "_kept").mkdir()
    (store.root / "_kept/k.csv").write_text("k")
    (found,) = list_files("in/**/*.csv", base=str(tmp_path))
    with open_file(found) as file:
        assert (found.file.path, file.read()) == ("in/p/day/k.csv", b"k")
    (tmp_path / "outside/k.csv").write_text("private")
    (store.root / "p/day").unlink()
    (store.root / "p/day").symlink_to(tmp_path / "outside")
    with pytest.raises(StorageError, match="leads out of"):
        open_file(found)


def test_a_landing_folder_may_be_reached_by_a_link_that_its_links_name(store, tmp_path):
    (tmp_path / "mounted").symlink_to("in")
    (store.root / "p/one.csv").symlink_to(tmp_path / "in/p/f")
    (store.root / "p/two.csv").symlink_to(tmp_path / "mounted/p/f")
    found = list_files(f"{tmp_path}/mounted/p/*.csv")
    assert [each.file.path for each in found] == [f"{tmp_path}/mounted/p/one.csv"]


def test_a_landing_folder_in_a_project_is_no_link_out_of_it(store, tmp_path):
    project = tmp_path / "project"
    (project / "real").mkdir(parents=True)
    (project / "real/f.csv").write_text("x")
    (project / "inside").symlink_to("real")
    assert [each.file.path for each in list_files("inside/*", base=str(project))] == ["inside/f.csv"]
    for name, to in (("landing", tmp_path / "in/p"), ("way", tmp_path)):
        (project / name).symlink_to(to)
    for pattern in ("landing/*", "landing", "landing/f", "way/in/**", "way/in/p/f"):
        with pytest.raises(
            InvalidDataError, match=r"' is a link, and leads out of .*project: .*; declare the path"
        ):
            list_files(pattern, base=str(project))
    assert len(list_files(f"{project}/landing/*")) == 1


def test_a_file_that_another_took_the_place_of_while_it_was_read_has_changed(store, tmp_path):
    """One of the same size and time: what was read of the two, nobody knows."""
    source = Source(name="s", format="csv", path="in/p/*")
    found = list_files(source.path, base=str(tmp_path))
    check_unchanged(source, found, directory=str(tmp_path), storage={})
    status = (store.root / "p/f").stat()
    (tmp_path / "other").write_bytes(b"y")
    os.utime(tmp_path / "other", ns=(status.st_atime_ns, status.st_mtime_ns))
    (tmp_path / "other").rename(store.root / "p/f")
    with pytest.raises(SourceChangedError, match="in/p/f changed while it was read"):
        check_unchanged(source, found, directory=str(tmp_path), storage={})


@pytest.mark.timeout(120)
@pytest.mark.parametrize("path", ["in/**", "in/**/f", "in/*/f", "in/[p]/*"])
def test_nothing_outside_is_listed_or_read(store, tmp_path, path):
    """The folder is now a folder, now a link to one of another user with a file of the same name."""
    (tmp_path / "outside/f").write_text("private")
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    done = refused = 0
    with swapping(store.root / "p", tmp_path / "link") as swaps:
        while int(swaps) < SWAPS or min(done, refused) < 50:
            try:
                (found,) = list_files(path, base=str(tmp_path))
                assert (found.file.path, found.file.size_bytes) == ("in/p/f", 1)
                with open_file(found) as file:
                    assert file.read() == b"x"
                done += 1
            except (StorageError, InvalidDataError):
                refused += 1
