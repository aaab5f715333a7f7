"""The console script: ``dplace`` and ``python -m dplace``."""

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    from dplace.commands.app import app

    app()


if __name__ == "__main__":
    main()
