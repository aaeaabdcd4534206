"""A recogniser of Spark SQL's expressions and queries, which also finds the columns that they read.

The rules are those of Spark's SqlBaseParser.g4 (3.5 to 4), where nearly every keyword may also be a name:
``and and and`` is an expression. So a rule returns all positions at which it may end, instead of choosing
one, and a text is refused only if no combination of them covers it. Precedence does not matter for that.
Where this grammar accepts more than Spark's, Spark reports the error later.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from parquetry.text.sql_rules import SOURCE, shown_name, why_table_function_is_refused
from parquetry.text.sql_tokens import Token, TokenKind

Ends = Collection[int]
Part = Callable[["_Way", int], Ends]
"""A part of the grammar: a function from a position to the positions at which the part may end."""
Known = Callable[[tuple[str, ...]], bool]
"""A function that returns whether ``a.b.c``, given as lower-cased ``("a", "b", "c")``, names something."""
_Scope = tuple[str, int, int]

# Beyond these limits, parsing here would take too long, and only Spark judges the text.
_MOST_STEPS = 100_000
_MOST_STEPS_OF_A_TABLE = 300_000
_MOST_TOKENS = 5_000
# Each reported column takes another parse of the text.
_MOST_UNKNOWN = 5
# Words of syntax that this grammar lacks: only Spark judges a query with one of them.
_BEYOND = frozenset(
    """
    |> grouping lateral map match_recognize pivot recursive reduce rollup stream system_time system_version
    table tablesample transform unpivot values version watermark window
    """.split()  # noqa: SIM905 - twenty words read better as a text
)
_COMBINING = frozenset({"union", "except", "minus", "setminus", "intersect", "pivot", "unpivot"})
_UNITS = tuple(
    f"{unit}{plural}"
    for unit in "nanosecond microsecond millisecond second minute hour day week month quarter year".split()  # noqa: SIM905
    for plural in ("", "s")
)
_NO_ARGUMENTS = frozenset(
    """
    current_catalog current_database current_date current_schema current_time current_timestamp
    current_timezone current_user grouping__id localtimestamp session_user user
    """.split()  # noqa: SIM905 - a dozen words read better as a text
)
"""Functions that Spark calls without brackets if no column has the name."""


@dataclass(slots=True)
class Effort:
    """The number of steps that may still be taken to parse one text, or all texts of a table together."""

    left: int = _MOST_STEPS

    @classmethod
    def of_a_table(cls) -> Effort:
        """Return the limit for all texts of one table together."""
        return cls(left=_MOST_STEPS_OF_A_TABLE)


@dataclass(slots=True)
class _Way:
    """The state of a parse: results by rule and position, and the furthest position that any rule reached.

    If ``scopes`` is set, it has the range in which each name of a WITH is valid, and only these names and
    ``source`` are accepted as relations. If ``queries`` is False, no subquery is accepted. ``strayed`` is the
    last relation that was refused.
    """

    found: Sequence[Token]
    known: Known | None = None
    bound: frozenset[str] = frozenset()
    scopes: Sequence[_Scope] | None = None
    queries: bool = True
    strayed: tuple[int, str] = (-1, "")
    results: dict[tuple[str, int], Ends] = field(default_factory=dict)
    furthest: int = 0
    effort: Effort = field(default_factory=Effort)


class _TooLargeError(Exception):
    """The text exceeds the limits of this parser."""


def misfit(found: Sequence[Token], *, query: bool = False, effort: Effort | None = None) -> int | None:
    """Return the index of the first token that cannot belong to an expression or query, or None.

    The result is the number of tokens if the text ends too early. It is None if the text is valid, too large,
    or uses syntax that only Spark can judge.
    """
    way = _Way(found=found, effort=effort or Effort())
    if _matches(way, "query" if query else "expression"):
        return None
    plain = (token.text.lower() for token in found if token.kind in (TokenKind.WORD, TokenKind.SYMBOL))
    if query and not _BEYOND.isdisjoint(plain):
        return None
    return way.furthest


def stray_relation(
    found: Sequence[Token], *, query: bool = False, effort: Effort | None = None
) -> str | None:
    """Return the relation or table function that a text reads without permission, or None.

    A query may read ``source``, and the names of its WITH within their scope. An expression may read no
    relation; for a subquery in it, the result is ``a query``. The result is None for a text that breaks the
    grammar.
    """
    start = "query" if query else "expression"
    effort = effort or Effort()
    way = _Way(found=found, scopes=_scopes(found), queries=query, effort=effort)
    if _matches(way, start) or not _matches(_Way(found=found, effort=effort), start):
        return None
    return way.strayed[1] if query else "a query"


def unknown_columns(
    found: Sequence[Token], known: Known, *, effort: Effort | None = None
) -> tuple[tuple[str, ...], ...]:
    """Return the columns, with their fields, that an expression needs and that ``known`` does not know.

    Names bound by a lambda, functions without brackets, types and units do not count. At most five columns
    are returned.
    """
    bound = _bound(found)
    effort = effort or Effort()
    if _matches(_Way(found=found, known=known, bound=bound, effort=effort), "expression"):
        return ()
    chains = dict.fromkeys(_chain(found, at)[0] for at, token in enumerate(found) if token.is_name)

    def is_needed(chain: tuple[str, ...]) -> bool:
        without = _Way(found=found, known=lambda other: other != _lowered(chain), bound=bound, effort=effort)
        return not _matches(without, "expression")

    unknown = [chain for chain in chains if not known(_lowered(chain))]
    return tuple(chain for chain in unknown[:_MOST_UNKNOWN] if is_needed(chain))


def columns_read(
    found: Sequence[Token], names: Collection[str], *, effort: Effort | None = None
) -> frozenset[str]:
    """Return the columns of ``names`` (lower-cased) that an expression reads."""
    bound = _bound(found)
    effort = effort or Effort()

    def is_read(name: str) -> bool:
        without = _Way(found=found, known=lambda chain: chain[0] != name, bound=bound, effort=effort)
        return not _matches(without, "expression")

    return frozenset(filter(is_read, {token.text.lower() for token in found if token.is_name} & set(names)))


def selected_names(found: Sequence[Token]) -> frozenset[str] | None:
    """Return the lower-cased names of a query's result columns, or None if its text does not determine them.

    They are determined for a single SELECT whose columns are all written ``name``, ``a.name`` or ``... AS
    name``.
    """
    if not found or found[0].text.lower() != "select" or found[0].kind is not TokenKind.WORD:
        return None
    items: list[list[Token]] = [[]]
    depth = 0
    listing = True
    for token in found[1:]:
        word = token.text.lower() if token.kind is TokenKind.WORD and depth == 0 else ""
        if word in _COMBINING:
            return None
        depth += (
            (token.text in ("(", "[")) - (token.text in (")", "]")) if token.kind is TokenKind.SYMBOL else 0
        )
        listing = listing and word != "from"
        if listing and depth == 0 and token.text == "," and token.kind is TokenKind.SYMBOL:
            items.append([])
        elif listing and (items[-1] or word not in ("all", "distinct")):
            items[-1].append(token)
    names = [_given_name(item) for item in items]
    return None if None in names else frozenset(name for name in names if name is not None)


def _given_name(item: Sequence[Token]) -> str | None:
    if not item or not item[-1].is_name:
        return None
    named = len(item) > 1 and item[-2].kind is TokenKind.WORD and item[-2].text.lower() == "as"
    plain = _chain(item, 0)[1] == len(item) if item[0].is_name else False
    return item[-1].text.lower() if named or plain else None


def _matches(way: _Way, start: str) -> bool:
    """Return whether the whole text follows the rule ``start``, or is too large to parse."""
    if len(way.found) > _MOST_TOKENS:
        return True
    try:
        return len(way.found) in _rule(start)(way, 0)
    except (_TooLargeError, RecursionError):
        return True


def _scopes(found: Sequence[Token]) -> Sequence[_Scope]:
    """Return the lower-cased names of each WITH, with the range of positions in which they are valid."""
    closing: dict[int, int] = {}
    around: list[int] = []
    opened: list[int] = []
    for at, token in enumerate(found):
        around.append(opened[-1] if opened else -1)
        if token.kind is TokenKind.SYMBOL and token.text == "(":
            opened.append(at)
        elif token.kind is TokenKind.SYMBOL and token.text == ")" and opened:
            closing[opened.pop()] = at
    scopes: list[_Scope] = []
    for at, token in enumerate(found):
        if token.text.lower() == "with" and token.kind is TokenKind.WORD:
            end = closing.get(around[at], len(found))
            scopes += [(name, start, end) for name, start in _named_queries(found, at + 1, closing)]
    return scopes


def _named_queries(found: Sequence[Token], at: int, closing: Mapping[int, int]) -> Iterator[tuple[str, int]]:
    """Yield the names after a WITH, and where each scope starts: after its query, or in it if recursive."""

    def is_at(position: int, *texts: str) -> bool:
        return position < len(found) and found[position].text.lower() in texts

    recursive = is_at(at, "recursive") and not is_at(at + 1, "as", "(")
    at += recursive
    while at < len(found) and found[at].is_name:
        name, at = found[at].text.lower(), at + 1
        opened = -1
        while at in closing or is_at(at, "as", "max", "recursion", "level") or _is_number(found, at):
            if at in closing:
                opened, at = at, closing[at]
            at += 1
        if opened < 0:
            return
        yield name, opened if recursive else closing[opened]
        if not is_at(at, ","):
            return
        at += 1


def _is_number(found: Sequence[Token], at: int) -> bool:
    return at < len(found) and found[at].kind is TokenKind.NUMBER


def _bound(found: Sequence[Token]) -> frozenset[str]:
    """Return the lower-cased names that lambdas bind: ``x -> ...`` and ``(x, y) -> ...``."""
    names: set[str] = set()
    for arrow, token in enumerate(found):
        if token.text != "->" or token.kind is not TokenKind.SYMBOL:
            continue
        at = arrow - 1
        while at >= 0 and (found[at].is_name or found[at].text in (",", "(", ")")):
            if found[at].is_name:
                names.add(found[at].text.lower())
            if found[at].text == "(" or found[arrow - 1].is_name:
                break
            at -= 1
    return frozenset(names)


def _lowered(chain: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.lower() for name in chain)


def _chain(found: Sequence[Token], at: int) -> tuple[tuple[str, ...], int]:
    """Return the dotted names from a name on, and the position after them."""
    names = [found[at].text]
    at += 1
    while at + 1 < len(found) and found[at].text == "." and found[at + 1].is_name:
        names.append(found[at + 1].text)
        at += 2
    return tuple(names), at


def _rule(name: str) -> Part:
    def read(way: _Way, at: int) -> Ends:
        key = (name, at)
        ends = way.results.get(key)
        if ends is None:
            way.effort.left -= 1
            if way.effort.left < 0:
                raise _TooLargeError
            ends = _RULES[name](way, at)
            way.results[key] = ends
        return ends

    return read


def _token(accepts: Callable[[Token], bool]) -> Part:
    def read(way: _Way, at: int) -> Ends:
        way.furthest = max(way.furthest, at)
        return (at + 1,) if at < len(way.found) and accepts(way.found[at]) else ()

    return read


def _word(*words: str) -> Part:
    wanted = frozenset(words)
    return _token(lambda token: token.kind is TokenKind.WORD and token.text.lower() in wanted)


def _sign(*signs: str) -> Part:
    return _token(lambda token: token.kind is TokenKind.SYMBOL and token.text in signs)


def _kind(kind: TokenKind) -> Part:
    return _token(lambda token: token.kind is kind)


def _then(*parts: Part) -> Part:
    def read(way: _Way, at: int) -> Ends:
        ends: Ends = (at,)
        for part in parts:
            if not ends:
                break
            ends = {end for start in ends for end in part(way, start)}
        return ends

    return read


def _either(*parts: Part) -> Part:
    return lambda way, at: {end for part in parts for end in part(way, at)}


def _maybe(*parts: Part) -> Part:
    whole = _then(*parts)
    return lambda way, at: {at, *whole(way, at)}


def _many(*parts: Part) -> Part:
    """Return a part that matches the parts zero or more times."""
    whole = _then(*parts)

    def read(way: _Way, at: int) -> Ends:
        ends = {at}
        pending = [at]
        while pending:
            fresh = set(whole(way, pending.pop())) - ends
            ends |= fresh
            pending += fresh
        return ends

    return read


def _listed(part: Part) -> Part:
    return _then(part, _many(_sign(","), part))


def _bracketed(*parts: Part) -> Part:
    return _then(_sign("("), *parts, _sign(")"))


def _reference(way: _Way, at: int) -> Ends:
    """Match a column and its fields; if the parse has known columns, only one of these."""
    way.furthest = max(way.furthest, at)
    if at >= len(way.found) or not way.found[at].is_name:
        return ()
    names, end = _chain(way.found, at)
    chain = _lowered(names)
    way.furthest = max(way.furthest, end)
    if way.known is None or way.known(chain) or chain[0] in way.bound:
        return (end,)
    called = len(chain) == 1 and chain[0] in _NO_ARGUMENTS and way.found[at].kind is TokenKind.WORD
    return (end,) if called else ()


def _relation(way: _Way, at: int) -> Ends:
    """Match the name of a relation; if the parse restricts relations, only an accepted one."""
    ends = _names(way, at)
    if way.scopes is None or not ends:
        return ends
    names, end = _chain(way.found, at)
    name = names[0].lower()
    if len(names) == 1 and (name == SOURCE or any(n == name and a < at < z for n, a, z in way.scopes)):
        return ends
    if end == len(way.found) or way.found[end].text != "(":
        way.strayed = max(way.strayed, (end, shown_name(names)))
    return ()


def _row_function(way: _Way, at: int) -> Ends:
    """Match the name of a table function; if the parse restricts relations, only an accepted one."""
    ends = _names(way, at)
    if way.scopes is None or not ends:
        return ends
    names, end = _chain(way.found, at)
    if why_table_function_is_refused(names) is None:
        return ends
    if end < len(way.found) and way.found[end].text == "(":
        way.strayed = max(way.strayed, (end, f"{shown_name(names)}()"))
    return ()


def _subquery(way: _Way, at: int) -> Ends:
    """Match a query in brackets if the parse accepts subqueries."""
    return _rule("query")(way, at) if way.queries else ()


_name = _token(lambda token: token.is_name)
_string = _kind(TokenKind.STRING)
_expression = _rule("expression")
_value = _rule("value")
_type = _rule("type")
_query = _subquery
_names = _then(_name, _many(_sign("."), _name))
_alias = _then(
    _maybe(_word("as")),
    _either(_then(_name, _maybe(_bracketed(_listed(_name)))), _bracketed(_listed(_name))),
)
_item = _then(_expression, _maybe(_alias))
_sorted = _then(_expression, _maybe(_word("asc", "desc")), _maybe(_word("nulls"), _word("first", "last")))
_when = _then(_word("when"), _expression, _word("then"), _expression)
_case_end = _then(_when, _many(_when), _maybe(_word("else"), _expression), _word("end"))
_unit = _either(_word(*_UNITS, "dayofyear"), _string)
_amount = _then(_maybe(_sign("+", "-")), _either(_kind(TokenKind.NUMBER), _string))
_frame_bound = _either(
    _then(_word("unbounded"), _word("preceding", "following")),
    _then(_word("current"), _word("row")),
    _then(_expression, _word("preceding", "following")),
)
_window = _either(
    _name,
    _bracketed(
        _maybe(_name),
        _maybe(_word("partition", "distribute", "cluster"), _word("by"), _listed(_expression)),
        _maybe(_word("order", "sort"), _word("by"), _listed(_sorted)),
        _maybe(
            _word("range", "rows"),
            _either(_frame_bound, _then(_word("between"), _frame_bound, _word("and"), _frame_bound)),
        ),
    ),
)
_except = _maybe(_word("except", "exclude"), _bracketed(_listed(_names)))
_argument = _either(
    _then(_expression, _maybe(_word("ignore", "respect"), _word("nulls"))),
    _then(_name, _sign("=>"), _expression),
)
_field = _then(
    _name,
    _maybe(_sign(":")),
    _type,
    _maybe(_word("not"), _word("null")),
    _maybe(_word("collate"), _names),
    _maybe(_word("comment"), _string),
)
_travel = _then(
    _maybe(_word("for")),
    _word("system_time", "system_version", "timestamp", "version"),
    _word("as"),
    _word("of"),
    _value,
)
_option = _then(_either(_names, _string), _maybe(_sign("=")), _maybe(_value))
_sample = _maybe(
    _word("tablesample"),
    _bracketed(
        _either(
            _then(_expression, _maybe(_word("percent", "rows"))),
            _then(
                _word("bucket"),
                _kind(TokenKind.NUMBER),
                _word("out"),
                _word("of"),
                _kind(TokenKind.NUMBER),
                _maybe(_word("on"), _expression),
            ),
        ),
    ),
    _maybe(_word("repeatable"), _bracketed(_expression)),
)
_values = _then(_word("values"), _listed(_expression))
_past = _then(_names, _travel)
_table = _then(
    _maybe(_word("lateral")),
    _either(
        _then(
            _either(_relation, lambda way, at: _past(way, at) if way.scopes is None else ()),
            _maybe(_word("with"), _bracketed(_listed(_option))),
        ),
        _then(_row_function, _bracketed(_maybe(_listed(_argument)))),
        _values,
        _bracketed(_either(_query, _rule("relation"))),
    ),
    _sample,
    _maybe(_alias),
    _many(_rule("turned"), _maybe(_alias)),
)
_on = _either(_then(_word("on"), _expression), _then(_word("using"), _bracketed(_listed(_name))))
_joined = _then(
    _maybe(_word("natural")),
    _maybe(_word("inner", "cross", "left", "right", "full", "semi", "anti")),
    _maybe(_word("outer", "semi", "anti")),
    _word("join"),
    _table,
    _maybe(_on),
)
_by = _word("by")
_selected = _then(_word("select"), _maybe(_word("all", "distinct")), _listed(_item))
_lateral_view = _then(
    _word("lateral"),
    _word("view"),
    _maybe(_word("outer")),
    _row_function,
    _bracketed(_maybe(_listed(_argument))),
    _maybe(_name),
    _maybe(_maybe(_word("as")), _listed(_name)),
)
_from = _then(_word("from"), _listed(_rule("relation")), _many(_lateral_view))
_in_brackets = _bracketed(_listed(_item))
_group_by = _then(
    _word("group"),
    _by,
    _either(
        _word("all"),
        _then(_listed(_either(_item, _rule("sets"))), _maybe(_rule("sets"))),
    ),
    _maybe(_word("with"), _word("cube", "rollup")),
)
_combined = _then(
    _word("union", "except", "minus", "setminus", "intersect"),
    _maybe(_word("all", "distinct")),
    _rule("queried"),
)

_RULES: dict[str, Part] = {
    "expression": _then(_rule("operand"), _many(_word("and", "or"), _rule("operand"))),
    "operand": _then(
        _many(_either(_word("not"), _sign("!"))),
        _either(
            _then(_value, _maybe(_rule("predicate"))),
            _then(_word("exists"), _bracketed(_query)),
        ),
    ),
    "predicate": _either(
        _then(
            _maybe(_either(_word("not"), _sign("!"))),
            _either(
                _then(_word("between"), _value, _word("and"), _value),
                _then(_word("in"), _bracketed(_either(_listed(_expression), _query))),
                _then(_word("rlike", "regexp"), _value),
                _then(
                    _word("like", "ilike"),
                    _word("any", "some", "all"),
                    _bracketed(_maybe(_listed(_expression))),
                ),
                _then(_word("like", "ilike"), _value, _maybe(_word("escape"), _string)),
            ),
        ),
        _then(
            _word("is"),
            _maybe(_either(_word("not"), _sign("!"))),
            _either(
                _word("null", "true", "false", "unknown"),
                _then(_word("distinct"), _word("from"), _value),
            ),
        ),
    ),
    "value": _then(_rule("signed"), _many(_rule("operator"), _rule("signed"))),
    "operator": _either(
        _sign("=", "==", "<>", "!=", "<", "<=", "!>", ">", ">=", "!<", "<=>"),
        _sign("*", "/", "%", "+", "-", "||", "&", "^", "|"),
        _word("div"),
        _then(_sign("<"), _sign("<")),
        _then(_sign(">"), _sign(">"), _maybe(_sign(">"))),
    ),
    "signed": _then(
        _many(_sign("+", "-", "~")),
        _rule("primary"),
        _many(
            _either(
                _then(_sign("["), _value, _sign("]")),
                _then(_sign("."), _name),
                _then(_sign("::"), _type),
                _then(_sign(":"), _either(_name, _then(_sign("["), _value, _sign("]")))),
                _then(_word("collate"), _names),
            )
        ),
    ),
    "primary": _either(
        _reference,
        _rule("constant"),
        _rule("call"),
        _then(_word("case"), _case_end),
        _then(_word("case"), _expression, _case_end),
        _then(_maybe(_names, _sign(".")), _sign("*"), _except),
        _bracketed(_expression),
        _bracketed(_item, _sign(","), _listed(_item)),
        _bracketed(_query),
        _then(_name, _sign("->"), _expression),
        _then(_bracketed(_listed(_name)), _sign("->"), _expression),
    ),
    "constant": _either(
        _word("null", "true", "false"),
        _kind(TokenKind.NUMBER),
        _then(_string, _many(_string)),
        _then(_word("date", "time", "timestamp", "timestamp_ltz", "timestamp_ntz", "interval", "x"), _string),
        _then(_word("interval"), _amount, _word(*_UNITS), _many(_amount, _word(*_UNITS))),
        _then(_word("interval"), _amount, _word(*_UNITS), _word("to"), _word(*_UNITS)),
    ),
    "call": _either(
        _then(
            _names,
            _bracketed(_maybe(_maybe(_word("distinct", "all")), _listed(_argument))),
            _maybe(_word("within"), _word("group"), _bracketed(_word("order"), _by, _listed(_sorted))),
            _maybe(_word("filter"), _bracketed(_word("where"), _expression)),
            _maybe(_word("ignore", "respect"), _word("nulls")),
            _maybe(_word("over"), _window),
        ),
        _then(_word("cast", "try_cast"), _bracketed(_expression, _word("as"), _type)),
        _then(_word("struct"), _bracketed(_maybe(_listed(_item)))),
        _then(_word("position"), _bracketed(_value, _word("in"), _value)),
        _then(_word("extract"), _bracketed(_name, _word("from"), _value)),
        _then(
            _word("substr", "substring"),
            _bracketed(_value, _word("from"), _value, _maybe(_either(_word("for"), _sign(",")), _value)),
        ),
        _then(_word("substr", "substring"), _bracketed(_value, _sign(","), _value, _word("for"), _value)),
        _then(
            _word("trim"),
            _bracketed(_maybe(_word("both", "leading", "trailing")), _maybe(_value), _word("from"), _value),
        ),
        _then(
            _word("overlay"),
            _bracketed(_value, _word("placing"), _value, _word("from"), _value, _maybe(_word("for"), _value)),
        ),
        _then(
            _word(
                "timestampadd", "timestampdiff", "dateadd", "date_add", "datediff", "date_diff", "timediff"
            ),
            _bracketed(_unit, _sign(","), _value, _sign(","), _value),
        ),
    ),
    "type": _either(
        _then(_word("array"), _sign("<"), _type, _sign(">")),
        _then(_word("map"), _sign("<"), _type, _sign(","), _type, _sign(">")),
        _then(_word("struct"), _sign("<>")),
        _then(_word("struct"), _sign("<"), _maybe(_listed(_field)), _sign(">")),
        _then(_word("interval"), _word(*_UNITS), _maybe(_word("to"), _word(*_UNITS))),
        _then(
            _name,
            _maybe(
                _bracketed(_listed(_token(lambda token: token.kind in (TokenKind.NUMBER, TokenKind.WORD))))
            ),
            _maybe(_word("collate"), _names),
            _maybe(_word("with", "without"), _maybe(_word("local")), _word("time"), _word("zone")),
        ),
    ),
    "query": _then(
        _maybe(
            _word("with"),
            _maybe(_word("recursive")),
            _listed(
                _then(
                    _name,
                    _maybe(_bracketed(_listed(_name))),
                    _maybe(_word("max"), _word("recursion"), _word("level"), _kind(TokenKind.NUMBER)),
                    _maybe(_word("as")),
                    _bracketed(_query),
                )
            ),
        ),
        _rule("queried"),
        _many(_combined),
        _maybe(
            _word("order"), _by, _either(_listed(_sorted), _then(_word("all"), _maybe(_word("asc", "desc"))))
        ),
        _maybe(_word("cluster"), _by, _listed(_expression)),
        _maybe(_word("distribute"), _by, _listed(_expression)),
        _maybe(_word("sort"), _by, _listed(_sorted)),
        _maybe(_word("window"), _listed(_then(_name, _word("as"), _window))),
        _maybe(_word("limit"), _either(_word("all"), _expression)),
        _maybe(_word("offset"), _expression),
        _many(_sign("|>"), _rule("piped")),
    ),
    "piped": _either(
        _then(_selected, _maybe(_word("window"), _listed(_then(_name, _word("as"), _window)))),
        _then(_word("extend"), _listed(_item)),
        _then(_word("set"), _listed(_then(_name, _sign("=", "=="), _expression))),
        _then(_word("drop"), _listed(_names)),
        _then(_word("as"), _name),
        _then(_word("where"), _expression),
        _then(_word("order", "sort"), _by, _either(_listed(_sorted), _word("all"))),
        _then(_word("cluster", "distribute"), _by, _listed(_expression)),
        _then(_word("limit"), _either(_word("all"), _expression), _maybe(_word("offset"), _expression)),
        _then(_word("offset"), _expression),
        _then(_word("aggregate"), _maybe(_listed(_item)), _maybe(_group_by)),
        _then(_rule("turned"), _maybe(_alias)),
        _then(_lateral_view, _many(_lateral_view)),
        _combined,
        _joined,
        _sample,
    ),
    "turned": _either(
        _then(
            _word("pivot"),
            _bracketed(
                _listed(_item),
                _word("for"),
                _either(_name, _bracketed(_listed(_name))),
                _word("in"),
                _in_brackets,
            ),
        ),
        _then(
            _word("unpivot"),
            _maybe(_word("include", "exclude"), _word("nulls")),
            _bracketed(
                _either(_name, _bracketed(_listed(_name))),
                _word("for"),
                _name,
                _word("in"),
                _in_brackets,
            ),
        ),
    ),
    "sets": _then(
        _word("grouping"),
        _word("sets"),
        _bracketed(_listed(_either(_bracketed(), _expression, _rule("sets")))),
    ),
    "queried": _either(
        _values,
        _then(_word("table"), _relation),
        _bracketed(_query),
        _then(_selected, _maybe(_from), _rule("restricted")),
        _then(_from, _maybe(_selected), _rule("restricted")),
    ),
    "restricted": _then(
        _maybe(_word("where"), _expression),
        _maybe(_group_by),
        _maybe(_word("having"), _expression),
        _maybe(_word("qualify"), _expression),
    ),
    "relation": _then(_table, _many(_joined)),
}
