"""Can a benchmark be beaten without reading it, and is it whole?"""
