# The worker beside the GPU: the frame from the core lock, the engine from a lock made for this CUDA and GPU.
# `requirements/worker-gpu.lock` is not in the repository; `uv pip compile` writes it, with hashes, on the build machine.
# Not built where this was written (no registry in reach): the digest below is a placeholder of the right form.
ARG CUDA_IMAGE=nvidia/cuda@sha256:0000000000000000000000000000000000000000000000000000000000000000

FROM ${CUDA_IMAGE} AS build
WORKDIR /build
COPY requirements/core.lock requirements/worker-gpu.lock requirements/
RUN python3 -m venv /opt/penstock \
    && /opt/penstock/bin/pip install --no-cache-dir --require-hashes -r requirements/worker-gpu.lock \
    && /opt/penstock/bin/pip install --no-cache-dir --require-hashes -r requirements/core.lock
COPY platform/penstock /opt/penstock/src/penstock

FROM ${CUDA_IMAGE}
LABEL org.opencontainers.image.title="penstock-worker"
COPY --from=build --chown=10001:10001 /opt/penstock /opt/penstock
ENV PATH=/opt/penstock/bin:$PATH PYTHONPATH=/opt/penstock/src PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1
USER 10001:10001
EXPOSE 8090 8100
ENTRYPOINT ["python3", "-c", "from penstock.apps.cli import app; app()"]
CMD ["worker", "--help"]
