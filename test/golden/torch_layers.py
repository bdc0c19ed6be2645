# Writes torch_layers.txt: what layers of the real torch compute, in f64, and their gradients.
#
#   python3 test/golden/torch_layers.py > test/golden/torch_layers.txt
#
# Parameters and inputs are dyadic numbers of closed formulas, so that tests rebuild them exactly.
# Every line is: case, tensor, elements.
import math
import torch

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)


def numbers(shape, a, b, modulus, offset, divisor):
    i = torch.arange(math.prod(shape))
    return (((a * i + b) % modulus - offset).double() / divisor).view(shape)


def leaf(*arguments):
    return numbers(*arguments).requires_grad_()


def show(case, name, tensor):
    print(case, name, *(f"{x:.9g}" for x in tensor.detach().flatten().tolist()))


def show_all(case, output, **leaves):
    output.backward(numbers(output.shape, 3, 0, 7, 3, 4))
    show(case, "out", output)
    for name, tensor in leaves.items():
        show(case, "d" + name, tensor.grad)


def attend(case, causal=False, padding=False, batch_first=False):
    mha = torch.nn.MultiheadAttention(8, 2, batch_first=batch_first)
    for q, parameter in enumerate(mha.parameters()):
        parameter.data.copy_(numbers(parameter.shape, 7, 11 * q + 3, 17, 8, 32))
    s, t, b = 3, 4, 2
    q = leaf([b, s, 8] if batch_first else [s, b, 8], 5, 1, 13, 6, 4)
    k = leaf([b, t, 8] if batch_first else [t, b, 8], 3, 2, 11, 5, 4)
    v = leaf([b, t, 8] if batch_first else [t, b, 8], 7, 3, 9, 4, 4)
    mask = torch.full([s, t], -math.inf).triu(1) if causal else None
    padded = None
    if padding:
        padded = torch.zeros(b, t, dtype=torch.bool)
        padded[1, 3] = True
    out, _ = mha(q, k, v, key_padding_mask=padded, attn_mask=mask)
    show_all(case, out, query=q, key=k, value=v, in_proj_weight=mha.in_proj_weight,
             in_proj_bias=mha.in_proj_bias)


def attend_in_groups():
    q = leaf([2, 4, 3, 8], 5, 1, 13, 6, 4)
    k = leaf([2, 2, 5, 8], 3, 2, 11, 5, 4)
    v = leaf([2, 2, 5, 8], 7, 3, 9, 4, 4)
    mask = numbers([3, 5], 5, 2, 7, 3, 2)
    scores = q @ k.repeat_interleave(2, 1).transpose(-2, -1) / math.sqrt(8) + mask
    out = torch.softmax(scores, -1) @ v.repeat_interleave(2, 1)
    show_all("gqa", out, query=q, key=k, value=v)


print("# torch", torch.__version__)
attend("mha")
attend("mha-causal", causal=True)
attend("mha-padding", padding=True)
attend("mha-batch-first", batch_first=True)
attend_in_groups()
