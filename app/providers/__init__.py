"""Model providers: the `script` model and one adapter over pydantic-ai's model classes; embedders.

They speak wire formats. They know neither gate nor history rules. Where to look:

- the door: `directory` finds a model by its name, which an `endpoint` is read off
- vendors: `models`, and `google` apart; `transcript` is the way there and `replies` the way back,
  with `calls` for what is called and `failures` for what goes wrong
- files that lie at a vendor: `native_files`, over `vendor_storage`
- the model for tests and demos: `script`, which plays a `script_program`
- memory: `summaries`; and `embedding` is around every embedder, `wordllama` or an
  `embedding_endpoint`
- keys of identity providers: `key_sets`
"""
