"""What an attacker sends, over every route and every parameter of the committed description.

`values` is the corpus, `description` the routes it is sent to, `verdict` what every answer must be
like; none of them names a route, so a new one is tried from the day it is described.
"""
