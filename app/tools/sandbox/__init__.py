"""Where tools work: the files of a conversation, and a place for commands.

- `workspace`: a conversation's files
- `roots`: folders of the operator's, for a call that was allowed to
- `disk`: folders that others may be changing, walked
- `shell`: where a command runs, and what it may use up
- `bubblewrap`: the sandbox around it
"""
