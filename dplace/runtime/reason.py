"""What onnxruntime says when it fails, in a form that fits one line."""

import re

__all__ = ["reason"]

MAX_LENGTH = 400

# "/onnxruntime_src/.../reshape_helper.h:47 onnxruntime::ReshapeHelper::ReshapeHelper(...) "
SOURCE = re.compile(r"/\S*onnxruntime\S*:\d+ [^()]*\([^()]*\)( const)?( \[with [^\]]*\])? ")


def reason(error: BaseException) -> str:
    r"""Return an error's message as one line, without onnxruntime's code and its source files.

    >>> reason(RuntimeError("[ONNXRuntimeError] : 1 : FAIL : Load model failed:\n no such file"))
    'Load model failed: no such file'
    """
    text = " ".join(str(error).split()) or type(error).__name__
    if text.startswith("[ONNXRuntimeError] : "):
        text = text.split(" : ", maxsplit=3)[-1]
    text = SOURCE.sub("", text)
    return text if len(text) <= MAX_LENGTH else text[: MAX_LENGTH - 3] + "..."
