"""Every model by its name: the script, the vendors' models, and compatible servers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from app.providers.endpoint import SCRIPT, WINDOWS, Endpoint, Timeouts, parse_model
from app.providers.script import ScriptProvider
from app.turn.ports import FailureKind, ProviderError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from app.engine.streaming.items import StreamItem
    from app.providers.endpoint import ModelName
    from app.providers.models import VendorModels
    from app.turn.ports import Clock, ModelRequest, Provider


class ProviderDirectory:
    """The models of a deployment; one per process, closed by `aclose`.

    `vendors` are the endpoints of `openai`, `anthropic` and `google` that have a key, `compatible`
    those of the servers an operator named. Nothing is opened before it is used.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        vendors: Mapping[str, Endpoint] | None = None,
        compatible: Mapping[str, Endpoint] | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        self._clock = clock
        self._script = ScriptProvider(clock)
        self._vendors = dict(vendors or {})
        self._compatible = dict(compatible or {})
        self._timeouts = timeouts or Timeouts()
        self._loading = asyncio.Lock()
        self._models: VendorModels | None = None
        self._ready: set[str] = set()

    def knows(self, model: str) -> bool:
        """Whether an agent may name the model. A vendor's key is only needed when it is asked."""
        return model == SCRIPT or parse_model(model, frozenset(self._compatible)) is not None

    def can_search(self, model: str) -> bool:
        """Whether a native search is more than a word for the model: a vendor's models search.

        The script has its program in the place of a search. Compatible servers have none.
        """
        name = parse_model(model, frozenset(self._compatible))
        return model == SCRIPT or (name is not None and name.server is None)

    def context_window(self, model: str) -> int | None:
        """What the model can read, in tokens; None for the script, and where nobody said it."""
        name = parse_model(model, frozenset(self._compatible))
        if name is None:
            return None
        if name.server is not None:
            return self._compatible[name.server].context_window
        return WINDOWS[name.vendor]

    def provider(self, model: str) -> Provider:
        """The provider of a model; one that is not known here says so when it is asked.

        An agent may outlive the configuration of its model, and its run then fails with that word.
        """
        if model == SCRIPT:
            return self._script
        return _VendorProvider(self, model)

    async def aclose(self) -> None:
        """Close every connection; streams that are open break."""
        if self._models is not None:
            await self._models.aclose()

    def endpoint(self, name: ModelName) -> Endpoint:
        """Where a model is served. Raises ProviderError if its vendor has no key."""
        if name.server is not None:
            return self._compatible[name.server]
        endpoint = self._vendors.get(name.vendor)
        if endpoint is None or not endpoint.api_key:
            setting = f"TURNGATE_{name.vendor.upper()}_API_KEY"
            message = f"{name.vendor}: no API key is configured, {setting} is not set"
            raise ProviderError(FailureKind.AUTH, message)
        return endpoint

    async def models(self, name: ModelName) -> VendorModels:
        """The vendors' models, loaded at the first use, in a thread since that takes a second."""
        if (models := self._models) is None or name.vendor not in self._ready:
            async with self._loading:
                models = self._models = await asyncio.to_thread(self._load, name.vendor)
                self._ready.add(name.vendor)
        return models

    def _load(self, vendor: str) -> VendorModels:
        # pydantic-ai and the SDKs take seconds to import; a deployment of scripts never pays.
        from app.providers.models import VendorModels, load_vendor  # noqa: PLC0415 - see above

        load_vendor(vendor)
        return self._models or VendorModels(self._timeouts, self._clock)

    def parsed(self, model: str) -> ModelName:
        """The parts of a model's name. Raises ProviderError if it is not known here."""
        name = parse_model(model, frozenset(self._compatible))
        if name is None:
            message = f"the model {model!r} is not configured here"
            raise ProviderError(FailureKind.BAD_REQUEST, message)
        return name


class _VendorProvider:
    """One model of the directory, as the turn sees it."""

    def __init__(self, directory: ProviderDirectory, model: str) -> None:
        self._directory = directory
        self._model = model

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        name = self._directory.parsed(self._model)
        endpoint = self._directory.endpoint(name)
        models = await self._directory.models(name)
        items = models.stream(name, endpoint, request)
        try:
            async for item in items:
                yield item
        finally:
            await items.aclose()
