"""`python -m app.cli`: the same command where no script is installed."""

from app.cli.commands import app

if __name__ == "__main__":
    app()
