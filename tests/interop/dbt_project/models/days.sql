select order_day from {{ ref('orders') }} group by all
