"""The commands of `turngate` and their options; what each needs is imported when it runs."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from app.errors import Misconfigured, StoreUnavailable, TurngateError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.settings import Settings

MISUSED: Final = 2
FAILED: Final = 1
TAMPERED: Final = 1
# Objects that may come and stay before the youngest are looked through.
COLLECTED_AFTER: Final = 10_000

# Rich's tracebacks would show the local variables, tokens among them.
app = typer.Typer(
    name="turngate",
    help="Runs AI agents' turns behind a gate.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

audit = typer.Typer(help="Export logs, and verify them.", no_args_is_help=True)
app.add_typer(audit, name="audit")

keys = typer.Typer(help="The keys that the service signs with.", no_args_is_help=True)
app.add_typer(keys, name="keys")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"turngate {version('turngate')}")
        raise typer.Exit


@app.callback()
def turngate(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print it, and end."),
    ] = False,
) -> None:
    """Runs AI agents' turns behind a gate."""


class Rebuilt(StrEnum):
    """What is made anew."""

    PROJECTIONS = "projections"
    MEMORY = "memory"


Migrate = Annotated[bool, typer.Option("--migrate/--no-migrate", help="Migrate first.")]


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    worker: Annotated[bool, typer.Option("--worker/--no-worker", help="Drive runs, too.")] = True,
    migrate: Migrate = True,
    print_token: Annotated[bool, typer.Option(help="Print a development token.")] = False,
    leash: Annotated[bool, typer.Option("--leash", hidden=True)] = False,
) -> None:
    """Serve the API, with a worker in the same process."""
    settings = _prepared()
    from app.cli.sockets import PortTaken, base_address, listening_socket

    with _told(failed=(PortTaken,)), listening_socket(host, port) as listener:
        with _uncollected():
            from app.cli.greeting import greeting
            from app.cli.serving import serve as serve_until_signal

        def greet() -> None:
            address = base_address(host, listener.getsockname()[1])
            print(greeting(settings, address, print_token=print_token), flush=True)

        serve_until_signal(
            settings, listener, worker=worker, migrate=migrate, greet=greet, leash=leash
        )


@app.command()
def worker(migrate: Migrate = True) -> None:
    """Drive runs without serving anything."""
    settings = _prepared()
    with _uncollected():
        from app.cli.working import work

    with _told():
        work(settings, migrate=migrate)


@app.command()
def demo(
    keep: Annotated[bool, typer.Option(envvar="KEEP", help="Leave the server running.")] = False,
) -> None:
    """Play the main job through the public API, on a server started for it."""
    settings = _settings()
    from app.cli.demo.server import DemoFailed
    from app.cli.demo.staging import demo as play

    with _told(failed=(DemoFailed,)):
        play(settings, keep=keep)


@app.command()
def token(
    tenant: Annotated[str, typer.Option(help="The tenant (tid).")],
    sub: Annotated[str, typer.Option(help="The principal (sub).")],
    scope: Annotated[str, typer.Option(help="Scopes, separated by spaces.")],
    roles: Annotated[str, typer.Option(help="Roles, separated by commas.")] = "",
    ttl: Annotated[int, typer.Option(min=1, help="Seconds that it holds.")] = 3600,
) -> None:
    """Print a token of the development issuer."""
    settings = _settings()
    from app.cli.issuing import NoDevelopmentIssuer, issue
    from app.service.access.development import IssuerUnreadable, TokenOrder, UnknownScope

    named = tuple(role.strip() for role in roles.split(",") if role.strip())
    order = TokenOrder(tenant, sub, tuple(scope.split()), named, ttl)
    with _told(failed=(IssuerUnreadable,), misused=(NoDevelopmentIssuer, UnknownScope)):
        print(issue(settings, order))


@app.command()
def migrate() -> None:
    """Bring the database to the schema of this release; safe from several replicas at once."""
    settings = _prepared()
    import asyncio

    from app.main.storage import open_database

    async def run() -> None:
        async with open_database(settings, migrate=True):
            pass

    with _told():
        asyncio.run(run())


@app.command()
def rebuild(
    what: Annotated[
        Rebuilt, typer.Argument(help="The projections, or what is remembered.")
    ] = Rebuilt.PROJECTIONS,
    conversation: Annotated[str | None, typer.Option(help="Only this conversation.")] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Put what differs right.")] = False,
) -> None:
    """Compare the projections with the log: exit 0 equal or repaired, 1 different.

    Of memory: add the turns that could not be stored, and embed those that are not yet.
    """
    settings = _settings()
    import asyncio

    if what is Rebuilt.MEMORY:
        from app.cli.remembering import remember_anew

        with _told():
            added, embedded = asyncio.run(remember_anew(settings))
        print(f"{added} turns were added\n{embedded} turns were embedded")
        return
    from app.cli.rebuilding import differences, told

    with _told():
        found = asyncio.run(differences(settings, conversation, repair=repair))
    print(*told(found, repair=repair), sep="\n")
    raise typer.Exit(FAILED if found and not repair else 0)


@app.command()
def openapi() -> None:
    """Print the description of the API, as app/api/openapi.json has it."""
    from app.api.app import openapi_document

    sys.stdout.buffer.write(openapi_document())


@app.command()
def bench(
    write: Annotated[bool, typer.Option("--write", help="Put it into docs/benchmarks.md.")] = False,
) -> None:
    """Measure, each number beside its baseline; needs a checkout and about three minutes."""
    from importlib.util import find_spec

    if find_spec("bench") is None:
        _end(ValueError("the bench is a part of the checkout, not of the installation"), MISUSED)
    from bench.__main__ import measure

    measure(write=write)


@keys.command()
def rotate(
    out: Annotated[
        Path | None, typer.Option(help="Where the new key goes if TURNGATE_SIGNING_KEY is set.")
    ] = None,
) -> None:
    """Publish a new key, to be used from the next start on. What the old one signed stays valid."""
    settings = _settings()
    import asyncio

    from app.cli.rotating import rotate as publish

    with _told():
        print(asyncio.run(publish(settings, out)))


@audit.command()
def export(
    conversation: Annotated[str, typer.Option(help="The id of the conversation.")],
    out: Annotated[Path, typer.Option(help="The file to write.")],
) -> None:
    """Write a conversation's log with the public keys that prove it."""
    settings = _settings()
    import asyncio

    from app.cli.auditing import NoSuchLog
    from app.cli.auditing import export as write

    with _told(failed=(OSError,), misused=(NoSuchLog,)):
        count = asyncio.run(write(settings, conversation, out))
        print(f"{count} events written to {out}")


@audit.command()
def verify(
    file: Annotated[
        Path | None, typer.Argument(help="An export; without it, what is stored.")
    ] = None,
    conversation: Annotated[str | None, typer.Option(help="Only this conversation's log.")] = None,
) -> None:
    """Verify chain and signatures: exit 0 sound, 1 tampered, 2 unreadable or misused."""
    if file is not None and conversation is not None:
        _end(ValueError("give a file or a conversation, not both"), MISUSED)
    raise typer.Exit(_verify_stored(conversation) if file is None else _verify_file(file))


def _verify_file(file: Path) -> int:
    from app.cli.verdicts import told, verify_file
    from app.trust.export import Unreadable

    report = verify_file(file)
    if isinstance(report, Unreadable):
        _end(ValueError(f"{file}: {report.detail}"), MISUSED)
    print(*told(str(file), report), sep="\n")
    return TAMPERED if report.findings else 0


def _verify_stored(conversation: str | None) -> int:
    settings = _settings()
    with _uncollected():
        import asyncio

        from app.cli.auditing import NoSuchLog, verify_stored
        from app.cli.verdicts import told

    async def run() -> int:
        code = 0
        async for name, report in verify_stored(settings, conversation):
            print(*told(name, report), sep="\n")
            code = TAMPERED if report.findings else code
        return code

    with _told(misused=(NoSuchLog, StoreUnavailable)):
        return asyncio.run(run())


def _settings() -> Settings:
    from app.cli.configuration import read_settings

    with _told():
        return read_settings()


def _prepared() -> Settings:
    """The settings of a process that runs for long, with its logs set up."""
    settings = _settings()
    from app.cli.logs import configure_logs, warn_of_unknown

    configure_logs()
    warn_of_unknown()
    return settings


@contextmanager
def _uncollected() -> Iterator[None]:
    """Import without collecting garbage, and never again look at what was imported.

    A fifth of the start went into collections that find nothing, and an eighth of every run: at
    Python's own threshold one request alone is looked through a dozen times while all of it is
    still in use.
    """
    gc.disable()
    yield
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER)
    gc.enable()


@contextmanager
def _told(
    *, failed: tuple[type[Exception], ...] = (), misused: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Turn an expected refusal into one line on standard error and an exit code."""
    misuses: tuple[type[Exception], ...] = (Misconfigured, *misused)
    failures: tuple[type[Exception], ...] = (TurngateError, *failed)
    try:
        yield
    except misuses as error:
        _end(error, MISUSED)
    except failures as error:
        _end(error, FAILED)


def _end(error: Exception, code: int) -> NoReturn:
    print(f"turngate: {error}", file=sys.stderr)
    raise typer.Exit(code) from None
