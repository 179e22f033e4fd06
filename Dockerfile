FROM python:3.11-slim AS build
WORKDIR /src
COPY requirements.lock pyproject.toml README.md LICENSE ./
RUN python -m venv /opt/tally && /opt/tally/bin/pip install --no-cache-dir -r requirements.lock
COPY pipeline pipeline
COPY schemas schemas
COPY sketches sketches
RUN /opt/tally/bin/pip install --no-cache-dir --no-deps .

FROM python:3.11-slim
RUN useradd --create-home --uid 10001 tally
COPY --from=build /opt/tally /opt/tally
USER tally
WORKDIR /home/tally
ENV PYTHONUNBUFFERED=1
ENTRYPOINT ["/opt/tally/bin/tally"]
CMD ["--help"]
