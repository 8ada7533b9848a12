"""What may run, running: each start in the log first, each result in its place.

- `execute`: the calls and delegations of one batch, together
- `mutations`: what a dispatch rule changes of a call or of its result
- `results`: results, cut for the model and in order
- `worker`: the nested turn behind a delegation
- `worker_ports`: the ports of that turn
"""
