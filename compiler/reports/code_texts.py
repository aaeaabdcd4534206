"""What the codes of plans and of drift mean, and what to do; their titles are where they are found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_NEW_TABLE = (
    "Follow the recipe that `parquetry plan` prints: a new table beside this one, filled from it with a "
    "source of format hudi; then point readers at the new one."
)
_APPLY = "Review the plan, then `parquetry apply`."


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeText:
    """The sentences about one code: what it means, and what to do."""

    explanation: str
    remedy: str


def _text(explanation: str, remedy: str) -> CodeText:
    return CodeText(explanation=explanation, remedy=remedy)


TEXTS: Mapping[str, CodeText] = {
    "SC001": _text(
        "Nothing is at the location yet, or a creation that was interrupted. Applying writes "
        "hoodie.properties, an empty commit with the schema, and the applied record; no row.",
        "`parquetry apply`, then `parquetry run` to fill the table.",
    ),
    "SC002": _text(
        "The applied record names this project and no file declares the table. Applying records that it is "
        "forgotten: `run` leaves it alone from then on. No file of the table is deleted.",
        "Restore the spec if it went by mistake; else apply, and delete the table's folder yourself when "
        "its rows are of no use to anybody.",
    ),
    "SC003": _text(
        "The table was forgotten and has a spec again. Its rows were kept; applying records the spec, and "
        "its changes since are listed with it.",
        _APPLY,
    ),
    "SC101": _text(
        "Words about the table changed, such as a description, an owner, a tag or whether a column holds "
        "personal data. Files, schema and limits stay.",
        _APPLY,
    ),
    "SC102": _text(
        "hoodie.properties does not say what was applied: another program, or a person, wrote it. Writers "
        "of other programs follow the file, so that keys, ordering or partitions would come out "
        "differently.",
        "`parquetry drift` says when it was written. `parquetry apply` puts it back; turn off what wrote it.",
    ),
    "SC103": _text(
        "The newest applied record has no signature, or one by a former key, and `applied.signing_key` is "
        "declared; or it is signed, and none is declared any more. Who can write to the table can take a "
        "signature away, but not make one.",
        "If the key was just declared or exchanged, apply. Else look at the other changes of the table in "
        "this plan, and find out who wrote the record.",
    ),
    "SC201": _text(
        "A rule for coming writes and services changed: sizes, retention, clustering, sources, queries or "
        "tests. Files that are there stay as they are until writes and services come to them; the plan "
        "prices that debt.",
        _APPLY,
    ),
    "SC251": _text(
        "With clustering.existing: now the files that the changed policy makes due are rewritten by apply, "
        "with Spark, and at most budget.per_apply bytes of them.",
        "Apply when the cluster has time for it, or declare existing: gradual to let `run` pay by and by.",
    ),
    "SC301": _text(
        "Rows that are there have null in the new column. Applying makes an empty commit with the wider "
        "schema.",
        _APPLY,
    ),
    "SC302": _text(
        "All values of the old type are values of the new one, and files with the old type stay readable: "
        "to a larger whole number or double, or a decimal with more digits in as many bytes.",
        _APPLY,
    ),
    "SC303": _text("Rows without a value for the column are accepted from now on.", _APPLY),
    "SC304": _text(
        "Readers see the columns in the new order. Files keep theirs: columns are found by name.", _APPLY
    ),
    "SC305": _text(
        "The newest commit, of another program, lacks a column that is applied, or has it with a narrower "
        "type. Readers miss its values although files still hold them, and the next write of parquetry "
        "would bring it back. Applying commits the applied columns again; in files written without the "
        "column it is null.",
        "`parquetry drift` names the commit. Apply; or, if the column is to go, remove it from the spec "
        "(SC310).",
    ),
    "SC310": _text(
        "Readers no longer see the column, and its values are lost file by file as files are rewritten.",
        "Make sure that nobody reads it, and add an allow entry with code, table and reason to "
        "parquetry.yml.",
    ),
    "SC311": _text(
        "Files are never converted in place, and readers of the format convert few types while they read: "
        "whole numbers to larger ones and to double (bigint excepted), float to double, and decimals to more "
        "digits of the same scale and size in bytes. Any other change of a type is refused, be it a widening "
        "or a narrowing. The files may be from before a column of that name was dropped.",
        _NEW_TABLE,
    ),
    "SC312": _text(
        "Rows that are there may have null in the column, and nobody has looked whether they do.",
        f"Leave the column nullable. {_NEW_TABLE}",
    ),
    "SC313": _text(
        "The rows that are there have no value for the new column.",
        f"Declare it nullable: true. {_NEW_TABLE}",
    ),
    "SC314": _text(
        "The same key may be in two partitions already, and one of the rows would have to go.",
        _NEW_TABLE,
    ),
    "SC315": _text(
        "Files that are there have the old spelling. Spark takes both for one column, as it ignores case; "
        "Hudi and others would find no values.",
        f"Put the old spelling back, or rename the column in the queries that read it. {_NEW_TABLE}",
    ),
    "SC316": _text(
        "Files from before the column was dropped still hold its values. They would be back for rows in "
        "them, and missing from rows that were rewritten since.",
        "Let clustering rewrite those files first (clustering.execution.then: [prune]; run), take another "
        "name, or add an allow entry with code, table and reason to parquetry.yml to have them back.",
    ),
    "SC401": _text(
        "Every row carries the text of its key, and rows are found by it: with another key those that are "
        "there would never be updated.",
        _NEW_TABLE,
    ),
    "SC402": _text(
        "Rows lie in folders that are named by their partition values, and would be looked for in others.",
        _NEW_TABLE,
    ),
    "SC403": _text(
        "The rows stay where they are: a table that is declared somewhere else would begin empty.",
        f"Put the old location back. {_NEW_TABLE}",
    ),
    "SC404": _text(
        "Which of two rows with one key is newer was decided by the old column, and cannot be decided anew.",
        _NEW_TABLE,
    ),
    "SC501": _text(
        "The folder holds a Hudi table of another project, or one that parquetry has no record of.",
        "Give the table another location; a table without a project becomes yours with `parquetry adopt`.",
    ),
    "SC502": _text(
        "Somebody applied a spec from a commit that your branch lacks. Applying yours would take that back.",
        "Merge or rebase onto the commit that is named, and plan again. In a clone that has a part of the "
        "history alone fetch all of it first.",
    ),
    "SC503": _text(
        "The table has a version, a metadata table or another feature under which writing would lose rows "
        "or break other readers; or a file of its timeline, its properties or its applied record is lost "
        "or spoilt.",
        "Do what the message says, or leave the table to the program that made it.",
    ),
    "SC504": _text(
        "The table was applied for another target of this project: two targets declare one table, and the "
        "sizes and layouts that each of them overrides would replace the other's with every apply.",
        "Give the table a location of its own at each target (`location: {TARGET: PATH}`), or work on it "
        "with the target that has it. If the target was renamed, `parquetry apply` with the new name takes "
        "the table over.",
    ),
    "SC505": _text(
        "The table's applied record, or its identity (table.json), says something else than the digest that "
        "it carries, or a record stands under the number of another one. parquetry never rewrites them: "
        "somebody who can write to the table did. What reads the table says so and goes on; nothing acts by "
        "it.",
        "Find out who wrote it. Restore the file from a copy; or delete an applied record, then plan and "
        "apply again.",
    ),
    "SC506": _text(
        "`run`, services and writes by the project's name act by the applied record, which whoever can write "
        "to the table can replace. So they stop where the project declares another spec: a change that was "
        "merged and not applied, or a record that nobody applied.",
        "Look at `parquetry plan`. Apply the change if it is yours, or run from the commit that was applied; "
        "`--applied` goes by the record all the same. If it is nobody's, find out who wrote to the table.",
    ),
    "SC507": _text(
        "The plan is that of an untrusted branch (`plan --untrusted`). Its author chose a location, an "
        "option of storage, a plug-in or a key that the base does not name, and the reviewer has the "
        "credentials that would be used. The table was not looked at.",
        "Read the change. If it is as it should be, let the base have it first (merge the change of "
        "`parquetry.yml` by itself), or plan the branch without --untrusted, as one of your own.",
    ),
    "SC508": _text(
        "`applied.signing_key` is declared, and the applied record has no signature by it or by a former "
        "key. `run` does nothing by it; `plan` blocks the table where the signature is wrong, and plans to "
        "sign where there is none.",
        "Find out who wrote the record or table.json, or whether the table was moved. Restore both from a "
        "copy, or delete the record, plan and apply again. Name a key that was exchanged under "
        "`applied.former_signing_keys`.",
    ),
    "SC601": _text(
        "The allow entry names a change that this plan does not have: it was applied, or the code or the "
        "table is mistyped. Left standing it would allow the next such change unseen.",
        "Remove the entry.",
    ),
    "SC701": _text(
        "A setting of the target (memory, partitions of a shuffle, a budget, what it protects) is not what "
        "the tables record. It loads no code and redirects nothing; `run` uses it as it is declared.",
        "Nothing: `parquetry apply` records it.",
    ),
    "SC702": _text(
        "The setting can have other code carried out, or rows and credentials sent somewhere else: jars, "
        "packages, Java options, a launcher, arguments of spark-submit, an endpoint, a plug-in, or a Spark "
        "property that is not known to be harmless. `run`, `service` and compiled jobs refuse it until it "
        "is applied.",
        "Find out what it loads and why. Then allow it by its value under `allow` of the target, with the "
        "reason, or a plug-in of a table under `allow` of the project; plan and apply.",
    ),
    "DR100": _text(
        "Since the spec was applied the table was upgraded, got a metadata table, or another feature that "
        "parquetry does not write.",
        "Do what the message says: mostly a setting of the other program, and a downgrade of the table.",
    ),
    "DR101": _text(
        "A property that the spec decides says something else: key, ordering, partition fields, how they "
        "are spelled, or the time zone.",
        "`parquetry apply` puts it back; turn off what wrote it.",
    ),
    "DR102": _text(
        "The table's applied record, or its identity, says something else than the digest that it carries "
        "(SC505). Nothing is planned, applied or run by it.",
        "Find out who wrote it. Restore the file from a copy; or delete an applied record, then plan and "
        "apply again.",
    ),
    "DR201": _text(
        "Another program committed a schema with one more column. Writes of parquetry keep it and leave it "
        "null.",
        "`parquetry adopt LOCATION` declares it.",
    ),
    "DR202": _text(
        "The newest commit has the column with another type than the applied one. A wider type is kept by "
        "writes of parquetry; a narrower one they put back; one of another kind makes old files unreadable.",
        "`parquetry adopt LOCATION` accepts a wider type, `parquetry apply` puts a wider one back (SC305); "
        "else restore a savepoint, or write the table anew.",
    ),
    "DR203": _text(
        "The newest commit lacks a column that is applied; readers do not see its values any more.",
        "`parquetry apply` puts it back (SC305); if it is to go, remove it from the spec.",
    ),
    "DR204": _text(
        "Another program may write rows without a value where the spec asks for one.",
        "`parquetry adopt LOCATION` accepts it; or mend the other program and its schema.",
    ),
    "DR301": _text(
        "Another program's clustering rewrote files after the newest one of parquetry, so that they are "
        "not laid out by the applied policy.",
        "Turn that service off; `parquetry run` lays the files out again.",
    ),
    "DR401": _text(
        "Somebody deleted, emptied or cut a base file behind the table's back. Its rows are missing, and "
        "reads and writes that need it are refused.",
        "Restore the file from a copy, or the table to a savepoint; `parquetry doctor --accept-loss TABLE` "
        "says what is lost and gives it up.",
    ),
}
