import subprocess
import sys

PROGRAM = """
import pkgutil, importlib, sys
import engine.worker, engine.world, engine.checkpoint
for package in (engine.worker, engine.world, engine.checkpoint):
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
print([name for name in sys.modules if name.startswith("engine.tiny")])
"""


def test_nothing_that_serves_imports_the_tiny_worlds_programs() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
