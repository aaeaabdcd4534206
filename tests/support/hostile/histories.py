"""Hostile histories: trees, commits and refs that no git would have made."""

from __future__ import annotations

import hashlib
import os
import zlib
from pathlib import Path
from random import Random

from tests.support.hostile.sandbox import Sandbox
from tests.support.hostile.values import PLANTED, TEXTS, changed_bytes

NAMES = (
    b"../evil.yml", b"../../outside/evil.yml", b"..", b".", b".git", b".GIT", b".g\xe2\x80\x8cit", b"/etc/evil.yml", b"//evil.yml", b"a/../../../evil.yml", b"tables/../../evil.yml",
    b"evil\n.yml", b"evil\x1b[31m.yml", b"-evil.yml", b"--output=PLANTED.yml", b"\xff\xfe.yml", b"a\tb.yml", b'a"b.yml', b"e" * 300 + b".yml", b"tables", b"x.yml", b"parquetry.yml",
    b"$(touch PLANTED).yml", b"a;touch PLANTED;.yml", b" .yml", b".yml", b"x.avsc", b"..\\evil.yml", b"a\r.yml", b"\xe2\x80\xae.yml",
)  # fmt: skip
MODES = (
    b"100644",
    b"100644",
    b"100644",
    b"100755",
    b"120000",
    b"160000",
    b"40000",
    b"0",
    b"777777",
    b"100000",
    b"0100644",
    b"99999999999",
)


def mutate(sandbox: Sandbox, rng: Random) -> list[str]:
    """A branch ``evil`` that is made by hand, or a repository that is damaged."""
    return [
        rng.choice((_tree, _tree, _tree, _tree, _spec, _bomb, _damage, _refs, _dot_git, _bare))(
            sandbox.project, rng
        )
    ]


class Repository:
    """Writes loose objects, whatever is in them."""

    def __init__(self, project: Path) -> None:
        self.folder = project / ".git"

    def put(self, kind: bytes, content: bytes) -> bytes:
        stored = kind + b" %d\0" % len(content) + content
        name = hashlib.sha1(stored).hexdigest()
        self.at(name).parent.mkdir(exist_ok=True)
        if not self.at(name).exists():
            self.at(name).write_bytes(zlib.compress(stored, 1))
        return name.encode()

    def at(self, name: str) -> Path:
        return self.folder / "objects" / name[:2] / name[2:]

    def blob(self, content: bytes) -> bytes:
        return self.put(b"blob", content)

    def tree(self, *entries: tuple[bytes, bytes, bytes]) -> bytes:
        return self.put(
            b"tree",
            b"".join(mode + b" " + name + b"\0" + bytes.fromhex(of.decode()) for mode, name, of in entries),
        )

    def commit(
        self, tree: bytes, *, headers: bytes = b"", who: bytes = b"t <t@example.org> 1700000000 +0000"
    ) -> bytes:
        return self.put(
            b"commit",
            b"tree " + tree + b"\nauthor " + who + b"\ncommitter " + who + b"\n" + headers + b"\nevil\n",
        )

    def branch(self, name: str, commit: bytes) -> None:
        ref = self.folder / "refs" / "heads" / name
        ref.parent.mkdir(parents=True, exist_ok=True)
        ref.write_bytes(commit + b"\n")

    def of_project(
        self,
        *,
        tables: tuple[tuple[bytes, bytes, bytes], ...],
        top: tuple[tuple[bytes, bytes, bytes], ...] = (),
    ) -> bytes:
        """A commit of the project's own files with other tables."""
        project = self.folder.parent
        named = self.blob((project / "parquetry.yml").read_bytes())
        below = self.tree(*sorted(tables, key=lambda entry: entry[1]))
        entries = ((b"100644", b"parquetry.yml", named), (b"40000", b"tables", below), *top)
        return self.commit(self.tree(*entries))


def _tree(project: Path, rng: Random) -> str:
    repository = Repository(project)
    spec = repository.blob((project / "tables" / "new.yml").read_bytes())
    empty = repository.tree()
    entries = []
    for _ in range(rng.choice([1, 1, 2, 4])):
        name = (
            rng.choice(NAMES)
            if rng.random() < 0.7
            else os.fsencode(rng.choice(TEXTS).replace("\0", "")[:200]) + b".yml"
        )
        mode = rng.choice(MODES)
        of = rng.choice(
            [
                spec,
                spec,
                spec,
                empty,
                b"0" * 40,
                b"f" * 40,
                repository.blob(b"../../../victim.yml"),
                repository.blob(b""),
            ]
        )
        if rng.random() < 0.3:
            of, mode = repository.tree((b"100644", rng.choice(NAMES), spec)), b"40000"
        entries.append((mode, name, of))
    nested = rng.random() < 0.3
    if nested:
        entries = [(b"40000", rng.choice((b"..", b"a", b".git")), repository.tree(*entries))]
    at_top = rng.random() < 0.3
    made = repository.of_project(
        tables=() if at_top else tuple(entries), top=tuple(entries) if at_top else ()
    )
    repository.branch("evil", made)
    _use(repository, made, rng)
    return f"tree {entries!r:.200}"


def _spec(project: Path, rng: Random) -> str:
    """Hostile content of files that are named as they should be."""
    repository = Repository(project)
    content, how = changed_bytes((project / "tables" / "events.yml").read_bytes(), rng)
    huge = rng.random() < 0.1
    if huge:
        content, how = b"# " + b"x" * 60_000_000, "huge"
    many = rng.random() < 0.1
    count = 3_000 if many else 1
    of = repository.blob(content)
    made = repository.of_project(tables=tuple((b"100644", b"t%d.yml" % n, of) for n in range(count)))
    repository.branch("evil", made)
    _use(repository, made, rng)
    return f"spec {how} times {count}"


def _bomb(project: Path, rng: Random) -> str:
    """Trees that list more files than anybody can hold, or lie deeper than anybody can go."""
    repository = Repository(project)
    of = repository.blob(b"x: y\n")
    wide = rng.random() < 0.5
    tree = repository.tree(*((b"100644", b"f%d.yml" % n, of) for n in range(10)))
    for _ in range(10 if wide else 4_000):
        names = [b"d%d" % n for n in range(10 if wide else 1)]
        tree = repository.tree(*((b"40000", name, tree) for name in names))
    made = repository.of_project(tables=((b"40000", b"deep", tree),))
    repository.branch("evil", made)
    return f"bomb, wide {wide}"


def _damage(project: Path, rng: Random) -> str:
    """Objects that are gone, damaged or something else than they say.

    No pipes: git waits for what writes them, and no stranger puts one into a clone.
    """
    repository = Repository(project)
    spec = repository.blob((project / "tables" / "new.yml").read_bytes())
    made = repository.of_project(tables=((b"100644", b"new.yml", spec),))
    repository.branch("evil", made)
    victim = rng.choice([spec, made])
    path = repository.at(victim.decode())
    how = rng.choice(["gone", "cut", "flipped", "other kind", "says more", "link"])
    content = zlib.decompress(path.read_bytes())
    path.unlink()
    match how:
        case "cut":
            path.write_bytes(zlib.compress(content)[:-9])
        case "flipped":
            path.write_bytes(changed_bytes(zlib.compress(content), rng)[0])
        case "other kind":
            path.write_bytes(
                zlib.compress(
                    rng.choice([b"tag", b"tree", b"blob", b"commit", b"x"]) + content[content.index(b" ") :]
                )
            )
        case "says more":
            path.write_bytes(zlib.compress(b"blob 99999999999\0" + content))
        case "link":
            path.symlink_to("/dev/zero")
    if rng.random() < 0.3:
        for pack in (project / ".git" / "objects" / "pack").glob("*.pack"):
            pack.chmod(0o644)
            pack.write_bytes(changed_bytes(pack.read_bytes(), rng)[0])
            how += ", pack damaged"
    return f"damage {(victim == spec and 'blob') or 'commit'} {how}"


def _refs(project: Path, rng: Random) -> str:
    """Names of revisions that are options, files or nothing."""
    repository = Repository(project)
    made = repository.of_project(tables=())
    repository.branch("evil", made)
    how = rng.choice(
        [
            "option",
            "packed",
            "HEAD",
            "symbolic",
            "shallow",
            "grafts",
            "alternates",
            "replace",
            "tag of itself",
            "who",
        ]
    )
    folder = project / ".git"
    match how:
        case "option":
            repository.branch(f"--output={PLANTED}", made)
        case "packed":
            content = (
                b"# pack-refs with: peeled fully-peeled sorted \n"
                + made
                + b" refs/heads/../../../evil\n"
                + rng.randbytes(40)
                + b"\n"
            )
            (folder / "packed-refs").write_bytes(content)
        case "HEAD":
            (folder / "HEAD").write_bytes(
                rng.choice(
                    [
                        b"",
                        b"ref: refs/heads/nowhere\n",
                        b"ref: ../../victim.yml\n",
                        b"ref: refs/heads/\n",
                        b"x" * 100_000,
                        b"0" * 40 + b"\n",
                        made + b"\n",
                    ]
                )
            )
        case "symbolic":
            (folder / "refs/heads/evil").write_bytes(b"ref: refs/heads/evil\n")
        case "shallow":
            (folder / "shallow").write_bytes(rng.choice([made + b"\n", b"x\n", b"0" * 40 + b"\n"]))
        case "grafts":
            (folder / "info").mkdir(exist_ok=True)
            (folder / "info" / "grafts").write_bytes(made + b" " + made + b"\n")
        case "alternates":
            (folder / "objects/info").mkdir(exist_ok=True)
            (folder / "objects/info/alternates").write_text("/dev/zero\n../../../outside\n", encoding="utf-8")
        case "replace":
            (folder / "refs/replace").mkdir(parents=True)
            (folder / "refs/replace" / made.decode()).write_bytes(b"f" * 40 + b"\n")
        case "tag of itself":
            tag = repository.put(b"tag", b"object " + b"0" * 40 + b"\ntype tag\ntag evil\ntagger x\n\n")
            repository.branch("evil", tag)
        case "who":
            who = rng.choice(
                [
                    b"x\x1b[31m <> 1 +0000",
                    b"t <t> 99999999999999999999 +9999",
                    b"t <t> -1 +0000",
                    b"\xff <\xff> x y",
                ]
            )
            headers = b"gpgsig -----BEGIN PGP SIGNATURE-----\n x\n -----END PGP SIGNATURE-----\n"
            tree = repository.tree((b"100644", b"parquetry.yml", repository.blob(b"x")))
            repository.branch("evil", repository.commit(tree, headers=headers, who=who))
    return f"refs {how}"


def _dot_git(project: Path, rng: Random) -> str:
    """No repository where one was, or another one."""
    folder = project / ".git"
    folder.rename(project / ".git.away")
    how = rng.choice(["none", "file", "file to itself", "link", "empty", "fifo", "garbage"])
    match how:
        case "file":
            folder.write_text("gitdir: .git.away\n", encoding="utf-8")
        case "file to itself":
            folder.write_text("gitdir: .git\n", encoding="utf-8")
        case "link":
            folder.symlink_to(".git.away")
        case "empty":
            folder.mkdir()
        case "fifo":
            os.mkfifo(folder)
        case "garbage":
            folder.write_bytes(rng.randbytes(200))
    return f".git {how}"


def _bare(project: Path, rng: Random) -> str:
    """A repository among the committed files of a project: its settings are the author's."""
    script = f"touch {PLANTED}"
    for name in ("objects", "refs/heads"):
        (project / name).mkdir(parents=True, exist_ok=True)
    (project / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    key = rng.choice(
        ["fsmonitor", "pager", "editor", "sshCommand", "hooksPath", "worktree", "attributesFile"]
    )
    value = rng.choice([script, "..", "../../outside"])
    (project / "config").write_text(
        f'[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\t{key} = "{value}"\n[gpg]\n\tprogram = "{script}"\n[log]\n\tshowSignature = true\n',
        encoding="utf-8",
    )
    gone = rng.random() < 0.7
    if gone:
        (project / ".git").rename(
            project.parent / ".git"
        )  # the project lies below the root of its repository
    return f"bare {key}={value} {gone}"


def _use(repository: Repository, commit: bytes, rng: Random) -> None:
    """Now and then the history is the one that is checked out."""
    if rng.random() < 0.3:
        repository.branch("main", commit)
