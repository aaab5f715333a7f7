"""``dplace policies``: the learned policies that come with dplace."""

from dplace.commands.options import Json
from dplace.commands.terminal import write_json, write_table

__all__ = ["policies"]


def policies(json: Json = False) -> None:
    """List the learned policies that come with dplace: family, results, and what trained them.

    Example: dplace policies

    dplace place MODEL --policy placeto takes the one that fits the model.
    """
    import dplace.api

    listed = dplace.api.shipped_policies()
    if json:
        write_json(listed.as_json())
    else:
        from dplace.report.learning_table import policies_table

        write_table(policies_table(listed))
