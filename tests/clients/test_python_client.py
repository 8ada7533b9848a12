"""The Python client that openapi-python-client generates does the main job (service.md 1, F129)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from app.service.clock import SystemClock
from tests.clients.generated import OPENAPI_PYTHON_CLIENT, PACKAGE, PythonClient, generate_python
from tests.docs.samples import program

if TYPE_CHECKING:
    from tests.clients.conftest import Address

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not OPENAPI_PYTHON_CLIENT.exists(), reason="`make tools` has not been run"),
]


@pytest.fixture(scope="module")
def client(address: Address, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Alice's client, generated afresh."""
    folder = tmp_path_factory.mktemp("python")
    generate_python(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        connection = __import__(PACKAGE).AuthenticatedClient(
            base_url=address.url,
            token=address.token("alice"),
            timeout=60,
            httpx_args={"trust_env": False},
        )
        with connection:
            yield PythonClient(connection)


def test_the_main_job_through_a_generated_client(client: PythonClient) -> None:
    """F3: a decision signed by this client is taken."""
    sign, key = program("docs/approving.md"), ec.derive_private_key(7, ec.SECP256R1())
    key_id = registered(client, sign, key)
    run = paused(client)
    assert run.status == "paused"
    [asked] = run.pause.approvals

    approval = client.call("approvals.get_approval", asked.id)
    draft = client.model("DraftDecision", decision=client.model("Verdict", value="approve"))
    unsigned = client.call("approvals.prepare_decision", asked.id, body=draft)
    signed = sign["decision"](
        key,
        key_id,
        approval=approval.to_dict(),
        canonical=unsigned.canonical,
        choice="approve",
    )
    body = client.model("SignedDecision", decision_jws=signed["decision_jws"])
    result = client.call("approvals.approve_approval", asked.id, body=body)
    assert (result.persisted, result.approval.status) == (True, "approved")

    events = read_to_the_end(client, run.id)
    assert [event.seq for event in events] == sorted({event.seq for event in events})
    assert {type(event).__name__ for event in events} >= {"RunCreatedEvent", "ToolCompletedEvent"}
    assert events[-1].type_ == "run.completed"
    assert events[-1].data.answer.answer == "told"
    assert events[-1].trust == events[0].trust == "unspecified"
    assert client.call("runs.get_run", run.id).status == "completed"


def test_a_problem_is_a_value_of_its_own(client: PythonClient) -> None:
    missing = client.call("runs.get_run", "run_0")
    assert (type(missing).__name__, missing.code) == ("Problem", "not_found")


def registered(client: PythonClient, sign: dict[str, Any], key: Any) -> str:
    """The id of Alice's key."""
    now = SystemClock().now_s()
    body = sign["registration"](key, tenant="acme", sub="alice", label="laptop", now=now)
    jwk = client.model("PublicJwk", **body.pop("public_jwk"))
    known = client.call(
        "keys.register_key", body=client.model("RegisterKey", public_jwk=jwk, **body)
    )
    ident: str = known.id
    return ident


def paused(client: PythonClient) -> Any:
    """A run that asks before it tells the time."""
    consent = client.model("AgentSpecApproval")
    consent["clock_now"] = client.model("Consent", value="ask")
    spec = client.model("AgentSpec", model="script", tools=["clock_now"], approval=consent)
    assert client.call("agents.put_agent", "clock", body=spec).name == "clock"
    order = client.model("CreateRun", agent="clock", input_="call clock_now {}\n---\nsay told")
    return client.call("runs.create_run", body=order, prefer="wait=30", idempotency_key="order-1")


def read_to_the_end(client: PythonClient, run_id: str) -> list[Any]:
    """Every event of a run, once it is over."""
    events: list[Any] = []
    while not events or events[-1].type_ != "run.completed":
        after = events[-1].seq if events else 0
        page = client.call("events.list_run_events", run_id, after=after, wait=30)
        assert page.items, "nothing came for 30 seconds"
        events += page.items
    return events
