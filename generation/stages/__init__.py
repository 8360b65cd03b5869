"""The stages of a run. None imports another: each reads what the one before wrote."""
