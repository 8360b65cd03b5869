"""Banks: what the generator draws from, as YAML files and the checks that they pass."""
