"""``dplace simulate``: what a plan folder is predicted to take."""

from dplace.commands.options import Json, PlanFolder
from dplace.commands.terminal import warn, write_json, write_table

__all__ = ["simulate"]


def simulate(plan: PlanFolder, json: Json = False) -> None:
    """Predict how long a plan takes, without running it.

    Example: dplace simulate plan
    """
    import dplace.api

    answer = dplace.api.simulate(plan)
    warn(answer.warnings)
    if json:
        write_json(answer.as_json())
    else:
        from dplace.report.table import simulate_table

        write_table(simulate_table(answer))
