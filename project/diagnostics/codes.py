"""The diagnostic codes: what each means and what to do, the text of the page on diagnostics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A kind of finding. A ``warning`` never stops a command."""

    code: str
    title: str
    explanation: str
    remedy: str
    warning: bool


def _code(code: str, title: str, explanation: str, remedy: str, *, warning: bool = False) -> Code:
    """The entry of the registry, in the order in which it is read."""
    return Code(code=code, title=title, explanation=explanation, remedy=remedy, warning=warning)


_ALL = (
    _code(
        "PQ001",
        "No project file",
        "A project is a folder with a file parquetry.yml; there is none in this one.",
        "Run the command in the project's folder, or name it with --project.",
    ),
    _code(
        "PQ002",
        "Not YAML",
        "The file cannot be parsed. A tab in the indentation, an unclosed quote or bracket, and a text "
        "that begins with one of { [ * & ! % @ without quotes are the usual reasons.",
        "Mend the line that is named, or the one before it; indent with blanks.",
    ),
    _code(
        "PQ003",
        "Not text",
        "Project files are UTF-8 text without control characters, without signs that turn a line round, "
        "and with ends of lines that every editor shows (LF, or CR and LF). A byte order mark at the start "
        "is accepted.",
        "Save the file as UTF-8, and remove the character that is named.",
    ),
    _code(
        "PQ004",
        "Duplicate key",
        "A mapping has the same key twice. YAML parsers disagree on which one counts, so neither does here.",
        "Remove one of the two.",
    ),
    _code(
        "PQ005",
        "Merge key",
        "`<<` is not part of YAML 1.2 and hides where a value comes from.",
        "Write the keys out, or move what is shared into a policy or into the project's defaults.",
    ),
    _code(
        "PQ006",
        "Key is not a text",
        "Every key of a mapping is a text. A number, true, false, null, a list or a mapping is not one "
        "unless quoted.",
        "Put the key in quotes.",
    ),
    _code(
        "PQ007",
        "Explicit tag",
        "Tags such as `!!python/object` or `!!str` are not accepted; the schema already says of which "
        "type a value is.",
        "Remove the tag; put the value in quotes if it is meant as text.",
    ),
    _code(
        "PQ008",
        "Several documents",
        "A project file holds exactly one YAML document.",
        "Move what follows the second `---` into a file of its own.",
    ),
    _code(
        "PQ009",
        "Empty file",
        "The file holds no value. An empty spec is nearly always a file that was not saved.",
        "Declare something in it, or delete the file.",
    ),
    _code(
        "PQ010",
        "File too large",
        "A project file has at most 1 MiB, 50,000 values counting what aliases repeat, 32 levels and 100"
        " aliases, so that no file can make a command hang.",
        "Split the file, or write out what the aliases repeat.",
    ),
    _code(
        "PQ011",
        "Path leaves its folder",
        "Files of a project lie in its folder, and relative paths stay inside the folder they start from."
        " Symbolic links that lead out, and links to folders, are not followed.",
        "Copy the file into the project, or write an absolute path where data lies elsewhere.",
    ),
    _code(
        "PQ012",
        "File is not read",
        "Tables are files tables/**/NAME.yml and policies are files policies/NAME.yml; this YAML file is "
        "neither.",
        "Rename or move the file.",
    ),
    _code(
        "PQ013",
        "File cannot be read",
        "The operating system refused to hand out the file.",
        "Give this user the permission to read it.",
    ),
    _code(
        "PQ014",
        "Not a usable number",
        "Numbers are finite and have at most 18 digits.",
        "Write a smaller number, or quote the value if it is meant as text.",
    ),
    _code(
        "PQ015",
        "Findings left out",
        "The file breaks its schema in very many places, of which the first ones are shown.",
        "Mend those; the others will be shown then.",
    ),
    _code(
        "PQ016",
        "No canonical form",
        "The file is valid YAML, but `fmt` cannot write it anew without changing what it means: a key that "
        "spans lines is the usual reason. The file was left as it is.",
        "Write each key as `key: value` on a line of its own.",
    ),
    _code(
        "PQ017",
        "Character that nobody sees",
        "A name, a place or a setting holds a control character, an end of a line or another character that "
        "nobody sees, written as an escape or given by a variable. What is reviewed would not be what is "
        "declared. Texts for people and SQL may have several lines and tabs, options of readers any "
        "character of ASCII.",
        "Remove the character; a text over several lines is folded into one by `>-`.",
    ),
    _code(
        "PQ101",
        "Missing key",
        "The mapping lacks a key that it must have.",
        "Add the key; the reference of the specification lists what it may hold.",
    ),
    _code(
        "PQ102",
        "Unknown key",
        "The mapping has a key that means nothing here. Unknown keys are errors, as a misspelt setting "
        "would otherwise silently do nothing.",
        "Mend the spelling, or remove the key.",
    ),
    _code(
        "PQ103",
        "Wrong kind of value",
        "The value is not of the type, or not in the form, that the key needs. Only true and false are "
        "flags: yes, no, on and off are texts, as in YAML 1.2.",
        "Write a value of the form that the message names.",
    ),
    _code(
        "PQ104",
        "Not one of the allowed values",
        "The key takes one of a few words.",
        "Choose one of the words in the message.",
    ),
    _code(
        "PQ105",
        "Out of range",
        "The value, or the number of entries, is below or above what the key takes, or an entry is there "
        "twice.",
        "Stay inside the limit that the message names.",
    ),
    _code(
        "PQ106",
        "Size without a unit",
        "A bare number does not say whether it means bytes, kilobytes or megabytes.",
        "Write a unit: MiB and GiB are powers of two, MB and GB powers of ten, B is bytes. Only 0 needs "
        "none.",
    ),
    _code(
        "PQ201",
        "Template not accepted",
        "Templates are single Jinja expressions and conditions over var, env_var and target. Loops, "
        "assignments, method calls, includes and unknown filters are refused.",
        "Write the value out, or compute it where --var is given.",
    ),
    _code(
        "PQ202",
        "Unknown variable",
        "A template reads a variable that the project's vars does not declare.",
        "Declare it under vars in parquetry.yml.",
    ),
    _code(
        "PQ203",
        "Environment read outside targets",
        "env_var is accepted only under targets, so that specs mean the same for everybody and `validate`"
        " needs no environment.",
        "Declare a variable under vars, and read that.",
    ),
    _code(
        "PQ204",
        "Environment variable not set",
        "The target that was chosen reads an environment variable that is not set.",
        "Set the variable before the command.",
    ),
    _code(
        "PQ205",
        "Secret in the wrong place",
        "Environment variables whose names begin with PARQUETRY_SECRET_ may be read only under a target's"
        " spark and storage, where they are printed as ***: not as a part of an address, which they would be"
        " sent to, and not on a command line, where every user of the machine would read them.",
        "Move the value to an option for credentials, or rename the variable if it is no secret.",
    ),
    _code(
        "PQ206",
        "Template gives no value",
        "The template was understood, but its evaluation failed or its result is not a value for a spec.",
        "Look at the types of the variables it reads.",
    ),
    _code(
        "PQ207",
        "Variable given with another type",
        "--var, or the vars of a target, give a variable a value of another type than the declared one has.",
        "Give it a value of that type, or declare it with another one under vars in parquetry.yml.",
    ),
    _code(
        "PQ208",
        "Template where none is evaluated",
        "Names, kinds and the values of vars are taken as they are written.",
        "Write the value out.",
    ),
    _code(
        "PQ209",
        "Variable without a value at a target",
        "The vars of one target give a variable a value; those of another, and of the project, do not: what "
        "reads it cannot be computed there.",
        "Mend the spelling, or declare it under vars of the project.",
    ),
    _code(
        "PQ210",
        "Environment variable not declared",
        "A template would print, record or connect to the value of an environment variable that is not listed"
        " under `environment` in parquetry.yml. Others are read for credentials alone (key, secret, token, "
        "password, and Spark properties that are no addresses), where they are printed as ***. `plan "
        "--untrusted` reads none but those that the base declares.",
        "List it under `environment`, if it is no secret. PARQUETRY_* needs no entry.",
    ),
    _code(
        "PQ211",
        "Secret declared as none",
        "The values of variables that `environment` lists are printed, and this one is named like a secret.",
        "Leave it out, and read it under storage or spark; or rename it, if it is no secret.",
    ),
    _code(
        "PQ301",
        "Name used twice",
        "Two tables, or two columns, sources or queries of a table (in any case of letters, as catalogs and "
        "some file systems tell none apart), or two policies have one name.",
        "Rename one of them.",
    ),
    _code(
        "PQ302",
        "Name differs from the file's",
        "The file name and the name inside it differ, so a search for either finds half of it.",
        "Rename the file or its contents.",
        warning=True,
    ),
    _code(
        "PQ303",
        "Two tables at one location",
        "Two tables share a folder, or one lies inside the other's: each would destroy the other.",
        "Give one of them another location.",
    ),
    _code(
        "PQ304",
        "Unknown policy",
        "The table names a policy that no file in policies/ declares.",
        "Mend the spelling, or add the file.",
    ),
    _code(
        "PQ305",
        "Unknown target",
        "The target is not one of those that parquetry.yml declares, or none was chosen and there are "
        "several.",
        "Choose one with --target, or set default_target.",
    ),
    _code(
        "PQ306",
        "Storage not supported",
        "Tables and sources lie in local folders or in S3 (s3:// or s3a://).",
        "Use one of the two.",
    ),
    _code(
        "PQ307",
        "Avro schema not usable",
        "The Avro schema file of the columns is missing, is no record, or holds a type that tables cannot"
        " hold.",
        "Mend the schema, or list the columns in the spec.",
    ),
    _code(
        "PQ308",
        "Names no table",
        "A protect or allow entry matches no table of this project.",
        "Mend the spelling, or remove the entry.",
        warning=True,
    ),
    _code(
        "PQ309",
        "Allow entry without use",
        "The entry accepts a warning that does not occur any more.",
        "Remove the entry.",
        warning=True,
    ),
    _code(
        "PQ310",
        "One location for several targets",
        "The location is the same folder whatever the target. A table is applied for one target: at the "
        "others `plan` refuses it (SC504), as each apply would put the other target's settings back.",
        "Name the location by target (`location: {dev: /lake/orders}`; a target that is left out has the "
        "default), or make it relative to the warehouse.",
        warning=True,
    ),
    _code(
        "PQ401",
        "Unknown column",
        "A setting names a column that the table does not have. Fields of a struct are written with a dot.",
        "Mend the spelling, or declare the column.",
    ),
    _code(
        "PQ402",
        "Key column may be null",
        "A row whose record key is null cannot be found again; writing it is an error.",
        "Declare the column with nullable: false.",
    ),
    _code(
        "PQ403",
        "Type not understood",
        "The type is no Spark SQL type that a Hudi table can hold, or it is misspelt.",
        "Choose one of boolean, tinyint, smallint, int, bigint, float, double, decimal(p,s), string, "
        "binary, date, timestamp, array<...>, map<string,...>, struct<name:...>.",
    ),
    _code(
        "PQ404",
        "Type does not fit the use",
        "Columns of this type cannot identify, order or partition rows.",
        "Choose another column.",
    ),
    _code(
        "PQ405",
        "Column name reserved",
        "Names that begin with _hoodie_ belong to the table format; only _hoodie_is_deleted (boolean) may"
        " be declared. __bucket, __delete, __file, __generated_wrong, __hash, __ordering,"
        " __origin, __partition, __position and __ref are needed"
        " while rows are written.",
        "Rename the column.",
    ),
    _code(
        "PQ406",
        "Ordered by a partition column",
        "All rows of a partition have the same value in its partition columns, so ordering by one does "
        "nothing.",
        "Remove the column from clustering.execution.columns.",
    ),
    _code(
        "PQ501",
        "Limits out of order",
        "One limit must not be above, or below, another one.",
        "Change one of the two limits that the message names.",
    ),
    _code(
        "PQ502",
        "Needs a record key",
        "upsert, delete and what goes with them find rows by their record key; this table declares none.",
        "Declare record_key, or use insert or bulk_insert.",
    ),
    _code(
        "PQ503",
        "Unknown strategy",
        "The strategy is neither built in nor an installed plug-in (entry points "
        "parquetry.plan_strategies and parquetry.execution_strategies).",
        "Mend the spelling, or install the plug-in where this command runs.",
    ),
    _code(
        "PQ504",
        "Settings exclude each other",
        "Only one of these settings can hold.",
        "Remove all but one.",
    ),
    _code(
        "PQ505",
        "No usable key",
        "Files are to be encrypted, and files.encryption_key is missing or refers to no key: a reference is "
        "the name of a client for keys (env, file, or a plug-in of the entry-point group "
        "parquetry.kms_clients), a colon, and what that client calls the key.",
        "Refer to a key, such as env:FLIGHTS_KEY. Never write the key itself.",
    ),
    _code(
        "PQ506",
        "Regular expression not usable",
        "The text is no regular expression of RE2, which has no back references and does not look ahead or "
        "behind.",
        "Mend the expression.",
    ),
    _code(
        "PQ601",
        "Not one SQL expression",
        "An SQL setting holds exactly one expression of Spark SQL, or exactly one SELECT for `select`; no "
        "statements, no semicolon, no ${...} substitution, brackets in pairs, nothing missing, nothing left "
        "over. Whether functions exist and take their arguments only Spark knows, when rows come.",
        "Split or mend the SQL.",
    ),
    _code(
        "PQ602",
        "SQL refused",
        "SQL of a spec computes with the rows it is given. A select reads `source` and what it names in "
        "WITH, an expression no relation at all. reflect, java_method, try_reflect, TRANSFORM ... USING and "
        "functions of a catalog run code of others; some functions open files. `run` holds Spark's parse "
        "against the same rules.",
        "Compute the value in the job that produces the source.",
    ),
    _code(
        "PQ603",
        "SQL names an unknown column",
        "The SQL names a column, or a field of a struct, that is not there. Columns are those of the table; "
        "of `delete_when` those that the source's `select` gives, where it names each. What columns a source "
        "has only Spark knows, when rows come.",
        "Mend the spelling, or declare the column.",
    ),
    _code(
        "PQ701",
        "Setting has no effect",
        "Another setting, or the lack of one, makes this one do nothing.",
        "Remove it, or change the other one.",
        warning=True,
    ),
    _code(
        "PQ702",
        "Two file sizes",
        "clustering.plan.target_file_size is below sizing.max_file_size: files that clustering writes "
        "will be smaller than those that ingestion fills.",
        "Make them equal, or accept the warning with an allow entry.",
        warning=True,
    ),
    _code(
        "PQ703",
        "Arrays and Hudi's own writers",
        "Arrays with null elements read everywhere, but a merge by Hudi itself fails on them unless that "
        "job sets spark.hadoop.parquet.avro.write-old-list-structure=false.",
        "Set it in Hudi jobs that write the table, or accept the warning with an allow entry.",
        warning=True,
    ),
    _code(
        "PQ704",
        "Text of this key depends on the writer",
        "Hudi's writers turn floating-point numbers and timestamps into key and partition texts in more "
        "than one way, so another writer may not find the rows.",
        "Use a string, integer or date column, or accept the warning with an allow entry.",
        warning=True,
    ),
    _code(
        "PQ705",
        "Partition values may nest",
        "With url_encode off a value that holds '/' makes folders inside folders, whose rows Hudi readers"
        " miss.",
        "Leave url_encode on, or make sure that no value holds '/'.",
        warning=True,
    ),
    _code(
        "PQ706",
        "Every run adds the rows again",
        "read: full reads all files again whenever one changes, and insert keeps what is there: rows will be"
        " there many times. A source that reads the table itself finds its own last commit at every run.",
        "Use read: new, operation: upsert or insert_overwrite_table; name another table's path.",
        warning=True,
    ),
    _code(
        "PQ707",
        "Type is widened in storage",
        "Avro, and so the table format, has no type for tinyint and smallint: they are stored, and read "
        "back, as int.",
        "Declare the column as int.",
        warning=True,
    ),
    _code(
        "PQ708",
        "Only parquetry reads encrypted files",
        "Base files are encrypted as a whole, footer included: hudi-rs cannot read such a table, nor can "
        "Hudi, its table services, or Spark's own reader without a client for the key in Java.",
        "Make sure that every reader and writer goes through parquetry, or accept the warning with an allow"
        " entry.",
        warning=True,
    ),
    _code(
        "PQ709",
        "Tests are not carried out",
        "Tests of a table are checked (their columns exist, their expressions are SQL) and recorded with it."
        " No command looks at rows or files for them yet: a run whose rows break them ends well.",
        "Check the rows where they come from until tests are carried out, or accept the warning with an allow"
        " entry.",
        warning=True,
    ),
    _code(
        "PQ710",
        "A key that changes its partition becomes two rows",
        "Record keys are unique within a partition (key_scope: partition), and the partition of a row does "
        "not follow from its key alone. An upsert that brings a key with another partition value inserts a "
        "row there and leaves the old one; a delete with another value deletes nothing.",
        "Set key_scope: table, by which upserts and deletes look into every partition and move the row; or "
        "add the partition columns to the record key; or accept the warning with an allow entry where the "
        "values of a key never change.",
        warning=True,
    ),
)

CODES: Mapping[str, Code] = {entry.code: entry for entry in _ALL}
