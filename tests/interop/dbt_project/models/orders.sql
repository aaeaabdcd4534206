select 1::bigint as order_id, 1::bigint as customer_id, 'open' as state, 1.00::decimal(12,2) as amount,
  now() as updated_at, current_date as order_day
from {{ ref('customers') }}
