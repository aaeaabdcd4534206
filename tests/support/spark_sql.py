"""Texts of Spark SQL: expressions and queries of every kind, and what becomes of them by small mistakes."""

from __future__ import annotations

import random
from collections.abc import Iterator

from hypothesis import strategies as st

EXPRESSIONS = [
    line
    for line in r"""
a
1
-1
+ - ~ 1
1.5
.5
1.
1e5
1.5E-3
1BD
1.5bd
2L + 3S + 4Y
1.0F * 2D
'text'
"text"
'it''s'
'it\'s'
'a' 'b' "c"
r'\d+'
R"\w"
X'1F'
x'1f2e'
true
FALSE
null
a = 1
a == 1
a <=> null
a <> 1
a != 1
a !> 1
a !< 1
a < 1 or a <= 2 or a > 3 or a >= 4
a<-1
a=-1 and b>=-2
a + b - c * d / e % f div g
a || b || 'c'
a & b | c ^ d
~a
a << 2
a >> 2
a >>> 2
not a
! a
not not a
!a and !b
not a = 1 and (b or c)
a and b or c and not d
a between 1 and 2
a not between 1 and 2 and b
a between b - 1 and b + 1 or c
a in (1, 2, 3)
a not in ('x', 'y')
(a, b) in ((1, 2), (3, 4))
a ! in (1)
a like 'x%'
a not like '%x' escape '!'
a ilike 'X%'
a like any ('x%', 'y%')
a not like all ('x%', 'y%')
a like some ('x%')
a rlike '^x'
a regexp r'\d'
a not rlike 'x'
a is null
a is not null
a is true
a is not false
a is unknown
a is distinct from b
a is not distinct from 1
`a b` = 1
`a``b`.`c d` > 2
s.f
s.f.g
s.f[0].g['k']
arr[0]
m['k']
m[a + 1].x
f(x).y
f(x)[1]
struct(1 as x, 'y' as z).x
named_struct('x', 1).x
array(1, 2)[0]
map('a', 1)['a']
(a)
((a + 1)) * 2
(1, 2)
(a as x, b y)
case when a then 1 end
case when a then 1 when b then 2 else 3 end
case a when 1 then 'x' else null end
case when a = 1 and b between 1 and 2 then c + 1 else d end > 3
case when case when a then b else c end then d end
if(a > 1, b, c)
iff
coalesce(a, b, 0)
nvl(a, b)
cast(a as int)
cast(a as decimal(10, 2))
cast(a + 1 as string) = '2'
try_cast(a as date)
cast(a as array<int>)
cast(a as map<string, array<int>>)
cast(a as struct<x: int, y: string>)
cast(a as struct<x int not null, y: string comment 'why'>)
cast(a as struct<>)
cast(a as array<array<int>>)
cast(a as interval day to second)
cast(a as interval year)
cast(a as timestamp_ntz)
cast(a as varchar(10))
cast('1' as tinyint)
a::int
a::decimal(10, 2) > 1
a::array<int>[0]
a collate UTF8_BINARY = 'x'
date '2020-01-01'
DATE'2020-01-01'
timestamp '2020-01-01 00:00:00'
timestamp_ntz '2020-01-01 00:00:00'
timestamp_ltz '2020-01-01 00:00:00'
interval 1 day
interval '1' day
interval '1 day'
interval -1 month
interval 1 year 2 months
interval 3 days 4 hours 5 minutes 6.5 seconds
interval '1-2' year to month
interval '1 02:03:04' day to second
interval '10:11' hour to minute
at + interval 1 day
at - interval 2 weeks > current_timestamp
current_date
current_date()
current_timestamp
current_timestamp() - at
current_user
now() - interval 1 hour
day
year
year(at)
date(at)
timestamp(at)
day + 1
date = '2020-01-01'
date > date '2020-01-01'
timestamp > timestamp '2020-01-01'
year = 2020 and month = 1
hour(at) * 60 + minute(at)
interval
case
when
end
order > 1
group = 'x'
from = 1
left > right
left(a, 2)
right(a, 2)
first(a)
first(a ignore nulls)
last(a, true)
any_value(a ignore nulls)
filter(arr, x -> x > 1)
transform(arr, x -> x + 1)
transform(arr, (x, i) -> x + i)
aggregate(arr, 0, (acc, x) -> acc + x, acc -> acc * 2)
exists(arr, x -> x is null)
forall(arr, x -> x.y > 1 and x.z in (1, 2))
map_filter(m, (k, v) -> k > v)
zip_with(a, b, (x, y) -> concat(x, y))
transform(arr, x -> transform(x, y -> y + 1))
array_sort(arr, (l, r) -> case when l < r then -1 when l > r then 1 else 0 end)
count(*)
count(distinct a)
count(distinct a, b)
sum(all a)
sum(a) filter (where b > 1)
percentile_cont(0.5) within group (order by a desc)
listagg(a, ',') within group (order by a)
first_value(a) ignore nulls
lead(a) respect nulls over (partition by b order by c)
row_number() over (order by a desc nulls last)
sum(a) over (partition by b, c order by d rows between unbounded preceding and current row)
sum(a) over (order by d range between interval 1 day preceding and 1 following)
sum(a) over (rows 2 preceding)
sum(a) over w
sum(a) over (w)
extract(year from at)
extract(dow from at)
extract(seconds from interval '1' second)
date_part('year', at)
date_trunc('DAY', at)
trunc(at, 'MM')
position('a' in b)
position('a', b)
substring(a, 1, 2)
substring(a from 2)
substring(a from 2 for 3)
substr(a, 1)
substr(a from 1 for 2)
trim(a)
trim(both from a)
trim(leading 'x' from a)
trim(trailing from a)
trim('x' from a)
trim(both 'x' from a)
overlay(a placing 'x' from 2)
overlay(a placing 'x' from 2 for 3)
timestampadd(day, 1, at)
timestampdiff(MONTH, a, b)
dateadd(HOUR, 1, at)
datediff(a, b)
datediff(day, a, b)
date_add(at, 1)
date_diff(SECOND, a, b)
date_add(year, 1, at)
dateadd('day', 1, at)
mask(a, lowerChar => 'q')
mask(a, 'X', lowerChar => b || 'q')
db.f(a)
cat.db.f(a, b)
system.builtin.upper(a)
`my func`(a)
upper(lower(trim(a)))
concat_ws('-', a, b, c)
a.b.c.d = 1
t.*
count(t.*)
struct(*)
to_date(at)
to_date(at, 'yyyy-MM-dd')
md5(concat(a, b))
hash(a, b) % 10
pmod(a, 4)
element_at(arr, -1)
size(arr) > 0 and arr[0] <> ''
get_json_object(j, '$.a.b')
json_tuple(j, 'a')
from_json(j, 'a int, b struct<c: string>')
split(a, ',')[0]
regexp_replace(a, r'(\d+)', '<$1>')
regexp_extract(a, '(\\d+)', 1)
format_number(a, 2)
a /* comment */ + /* nested /* one */ */ b
distance > 1000 and origin in ('EWR', 'JFK') and day between date '2013-01-01' and date '2013-02-01'
größe > 1
`größe` > 1
1a = 2
a1.b2.c3
a.1b
_hoodie_commit_time > '20200101'
1 - -1 > 0
- - a
a - -b
a = b = c
(a = 1) is true
a is null = b
a like 'x' and b like 'y' or not c like 'z'
a in (b + 1, f(c), case when d then e end)
a between case when b then 1 else 2 end and 3
not exists(arr, x -> x)
null is null
true and false
if(a is null, 0, a) between 0 and 1
a['b']['c'] is not null
a[b[c[0]]]
f()
f(1)(2)
(f(1))
all
any
some
not
and and and
or or or
not and not
in in (in)
like like like
between between between and and
is is null
null
x 'ff'
date
date '2020-01-01' + date
interval 1 day + interval
as
exists
select
distinct
div div div
escape like 'a' escape 'b'
user
session_user
current_time
current_catalog()
bround(2.5, 0)
1 in (1)
(1)
('a')
((a, b))
(a, (b, c))
cube(a, b)
rollup(a)
values
table
lateral
window(at, '1 hour')
unix_timestamp(at) div 3600
make_date(year, month, day)
date_format(at, 'yyyy') = '2020'
a = 'a -- b'
a = "it''s"
ceil(a, 1)
floor(a)
try_add(a, b)
try_divide(a, b) is not null
uuid()
rand() < 0.5
a :: string
'a'::int + 1
interval 2 day * 3
sum(distinct a) filter (where b is not null and c)
grouping(a)
array(struct(1, 'a'), struct(2, 'b'))[0].col1
array()[0]
map()
flatten(array(array(1, 2), array(3)))
slice(arr, 1, 2)
sequence(1, 10, 2)
sequence(date '2020-01-01', date '2020-02-01', interval 1 week)
explode(arr)
stack(2, 1, 2)
input_file_name()
monotonically_increasing_id()
spark_partition_id()
version()
xxhash64(a, b, c)
crc32(a)
base64(a)
hex(a) = '1F'
unhex('1F')
a.b[0].c['d'].e
s.`f g`.h
""".splitlines()
    if line
]
QUERIES = [
    line
    for line in """
select * from source
SELECT a, b AS c FROM source
select a c, b d from source
select distinct a from source
select all a from source s
select source.* from source
select *, upper(a) as b from source where c > 1
select * except (a) from source
select a from source where b in (select c from t)
select (select max(a) from t) as m from source
select a from source where exists (select 1 from t where t.a = source.a)
select a, count(*) from source group by a
select a, count(*) as n from source group by a having n > 1 order by n desc nulls last limit 10
select a from source order by all
select a, sum(b) from source group by all
select a, b, sum(c) from source group by a, b with rollup
select a, b, sum(c) from source group by grouping sets ((a), (a, b))
select a, b, sum(c) from source group by rollup (a, b)
select s.a, t.b from source s join t on s.id = t.id
select s.a, t.b from source as s left outer join t using (id)
select * from source s cross join t
select * from source natural join t
select * from source left semi join t on source.a = t.a
select * from source left anti join t on source.a = t.a
select * from source full outer join t on source.a = t.a
select * from source right join t on source.a = t.a inner join u on t.b = u.b
select * from source, t where source.a = t.a
select * from (select a from source) x
select * from (select a from source) as x (b)
select * from (source join t on source.a = t.a)
with x as (select 1) select * from x
with x as (select * from source), y (a, b) as (select 1, 2) select * from x, y
with x as (select 1 as insert_time) select * from x
select a from source union all select b from t
select a from source union select b from t except select c from u
select a from source intersect select b from t
select a from source minus select b from t
(select a from source) union all (select b from t) order by 1 limit 2
select a from source limit 10 offset 5
select a from source cluster by a
select a from source distribute by a sort by b
select a, row_number() over (partition by a order by b desc) as n from source
select a, sum(b) over w from source window w as (partition by a)
select * from source lateral view explode(arr) x as y
select * from source lateral view outer explode(arr) x
select * from source, lateral explode(arr) as x (y)
select explode(arr) as x from source
select inline(arr) as (a, b) from source
select * from source tablesample (10 percent)
select * from source pivot (sum(a) for b in ('x', 'y'))
select * from source unpivot (a for b in (c, d))
select * from values (1, 2), (3, 4) as t (a, b)
select * from range(10)
select * from range(1, 10, 2) as t (i)
select * from db.t
select * from cat.db.t as x
select 1
select 1 as a, 'x' as b
select transform(xs, x -> x + 1) as ys from source
select *, 'insert into' as note from source
select case when a then b else c end as d, cast(e as date) f from source
select /*+ broadcast(t) */ * from source join t on source.a = t.a
select a.b.c, a.d as e from source
select struct(a, b) as s, named_struct('x', a) t from source
select * from source where a is not null and (b > 1 or c like 'x%')
select * from source -- done
select cast(a as decimal(10, 2)) as a, to_date(b) as b from source where c in ('x', 'y')
select if(a, b, c) from source having a > 1
select a from source s where s.a = (select max(x.a) from source x)
select from_unixtime(a) as at from source
select *, count(*) over (partition by id) as copies from source
select first(a) as a, last(b ignore nulls) as b from source group by c
select * from source where where > 1
select from from from
select a as select from source
select * from source where
select a, from source
select * from source qualify row_number() over (order by a) = 1
""".splitlines()
    if line
]


def mistaken(texts: list[str], *, count: int, seed: int) -> Iterator[str]:
    """Texts with one or two words dropped, doubled, exchanged, or replaced by a word of another text."""
    drawn = random.Random(seed)
    words = [pieces for text in texts if (pieces := _pieces(text))]
    for _ in range(count):
        pieces = list(drawn.choice(words))
        for _ in range(drawn.choice((1, 1, 2))):
            at = drawn.randrange(len(pieces))
            match drawn.randrange(5):
                case 0:
                    del pieces[at]
                case 1:
                    pieces.insert(at, pieces[at])
                case 2:
                    other = drawn.randrange(len(pieces))
                    pieces[at], pieces[other] = pieces[other], pieces[at]
                case 3:
                    pieces[at] = drawn.choice(drawn.choice(words))
                case _:
                    pieces.insert(at, drawn.choice(drawn.choice(words)))
            if not pieces:
                break
        yield " ".join(pieces)


def combined(texts: list[str], *, count: int, seed: int) -> Iterator[str]:
    """Texts put into each other: whatever is an expression may stand within another one."""
    drawn = random.Random(seed)
    frames = [
        "({}) and ({})",
        "not ({}) or {}",
        "case when {} then {} else {} end",
        "f({}, {})",
        "({}) in ({}, {})",
        "cast({} as string) like {}",
        "({}) between ({}) and ({})",
        "array({}, {})[0]",
        "transform({}, x -> {})",
        "({}) + ({})",
        "{} and {}",
        "{} = {}",
        "coalesce({}, {}) is not null",
        "struct({} as x, {})",
    ]
    for _ in range(count):
        frame = drawn.choice(frames)
        yield frame.format(*(drawn.choice(texts) for _ in range(frame.count("{}"))))


def _pieces(text: str) -> list[str]:
    spaced = text
    for sign in "(),[]":
        spaced = spaced.replace(sign, f" {sign} ")
    return spaced.split()


_PIECES = [
    "'",
    '"',
    "`",
    "a",
    "b1",
    "r",
    "R",
    "x",
    "5",
    "1.5",
    "1e",
    "E+",
    "L",
    "bd",
    "--",
    "\\",
    "/*",
    "*/",
    "/*+",
    "+",
    "-",
    "/",
    "*",
    "://",
    "$",
    "$t$",
    "é",
    "=",
    "<",
    ">",
    "!",
    "|",
    ".",
    "_",
    "%",
    "?",
    "#",
    ":",
    "@",
    "(",
    ")",
    ",",
    "and",
    "é",
]


def token_texts():
    """Texts made of what begins, ends or is a token, or looks so."""
    piece = st.sampled_from([*_PIECES, " ", "\n", "\r", "\\\n", "\x0b", "\xa0"])
    return st.lists(piece, max_size=12).map("".join)
