"""The bench: what Turngate costs beside the same work without it, measured in one run.

The client is this process, raw sockets and all; the servers are processes of their own. Each
number stands beside a baseline from the same minute on the same machine, so that the ratio says
something where the machine does not.
"""
