"""Every error that dplace raises on purpose, and the exit code a command ends with.

```
DplaceError                    1  a fault in the input or the plan
├── InputError                 1  a model, option value or file that the user gave
│   ├── ModelError             1  the ONNX model
│   └── ClusterError           1  the cluster or a device profile
├── PlanError                  1  a plan folder that cannot be used
├── UsageError                 2  options that do not go together
├── MemoryLimitError           3  no placement fits in the devices' memory
└── DeviceLostError            4  a device or a peer was lost while running
```

A message is one line: which thing, what was expected, what was got, what to do.

    try:
        answer = dplace.place("model.onnx", cluster="2xCPU")
    except dplace.MemoryLimitError as error:
        print(error)
"""

__all__ = [
    "ClusterError",
    "DeviceLostError",
    "DplaceError",
    "InputError",
    "MemoryLimitError",
    "ModelError",
    "PlanError",
    "UsageError",
]


class DplaceError(Exception):
    """Base of all errors that a user can cause; anything else is a bug and keeps its traceback."""

    exit_code = 1


class InputError(DplaceError):
    """A file, a value or an option that was given cannot be used."""


class ModelError(InputError):
    """The ONNX model is broken or holds something that cannot be placed."""


class ClusterError(InputError):
    """The cluster description is broken or names hardware that is not known."""


class PlanError(DplaceError):
    """A plan folder is incomplete, was changed, or was made by another version."""


class UsageError(DplaceError):
    """Options that do not go together."""

    exit_code = 2


class MemoryLimitError(DplaceError):
    """No placement fits in the memory of the devices."""

    exit_code = 3


class DeviceLostError(DplaceError):
    """A device or a peer was lost while running."""

    exit_code = 4
