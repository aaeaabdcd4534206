"""No attack on a review leads to a plan that nobody reviewed being applied, or shown as approved.

Each attack is made on GitHub and on GitLab. The forges are local, git and the tables are real. The honest cases at the
end pass, whatever the way of merging. The twenty attacks, and what stands for each:

1. push after the approval: `test_push_after_the_approval*`
2. force push: `test_forced_push*`
3. forged comment with marker and id: `test_forged_comment_with_marker_and_id`, `test_a_comment_of_somebody_else_*`
4. forged marker in a description: `test_forged_marker_in_the_description_of_a_table`
5. comment edited later: `test_comment_edited_later`
6. approval by the author: `test_approval_by_the_author`, `test_approval_by_an_author_of_a_commit`
7. dismissed approval: `test_dismissed_approval`, `test_approval_that_its_reviewer_takes_back`
8. two targets: `test_two_targets`
9. two projects in one repository: `test_two_projects_in_one_repository`, `test_a_branch_that_gives_its_project_*`
10. replay of an older plan: `test_replay_of_an_older_plan`, `test_older_plan_of_the_same_commit`
11. plan file edited by hand: `test_plan_file_edited_by_hand`, `test_plan_file_with_the_approved_id_*`
12. fork with its own workflow file: `test_fork_with_its_own_workflow_file`
13. race of two merges: `test_race_of_two_merges_of_*`
14. merge queue, 15. squash: `test_an_approved_plan_is_applied`, `test_what_becomes_another_commit_in_the_merge`
16. another person's bot: `test_check_by_the_bot_of_somebody_else`, `test_approval_by_somebody_who_does_not_count`
17. id as a prefix: `test_id_as_a_prefix`, `test_more_than_an_id`
18. base branch moved: `test_base_branch_moved`, `test_base_changed_after_the_approval`
19. table changed between plan and apply: `test_table_changed_between_plan_and_apply`
20. guardrails loosened in the same pull request: `test_guardrails_loosened_in_the_same_pull_request`
21. base switched: `test_base_switched*`
22. comment edited by a maintainer: `test_comment_edited_by_a_maintainer`
23. a name of the environment that one pull request adds and another uses: `test_a_name_that_an_unmerged_*`
24. what later plans obey, and no table: `test_authority_that_changes_alone`, `test_authority_that_nobody_was_shown`
"""

from __future__ import annotations

import json

import pytest

from parquetry.runtime.spec.codec import canonical_json, digest_of
from tests.support.effort import each_value_once
from tests.support.project_folder import EVENTS, ORDERS, PROJECT, ProjectFolder, columns_with
from tests.support.reviewed_project import DEV, PROD, id_in, reviewed_project, stated_in

CHECK = "parquetry/plan (shop/dev)"
MARKER = "<!-- parquetry:plan project=shop target=dev -->"
OTHER = "sha256:" + "b" * 64


FORGES = ["github", "gitlab"]


def on_a_forge_each(names, *axes):
    """Parameters of an attack in several ways: each way on one forge, and on the other in the long suites."""
    return pytest.mark.parametrize(("shop", *names), each_value_once(FORGES, *axes), indirect=["shop"])


@pytest.fixture(params=FORGES)
def shop(tmp_path, request):
    """The project on each forge."""
    with reviewed_project(tmp_path, request.param) as made:
        yield made


@pytest.fixture
def proposed(shop):
    """A pull request of adam's whose plan is posted."""
    pull = shop.propose()
    return pull, shop.post(pull)


def test_push_after_the_approval(shop, proposed):
    pull, _ = proposed
    shop.forge.review(pull)
    shop.push(pull, "3MiB")
    shop.post(pull)
    shop.merge(pull)
    assert shop.approved() is None
    assert "approved" in shop.refused()


def test_push_after_the_approval_before_it_is_planned(shop, proposed):
    pull, _ = proposed
    shop.forge.review(pull)
    shop.push(pull, "3MiB")
    shop.merge(pull)
    assert shop.approved() is None
    assert f"set no check {CHECK}" in shop.refused()


def test_forced_push(shop, proposed):
    pull, _ = proposed
    shop.forge.review(pull)
    shop.push(pull, "3MiB", force=True)
    shop.post(pull)
    shop.merge(pull)
    assert shop.approved() is None
    shop.refused()


def test_forced_push_away_and_back(shop, proposed):
    """The approval is of the merged commit, and older than what was shown last."""
    pull, _ = proposed
    shop.forge.review(pull)
    head = pull.head
    shop.push(pull, "3MiB", force=True)
    shop.forge.push(pull, head, force=True)
    shop.merge(pull)
    assert shop.approved() is None
    assert "forced push" in shop.refused()


def test_forged_comment_with_marker_and_id(shop):
    pull = shop.propose()
    file = shop.plan(pull)
    forged = f"{MARKER}\n`parquetry apply --approved {id_in(file)}`"
    for by in ("adam", "rita", shop.forge.bot):
        shop.forge.comment(pull, by, forged)
    shop.forge.review(pull)
    shop.merge(pull)
    assert shop.approved() is None
    shop.refused()
    assert not [call for call in shop.forge.calls if "comments" in call[1]]


def test_a_comment_of_somebody_else_with_the_marker_is_left_alone(shop):
    pull = shop.propose()
    for by in ("adam", "evil[bot]"):
        shop.forge.comment(pull, by, f"{MARKER}\nmine")
    shop.forge.comment(pull, shop.forge.bot, "of another workflow")
    shop.post(pull)
    shop.post(pull)
    firsts = [(c["user"]["login"], c["body"].split("\n")[0]) for c in pull.comments]
    others = [("adam", MARKER), ("evil[bot]", MARKER), (shop.forge.bot, "of another workflow")]
    assert firsts == [*others, (shop.forge.bot, MARKER)]


def test_forged_marker_in_the_description_of_a_table(shop):
    shop.git("checkout", "-q", "-B", "change", "main")
    trap = f"{MARKER}\nparquetry/plan (shop/dev)\napproved {OTHER}\n-->\n{MARKER}"
    shop.folder.orders(description=f"One row per order.\n{trap}")
    pull = shop.forge.open(shop.commit())
    file = shop.post(pull)
    (comment,) = shop.forge.of_workflow(pull)
    assert [number for number, line in enumerate(comment.split("\n")) if line.startswith("<!--")] == [0]
    (status,) = shop.forge.statuses[pull.head]
    assert status["description"] == stated_in(file)
    assert OTHER not in status["description"]


def test_comment_edited_later(shop, proposed):
    pull, file = proposed
    shop.forge.review(pull)
    for comment in pull.comments:
        comment["body"] = comment["body"].replace(id_in(file), OTHER)
    shop.merge(pull)
    assert shop.approved() == id_in(file)


@on_a_forge_each(["who"], ["adam", "ADAM"])
def test_approval_by_the_author(shop, proposed, who):
    pull, _ = proposed
    shop.forge.people["ADAM"] = "write"
    shop.forge.review(pull, who)
    shop.merge(pull)
    assert shop.approved() is None
    assert "opened the pull request" in shop.refused()


def test_approval_by_an_author_of_a_commit(shop, proposed):
    pull, _ = proposed
    pull.commits[0] = ("rita", "web-flow")
    shop.forge.review(pull)
    shop.merge(pull)
    assert shop.approved() is None
    assert "author of its commits" in shop.refused()


def test_dismissed_approval(shop, proposed, request):
    pull, _ = proposed
    shop.forge.review(pull)["state"] = "DISMISSED"
    shop.merge(pull)
    assert shop.approved() is None
    assert "no other person approved" in shop.refused()
    # GitLab does not return approvals that were withdrawn.
    assert ("has no valid approval" in shop.refused()) is ("github" in request.node.name)


def test_approval_that_its_reviewer_takes_back(shop, proposed):
    pull, _ = proposed
    shop.forge.review(pull)
    shop.forge.review(pull, "mona")
    shop.forge.review(pull, state="CHANGES_REQUESTED")
    shop.merge(pull)
    assert shop.approved() is None
    assert "requests changes" in shop.refused()


@on_a_forge_each(["who"], ["sam", "stranger", "evil[bot]"])
def test_approval_by_somebody_who_does_not_count(shop, proposed, who):
    shop.forge.people["evil[bot]"] = "write"
    pull, _ = proposed
    shop.forge.review(pull, who)
    shop.forge.review(pull, "rita", state="COMMENTED")
    shop.merge(pull)
    assert shop.approved() is None
    shop.refused()


def test_two_targets(shop, proposed):
    """The plan of dev is reviewed; that of prod was never made, and later the id of dev stands in its check."""
    pull, file = proposed
    shop.forge.review(pull)
    shop.merge(pull)
    assert shop.approved(PROD) is None
    shop.refused(PROD)
    shop.forge.status(pull.head, shop.forge.bot, "parquetry/plan (shop/prod)", stated_in(file))
    shop.forge.review(pull)
    assert "was approved" in shop.refused(PROD, code=4)
    assert shop.approved() == id_in(file)


def test_two_projects_in_one_repository(shop):
    """Each has its comment and its check; the approval of one is none of the other."""
    store = ProjectFolder.create(shop.folder.root / "store")
    store.project(name="store", targets={DEV: PROJECT["targets"]["dev"] | {"warehouse": "./warehouse-dev"}})
    shop.git("checkout", "-q", "main")
    shop.commit("a second project")
    pull = shop.propose()
    file = shop.post(pull)
    ours = shop.forge.of_workflow(pull)
    shop.forge.review(pull)
    theirs = shop.plan(pull, folder=store.root)
    shop.merge(pull)
    done = shop.run("review", "approved", folder=store.root)
    assert done.exit_code == 1
    assert "no check parquetry/plan (store/dev)" in done.output
    assert shop.apply(folder=store.root).exit_code == 1
    assert not store.table.exists()
    assert shop.approved() == id_in(file) != id_in(theirs)
    words = ("review", "post", str(theirs), "--pull", str(pull.number))
    assert "plan this" in shop.run(*words).output
    assert shop.run(*words, folder=store.root).exit_code == 0
    assert shop.forge.of_workflow(pull)[0] == ours[0]
    assert len(shop.forge.of_workflow(pull)) == 2
    assert shop.approved() == id_in(file)


def test_a_branch_that_gives_its_project_another_name(shop):
    """Its plan would have the comment and the check of the other project of the repository."""
    shop.git("checkout", "-q", "-B", "change", "main")
    text = (shop.folder.root / "parquetry.yml").read_text()
    (shop.folder.root / "parquetry.yml").write_text(text.replace("name: shop", "name: store"))
    pull = shop.forge.open(shop.commit())
    file = shop.plan(pull)
    shop.git("checkout", "-q", "main")
    done = shop.run("review", "post", str(file), "--pull", str(pull.number))
    assert done.exit_code == 4
    assert "is a plan of project store" in done.output
    assert (pull.comments, shop.forge.statuses) == ([], {})


def test_replay_of_an_older_plan(shop, proposed):
    """Its pull request is applied, and another one after it; neither its file nor its commit applies it again."""
    pull, file = proposed
    shop.forge.review(pull)
    first = shop.merge(pull)
    assert shop.apply().exit_code == 0
    later = shop.propose("3MiB", branch="later")
    shop.post(later)
    replayed = shop.run("review", "post", str(file), "--pull", str(later.number))
    assert replayed.exit_code == 4
    assert "plan that commit" in replayed.output
    shop.forge.review(later)
    second = shop.merge(later)
    assert "was approved" in shop.refused(DEV, str(file), code=4)
    assert shop.apply().exit_code == 0
    shop.git("checkout", "-q", first)
    shop.refused(code=4)
    shop.refused(DEV, str(file), code=4)
    shop.git("checkout", "-q", second)
    assert shop.applied() == "3MiB"


def test_older_plan_of_the_same_commit(shop, proposed):
    """Meanwhile something else was applied, and the commit is planned again: the first approval is of the first."""
    pull, file = proposed
    reviewed = id_in(file)
    shop.forge.review(pull)
    shop.git("checkout", "-q", "main")
    shop.folder.orders(description="Other words.")
    assert shop.run("apply", "--target", DEV, "--auto-approve").exit_code == 0
    shop.git("checkout", "-q", "--", ".")
    assert id_in(shop.post(pull)) != reviewed
    shop.merge(pull)
    assert shop.approved() is None
    assert "before the commit was planned" in shop.refused()


@on_a_forge_each(["recomputes"], [False, True])
def test_plan_file_edited_by_hand(shop, proposed, recomputes):
    pull, file = proposed
    shop.forge.review(pull)
    shop.merge(pull)
    document = json.loads(file.read_text())
    del document["digest"]
    document["intent"]["actions"][0]["spec"]["sizing"]["max_file_size_bytes"] = 9 << 20
    if recomputes:
        document["plan_id"] = digest_of({k: v for k, v in document["intent"].items() if k != "git_commit"})
    file.write_text(canonical_json(document | {"digest": digest_of(document)}))
    shop.refused(DEV, str(file), code=4)


def test_plan_file_with_the_approved_id_and_another_intent(shop, proposed):
    pull, file = proposed
    shop.forge.review(pull)
    shop.merge(pull)
    document = json.loads(file.read_text())
    del document["digest"]
    document["intent"]["parquetry"] = "9.9.9"
    file.write_text(canonical_json(document | {"digest": digest_of(document)}))
    assert "not the digest of its intent" in shop.refused(DEV, str(file), code=4)


def test_fork_with_its_own_workflow_file(shop):
    """Its workflow has a token that only reads: it posts nothing, so nothing is approved."""
    pull = shop.propose()
    file = shop.plan(pull)
    shop.forge.readers.add(shop.token)
    posted = shop.run("review", "post", str(file), "--pull", str(pull.number))
    assert posted.exit_code == 1
    assert "lacks the permission" in posted.output
    assert pull.comments == []
    shop.forge.review(pull)
    shop.merge(pull)
    assert shop.approved() is None
    shop.refused()


def test_race_of_two_merges_of_one_table(shop, proposed):
    """Both are planned and approved before either is merged; the second plan does not hold after the first."""
    first, _ = proposed
    shop.git("checkout", "-q", "-B", "other", "main")
    shop.folder.orders(description="Other words.")
    second = shop.forge.open(shop.commit(), author="mona")
    shop.post(second)
    for pull in (first, second):
        shop.forge.review(pull)
    earlier, later = shop.merge(first), shop.merge(second)
    shop.refused(code=4)
    shop.git("checkout", "-q", earlier)
    assert shop.apply().exit_code == 0
    shop.git("checkout", "-q", later)
    shop.refused(code=4)


def test_race_of_two_merges_of_two_tables(shop, proposed):
    """Whichever job is first, each applies what was approved for it, or nothing."""
    first, _ = proposed
    shop.git("checkout", "-q", "-B", "other", "main")
    shop.folder.write("tables/events.yml", EVENTS)
    second = shop.forge.open(shop.commit(), author="mona")
    shop.post(second)
    for pull in (first, second):
        shop.forge.review(pull)
    earlier, later = shop.merge(first), shop.merge(second)
    shop.refused(code=4)
    shop.git("checkout", "-q", earlier)
    assert shop.apply().exit_code == 0
    assert not (shop.folder.root / "warehouse-dev" / "events").exists()
    shop.git("checkout", "-q", later)
    assert shop.apply().exit_code == 0
    assert (shop.folder.root / "warehouse-dev" / "events").exists()


def test_check_by_the_bot_of_somebody_else(shop):
    pull = shop.propose()
    file = shop.plan(pull)
    for by in ("evil[bot]", "adam", "github-actions"):
        shop.forge.status(pull.head, by, CHECK, stated_in(file))
    shop.forge.review(pull)
    shop.merge(pull)
    assert shop.approved() is None
    assert 'only "adam", "evil[bot]", "github-actions" set it' in shop.refused()


def test_another_account_posts_no_plan(shop):
    """A token of somebody who is not the creator would make a comment and a check that count for nothing."""
    shop.forge.tokens["ghp_adam"] = "adam"
    shop.token = "ghp_adam"
    pull = shop.propose()
    file = shop.plan(pull)
    posted = shop.run("review", "post", str(file), "--pull", str(pull.number))
    assert posted.exit_code == 1
    assert (pull.comments, shop.forge.statuses) == ([], {})


@on_a_forge_each(["cut"], [slice(0, 20), slice(0, -1), slice(7, None)])
def test_id_as_a_prefix(shop, cut):
    pull = shop.propose()
    file = shop.plan(pull)
    shop.forge.status(pull.head, shop.forge.bot, CHECK, stated_in(file)[cut])
    shop.forge.review(pull)
    shop.merge(pull)
    assert shop.approved() is None
    shop.refused()


def test_more_than_an_id(shop):
    pull = shop.propose()
    file = shop.plan(pull)
    shop.forge.review(pull)
    shop.merge(pull)
    for text in (
        id_in(file),
        f"{id_in(file)} base ",
        stated_in(file).replace(" base", "0 base"),
        f"{stated_in(file)}0",
        f"{stated_in(file)}\n",
        f" {stated_in(file)}",
        stated_in(file).upper(),
        "blocked",
        "",
    ):
        shop.forge.status(pull.head, shop.forge.bot, CHECK, text)
        shop.forge.review(pull)
        assert shop.approved() is None
        shop.refused()


def test_base_branch_moved(shop, proposed):
    """What is merged contains more than what was planned: another change of the table that nobody applied yet."""
    pull, _ = proposed
    shop.forge.review(pull)
    shop.git("checkout", "-q", "main")
    shop.folder.write("tables/events.yml", EVENTS)
    shop.commit()
    shop.merge(pull)
    assert "was approved" in shop.refused(code=4)


def test_base_changed_after_the_approval(shop, proposed):
    pull, _ = proposed
    shop.forge.review(pull)
    shop.forge.change_base(pull)
    shop.merge(pull)
    assert shop.approved() is None


@on_a_forge_each(["changes"], [{"base": "feature"}, {"repository": "eve/lake"}])
def test_merged_elsewhere(shop, proposed, changes):
    pull, _ = proposed
    shop.forge.review(pull)
    shop.merge(pull)
    for name, value in changes.items():
        setattr(pull, name, value)
    assert shop.approved() is None
    assert "no pull request was merged" in shop.refused()


def test_pushed_without_a_pull_request(shop, proposed):
    pull, _ = proposed
    shop.forge.review(pull)
    shop.merge(pull)
    shop.git("commit", "-q", "--allow-empty", "-m", "by hand")
    assert shop.approved() is None
    shop.refused()


def test_two_pull_requests_became_one_commit(shop, proposed):
    """The second is opened by somebody else, so that the author of the first could approve it."""
    pull, _ = proposed
    commit = shop.merge(pull)
    twin = shop.forge.open(pull.head, author="eve")
    shop.forge.merge(twin, commit)
    shop.forge.review(twin, "mona")
    assert shop.approved() is None
    assert "all became it" in shop.refused()


def test_table_changed_between_plan_and_apply(shop, proposed):
    pull, _ = proposed
    shop.forge.review(pull)
    shop.git("checkout", "-q", "main")
    shop.folder.write("tables/orders.yml", ORDERS | {"description": "Other words."})
    assert shop.run("apply", "--target", DEV, "--auto-approve").exit_code == 0
    shop.git("checkout", "-q", "--", ".")
    shop.merge(pull)
    shop.refused(code=4)


@on_a_forge_each(["loosened"], ["true", None])
def test_guardrails_loosened_in_the_same_pull_request(shop, loosened):
    """The plan is made with the rules of the base; a reviewer cannot approve it, because it has no id."""
    rule = {
        "apiVersion": "parquetry/v1",
        "kind": "guardrail",
        "name": "small_files",
        "message": "too large",
        "override": "never",
    }
    shop.git("checkout", "-q", "main")
    expression = "spec.sizing.max_file_size_bytes <= 1048576"
    (shop.folder.root / "guardrails").mkdir()
    shop.folder.write("guardrails/small_files.yml", rule | {"expression": expression})
    shop.commit("a rule")
    shop.git("checkout", "-q", "-b", "change")
    shop.size("2MiB")
    if loosened is None:
        (shop.folder.root / "guardrails" / "small_files.yml").unlink()
    else:
        shop.folder.write("guardrails/small_files.yml", rule | {"expression": loosened})
    pull = shop.forge.open(shop.commit())
    file = shop.plans / "plan.json"
    made = shop.run("plan", "--target", DEV, "--untrusted", "--base", "main", "--out", str(file))
    assert made.exit_code == 1
    assert "SC801" in made.output
    assert shop.run("review", "post", str(file), "--pull", str(pull.number)).exit_code == 1
    (status,) = shop.forge.statuses[pull.head]
    assert (status["state"], status["description"]) == ("failure", "blocked")
    shop.forge.review(pull)
    shop.merge(pull)
    assert shop.approved() is None
    assert '"blocked"' in shop.refused()


def add_name(root):
    text = (root / "parquetry.yml").read_text()
    (root / "parquetry.yml").write_text(f"{text}environment: [PIN]\n")


def delete_rule(root):
    (root / "guardrails" / "rule.yml").unlink()


def add_link(root):
    (root / "landing").mkdir(exist_ok=True)
    (root / "landing" / "all.csv").symlink_to("/etc/passwd")


def change_workflow(root):
    (root / ".github" / "workflows" / "apply.yml").write_text("on: push\n")


def change_requirements(root):
    (root / "requirements.txt").write_text("parquetry==0.1.0\nevil\n")


AUTHORITY = {
    add_name: "+ PIN is new",
    delete_rule: "- guardrails/rule.yml was removed",
    add_link: "+ landing/all.csv is new",
    change_workflow: "~ .github/workflows/apply.yml changes",
    change_requirements: "~ requirements.txt changes",
}


@pytest.fixture
def guarded(shop):
    """The project with a guardrail, a workflow and requirements, merged and pushed."""
    shop.git("checkout", "-q", "main")
    rule = {"apiVersion": "parquetry/v1", "kind": "guardrail", "name": "rule", "message": "no"}
    (shop.folder.root / "guardrails").mkdir()
    shop.folder.write("guardrails/rule.yml", rule | {"expression": "true"})
    (shop.folder.root / ".github" / "workflows").mkdir(parents=True)
    (shop.folder.root / ".github" / "workflows" / "apply.yml").write_text("on: pull_request\n")
    (shop.folder.root / "requirements.txt").write_text("parquetry==0.1.0\n")
    shop.commit("what is obeyed")
    return shop


def proposing(shop, change, branch="change"):
    """A pull request of adam's that changes no table."""
    shop.git("checkout", "-q", "-B", branch, "main")
    change(shop.folder.root)
    return shop.forge.open(shop.commit())


@on_a_forge_each(["change"], list(AUTHORITY))
def test_authority_that_changes_alone(guarded, change):
    """It is shown, it has to be approved, and then it is."""
    pull = proposing(guarded, change)
    file = guarded.post(pull)
    assert AUTHORITY[change][2:] in guarded.forge.of_workflow(pull)[0].replace("\\", "")
    guarded.merge(pull)
    assert "no other person approved" in guarded.refused()
    guarded.forge.review(pull)
    assert guarded.approved() == id_in(file)
    done = guarded.apply()
    assert done.exit_code == 0, done.output


@on_a_forge_each(["change"], list(AUTHORITY))
def test_authority_that_nobody_was_shown(guarded, change):
    """The plan that was approved is of the table alone, and what was merged changes more."""
    pull = guarded.propose()
    guarded.post(pull)
    guarded.forge.review(pull)
    guarded.git("checkout", "-q", "main")
    guarded.git("merge", "-q", "--no-ff", "--no-commit", pull.head)
    change(guarded.folder.root)
    guarded.forge.merge(pull, guarded.commit("merged"))
    assert "was approved" in guarded.refused(code=4)


WAYS = ["merge", "squash", "rebase", "fast-forward"]


def switched(shop, base):
    """A pull request whose plan is made against `base`, and shows the table alone; then its base is main again.

    rita approves that after all else has happened.
    """
    pull = shop.forge.open(shop.git("rev-parse", "HEAD"))
    shop.forge.change_base(pull)
    file = shop.plans / "switched.json"
    made = shop.run("plan", "--target", DEV, "--untrusted", "--base", base, "--out", str(file))
    assert made.exit_code == 0, made.output
    assert shop.run("review", "post", str(file), "--pull", str(pull.number)).exit_code == 0
    assert "authority" not in shop.forge.of_workflow(pull)[0]
    shop.forge.change_base(pull)
    shop.forge.review(pull)
    return pull


@on_a_forge_each(["change", "how"], [add_name, delete_rule, change_workflow], WAYS)
def test_base_switched(guarded, change, how):
    """The base was a branch of the author's own, which has the change that nobody is to see."""
    guarded.git("checkout", "-q", "-B", "feature", "main")
    change(guarded.folder.root)
    guarded.commit("what is hidden")
    guarded.git("checkout", "-q", "-B", "change")
    guarded.size("2MiB")
    guarded.commit()
    pull = switched(guarded, "feature")
    guarded.merge(pull, how)
    assert guarded.approved() is None
    assert "which the branch did not have before the merge" in guarded.refused()


@on_a_forge_each(["how"], WAYS)
def test_base_switched_to_what_the_branch_was(guarded, how):
    """The base was a commit of main, which has since been taken back; the pull request brings it again."""
    guarded.git("checkout", "-q", "main")
    add_name(guarded.folder.root)
    guarded.commit("a name")
    guarded.git("branch", "-q", "old")
    guarded.git("revert", "--no-edit", "HEAD")
    guarded.git("checkout", "-q", "-B", "change")
    guarded.git("revert", "--no-edit", "HEAD")
    guarded.size("2MiB")
    guarded.commit()
    pull = switched(guarded, "old")
    guarded.merge(pull, how)
    if how in ("merge", "squash"):
        assert "was approved" in guarded.refused(code=4)
    else:
        assert "merge or squash" in guarded.refused()


def test_comment_edited_by_a_maintainer(guarded):
    """It no longer shows what changes of authority, and names another plan; the check decides all the same."""
    pull = proposing(guarded, change_workflow)
    file = guarded.post(pull)
    for comment in pull.comments:
        comment["body"] = comment["body"].replace(id_in(file), OTHER).replace("authority", "nothing")
    guarded.merge(pull)
    assert guarded.approved() is None
    guarded.refused()
    guarded.forge.review(pull, "mona")
    assert guarded.approved() == id_in(file) != OTHER


def test_a_name_that_an_unmerged_pull_request_adds(guarded, monkeypatch):
    """The first adds it to `environment`, the second prints it; what main has decides for both."""
    monkeypatch.setenv("PIN", "qz7-s3cret")
    first = proposing(guarded, add_name, "names")
    guarded.post(first)
    assert "PIN is new" in guarded.forge.of_workflow(first)[0]
    guarded.folder.orders(description="{{ env_var('PIN') }}")
    guarded.git("checkout", "-q", "-B", "prints")
    second = guarded.forge.open(guarded.commit(), author="eve")
    file = guarded.plans / "second.json"
    made = guarded.run("plan", "--target", DEV, "--untrusted", "--base", "main", "--out", str(file))
    assert "qz7-s3cret" not in made.output
    assert not file.exists() or "qz7-s3cret" not in file.read_text()
    guarded.forge.review(second)
    guarded.merge(second)
    assert guarded.approved() is None
    guarded.refused()


def test_what_others_change_of_authority_is_theirs(guarded):
    """Both are planned before either is merged; the one of the table stays approved."""
    theirs = proposing(guarded, change_workflow, "theirs")
    guarded.post(theirs)
    ours = guarded.propose()
    file = guarded.post(ours)
    for pull in (theirs, ours):
        guarded.forge.review(pull)
        guarded.merge(pull)
    assert guarded.approved() == id_in(file)
    assert guarded.apply().exit_code == 0
    assert guarded.applied() == "2MiB"


@on_a_forge_each(["how"], ["squash", "rebase", "queue"])
def test_what_becomes_another_commit_in_the_merge(shop, proposed, how):
    """The merged commit contains what nobody planned, whatever name it has."""
    pull, _ = proposed
    shop.forge.review(pull)
    shop.git("checkout", "-q", "main")
    shop.folder.write("tables/events.yml", EVENTS)
    shop.commit()
    shop.merge(pull, how)
    assert "was approved" in shop.refused(code=4)


def test_blocked_plan(shop):
    """It has a check that fails and holds no id, whoever approves."""
    shop.git("checkout", "-q", "-B", "change", "main")
    shop.folder.orders(columns=columns_with(items=None))
    pull = shop.forge.open(shop.commit())
    file = shop.plan(pull)
    assert shop.run("review", "post", str(file), "--pull", str(pull.number)).exit_code == 1
    (status,) = shop.forge.statuses[pull.head]
    assert (status["state"], status["description"]) == ("failure", "blocked")
    shop.forge.review(pull)
    shop.merge(pull)
    assert shop.approved() is None
    shop.refused()


@pytest.mark.parametrize("how", ["merge", "squash", "rebase", "queue"])
def test_an_approved_plan_is_applied(shop, proposed, how):
    pull, file = proposed
    shop.forge.review(pull)
    shop.merge(pull, how)
    assert shop.approved() == id_in(file)
    done = shop.apply()
    assert done.exit_code == 0, done.output
    assert (shop.applied(), shop.applied(PROD)) == ("2MiB", "1MiB")


def test_a_plan_that_is_posted_again_stays_approved(shop, proposed):
    """As somebody runs the workflow once more, which finds the same plan."""
    pull, file = proposed
    shop.forge.review(pull)
    shop.post(pull)
    shop.merge(pull)
    assert shop.approved() == id_in(file)
    saved = shop.plans / "merged.json"
    assert shop.run("plan", "--out", str(saved)).exit_code == 0
    assert shop.apply(DEV, str(saved)).exit_code == 0
    assert shop.applied() == "2MiB"


def test_nothing_to_apply_needs_no_approval(shop):
    shop.git("checkout", "-q", "main")
    (shop.folder.root / "README.md").write_text("words")
    shop.commit()
    before = len(shop.forge.calls)
    assert shop.apply().exit_code == 0
    assert len(shop.forge.calls) == before
