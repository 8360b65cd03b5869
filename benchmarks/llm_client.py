"""How close calls to a language model come to the pace of the endpoint: 50 ms an answer, 32 calls under way.

    python benchmarks/llm_client.py

A server in a process of its own answers each request after 50 ms, however many there are, so that 32 calls at a time
could be done at 640 a second. Each round makes 2,000 calls the way a run makes them (prompt, endpoint, validation,
cache of replies, ledger), 500 calls of that kind for the memory, and 2,000 through the endpoint alone; each in a
process of its own, with its clock started after the imports and a call of each thread.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from support.measure import Child, Target, argument_parser, conclude, in_child, interleave, median_ratio, print_table

LATENCY = 0.05
CONCURRENCY = 32

ANSWER = (
    "Count from the far end of the row, and write down each place as you pass it; the one that is left over belongs to "
    "the next row. "
) * 4
REPLY = {"turns": [{"user": "How do I count these without losing my place?", "assistant": ANSWER}] * 2}


class Protocol(asyncio.Protocol):
    """HTTP as one client speaks it: requests with a length, one after another on a connection that stays open."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep where answers go."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer a whole request when its time has come."""
        self.received += data
        head, end, body = self.received.partition(b"\r\n\r\n")
        if end and len(body) >= int(head.lower().partition(b"\r\ncontent-length:")[2].split(b"\r\n")[0]):
            self.received = b""
            asyncio.get_running_loop().call_later(LATENCY, self.transport.write, self.answer)


def serve(sender: Connection) -> None:
    """Answer until this process is ended; send the port first."""
    message = {"role": "assistant", "content": json.dumps(REPLY)}
    completion = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 120, "completion_tokens": 260, "total_tokens": 380},
    }
    body = json.dumps(completion).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(
            lambda: Protocol(head.encode() + body), "127.0.0.1", backlog=256
        )
        sender.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


@contextmanager
def served() -> Iterator[str]:
    """Give the URL of the server."""
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=serve, args=(sender,), daemon=True)
    process.start()
    yield f"http://127.0.0.1:{receiver.recv()}/v1"
    process.kill()
    process.join()


def make_calls(url: str, calls: int, whole: bool) -> tuple[float, float]:
    """Make calls with different prompts, the whole way as a run makes them or through the endpoint alone.

    Returns:
        The seconds, and those of the processor.
    """
    from generation.llm.cache import ReplyCache
    from generation.llm.client import Account, Call, ChatMessage, Client, Request
    from generation.llm.endpoint import Endpoint
    from generation.llm.ledger import Ledger
    from generation.parallel import ordered_results
    from generation.prompts import render
    from generation.stages.fillers import FillerReply

    os.environ |= {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none"}
    endpoint = Endpoint("loopback", temperature=0.8, max_tokens=1000)

    def request(number: int) -> Request:
        facts = {"kind": "mathematics", "title": f"counting {number} things in rows of unequal length"}
        return Request("filler", facts, ("filler", number))

    def bare(number: int) -> None:
        prompt = ChatMessage("user", render("filler", request(number).facts))
        endpoint.complete(Call(request(number), [prompt], FillerReply, number))

    with tempfile.TemporaryDirectory() as folder:
        account = Account(Ledger(Path(folder) / "ledger.jsonl", {}), "fillers", "loopback", 1000)
        client = Client(endpoint, ReplyCache(Path(folder) / "replies.sqlite"), 3, account)

        def ask(number: int) -> None:
            client.ask(request(number), FillerReply)

        call: Callable[[int], None] = ask if whole else bare
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            list(pool.map(call, range(-CONCURRENCY, 0)))
            start, start_cpu = time.perf_counter(), time.process_time()
            for _ in ordered_results(pool, CONCURRENCY * 8, call, range(calls)):
                pass
            return time.perf_counter() - start, time.process_time() - start_cpu


def main() -> None:
    """Run the script."""
    arguments = argument_parser(__doc__).parse_args()
    many, few, rounds = (600, 150, 1) if arguments.quick else (2000, 500, 3)
    with served() as url:
        children: dict[str, list[Child]] = interleave(
            {
                f"{many:,} calls": lambda: in_child(make_calls, url, many, True),
                f"{few:,} calls": lambda: in_child(make_calls, url, few, True),
                f"{many:,} calls, endpoint alone": lambda: in_child(make_calls, url, many, False),
            },
            rounds,
        )
    calls = dict(zip(children, (many, few, many), strict=True))
    ideal = {name: count * LATENCY / CONCURRENCY for name, count in calls.items()}
    figures: dict[str, list[dict[str, Any]]] = {
        name: [{"seconds": c.result[0], "cpu": c.result[1], "private_mb": c.private_mb} for c in done]
        for name, done in children.items()
    }

    def median(name: str, key: str) -> float:
        return statistics.median(figure[key] for figure in figures[name])

    rows = [
        [
            name,
            f"{median(name, 'seconds'):.2f}",
            f"{ideal[name]:.2f}",
            f"{count / median(name, 'seconds'):.0f}",
            f"{ideal[name] / median(name, 'seconds'):.0%}",
            f"{1000 * median(name, 'cpu') / count:.2f}",
            f"{median(name, 'private_mb'):.0f}",
        ]
        for name, count in calls.items()
    ]
    header = ["", "seconds", "ideal", "calls/s", "of the ideal rate", "CPU ms a call", "private MB"]
    print_table(f"{LATENCY * 1000:.0f} ms an answer, {CONCURRENCY} calls under way", header, rows)
    first, second, _ = children
    memory = {name: [c.private_mb for c in children[name]] for name in (first, second)}
    conclude(
        arguments,
        [
            Target("time over the ideal (80 % of its rate)", median(first, "seconds") / ideal[first], 1.25, "times"),
            Target(
                f"memory, {many:,} against {few:,} calls", median_ratio(memory[first], memory[second]), 1.1, "times"
            ),
        ],
        figures,
    )


if __name__ == "__main__":
    main()
