"""Code of Python models that wait for ever."""

AT_START = """\
import threading


class TritonPythonModel:
    def initialize(self, args):
        print("initializing", flush=True)
        threading.Event().wait()
"""
AT_END = """\
import threading


class TritonPythonModel:
    def execute(self, requests):
        return None

    def finalize(self):
        print("finalizing", flush=True)
        threading.Event().wait()
"""
