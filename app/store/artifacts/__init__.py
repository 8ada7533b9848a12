"""Files: those of conversations, and those of workspaces.

- `artifact_store`: artifacts, in Postgres alone or with a bucket; bytes come and go in pieces
- `artifact_rows`: what is known of each, and where its bytes lie
- `incoming`: bytes as they come: cut into pieces, and looked at
- `pieces`: the bytes of large ones in Postgres
- `bucket`: what a bucket is asked for
- `s3`: one of an S3-compatible store; the only importer of obstore
- `leftovers`: pieces and objects that no artifact needs, noted and swept
- `workspace`: files of a workspace, with their trust
"""
