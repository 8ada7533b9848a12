"""The demo on a model behind an API: the same story, from a server that speaks OpenAI's format."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from typing_extensions import override

from tests.e2e.processes import Place
from tests.support.loopback.model_servers import chat_piece

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

pytestmark = pytest.mark.e2e


def reply(messages: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What an obedient model says next: one call after the other, then a sentence."""
    asked = str(next(each["content"] for each in messages if each["role"] == "user"))
    url = re.findall(r"http://\S+/orders", asked)[0]
    order = re.findall(r"\{.*?\}", asked)[0]
    calls = [("http_post", {"url": url, "body": order})]
    if asked.startswith("Write"):
        calls.insert(0, ("files_write", {"path": "orders/17.json", "content": order}))
    done = sum(each["role"] == "tool" for each in messages)
    if done == len(calls):
        return {"content": "Order 17 is on its way." if done > 1 else "That is all."}
    name, arguments = calls[done]
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "tool_calls": [{"index": 0, "id": f"c{done}", "type": "function", "function": function}]
    }


class Model(BaseHTTPRequestHandler):
    """One answer a request, in two chunks and an end."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = reply(body["messages"])
        finish = "tool_calls" if "tool_calls" in said else "stop"
        pieces = (chat_piece({"role": "assistant", **said}), chat_piece({}, finish=finish))
        content = b"".join(pieces) + b"data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def model_server() -> Iterator[str]:
    """The base URL of the model, for the length of the block."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_the_same_demo_runs_on_a_model_behind_an_api(tmp_path: Path) -> None:
    with model_server() as url:
        servers = json.dumps({"house": {"base_url": url, "api_key": "of-no-account"}})
        settings = ("TURNGATE_MODEL=compatible:house", f"TURNGATE_COMPATIBLE={servers}")
        done = Place(tmp_path, settings).run("demo")
    assert (done.returncode, done.stderr) == (0, "")
    at = 0
    for part in (
        *("model compatible:house", "files_write", "approval.requested", "exact bytes"),
        *("tool.started", "http_post", "Order 17 is on its way.", "the receiver got", "sound"),
        *("An order is denied", "denied by human approver", "That is all."),
        *("An order is corrected", "the receiver got", '"amount":3'),
    ):
        at = done.stdout.find(part, at)
        assert at >= 0, f"{part!r} is missing:\n{done.stdout}"
