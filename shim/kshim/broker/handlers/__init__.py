"""One module an API, grouped by area; `broker/handler_table.py` says where each is."""
