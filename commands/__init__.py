"""The command line: one file a verb, each reads options, calls dplace.api and prints.

Start with app.py. No torch, dgl, numba or onnxruntime is imported when a module here is.
"""

__all__: list[str] = []
