import doctest

from dplace.runtime import reason as module
from dplace.runtime.reason import reason


def test_the_example_holds() -> None:
    assert doctest.testmod(module).failed == 0


def test_what_onnxruntime_says_of_itself_is_left_out() -> None:
    text = (
        "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Non-zero status code returned while running "
        "Reshape node. Name:'' Status Message: /onnxruntime_src/onnxruntime/core/providers/cpu/"
        "tensor/reshape_helper.h:47 onnxruntime::ReshapeHelper::ReshapeHelper(const "
        "onnxruntime::TensorShape&, onnxruntime::TensorShapeVector&, bool) input_shape_size == "
        "size was false. Input shape:{3}\n"
    )
    assert reason(RuntimeError(text)) == (
        "Non-zero status code returned while running Reshape node. Name:'' Status Message: "
        "input_shape_size == size was false. Input shape:{3}"
    )
    text = (
        "/onnxruntime_src/include/onnxruntime/core/framework/op_kernel_context.h:45 const T* "
        "onnxruntime::OpKernelContext::Input(int) const [with T = onnxruntime::Tensor] Missing: x"
    )
    assert reason(RuntimeError(text)) == "Missing: x"


def test_an_error_without_a_word_has_its_name_and_a_long_one_is_cut() -> None:
    assert reason(KeyboardInterrupt()) == "KeyboardInterrupt"
    assert len(reason(RuntimeError("x" * 1000))) == 400
