# Writes ddp_train_more.txt: 24 runs of the MLP of ddp_train.txt, trained by torch's real
# DistributedDataParallel (gloo) on 1, 2 and 4 ranks.
#
#   python3 test/golden/ddp_train.py > test/golden/ddp_train_more.txt
#
# The head of ddp_train.txt says how weights and data are made.  The f64 path is one process over
# the whole batch.
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

nn = torch.nn
OPTIMIZERS = {
    "sgd lr .1": lambda p: torch.optim.SGD(p, lr=.1),
    "sgd lr .1 momentum .9 wd .01": lambda p: torch.optim.SGD(p, lr=.1, momentum=.9,
                                                              weight_decay=.01),
    "sgd lr .1 momentum .9 nesterov": lambda p: torch.optim.SGD(p, lr=.1, momentum=.9,
                                                                nesterov=True),
    "adam lr .01": lambda p: torch.optim.Adam(p, lr=.01),
    "adamw lr .01 wd .01": lambda p: torch.optim.AdamW(p, lr=.01, weight_decay=.01),
}
KNOWN = {(2, "sgd lr .1 momentum .9 wd .01", None, 1), (2, "adamw lr .01 wd .01", .5, 1),
         (2, "sgd lr .1", None, 2)}


def make(dtype):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(),
                          nn.Linear(16, 4)).to(dtype)
    for q, p in enumerate(model.parameters()):
        j = torch.arange(p.numel())
        p.data.copy_(((((7 * j + 11 * q + 3) % 17) - 8).double() / 32).view_as(p))
    return model


def grid(rank, step, columns, numbers):
    a, b, c, d, modulus, middle, divisor = numbers
    n = torch.arange(4).view(-1, 1)
    i = torch.arange(columns).view(1, -1)
    return (((a * rank + b * step + c * n + d * i) % modulus) - middle).double() / divisor


def x_of(rank, step, dtype):
    return grid(rank, step, 8, (31, 13, 5, 3, 13, 6, 8)).to(dtype)


def y_of(rank, step, dtype):
    return grid(rank, step, 4, (17, 7, 3, 5, 11, 5, 4)).to(dtype)


def update(model, optimizer, clip):
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1e30 if clip is None else clip)
    optimizer.step()
    total = sum(p.detach().double().sum().item() for p in model.parameters())
    squares = sum((p.detach().double() ** 2).sum().item() for p in model.parameters())
    return norm.item(), total, squares


def in_f64(world, name, clip, accumulation):
    model = make(torch.float64)
    optimizer = OPTIMIZERS[name](model.parameters())
    for step in range(6):
        optimizer.zero_grad()
        for rank in range(world):
            for k in range(accumulation):
                t = step * accumulation + k
                loss = nn.functional.mse_loss(model(x_of(rank, t, torch.float64)),
                                              y_of(rank, t, torch.float64))
                (loss / accumulation / world).backward()
        yield update(model, optimizer, clip)[2]


def train(rank, world, name, clip, accumulation, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.set_num_threads(1)
    ddp = nn.parallel.DistributedDataParallel(make(torch.float32))
    optimizer = OPTIMIZERS[name](ddp.parameters())
    for step in range(6):
        optimizer.zero_grad()
        mean = torch.zeros(1, dtype=torch.float64)
        for k in range(accumulation):
            t = step * accumulation + k

            def backward():
                loss = nn.functional.mse_loss(ddp(x_of(rank, t, torch.float32)),
                                              y_of(rank, t, torch.float32))
                (loss / accumulation).backward()
                mean.add_(loss.item() / accumulation / world)

            if k + 1 < accumulation:
                with ddp.no_sync():
                    backward()
            else:
                backward()
        dist.all_reduce(mean)
        norm, total, squares = update(ddp, optimizer, clip)
        if rank == 0:
            results.put((mean.item(), norm, total, squares))
    dist.destroy_process_group()


if __name__ == "__main__":
    print("# torch", torch.__version__)
    context = mp.get_context("fork")
    for world in (1, 2, 4):
        for name in OPTIMIZERS:
            for clip, accumulation in ((None, 1), (.5, 1), (None, 2)):
                yet = (world, name, clip, accumulation)
                has_momentum = name.startswith("sgd lr .1 m")
                if yet in KNOWN or (clip and has_momentum) or (accumulation > 1 and
                                                               name != "sgd lr .1"):
                    continue
                results = context.SimpleQueue()
                ranks = [context.Process(target=train, args=(rank, *yet, results))
                         for rank in range(world)]
                for process in ranks:
                    process.start()
                print(f"## W={world}  {name}  clip={clip}  accumulation={accumulation}")
                for step, f64 in enumerate(in_f64(*yet)):
                    loss, norm, total, squares = results.get()
                    print(f"  step {step}: mean loss {loss:.9f}  grad norm {norm:.9f}  "
                          f"sum w {total:.9f}  sum w^2 {squares:.9f}  (f64 path {f64:.9f})")
                for process in ranks:
                    process.join()
