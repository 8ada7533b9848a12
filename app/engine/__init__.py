"""The sans-I/O run machine (`AgentRun`), its messages, streamed assembly and canonical arguments.

Pure: it never awaits, reads no clock and makes no policy choice of its own. Where to look:

- `agent_run` is the machine and says how to drive it; `run_builder` and `run_view` are its upper
  halves, what a host sets and what a reader sees.
- `run_record` is all a run is, its states included; `advance`, `model_request`, `model_turn`,
  `streamed_turn`, `tool_batch`, `accepted_turn` and `output_tool` compute the next record, each
  step in the shape of a `transition`. `invalid_calls` and `turn_content` are what they ask about a
  turn, `texts` what they write into it.
- `commands`, `streaming`, `messages`, `usage`, `turn_policy` are the words spoken with a driver;
  `errors` is what it may have to hear. `finish` is how a driver's loop ended, and `output_schema`
  what an answer is held against; `bounded_schema` and `patterns` see that it ends.
- `history` is what a provider takes; `compaction` says where one that has grown long is cut.
- `assembler` makes one turn of the items of a stream: `assembler_calls` and `assembler_reasoning`
  are its parts, `assembler_document` its stored form.
- `run_document` and `document` are the stored forms; `json_text`, `json_pointer` and `arguments`
  the JSON within. `value` is the base of all values; `expect` refuses wrong types.
"""
