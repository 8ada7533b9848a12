"""Model providers: the `script` model and one adapter over pydantic-ai's model classes; embedders.

They speak wire formats. They know neither gate nor history rules.
"""
