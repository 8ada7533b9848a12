"""What `AgentRun` is made of: one immutable record, and the steps that compute the next one.

- `record`: all that a run is, its states included
- `builder`: what a host sets on it
- `view`: what a reader sees of it
- `stored`: its document, and what must hold in one
- `transition`: the shape of a step
- `advance`: from one command to the next
- `model_request`: asking the model
- `model_turn`: a whole turn, taken
- `streamed_turn`: a streamed one
- `accepted_turn`: one that a host replaces or sends back
- `invalid_calls`: calls that somebody has to decide on
- `tool_batch`: the calls that are open
- `output_tool`: the call that is the answer
"""
