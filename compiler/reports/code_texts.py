"""Explanations and remedies of the codes of plans and drift; the modules that find them have the titles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from parquetry.message import Message, Text, command

_NEW_TABLE = Message(
    "Follow the recipe that {command} prints: a new table beside this one, filled from it with a "
    "source of format hudi; then point readers at the new one.",
    command=command("plan"),
)
_APPLY = Message("Review the plan, then {command}.", command=command("apply"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeText:
    """The explanation and remedy of one code."""

    explanation: str
    remedy: Text


def _text(explanation: str, remedy: Text) -> CodeText:
    return CodeText(explanation=explanation, remedy=remedy)


TEXTS: Mapping[str, CodeText] = {
    "SC001": _text(
        "The location is empty, or contains an interrupted creation. Applying writes hoodie.properties, "
        "an empty commit with the schema, and the applied record. It writes no row.",
        Message(
            "{apply_command}, then {run_command} to fill the table.",
            apply_command=command("apply"),
            run_command=command("run"),
        ),
    ),
    "SC002": _text(
        "The applied record names this project, but no file declares the table. Applying records that the "
        "table is forgotten: `run` ignores it from then on. No file of the table is deleted.",
        "Restore the spec if it was deleted by mistake. Otherwise apply, and delete the table's folder "
        "yourself if nobody needs its rows.",
    ),
    "SC003": _text(
        "The table was forgotten and has a spec again. Its rows were kept. Applying records the spec, and "
        "the plan lists the changes since.",
        _APPLY,
    ),
    "SC101": _text(
        "A text about the table changed, such as a description, an owner, a tag, or the mark of a column "
        "as personal data. Files, schema and limits stay.",
        _APPLY,
    ),
    "SC102": _text(
        "hoodie.properties differs from what was applied: another program, or a person, wrote it. Writers "
        "of other programs follow the file, so keys, ordering or partitions would differ.",
        Message(
            "{drift_command} shows when it was written. {apply_command} restores it; turn off the program "
            "that wrote it.",
            drift_command=command("drift"),
            apply_command=command("apply"),
        ),
    ),
    "SC103": _text(
        "`applied.signing_key` is declared, but the newest applied record has no signature, or one by a "
        "former key. Or the record is signed, and no key is declared any more. Whoever can write to the "
        "table can remove a signature, but cannot create one.",
        "If the key was just declared or exchanged, apply. Otherwise check the other changes of the table "
        "in this plan, and find out who wrote the record.",
    ),
    "SC104": _text(
        "hoodie.properties declares a metadata table: Hudi's index of the table's files in .hoodie/metadata. "
        "parquetry lists files and does not write the index, so readers of the index would miss rows, and "
        "Hudi's next update would overwrite rows that it does not list. While it exists, parquetry writes "
        "nothing. Applying removes its properties, then its folder. It holds no row, and queries of Hudi "
        "with column statistics read more files until Hudi builds it again.",
        Message(
            "Set hoodie.metadata.enable=false in every Hudi writer, also in SQL procedures; then {command}.",
            command=command("apply"),
        ),
    ),
    "SC105": _text(
        "The catalog has no entry of the table, or one with other columns, types, comments or formats: "
        "somebody changed it, or the catalog could not be reached when the table changed. Nothing else of "
        "the table changes.",
        Message(
            "{apply_command} registers the table; so does {sync_command}.",
            apply_command=command("apply"),
            sync_command=command("sync"),
        ),
    ),
    "SC201": _text(
        "A rule for future writes and services changed: sizes, retention, clustering, sources, queries or "
        "tests. Existing files stay as they are until writes and services rewrite them. The plan shows "
        "this debt.",
        _APPLY,
    ),
    "SC202": _text(
        "Writers of parquetry read from the table which lock to take, and applying holds the old and the new "
        "lock while it writes that. Hudi jobs have the lock in their own options. With another lock they "
        "would no longer exclude writers of parquetry.",
        "Stop the Hudi jobs that write the table, apply, and set their hoodie.write.lock.provider.",
    ),
    "SC251": _text(
        "With clustering.existing: now, apply rewrites the files that the changed policy makes due, with "
        "Spark, and at most budget.per_apply bytes of them.",
        "Apply when the cluster has time for it, or declare existing: gradual, so that `run` pays the "
        "debt step by step.",
    ),
    "SC261": _text(
        "Applying writes the timeline and the archive in the form of the declared version, then replaces "
        "hoodie.properties, then deletes the old form. No row is read or written. After a crash the table "
        "has one version or the other. Readers that do not know the version see the table no more: Athena "
        "and Redshift read version 6 alone.",
        "Ask who reads the table. Stop Hudi jobs that write it, apply, and give them the "
        "hoodie.write.table.version of the table.",
    ),
    "SC262": _text(
        "Another program upgraded or downgraded the table, such as a Hudi 1.x job with its defaults. The "
        "declared version did not change, so applying gives the table that version again, with all rows "
        "that were written since.",
        Message(
            "{apply_command} changes the version back; set hoodie.write.auto.upgrade=false in the Hudi job. "
            "To keep the new version, {adopt_command} declares it.",
            apply_command=command("apply"),
            adopt_command=command("adopt", "LOCATION"),
        ),
    ),
    "SC263": _text(
        "New and rewritten files leave some of Hudi's columns null; others keep theirs until a write or "
        "clustering rewrites them. Rows are then found by the columns of the record key. Hudi refuses "
        "incremental queries of such a table, and its index must be SIMPLE or GLOBAL_SIMPLE. With none, "
        "since and until are refused too.",
        "Ask who reads changes of the table. It cannot be taken back: apply, and give Hudi jobs "
        "hoodie.populate.meta.fields=false.",
    ),
    "SC301": _text(
        "Existing rows have null in the new column. Applying makes an empty commit with the wider schema.",
        _APPLY,
    ),
    "SC302": _text(
        "All values of the old type are values of the new one, and files with the old type stay readable. "
        "Whole numbers may become larger ones or double, and decimals may get more digits in the same number "
        "of bytes.",
        _APPLY,
    ),
    "SC303": _text("Rows without a value for the column are accepted from now on.", _APPLY),
    "SC304": _text(
        "Readers see the columns in the new order. Files keep their order, because columns are found by "
        "name.",
        _APPLY,
    ),
    "SC305": _text(
        "The newest commit, by another program or before a restore, lacks an applied column, or narrows it. "
        "Readers miss its values although files still contain them, and the next write of parquetry would "
        "restore it. Applying commits the applied columns again. In files written without the column it "
        "is null.",
        Message(
            "{command} names the commit. Apply; or, if you want to drop the column, remove it from the spec "
            "(SC310).",
            command=command("drift"),
        ),
    ),
    "SC310": _text(
        "Readers no longer see the column, and its values are lost file by file as files are rewritten.",
        "Make sure that nobody reads it, and add an allow entry with code, table and reason to "
        "parquetry.yml.",
    ),
    "SC311": _text(
        "Files are never converted in place, and readers of the format convert few types: whole numbers "
        "to larger ones and to double (except bigint), float to double, and decimals to more digits of "
        "the same scale and size in bytes. Every other change of a type is refused, whether it widens or "
        "narrows. The files may be from before a column of that name was dropped.",
        _NEW_TABLE,
    ),
    "SC312": _text(
        "Existing rows may have null in the column, and nobody has checked whether they do.",
        Message("Leave the column nullable. {remedy}", remedy=_NEW_TABLE),
    ),
    "SC313": _text(
        "The existing rows have no value for the new column.",
        Message("Declare it nullable: true. {remedy}", remedy=_NEW_TABLE),
    ),
    "SC314": _text(
        "The same key may already be in two partitions, and one of the rows would have to go.",
        _NEW_TABLE,
    ),
    "SC315": _text(
        "Existing files have the old spelling. Spark ignores case and treats both as one column. Hudi and "
        "others would find no values.",
        Message(
            "Put the old spelling back, or rename the column in the queries that read it. {remedy}",
            remedy=_NEW_TABLE,
        ),
    ),
    "SC316": _text(
        "Files from before the column was dropped still contain its values. These would return for the "
        "rows in such files, and be missing from rows that were rewritten since.",
        "Let clustering rewrite those files first (clustering.execution.then: [prune]; run), choose "
        "another name, or add an allow entry with code, table and reason to parquetry.yml to restore the "
        "values.",
    ),
    "SC317": _text(
        "Rows that were written without some meta columns lack keys or commit times, and readers would take "
        "null for a value. And the text of a floating-point number depends on the version of Java, so stored "
        "keys may differ from keys that are computed from the column.",
        _NEW_TABLE,
    ),
    "SC401": _text(
        "Every row contains its key, and rows are found by it. With another key, the existing rows would "
        "never be updated.",
        _NEW_TABLE,
    ),
    "SC402": _text(
        "Rows are in folders named by their partition values, and would be searched for in others.",
        _NEW_TABLE,
    ),
    "SC403": _text(
        "The rows stay where they are: a table that is declared elsewhere would start empty.",
        Message("Put the old location back. {remedy}", remedy=_NEW_TABLE),
    ),
    "SC404": _text(
        "The old column decided which of two rows with one key is newer. This cannot be decided again.",
        _NEW_TABLE,
    ),
    "SC405": _text(
        "The table at the declared location is applied under another name: it was renamed, or the spec was "
        "copied from that of another table with its location.",
        "If it was renamed, declare its former name under moved; parquetry rename writes it. If not, correct "
        "the location.",
    ),
    "SC406": _text(
        "Files stay encrypted by the key that they were written with, and only keys that the spec names are "
        "used to read them.",
        "Put the old reference under files.former_encryption_keys until no file, in no retained version, is "
        "encrypted by it.",
    ),
    "SC501": _text(
        "The folder contains a Hudi table of another project, or one without a record of parquetry.",
        Message(
            "Give the table another location; a table without a project becomes yours with {command}.",
            command=command("adopt"),
        ),
    ),
    "SC502": _text(
        "Somebody applied a spec from a commit that your branch lacks. Applying yours would undo that.",
        "Merge or rebase onto the commit in the message, and plan again. In a shallow clone, first fetch "
        "the whole history.",
    ),
    "SC503": _text(
        "The table has a version or a feature with which writing would lose rows "
        "or break other readers. Or a file of its timeline, its properties or its applied record is lost "
        "or damaged.",
        "Do what the message says, or leave the table to the program that created it.",
    ),
    "SC504": _text(
        "The table was applied for another target of this project: two targets declare one table, and "
        "each apply would replace the sizes and layouts of the other target.",
        Message(
            "Give the table its own location at each target (`location: {{TARGET: PATH}}`), or use the "
            "target that owns it. If the target was renamed, {command} with the new name takes the table "
            "over.",
            command=command("apply"),
        ),
    ),
    "SC505": _text(
        "The table's applied record, or its identity (table.json), differs from the digest in it, or a "
        "record has the number of another one. parquetry never rewrites them: somebody who can write to "
        "the table did. Commands that read the table warn and continue; no command acts by the record.",
        "Find out who wrote it. Restore the file from a copy; or delete an applied record, then plan and "
        "apply again.",
    ),
    "SC506": _text(
        "`run`, services and writes by the project's name use the applied record, which whoever can write "
        "to the table can replace. So they stop if the project declares another spec: a change was merged "
        "but not applied, or nobody applied the record.",
        Message(
            "Run {command}. Apply the change if it is yours, or run from the applied commit. `--applied` "
            "uses the record in spite of the difference. If nobody made the change, find out who wrote to "
            "the table.",
            command=command("plan"),
        ),
    ),
    "SC507": _text(
        "This is the plan of an untrusted branch (`plan --untrusted`). Its author chose a location, a "
        "storage option, a plug-in or a key that the base does not name, and the credentials of the "
        "reviewer would be used. The table was not opened.",
        "Read the change. If it is right, add it to the base first (merge the change of `parquetry.yml` "
        "alone), or plan the branch without --untrusted, like one of your own.",
    ),
    "SC508": _text(
        "`applied.signing_key` is declared, but the applied record is signed neither by it nor by a "
        "former key. `run` refuses the record. `plan` blocks the table if the signature is wrong, and "
        "plans to sign the record if there is none.",
        "Find out who wrote the record or table.json, or whether the table was moved. Restore both from a "
        "copy, or delete the record, plan and apply again. List an exchanged key under "
        "`applied.former_signing_keys`.",
    ),
    "SC509": _text(
        "Version 8 is that of Hudi 1.0, and tables that have it keep it. No table is created with it or "
        "upgraded to it, as every Hudi that writes it can also write version 6, and newer ones version 9.",
        "Declare the version that the table has, 6, or 9.",
    ),
    "SC601": _text(
        "The allow entry names a change that this plan does not contain: it was applied, or the code or "
        "the table is mistyped. If the entry stays, it allows the next such change without a review.",
        "Remove the entry.",
    ),
    "SC602": _text(
        "The plan makes an empty table and forgets one with the same columns, as if it had been renamed by "
        "hand.",
        "If it was renamed, put the former spec back and use parquetry rename: the table keeps its rows.",
    ),
    "SC603": _text(
        "By the matrix of readers, one of the readers that the table declares returns rows twice or other "
        "values once the change is applied and the table is written.",
        "Do what the message says, or remove the reader from `readers`.",
    ),
    "SC604": _text(
        "By the matrix of readers, or by its own documentation, one of the readers that the table declares "
        "refuses the table once the change is applied.",
        "Do what the message says, or remove the reader from `readers`.",
    ),
    "SC701": _text(
        "A setting of the target (memory, shuffle partitions, a budget, protected tables) differs from "
        "what the tables record. It loads no code and redirects nothing; `run` uses it as declared.",
        Message("Nothing is needed: {command} records it.", command=command("apply")),
    ),
    "SC702": _text(
        "The setting can execute other code, or send rows and credentials elsewhere: jars, packages, Java "
        "options, a launcher, arguments of spark-submit, an endpoint, a plug-in, or a Spark property that "
        "is not known to be harmless. `run`, `service` and compiled jobs refuse it until it is applied.",
        "Find out what it loads and why. Then allow it by its value under `allow` of the target, with the "
        "reason, or a plug-in of a table under `allow` of the project; plan and apply.",
    ),
    "SC801": _text(
        "A rule in guardrails/ is not fulfilled, or cannot be evaluated. The reason names its file and line. "
        "With an entry of `allow` that overrides it, the action is planned, and the plan shows the entry.",
        "Change the spec until the rule is fulfilled. If the rule may be overridden, add an entry with code "
        "SC801 and the guardrail's name to `allow` in parquetry.yml.",
    ),
    "SC802": _text(
        "A rule in guardrails/ with `severity: warn` is not fulfilled. The action is planned all the same.",
        "Read the message, and change the spec if it is right.",
    ),
    "DR100": _text(
        "Since the spec was applied, the table was upgraded, or got a feature that parquetry does not write.",
        "Do what the message says: usually change a setting of the other program, and downgrade the table.",
    ),
    "DR101": _text(
        "A property that the spec sets has another value: key, ordering, partition fields, partition path "
        "format, or the time zone.",
        Message("{command} restores it; turn off the program that wrote it.", command=command("apply")),
    ),
    "DR102": _text(
        "The table's applied record, or its identity, differs from the digest in it (SC505). No command "
        "plans, applies or runs anything by it.",
        "Find out who wrote it. Restore the file from a copy; or delete an applied record, then plan and "
        "apply again.",
    ),
    "DR103": _text(
        "Another program upgraded or downgraded the table: Hudi 1.x does so at its first write, unless "
        "hoodie.write.auto.upgrade is false. Readers that do not know the version see the table no more, and "
        "`run` stops.",
        Message(
            "{apply_command} changes the version back, and keeps all rows. {adopt_command} declares it "
            "instead.",
            apply_command=command("apply"),
            adopt_command=command("adopt", "LOCATION"),
        ),
    ),
    "DR104": _text(
        "A Hudi writer without hoodie.metadata.enable=false has created a metadata table, its index of the "
        "table's files. parquetry reads the table as before, and writes nothing until the index is dropped: "
        "readers of the index would miss its rows.",
        Message(
            "Set hoodie.metadata.enable=false in every Hudi writer; {command} drops the metadata table "
            "(SC104).",
            command=command("apply"),
        ),
    ),
    "DR201": _text(
        "Another program committed a schema with an additional column. Writes of parquetry keep it and "
        "leave it null.",
        Message("{command} declares it.", command=command("adopt", "LOCATION")),
    ),
    "DR202": _text(
        "The newest commit has the column with another type than the applied one. Writes of parquetry "
        "keep a wider type and undo a narrower one. A type of another kind makes old files unreadable.",
        Message(
            "{adopt_command} accepts a wider type, {apply_command} restores a wider one (SC305). "
            "Otherwise restore a savepoint, or write the table again.",
            adopt_command=command("adopt", "LOCATION"),
            apply_command=command("apply"),
        ),
    ),
    "DR203": _text(
        "The newest commit lacks an applied column; readers no longer see its values.",
        Message(
            "{command} restores it (SC305); if you want to drop it, remove it from the spec.",
            command=command("apply"),
        ),
    ),
    "DR204": _text(
        "Another program may write rows without a value although the spec requires one.",
        Message(
            "{command} accepts it; or correct the other program and its schema.",
            command=command("adopt", "LOCATION"),
        ),
    ),
    "DR301": _text(
        "Another program's clustering rewrote files after the newest one of parquetry, so they do not "
        "follow the applied policy.",
        Message("Turn that service off; {command} rewrites the files.", command=command("run")),
    ),
    "DR401": _text(
        "Somebody deleted, emptied or truncated a base file outside any write. Its rows are missing, and "
        "reads and writes that need it are refused.",
        Message(
            "Restore the file from a copy, or the table to a savepoint. {command} lists the lost rows and "
            "gives them up.",
            command=command("doctor", "--accept-loss", "TABLE"),
        ),
    ),
    "DR500": _text(
        "The catalog did not answer, the target does not allow its address, or the entry with the name of "
        "the table is that of another table, of another format or with other partition keys. So it is not "
        "known whether the entry has drifted.",
        "Do what the message says. No write of the table depends on it, and the next run catches up.",
    ),
    "DR501": _text(
        "The applied spec names a catalog, and the table is not in it: somebody removed the entry, or no "
        "sync has reached the catalog yet. `run` leaves it so.",
        Message("{command} registers the table.", command=command("apply")),
    ),
    "DR502": _text(
        "A column, a type, a comment or another part of the definition in the catalog is not what parquetry "
        "wrote, and `run` leaves it so. Parameters that parquetry does not write are no drift.",
        Message("{command} restores the definition.", command=command("apply")),
    ),
}
