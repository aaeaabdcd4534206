"""The queries of tables, learned from the logs of the engines that ran them."""
