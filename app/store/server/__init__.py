"""The Postgres itself, and the ways to it.

- `whereabouts`: where it is: the one that is named, or the embedded one
- `embedded`: one server for each data directory, shared by its processes
- `embedded_host`: as whom and from where it runs
- `embedded_keeper`: the small process that is its parent
- `connections`: pools, connections that come back, the driver's errors as ours
- `poolers`: what an address in front of a transaction pooler must say
- `row_security`: whose rows a statement sees
"""
