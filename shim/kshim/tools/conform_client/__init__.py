"""`kshim conform-client`: starts a consumer program against brokers that fail in a controlled way, and judges what it does."""
