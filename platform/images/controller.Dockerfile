# The controller: CPU only, one active of two. Built from the repository root; the bases are named by digest at build time.
# Not built where this was written (no registry in reach): the digest below is a placeholder of the right form.
ARG PYTHON_IMAGE=python@sha256:0000000000000000000000000000000000000000000000000000000000000000

FROM ${PYTHON_IMAGE} AS build
WORKDIR /build
COPY requirements/core.lock requirements/core.lock
RUN python -m venv /opt/penstock \
    && /opt/penstock/bin/pip install --no-cache-dir --require-hashes -r requirements/core.lock
COPY platform/penstock /opt/penstock/src/penstock

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="penstock-controller"
COPY --from=build --chown=10001:10001 /opt/penstock /opt/penstock
ENV PATH=/opt/penstock/bin:$PATH PYTHONPATH=/opt/penstock/src PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
EXPOSE 8081
ENTRYPOINT ["python", "-c", "from penstock.apps.cli import app; app()"]
CMD ["controller"]
