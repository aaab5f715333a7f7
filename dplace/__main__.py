"""The console script: ``dplace`` and ``python -m dplace``."""

__all__ = ["main"]


def main() -> None:
    """Run the command line and leave with its exit code."""
    import gc

    # A graph of thousands of ops is hundreds of thousands of objects that stay: looking through
    # them as often as Python does by itself takes a twentieth of the time of placing it.
    gc.set_threshold(50_000, 20, 100)
    from dplace.commands.app import main as run

    run()


if __name__ == "__main__":
    main()
