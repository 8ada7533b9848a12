"""Every number of the turn (turn.md 2.2, 3, 8, 10). What bounds arguments is `engine.arguments`."""

from __future__ import annotations

from typing import Final

# Steps of one turn.
DEFAULT_MAX_STEPS: Final = 8
MALFORMED_STEPS_IN_A_ROW: Final = 3
DENIAL_REPROMPTS: Final = 2

# Dialling a provider, up to its first chunk.
MAX_RETRIES: Final = 3
RETRY_BASE_S: Final = 0.5
RETRY_CAP_S: Final = 8.0
RETRY_MAX_EXPONENT: Final = 16
RETRY_AFTER_LIMIT_S: Final = 120.0

# Calls of one batch that run at the same time; the others wait, already started in the log.
BATCH_CONCURRENCY: Final = 32

# Results, streams, and what the model is told about its arguments.
RESULT_CAP_BYTES: Final = 64 * 1024
STREAM_BOUND: Final = 64
SCHEMA_PROBLEMS: Final = 5
SCHEMA_PROBLEM_CHARS: Final = 300

# Questions of one `ask_question` call, options of one question, and the characters of each text.
MAX_QUESTIONS: Final = 3
MIN_OPTIONS: Final = 2
MAX_OPTIONS: Final = 4
HEADER_CHARS: Final = 12
QUESTION_CHARS: Final = 300
LABEL_CHARS: Final = 60
CONSEQUENCE_CHARS: Final = 200

# Delegations of one batch and of one turn: the default, and what no option exceeds.
DELEGATE_FANOUT: Final = 4
DELEGATE_FANOUT_LIMIT: Final = 16
DELEGATE_BUDGET: Final = 8
DELEGATE_BUDGET_LIMIT: Final = 64
