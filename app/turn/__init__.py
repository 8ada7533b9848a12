"""One turn: `run_turn`, its stages, and the ports to the world.

asyncio is allowed here; SQL, HTTP, clocks and signers are not. Where to look:

- the contract: `ports`, `options`, `agent`, `transcript`, `result`, `stream`
- the stages: `run`, `prepass`, `loop`, with what they share in `context`
- one model call: `compaction` with `folded`, `request` with `native_files`, `dial`, `retry`,
  `model_step`, `reply`, `reply_facts`; `output` for answers that have a form
- one batch: `batch`, `call`, `classify`, `decided`, `gating`, `asking`,
  `questions` with `question_form`, `verdict`
- one execution: `execute`, `results`, `mutations`, `attempt`
- one delegation: `delegation`, `worker`, `worker_ports`
- what they rest on: `clock`, `ledger`, `answers`, `decision_report`, `schema`, `specs`,
  `taint`, `texts`, `limits`
"""
