"""Who decides: each policy turns a Problem into a Placement.

Read policy.py first; all policies see the same problem and are judged by the same simulator,
through one ``Evaluator``. A policy is one function in a file of its own.
"""

from dplace.policies.policy import POLICIES, Answer, Policy, answer_for, default_evaluations, place

__all__ = ["POLICIES", "Answer", "Policy", "answer_for", "default_evaluations", "place"]
