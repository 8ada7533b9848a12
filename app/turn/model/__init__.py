"""One model call: from a history that fits to a reply in the AgentRun and in the log.

- `step`: the whole of it, the first half of a step
- `compaction`: the history, condensed if it has grown long
- `request`: what is sent
- `dial`: sending it, and reading the stream as it comes
- `retry`: how long to wait before sending it again
- `reply`: what came, between stream, AgentRun and log
- `reply_facts`: what came, as the log shows it
"""
