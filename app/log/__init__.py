"""The vocabulary of the event log: payloads, envelope, records folded from them. Pure.

The turn speaks it, the store keeps it, the service folds it and the edges show it, so there is one
name and one shape for each fact. Where to look:

- an event: `envelope` is what is around its payload, `private` what lies beside it, unread by
  clients; `catalogue` lists all types, `upcasters` read those of older releases
- payloads, all on the base `payload`: `runs`, `calls`, `approvals`, `grants`, `attachments`, and
  `audit` for what goes to the tenant's own log
- what is read: `records` of the projections, by way of `queries`
- what service and store say to each other of things that no event is about: `servers`,
  `revocations`, `holds`
"""
