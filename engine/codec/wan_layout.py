"""From diffusers' AutoencoderKLWan to the layers that stream (Wan 2.1: no residual sampling, no patches)."""

from __future__ import annotations

from typing import Any

from diffusers.models.autoencoders.autoencoder_kl_wan import (
    AutoencoderKLWan,
    WanAttentionBlock,
    WanResample,
    WanResidualBlock,
)

from engine.codec.wan_layers import Conv, Downsample, FrameAttention, Layer, Norm, Residual, Upsample


def encoder_layers(vae: AutoencoderKLWan) -> tuple[Layer, ...]:
    """Pixels in -1..1 to the moments of the latent."""
    network = vae.encoder
    return (
        _conv(network.conv_in),
        *(_block(block) for block in network.down_blocks),
        *_middle(network.mid_block),
        _norm(network.norm_out),
        _conv(network.conv_out),
        _conv(vae.quant_conv),
    )


def decoder_layers(vae: AutoencoderKLWan) -> tuple[Layer, ...]:
    """Latents to pixels."""
    network = vae.decoder
    layers: list[Layer] = [
        _conv(vae.post_quant_conv),
        _conv(network.conv_in),
        *_middle(network.mid_block),
    ]
    for block in network.up_blocks:
        layers += [_block(one) for one in block.resnets]
        layers += [_block(one) for one in block.upsamplers or ()]
    return (*layers, _norm(network.norm_out), _conv(network.conv_out))


def flush_frames(vae: AutoencoderKLWan) -> int:
    """Blank latent frames after which the encoder's latents don't depend on the first picture.

    Latent frame t is followed back through the layers to the earliest frame that it sees; a convolution sees
    two frames more, and where time is halved, frame j is made of frames 2 j - 2 to 2 j.
    """
    network = vae.encoder
    latent = 1
    while _earliest(network, latent) < 1:
        latent += 1
    return latent - 1


def _earliest(network: Any, latent: int) -> int:
    frame = latent - 2 - 4 * len(network.mid_block.resnets)
    for block in reversed(network.down_blocks):
        if isinstance(block, WanResidualBlock):
            frame -= 4
        elif isinstance(block, WanResample) and block.mode == "downsample3d":
            frame = 2 * frame - 2
    return frame - 2


def _middle(block: Any) -> tuple[Layer, ...]:
    first, *others = block.resnets
    layers: list[Layer] = [_block(first)]
    for attention, residual in zip(block.attentions, others, strict=True):
        layers += [_block(attention), _block(residual)]
    return tuple(layers)


def _block(block: Any) -> Layer:
    if isinstance(block, WanResidualBlock):
        inner = (_norm(block.norm1), _conv(block.conv1), _norm(block.norm2), _conv(block.conv2))
        straight = isinstance(block.conv_shortcut, type(block.conv1))
        return Residual(inner, _conv(block.conv_shortcut) if straight else None)
    if isinstance(block, WanAttentionBlock):
        return FrameAttention(_norm(block.norm, silu=False), _conv(block.to_qkv), _conv(block.proj))
    assert isinstance(block, WanResample), f"a block of the autoencoder is unknown: {type(block).__name__}"
    return _resample(block)


def _resample(block: Any) -> Layer:
    space = block.resample[1]
    time = _conv(block.time_conv) if block.mode.endswith("3d") else None
    if block.mode.startswith("upsample"):
        return Upsample(_conv(space), time)
    assert block.mode.startswith("downsample"), block.mode
    return Downsample(_conv(space).taps[0], space.bias, time)


def _conv(module: Any) -> Conv:
    stride = module.stride[0] if len(module.stride) == 3 else 1
    return Conv.of(module.weight, module.bias, stride)


def _norm(module: Any, silu: bool = True) -> Norm:
    return Norm(module.gamma.flatten().contiguous(), silu)
