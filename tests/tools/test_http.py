"""HTTP tools against real listeners: nothing private is reached, what is reached is bounded."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from app.tools.builtin.http_fetch import http_fetch
from app.tools.builtin.http_post import http_post
from app.tools.http import MAX_BODY_BYTES, OutboundHttp
from app.tools.sandbox.workspace import ConversationWorkspace
from tests.support.loopback.web_server import page, web_server
from tests.tools.played import FilesInMemory, FixedClock, invocation, result_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from app.turn.ports import ToolOutcome

WORKSPACE = ConversationWorkspace(FilesInMemory(), "conv_1", clock=FixedClock())


@pytest.fixture
async def web() -> AsyncIterator[OutboundHttp]:
    """Reaches whatever is on 127.0.0.1, and nothing else that is private."""
    http = OutboundHttp(["127.0.0.1"])
    yield http
    await http.aclose()


async def fetch(http: OutboundHttp, url: str) -> ToolOutcome:
    return await http_fetch(http).body(invocation("http_fetch", {"url": url}), WORKSPACE)


async def post(http: OutboundHttp, url: str, **args: str) -> ToolOutcome:
    call = invocation("http_post", {"url": url, "body": '{"n":1}', **args})
    return await http_post(http).body(call, WORKSPACE)


SPELLINGS = [
    "2130706434",
    "0x7f000002",
    "0177.0.0.2",
    "127.2",
    "127.0.0.2",
    "[::ffff:127.0.0.2]",
    "[::ffff:7f00:2]",
    "user@127.0.0.2",
    str(IPv4Address(0)),
    "0",
    "localhost",
]


@pytest.mark.parametrize("host", SPELLINGS)
async def test_f103_no_spelling_of_a_private_address_reaches_its_listener(host: str) -> None:
    async with web_server("127.0.0.2") as private:
        http = OutboundHttp()
        for outcome in (
            await fetch(http, private.url(host=host)),
            await post(http, private.url(host=host)),
        ):
            assert outcome.code == "address_refused"
            assert result_of(outcome)["code"] == "address_refused"
        await http.aclose()
        assert private.connections == 0


OTHERS = ["10.0.0.1", "169.254.169.254", "[::1]", "[fe80::1]", "[fd00::1]", "[fd00:ec2::254]"]


@pytest.mark.parametrize("host", OTHERS)
async def test_f103_private_and_metadata_addresses_are_refused(host: str) -> None:
    http = OutboundHttp()
    assert (await fetch(http, f"http://{host}/latest/meta-data/")).code == "address_refused"


@pytest.mark.parametrize("status", ["301 A", "302 A", "303 A", "307 A", "308 A"])
async def test_f103_a_redirect_to_a_refused_address_is_not_followed(
    web: OutboundHttp, status: str
) -> None:
    async with web_server("127.0.0.2") as private, web_server() as public:
        for place in (
            private.url(),
            private.url(host="127.2"),
            "file:///etc/passwd",
            "http://0177.0.0.2/",
        ):
            public.pages["/"] = page(status=status, headers=(("Location", place),))
            assert (await fetch(web, public.url())).code == "address_refused"
        assert private.connections == 0


async def test_f103_a_name_is_resolved_once_and_the_checked_address_is_connected_to() -> None:
    asked: list[tuple[str, int]] = []

    async def changing(host: str, port: int) -> Sequence[str]:
        asked.append((host, port))
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    async with web_server() as first:
        http = OutboundHttp(["rebinding.test"], resolve=changing)
        outcome = await fetch(http, first.url("/x?y=1", host="rebinding.test"))
        await http.aclose()
        assert outcome.code is None
        assert asked == [("rebinding.test", first.port)]
        assert first.seen[0].headers["host"] == f"rebinding.test:{first.port}"
        assert first.seen[0].path == "/x?y=1"


async def test_f103_a_name_with_a_private_address_is_refused() -> None:
    async def inward(host: str, port: int) -> Sequence[str]:
        return ["8.8.8.8", "127.0.0.1"]

    async with web_server() as private:
        http = OutboundHttp(resolve=inward)
        assert (await fetch(http, private.url(host="public.test"))).code == "address_refused"
        assert private.connections == 0


async def test_the_next_address_is_tried_only_if_the_first_was_not_reached() -> None:
    async def two(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.3", "127.0.0.1"]

    async with web_server() as there:
        http = OutboundHttp(["two.test"], resolve=two)
        assert result_of(await fetch(http, there.url(host="two.test")))["status"] == 404
        await http.aclose()


async def test_tls_is_spoken_to_the_name_although_the_address_is_pinned(tmp_path: Path) -> None:
    names: list[str] = []
    tls = _self_signed(tmp_path)
    tls.sni_callback = lambda _socket, name, _context: names.append(name)

    async def here(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    async with web_server(tls=tls) as there:
        http = OutboundHttp(["name.test"], resolve=here)
        outcome = await fetch(http, f"https://name.test:{there.port}/")
        await http.aclose()
    assert names == ["name.test"]
    assert outcome.code == "tool_failed"  # Nobody vouches for that certificate.


def _self_signed(folder: Path) -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "name.test")])
    now = datetime(2026, 11, 29, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=36500))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    text = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ) + certificate.public_bytes(pem)
    path = folder / "server.pem"
    path.write_bytes(text)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


async def test_a_fetch_answers_with_status_content_type_and_body(web: OutboundHttp) -> None:
    async with web_server() as there:
        there.pages["/a"] = page(
            "grüße".encode("iso-8859-1"),
            status="503 Busy",
            headers=(("Content-Type", "text/plain; charset=ISO-8859-1"),),
        )
        outcome = await fetch(web, there.url("/a"))
        assert result_of(outcome) == {
            "status": 503,
            "content_type": "text/plain; charset=ISO-8859-1",
            "body": "grüße",
        }
        assert outcome.code is None
        assert there.seen[0].headers["accept-encoding"] == "identity"
        assert "cookie" not in there.seen[0].headers


async def test_an_unknown_charset_is_read_as_utf_8_with_replacements(web: OutboundHttp) -> None:
    async with web_server() as there:
        there.pages["/"] = page(b"a\xff", headers=(("Content-Type", "text/plain; charset=zip"),))
        assert result_of(await fetch(web, there.url()))["body"] == "a\ufffd"


async def test_a_long_body_is_cut_and_the_result_says_so(web: OutboundHttp) -> None:
    async with web_server() as there:
        there.pages["/exact"] = page(b"x" * MAX_BODY_BYTES)
        there.pages["/more"] = page(b"x" * (MAX_BODY_BYTES + 1))
        exact = result_of(await fetch(web, there.url("/exact")))
        more = result_of(await fetch(web, there.url("/more")))
        assert (len(exact["body"]), "truncated" in exact) == (1024 * 1024, False)
        assert (len(more["body"]), more["truncated"]) == (1024 * 1024, True)


async def test_an_encoded_body_is_a_legible_failure(web: OutboundHttp) -> None:
    async with web_server() as there:
        there.pages["/"] = page(b"\x1f\x8b", headers=(("Content-Encoding", "gzip"),))
        outcome = await fetch(web, there.url())
        assert outcome.code == "tool_failed"
        assert "gzip" in result_of(outcome)["error"]


async def test_redirects_are_followed_up_to_five_times(web: OutboundHttp) -> None:
    async with web_server() as there:
        for hop in range(6):
            there.pages[f"/{hop}"] = page(status="302 F", headers=(("Location", f"{hop + 1}"),))
        there.pages["/6"] = page(b"here")
        assert result_of(await fetch(web, there.url("/1")))["body"] == "here"
        assert (await fetch(web, there.url("/0"))).code == "tool_failed"


async def test_a_cookie_that_one_call_got_is_not_sent_by_the_next(web: OutboundHttp) -> None:
    async with web_server() as there:
        there.pages["/"] = page(headers=(("Set-Cookie", "session=secret"),))
        await fetch(web, there.url())
        await fetch(web, there.url())
        assert "cookie" not in there.seen[1].headers


async def test_a_post_sends_body_type_and_idempotency_key(web: OutboundHttp) -> None:
    async with web_server() as there:
        there.pages["/orders"] = page(b"{}", status="201 Created")
        assert result_of(await post(web, there.url("/orders")))["status"] == 201
        await post(web, there.url("/orders"), content_type="text/plain")
        first, second = there.seen
        assert (first.method, first.body) == ("POST", b'{"n":1}')
        assert first.headers["content-type"] == "application/json"
        assert first.headers["idempotency-key"] == "run_1:call-7"
        assert second.headers["content-type"] == "text/plain"


async def test_a_post_is_sent_on_within_its_origin_only(web: OutboundHttp) -> None:
    async with web_server() as there, web_server() as other:
        there.pages["/a"] = page(status="307 T", headers=(("Location", "/b"),))
        there.pages["/b"] = page(status="308 P", headers=(("Location", other.url()),))
        outcome = await post(web, there.url("/a"))
        assert outcome.code == "tool_failed"
        assert [(seen.method, seen.path) for seen in there.seen] == [("POST", "/a"), ("POST", "/b")]
        assert other.connections == 0


async def test_a_post_redirected_by_303_is_read_with_get_and_without_its_key(
    web: OutboundHttp,
) -> None:
    async with web_server() as there, web_server() as other:
        there.pages["/a"] = page(status="303 S", headers=(("Location", other.url("/b")),))
        other.pages["/b"] = page(b"seen")
        assert result_of(await post(web, there.url("/a")))["body"] == "seen"
        assert (other.seen[0].method, other.seen[0].body) == ("GET", b"")
        assert "idempotency-key" not in other.seen[0].headers


async def test_a_server_that_is_not_there_is_a_legible_failure(web: OutboundHttp) -> None:
    async with web_server() as gone:
        url = gone.url()
    outcome = await fetch(web, url)
    assert outcome.code == "tool_failed"
    assert result_of(outcome) == {
        "error": "the request failed: ConnectError",
        "code": "tool_failed",
    }


async def test_a_server_that_does_not_answer_is_given_up_and_its_connection_closed() -> None:
    closed = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        closed.set()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        http = OutboundHttp(["127.0.0.1"], limit_s=0.2)
        outcome = await fetch(http, f"http://127.0.0.1:{port}/")
        await asyncio.wait_for(closed.wait(), 10)
        await http.aclose()
    assert outcome.code == "tool_failed"
    assert result_of(outcome)["error"] == "no answer within 0.2 s"


async def test_a_host_without_an_address_is_refused() -> None:
    assert (await fetch(OutboundHttp(), f"http://{'a' * 64}.test/")).code == "address_refused"
