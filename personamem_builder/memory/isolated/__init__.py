"""Memory systems that live in a process and an environment of their own, as their pins clash with ours."""
