"""Find Java 17 or newer; with --install, install Debian's package if run as root."""

import os
import re
import shutil
import subprocess
import sys

PACKAGE = "openjdk-17-jre-headless"
MINIMUM = 17


def find_java():
    """Return the path and major version of the Java that Spark would start, or (None, 0)."""
    home = os.environ.get("JAVA_HOME")
    path = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if not path or not os.path.exists(path):
        return None, 0
    text = subprocess.run([path, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if not match:
        return path, 0
    major = int(match.group(1))
    return path, int(match.group(2)) if major == 1 and match.group(2) else major


def install():
    """Install Debian's package and return the exit code; without root, print the command and return 1."""
    command = ["apt-get", "install", "-y", "--no-install-recommends", PACKAGE]
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        print(f"Install Java {MINIMUM} first, for example: sudo apt-get update && sudo {' '.join(command)}")
        return 1
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], check=False, env=environment)
    return subprocess.run(command, check=False, env=environment).returncode


def main():
    """Return 0 if a suitable Java is found or was installed."""
    path, major = find_java()
    if major >= MINIMUM:
        return 0
    found = f"{path} is Java {major}" if path else "no java on the path and JAVA_HOME is not set"
    print(f"Spark needs Java {MINIMUM} or newer: {found}.")
    if "--install" in sys.argv[1:] and not os.environ.get("JAVA_HOME"):
        return install()
    print(f"Install it with: apt-get install {PACKAGE}, or point JAVA_HOME at it.")
    return 1


if __name__ == "__main__":
    sys.exit(main())
