import torch

from engine.tiny.muon import Muon, orthogonal

torch.set_num_threads(1)


def test_updates_are_about_orthogonal_whatever_the_shape() -> None:
    generator = torch.Generator().manual_seed(0)
    for shape in ((3, 16, 16), (3, 8, 24), (3, 24, 8)):
        singular = torch.linalg.svdvals(orthogonal(torch.randn(shape, generator=generator), torch.float32))
        assert float(singular.min()) > 0.5
        assert float(singular.max()) < 1.4


def test_muon_fits_a_linear_map() -> None:
    generator = torch.Generator().manual_seed(0)
    target = torch.randn(8, 8, generator=generator)
    weight = torch.nn.Parameter(torch.zeros(8, 8))
    optimizer = Muon([weight], lr=0.05, weight_decay=0.0)
    for step in range(300):
        optimizer.param_groups[0]["lr"] = 0.05 * (1 - step / 300)
        loss = (weight - target).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) < 0.02 * float(target.pow(2).mean())
