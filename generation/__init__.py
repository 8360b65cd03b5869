"""Generation of personas, histories, sessions and questions.

Knows nothing of `datasets`, the Hub or lm-eval: `personamem_builder` turns what this package makes into a
benchmark.
"""
