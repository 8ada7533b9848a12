"""Use cases, the run driver, subscriptions and the supervisor that owns every task.

It depends on ports; `app.main` chooses the adapters. No FastAPI, no SQL and no adapter is
imported here. Where to look:

- what all of it rests on: `ports` (with `skill_ports`, `memory_ports`, `key_ports` and
  `grant_ports`), `clock`, `caller`, `requests`, `refusals`, `reach`
- what the service signs itself: `statements` (with `fresh_key`)
- who gets in: `access`, `revocations`, `rates`, and on one's own machine `development`
- the use cases, a noun each: `agents` (with `agent_spec` and `agent_check`), `runs`
  (with `attaching`), `conversations`, `approvals` (with `decisions` and `outcome`), `questions`,
  `keys` and `passkeys` (with `endorsement` and `assertions`), `grants` (with `grant_rules`),
  `artifacts`, `remembered`, `event_log`, `tool_listing`, `skills` (with `skill_spec`),
  `mcp_servers` (with `mcp_spec` and `mcp_pins`)
- one turn of a run: `supervisor` takes it up and `driver` drives it, a `drive` at a time, from
  `loading` (with `standing`, `replay`, `active_time`, `open_questions`, `open_turn`, `history`,
  `binding` with `call_rules` and `snapshot`, `delegates`, `run_context` with `attachments`,
  `compaction`, `consents`, `live_grants` and `answers`) and `opening` past `recorder`, `mutations`,
  `limits` and `lease_keeping` to `closing` (with `asking` and `remembering`); `settle` ends what is
  left open by force, `expiry` what is past its time
- once it is over: `missed_turns` stores what could not be remembered then
- what readers get: `streams`, `subscriptions`, `wakeups`, and `hold` with `hold_sharing`
"""
