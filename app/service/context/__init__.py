"""What a run is shown and what it leaves: its files, memory, a condensed history.

- `assembly`: the context of a run, made once and kept
- `attachments`: a run's files, from its conversation to its input
- `attaching`: whether a caller may attach them
- `compaction`: summaries in the place of a long history
- `remembering`: the memory write at the end of a run
- `missed_turns`: the same later, where it failed
- `remembered`: what callers see and forget of it
"""
