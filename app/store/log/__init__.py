"""The log: the one append, and those who read all of it.

- `numbering`: events get their seq, bytes and hash, and the changes they make
- `append`: the one statement that writes them
- `appender`: which groups what all runs of the process want to append
- `tails`: what this process knows of the ends of logs
- `rebuild`: projections made anew from the log
- `stored_logs`: whole logs, for those who check or export them
"""
