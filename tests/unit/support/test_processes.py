"""How tests end processes: those of a session, and no other one that has got a number of theirs since."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from tests.support.processes import die_with_parent, in_session, kill_session
from tests.support.repository import ROOT

WITH_A_THREAD = """
import subprocess, sys, threading, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
thread = threading.Thread(target=time.sleep, args=(60,), daemon=True)
thread.start()
print(thread.native_id, child.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def process():
    """A process that leads a session, with a thread and a child, and their numbers."""
    with subprocess.Popen(
        [sys.executable, "-c", WITH_A_THREAD],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=die_with_parent,
    ) as leader:
        thread, child = map(int, leader.stdout.readline().split())
        yield leader, thread, child
        kill_session(leader.pid)


def test_a_thread_that_got_the_number_of_a_process_that_ended(process):
    leader, thread, _ = process
    kill_session(thread)
    with pytest.raises(subprocess.TimeoutExpired):
        leader.wait(timeout=0.2)


def test_a_session_ends_with_all_that_belongs_to_it(process):
    leader, _, child = process
    assert {*in_session(leader.pid)} == {leader.pid, child}
    kill_session(leader.pid)
    assert leader.wait(timeout=60) == -signal.SIGKILL
    while child in in_session(leader.pid):  # until whoever took it over has noticed its end
        time.sleep(0.01)


def test_who_ends_its_own_session_ends_last():
    """A writer that a fault stops leads its session, and the JVM that it started would outlive it."""
    ending = "import os, subprocess; from tests.support.processes import kill_session; "
    ending += (
        "child = subprocess.Popen(['sleep', '60']); print(child.pid, flush=True); kill_session(os.getpid())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", ending], stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True
    ) as own:
        child = int(own.stdout.readline())
        assert own.wait(timeout=60) == -signal.SIGKILL
    while child in in_session(own.pid):  # until whoever took it over has noticed its end
        time.sleep(0.01)
