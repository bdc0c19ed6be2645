# Writes torch_modules.txt: what the real torch says of modules, and the figures of its optimizers and
# schedules.
#
#   python3 test/golden/torch_modules.py > test/golden/torch_modules.txt
#
# "repr NAME" is followed by the lines of repr(module) and an empty line.  "step NAME t w..." has the
# weights after t steps, in f32; step t's gradient of element i of 6 is (w - target) times a scale:
#   w at first (i - 2) / 4, target ((3 t + 5 i) % 11 - 5) / 4, scale (1 + i) / 4
# "rate NAME t lr momentum" has what a schedule sets, in f64.
import torch
from torch import nn

torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 8)
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.ReLU()), nn.Identity()])
        self.scale = 2

    def extra_repr(self):
        return f"scale={self.scale}"


class Lines(nn.Module):
    def extra_repr(self):
        return "a=1\nb=2"


MODULES = {
    "linear": nn.Linear(3, 4),
    "linear_no_bias": nn.Linear(3, 4, bias=False),
    "embedding": nn.Embedding(10, 3),
    "layer_norm": nn.LayerNorm(8),
    "layer_norm_plain": nn.LayerNorm(8, eps=1e-6, elementwise_affine=False),
    "dropout": nn.Dropout(),
    "dropout_1": nn.Dropout(1.0),
    "gelu": nn.GELU(),
    "relu": nn.ReLU(),
    "silu": nn.SiLU(),
    "sigmoid": nn.Sigmoid(),
    "tanh": nn.Tanh(),
    "identity": nn.Identity(),
    "softmax": nn.Softmax(dim=-1),
    "log_softmax": nn.LogSoftmax(dim=1),
    "flatten": nn.Flatten(),
    "mse_loss": nn.MSELoss(),
    "l1_loss": nn.L1Loss(),
    "bce_with_logits_loss": nn.BCEWithLogitsLoss(),
    "cross_entropy_loss": nn.CrossEntropyLoss(),
    "nll_loss": nn.NLLLoss(),
    "conv1d": nn.Conv1d(4, 8, 3),
    "conv1d_all": nn.Conv1d(4, 8, 3, stride=2, padding=1, dilation=2, groups=2, bias=False),
    "conv2d": nn.Conv2d(3, 8, 3),
    "conv2d_all": nn.Conv2d(4, 8, (3, 5), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=4,
                            bias=False),
    "batch_norm_1d": nn.BatchNorm1d(8),
    "batch_norm_2d": nn.BatchNorm2d(8, eps=1e-3, momentum=0.25, affine=False,
                                    track_running_stats=False),
    "group_norm": nn.GroupNorm(2, 8, affine=False),
    "max_pool": nn.MaxPool2d(3, stride=2, padding=1),
    "max_pool_plain": nn.MaxPool2d((3, 2)),
    "avg_pool": nn.AvgPool2d(3, 2),
    "adaptive_pool": nn.AdaptiveAvgPool2d((2, 3)),
    "adaptive_pool_1": nn.AdaptiveAvgPool2d(1),
    "attention": nn.MultiheadAttention(8, 2),
    "sequential_empty": nn.Sequential(),
    "sequential": nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Sequential(nn.Dropout(0.25))),
    "list_empty": nn.ModuleList(),
    "list": nn.ModuleList([nn.Linear(2, 3), nn.Tanh()]),
    "dict": nn.ModuleDict({"b": nn.Linear(2, 3), "a": nn.ReLU()}),
    "net": Net(),
    "lines": Lines(),
}

OPTIMIZERS = {
    "rmsprop": lambda p: torch.optim.RMSprop(p),
    "rmsprop_alpha": lambda p: torch.optim.RMSprop(p, lr=0.005, alpha=0.9, eps=1e-4,
                                                   weight_decay=0.01),
    "rmsprop_momentum": lambda p: torch.optim.RMSprop(p, lr=0.001, momentum=0.9),
    "rmsprop_centered": lambda p: torch.optim.RMSprop(p, lr=0.002, centered=True),
    "rmsprop_all": lambda p: torch.optim.RMSprop(p, lr=0.001, alpha=0.75, eps=1e-3, momentum=0.5,
                                                 weight_decay=0.1, centered=True, maximize=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
    "adagrad_all": lambda p: torch.optim.Adagrad(p, lr=0.25, lr_decay=0.01, weight_decay=0.05,
                                                 initial_accumulator_value=0.5, eps=1e-4),
    "adagrad_maximize": lambda p: torch.optim.Adagrad(p, lr=0.001, maximize=True),
}


def print_steps(name, make):
    i = torch.arange(6)
    w = ((i - 2) / 4).float().requires_grad_()
    scale = (1 + i).float() / 4
    optimizer = make([w])
    for t in range(1000):
        target = ((3 * t + 5 * i) % 11 - 5).float() / 4
        w.grad = (w.detach() - target) * scale
        optimizer.step()
        if t + 1 in (1, 2, 10, 100, 500, 1000):
            print("step", name, t + 1, *(f"{x:.9g}" for x in w.tolist()))


SCHEDULES = {
    "one_cycle": ("SGD", dict(max_lr=0.1, total_steps=1000)),
    "one_cycle_epochs": ("SGD", dict(max_lr=0.3, epochs=10, steps_per_epoch=100, pct_start=0.25,
                                     anneal_strategy="linear", base_momentum=0.8,
                                     max_momentum=0.9, div_factor=10, final_div_factor=100)),
    "one_cycle_three_phase": ("Adam", dict(max_lr=0.01, total_steps=1000, three_phase=True)),
    "one_cycle_three_linear": ("RMSprop", dict(max_lr=0.02, total_steps=999, pct_start=0.4,
                                               three_phase=True, anneal_strategy="linear")),
    "one_cycle_no_momentum": ("Adagrad", dict(max_lr=0.5, total_steps=1000, pct_start=0.0,
                                              cycle_momentum=False)),
}


def print_rates(name, optimizer, arguments):
    w = torch.zeros(1, requires_grad=True)
    arguments = dict(arguments)
    made = getattr(torch.optim, optimizer)([w], lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(made, **arguments)
    steps = arguments.get("total_steps", 1000)
    for t in range(steps + 1):
        if t % 50 == 0 or t in (1, 249, 299, 300, 301, 599, 798, 799, 800, 999, 1000):
            group = made.param_groups[0]
            momentum = group["betas"][0] if "betas" in group else group.get("momentum", 0)
            print("rate", name, t, repr(float(group["lr"])), repr(float(momentum)))
        if t < steps:
            made.step()
            schedule.step()


if __name__ == "__main__":
    print("# torch", torch.__version__)
    for name, module in MODULES.items():
        print(f"repr {name}\n{module!r}\n")
    for name, make in OPTIMIZERS.items():
        print_steps(name, make)
    for name, (optimizer, arguments) in SCHEDULES.items():
        print_rates(name, optimizer, arguments)
