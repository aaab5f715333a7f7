"""What onnxruntime says when it fails, in a form that fits one line."""

__all__ = ["reason"]

MAX_LENGTH = 400


def reason(error: BaseException) -> str:
    r"""Return an error's message as one line, without onnxruntime's code.

    >>> reason(RuntimeError("[ONNXRuntimeError] : 1 : FAIL : Load model failed:\n no such file"))
    'Load model failed: no such file'
    """
    text = " ".join(str(error).split()) or type(error).__name__
    if text.startswith("[ONNXRuntimeError] : "):
        text = text.split(" : ", maxsplit=3)[-1]
    return text if len(text) <= MAX_LENGTH else text[: MAX_LENGTH - 3] + "..."
