"""The context of a run, over ports: its skills, its files and its stored answer, so far.

- `answer` builds and validates the terminal answer, and is the only place that does
- `ports` is what the room needs of stores, `shapes`, `memory` and `skill` the values that go
  through them
- `skill_reader` reads the skills of one run, fixed when it began: `skill_directory` says which and
  in which order, `skill_search` and `skill_meaning` how they rank, `skill_budget` what fits,
  `redaction` what is untold
- `skill_archive` opens a zip of skills, `skill_folder` makes one of a folder, by way of
  `front_matter` and `markdown_sections`
- `assemble` makes the `context` of a run: `fetch` asks memory, `caller_memory` adds what a client
  attached
- `projection` makes values for a prompt, `blocks` the text of its blocks, `text` their JSON
- `condense` is what a summariser is given, and what is made of its answer
- `disposition` says how an attachment reaches the model, `input_parts` renders it so, `attach`
  reads what that takes
- `mime` says what a file is declared as, and what its bytes say
"""
