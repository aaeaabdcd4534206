"""The example in docs/how-to/costs.md: its arithmetic by hand, and the code's answer to the cent."""

from __future__ import annotations

import ast
import operator
import re
from fractions import Fraction

import pytest
import yaml

from parquetry.compiler.evidence.money import CostForecast, PlanPrices, QueryScan, table_costs
from parquetry.compiler.reports.costs import cost_lines
from parquetry.project.model.prices import Prices
from parquetry.runtime.clustering.forecast.intervals import PredictionInterval
from parquetry.runtime.clustering.forecast.work import WorkBasis, WorkForecast
from tests.support.repository import ROOT

PAGE = (ROOT / "docs" / "how-to" / "costs.md").read_text(encoding="utf-8")
GIB = 2**30
HOUR = 3_600_000
CALCULATIONS = re.findall(r"(?<=\| )([^|=`]*\d[^|=`]*) = (-?[\d.]+)(?= \|)", PAGE)
OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def of(low, high):
    return PredictionInterval(low=low, high=high)


def value(node: ast.expr, text: str) -> Fraction:
    if isinstance(node, ast.Constant):
        return Fraction(ast.get_source_segment(text, node))
    assert isinstance(node, ast.BinOp)
    return OPERATORS[type(node.op)](value(node.left, text), value(node.right, text))


def prices() -> PlanPrices:
    block = re.search(r"^```yaml fragment\n# parquetry.yml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return PlanPrices.of(Prices.of(yaml.safe_load(block[1])["targets"]["prod"]["prices"]))


def costs():
    forecast = CostForecast(
        work=WorkForecast(
            read_bytes=512 * GIB,
            written_bytes=of(460 * GIB, 500 * GIB),
            core_milliseconds=of(20 * HOUR, 45 * HOUR),
            read_requests=of(70_000, 280_000),
            write_requests=of(17_000, 72_000),
            basis=WorkBasis(past_bytes=3, past_throughputs=3, throughput=8 * 2**20, sampled=True),
        ),
        storage_bytes=of((460 - 512) * GIB, (500 - 512) * GIB),
        kept_bytes=512 * GIB,
        kept_seconds=of(6 * 86_400, 12 * 86_400),
        queries=(
            QueryScan(
                query="recent",
                runs_per_day=2.0,
                now_bytes=40 * GIB,
                expected_bytes=of(5 * GIB, 9 * GIB),
                now_requests=900,
                expected_requests=of(150, 250),
                past=3,
            ),
        ),
    )
    return table_costs(forecast, prices())


def test_the_page_has_all_calculations():
    assert len(CALCULATIONS) == 16


@pytest.mark.parametrize(("expression", "result"), CALCULATIONS)
def test_the_calculations_are_right(expression, result):
    assert value(ast.parse(expression, mode="eval").body, expression) == Fraction(result)


def test_the_code_says_the_same_to_the_cent():
    found = costs()
    assert f"\n{cost_lines(found)[0]}\n" in PAGE
    assert f'"low_micros": {found.one_off.low_micros}, "high_micros": {found.one_off.high_micros}' in PAGE
    by_hand = {name: [Fraction(low), Fraction(high)] for name, low, high in rows()}
    for name, amount in (
        ("compute", found.compute),
        ("requests", found.requests),
        ("old versions", found.old_versions),
        ("one-off", found.one_off),
        ("queries a month", found.queries),
        ("storage a month", found.storage),
    ):
        low, high = (1_000_000 * side for side in by_hand[name])
        assert low - 1 < amount.low_micros <= low, name
        assert high <= amount.high_micros < high + 1, name


def rows():
    """The amounts of the table, after the equals signs."""
    return re.findall(r"^\| ([\w -]+) \| [^|]*= (-?[\d.]+) \| [^|]*= (-?[\d.]+) \|$", PAGE, re.MULTILINE)
