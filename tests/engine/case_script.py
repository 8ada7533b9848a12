"""One case of agent-run-cases.json, performed call by call."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from app.engine.agent_run import AgentRun
from app.engine.commands import ModelTurn, RunEntry, ToolAnswer
from app.engine.messages import ToolResultText
from app.engine.streaming.assembler import StreamedTurnAssembler
from app.engine.streaming.items import InvalidToolCall, StreamedTurn
from tests.engine import case_checks as check
from tests.engine import case_values as read

if TYPE_CHECKING:
    from app.engine.commands import PendingToolCall
    from app.engine.streaming.items import (
        StreamedInvalidToolCall,
        StreamedResolution,
        StreamedTurnEvent,
    )
    from tests.engine.case_values import Json


def build(given: Json) -> AgentRun:
    run = AgentRun.new(read.prompt(given["prompt"]))
    if "history" in given:
        run.with_history(read.messages(given["history"]))
    for budget in (
        "max_turns",
        "max_invalid_tool_call_retries",
        "max_consecutive_malformed_tool_calls",
    ):
        if budget in given:
            getattr(run, budget)(given[budget])
    if "tool_choice" in given:
        run.with_tool_choice(read.tool_choice(given["tool_choice"]))
    if "output_tool_name" in given:
        run.with_output_tool_name(given["output_tool_name"])
    if "output_validation" in given:
        validation = given["output_validation"]
        run.with_output_validation(validation["schema"], validation["max_output_retries"])
    if "unhandled_invalid_tool_call" in given:
        run.with_unhandled_invalid_tool_call(given["unhandled_invalid_tool_call"])
    return run


class CaseScript:
    """Performs the calls of a script; `do_<call>` returns the checked fields of the result."""

    def __init__(self, run: AgentRun) -> None:
        self.run = run
        self.assembler = StreamedTurnAssembler(run.effective_policy(read.policy({})))
        self.invalid: StreamedInvalidToolCall | None = None
        self.resolution: StreamedResolution | None = None
        self.finished: StreamedTurn | None = None

    def perform(self, call: str, args: Json, expect: Json) -> None:
        getattr(self, f"do_{call}")(args, expect)

    def do_next_step(self, args: Json, expect: Json) -> None:
        check.check_fields(*check.step_fields(self.run.next_step(), expect))

    def do_reissue(self, args: Json, expect: Json) -> None:
        check.check_fields(*check.step_fields(self.run.reissue(), expect))

    def do_model_response(self, args: Json, expect: Json) -> None:
        turn = ModelTurn(
            choice=read.assistant_content(args["choice"]),
            usage=read.usage(args.get("usage")),
            policy=read.policy(args),
            message_id=args.get("message_id"),
            response_id=args.get("response_id"),
            provider_request_id=args.get("provider_request_id"),
            finish_reason=read.finish_reason(args.get("finish_reason")),
            raw=args.get("raw"),
        )
        check.check_outcome(self.run.model_response(turn), expect)

    def do_resolve_invalid_tool_call(self, args: Json, expect: Json) -> None:
        outcome = self.run.resolve_invalid_tool_call(read.action(args["action"]))
        check.check_outcome(outcome, expect)

    def do_resolve_unhandled_invalid_tool_call(self, args: Json, expect: Json) -> None:
        check.check_outcome(self.run.resolve_unhandled_invalid_tool_call(), expect)

    def do_retry_model_turn(self, args: Json, expect: Json) -> None:
        self.run.retry_model_turn(read.retry_request(args["request"]))

    def do_replace_accepted_turn(self, args: Json, expect: Json) -> None:
        self.run.replace_accepted_turn(read.assistant_content(args["choice"]))

    def do_tool_results(self, args: Json, expect: Json) -> None:
        self.run.tool_results(read.user_content(args["results"]))

    def do_answer_tool_calls(self, args: Json, expect: Json) -> None:
        self.run.answer_tool_calls([self._answer(given) for given in args["answers"]])

    def _answer(self, given: Json) -> ToolAnswer:
        turn, call = self.run.turn(), "?"
        for pending in self._batch():
            if pending.position == given["position"]:
                call = pending.tool_call.id
        key = {"turn": given.get("turn", turn), "call": given.get("call", call)}
        if "text" in given:
            content = (ToolResultText(text=given["text"]),)
            return ToolAnswer(position=given["position"], content=content, **key)
        action = None if given["action"] is None else read.action(given["action"])
        return ToolAnswer(position=given["position"], action=action, **key)

    def _batch(self) -> tuple[PendingToolCall, ...]:
        return self.run.pending_tool_calls()

    def do_malformed_tool_call_context(self, args: Json, expect: Json) -> None:
        call = next(c for c in self._batch() if c.position == args["position"])
        check.check_context(self.run.malformed_tool_call_context(call), expect["context"])

    def do_record_streamed_completion_call(self, args: Json, expect: Json) -> None:
        call = self.run.record_streamed_completion_call(
            read.usage(args.get("usage")),
            message_id=args.get("message_id"),
            response_id=args.get("response_id"),
            provider_request_id=args.get("provider_request_id"),
            finish_reason=read.finish_reason(args.get("finish_reason")),
            raw=args.get("raw"),
        )
        check.check_fields(dict(call), check.as_values(expect))

    def do_streamed_turn(self, args: Json, expect: Json) -> None:
        turn = self.finished
        if args:
            turn = StreamedTurn(
                message_id=args.get("message_id"),
                choice=read.assistant_content(args["choice"]),
                policy=read.policy(args),
                internal_call_ids=read.internal_call_ids(args.get("internal_call_ids", [])),
                finish_reason=read.finish_reason(args.get("finish_reason")),
            )
        assert turn is not None
        self.run.streamed_turn(turn)

    def do_new_assembler(self, args: Json, expect: Json) -> None:
        self.assembler = StreamedTurnAssembler(self.run.effective_policy(read.policy(args)))

    def do_ingest(self, args: Json, expect: Json) -> None:
        events: list[StreamedTurnEvent] = []
        for item in args["items"]:
            events.extend(self.assembler.ingest(read.stream_item(item)))
        for event in events:
            if isinstance(event, InvalidToolCall):
                self.invalid = event.invalid
        if "events" in expect:
            check.check_events(events, expect["events"])

    def do_finish(self, args: Json, expect: Json) -> None:
        choice = read.assistant_content(args.get("choice", []))
        self.finished = self.assembler.finish(args.get("message_id"), choice)
        check.check_fields(dict(self.finished), check.as_values(expect))

    def do_partial_turn(self, args: Json, expect: Json) -> None:
        partial = self.assembler.partial_turn(args.get("message_id"))
        check.check_fields(dict(partial), check.as_values(expect))

    def do_aggregated_reasoning(self, args: Json, expect: Json) -> None:
        found = self.assembler.aggregated_reasoning(args["correlator"])
        check.check_fields({"text": found}, expect)

    def do_excluded_assistant_content(self, args: Json, expect: Json) -> None:
        check.check_fields({"count": self.assembler.excluded_assistant_content()}, expect)

    def do_streamed_invalid_tool_call_context(self, args: Json, expect: Json) -> None:
        assert self.invalid is not None
        partial = self.assembler.partial_turn(args.get("message_id"))
        context = self.run.streamed_invalid_tool_call_context(partial, self.invalid)
        check.check_context(context, expect["context"])

    def do_resolve_streamed_invalid_tool_call(self, args: Json, expect: Json) -> None:
        assert self.invalid is not None
        partial = self.assembler.partial_turn(args.get("message_id"))
        self.resolution = self.run.resolve_streamed_invalid_tool_call(
            partial, self.invalid, read.action(args["action"])
        )
        found: Json = dict(self.resolution) | {"resolution": self.resolution.kind}
        if result := found.get("skipped_tool_result"):
            found["skipped_tool_result"] = {"name": result.name, "text": result.content[0].text}
        check.check_fields(found, expect)

    def do_resolve_pending_invalid(self, args: Json, expect: Json) -> None:
        assert self.resolution is not None
        events = self.assembler.resolve_pending_invalid(self.resolution)
        if "events" in expect:
            check.check_events(list(events), expect["events"])

    def do_reload(self, args: Json, expect: Json) -> None:
        loaded = AgentRun.load(self.run.dump_json())
        assert loaded.dump() == self.run.dump()
        self.run = loaded

    def do_reload_assembler(self, args: Json, expect: Json) -> None:
        loaded = StreamedTurnAssembler.load(json.dumps(self.assembler.dump()))
        assert loaded.dump() == self.assembler.dump()
        self.assembler = loaded

    def do_load_mutated(self, args: Json, expect: Json) -> None:
        document = self.run.dump()
        for path, value in args.get("set", {}).items():
            parent, key = _place(document, path)
            parent[key] = value
        for path in args.get("remove", []):
            parent, key = _place(document, path)
            del parent[key]
        AgentRun.load(document)

    def do_pending_invalid_tool_call(self, args: Json, expect: Json) -> None:
        check.check_context(self.run.pending_invalid_tool_call(), expect["context"])

    def do_cancel_error(self, args: Json, expect: Json) -> None:
        check.check_error(self.run.cancel_error(args["reason"]), expect)

    def do_initial_prompt(self, args: Json, expect: Json) -> None:
        check.check_fields({"prompt": self.run.initial_prompt()}, check.as_values(expect))

    def do_input_history(self, args: Json, expect: Json) -> None:
        found = {"chat_history": self.run.input_history()}
        check.check_fields(found, check.as_values(expect))

    def do_max_turns(self, args: Json, expect: Json) -> None:
        self.run.max_turns(args["n"])

    def do_max_invalid_tool_call_retries(self, args: Json, expect: Json) -> None:
        self.run.max_invalid_tool_call_retries(args["n"])

    def do_with_history(self, args: Json, expect: Json) -> None:
        self.run.with_history(read.messages(args["history"]))

    def do_with_tool_choice(self, args: Json, expect: Json) -> None:
        self.run.with_tool_choice(read.tool_choice(args["tool_choice"]))

    def do_rewrite_initial_prompt(self, args: Json, expect: Json) -> None:
        self.run.rewrite_initial_prompt(read.prompt(args["prompt"]))

    def do_pin_output_tool(self, args: Json, expect: Json) -> None:
        check.check_fields({"output_tool_name": self.run.pin_output_tool(args["name"])}, expect)

    def do_append_entry(self, args: Json, expect: Json) -> None:
        self.run.append_entry(RunEntry(**args))

    def do_set_previous_model(self, args: Json, expect: Json) -> None:
        self.run.set_previous_model(args["model"])


def _place(document: Any, path: str) -> tuple[Any, Any]:
    *above, last = [int(step) if step.isdigit() else step for step in path.split("/")]
    for step in above:
        document = document[step]
    return document, last
