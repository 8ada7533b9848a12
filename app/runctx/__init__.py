"""The context of a run, over ports: what it is shown beside its history, and its stored answer.

Memory, skills, files and what a caller attached become the blocks of a prompt; what goes wrong with
a part leaves as it is, and never with silently less. Where to look:

- the door: `assemble` makes the `context` of a run; `ports` is what the room needs of stores
- memory: `memory` has its values, `fetch` asks for them, `caller_memory` adds what a client
  attached; `rolling` says when turns fold into a summary, `condense` what a summariser is given
- skills: `skill` has their values; `skill_reader` reads those of one run, fixed when it began:
  `skill_directory` says which and in which order, `skill_search` and `skill_meaning` how they rank,
  `skill_budget` what fits, `redaction` what is untold. `skill_archive` opens a zip of them,
  `skill_folder` makes one of a folder, by way of `front_matter` and `markdown_sections`
- files: `shapes` has their values; `disposition` says how one reaches the model, `input_parts`
  renders it so, `attach` reads what that takes; `mime` says what it is declared as, and what its
  bytes say
- the prompt: `projection` makes values for it, `blocks` the text of its blocks, `text` their JSON
- the answer: `answer` builds and validates it, and is the only place that does
"""
