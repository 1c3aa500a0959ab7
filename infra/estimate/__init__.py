"""What a month costs, from the same graph that is deployed. List prices, no data transfer, no discounts."""
