"""The sans-I/O run machine (`AgentRun`), its messages, streamed assembly and canonical arguments.

Pure: it never awaits, reads no clock and makes no policy choice of its own. Where to look:

- `agent_run` is the machine and says how to drive it; `run_builder` and `run_view` are its upper
  halves, what a host sets and what a reader sees.
- `run_record` is all a run is, its states included; `advance`, `model_request`, `model_turn`,
  `streamed_turn`, `tool_batch`, `accepted_turn` and `output_tool` compute the next record.
- `commands`, `streaming`, `messages`, `usage`, `turn_policy` are the words spoken with a driver;
  `errors` is what it may have to hear. `finish` is how a driver's loop ended, and `output_schema`
  what an answer is held against; `bounded_schema` and `patterns` see that it ends.
- `compaction` says where a transcript is cut when it has grown long.
- `assembler` makes one turn of the items of a stream.
- `run_document` and `document` are the stored forms; `json_text`, `json_pointer` and `arguments`
  the JSON within.
"""
