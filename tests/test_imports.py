"""Who may import whom (the layout of the project), checked on the syntax tree of every file."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("app", "sessions", "engine", "attention", "kvcache")
MAY_IMPORT = {
    "app": ("app", "sessions", "engine.api"),
    "sessions": ("sessions", "engine.api"),
    "engine": ("engine", "attention", "kvcache"),
    "attention": ("attention",),
    "kvcache": ("kvcache",),
}
OUTSIDE = {
    "sessions": {"sqlalchemy"},
    "attention": {"torch", "flash_attn"},
    "kvcache": {"torch"},
}
BORDER = "engine/api/"  # crosses the process border: the standard library alone
WITHOUT_TORCH = ("app/", "sessions/", "engine/pattern/", "engine/media/", "engine/camera/reducer")
BOOKKEEPING = ("pool", "table", "ledger", "capacity", "budget")  # of kvcache


def sources() -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for name in PACKAGES for path in (ROOT / name).rglob("*.py"))


def imported(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse((ROOT / source).read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source}:{node.lineno}: imports are absolute"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def broken_rules(source: str, module: str) -> Iterator[str]:
    package, top = source.split("/")[0], module.split(".")[0]
    ours = top in PACKAGES
    if (
        ours
        and source != "app/bootstrap.py"
        and not any(within(module, name) for name in MAY_IMPORT[package])
    ):
        yield f"{package} may import {', '.join(MAY_IMPORT[package])}"
    if not ours and package in OUTSIDE and top not in sys.stdlib_module_names | OUTSIDE[package]:
        yield f"{package} may import the standard library and {', '.join(sorted(OUTSIDE[package]))}"
    if source.startswith(BORDER) and top not in sys.stdlib_module_names and not within(module, "engine.api"):
        yield "the border may import the standard library alone"
    if top in ("fastapi", "starlette", "uvicorn") and package != "app":
        yield f"{top} appears in app alone"
    if top == "torch" and source.startswith(WITHOUT_TORCH):
        yield "this part runs without torch"
    if top == "torch" and package == "kvcache" and any(word in Path(source).stem for word in BOOKKEEPING):
        yield "bookkeeping runs without torch"


@pytest.mark.parametrize("source", sources())
def test_a_file_imports_only_what_its_package_may(source: str) -> None:
    broken = [
        f"{source}: {module}: {rule}" for module in imported(source) for rule in broken_rules(source, module)
    ]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize(
    ("source", "module"),
    [
        ("app/rest.py", "engine.worker.loop"),
        ("app/rest.py", "torch"),
        ("sessions/manager.py", "app.wire"),
        ("sessions/manager.py", "fastapi"),
        ("engine/world/world.py", "sessions.events"),
        ("engine/api/chunks.py", "numpy"),
        ("engine/api/engine.py", "engine.world.world"),
        ("attention/masks.py", "kvcache.ledger"),
        ("kvcache/ledger.py", "torch"),
    ],
)
def test_the_rules_refuse_what_the_layout_forbids(source: str, module: str) -> None:
    assert list(broken_rules(source, module))


def test_only_the_bootstrap_reaches_into_the_engine() -> None:
    assert not list(broken_rules("app/bootstrap.py", "engine.worker.process"))


@pytest.mark.parametrize("module", ["app.main", "app.cli", "app.bootstrap", "app.client"])
def test_the_server_imports_no_torch(module: str) -> None:
    program = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0
