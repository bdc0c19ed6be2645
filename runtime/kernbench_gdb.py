"""gdb for kernbench: prints tensors and simulated times, shows the stack of each rank and kernel.

In gdb: source runtime/kernbench_gdb.py.  debugging.md says how it is used.
"""

import re

import gdb
import gdb.printing
import gdb.unwinder

NO_TYPES = "the library has no debug info of its types: see 'Types' in debugging.md"


def word(enumerator):
    """kernbench::Shard::row_wise -> row_wise"""
    return str(enumerator).rsplit("::", 1)[-1]


def text_of(std_string):
    return std_string["_M_dataplus"]["_M_p"].string(length=int(std_string["_M_string_length"]))


def text_of_view(view):
    return view["_M_str"].string(length=int(view["_M_len"])) if int(view["_M_len"]) else ""


def text_of_time(picoseconds):
    """Exact, in nanoseconds, as kernbench::to_string(Time)."""
    sign = "-" if picoseconds < 0 else ""
    whole, rest = divmod(abs(picoseconds), 1000)
    return "%s%d%s ns" % (sign, whole, (".%03d" % rest).rstrip("0") if rest else "")


def text_of_shape(shape):
    return "[%s]" % ", ".join(str(int(shape["sizes_"]["_M_elems"][i])) for i in range(int(shape["rank_"])))


def vector(value):
    begin, end = value["_M_impl"]["_M_start"], value["_M_impl"]["_M_finish"]
    return [(begin + i).dereference() for i in range(int(end - begin))]


class TimePrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return text_of_time(int(self.value["__r"]))


class ShapePrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return text_of_shape(self.value)


class TensorPrinter:
    """What a tensor is and where it lies.  Values on a device are in no memory before they are read."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        storage = self.value["storage_"]["_M_ptr"]
        if int(storage) == 0:
            return "undefined tensor"
        try:
            storage = storage.cast(gdb.lookup_type("kernbench::Tensor::Storage").pointer())
        except gdb.error:
            return "tensor at 0x%x (%s)" % (int(storage), NO_TYPES)
        tensor = storage.dereference()
        shape, dtype = text_of_shape(tensor["shape"]), word(tensor["dtype"])
        if int(tensor["simulation"]["_M_ptr"]) == 0:
            return "host tensor %s %s: %s" % (shape, dtype, self.elements(tensor))
        policy = tensor["dp"]
        placement = "cube=%s, pe=%s" % (word(policy["cube"]), word(policy["pe"]))
        for limit in ("num_cubes", "num_pes"):
            if int(policy[limit]):
                placement += ", %s=%d" % (limit, int(policy[limit]))
        return "tensor '%s' %s %s (%s) on device %d, %d shards%s" % (
            text_of(tensor["name"]), shape, dtype, placement, int(tensor["device"]), len(vector(tensor["shards"])),
            ", %d uses under way" % int(tensor["uses"]) if int(tensor["uses"]) else "")

    @staticmethod
    def elements(tensor):
        count = int(tensor["shape"]["numel_"])
        begin = tensor["host"]["_M_ptr"].dereference()["_M_impl"]["_M_start"] + int(tensor["first"])
        shown = ["%g" % float((begin + i).dereference()) for i in range(min(count, 8))]
        return "[%s%s]" % (", ".join(shown), ", ..." if count > len(shown) else "")


class Printers(gdb.printing.PrettyPrinter):
    PRINTERS = (
        (re.compile(r"^std::chrono::duration<long, std::ratio<1, 1000000000000> ?>$"), TimePrinter),
        (re.compile(r"^kernbench::Shape$"), ShapePrinter),
        (re.compile(r"^kernbench::Tensor$"), TensorPrinter),
    )

    def __init__(self):
        super().__init__("kernbench")

    def __call__(self, value):
        name = value.type.strip_typedefs().unqualified().name or ""
        for pattern, printer in self.PRINTERS:
            if pattern.match(name):
                return printer(value)
        return None


class FrameId:
    def __init__(self, sp, pc):
        self.sp = sp
        self.pc = pc


class ParkedFrames(gdb.unwinder.Unwinder):
    """Puts the frames of a fiber that does not run above the frame in which the thread stands.

    No register is written, so it works on a core dump, too, and execution goes on as if nothing had been.
    """

    def __init__(self):
        super().__init__("kernbench-fiber")
        self.context = None  # what Boost.Context has saved on the stack that is shown
        self.where = None    # the stack pointer of the thread's own innermost frame

    def show(self, context):
        self.context = None
        gdb.invalidate_cached_frames()
        self.where = int(gdb.newest_frame().read_register("rsp")) if context else None
        self.context = context
        gdb.invalidate_cached_frames()

    def __call__(self, pending):
        if not self.context or int(pending.read_register("rsp")) != self.where:
            return None
        base = self.context
        slot = gdb.lookup_type("unsigned long")
        info = pending.create_unwind_info(FrameId(pending.read_register("rsp"), pending.read_register("rip")))
        # As jump_fcontext of x86-64 leaves them.
        for register, offset in (("r12", 0x08), ("r13", 0x10), ("r14", 0x18), ("r15", 0x20), ("rbx", 0x28),
                                 ("rbp", 0x30), ("rip", 0x38)):
            info.add_saved_register(register, gdb.Value(base + offset).cast(slot.pointer()).dereference())
        info.add_saved_register("rsp", gdb.Value(base + 0x40).cast(slot))
        return info

    def first_frame(self):
        """Of the stack that is shown: behind the thread's own innermost frame, and what is inlined in it."""
        frame = gdb.newest_frame()
        while frame is not None and int(frame.read_register("rsp")) == self.where:
            frame = frame.older()
        return frame


PARKED = ParkedFrames()


def atomic(value):
    return value["_M_b"]["_M_p"] if value.type.strip_typedefs().name.endswith("*>") else value["_M_i"]


def schedulers():
    """One for each simulation of the process."""
    try:
        watch = gdb.parse_and_eval("*(unsigned long*)&'kernbench::runtime::(anonymous namespace)::watches'")
        scheduler = gdb.lookup_type("kernbench::runtime::FiberScheduler")
        watch_type = gdb.lookup_type("kernbench::runtime::FaultWatch")
    except gdb.error as error:
        raise gdb.GdbError("%s (%s)" % (NO_TYPES, error))
    offset = next(f.bitpos // 8 for f in scheduler.fields() if f.name == "fault_watch_")
    found = []
    address = int(watch)
    while address:
        found.append(gdb.Value(address - offset).cast(scheduler.pointer()).dereference())
        address = int(gdb.Value(address).cast(watch_type.pointer()).dereference()["next_"])
    return found[::-1]


def live_fibers():
    """(number, scheduler, fiber), the oldest first; the numbers hold until the program goes on."""
    number = 0
    for scheduler in schedulers():
        fiber = scheduler["oldest_"]
        while int(fiber):
            number += 1
            yield number, scheduler, fiber.dereference()
            fiber = fiber.dereference()["next_"]


def state_of(fiber):
    return word(fiber["state_"]["value_"]["_M_i"])


def name_of(fiber):
    """As Fiber::name(): fibers of the runtime have their rank or kernel in a FiberLocal."""
    own = text_of(fiber["name_"])
    if own or not int(fiber["local_"]):
        return own or "fiber"
    local = fiber["local_"].cast(gdb.lookup_type("kernbench::runtime::FiberLocal").pointer()).dereference()
    kind = word(local["kind"])
    if kind != "kernel":
        return "%s %d" % (kind, int(local["rank"]))
    pe = local["pe"]
    return "kernel '%s' on sip%d.cube%d.pe%d" % (
        text_of_view(local["kernel"]), int(pe["sip"]), int(pe["cube"]), int(pe["pe"]))


def last_call_of(fiber):
    if not int(fiber["local_"]):
        return ""
    local = fiber["local_"].cast(gdb.lookup_type("kernbench::runtime::FiberLocal").pointer()).dereference()
    call = local["last_call"]
    function, path = atomic(call["function"]), atomic(call["file"])
    if not int(function):
        return ""
    sequence = int(atomic(call["sequence"]))
    where = " at %s:%d" % (path.string().rsplit("/", 1)[-1], int(atomic(call["line"]))) if int(path) else ""
    return "; its last call: %s%s%s" % (function.string(), "#%d" % sequence if sequence >= 0 else "", where)


def now_of(scheduler):
    return text_of_time(int(scheduler["engine_"].referenced_value()["queue_"]["now_"]))


class Kernbench(gdb.Command):
    """Ranks and kernels of kernbench, each of which is a fiber."""

    def __init__(self):
        super().__init__("kernbench", gdb.COMMAND_STACK, prefix=True)


class Fibers(gdb.Command):
    """kernbench fibers: lists all ranks and kernels that have not returned, with what they are in."""

    def __init__(self):
        super().__init__("kernbench fibers", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        last = None
        for number, scheduler, fiber in live_fibers():
            if last is None or scheduler.address != last:
                last = scheduler.address
                print("simulation at 0x%x, now %s" % (int(last), now_of(scheduler)))
            state = state_of(fiber)
            since = " since %s" % text_of_time(int(fiber["waits_since_"]["__r"])) if state == "waiting" else ""
            print("%4d  %s: %s%s%s" % (number, name_of(fiber), state, since, last_call_of(fiber)))
        if last is None:
            print("no rank and no kernel lives")


class Fiber(gdb.Command):
    """kernbench fiber N: shows the stack of fiber N until the program goes on, as frames 1, 2, ...
kernbench fiber main: likewise that of the engine, below the fiber that runs.
kernbench fiber: shows the stack of the thread again."""

    def __init__(self):
        super().__init__("kernbench fiber", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        if not argument:
            PARKED.show(None)
        else:
            PARKED.show(self.context(argument))
            PARKED.first_frame().select()
            gdb.execute("frame")

    @staticmethod
    def context(argument):
        for number, scheduler, fiber in live_fibers():
            runs = state_of(fiber) == "running" and int(atomic(scheduler["current_"])) == int(fiber.address)
            if argument == "main" and runs:
                return int(fiber["other_side_"])
            if argument == str(number):
                if runs:
                    raise gdb.GdbError("this fiber runs: 'bt' of the simulating thread shows it")
                if state_of(fiber) == "starting":
                    raise gdb.GdbError("this fiber has no stack yet")
                return int(fiber["other_side_"])
        raise gdb.GdbError("no such fiber: 'kernbench fibers' lists them" if argument != "main" else
                           "no fiber runs: 'bt' of the simulating thread shows the engine")


# Frames that are the same on every stack: how a fiber is switched, and how a worker is called.
HIDDEN = re.compile(r"FiberScheduler::|switch_sides|Multiprocessing|World::|/boost/context/|/(spawn|fiber_switch)\.")


class Stacks(gdb.Command):
    """kernbench stacks: the frames of each fiber that is parked, without those of the standard library."""

    def __init__(self):
        super().__init__("kernbench stacks", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        for number, scheduler, fiber in live_fibers():
            print("%4d  %s: %s" % (number, name_of(fiber), state_of(fiber)))
            if state_of(fiber) not in ("waiting", "ready"):
                continue
            PARKED.show(int(fiber["other_side_"]))
            try:
                self.print_frames(PARKED.first_frame())
            finally:
                PARKED.show(None)

    @staticmethod
    def print_frames(frame):
        while frame is not None and frame.is_valid():
            where = frame.find_sal()
            path = where.symtab.filename if where.symtab else ""
            name = frame.name() or ""
            if path and "/include/c++/" not in path and not HIDDEN.search(name + path):
                print("        %s at %s:%d" % (name.split("(")[0], path.rsplit("/", 1)[-1], where.line))
            frame = frame.older()


class Values(gdb.Command):
    """kernbench values EXPRESSION: the elements of a tensor that nothing under way uses."""

    def __init__(self):
        super().__init__("kernbench values", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        function = "'kernbench::to_string(kernbench::Tensor const&)'"
        call = "((std::string (*)(const kernbench::Tensor&))%s)(%s)" % (function, argument)
        print(gdb.parse_and_eval(call).format_string())


gdb.printing.register_pretty_printer(None, Printers(), replace=True)
gdb.unwinder.register_unwinder(None, PARKED, replace=True)
gdb.events.cont.connect(lambda event: PARKED.show(None) if PARKED.context else None)
Kernbench()
Fibers()
Fiber()
Stacks()
Values()
