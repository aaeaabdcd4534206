"""What benchmarks measure of a process tree."""

import subprocess
import sys

from benchmarks.measure import measured

BURNED_SECONDS = 1.5

# Spark's daemon of Python workers is such a parent: it ignores how they end.
PARENT = f"""
import os, signal, sys, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
sys.stdin.readline()
worker = os.fork()
if not worker:
    while time.process_time() < {BURNED_SECONDS}:
        pass
    os._exit(0)
while True:
    try:
        os.kill(worker, 0)
    except ProcessLookupError:
        break
    time.sleep(0.05)
print("gone", flush=True)
sys.stdin.readline()
"""


def test_the_time_of_a_worker_that_is_gone_counts():
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin
        assert parent.stdout
        with measured(parent.pid) as cost:
            parent.stdin.write("go\n")
            parent.stdin.flush()
            assert parent.stdout.readline() == "gone\n"
        parent.stdin.write("end\n")
        parent.stdin.close()
    assert cost.cpu_seconds > BURNED_SECONDS / 2
    assert cost.jvm_cpu_seconds == 0
    assert cost.driver_cpu_seconds < cost.cpu_seconds
    assert cost.worker_rss_bytes > 0
