"""The diagnostic codes with title, explanation and remedy, which the reference page on diagnostics shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A kind of diagnostic. If ``warning`` is True, it never stops a command."""

    code: str
    title: str
    explanation: str
    remedy: str
    warning: bool


def _code(code: str, title: str, explanation: str, remedy: str, *, warning: bool = False) -> Code:
    """Make an entry of the registry; the positional order is the order of reading."""
    return Code(code=code, title=title, explanation=explanation, remedy=remedy, warning=warning)


_ALL = (
    _code(
        "PQ001",
        "No project file",
        "A project is a folder with a file parquetry.yml. This folder has none.",
        "Run the command in the project's folder, or name it with --project.",
    ),
    _code(
        "PQ002",
        "Not YAML",
        "The file cannot be parsed. Usual reasons are a tab in the indentation, an unclosed quote or "
        "bracket, and an unquoted string that begins with one of { [ * & ! % @.",
        "Correct the line in the message, or the one before it; indent with spaces.",
    ),
    _code(
        "PQ003",
        "Not text",
        "Project files are UTF-8 text. They contain no control characters and no characters that reverse "
        "the writing direction, and every editor shows their line breaks (LF, or CR and LF). A byte order "
        "mark at the start is accepted.",
        "Save the file as UTF-8, and remove the character in the message.",
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
        "Write the keys out, or move the shared ones into a policy or into the project's defaults.",
    ),
    _code(
        "PQ006",
        "Key is not a string",
        "Every key of a mapping is a string. A number, true, false, null, a list or a mapping is a string "
        "only in quotes.",
        "Put the key in quotes.",
    ),
    _code(
        "PQ007",
        "Explicit tag",
        "Tags such as `!!python/object` or `!!str` are not accepted, because the schema already "
        "determines the type of a value.",
        "Remove the tag; put the value in quotes if it is meant as a string.",
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
        "The file contains no value. An empty spec is nearly always a file that was not saved.",
        "Declare something in it, or delete the file.",
    ),
    _code(
        "PQ010",
        "File too large",
        "A project file has at most 1 MiB, 50,000 values (aliases count as often as they are used), 32 "
        "levels and 100 aliases. It has at most 1,000 templates, which make at most 1,048,576 characters of "
        "it. So no file can make a command hang.",
        "Split the file, or write out what the aliases repeat.",
    ),
    _code(
        "PQ011",
        "Path leaves its folder",
        "Files of a project are in its folder, and relative paths stay inside the folder they start from. "
        "Symbolic links that lead out, and links to folders, are not followed.",
        "Copy the file into the project, or write an absolute path if the data is elsewhere.",
    ),
    _code(
        "PQ012",
        "File is not read",
        "Tables are files tables/**/NAME.yml, policies are files policies/NAME.yml, and guardrails are files "
        "guardrails/NAME.yml; this YAML file is none of them.",
        "Rename or move the file.",
    ),
    _code(
        "PQ013",
        "File cannot be read",
        "The operating system refused to open the file.",
        "Give this user the permission to read it.",
    ),
    _code(
        "PQ014",
        "Not a usable number",
        "Numbers are finite and have at most 18 digits.",
        "Write a smaller number, or quote the value if it is meant as a string.",
    ),
    _code(
        "PQ015",
        "Findings left out",
        "The file breaks its schema in very many places. Only the first ones are shown.",
        "Correct these; then the others are shown.",
    ),
    _code(
        "PQ016",
        "No canonical form",
        "The file is valid YAML, but `fmt` cannot rewrite it without changing its meaning. The usual "
        "reason is a key that spans several lines. The file was left as it is.",
        "Write each key as `key: value` on a line of its own.",
    ),
    _code(
        "PQ017",
        "Invisible character",
        "A name, a location or a setting contains a control character, a line break or another invisible "
        "character, from an escape or a variable. Reviewers would not see what is declared. Texts for "
        "people and SQL may contain line breaks and tabs; options of readers may contain any ASCII "
        "character.",
        "Remove the character; use `>-` to fold a text of several lines into one.",
    ),
    _code(
        "PQ101",
        "Missing key",
        "The mapping lacks a required key.",
        "Add the key; the reference of the specification lists its possible values.",
    ),
    _code(
        "PQ102",
        "Unknown key",
        "The mapping has a key that has no meaning here. Unknown keys are errors, because a misspelt "
        "setting would otherwise silently have no effect.",
        "Correct the spelling, or remove the key.",
    ),
    _code(
        "PQ103",
        "Wrong kind of value",
        "The value does not have the type or the form that the key needs. Only true and false are "
        "booleans: yes, no, on and off are strings, as in YAML 1.2.",
        "Write a value of the form in the message.",
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
        "The value, or the number of entries, is too small or too large for the key, or the list contains "
        "an entry twice.",
        "Stay inside the limit in the message.",
    ),
    _code(
        "PQ106",
        "Size without a unit",
        "A bare number does not say whether it means bytes, kilobytes or megabytes.",
        "Write a unit: MiB and GiB are powers of two, MB and GB powers of ten, B is bytes. Only 0 needs "
        "none.",
    ),
    _code(
        "PQ107",
        "Guardrail that cannot be evaluated",
        "The text is no CEL expression, reads a variable or calls a function that does not exist, or could "
        "take too long: at most two macros may nest, and at most eight `+` are accepted. Texts are in single "
        "or double quotes on one line, and comments belong to YAML.",
        "Correct the expression, and try it with `guardrails test`.",
    ),
    _code(
        "PQ201",
        "Template not accepted",
        "Templates are single Jinja expressions and conditions over var, env_var and target. Loops, "
        "assignments, method calls, includes and unknown filters are refused.",
        "Write the value out, or compute it before you pass it with --var.",
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
        "env_var is accepted only under targets. So specs mean the same for everybody, and `validate` "
        "needs no environment.",
        "Declare a variable under vars, and read that.",
    ),
    _code(
        "PQ204",
        "Environment variable not set",
        "The chosen target reads an environment variable that is not set.",
        "Set the variable before you run the command.",
    ),
    _code(
        "PQ205",
        "Secret in the wrong place",
        "Environment variables whose names begin with PARQUETRY_SECRET_ may be read only under spark and "
        "storage of a target, where they are printed as ***. They cannot be part of an address, because "
        "they would be sent there, or of a command line, where every user of the machine could read them.",
        "Move the value to an option for credentials, or rename the variable if it is not a secret.",
    ),
    _code(
        "PQ206",
        "Template gives no value",
        "The template is valid, but its evaluation failed, or its result is not a value for a spec.",
        "Check the types of the variables it reads.",
    ),
    _code(
        "PQ207",
        "Variable given with another type",
        "--var, or the vars of a target, set a variable to a value of another type than the declared one.",
        "Set it to a value of that type, or declare it with another type under vars in parquetry.yml.",
    ),
    _code(
        "PQ208",
        "Template where none is evaluated",
        "Names, kinds and the values of vars are not evaluated.",
        "Write the value out.",
    ),
    _code(
        "PQ209",
        "Variable without a value at a target",
        "The vars of one target set a variable, but those of another target and of the project do not. "
        "Templates that read it cannot be computed there.",
        "Correct the spelling, or declare it under vars of the project.",
    ),
    _code(
        "PQ210",
        "Environment variable not declared",
        "A template would print, record or connect to the value of an environment variable that is not "
        "listed under `environment` in parquetry.yml. Such variables may be read for credentials only "
        "(key, secret, token, password, and Spark properties that are not addresses), and are printed as "
        "***. `plan --untrusted` reads only those that the base declares.",
        "List it under `environment` if it is not a secret. PARQUETRY_* needs no entry.",
    ),
    _code(
        "PQ211",
        "Secret declared as public",
        "The values of variables that `environment` lists are printed, and this one has the name of a "
        "secret.",
        "Remove it from the list, and read it under storage or spark; or rename it if it is not a secret.",
    ),
    _code(
        "PQ301",
        "Name used twice",
        "Two tables, or two policies, or two columns, sources or queries of a table have the same name. "
        "Upper and lower case count as the same, because catalogs and some file systems do not "
        "distinguish them.",
        "Rename one of them.",
    ),
    _code(
        "PQ302",
        "Name differs from the file's",
        "The file name and the name inside the file differ, so a search for one of them misses the other.",
        "Rename the file or its contents.",
        warning=True,
    ),
    _code(
        "PQ303",
        "Two tables at one location",
        "Two tables share a folder, or one is inside the other's folder: each would destroy the other.",
        "Give one of them another location.",
    ),
    _code(
        "PQ304",
        "Unknown policy",
        "The table names a policy that no file in policies/ declares.",
        "Correct the spelling, or add the file.",
    ),
    _code(
        "PQ305",
        "Unknown target",
        "parquetry.yml does not declare the target, or it declares several and none was chosen.",
        "Choose one with --target, or set default_target.",
    ),
    _code(
        "PQ306",
        "Storage not supported",
        "Tables and sources must be in local folders, in S3 (s3:// or s3a://) or in Google Cloud Storage "
        "(gs://).",
        "Use one of these.",
    ),
    _code(
        "PQ307",
        "Avro schema not usable",
        "The Avro schema file of the columns is missing, is not a record, or contains a type that tables "
        "cannot hold.",
        "Correct the schema, or list the columns in the spec.",
    ),
    _code(
        "PQ308",
        "Names no table",
        "A protect or allow entry, or a priority of operations, matches no table of this project.",
        "Correct the spelling, or remove the entry.",
        warning=True,
    ),
    _code(
        "PQ309",
        "Allow entry without use",
        "The entry accepts a warning that no longer occurs.",
        "Remove the entry.",
        warning=True,
    ),
    _code(
        "PQ310",
        "One location for several targets",
        "The location is the same folder at every target. A table is applied for one target: `plan` "
        "refuses it at the others (SC504), because each apply would restore the other target's settings.",
        "Give the location by target (`location: {dev: /lake/orders}`; an omitted target uses the "
        "default), or make it relative to the warehouse.",
        warning=True,
    ),
    _code(
        "PQ311",
        "Unknown query",
        "A test names a query that the table does not declare under `queries`.",
        "Correct the spelling, or declare the query.",
    ),
    _code(
        "PQ312",
        "Unknown guardrail",
        "An entry of allow names a guardrail that is not in guardrails/.",
        "Correct the spelling, or remove the entry.",
    ),
    _code(
        "PQ313",
        "Unknown catalog",
        "A table names a catalog that its target does not have, a catalog without a database, or a database "
        "without a catalog.",
        "Correct the spelling, declare the catalog under `catalogs` of the target, or name both. To register "
        "tables at one target alone, name both there: `targets: {prod: {catalog: lake, database: shop}}`.",
    ),
    _code(
        "PQ314",
        "Option of another type of catalog",
        "A catalog has an option that its type does not have, or lacks one that its type needs, or the "
        "address of a Hive Metastore has another form.",
        "Correct the type or the address, remove the option, or add it.",
    ),
    _code(
        "PQ315",
        "Secret of a catalog",
        "An option of a catalog contains a token or a password. Applied specs and plans would hold it.",
        "Put the value of the option into an environment variable, and write env:NAME. Revoke the secret.",
    ),
    _code(
        "PQ316",
        "Unusable window",
        "The `operations.window` of a target has a time that does not exist, two equal times, or a time zone "
        "that is not in the IANA database.",
        "Write two times of the clock and a zone, such as `01:00-05:00 Europe/Rome`. Where the system has no "
        "time zones, install the package tzdata.",
    ),
    _code(
        "PQ317",
        "Cooldown beyond the maximum delay",
        "The `operations.cooldown` of a target is not shorter than its `max_delay`.",
        "Shorten cooldown, or raise max_delay.",
    ),
    _code(
        "PQ401",
        "Unknown column",
        "A setting names a column that the table does not have. Fields of a struct are written with a dot.",
        "Correct the spelling, or declare the column.",
    ),
    _code(
        "PQ402",
        "Key column may be null",
        "A row whose record key is null cannot be found again, so writing it is an error.",
        "Declare the column with nullable: false.",
    ),
    _code(
        "PQ403",
        "Type not understood",
        "The type is misspelt, or is not a Spark SQL type that a Hudi table can hold.",
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
        "Names that begin with _hoodie_ belong to the table format. Only _hoodie_is_deleted (boolean) may "
        "be declared. Writes use __bucket, __delete, __file, __generated_wrong, __hash, __ordering, "
        "__origin, __partition, __position and __ref internally.",
        "Rename the column.",
    ),
    _code(
        "PQ406",
        "Ordered by a partition column",
        "All rows of a partition have the same value in its partition columns, so sorting by one has no "
        "effect.",
        "Remove the column from clustering.execution.columns.",
    ),
    _code(
        "PQ501",
        "Limits out of order",
        "One limit is above or below another one, which is not allowed.",
        "Change one of the two limits in the message.",
    ),
    _code(
        "PQ502",
        "Needs a record key",
        "upsert, delete and the settings that belong to them find rows by their record key. This table "
        "declares none.",
        "Declare record_key, or use insert or bulk_insert.",
    ),
    _code(
        "PQ503",
        "Unknown strategy",
        "The strategy is neither built in nor an installed plug-in (entry points "
        "parquetry.plan_strategies and parquetry.execution_strategies).",
        "Correct the spelling, or install the plug-in where this command runs.",
    ),
    _code(
        "PQ504",
        "Settings exclude each other",
        "Only one of these settings can apply.",
        "Remove all but one.",
    ),
    _code(
        "PQ505",
        "No usable key",
        "Files are to be encrypted, but files.encryption_key is missing, or a setting does not refer to a "
        "key. A reference consists of the name of a key client (env, file, or a plug-in of the entry-point "
        "group parquetry.kms_clients), a colon, and the client's name of the key.",
        "Refer to a key, such as env:FLIGHTS_KEY. Never write the key itself.",
    ),
    _code(
        "PQ506",
        "Regular expression not usable",
        "The text is not a regular expression of RE2. RE2 has no back references, no lookahead and no "
        "lookbehind.",
        "Correct the expression.",
    ),
    _code(
        "PQ507",
        "Reader option not usable",
        "Each format has a list of options for its reader, with the form of their values. Spark hands "
        "options that it does not know on to Hadoop, so others are refused.",
        "Correct the spelling or the value, or remove the option.",
    ),
    _code(
        "PQ508",
        "Not publishable",
        "A format below `publish` cannot show the table: readers of Delta and Iceberg tables know no key of "
        "encrypted files, and a table in a catalog needs a name that the catalog can hold and that is not "
        "the name of the Hudi table there.",
        "Remove the format, or what it cannot show; name the catalog and the table.",
    ),
    _code(
        "PQ509",
        "No days to keep partitions by",
        "retention.partitions deletes partitions by the day in a partition column: a date, a timestamp, a "
        "number as yyyymmdd, or a text as yyyy-mm-dd. It keeps them for whole days, at least one.",
        "Name a partition column of such a type, and keep whole days, at least 1d.",
    ),
    _code(
        "PQ601",
        "Not one SQL expression",
        "An SQL setting is exactly one expression of Spark SQL, or exactly one SELECT for `select`. It "
        "contains no statements, no semicolon, no parameters and no ${...} substitution, and its brackets "
        "and quotes are in pairs. Only Spark knows whether functions exist and accept their arguments, when "
        "rows are read.",
        "Split or correct the SQL.",
    ),
    _code(
        "PQ602",
        "SQL refused",
        "SQL in a spec computes with the rows it is given. A select reads `source` and what it defines in "
        "WITH; an expression reads no relation. reflect, java_method, try_reflect, TRANSFORM ... USING "
        "and functions of a catalog run other people's code, some functions open files, and xpath fetches "
        "what an XML text names. `run` checks Spark's parse by the same rules, and refuses any function "
        "that is not on the list of Spark's own.",
        "Compute the value in the job that produces the source.",
    ),
    _code(
        "PQ603",
        "SQL names an unknown column",
        "The SQL names a column, or a field of a struct, that does not exist. Columns are those of the "
        "table; for `delete_when`, those that the source's `select` returns, if it names each. Only Spark "
        "knows which columns a source has, when rows are read.",
        "Correct the spelling, or declare the column.",
    ),
    _code(
        "PQ701",
        "Setting has no effect",
        "Another setting, or a missing one, makes this one ineffective.",
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
        "Every reader reads arrays with null elements. But a merge by Hudi itself fails on them, unless "
        "that job sets spark.hadoop.parquet.avro.write-old-list-structure=false.",
        "Set it in Hudi jobs that write the table, or accept the warning with an allow entry.",
        warning=True,
    ),
    _code(
        "PQ704",
        "Text of this key depends on the writer",
        "Hudi's writers convert floating-point numbers and timestamps to key and partition strings in "
        "more than one way, so another writer may not find the rows.",
        "Use a string, integer or date column, or accept the warning with an allow entry.",
        warning=True,
    ),
    _code(
        "PQ705",
        "Partition values may nest",
        "Without url_encode, a value that contains '/' creates nested folders, and Hudi readers miss "
        "their rows.",
        "Leave url_encode on, or make sure that no value contains '/'.",
        warning=True,
    ),
    _code(
        "PQ706",
        "Every run adds the rows again",
        "read: full reads all files again whenever one changes, and insert keeps the existing rows: the "
        "table will contain rows many times. A source that reads the table itself finds its own last "
        "commit in every run.",
        "Use read: new, operation: upsert or insert_overwrite_table; use another table's path.",
        warning=True,
    ),
    _code(
        "PQ707",
        "Type is widened in storage",
        "Avro, and so the table format, has no type for tinyint and smallint. They are stored, and read "
        "back, as int.",
        "Declare the column as int.",
        warning=True,
    ),
    _code(
        "PQ708",
        "Only parquetry reads encrypted files",
        "Base files are encrypted as a whole, including the footer. hudi-rs, Hudi and its table services "
        "cannot read such a table, nor can Spark's own reader without a Java client for the key.",
        "Make sure that every reader and writer goes through parquetry, or accept the warning with an allow"
        " entry.",
        warning=True,
    ),
    _code(
        "PQ709",
        "Rows of a query have no order",
        "Rows of files arrive in an order, and the last one of a key counts. Rows of a select and of a Hudi "
        "table have none: if two of one batch have the same key and differ, and the table has no ordering, "
        "the write is refused.",
        "Declare an ordering column, let the query give one row per key, or declare ties: any.",
        warning=True,
    ),
    _code(
        "PQ710",
        "A key that changes its partition becomes two rows",
        "Record keys are unique within a partition (key_scope: partition), and the key of a row does not "
        "determine its partition. If an upsert brings a key with another partition value, it inserts a "
        "row there and leaves the old one. A delete with another value deletes nothing.",
        "Set key_scope: table: upserts and deletes then look into every partition and move the row. Or "
        "add the partition columns to the record key. If the partition of a key never changes, accept the "
        "warning with an allow entry.",
        warning=True,
    ),
    _code(
        "PQ711",
        "Spark has no reader of the format",
        "Spark reads Avro files with a package that it does not include, and the target names none. Packages "
        "are code, so none is added by itself.",
        "List the package in the message under spark.packages of the target; the plan then shows the allow "
        "entry that it needs. If your Spark has the package already, accept the warning with an allow entry.",
        warning=True,
    ),
    _code(
        "PQ712",
        "SQL that cannot be parsed without Spark",
        "sqlglot, which parses SQL here, refuses the text. It knows most of Spark's syntax, but not all of "
        "it, so this is a warning. Spark parses the SQL before `run` reads rows, and what it refuses fails "
        "there. The columns that the text names are not checked.",
        "Correct the SQL. If Spark accepts it, write it in another way, or accept the warning with an allow "
        "entry.",
        warning=True,
    ),
    _code(
        "PQ713",
        "A declared reader returns wrong rows",
        "One of the `readers` of the table returns rows twice or other values with this setting. The matrix "
        "of readers shows what each reader made of each kind of table in a run.",
        "Change the setting as the message says, choose another reader, or accept the warning with an allow "
        "entry.",
        warning=True,
    ),
    _code(
        "PQ714",
        "A declared reader cannot read the table",
        "One of the `readers` of the table refuses tables with this setting, by the matrix of readers or by "
        "its own documentation.",
        "Change the setting as the message says, choose another reader, or accept the warning with an allow "
        "entry.",
        warning=True,
    ),
)

CODES: Mapping[str, Code] = {entry.code: entry for entry in _ALL}
