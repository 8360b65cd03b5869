"""Publishing versions of a dataset to the Hub."""
