"""The offline backend: seeded, deterministic, free. It writes from the facts of a request and from the banks."""
