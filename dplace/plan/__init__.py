"""The plan folder: write it, read it, prove that it is whole.

The plan is the contract between placing and running; it may be copied to another machine.
"""

__all__: list[str] = []
