import warnings
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from attention.backends import BACKENDS
from attention.backends.flash import FlashBackend
from attention.backends.sdpa import SdpaBackend
from attention.capabilities import Needs
from attention.declaration import Computation, Declaration
from attention.errors import BackendRefused, BackendUnavailable
from attention.layer import Attention
from attention.masks import build_mask
from attention.packing import pack_self
from attention.selection import BackendFallback, BackendPolicy, ResolvedPath, Selector

torch.set_num_threads(1)


class InstalledFlash(FlashBackend):
    """As on a machine that has the library and a device."""

    def unavailable(self) -> str | None:
        return None


GPU = {**BACKENDS, "flash": InstalledFlash()}


def declare(role="world.self", heads=4, kv_heads=4, head_dim=64) -> Declaration:
    return Declaration(Computation.SELF, role, heads, kv_heads, head_dim)


def needs(**changes) -> Needs:
    on_gpu = Needs(1, 180, 1080, 4, 4, 64, torch.bfloat16, torch.device("cuda"), 0.125)
    return replace(on_gpu, **changes)


@pytest.mark.parametrize(
    ("policy", "chosen"),
    [
        (BackendPolicy(), ("sdpa", "platform")),
        (BackendPolicy(default="math"), ("math", "default")),
        (BackendPolicy(categories={"world": "sdpa"}, default="math"), ("sdpa", "category world")),
        (BackendPolicy({"world.self": "math"}, {"world": "sdpa"}, "sdpa"), ("math", "role world.self")),
        (BackendPolicy({"world.cross": "math"}, {"text": "math"}), ("sdpa", "platform")),
    ],
)
def test_the_exact_role_goes_before_its_category_and_that_before_the_default(policy, chosen) -> None:
    attend = Attention(declare(), policy)
    q = torch.zeros(1, 2, 4, 64)
    attend(q, q, q)
    assert attend.path == ResolvedPath(*chosen)


def test_flash_is_the_choice_of_a_platform_that_has_it() -> None:
    backend, path = Selector(declare(), backends=GPU).select(needs())
    assert backend.name == "flash" and path == ResolvedPath("flash", "platform")
    backend, path = Selector(declare()).select(needs())
    assert backend.name == ("sdpa" if BACKENDS["flash"].unavailable() else "flash")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"dtype": torch.float32}, "dtype torch.float32 (it has torch.bfloat16, torch.float16)"),
        ({"mask_kind": frozenset({"kv_valid", "q_valid"})}, "masks of kind kv_valid"),
        ({"mask_kind": frozenset({"pair_additive"})}, "masks of kind pair_additive"),
    ],
)
def test_an_automatic_choice_that_cannot_serve_falls_back_with_one_warning(change, reason) -> None:
    selector = Selector(declare(), backends=GPU)
    told = f"attention role 'world.self': flash lacks {reason}; using sdpa"
    with pytest.warns(BackendFallback) as warned:
        for length in (180, 181):
            backend, path = selector.select(needs(query_length=length, **change))
            assert backend.name == "sdpa"
            assert path == ResolvedPath("sdpa", "fallback", "flash", reason)
    assert [str(warning.message) for warning in warned] == [told]


def test_layers_of_one_role_warn_once_between_them() -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("default")
        for _ in range(3):
            Selector(declare("many.layers"), backends=GPU).select(needs(dtype=torch.float32))
    assert len(warned) == 1


def test_an_automatic_choice_fails_where_nothing_can_serve() -> None:
    with pytest.raises(BackendRefused, match=r"it lacks device xpu .*, and no other backend has it"):
        Selector(declare()).select(needs(device=torch.device("xpu")))


def test_the_log_sum_exp_comes_from_who_has_it() -> None:
    with pytest.warns(BackendFallback, match="sdpa lacks the log-sum-exp on cuda"):
        backend, _ = Selector(declare(), backends={k: BACKENDS[k] for k in ("sdpa", "math")}).select(
            needs(partial=True)
        )
    assert backend.name == "math"
    assert Selector(declare(), backends=GPU).select(needs(partial=True))[0].name == "flash"
    on_cpu = needs(partial=True, device=torch.device("cpu"))
    assert Selector(declare()).select(on_cpu)[0].name == "sdpa"


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ({"dtype": torch.float32}, "dtype torch.float32"),
        ({"device": torch.device("cpu")}, "device cpu"),
        ({"mask_kind": frozenset({"kv_valid"})}, "masks of kind kv_valid"),
        ({"mask_kind": frozenset({"causal"})}, "masks of kind causal"),
    ],
)
def test_flash_by_name_says_what_it_lacks(change, missing) -> None:
    selector = Selector(declare(), BackendPolicy(default="flash"), GPU)
    with pytest.raises(BackendRefused, match=f"'flash' can't serve this request: it lacks {missing}"):
        selector.select(needs(**change))


@pytest.mark.parametrize(("head_dim", "missing"), [(264, "at most 256"), (100, "multiples of 8")])
def test_flash_by_name_is_held_against_the_declaration_when_the_layer_is_built(head_dim, missing) -> None:
    with pytest.raises(BackendRefused, match=rf"it lacks head dim {head_dim} \({missing}\)"):
        Attention(declare(head_dim=head_dim), BackendPolicy(default="flash"), GPU)


@pytest.mark.skipif(BACKENDS["flash"].unavailable() is None, reason="this machine has it")
def test_flash_by_name_is_refused_where_it_cannot_run() -> None:
    with pytest.raises(BackendUnavailable, match=r"library is not installed|there is no CUDA device"):
        Attention(declare(), BackendPolicy(default="flash"))


class CountingSdpa(SdpaBackend):
    def __init__(self) -> None:
        self.bound = 0

    def bind(self, needs):
        self.bound += 1
        return super().bind(needs)


def test_a_path_is_resolved_again_only_when_geometry_or_mask_kind_change() -> None:
    backend = CountingSdpa()
    attend = Attention(declare(head_dim=8), backends={**BACKENDS, "sdpa": backend})
    q, k = torch.randn(2, 3, 4, 8), torch.randn(2, 5, 4, 8)
    some, others = (
        build_mask(batch=2, query_length=3, kv_length=5, kv_valid=torch.rand(2, 5) < 0.9) for _ in "ab"
    )
    for mask, bound in ((None, 1), (None, 1), (some, 2), (others, 2), (None, 2)):
        attend(q, k, k, mask)
        assert backend.bound == bound
    attend(q[:, :2], k, k)
    assert backend.bound == 3


class CudnnWatch(torch.overrides.TorchFunctionMode):
    """Notes whether cuDNN could be picked whenever attention is called."""

    def __init__(self) -> None:
        super().__init__()
        self.allowed: list[bool] = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is scaled_dot_product_attention:
            self.allowed.append(torch.backends.cuda.cudnn_sdp_enabled())
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("queries", "keys", "fenced"), [(1, 5, True), (5, 1, True), (1, 1, True), (2, 5, False)]
)
@pytest.mark.parametrize("masked", [False, True])
def test_length_one_never_reaches_cudnn(queries, keys, fenced, masked) -> None:
    wanted = needs(query_length=queries, kv_length=keys, dtype=torch.float32)
    mask = None
    if masked:
        mask = build_mask(batch=1, query_length=queries, kv_length=keys, kv_valid=torch.ones(1, keys) > 0)
        wanted = replace(wanted, mask_kind=mask.kind)
    kernel = SdpaBackend().bind(wanted)  # made for a GPU; here it runs on what there is
    q, k = torch.randn(1, queries, 4, 64), torch.randn(1, keys, 4, 64)
    before = torch.backends.cuda.cudnn_sdp_enabled()
    with CudnnWatch() as watch:
        kernel(q, k, k, mask)
    assert watch.allowed == [before and not fenced]
    assert torch.backends.cuda.cudnn_sdp_enabled() is before


def test_a_packed_document_of_length_one_never_reaches_cudnn() -> None:
    wanted = needs(query_length=6, kv_length=6, dtype=torch.float32, packing=pack_self([0, 3, 4, 6]))
    q = torch.randn(1, 6, 4, 64)
    with CudnnWatch() as watch:
        SdpaBackend().bind(wanted)(q, q, q, None)
    assert watch.allowed == [True, False, True]
