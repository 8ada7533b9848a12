"""What tests of several rooms need: worlds, ports fulfilled in memory, and real servers.

- `turn`: a run in memory, turn by turn; `service`: a complete service in process
- `api`: the application over HTTP, in process or behind a real server, and people who talk to it
- `log`: logs and records written by hand; `database`: a Postgres, and what it is asked
- `played`: models and memory that do as a test says; `loopback`: servers of strangers, and wires
- `clock`, `stepped_clock`: time; `authenticator`: somebody's passkey
"""
