"""Extract the part of GitHub's OpenAPI description that `parquetry review` uses.

``npm pack @octokit/openapi@23.0.2``, unpack it, then ``python tools/github_description.py PACKAGE_FOLDER``.
The result is tests/support/github_api.json, without prose and examples. Tests check parquetry's requests and
a local forge's answers against it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parent.parent / "tests" / "support" / "github_api.json"
_REPOSITORY = "/repos/{owner}/{repo}"
OPERATIONS = {
    "/user": ("get",),
    _REPOSITORY: ("get",),
    f"{_REPOSITORY}/pulls": ("get",),
    f"{_REPOSITORY}/pulls/{{pull_number}}": ("get",),
    f"{_REPOSITORY}/pulls/{{pull_number}}/commits": ("get",),
    f"{_REPOSITORY}/pulls/{{pull_number}}/reviews": ("get",),
    f"{_REPOSITORY}/commits/{{commit_sha}}/pulls": ("get",),
    f"{_REPOSITORY}/commits/{{ref}}/statuses": ("get",),
    f"{_REPOSITORY}/statuses/{{sha}}": ("post",),
    f"{_REPOSITORY}/issues/{{issue_number}}/comments": ("get", "post"),
    f"{_REPOSITORY}/issues/{{issue_number}}/timeline": ("get",),
    f"{_REPOSITORY}/issues/comments/{{comment_id}}": ("patch", "delete"),
    f"{_REPOSITORY}/collaborators/{{username}}/permission": ("get",),
}
_PROSE = {"deprecated", "description", "example", "examples", "externalDocs", "summary", "tags", "title"}
_NAMED = {"headers", "parameters", "patternProperties", "properties", "responses", "schemas"}


def main() -> int:
    """Write the extracted part."""
    options = argparse.ArgumentParser()
    options.add_argument("package", type=Path, help="the unpacked package @octokit/openapi")
    package = options.parse_args().package
    about = json.loads((package / "package.json").read_text(encoding="utf-8"))
    whole = json.loads((package / "generated" / "api.github.com.json").read_text(encoding="utf-8"))
    origin = {key: about[key] for key in ("name", "version", "license")}
    origin["notice"] = " ".join((package / "LICENSE").read_text(encoding="utf-8").split())
    TARGET.write_text(text_of({"origin": origin, **used_part(whole)}), encoding="utf-8")
    return 0


def used_part(whole: dict[str, Any]) -> dict[str, Any]:
    """Return the used operations and all components that they refer to."""
    wanted: set[str] = set()
    paths = {
        path: {method: _without_prose(whole["paths"][path][method], wanted) for method in methods}
        for path, methods in OPERATIONS.items()
    }
    components: dict[str, dict[str, Any]] = {}
    done: set[str] = set()
    while wanted - done:
        reference = min(wanted - done)
        done.add(reference)
        kind, name = reference.split("/")[-2:]
        components.setdefault(kind, {})[name] = _without_prose(whole["components"][kind][name], wanted)
    return {"paths": paths, "components": {kind: components[kind] for kind in sorted(components)}}


def text_of(part: dict[str, Any]) -> str:
    """Return JSON with one line per operation and schema, so that an update is readable as a diff."""
    lines = [f'"origin": {json.dumps(part["origin"])}']
    lines.append(f'"paths": {{\n{_lines(part["paths"])}\n}}')
    kinds = (f"{json.dumps(kind)}: {{\n{_lines(named)}\n}}" for kind, named in part["components"].items())
    lines.append(f'"components": {{\n{",".join(kinds)}\n}}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _lines(named: dict[str, Any]) -> str:
    return ",\n".join(f"{json.dumps(name)}: {json.dumps(named[name])}" for name in sorted(named))


def _without_prose(node: Any, references: set[str], *, is_named: bool = False) -> Any:
    """Return a node without texts for people; add its references to ``references``."""
    if isinstance(node, list):
        return [_without_prose(item, references) for item in node]
    if not isinstance(node, dict):
        return node
    if isinstance(node.get("$ref"), str):
        references.add(node["$ref"])
        return {"$ref": node["$ref"]}
    return {
        key: _without_prose(value, references, is_named=key in _NAMED and not is_named)
        for key, value in node.items()
        if is_named or (key not in _PROSE and not key.startswith("x-"))
    }


if __name__ == "__main__":
    sys.exit(main())
