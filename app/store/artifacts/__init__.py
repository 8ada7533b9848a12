"""Files: those of conversations, and those of workspaces.

- `artifact_store`: artifacts, in Postgres alone or with a bucket
- `bucket`: what a bucket is asked for
- `s3`: one of an S3-compatible store; the only importer of obstore
- `leftovers`: objects that no artifact needs, noted and swept
- `workspace`: files of a workspace, with their trust
"""
