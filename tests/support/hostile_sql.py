"""SQL that a stranger would put into a spec, and SQL beside it that is ordinary: what each check is compared with."""

from __future__ import annotations

FILE = "/etc/passwd"

HOSTILE_EXPRESSIONS = [
    line.replace("FILE", FILE)
    for line in r"""
id in (table foo)
id in (select id from foo)
id not in (from text.`FILE`)
exists (from text.`FILE`)
exists (select 1 from csv.`FILE`)
not exists (table foo)
(from text.`FILE`) = 'x'
(select max(value) from text.`FILE`) = 'x'
(table foo) is null
(with a as (select 1) select * from a) = 1
(select 1) = 1
id = (select 1 from text.`s3a://bucket/x`)
case when exists (table foo) then 1 else 2 end = 1
transform(array(1), x -> (select max(id) from foo))[0] = 1
count(*) filter (where id in (table foo)) > 1
sum(id) over (partition by (select 1 from foo)) > 1
coalesce((select value from text.`FILE`), 'x') = 'y'
struct((select value from text.`FILE`)).col1 = 'y'
id between 1 and (select max(id) from foo)
id like any ('a', (select value from text.`FILE`))
cast((select value from text.`FILE`) as string) = 'x'
id = 1 /* /* nested */ */ or exists (table/**/foo)
id = 1 or (map id using 'cat' from foo) = 1
id = 1 or (reduce id using 'cat' from foo) = 1
id = 1 or (select transform(id) using 'cat' from foo) = 1
reflect('java.lang.System', 'getenv', 'HOME') = 'x'
java_method('java.lang.System', 'getenv', 'HOME') = 'x'
try_reflect('java.lang.System', 'getenv', 'HOME') = 'x'
ReFlEcT('java.lang.System', 'getenv', 'HOME') = 'x'
`reflect`('java.lang.System', 'getenv', 'HOME') = 'x'
reflect /* x */ ('java.lang.System', 'getenv', 'HOME') = 'x'
system.builtin.reflect('java.lang.System', 'getenv', 'HOME') = 'x'
transform(array(1), x -> reflect('java.lang.System', 'getenv', 'HOME'))[0] = 'x'
identifier('reflect')('java.lang.System', 'getenv', 'HOME') = 'x'
identifier('ref' || 'lect')('java.lang.System', 'getenv', 'HOME') = 'x'
default.stolen(id) = 1
spark_catalog.default.stolen(id) = 1
`a.b`.stolen(id) = 1
from_protobuf(id, 'M', 'FILE') is null
to_protobuf(id, 'M', 'FILE') is null
from_xml(id, 'a int', map('rowValidationXSDPath', 'FILE')) is null
from_avro(id, '"int"', map('avroSchemaUrl', 'FILE')) is null
schema_of_xml(id, map('rowValidationXSDPath', 'FILE')) is null
xpath_string(concat('<!DOCTYPE a SYSTEM "http://127.0.0.1:1/?', name, '"><a/>'), 'a') = 'x'
size(xpath(name, 'a/b')) = 1
system.builtin.xpath_boolean(name, 'a/b')
`XPATH_Int`(name, 'a/b') = 1
id = '${env:HOME}'
id = '${system:user.home}'
id = ${spark.hadoop.fs.s3a.secret.key}
id = '${hiveconf:x}'
id = :p
id = ?
id = 1; drop table foo
id = 1) or (1 = 1
""".splitlines()
    if line
]

HOSTILE_QUERIES = [
    line.replace("FILE", FILE)
    for line in r"""
select * from csv.`FILE`
select * from text.`FILE`
select * from `text`.`FILE`
select * from parquet.`s3a://bucket/x`
select * from binaryFile.`FILE`
select * from foo
select * from default.foo
select * from spark_catalog.default.source
select * from default.source
select * from global_temp.foo
select * from `source.x`
select * from `csv./etc/passwd`
table foo
from foo
from text.`FILE`
(table foo)
select * from source union all select * from foo
select * from source union all (table foo)
select * from source except (from text.`FILE`)
select * from source, foo
select * from source s join foo on s.id = foo.id
select * from source join text.`FILE` on true
select * from source left anti join csv.`FILE` using (id)
select * from source natural join foo
select * from (source join foo on true)
select * from (select * from text.`FILE`) x
select * from ((from text.`FILE`)) x
select * from source where id in (table foo)
select * from source where exists (from text.`FILE`)
select (select max(value) from text.`FILE`) as x from source
select * from source order by (select 1 from text.`FILE`)
select * from source limit (select count(*) from text.`FILE`)
select id from source group by id having max(id) > (select count(*) from foo)
select count(*) filter (where id in (select value from text.`FILE`)) from source
select sum(id) over (partition by (select 1 from foo)) from source
select transform(xs, x -> (select max(id) from foo)) as y from source
values (1, (select max(value) from text.`FILE`))
select * from values (1, (select max(value) from text.`FILE`)) as t (a, b)
select * from source lateral view explode((select collect_list(value) from text.`FILE`)) t as x
select * from source lateral view reflect('java.lang.System', 'getenv', 'HOME') t as x
select * from source lateral view outer java_method('java.lang.System', 'getenv', 'HOME') t as x
select * from source lateral view stolen(id) t as x
select * from source, lateral (select * from foo)
select * from source join lateral (select * from text.`FILE`) on true
select * from source tablesample (5 rows) union all select * from foo tablesample (5 rows)
select * from foo tablesample (10 percent)
select * from reflect('java.lang.System', 'getenv', 'HOME')
select * from java_method('java.lang.System', 'getenv', 'HOME')
select * from stolen(1)
select * from default.stolen(1)
select * from stolen(table(source))
select * from hudi_query('/t', 'latest_state')
select * from python_worker_logs()
with foo as (select * from foo) select * from foo
with a as (select * from foo) select * from a
with a as (select * from b), b as (select 1) select * from a
select * from (with foo as (select 1) select * from foo) x, foo
with a as (with foo as (select 1) select * from foo) select * from foo
select * from source where id in (with foo as (select 1) select * from foo) or exists (table foo)
with text as (select 1) select * from text.`FILE`
with source as (select * from foo) select * from source
select * from identifier('foo')
select * from identifier('text.`FILE`')
select identifier('reflect')('java.lang.System', 'getenv', 'HOME') from source
select default.stolen(id) from source
select transform(id) using 'cat' as x from source
from source map id using 'cat' as x
from source reduce id using 'cat' as x
select * from foo version as of 1
select * from foo timestamp as of '2020-01-01'
select '${env:HOME}' as x from source
select ${system:user.home} as x from source
select :p from source
select * from source where id = ?
select reflect('java.lang.System', 'getenv', 'HOME') as x from source
select /*+ broadcast(x) */ reflect('java.lang.System', 'getenv', 'HOME') as x from source
select a from source qualify row_number() over (order by (select 1 from foo)) = 1
select * from source pivot (sum(a) for b in ('x')) union all select * from foo
select * from (select * from foo) pivot (sum(a) for b in ('x'))
select * from foo unpivot (a for b in (c, d))
set spark.sql.variable.substitute=true
add jar '/tmp/x.jar'
create temporary function f as 'x'
create table x as select * from source
create or replace temporary view source as select 1
insert into foo select * from source
insert overwrite directory '/tmp/x' select * from source
from source insert into foo select *
with a as (select 1) insert into foo select * from a
drop table foo
cache table foo
describe foo
explain select * from source
refresh table foo
load data inpath '/x' into table foo
execute immediate 'select 1'
declare x int
begin select 1; end
select * from source; drop table foo
call x.y()
use default
reset
show tables
analyze table foo compute statistics
""".splitlines()
    if line
]

HOSTILE_QUERIES_OF_SPARK_4 = [
    line.replace("FILE", FILE)
    for line in r"""
from foo |> where id = 1
from source |> join csv.`FILE` on true
from source |> union all (table foo)
from source |> where id in (table foo)
from source |> extend (select max(value) from text.`FILE`) as x
from source |> tablesample (10 percent) |> join foo on true
table foo |> limit 1
select * from stream foo
select * from stream(foo)
select * from source with ('a' = 'b') union all select * from foo with ('a' = 'b')
with recursive foo as (select * from bar union all select * from foo) select * from foo
""".splitlines()
    if line
]

ORDINARY_EXPRESSIONS = [
    line
    for line in r"""
id > 1 and name like 'x%'
name = 'select * from foo' or name = 'reflect(1)'
name = "from text.`/etc/passwd`"
name rlike '^a{2}$' and name <> '$x'
id in (1, 2, 3)
exists(array(id), x -> x > 1)
filter(array(id), x -> x > 1)[0] = 1
extract(year from current_date()) = 2020
trim(both 'x' from name) = substring(name from 2 for 3)
id is not distinct from 1
case when id > 1 then upper(name) else lower(name) end = 'x'
sum(id) over (partition by name order by id rows between 1 preceding and current row) > 1
cast(id as decimal(10, 2)) > 1.5
to_date(name, 'yyyy-MM-dd') >= date '2020-01-01' - interval 1 day
get_json_object(name, '$.a.b') = 'x'
from_json(name, 'a int, b string', map('mode', 'FAILFAST')).a = 1
from_json(name, 'a int').a = 1
current_user() = 'x' and version() is not null and input_file_name() = ''
system.builtin.upper(name) = 'X'
coalesce(nullif(name, ''), 'x') || concat_ws('-', name, id) = 'y'
named_struct('a', id).a = 1 and map('k', 1)['k'] = 1
md5(name) = sha2(name, 256) and xxhash64(id, name) % 10 = 1
`id` = 1 /* a comment, from foo */
count(*) filter (where id > 1) > 1
aes_decrypt(unbase64(name), 'k') is not null
""".splitlines()
    if line
]

ORDINARY_QUERIES = [
    line
    for line in r"""
select * from source
SELECT * FROM SOURCE s WHERE s.id > 1
select * from `source`
select source.id, upper(source.name) as name from source
select 1 as id
select * from source where id in (select max(id) from source)
select *, (select max(id) from source) as newest from source
select * from source a join source b on a.id = b.id
select * from source a left anti join (select id from source where name = 'x') b using (id)
with a as (select * from source) select * from a
with a as (select * from source), b as (select * from a) select * from a join b using (id)
with source as (select * from source where id > 1) select * from source
with a (x) as (select id from source) select x from a where x in (with b as (select x from a) select * from b)
select * from source union all select * from source where id = 1
select * from source except select * from source where id = 1
select id, explode(array(1, 2)) as x from source
select * from source lateral view explode(array(1, 2)) t as x
select * from source lateral view outer posexplode(array(1, 2)) t as p, x
select * from source lateral view json_tuple(name, 'a', 'b') t as a, b
select * from source, lateral (select id + 1 as next)
select * from source, lateral explode(array(1, 2)) as t (x)
select s.id, t.x from source s join range(3) as t (x) on true
select * from source join (values (1, 'a'), (2, 'b')) as v (id, label) using (id)
select * from source join values (1, 'a'), (2, 'b') as v (id, label) using (id)
select stack(2, id, name, id, name) as (a, b) from source
select inline(array(struct(id, name))) from source
select id, count(*) as n from source group by all having n > 1 order by n desc nulls last limit 10 offset 1
select id, name, sum(id) from source group by grouping sets ((id), (id, name))
select id, name, sum(id) from source group by rollup (id, name)
select id, row_number() over w as n from source window w as (partition by id order by name)
select * from source pivot (sum(id) for name in ('x', 'y'))
select * from source unpivot (v for k in (id))
select * from source tablesample (10 percent)
select /*+ repartition(3) */ * from source
select distinct name from source cluster by name
select name from source distribute by name sort by name
select transform(array(id), x -> x + 1) as xs, struct(id, name) as s from source
select extract(year from current_date()) as y, trim(both from name) as t from source
select *, 'insert into foo select * from bar' as note from source -- from foo
select id from (table source)
select id is distinct from 1 as x from source
select CAST(`id` AS bigint) AS order_id from source
""".splitlines()
    if line
]

ORDINARY_QUERIES_OF_SPARK_4 = [
    line
    for line in r"""
select * from source |> where id > 1 |> select id, upper(name) as name |> limit 10
select * from source |> extend id + 1 as next |> set next = 2 |> drop name |> as t
select * from source |> aggregate count(*) as n group by name |> order by n desc
select * from source |> join source as b using (id) |> union all (table source)
with recursive t as (select 1 as n union all select n + 1 from t where n < 5) select * from t
select * from source where id in (select n from (with t as (select 1 as n) select * from t))
""".splitlines()
    if line
]

# `select` has to begin with SELECT or WITH; elsewhere these are queries as well.
ORDINARY_FOR_SPARK_ALONE = [
    "from source select id where id > 1",
    "table source",
    "(select id from source) union all (select id from source)",
    "values (1, 'x')",
]
