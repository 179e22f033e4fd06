# Tally's commands in an image: `docker run tally worker`, `docker run tally serve`.
FROM python:3.11-slim AS build
WORKDIR /src
COPY requirements.lock pyproject.toml README.md LICENSE ./
COPY pipeline pipeline
COPY schemas schemas
COPY sketches sketches
# The versions that the tests ran with, but not what only the tests need.
RUN python -m venv /opt/tally \
    && /opt/tally/bin/pip install --no-cache-dir --constraint requirements.lock .

FROM python:3.11-slim
RUN useradd --create-home --uid 10001 tally
COPY --from=build /opt/tally /opt/tally
USER tally
WORKDIR /home/tally
ENV PYTHONUNBUFFERED=1 PATH=/opt/tally/bin:$PATH XDG_CACHE_HOME=/home/tally/.cache
# The kernels' machine code is kept per user: made here, containers load it instead of compiling.
RUN /opt/tally/bin/python -m pipeline.native
# A worker answers on TALLY_METRICS, the web API on TALLY_WEB.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=6 \
    CMD ["/opt/tally/bin/python", "-m", "pipeline.container_health"]
ENTRYPOINT ["/opt/tally/bin/tally"]
CMD ["--help"]
