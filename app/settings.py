"""The settings, and the only reader of the environment. `app.main` and `app.cli` pass them down."""

from __future__ import annotations

import json
import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    NoDecode,
    SettingsConfigDict,
)

_PLACEHOLDERS = ("changeme", "change-me", "secret", "placeholder", "example", "xxx")


class Environment(StrEnum):
    """Where the process runs; production refuses the development issuer."""

    DEVELOPMENT = "development"
    PRODUCTION = "production"


class CompatibleServer(BaseModel):
    """An OpenAI-compatible model server, named in `TURNGATE_COMPATIBLE`."""

    model_config = ConfigDict(extra="forbid")

    base_url: str
    api_key: SecretStr | None = None
    context_window: int | None = Field(None, ge=1024)


def _words(line: object) -> object:
    """The words of a command line as a shell reads them; no shell ever runs it."""
    words = shlex.split(line) if isinstance(line, str) else line
    if not words:
        raise ValueError("a command line has a word at least")
    return words


CommandLine = Annotated[tuple[str, ...], BeforeValidator(_words)]


def unknown_names() -> list[str]:
    """Names of ours, in the environment or in `.env`, that are no setting: misspelt ones."""
    known = {f"TURNGATE_{name.upper()}" for name in Settings.model_fields}
    sources = (EnvSettingsSource(Settings), DotEnvSettingsSource(Settings))
    named = {name.upper() for source in sources for name in source.env_vars}
    return sorted(name for name in named - known if name.startswith("TURNGATE_"))


class Settings(BaseSettings):
    """Every setting with its default; `.env.example` lists them, and a test compares the two."""

    # An empty variable is one that nobody set: compose files leave such behind.
    model_config = SettingsConfigDict(
        env_prefix="TURNGATE_", env_file=".env", env_ignore_empty=True, extra="ignore"
    )

    env: Environment = Field(Environment.DEVELOPMENT, description="development or production")
    data_dir: Path = Field(
        Path(".turngate"), description="Embedded database and development keys live here"
    )
    database_url: str | None = Field(
        None, description="A Postgres 15 or newer; without it the embedded one is used"
    )
    database_direct_url: str | None = Field(
        None, description="The database itself, where TURNGATE_DATABASE_URL is a pooler's address"
    )
    database_owner_url: str | None = Field(
        None, description="The login that migrates, where the one of the others owns nothing"
    )
    jwt_issuer: str | None = Field(None, description="Issuer of access tokens (iss)")
    jwt_audience: str = Field("turngate", description="Audience of access tokens (aud)")
    jwt_jwks: str | None = Field(
        None, description="File or URL of the issuer's public keys; needed with an issuer"
    )
    signing_key: SecretStr | None = Field(
        None, description="PEM of the service's own P-256 key; else one in the data directory"
    )
    allowed_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Browser origins that may call, comma separated"
    )
    rp_id: str | None = Field(
        None, description="Domain that passkeys are made for; needs TURNGATE_ALLOWED_ORIGINS"
    )
    rate_per_minute: int = Field(0, ge=0, description="Requests a minute and principal; 0 is off")
    open_runs: int = Field(1000, ge=1, description="Open runs a principal may have")
    max_steps: int | None = Field(
        None, ge=1, description="Steps of a turn where neither agent nor run says; else 8"
    )
    model: str | None = Field(
        None, description="The demo's model, such as openai:NAME; without it the script model"
    )
    summary_model: str | None = Field(
        None, description="The model that writes summaries, or extract; else the agent's own"
    )
    compatible: dict[str, CompatibleServer] = Field(
        default_factory=dict,
        description="Compatible servers: JSON map of name to base_url, api_key, context_window",
    )
    openai_api_key: SecretStr | None = Field(None, description="Key for openai: models")
    anthropic_api_key: SecretStr | None = Field(None, description="Key for anthropic: models")
    google_api_key: SecretStr | None = Field(None, description="Key for google: models")
    embeddings_url: str | None = Field(
        None, description="An OpenAI-compatible endpoint that embeds; else the built-in vectors do"
    )
    embeddings_model: str | None = Field(
        None, description="The endpoint's model; needed with TURNGATE_EMBEDDINGS_URL"
    )
    embeddings_api_key: SecretStr | None = Field(None, description="The endpoint's key")
    embeddings_dimensions: int | None = Field(
        None,
        ge=1,
        le=2000,
        description="Asked of the endpoint if set; without it 1536 are expected",
    )
    http_allow_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Hosts that the HTTP tools may reach although private, comma separated"
    )
    mcp_commands: dict[str, CommandLine] = Field(
        default_factory=dict,
        description="MCP servers as processes: JSON map of name to command line",
    )
    sandbox_roots: Annotated[tuple[Path, ...], NoDecode] = Field(
        (), description="Folders that an approved call may reach outside of its workspace"
    )
    memory_retention_days: int = Field(
        0, ge=0, le=36_500, description="Days that memory keeps a turn; 0 is for ever"
    )
    artifact_max_bytes: int = Field(
        25 * 1024 * 1024,
        ge=1,
        description="Bytes that an artifact may have: an upload, or a tool's long result",
    )
    artifacts_bucket: str | None = Field(
        None,
        pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9._-]+)*/?$",
        description="Bucket for the bytes of artifacts, s3://BUCKET[/PREFIX]; else the database",
    )
    s3_endpoint: str | None = Field(
        None, pattern=r"^https?://", description="Address of an S3-compatible store; else AWS"
    )
    s3_region: str | None = Field(None, description="Region of the bucket")
    s3_access_key_id: str | None = Field(
        None, description="Access key for the bucket; else what the machine may do at AWS"
    )
    s3_secret_access_key: SecretStr | None = Field(None, description="The access key's secret")
    lease_ttl_s: float = Field(10.0, gt=0, description="Seconds until a silent worker loses a run")
    worker_concurrency: int = Field(64, ge=1, description="Runs that one worker drives at once")
    drain_s: float = Field(20.0, ge=0, description="Seconds that running turns get on SIGTERM")
    sockets: int = Field(1000, ge=1, description="Open streams a process takes")
    sockets_per_principal: int = Field(64, ge=1, description="Open streams a principal may have")

    @field_validator("allowed_origins", "http_allow_hosts", "sandbox_roots", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("jwt_jwks")
    @classmethod
    def _readable(cls, place: str | None) -> str | None:
        """A URL may be down at the start; a file that holds no keys then never will."""
        if place is None or place.startswith(("https://", "http://")):
            return place
        try:
            is_read = "keys" in json.loads(Path(place).read_bytes())
        except (OSError, ValueError, TypeError):
            is_read = False
        if is_read:
            return place
        raise ValueError("neither a URL nor a file with a key set that can be read")

    @model_validator(mode="after")
    def _whole(self) -> Settings:
        """Refuses half-configured features and placeholder secrets."""
        if (self.jwt_issuer is None) != (self.jwt_jwks is None):
            raise ValueError("TURNGATE_JWT_ISSUER and TURNGATE_JWT_JWKS come together")
        if self.env is Environment.PRODUCTION and self.jwt_issuer is None:
            raise ValueError(
                "production needs TURNGATE_JWT_ISSUER and TURNGATE_JWT_JWKS: "
                "the development issuer is refused there"
            )
        if (self.embeddings_url is None) != (self.embeddings_model is None):
            raise ValueError("TURNGATE_EMBEDDINGS_URL and TURNGATE_EMBEDDINGS_MODEL come together")
        self._check_bucket()
        self._check_roots()
        self._check_rp_id()
        for name, secret in self._secrets().items():
            if secret is not None and secret.get_secret_value().lower() in _PLACEHOLDERS:
                raise ValueError(f"{name} is a placeholder, not a key")
        return self

    def _check_bucket(self) -> None:
        key = self.s3_access_key_id, self.s3_secret_access_key
        if (key[0] is None) != (key[1] is None):
            raise ValueError(
                "TURNGATE_S3_ACCESS_KEY_ID and TURNGATE_S3_SECRET_ACCESS_KEY come together"
            )
        if self.artifacts_bucket is None and any((*key, self.s3_endpoint, self.s3_region)):
            raise ValueError("TURNGATE_S3_... without TURNGATE_ARTIFACTS_BUCKET is about no bucket")

    def _check_roots(self) -> None:
        for root in self.sandbox_roots:
            if not root.is_absolute() or ".." in root.parts or not root.is_dir():
                raise ValueError(f"TURNGATE_SANDBOX_ROOTS: {root} is no absolute path of a folder")
            if self.data_dir.resolve().is_relative_to(root.resolve()):
                raise ValueError(f"TURNGATE_SANDBOX_ROOTS: {root} holds the data directory")

    def _check_rp_id(self) -> None:
        """A passkey is bound to its domain, so pages of another one can never ask for it."""
        if self.rp_id is None:
            return
        hosts = [urlsplit(origin).hostname or "" for origin in self.allowed_origins]
        if not any(host == self.rp_id or host.endswith(f".{self.rp_id}") for host in hosts):
            raise ValueError(
                "TURNGATE_RP_ID needs one of TURNGATE_ALLOWED_ORIGINS on it or below it"
            )

    def _secrets(self) -> dict[str, SecretStr | None]:
        return {
            "TURNGATE_SIGNING_KEY": self.signing_key,
            "TURNGATE_OPENAI_API_KEY": self.openai_api_key,
            "TURNGATE_ANTHROPIC_API_KEY": self.anthropic_api_key,
            "TURNGATE_GOOGLE_API_KEY": self.google_api_key,
            "TURNGATE_EMBEDDINGS_API_KEY": self.embeddings_api_key,
            "TURNGATE_S3_SECRET_ACCESS_KEY": self.s3_secret_access_key,
            **{
                f"TURNGATE_COMPATIBLE.{name}.api_key": server.api_key
                for name, server in self.compatible.items()
            },
        }
