"""What an event does to the rows that people read. Pure: an event in, changes out.

- `rules`: the one place that says which rule an event has
- `fact`: what a rule sees of an event
- `runs`: events about conversations, runs and calls
- `approvals`: about approvals, decisions and questions
- `grants`: about remembered grants
- `changes`: changes of rows, and their order
- `kinds`: their SQL, a statement for each kind
"""
