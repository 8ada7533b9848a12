"""The resources: the routes of each noun, and how it is shown.

- `agents`: agents
- `approvals`: approvals, prepared and decided
- `approval_documents`: an approval as it is shown
- `artifacts`: files of conversations
- `conversations`: conversations and their messages
- `events`: the log, in pages and as a stream
- `grants`: remembered grants
- `keys`: approver keys
- `passkeys`: passkeys and their ceremonies
- `questions`: questions and answers to them
- `question_documents`: a question as it is shown
- `revocations`: access tokens that are refused
- `runs`: runs
- `run_documents`: a run as it is shown
- `skills`: skills
- `tools`: the tools there are
- `mcp_servers`: MCP servers
- `memory`: what a conversation remembers
- `service`: what the service tells of itself
"""
