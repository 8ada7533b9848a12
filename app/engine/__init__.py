"""The sans-I/O run machine (`AgentRun`), its messages, streamed assembly and canonical arguments.

Pure: it never awaits, reads no clock and makes no policy choice of its own. Where to look:

- `agent_run` is the machine and says how to drive it; what it is made of is in `machine`
- `commands`, `messages`, `usage`, `turn_policy` are the words spoken with a driver; `errors` is
  what it may have to hear, and `finish` how its loop ended
- `streaming` makes one turn of the items of a stream
- `history` is what a provider takes; `compaction` says where one that has grown long is cut
- `turn_content` is what can be asked about a turn, `texts` what the machine writes into one
- `document` reads and writes what is stored; `value` is the base of all values; `expect` refuses
  wrong types
- `json` is the JSON within: its text, arguments in canonical form, schemas that end
"""
