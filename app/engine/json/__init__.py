"""JSON as people and models write it: read strictly, in one form, and in bounded time.

- `text`: values that cannot change, and their text
- `pointer`: places within a value
- `arguments`: arguments of tools, with one canonical form
- `output_schema`: the schema of an answer
- `bounded_schema`: any schema, held against a value
- `patterns`: the patterns of schemas, and of people
"""
