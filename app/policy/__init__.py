"""Capabilities, taint, grants and `decide()`. Pure, and independent of the engine's types.

Where to look:

- a tool: `profile` says what it requires and lets in, in words of `capability` and `taint`
- a call: `gate` decides whether it may run, with `consent` where nothing is missing; `dispatch` has
  an agent's rules, which may change it before
- consent to more than one call: `grants`, as far as their `constraints` reach; `suggestions` makes
  these of a call
"""
