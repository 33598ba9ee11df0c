# syntax=docker/dockerfile:1
# The GPU image. The wheels of PyTorch carry CUDA: the host needs a driver and the NVIDIA container toolkit.
#   docker build -f docker/gpu.Dockerfile -t worldline:gpu .
#   docker run --rm --gpus 1 -p 127.0.0.1:8000:8000 -e WORLDLINE_ALLOW_UNAUTHENTICATED=true \
#     -v /path/to/checkpoint:/checkpoint:ro -e WORLDLINE_MODEL=/checkpoint worldline:gpu
# FlashAttention is taken where FLASH_ATTN names a wheel that fits this Python, PyTorch and CUDA:
#   --build-arg FLASH_ATTN=https://...whl
FROM python:3.12-slim

ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /srv/worldline

# Dependencies first, so that a change of the code does not install them again.
COPY pyproject.toml docker/requirements.py ./
RUN python requirements.py trace > /tmp/requirements.txt \
    && pip install -r /tmp/requirements.txt \
    && rm /tmp/requirements.txt requirements.py
ARG FLASH_ATTN=""
RUN if [ -n "$FLASH_ATTN" ]; then pip install --no-deps "$FLASH_ATTN" einops; fi

COPY README.md LICENSE ./
COPY app app
COPY sessions sessions
COPY engine engine
COPY attention attention
COPY kvcache kvcache
COPY static static
COPY checkpoints checkpoints
RUN pip install --no-deps --editable . && python -m compileall -q app sessions engine attention kvcache

RUN useradd --system --uid 10001 --home-dir /tmp --shell /usr/sbin/nologin worldline \
    && install -d -o worldline -g worldline /var/lib/worldline
USER 10001
VOLUME /var/lib/worldline
ENV HOME=/tmp WORLDLINE_HOST=0.0.0.0 WORLDLINE_PORT=8000 WORLDLINE_DATA=/var/lib/worldline WORLDLINE_LOG_FORMAT=json
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
EXPOSE 8000

# Alive, not ready: a container that loads its model, or drains, must not be restarted.
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=2)"]
CMD ["worldline", "serve"]
