"""The context of a run: memory, skills, artifacts and answers, over ports. No direct I/O."""
