"""The console script: ``dplace`` and ``python -m dplace``."""

__all__ = ["main"]


def main() -> None:
    """Run the command line and leave with its exit code."""
    from dplace.commands.app import main as run

    run()


if __name__ == "__main__":
    main()
