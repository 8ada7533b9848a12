"""`python -m app.cli`: the same command where no script is installed."""

from app.cli.commands import app

app()
