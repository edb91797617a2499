"""Hypotheses: which disturbances each would explain, and what it predicts of them."""
