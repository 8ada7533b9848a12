"""What takes a turn can sign nothing: no import of it, however indirect, ends at a signer (T79)."""

from __future__ import annotations

from tests.architecture.sources import APP, ROOT, imports

# Where private keys are held, and where they are used.
SIGNERS = {"app.trust.jose", "app.trust.keys", "app.trust.seal", "app.trust.statement"}
SIGNS = {"sign_jws", "sign_seal", "sign_statement", "SigningKey"}

MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in APP.rglob("*.py")
}


def reached(start: set[str]) -> set[str]:
    """Every module of the house that the modules import, at whatever distance."""
    found: set[str] = set()
    ahead = set(start)
    while ahead:
        module = ahead.pop()
        found.add(module)
        names = {name for name, _ in imports(MODULES[module])}
        names |= {name.rpartition(".")[0] for name in names}
        ahead |= (names & MODULES.keys()) - found
    return found


def modules(*rooms: str) -> set[str]:
    return {name for name in MODULES if name.split(".")[1:2] and name.split(".")[1] in rooms}


def test_t79_no_import_path_of_the_engine_reaches_a_signer() -> None:
    engine = modules("engine", "policy", "runctx", "turn")
    assert {"app.turn.run", "app.engine.agent_run", "app.policy.gate"} <= engine
    assert not reached(engine) & SIGNERS


def test_every_module_that_signs_is_named_here() -> None:
    signing = {
        name
        for name in modules("trust")
        for function in SIGNS
        if f"{function}(" in MODULES[name].read_text()
        or f"class {function}" in MODULES[name].read_text()
    }
    assert signing == SIGNERS
    assert reached({"app.service.statements"}) >= {"app.trust.keys", "app.trust.statement"}
