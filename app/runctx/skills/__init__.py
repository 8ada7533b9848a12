"""The skills of one run, fixed when it began, and the ways that skills come in.

- `reader`: the skills of one run
- `directory`: which it may see, and in which order
- `search`: how a search ranks them
- `meaning`: ranks by what they mean
- `budget`: what is left out until they fit
- `redaction`: what their texts do not tell
- `archive`: a zip of them, opened
- `folder`: a folder of one, read
- `front_matter`: the YAML of a SKILL.md
- `markdown_sections`: the rest of it, in pieces
"""
