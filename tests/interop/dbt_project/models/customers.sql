select 1::bigint as customer_id, null::varchar as email
