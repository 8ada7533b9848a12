"""What has to have a form, or goes back to the model that wrote it.

- `output`: an answer
- `question`: a question to people
- `schema`: the arguments of a tool
"""
