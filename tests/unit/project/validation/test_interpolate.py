from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest

from parquetry.project.validation.interpolate import (
    DeclaredVariables,
    Secret,
    TargetView,
    TemplateScope,
    TemplateSite,
    render,
)
from parquetry.project.validation.spec_file import rendered
from parquetry.project.validation.template_syntax import MAX_CHARACTERS_READ, TemplateProblem
from parquetry.project.yaml.document import MAX_BYTES, parse
from parquetry.text.secret_names import MASK

DECLARED = DeclaredVariables(names=frozenset({"HOME", "NONE", "BUCKET", "N"}))
SCOPE = TemplateScope(
    variables={"n": 10, "share": 0.5, "strict": True, "word": "Data"},
    target=TargetView(name="dev", warehouse="s3://bucket"),
    declared=DECLARED,
)


def evaluated(text, *, scope=SCOPE, site=TemplateSite.SPEC):
    return render(text, scope=scope, site=site).value


def with_environment(**environment):
    return TemplateScope(
        variables={}, target=TargetView(name="dev"), environment=environment, declared=DECLARED
    )


def refusal(text, *, scope=SCOPE, site=TemplateSite.SPEC):
    with pytest.raises(TemplateProblem) as caught:
        render(text, scope=scope, site=site)
    return caught.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{ var('n') }}", 10),
        ("{{ var('n') * 2 + 1 }}", 21),
        ("{{ -var('n') // 3 }}", -4),
        ("{{ var('share') }}", 0.5),
        ("{{ var('strict') }}", True),
        ("x{{ var('n') }}", "x10"),
        ("{{ var('n') }} ", "10 "),
        ("strict={{ var('strict') }}", "strict=true"),
        ("{{ var('word') | lower }}-{{ target.name }}", "data-dev"),
        ("{{ var('word') ~ '_' ~ var('n') }}", "Data_10"),
        ("{{ target.warehouse }}/x", "s3://bucket/x"),
        ("{{ var('none', 'other') }}", "other"),
        ("{{ 'a' if target.name == 'dev' else 'b' }}", "a"),
        ("{% if target.name in ('dev', 'test') %}small{% else %}big{% endif %}", "small"),
        ("{{ '7' | int }}", 7),
        ("{# nothing #}text", "text"),
        ("{% raw %}{ { }}{% endraw %}", "{ { }}"),
        ("a\n{{ var('n') }}\n", "a\n10\n"),
        ("{{ none }}", None),
    ],
)
def test_values(text, value):
    found = evaluated(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__ }}",
        "{{ ''['__class__'] }}",
        "{{ var.__globals__ }}",
        "{{ var('word').__class__ }}",
        "{{ var('word').format() }}",
        "{{ target.__init__ }}",
        "{{ target['name'] }}",
        "{{ self }}",
        "{{ self._TemplateReference__context }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ lipsum() }}",
        "{{ range(10) }}",
        "{{ dict(a=1) }}",
        "{{ namespace() }}",
        "{{ config }}",
        "{{ var(*['n']) }}",
        "{{ var(**{'name': 'n'}) }}",
        "{{ var(name='n') }}",
        "{{ var('n' ~ '') }}",
        "{{ var() }}",
        "{{ var('a', 'b', 'c') }}",
        "{{ env_var(var('word')) }}",
        "{{ 2 ** 99 }}",
        "{{ 'x' | center(100) }}",
        "{{ '%99999999s' | format('x') }}",
        "{{ 'x' | attr('upper') }}",
        "{{ [1] | map('upper') }}",
        "{{ {'a': 1} }}",
        "{{ 'abc'[0] }}",
        "{{ 99999999999999999999 }}",
        "{{ 1 is callable }}",
        "{% for x in (1, 2) %}{% endfor %}",
        "{% set x = 1 %}",
        "{% macro m() %}{% endmacro %}",
        "{% include 'x' %}",
        "{% import 'x' as y %}",
        "{% extends 'x' %}",
        "{% block x %}{% endblock %}",
        "{% filter upper %}x{% endfilter %}",
        "{% call var('n') %}{% endcall %}",
        "{% with %}{% endwith %}",
        "{% do 1 %}",
        "{{ unclosed",
        "{% if %}",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{{ " + "not " * 5000 + "1 }}",
        "{{ " + "-" * 200 + "1 }}",
    ],
)
def test_what_is_not_accepted(text):
    assert refusal(text).code == "PQ201"


@pytest.mark.parametrize(
    "text",
    [
        "{{ 'x' * 999999999 }}",
        "{{ 'x' + 'y' }}",
        "{{ '%099999999d' % 1 }}",
        "{{ 1 / 0 }}",
        "{{ 999999999999999999 * 999999999999999999 * 2 }}",
        "{{ true + 1 }}",
        "{{ (1, 2) }}",
        "{{ 'aaaaaaaaaaaaaaaaaaaa' " + "| replace('a', 'aaaaaaaaaaaaaaaaaaaa') " * 10 + "}}",
        "{{ '{' ~ '{ 1 }' ~ '}' }}",
        "{{ 1 < 'a' }}",
    ],
)
def test_what_has_no_value(text):
    assert refusal(text).code == "PQ206"


LONG = replace(SCOPE, variables={"x": "a" * 50_000, "y": "b" * 300, "z": "a" * 300})
LONGER = replace(SCOPE, variables=LONG.variables | {"x": "a" * 500_000})


@pytest.mark.parametrize(
    "text",
    [
        "{{ " + " ~ ".join(["var('x')"] * 100) + " }}",
        pytest.param("{{ var('x') }}" * 100, marks=pytest.mark.long),
        pytest.param("{{ " + " ~ ".join(["var('x') | upper"] * 100) + " }}", marks=pytest.mark.long),
        "{{ " + " ~ ".join(["var('z') | replace('a', var('y'))"] * 400) + " }}",
        "{{ " + " ~ ".join(["'aaaaa' | replace('a', '" + "b" * 1000 + "')"] * 300) + " }}",
        "{{ 1 if 'q' in var('x') }}" * 100,
    ],
)
def test_what_reads_long_variables_again_and_again_ends_in_bounded_memory(text):
    tracemalloc.start()
    try:
        problem = refusal(text, scope=LONGER)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (problem.code, "more than 1,000,000 characters together" in problem.summary) == ("PQ206", True)
    assert peak < 32 * MAX_CHARACTERS_READ


def test_templates_of_a_file_make_no_more_of_it_than_a_file_may_have():
    document = parse("tables/t.yml", ("tags:\n" + "- \"b{{ var('x') }}\"\n" * 900).encode())
    found = []
    value, unknown = rendered(
        document.root,
        source=document.source,
        reading=lambda _: (TemplateSite.SPEC, LONG),
        report=found.append,
    )
    assert [(one.code, one.line) for one in found] == [("PQ010", 22)]
    assert sum(map(len, value["tags"])) < 1.1 * MAX_BYTES
    assert len(unknown) == 900 - 21


def test_an_environment_variable_counts_as_a_variable_does():
    scope = with_environment(HOME="a" * 50_000)
    problem = refusal("{{ env_var('HOME') }}" * 100, scope=scope, site=TemplateSite.TARGET)
    assert "more than 1,000,000 characters together" in problem.summary


def test_unknown_variable_names_the_nearest():
    problem = refusal("{{ var('wrd') }}")
    assert (problem.code, problem.hint) == ("PQ202", "did you mean 'word'?")


def test_unreadable_variables_are_nobody_elses_fault():
    scope = TemplateScope(variables=None, target=TargetView(name="dev"))
    assert not render("{{ var('n') }}", scope=scope, site=TemplateSite.SPEC).known


def test_environment_only_under_targets():
    scope = with_environment(HOME="/root")
    assert refusal("{{ env_var('HOME') }}", scope=scope).code == "PQ203"
    assert refusal("{{ 'x' if true else env_var('HOME') }}", scope=scope).code == "PQ203"
    assert evaluated("{{ env_var('HOME') }}", scope=scope, site=TemplateSite.TARGET) == "/root"


def test_environment_variable_not_set():
    scope = with_environment()
    assert refusal("{{ env_var('NONE') }}", scope=scope, site=TemplateSite.TARGET).code == "PQ204"
    assert evaluated("{{ env_var('NONE', 'x') }}", scope=scope, site=TemplateSite.TARGET) == "x"
    assert evaluated("{{ 'a' if true else env_var('NONE') }}", scope=scope, site=TemplateSite.TARGET) == "a"


def test_without_environment_placeholders_stand():
    rendered = render("s3://{{ env_var('BUCKET') }}/x", scope=SCOPE, site=TemplateSite.TARGET)
    assert (rendered.value, rendered.known) == ("s3://${BUCKET}/x", False)
    rendered = render("{{ env_var('N', 5) }}", scope=SCOPE, site=TemplateSite.TARGET)
    assert (rendered.value, rendered.known) == (5, True)
    rendered = render("{{ env_var('N') * 2 }}", scope=SCOPE, site=TemplateSite.TARGET)
    assert (rendered.value, rendered.known) == ("{{ env_var('N') * 2 }}", False)


def test_secrets_only_where_credentials_are():
    scope = with_environment(PARQUETRY_SECRET_KEY="hunter2")
    for site in (TemplateSite.SPEC, TemplateSite.TARGET):
        assert refusal("{{ env_var('PARQUETRY_SECRET_KEY') }}", scope=scope, site=site).code in {
            "PQ203",
            "PQ205",
        }


def test_secrets_are_masked():
    scope = with_environment(PARQUETRY_SECRET_KEY="hunter2")
    text = "--key={{ env_var('PARQUETRY_SECRET_KEY') }};"
    secret = evaluated(text, scope=scope, site=TemplateSite.CREDENTIALS)
    assert isinstance(secret, Secret)
    assert str(secret) == f"--key={MASK};"
    assert "hunter2" not in repr(secret)
    assert "hunter2" not in f"{secret!s} {secret!r} {[secret]}"
    assert secret.reveal() == "--key=hunter2;"
    assert (secret.template, secret.names) == (text, ("PARQUETRY_SECRET_KEY",))


def test_a_secret_that_is_not_shown_masks_the_whole_text():
    scope = with_environment(PARQUETRY_SECRET_KEY="hunter2")
    text = "{% if env_var('PARQUETRY_SECRET_KEY') == 'hunter2' %}yes{% else %}no{% endif %}"
    secret = evaluated(text, scope=scope, site=TemplateSite.CREDENTIALS)
    assert (str(secret), secret.reveal()) == (MASK, "yes")


@pytest.mark.parametrize(
    "name",
    ["AWS_SECRET_ACCESS_KEY", "PATH", "PARQUETRY_LAKE_TOKEN", "PARQUETRY_SIGNING_KEY", "PARQUETRY_KEY_2025"],
)
def test_what_is_not_declared_is_read_for_credentials_alone_and_masked(name):
    scope = with_environment(**{name: "hunter2"})
    for text in (f"{{{{ env_var('{name}') }}}}", f"{{{{ env_var('{name}', 'x') }}}}"):
        problem = refusal(text, scope=scope, site=TemplateSite.TARGET)
        assert problem.code == "PQ210"
        assert problem.hint is not None
        assert problem.hint.startswith(
            "declare it" if name in {"PATH", "PARQUETRY_KEY_2025"} else "it has the name of a secret"
        )
        assert refusal(text, scope=replace(scope, environment=None), site=TemplateSite.TARGET).code == "PQ210"
        secret = evaluated(text, scope=scope, site=TemplateSite.CREDENTIALS)
        assert (str(secret), secret.reveal(), secret.names) == (MASK, "hunter2", (name,))
    assert evaluated("{{ env_var('UNSET', 'main') }}", scope=scope, site=TemplateSite.CREDENTIALS) == "main"


def test_short_values_are_masked_like_long_ones():
    secret = evaluated(
        "{{ env_var('PIN') }}0", scope=with_environment(PIN="7"), site=TemplateSite.CREDENTIALS
    )
    assert (str(secret), secret.reveal()) == ("***0", "70")


def test_what_is_declared_elsewhere_counts():
    declared = DeclaredVariables(names=frozenset({"LAKE"}), elsewhere="origin/main")
    scope = replace(with_environment(LAKE="l", PATH="p", PARQUETRY_ZONE="z"), declared=declared)
    assert evaluated("{{ env_var('LAKE') }}", scope=scope, site=TemplateSite.TARGET) == "l"
    assert evaluated("{{ env_var('PARQUETRY_ZONE') }}", scope=scope, site=TemplateSite.TARGET) == "z"
    problem = refusal("{{ env_var('PATH') }}", scope=scope, site=TemplateSite.TARGET)
    assert problem.code == "PQ210"
    assert "not declared at origin/main" in problem.summary
