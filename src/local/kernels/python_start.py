# Part of the Python kernel (python_channel.py): how it begins.
import builtins
import codecs
import contextlib
import faulthandler
import importlib.abc
import importlib.machinery
import os
import signal
import sys
import types


# --- modules that notebooks have ----------------------------------------------------------------------------------------
def rich(mime, method):
    def init(self, data=None, filename=None, **more):
        if data is None and filename:
            with open(filename, "rb") as f:
                data = f.read()
        self.data = data

    return {"__init__": init, method: lambda self: self.data, "__repr__": lambda self: "<%s>" % type(self).__name__}


def picture_init(self, data=None, filename=None, format=None, **more):
    if isinstance(data, str) and filename is None:
        data, filename = None, data
    if data is None:
        with open(filename, "rb") as f:
            data = f.read()
    self.data = data


def picture_bundle(self, include=None, exclude=None):
    return {"image/jpeg" if self.data[:2] == b"\xff\xd8" else "image/png": self.data}


def fill_display(module):
    names = {"HTML": 0, "Markdown": 1, "SVG": 2, "Latex": 6, "Math": 6, "JSON": 7, "Javascript": 8}
    for name, row in names.items():
        setattr(module, name, type(name, (), rich(*METHODS[row])))
    shape = {"__init__": picture_init, "_repr_mimebundle_": picture_bundle, "__repr__": lambda self: "<Image>"}
    module.Image = type("Image", (), shape)
    module.clear_output = lambda wait=False: None
    module.display = display


def fill_shell(module):
    module.get_ipython = lambda: None
    module.__path__ = []


class StandIn(importlib.abc.Loader):
    def __init__(self, fill):
        self.fill = fill

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        self.fill(module)


class LastFinder(importlib.abc.MetaPathFinder):
    """IPython where it is not installed: what code for notebooks imports from it."""

    def find_spec(self, name, path=None, target=None):
        fill = {"IPython": fill_shell, "IPython.display": fill_display}.get(name)
        if fill is None:
            return None
        return importlib.machinery.ModuleSpec(name, StandIn(fill), is_package=name == "IPython")


def take_show(module):
    module.show = lambda *a, **k: show_figures()


def take_display(module):
    module.display = display


class After(importlib.abc.Loader):
    """Another loader, and something to do afterwards."""

    def __init__(self, loader, then):
        self.loader = loader
        self.then = then

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        self.then(module)


class FirstFinder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        then = {"matplotlib.pyplot": take_show, "IPython.display": take_display}.get(name)
        if then is None:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = After(spec.loader, then)
                return spec
        return None


# --- the start ----------------------------------------------------------------------------------------------------------
def prepare():
    module = types.ModuleType("__main__")
    module.__dict__["__builtins__"] = builtins
    module.__dict__.update(__abx_shell__=shell, __abx_magic__=magic, __abx_time__=timed)
    sys.modules["__main__"] = module
    sys.argv = [""]
    codecs.register_error("abx", encode_rest)
    sys.stdout = sys.__stdout__ = make_stream(1)
    sys.stderr = sys.__stderr__ = make_stream(2)
    sys.stdin = sys.__stdin__ = NoInput()
    sys.displayhook = show_value
    builtins.input = refuse_input
    builtins.print = whole_print
    builtins.display = display
    os.environ.setdefault("MPLBACKEND", "Agg")
    os.set_inheritable(CONTROL, False)
    os.register_at_fork(after_in_child=in_child)
    sys.meta_path.insert(0, FirstFinder())
    sys.meta_path.append(LastFinder())
    sys.addaudithook(before_child)
    signal.signal(signal.SIGINT, on_interrupt)
    with contextlib.suppress(Exception):
        faulthandler.enable(2)
    return module.__dict__


def serve():
    pairs = []
    send(b"ready")
    while True:
        word, body = receive()
        if word == b"__abx_env":
            pairs.append(body)
        elif word in (b"__abx_run", b"__abx_run_e2b"):
            State.strip = word == b"__abx_run_e2b"
            run(body, pairs)
            pairs = []


space = prepare()
serve()
