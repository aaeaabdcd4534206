"""What of Spark's words is written down: no secret, and no message where rows are personal."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from parquetry.runtime.spark_log import (
    NO_RULES,
    LogRules,
    add_rules,
    current_log,
    current_rules,
    log_pipe,
    open_log,
    without_messages,
)

ROW = "Zelda-Quux"
TRACE = f"""\
26/11/23 04:40:10 ERROR Executor: Exception in task 0.0 in stage 1.0 (TID 1): {ROW}
org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file a: {ROW}
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(QueryExecutionErrors.scala:856)
\tat java.base/java.lang.Thread.run(Thread.java:840)
\tat org.apache.spark.sql.catalyst.expressions.GeneratedClass$GeneratedIterator.next(Unknown Source)
\t... 15 more
Caused by: java.lang.NumberFormatException: For input string: "{ROW}"
  File "/x/worker.py", line 12, in main
    raise ValueError({ROW!r})
pyarrow.lib.ArrowInvalid: Could not convert {ROW!r}
ValueError: {ROW}
"""
SHOWN = """\
26/11/23 04:40:10 ERROR Executor: ***
org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] ***
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(QueryExecutionErrors.scala:856)
\tat java.base/java.lang.Thread.run(Thread.java:840)
\tat org.apache.spark.sql.catalyst.expressions.GeneratedClass$GeneratedIterator.next(Unknown Source)
\t... 15 more
Caused by: java.lang.NumberFormatException: ***
  File "/x/worker.py", line 12, in main
pyarrow.lib.ArrowInvalid: ***
ValueError: ***
"""


def test_classes_conditions_and_stacks_stay_and_messages_go():
    assert without_messages(TRACE) == SHOWN
    assert without_messages(SHOWN) == SHOWN


@pytest.mark.parametrize(
    "line",
    [
        f"{ROW}: x",
        f"{ROW}Error: x",
        f"at {ROW}.x(A.java:1)",
        f"\tat org.apache.x({ROW})",
        f"\tat org.apache.x({ROW}.java:1)",
        f"[CONDITION] {ROW}",
        f'{{"ts": "1", "msg": "{ROW}"}}',
        f"ERROR {ROW}",
        f"== SQL ==\n{ROW}\n^^^",
        f'  File "{ROW}',
    ],
)
def test_a_row_that_looks_like_a_line_of_a_log_does_not_pass(line):
    assert ROW not in without_messages(line)


def test_what_a_process_says_goes_through_the_rules_of_the_time(tmp_path):
    log = open_log(tmp_path / "run" / "spark.log", root=tmp_path)
    assert current_log() is None
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    with log_pipe(log, LogRules(secrets=frozenset({"hunter22"}))) as pipe:
        end = os.dup(pipe.end)
        subprocess.run(
            ["sh", "-c", f"echo {ROW} hunter22; printf 'ValueError: cut'"], stdout=pipe.end, check=True
        )
    pipe.drain()
    assert log.read_text() == f"{ROW} ***\n"
    add_rules(LogRules(personal=True))
    assert current_rules().personal
    os.write(end, b" here\n")
    os.write(end, f"{ROW}\nTypeError: {ROW}".encode())
    os.close(end)
    assert current_log() == log
    pipe.drain()
    assert log.read_text() == f"{ROW} ***\nValueError: ***\nTypeError: ***\n"


def test_a_pipe_that_has_ended_holds_no_file_open(tmp_path):
    before = set(os.listdir("/proc/self/fd"))
    for number in range(3):
        with log_pipe(tmp_path / f"{number}.log", NO_RULES) as pipe:
            subprocess.run(["echo", "x"], stdout=pipe.end, check=True)
        pipe.thread.join()
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_log_that_cannot_be_written_holds_nobody_up():
    with log_pipe(Path("/dev/full"), NO_RULES) as pipe:
        subprocess.run(["sh", "-c", "head -c 300000 /dev/zero"], stdout=pipe.end, check=True)
    pipe.drain()
