"""The real world model in the worker process. The server only names this package, it never imports it."""

from engine.native.host import NativeHost, make_host

__all__ = ["NativeHost", "make_host"]
