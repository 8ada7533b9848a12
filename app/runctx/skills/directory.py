"""The directory of skills: which a run may see, in which order, how many (run-context.md 6). Pure.

A pin is order and never a way past the filter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.runctx.skill import DEFAULT_ENTRIES, SkillView

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from app.runctx.skill import SkillCapability, SkillCard, SkillSettings


def allowed(cards: Iterable[SkillCard], capability: SkillCapability) -> list[SkillCard]:
    """The skills that require nothing beyond the capability, in their order."""
    return [card for card in cards if _is_allowed(card, capability)]


def directory_order(cards: Iterable[SkillCard], pinned: Sequence[str] = ()) -> list[SkillCard]:
    """Operator pins as declared, then what its author pinned, then the rest; newest first."""
    by_name = {card.name: card for card in cards}
    first = [by_name.pop(name) for name in dict.fromkeys(pinned) if name in by_name]
    rest = sorted(by_name.values(), key=lambda card: card.name)
    rest.sort(key=lambda card: card.updated_at, reverse=True)
    rest.sort(key=lambda card: not card.is_pinned)
    return [*first, *rest]


def directory_entries(
    cards: Iterable[SkillCard], capability: SkillCapability, settings: SkillSettings
) -> tuple[SkillCard, ...]:
    """What the directory lists. A skill of untrusted content is read on request alone."""
    shown = [card for card in allowed(cards, capability) if not card.trust.taints]
    most = settings.max_entries or DEFAULT_ENTRIES
    return tuple(directory_order(shown, settings.pinned)[:most])


def view_of(card: SkillCard, pinned: Sequence[str] = ()) -> SkillView:
    """A skill as the directory shows it."""
    return SkillView(
        name=card.name,
        title=card.head.title,
        trigger=card.head.trigger,
        task_type=card.head.task_type,
        pinned=card.is_pinned or card.name in pinned,
    )


def _is_allowed(card: SkillCard, capability: SkillCapability) -> bool:
    head = card.head
    return (
        capability.tools.issuperset(head.required_tools)
        and capability.namespaces.issuperset(head.required_namespaces)
        and capability.tags.issuperset(head.required_tags)
    )
