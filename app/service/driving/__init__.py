"""One turn of a run, from the wake to the event that pauses or ends it.

- `supervisor`: takes up what is woken; owns every task that drives
- `driver`: the run driver: from a lease to the closing event
- `loading`: what a drive starts from
- `drive`: one lease being driven
- `opening`: the events that take a run up
- `recorder`: the only writer meanwhile
- `mutations`: changed calls, signed before they apply
- `limits`: tokens and time of the whole run
- `lease_keeping`: the lease, prolonged until it is lost
- `closing`: the events that pause or end it
- `expiry`: approvals and questions past their time
"""
