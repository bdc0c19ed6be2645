# Writes torch_training.txt: losses of small models that the real torch trains, on the CPU.
#
#   python3 test/golden/torch_training.py > test/golden/torch_training.txt
#
# Weights and data are dyadic numbers of closed formulas, so that tests rebuild them exactly.  Every
# line is: case, step, loss, norm of the gradients, sum of the weights, sum of their squares; `f64`
# cases are the same computed in f64.
import math
import torch

torch.set_num_threads(1)


def fill_mlp(model):
    for q, parameter in enumerate(model.parameters()):
        j = torch.arange(parameter.numel())
        values = (((7 * j + 11 * q + 3) % 17) - 8).double() / 32
        parameter.data.copy_(values.view_as(parameter))


def grid(rows, columns, a, b, c, t, modulus, offset, divisor):
    n = torch.arange(rows).view(-1, 1)
    i = torch.arange(columns).view(1, -1)
    return (((a * t + b * n + c * i) % modulus) - offset).double() / divisor


def print_step(name, step, loss, norm, model):
    total = sum(p.detach().double().sum().item() for p in model.parameters())
    squares = sum((p.detach().double() ** 2).sum().item() for p in model.parameters())
    print(f"{name} {step} {loss:.9g} {norm:.9g} {total:.9g} {squares:.9g}")


def train_mlp(name, make, clip, dtype):
    nn = torch.nn
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(),
                          nn.Linear(16, 4)).to(dtype)
    fill_mlp(model)
    optimizer = make(model.parameters())
    for step in range(6):
        x = grid(4, 8, 13, 5, 3, step, 13, 6, 8).to(dtype)
        y = grid(4, 4, 7, 3, 5, step, 11, 5, 4).to(dtype)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        print_step(name, step, loss.item(), norm.item(), model)


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1,
                                          weight_decay=0.01),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True,
                                          weight_decay=0.01),
    "sgd-maximize": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.5, weight_decay=0.01,
                                              maximize=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adam-decay": lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1),
    "adam-amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.5, 0.6), amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "adamw-decay": lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.8, 0.95), eps=1e-6,
                                               weight_decay=0.1),
    "adamw-amsgrad": lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.5, 0.6), amsgrad=True,
                                                 maximize=True),
}


# The language models of `kernbench run --bench train`: its defaults, whose text is
# benches/train/text.txt.
VOCABULARY, HIDDEN, HEADS, LAYERS, SEQUENCE, BATCH, STEPS = 128, 32, 2, 2, 16, 2, 50
LEARNING_RATE = 1e-2


def weight(q, shape, bound):
    numel = math.prod(shape)
    j = torch.arange(numel, dtype=torch.int64)
    bits = ((j + 1) * 2654435761 + (q + 1) * 40503 * 65537) % (1 << 32)
    return (((bits >> 15) % 1024 - 512).double() / 512 * bound).view(shape)


class Attention(torch.nn.Module):
    def forward(self, q, k, v):  # [batch, heads, s, d]
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        mask = torch.ones(q.shape[-2], q.shape[-2]).tril() == 0
        return torch.softmax(scores.masked_fill(mask, -math.inf), -1) @ v


def heads_of(x):
    return x.view(BATCH, SEQUENCE, HEADS, HIDDEN // HEADS).transpose(1, 2)


def merged(x):
    return x.transpose(1, 2).reshape(BATCH * SEQUENCE, HIDDEN)


class GptBlock(torch.nn.Module):
    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.ln1 = nn.LayerNorm(HIDDEN)
        self.q = nn.Linear(HIDDEN, HIDDEN)
        self.k = nn.Linear(HIDDEN, HIDDEN)
        self.v = nn.Linear(HIDDEN, HIDDEN)
        self.proj = nn.Linear(HIDDEN, HIDDEN)
        self.ln2 = nn.LayerNorm(HIDDEN)
        self.fc1 = nn.Linear(HIDDEN, 4 * HIDDEN)
        self.fc2 = nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        h = self.ln1(x)
        a = Attention()(heads_of(self.q(h)), heads_of(self.k(h)), heads_of(self.v(h)))
        x = x + self.proj(merged(a))
        return x + self.fc2(torch.nn.functional.gelu(self.fc1(self.ln2(x))))


class Gpt(torch.nn.Module):
    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.wte = nn.Embedding(VOCABULARY, HIDDEN)
        self.wpe = nn.Embedding(SEQUENCE, HIDDEN)
        self.blocks = nn.ModuleList(GptBlock() for _ in range(LAYERS))
        self.ln = nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, tokens):
        positions = torch.arange(SEQUENCE).repeat(BATCH)
        x = self.wte(tokens) + self.wpe(positions)
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


class RmsNorm(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(size))

    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.weight


def rotated(x):  # [batch, heads, s, d]
    half = x.shape[-1] // 2
    i = torch.arange(half, dtype=torch.float64)
    angles = torch.outer(torch.arange(SEQUENCE, dtype=torch.float64), 10000 ** (-i / half))
    cos = torch.cat([angles.cos(), angles.cos()], 1).to(x.dtype)
    sin = torch.cat([angles.sin(), angles.sin()], 1).to(x.dtype)
    turned = torch.cat([-x[..., half:], x[..., :half]], -1)
    return x * cos + turned * sin


class LlamaBlock(torch.nn.Module):
    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.norm1 = RmsNorm(HIDDEN)
        self.q = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.k = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.v = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.proj = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.norm2 = RmsNorm(HIDDEN)
        self.gate = nn.Linear(HIDDEN, 4 * HIDDEN, bias=False)
        self.up = nn.Linear(HIDDEN, 4 * HIDDEN, bias=False)
        self.down = nn.Linear(4 * HIDDEN, HIDDEN, bias=False)

    def forward(self, x):
        h = self.norm1(x)
        a = Attention()(rotated(heads_of(self.q(h))), rotated(heads_of(self.k(h))),
                        heads_of(self.v(h)))
        x = x + self.proj(merged(a))
        h = self.norm2(x)
        return x + self.down(torch.nn.functional.silu(self.gate(h)) * self.up(h))


class Llama(torch.nn.Module):
    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.wte = nn.Embedding(VOCABULARY, HIDDEN)
        self.blocks = nn.ModuleList(LlamaBlock() for _ in range(LAYERS))
        self.norm = RmsNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.wte(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def fill_language_model(model):
    for q, parameter in enumerate(model.parameters()):
        if parameter.dim() == 2:
            parameter.data.copy_(weight(q, tuple(parameter.shape), 1 / 8))


# Models in f16 and bf16, which the CPU's torch cannot compute in f16: each operator computes in f32
# and rounds its result, forward and backward, as on a device.
def rounding(function, dtype):
    return lambda *inputs: function(*(x.float() for x in inputs)).to(dtype)


def in_type(model, dtype):
    for module in model.modules():
        kind = type(module)
        if kind in (torch.nn.Linear, torch.nn.LayerNorm, torch.nn.Embedding):
            module.to(dtype)
    linear, norm, gelu, add = (rounding(f, dtype) for f in (
        torch.nn.functional.linear,
        lambda x, w, b: torch.nn.functional.layer_norm(x, (HIDDEN,), w, b),
        torch.nn.functional.gelu, torch.add))
    scores = rounding(lambda q, k: q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), dtype)
    product = rounding(torch.matmul, dtype)
    mask = torch.ones(SEQUENCE, SEQUENCE).tril() == 0
    softmax = rounding(lambda x: torch.softmax(x.masked_fill(mask, -math.inf), -1), dtype)

    def apply(layer, x):
        if isinstance(layer, torch.nn.LayerNorm):
            return norm(x, layer.weight, layer.bias)
        return linear(x, layer.weight) if layer.bias is None else \
            linear(x, layer.weight, layer.bias)

    def forward(tokens):
        x = add(model.wte(tokens), model.wpe(torch.arange(SEQUENCE).repeat(BATCH)))
        for b in model.blocks:
            h = apply(b.ln1, x)
            q, k, v = (heads_of(apply(layer, h)) for layer in (b.q, b.k, b.v))
            x = add(x, apply(b.proj, merged(product(softmax(scores(q, k)), v))))
            x = add(x, apply(b.fc2, gelu(apply(b.fc1, apply(b.ln2, x)))))
        return apply(model.head, apply(model.ln, x)).float()

    return forward


# Megatron's Float16OptimizerWithFloat16Params: AdamW on masters in f32, clipped; the loss is scaled.
class Masters:
    def __init__(self, model, scale):
        self.model = list(model.parameters())
        self.main = [p.detach().float().requires_grad_() for p in self.model]
        self.adamw = torch.optim.AdamW(self.main, lr=LEARNING_RATE)
        self.scale = scale

    def step(self):
        for own, main in zip(self.model, self.main):
            main.grad = own.grad.float() / self.scale
            own.grad = None
        norm = torch.nn.utils.clip_grad_norm_(self.main, 1.0)
        self.adamw.step()
        for own, main in zip(self.model, self.main):
            own.data.copy_(main.data)
        return norm


def train_language_model(name, make, dtype):
    rounded = dtype if dtype in (torch.float16, torch.bfloat16) else None
    torch.set_default_dtype(torch.float32 if rounded else dtype)
    with open("benches/train/text.txt", "rb") as file:
        text = torch.tensor(list(file.read()))
    model = make()
    for module in model.modules():
        if isinstance(module, torch.nn.Linear) and module.bias is not None:
            module.bias.data.zero_()
    fill_language_model(model)
    forward = in_type(model, rounded) if rounded else model
    scale = 4096 if rounded == torch.float16 else 1
    optimizer = (Masters(model, scale) if rounded
                 else torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE))
    for step in range(STEPS):
        starts = [(step * BATCH + row) * 97 % (len(text) - SEQUENCE - 1) for row in range(BATCH)]
        tokens = torch.cat([text[s:s + SEQUENCE] for s in starts])
        targets = torch.cat([text[s + 1:s + 1 + SEQUENCE] for s in starts])
        if rounded:
            loss = torch.nn.functional.cross_entropy(forward(tokens), targets)
            (loss * scale).backward()
            norm = optimizer.step()
            print_step(name, step, loss.item(), norm.item(), model)
            continue
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(tokens), targets)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print_step(name, step, loss.item(), norm.item(), model)


if __name__ == "__main__":
    print("# torch", torch.__version__)
    for key, make in OPTIMIZERS.items():
        train_mlp(key, make, 1e9, torch.float32)
        train_mlp(key + "-f64", make, 1e9, torch.float64)
    train_mlp("adamw-clip", OPTIMIZERS["adamw"], 0.25, torch.float32)
    train_mlp("adamw-clip-f64", OPTIMIZERS["adamw"], 0.25, torch.float64)
    for key, make in {"gpt": Gpt, "llama": Llama}.items():
        train_language_model(key, make, torch.float32)
        train_language_model(key + "-f64", make, torch.float64)
    for key, dtype in {"gpt-f16": torch.float16, "gpt-bf16": torch.bfloat16}.items():
        train_language_model(key, Gpt, dtype)
