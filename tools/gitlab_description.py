"""Extract the parts of GitLab that tests need: tests/support/gitlab_api.json and gitlab_ci_schema.json.

The first is the part of the API that `parquetry review` uses, taken from GitLab's own client in Go. The
second is GitLab's JSON Schema of pipelines without prose, as the Python package check-jsonschema ships it.

``go mod download -json gitlab.com/gitlab-org/api/client-go/v2@v2.64.0``, then ``pip download --no-deps
check-jsonschema==0.39.0``, unpack it, then ``python tools/gitlab_description.py MODULE PACKAGE`` with both
folders. Methods, paths, parameters and the fields of answers are those of the client. Tests check parquetry's
requests and a local forge's answers against them. The client does not declare which fields may be null, so
any of them may be.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

SUPPORT = Path(__file__).resolve().parent.parent / "tests" / "support"
SCHEMA = Path("check_jsonschema") / "builtin_schemas" / "vendor" / "gitlab-ci.json"
MODULE = "gitlab.com/gitlab-org/api/client-go/v2"
CALLS = (
    "UsersService.CurrentUser",
    "UsersService.GetUser",
    "UsersService.ListUsers",
    "ProjectsService.GetProject",
    "ProjectMembersService.GetInheritedProjectMember",
    "MergeRequestsService.ListProjectMergeRequests",
    "MergeRequestsService.GetMergeRequest",
    "MergeRequestsService.GetMergeRequestReviewers",
    "MergeRequestsService.GetMergeRequestDiffVersions",
    "MergeRequestApprovalsService.GetConfiguration",
    "CommitsService.ListMergeRequestsByCommit",
    "CommitsService.GetCommitStatuses",
    "CommitsService.SetCommitStatus",
    "NotesService.ListMergeRequestNotes",
    "NotesService.CreateMergeRequestNote",
    "NotesService.UpdateMergeRequestNote",
    "NotesService.DeleteMergeRequestNote",
)
_DEEPEST = 2
"""The nesting of objects in an answer down to which their fields are described."""

_PLAIN = {"string": "string", "bool": "boolean", "int": "integer", "int64": "integer", "float64": "number"}
_FIELD = re.compile(r"^\t(?:(?P<name>\w+)\s+)?(?P<type>[\w.*\[\]]+)(?:\s+`(?P<tags>.*)`)?$", re.MULTILINE)


def main() -> int:
    """Write the extracted parts."""
    options = argparse.ArgumentParser()
    options.add_argument("module", type=Path, help=f"the folder of {MODULE}")
    options.add_argument("package", type=Path, help="the unpacked package check-jsonschema")
    given = options.parse_args()
    folder = given.module
    schema = json.loads((given.package / SCHEMA).read_text(encoding="utf-8"))
    origin = {"name": "check-jsonschema", "version": "0.39.0", "license": "MIT, GitLab B.V."}
    written = json.dumps({"origin": origin, "schema": without_prose(schema)})
    (SUPPORT / "gitlab_ci_schema.json").write_text(f"{written}\n", encoding="utf-8")
    sources = [path for path in sorted(folder.glob("*.go")) if not path.stem.endswith("_test")]
    source = Source("\n".join(path.read_text(encoding="utf-8") for path in sources))
    version = folder.name.rpartition("@")[2]
    origin = {"name": MODULE, "version": version, "license": "Apache-2.0"}
    described = dict(source.operation(call) for call in CALLS)
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(described[name])}" for name in sorted(described))
    text = f'{{\n"origin": {json.dumps(origin)},\n"operations": {{\n{lines}\n}}\n}}\n'
    (SUPPORT / "gitlab_api.json").write_text(text, encoding="utf-8")
    return 0


def without_prose(node: Any, *, is_named: bool = False) -> Any:
    """Return a schema without texts for people; names of properties are kept."""
    if isinstance(node, list):
        return [without_prose(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: without_prose(value, is_named=key in ("properties", "definitions") and not is_named)
        for key, value in node.items()
        if is_named or key not in ("description", "markdownDescription", "examples", "title")
    }


class Source:
    """The source text of the client."""

    def __init__(self, text: str) -> None:
        """Find the routes in the text."""
        self._text = text
        self._routes = dict(re.findall(r'^\t(route\w+)\s*=\s*route\("([^"]+)"\)', text, re.MULTILINE))

    def operation(self, call: str) -> tuple[str, dict[str, Any]]:
        """Return the method and path of a call, with its parameters and the schema of its answer."""
        service, name = call.split(".")
        pattern = rf"^func \(s \*{service}\) {name}\((.*?)\) \((.*?)\) {{\n(.*?)^}}"
        found = re.search(pattern, self._text, re.MULTILINE | re.DOTALL)
        if found is None:
            raise LookupError(call)
        arguments, results, body = found.groups()
        route = re.search(r"withPath\((\w+)", body)
        method = re.search(r"withMethod\(http\.Method(\w+)\)", body)
        options = re.search(r"opt \*?(\w+)", arguments)
        answer = results.split(",")[0].strip()
        if route is None:
            raise LookupError(call)
        verb = method[1].upper() if method else "GET"
        path = "/" + re.sub(r"%[sd]", "{}", self._routes[route[1]])
        return f"{verb} {path}", {
            "parameters": self._fields(options[1], "url") if options else {},
            "answer": None if answer == "*Response" else self._schema(answer, ()),
        }

    def _fields(self, struct: str, tag: str, above: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return the schemas of a struct's fields by the names in their tags."""
        found = re.search(rf"^type {struct} struct {{\n(.*?)^}}", self._text, re.MULTILINE | re.DOTALL)
        same = re.search(rf"^type {struct} (?:= )?(\w+)$", self._text, re.MULTILINE)
        if found is None:
            return self._fields(same[1], tag, above) if same else {}
        fields: dict[str, Any] = {}
        for field in _FIELD.finditer(found[1]):
            named = re.search(rf'{tag}:"([^",]+)', field["tags"] or "")
            if named:
                fields[named[1]] = self._schema(field["type"], (*above, struct))
            elif field["name"] is None:
                fields |= self._fields(field["type"].lstrip("*"), tag, above)
        return fields

    def _schema(self, kind: str, above: tuple[str, ...]) -> dict[str, Any]:
        kind = kind.lstrip("*")
        if kind.startswith("[]"):
            return {"type": ["array", "null"], "items": self._schema(kind[2:], above)}
        if kind in _PLAIN:
            return {"type": [_PLAIN[kind], "null"]}
        if kind == "time.Time":
            return {"type": ["string", "null"], "format": "date-time"}
        fields = self._fields(kind, "json", above) if len(above) < _DEEPEST else {}
        if not fields:
            return {}
        return {"type": ["object", "null"], "properties": fields, "additionalProperties": False}


if __name__ == "__main__":
    sys.exit(main())
