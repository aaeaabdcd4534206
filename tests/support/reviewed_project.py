"""A project in a git repository whose changes go through pull requests of a local GitHub."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from click.testing import CliRunner, Result

from parquetry.cli.main import command_line
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied
from tests.support.github_server import REPOSITORY, TOKEN, LocalGitHub, Pull, local_github
from tests.support.gitlab_server import PROJECT as GITLAB_PROJECT
from tests.support.gitlab_server import LocalGitLab, local_gitlab
from tests.support.handmade_git import committed, git
from tests.support.project_folder import PROJECT, ProjectFolder

DEV, PROD = "dev", "prod"


@dataclass
class ReviewedProject:
    """The project `shop` with `orders`, applied to dev and prod; plans of pull requests are saved in `plans`."""

    forge: LocalGitHub
    folder: ProjectFolder
    plans: Path
    token: str = TOKEN

    def run(self, *words: str, folder: Path | None = None) -> Result:
        """A command, in this process."""
        environment = {**forge_environment(self.forge, self.token), **_NOTHING_ELSE}
        environment["PARQUETRY_PROJECT"] = str(folder or self.folder.root)
        return CliRunner(env=environment).invoke(command_line, list(words), prog_name="parquetry")

    def git(self, *words: str) -> str:
        return git(self.folder.root, *words)

    def commit(self, text: str = "a change") -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", text)
        return self.git("rev-parse", "HEAD")

    def size(self, size: str) -> None:
        """Declare another size of files of `orders`."""
        self.folder.orders(sizing={"max_file_size": size, "small_file_limit": "512KiB"})

    def propose(self, size: str = "2MiB", *, branch: str = "change", author: str = "adam") -> Pull:
        """A pull request that changes the size of files."""
        self.git("checkout", "-q", "-B", branch, "main")
        self.size(size)
        return self.forge.open(self.commit(), author=author)

    def push(self, pull: Pull, size: str, *, branch: str = "change", force: bool = False) -> None:
        self.git("checkout", "-q", branch)
        self.size(size)
        if force:
            self.git("add", "-A")
            self.git("commit", "-q", "--amend", "-m", f"amended to {size}")
            self.forge.push(pull, self.git("rev-parse", "HEAD"), force=True)
        else:
            self.forge.push(pull, self.commit())

    def plan(self, pull: Pull, target: str = DEV, *, folder: Path | None = None) -> Path:
        """Plan the head commit as the workflow does, and post the plan."""
        file = self.plans / f"{pull.number}-{pull.head[:8]}-{target}{folder.name if folder else ''}.json"
        self.git("checkout", "-q", pull.head)
        made = self.run("plan", "--target", target, "--out", str(file), folder=folder)
        assert made.exit_code in (0, 1), made.output
        return file

    def post(self, pull: Pull, target: str = DEV, *, folder: Path | None = None) -> Path:
        file = self.plan(pull, target, folder=folder)
        posted = self.run("review", "post", str(file), "--pull", str(pull.number))
        assert posted.exit_code == 0, posted.output
        return file

    def merge(self, pull: Pull, how: str = "merge") -> str:
        """Merge it as GitHub would; the commit that it became, checked out."""
        self.git("checkout", "-q", "main")
        match how:
            case "merge":
                self.git("merge", "-q", "--no-ff", "-m", "merge", pull.head)
            case "squash":
                pull.is_squashed = True
                self.git("merge", "-q", "--squash", pull.head)
                self.git("commit", "-q", "-m", "squashed")
            case "rebase":
                self.git("commit", "-q", "--allow-empty", "-m", "meanwhile")
                before = self.git("rev-parse", "HEAD")
                self.git("cherry-pick", f"main..{pull.head}")
                pull.brought = self.git("rev-list", f"{before}..HEAD").split()
            case "fast-forward":
                pull.brought = self.git("rev-list", f"main..{pull.head}").split()
                self.git("merge", "-q", "--ff-only", pull.head)
            case _:  # a merge queue makes the commit on a branch of its own, from which main goes on
                self.git("checkout", "-q", "-B", f"gh-readonly-queue/main/pr-{pull.number}", "main")
                self.git("merge", "-q", "--no-ff", "-m", "queued", pull.head)
                made = self.git("rev-parse", "HEAD")
                self.git("checkout", "-q", "main")
                self.git("merge", "-q", "--ff-only", made)
        commit = self.git("rev-parse", "HEAD")
        self.forge.merge(pull, commit)
        return commit

    def apply(self, target: str = DEV, *words: str, folder: Path | None = None) -> Result:
        return self.run("apply", *words, "--target", target, "--approved-by-review", folder=folder)

    def applied(self, target: str = DEV) -> str:
        """The size of files that is applied."""
        record = read_applied(open_store(self.folder.root / f"warehouse-{target}" / "orders"))
        mebibytes, rest = divmod(record.spec.sizing.max_file_size_bytes, 1 << 20)
        assert rest == 0
        return f"{mebibytes}MiB"

    def refused(self, target: str = DEV, *words: str, code: int = 1, folder: Path | None = None) -> str:
        """What `apply` says, which applies nothing; `review approved` shows no other plan than one of a reviewer."""
        before = self.applied(target)
        done = self.apply(target, *words, folder=folder)
        assert done.exit_code == code, done.output
        assert self.applied(target) == before
        return " ".join(done.output.split())

    def approved(self, target: str = DEV) -> str | None:
        """The id that `review approved` shows, None where it shows none."""
        done = self.run("review", "approved", "--target", target, "--format", "json")
        assert done.exit_code in (0, 1), done.output
        return json.loads(done.stdout)["plan_id"] if done.exit_code == 0 else None


_NOTHING_ELSE = {
    "GITHUB_TOKEN": None,
    "GITLAB_API_URL": None,
    "CI_PROJECT_PATH": None,
    "PARQUETRY_FORGE": None,
}


def forge_environment(forge: LocalGitHub, token: str) -> dict[str, str | None]:
    """The variables by which a job on the forge reaches it."""
    if isinstance(forge, LocalGitLab):
        return {
            "GITLAB_CI": "true",
            "GITLAB_TOKEN": token,
            "CI_API_V4_URL": forge.address,
            "CI_PROJECT_ID": str(GITLAB_PROJECT),
            "PARQUETRY_CREATOR": forge.bot,
        }
    return {
        "GITLAB_CI": None,
        "GH_TOKEN": token,
        "GITHUB_API_URL": forge.address,
        "GITHUB_REPOSITORY": REPOSITORY,
        "PARQUETRY_CREATOR": None,
    }


@cache
def _made_once() -> Path:
    """The folder of the project as every test finds it; no file in it says where it is."""
    root = Path(tempfile.mkdtemp(prefix="reviewed-project-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    folder = ProjectFolder.create(root / "shop")
    targets = {name: PROJECT["targets"]["dev"] | {"warehouse": f"./warehouse-{name}"} for name in (DEV, PROD)}
    folder.project(targets=targets)
    (folder.root / ".gitignore").write_text("warehouse-*\ntarget\n")
    committed(folder.root)
    for target in (DEV, PROD):
        words = ["apply", "--target", target, "--auto-approve", "-p", str(folder.root)]
        done = CliRunner().invoke(command_line, words)
        assert done.exit_code == 0, done.output
    return folder.root


@contextmanager
def reviewed_project(root: Path, forge: str = "github"):
    with (local_gitlab if forge == "gitlab" else local_github)() as served:
        shutil.copytree(_made_once(), root / "shop")
        (root / "plans").mkdir()
        yield ReviewedProject(forge=served, folder=ProjectFolder(root / "shop"), plans=root / "plans")


def stated_in(plan: Path) -> str:
    """What a check says of a saved plan."""
    document = json.loads(plan.read_text(encoding="utf-8"))
    return f"{document['plan_id']} base {document['evidence']['base_commit']}"


def id_in(plan: Path) -> str:
    return json.loads(plan.read_text(encoding="utf-8"))["plan_id"]
