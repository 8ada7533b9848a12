"""The context of a run, over ports: what it is shown beside its history, and its stored answer.

Memory, skills, files and what a caller attached become the blocks of a prompt; what goes wrong with
a part leaves as it is, and never with silently less. The files beside each other are those that
run-context.md names, and what they need; `skills` became a package. Where to look:

- the door: `assemble` makes the `context` of a run; `ports` is what the room needs of stores, and
  `identity` whom it reads them for
- memory: `memory` has its values, `fetch` asks for them, `caller_memory` adds what a client
  attached; `rolling` says when turns fold into a summary, `condense` what a summariser is given
- skills: `skill` has their values, which the ports speak of; `skills` are those of one run, and
  the ways that they come in
- files: `shapes` has their values; `disposition` says how one reaches the model, `input_parts`
  renders it so, `attach` reads what that takes; `mime` says what it is declared as, and what its
  bytes say
- the prompt: `projection` makes values for it, `blocks` the text of its blocks, `text` their JSON
- the answer: `answer` builds and validates it, and is the only place that does
"""
