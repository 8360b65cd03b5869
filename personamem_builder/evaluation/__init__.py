"""The lm-eval tasks, the floor model, and the runner."""
