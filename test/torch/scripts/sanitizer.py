"""The documents' example for the sanitizer, and then what it is for: the operator on a stream that waits for nobody."""

import msmemscope
import mstx
import torch
import torch_npu
from points import finish, tell


def run_my_custom_op(tensor_a, tensor_b, tensor_c):
    a_size = tensor_a.numel() * tensor_a.element_size()
    b_size = tensor_b.numel() * tensor_b.element_size()
    c_size = tensor_c.numel() * tensor_c.element_size()
    mstx.mark(
        f"sanitizer-op: name=my_ext.my_fused_op;"
        f"read=a:{tensor_a.data_ptr()}:{a_size},"
        f"b:{tensor_b.data_ptr()}:{b_size};"
        f"write=c:{tensor_c.data_ptr()}:{c_size}",
        torch_npu.npu.current_stream().npu_stream,
    )


msmemscope.enable_npu_sanitizer()
device = torch.device("npu:0")
torch.npu.set_device(device)
tensor_a = torch.randn(1024).to(device)
tensor_b = torch.randn(512).to(device)
tensor_c = torch.empty(2048).to(device)
run_my_custom_op(tensor_a, tensor_b, tensor_c)
tell(sanitizer="")
with torch.npu.stream(torch.npu.Stream()):
    try:
        run_my_custom_op(tensor_a, tensor_b, tensor_c)
    except Exception as error:
        tell(sanitizer="\n".join(map(str, error.errors)))
finish()
